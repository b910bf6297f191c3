"""What others send cannot write a log line of its own."""

import json
import logging
import subprocess
import sys

import pytest

from eventflink.events.topics import Topic
from eventflink.leadership.log_lines import MAX_SHOWN_CHARACTERS, one_line
from eventflink.leadership.release import Releaser
from tests.support.cluster import ScriptedCluster
from tests.support.hand import ListWires


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain größer 日本 🦆", "plain größer 日本 🦆"),
        ("a\nLeadershipGranted epoch=9", "a\\nLeadershipGranted epoch=9"),
        ("a\r\0\x1b[2J", "a\\r\\x00\\x1b[2J"),
        ("\u202egnp\u2028", "\\u202egnp\\u2028"),
        ("x" * 5_000, "x" * MAX_SHOWN_CHARACTERS + "…"),
    ],
)
def test_what_cannot_be_printed_is_escaped_and_what_is_long_is_cut(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_a_dead_letter_is_one_line_of_the_log_whatever_it_holds(cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    forged = "x\nWARNING LeadershipGranted epoch=9"
    cluster.put(Topic.COMMANDS, json.dumps({"type": "CancelJob", "job_id": forged}).encode())
    cluster.settle()
    with caplog.at_level(logging.WARNING, "eventflink.leadership.release"):
        Releaser(ListWires(), "master-1").release(cluster.released[-1], 1)
    [line] = caplog.messages
    assert line.startswith("DeadLetter topic=commands offset=0 reason=")
    assert "LeadershipGranted" in line
    assert "\n" not in line


LOG = """
import logging, sys
from eventflink.cli.session import Session
logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
Session(None, {}, verbose=False).log_to_stderr("master")
logging.getLogger("eventflink.leadership.master_life").info("ApplicationStatusRecorded diagnostics=%s", sys.argv[1])
"""


def test_every_message_of_a_role_is_one_line_whoever_logs_what() -> None:
    forged = "all is well\nWARNING LeadershipGranted epoch=9 \u202egnp"
    ended = subprocess.run([sys.executable, "-c", LOG, forged], capture_output=True, text=True, check=True, timeout=120)
    said = "INFO ApplicationStatusRecorded diagnostics=all is well\\nWARNING LeadershipGranted epoch=9 \\u202egnp\n"
    assert ended.stderr == said
