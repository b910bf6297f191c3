"""What the canary says to Spark, and what a TaskExecutor reads of a Spark that ended."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.proto import SQL, ExecutePlanRequest, Plan, Relation, UserContext

from eventflink.model.spark_ends import MAX_REASON_LENGTH, SparkEnd
from eventflink.taskexecutor import spark_canary
from eventflink.taskexecutor.spark_canary import EXECUTE, TRIVIAL, SparkCanary, trivial_query
from eventflink.taskexecutor.spark_release import SPARK_USER_ID
from eventflink.taskexecutor.spark_watch import ENDED_FILE, SparkWatch, await_end, last_end, note_end
from tests.support.ports import find_free_ports
from tests.support.running_cluster import wait_until


def test_its_request_is_the_one_that_sparks_own_classes_make() -> None:
    session_id = str(uuid.uuid4())
    request = ExecutePlanRequest(
        session_id=session_id,
        user_context=UserContext(user_id=SPARK_USER_ID),
        plan=Plan(root=Relation(sql=SQL(query=TRIVIAL))),
        client_type="canary",
    )
    assert trivial_query(session_id) == request.SerializeToString(deterministic=True)


class Answering(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A Spark that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0

    def service(self, details: Any) -> Any:
        def answer(_request: bytes, context: Any) -> Iterator[bytes]:
            while not self.may_answer.wait(0.02):
                if not context.is_active():
                    return
            yield b""

        assert details.method == EXECUTE
        self.asked += 1
        return grpc.unary_stream_rpc_method_handler(answer)


@pytest.fixture
def spark() -> Iterator[tuple[Answering, str]]:
    handler = Answering()
    server = grpc.server(ThreadPoolExecutor(8), handlers=[handler])
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield handler, f"sc://localhost:{port}"
    server.stop(0).wait(30)


@pytest.fixture
def canary_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SparkCanary]]:
    for name, seconds in (("INTERVAL_S", 0.05), ("LOOK_INTERVAL_S", 0.02), ("_LONGEST_STEP_S", 0.04)):
        monkeypatch.setattr(spark_canary, name, seconds)
    canaries = []

    def start(remote: str, share: float) -> SparkCanary:
        canaries.append(SparkCanary(remote, 600, lambda: share))
        canaries[-1].start()
        return canaries[-1]

    yield start
    for each in canaries:
        each.close()


def test_a_spark_that_answers_nothing_though_it_has_cores_is_ill(
    spark: tuple[Answering, str], canary_of: Callable[..., SparkCanary]
) -> None:
    canary = canary_of(spark[1], 1.0)
    why = wait_until(canary.why_ill, "it is ill")
    assert why.startswith("it answered no trivial query for 1 s, more than spark.local.answer-timeout (no answer after ")
    assert spark[0].asked >= 3, "a call that was lost is not waited for"


def test_what_a_spark_waits_for_cores_counts_little_and_an_answer_ends_all_of_it(
    spark: tuple[Answering, str], canary_of: Callable[..., SparkCanary]
) -> None:
    canary = canary_of(spark[1], 0.1)
    wait_until(lambda: spark[0].asked, "it is asked")
    # A tenth of this second counts, on a slow host less: a call is given up after 0.2 s of silence, at the soonest after two seconds.
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        assert not canary.why_ill()
        time.sleep(0.01)
    assert spark[0].asked == 1, "a call that is only slow is waited for"
    spark[0].may_answer.set()
    wait_until(lambda: spark[0].asked > 2, "it is asked again")
    assert not canary.why_ill()
    spark[0].may_answer.clear()
    why = wait_until(canary.why_ill, "it is ill in the end")
    assert "on a host so busy that it waited for cores the rest of the time" in why


def test_a_supervisor_that_stood_still_has_heard_nothing_and_says_nothing(
    spark: tuple[Answering, str], canary_of: Callable[..., SparkCanary]
) -> None:
    canary = canary_of(spark[1], 1.0)
    wait_until(lambda: spark[0].asked, "it is asked")
    time.sleep(1)
    assert not canary.why_ill()


def test_one_that_refuses_at_once_is_ill(canary_of: Callable[..., SparkCanary]) -> None:
    [port] = find_free_ports(1)
    canary = canary_of(f"sc://localhost:{port}", 1.0)
    assert "UNAVAILABLE" in wait_until(canary.why_ill, "it is ill")


def test_each_end_is_told_once_and_what_was_there_before_is_not(tmp_path: Path) -> None:
    told: list[SparkEnd] = []
    note_end(tmp_path, "before")
    watch = SparkWatch(tmp_path, told.append)
    watch.look()
    assert not told
    note_end(tmp_path, "its heap was full")
    watch.look()
    watch.look()
    assert [end.reason for end in told] == ["its heap was full"]
    assert last_end(tmp_path) == told[0] == await_end(tmp_path, told[0].ended_at_ms, 0)
    assert await_end(tmp_path, told[0].ended_at_ms + 1, 0) is None


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b"null", b'{"ended_at_ms": "x", "reason": ""}', b"{}", b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_was_never_said(tmp_path: Path, said: bytes) -> None:
    (tmp_path / ENDED_FILE).write_bytes(said)
    assert last_end(tmp_path) is None


def test_a_reason_is_bounded(tmp_path: Path) -> None:
    note_end(tmp_path, "x" * 100_000)
    end = last_end(tmp_path)
    assert end is not None
    assert len(end.reason) == MAX_REASON_LENGTH
