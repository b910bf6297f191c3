"""Operations whose client was killed: what releases its session waits for all that runs, and for nothing that has ended (P15)."""

import functools
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyspark.sql.connect.proto.base_pb2 import GetStatusRequest, GetStatusResponse, UserContext
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

from eventflink.taskexecutor.spark_release import SPARK_USER_ID, _Release, open_channel, preload, release_session
from eventflink.taskexecutor.task_spark import session_address
from tests.support.running_cluster import wait_until

pytestmark = pytest.mark.slow

SOON_S = 30.0
"""Far less than a release may take, and than the server keeps an answer for."""

TERMINATING = GetStatusResponse.OperationStatus.OperationState.OPERATION_STATE_TERMINATING

OPENING = """
import sys, time
import pyarrow as pa
from pyspark.sql import SparkSession

session = SparkSession.builder.remote(sys.argv[1]).create()
"""
READS_HALF = """
rows = session.range(3)
answer = session.client.to_table_as_iterator(rows._plan.to_proto(session.client), rows._plan.observations)
next(answer)
print("ready", flush=True)
time.sleep(600)
"""
READS_A_LONG_ANSWER = """
rows = session.createDataFrame(pa.table({f"n{column}": pa.array([1] * 800_000, pa.int8()) for column in range(20)}))
print("ready", flush=True)
rows.toArrow()
"""


@contextmanager
def client_that(code: str, spark: str, session_id: str) -> Iterator[None]:
    """Run code as a client of Spark in a process that is killed at the end; what it says then is of no interest."""
    command = [sys.executable, "-c", OPENING + code, session_address(spark, session_id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
            yield
        finally:
            client.kill()


def await_terminating(spark: str, session_id: str) -> None:
    """Wait until the session's one operation has its result, and has not been closed."""
    every_operation = GetStatusRequest.OperationStatusRequest()
    user = UserContext(user_id=SPARK_USER_ID)
    request = GetStatusRequest(session_id=session_id, user_context=user, operation_status=every_operation)
    channel, metadata = open_channel(spark)
    with channel:
        ask = functools.partial(SparkConnectServiceStub(channel).GetStatus, request, metadata=metadata)
        wait_until(lambda: [each.state for each in ask().operation_statuses] == [TERMINATING], "it terminates")


def executing_threads() -> int:
    """Return how many operations the server executes, which this process has started: each has a thread, whose name Linux cuts."""
    threads = [thread for each in psutil.Process().children(recursive=True) for thread in Path(f"/proc/{each.pid}/task").glob("*/comm")]
    return sum(name_of(thread).startswith("SparkConnectExe") for thread in threads)


def name_of(thread: Path) -> str:
    """Return the name of a thread; none of one that has ended."""
    try:
        return thread.read_text(encoding="utf-8")
    except OSError:
        return ""


@pytest.mark.rule("P15")
def test_a_session_is_released_at_once_though_its_client_was_killed_before_it_took_the_end_of_an_answer(spark: str) -> None:
    session_id = str(uuid.uuid4())
    with client_that(READS_HALF, spark, session_id):
        await_terminating(spark, session_id)
        wait_until(lambda: executing_threads() == 0, "it has ended")
    began_s = time.monotonic()
    release_session(spark, session_id, timeout=120.0)
    assert time.monotonic() - began_s < SOON_S


@pytest.mark.rule("P15")
def test_an_operation_that_is_interrupted_while_it_makes_its_answer_is_waited_for_and_not_closed(
    spark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    preload()
    session_id, closed = str(uuid.uuid4()), []
    monkeypatch.setattr(_Release, "_drop_answer", lambda _release, operation_id: closed.append(operation_id))
    with client_that(READS_A_LONG_ANSWER, spark, session_id):
        await_terminating(spark, session_id)
        assert executing_threads() == 1
        release_session(spark, session_id, quiet_s=0.0, timeout=120.0)
        wait_until(lambda: executing_threads() == 0, "it has ended")
    assert closed == []
