"""What a TaskExecutor, its fork server, the task processes and the guardian send each other arrives as it was sent, or is refused."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob.tls import TlsFiles
from eventflink.model.attempts import FailureCause, LostInput, OutputLocation
from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.processes.guardian_process import LINE_LIMIT_BYTES
from eventflink.taskexecutor import guardian_messages
from eventflink.taskexecutor.fork_server_wire import (
    ForkServerSettings,
    ProcessForked,
    ProcessReaped,
    StopServer,
    decode_line,
    encode_line,
)
from eventflink.taskexecutor.guardian_messages import (
    GuardedInstance,
    OrderlyEnd,
    ProcessEnded,
    ProcessStarted,
    SessionOpened,
    SessionReleased,
    decode_message,
    encode_message,
)
from eventflink.taskexecutor.message_lines import UnreadableLine
from eventflink.taskexecutor.process_events import (
    EndTask,
    Failed,
    Finished,
    ForkServerReady,
    Killed,
    LaunchTask,
    ReleaseSpark,
    SparkOpened,
    SparkReleased,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.spark_server import SparkServerSettings
from tests.unit.test_taskexecutor_protocol import A, deployment

SETTINGS = ForkServerSettings(
    cluster_id="test",
    kafka=KafkaAccess("127.0.0.1:9"),
    replication_factor=1,
    working_place=Place("/work"),
    log_directory=Path("logs"),
    runtime_directory=Path("run"),
    locations_directory=Path("locations"),
    spark_server=SparkServerSettings("local", "1g"),
    kill_timeout_ms=1_000,
    with_spark=True,
    warm_processes=0,
    tls=TlsFiles(certificate=Path("c.pem"), ca=Path("ca.pem")),
    catalogs=(IcebergCatalog("lake", {"uri": "https://catalog"}),),
)
FAILED = Failed(FailureCause("ValueError", 'ä "\n\\ud800 \U0001f986', None, "r", "m"), (LostInput("left", 3),))
MESSAGES = [
    SETTINGS,
    ForkServerReady(),
    ProcessForked(7),
    ProcessReaped(7),
    StopServer(500),
    LaunchTask(deployment(A), "session", "blob:1"),
    EndTask(A, 500),
    ReleaseSpark(A, "session", "sc://h"),
    TaskLaunched(A, 7),
    TaskInitialized(A),
    SparkOpened(A, "session", "sc://h"),
    TaskProcessEnded(A, Finished((OutputLocation("default", "/a"), OutputLocation("more", "/b")), used_spark=True)),
    TaskProcessEnded(A, Killed(9)),
    TaskProcessEnded(A, FAILED),
    SparkReleased(A),
]
GUARDIAN_MESSAGES = [
    GuardedInstance("i", "c301"),
    ProcessStarted(7),
    ProcessEnded(7),
    SessionOpened("s", "sc://h"),
    SessionReleased("s"),
    OrderlyEnd(),
]


def _name(message: Any) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=_name)
def test_a_message_arrives_as_it_was_sent_on_one_line(message: Any) -> None:
    line = encode_line(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_line(line[:-1]) == message


@pytest.mark.parametrize("message", GUARDIAN_MESSAGES, ids=_name)
def test_a_guardian_is_told_what_was_said(message: guardian_messages.GuardianMessage) -> None:
    assert decode_message(encode_message(message)) == message


def test_a_line_that_a_pipe_would_not_take_whole_is_not_written() -> None:
    assert len(encode_message(SessionOpened("s", "x" * (LINE_LIMIT_BYTES - 100)))) <= LINE_LIMIT_BYTES
    with pytest.raises(ValueError, match="too long for the guardian"):
        encode_message(SessionOpened("s", "x" * LINE_LIMIT_BYTES))


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b" ", b"{}", b"os.system {}", b"EndTask", b"EndTask {}", b"EndTask null", b"EndTask [", b"EndTask \xff", b"OrderlyEnd {}"),
        b"EndTask " + b"[" * 100_000,
        b'ForkServerReady {"more":[1]}',
        b'ProcessForked {"process_id":["7"]}',
        b'ProcessForked {"process_id":[true]}',
        b'ProcessForked {"process_id":[7,8]}',
        b'ProcessForked {"process_id":[7],"more":[1]}',
        b'ProcessForked {"process_id":[' + b"9" * 10_000 + b"]}",
        rb'SparkReleased {"attempt":[["\ud800"],["a"],[0],[1]]}',
    ],
)
def test_a_line_that_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(UnreadableLine):
        decode_line(line)


def test_a_text_that_is_none_is_not_sent() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode_line(SparkOpened(A, "\ud800", ""))


def _replace_anything(value: Any, dice: random.Random, other: Any) -> Any:
    """Return the value with one place of it, at any depth, replaced."""
    if isinstance(value, dict | list) and value and dice.random() < 0.8:
        key = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value[key] = _replace_anything(value[key], dice, other)
        return value
    return other


@pytest.mark.parametrize("message", MESSAGES, ids=_name)
def test_whatever_a_task_process_writes_it_is_a_message_of_the_right_types_or_refused(message: Any) -> None:
    """What is read can be sent again: nothing of another type than the classes say comes through."""
    dice = random.Random(7)
    name, _, body = encode_line(message).partition(b" ")
    for _ in range(200):
        other: Any = dice.choice([None, -1, 10**40, "x", "\ud800", [], {}, [10**12], True, 0.5, [[]], [None], {"lengths": [10**12]}])
        line = name + b" " + json.dumps(_replace_anything(json.loads(body), dice, other)).encode()
        try:
            read = decode_line(line)
        except UnreadableLine:
            continue
        assert decode_line(encode_line(read)[:-1]) == read
