"""What a guardian says was encoded by its owner, and is what the codec makes of it; so a guardian needs no codec, and loads none."""

import subprocess
import sys

import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderDeath, LeaderHang
from eventflink.events.last_words import with_text
from eventflink.events.seal import Seals
from eventflink.events.topics import Topic

TEXTS = ["", "a", "submissions@17", "x" * 63, "x" * 64, "é" * 500, "x" * 8191, "x" * 8192]
SMALL = {
    "eventflink",
    "eventflink.entrypoint",
    "eventflink.events",
    "eventflink.events.last_words",
    "eventflink.events.seal",
    "eventflink.events.topics",
    "eventflink.log",
    "eventflink.log.clients",
    "eventflink.log.last_record",
    "eventflink.model",
    "eventflink.model.cluster_access",
    "eventflink.model.cluster_secret",
    "eventflink.model.kafka_settings",
    "eventflink.model.named_keys",
    "eventflink.model.references",
    "eventflink.model.secret_files",
    "eventflink.model.secret_providers",
    "eventflink.processes",
    "eventflink.processes.file_lock",
    "eventflink.processes.guardian_process",
    "eventflink.processes.shared_note",
}
ALSO_OF_A_TASK_EXECUTOR = {
    "eventflink.events.columns",
    "eventflink.events.record_columns",
    "eventflink.model.secret_values",
    "eventflink.model.spark_engines",
    "eventflink.taskexecutor",
    "eventflink.taskexecutor.guardian_messages",
    "eventflink.taskexecutor.interrupted_operations",
    "eventflink.taskexecutor.message_lines",
    "eventflink.taskexecutor.spark_release",
}
LOADED = """
import importlib, sys, sysconfig
from pathlib import Path
before = set(sys.modules)
importlib.import_module(sys.argv[1])
packages = Path(sysconfig.get_path("purelib"))
print(*(name for name in sys.modules if name.partition(".")[0] == "eventflink"))
files = {name: Path(getattr(module, "__file__", None) or "/") for name, module in sys.modules.items() if name not in before}
print(*{name.partition(".")[0] for name, file in files.items() if packages in file.parents})
"""


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", [LeaderDeath, LeaderHang])
@pytest.mark.parametrize("seals", [Seals(), Seals((b"s" * 32,))])
def test_a_text_that_is_put_in_later_makes_the_record_that_the_codec_makes(
    text: str, kind: type[LeaderDeath | LeaderHang], seals: Seals
) -> None:
    seal = seals.of(Topic.LEADERSHIP)
    made = with_text(PayloadCodec("LeadershipEnvelope").encode(kind(12, "first-abc", "")), text)
    made = made if seal is None else seal.sealed(made)
    codec = PayloadCodec("LeadershipEnvelope", seal=seal)
    assert made == codec.encode(kind(12, "first-abc", text))
    assert codec.decode(made)[0] == kind(12, "first-abc", text)


def test_a_text_is_not_put_in_where_there_is_one_or_behind_a_seal() -> None:
    sealing = PayloadCodec("LeadershipEnvelope", seal=Seals((b"s" * 32,)).of(Topic.LEADERSHIP))
    for record in (PayloadCodec("LeadershipEnvelope").encode(LeaderDeath(1, "a", "b")), sealing.encode(LeaderDeath(1, "a", "")), b""):
        with pytest.raises(ValueError, match="does not end with an empty text and no seal"):
            with_text(record, "submissions@17")


@pytest.mark.parametrize(
    ("module", "known", "packages"),
    [
        ("eventflink.entrypoint.guardian", SMALL, {"confluent_kafka"}),
        ("eventflink.taskexecutor.guardian", SMALL | ALSO_OF_A_TASK_EXECUTOR, {"confluent_kafka", "psutil"}),
    ],
)
def test_a_guardian_loads_no_more_than_it_needs_to_wait_and_to_speak(module: str, known: set[str], packages: set[str]) -> None:
    command = [sys.executable, "-c", LOADED, module]
    ours, theirs = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    assert set(ours.split()) - known == {module}
    assert set(theirs.split()) <= packages
