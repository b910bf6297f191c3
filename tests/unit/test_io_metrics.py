"""What a task read and wrote is counted from what was published, and what cannot be counted is not known."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventflink.events.effects import TaskDeployment, TaskInput
from eventflink.jobs.published import write_file_list
from eventflink.model.attempts import IOMetrics, OutputLocation
from eventflink.model.places import Place
from eventflink.model.statuses import ShipStrategy, TaskType
from eventflink.taskexecutor.io_metrics import io_metrics_of


def publish(place: Path, *files: int) -> OutputLocation:
    """Publish an output with files of so many rows."""
    place.mkdir()
    for number, rows in enumerate(files):
        pq.write_table(pa.table({"n": list(range(rows))}), place / f"part-{number}.parquet")
    return write_file_list("default", Place(str(place)), sum(files))


def bytes_of(*places: OutputLocation) -> int:
    return sum(path.stat().st_size for place in places for path in Path(place.location).glob("part-*"))


def deployment(*inputs: TaskInput, subtask_index: int = 0, parallelism: int = 2) -> TaskDeployment:
    attempt = ("job", "reader", subtask_index, 1)
    return TaskDeployment(*attempt, "slot", 0, "name", TaskType.SQL, "SELECT 1", parallelism, 8, "{}", inputs, (), ())


@pytest.fixture
def places(tmp_path: Path) -> tuple[OutputLocation, ...]:
    return (publish(tmp_path / "first", 3, 4), publish(tmp_path / "second", 5))


def test_rows_and_bytes_are_those_of_the_files_that_were_published(places: tuple[OutputLocation, ...]) -> None:
    size = bytes_of(*places)
    (Path(places[0].location) / "part-9.parquet").write_bytes(b"left by somebody else")
    assert io_metrics_of(deployment(), (), places) == IOMetrics(0, 0, 12, size)
    assert io_metrics_of(deployment(), (), []) == IOMetrics(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("ship", "parallelism", "rows"),
    [
        (ShipStrategy.FORWARD, 2, 5),
        (ShipStrategy.BROADCAST, 2, 12),
        (ShipStrategy.HASH, 1, 12),
        (ShipStrategy.REBALANCE, 1, 12),
        (ShipStrategy.HASH, 2, -1),
        (ShipStrategy.REBALANCE, 2, -1),
    ],
)
def test_what_was_read_is_what_edges_shipped_whole(
    places: tuple[OutputLocation, ...], ship: ShipStrategy, parallelism: int, rows: int
) -> None:
    told = places[1:] if ship is ShipStrategy.FORWARD else places
    reader = deployment(TaskInput("rows", ship, ("n",), told), subtask_index=1 if parallelism == 2 else 0, parallelism=parallelism)
    size = {5: bytes_of(places[1]), 12: bytes_of(*places), -1: -1}[rows]
    assert io_metrics_of(reader, {"rows"}, []) == IOMetrics(rows, size, 0, 0)
    assert io_metrics_of(reader, (), []) == IOMetrics(0, 0, 0, 0), "what was not opened was not read"
