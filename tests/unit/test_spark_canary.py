"""What the canary says to Spark, and what a TaskExecutor reads of a Spark that ended."""

import uuid
from pathlib import Path

import pytest
from pyspark.sql.connect.proto import SQL, ExecutePlanRequest, Plan, Relation, UserContext

from eventflink.model.spark_ends import MAX_REASON_LENGTH, SparkEnd
from eventflink.taskexecutor.spark_canary import TRIVIAL, trivial_query
from eventflink.taskexecutor.spark_release import SPARK_USER_ID
from eventflink.taskexecutor.spark_watch import ENDED_FILE, SparkWatch, await_end, last_end, note_end


def test_its_request_is_the_one_that_sparks_own_classes_make() -> None:
    session_id = str(uuid.uuid4())
    request = ExecutePlanRequest(
        session_id=session_id,
        user_context=UserContext(user_id=SPARK_USER_ID),
        plan=Plan(root=Relation(sql=SQL(query=TRIVIAL))),
        client_type="canary",
    )
    assert trivial_query(session_id) == request.SerializeToString(deterministic=True)


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
