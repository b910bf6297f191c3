"""Late rows in an output of their own: what a query makes of the others is the same, and no row is in both or in neither."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.model.statuses import JobStatus
from tests.support import stream_tasks
from tests.support.late_work import BATCH, EVENT_TIME, check_told_apart, reads, stream
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow

TIMEOUT_S = 360
ROWS = 140
NEXT_DAY = ROWS


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("late"), **{"spark.remote": spark}) as running:
        running.start_master()
        running.start_task_executor(slots=4)
        yield running


def records() -> list[dict[str, Any]]:
    """Return rows whose times go on by half a minute each, some up to forty minutes late, and at the end those of the next day."""
    chance = random.Random(27)
    rows: list[dict[str, Any]] = []
    for number in range(ROWS):
        late_s = chance.choice([0, 0, 0, chance.randrange(300), chance.randrange(2_400)])
        at_s = 36_000 + 30 * number - late_s
        rows.append({"number": number, "at": f"2026-11-26T{at_s // 3_600:02}:{at_s // 60 % 60:02}:{at_s % 60:02}Z"})
    rows[7]["at"] = None
    return rows + [{"number": NEXT_DAY + each, "at": "2026-11-27T12:00:00Z"} for each in range(BATCH)]


LONG = pytest.mark.soak("eventflink.streams")
"""Of a test that shows for one more kind what another test shows each time."""

WINDOWS = "SELECT collect_list(number) AS numbers FROM source GROUP BY {}"
KINDS: dict[str, tuple[str, dict[str, int]]] = {
    "windows": (WINDOWS.format("window(at, '10 minutes')"), {"window_ms": 600_000}),
    "windows that overlap": (
        WINDOWS.format("window(at, '15 minutes', '5 minutes', '3 minutes')"),
        {"window_ms": 900_000, "slide_ms": 300_000, "start_ms": 180_000},
    ),
    "sessions": (WINDOWS.format("session_window(at, '1 minute'), number % 7"), {"session_gap_ms": 60_000}),
    "no windows": ("", {}),
}


def numbers_of(cluster: RunningCluster, topic: str) -> list[int]:
    """Return the numbers that a topic has, where each record has one or several."""
    reader = CommittedReader(cluster.bootstrap, topic, 1)
    count = len(reader.read_until(bool))
    while True:
        reader.read(2)
        if len(reader.rows) == count:
            break
        count = len(reader.rows)
    reader.close()
    return sorted(number for row in reader.rows for number in row.get("numbers", [row.get("number")]))


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=LONG) if kind in ("windows", "sessions") else kind for kind in KINDS])
def test_a_row_is_either_in_the_result_or_among_the_late_ones(cluster: RunningCluster, kind: str) -> None:
    sql, windows = KINDS[kind]
    source, plain, apart, late = (create_topic(cluster.bootstrap, 1) for _ in range(4))
    rows = records()
    feed(cluster.bootstrap, source, rows)
    now = {"available_now": True}
    of_apart = reads(source, **EVENT_TIME, late_rows={"output": "late", **windows})
    vertices = [
        stream("plain", sql, reads(source, **EVENT_TIME), [plain], now),
        stream("apart", sql, of_apart, [apart, late], now),
    ]
    job_id = cluster.submit(cluster.graph(*vertices, code_archives=[cluster.user_code(Path(stream_tasks.__file__))]))
    cluster.wait_for_status(job_id, JobStatus.FINISHED, TIMEOUT_S)
    in_result, late_ones = numbers_of(cluster, apart), numbers_of(cluster, late)
    assert in_result == numbers_of(cluster, plain), "what Spark drops by itself is what goes to the other output"
    assert len(late_ones) == len(set(late_ones)) > ROWS // 50
    assert not set(late_ones) & set(in_result)
    of_time = {row["number"] for row in rows if row["at"] is not None and row["number"] < NEXT_DAY}
    assert set(late_ones) | set(in_result) >= of_time


@pytest.mark.parametrize("of", [pytest.param("source", marks=LONG), "edge"])
def test_late_rows_are_told_apart_by_an_attempt_that_goes_on_where_another_was_killed(cluster: RunningCluster, of: str) -> None:
    check_told_apart(cluster, of)
