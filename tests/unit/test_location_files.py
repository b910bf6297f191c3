"""Long lists of locations in files: what an order still says, who reads it, when the file goes."""

from dataclasses import replace
from pathlib import Path

import pytest

from eventflink.events.effects import TaskInput
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.statuses import ShipStrategy
from eventflink.taskexecutor.fork_server_wire import encode_line
from eventflink.taskexecutor.location_files import LocationFiles, read_locations
from eventflink.taskexecutor.message_lines import UnreadableLine
from eventflink.taskexecutor.process_events import LaunchTask
from tests.unit.test_taskexecutor_protocol import deployment


def locations(count: int, name: str = "a") -> tuple[OutputLocation, ...]:
    return tuple([OutputLocation("default", f"/{name}/ü/{n}", n, 1, 2, "digest") for n in range(count)])


def order(*ids: str, attempt: int = 1) -> LaunchTask:
    """Return an order with one list for each id; an empty one for a list that stands in the order."""
    inputs = [TaskInput(f"in{n}", ShipStrategy.HASH, ("k",), locations(400, each), locations_id=each) for n, each in enumerate(ids)]
    return LaunchTask(replace(deployment(), attempt=attempt, inputs=tuple(inputs)), "session", "blob:1")


def files_in(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


def test_a_list_is_written_once_and_read_by_every_task_that_is_told_its_file(tmp_path: Path) -> None:
    files = LocationFiles(tmp_path)
    for attempt in range(1, 4):
        original = order("one", "", "two", attempt=attempt)
        told = files.put(original)
        assert [len(each.locations) for each in told.deployment.inputs] == [0, 400, 0]
        assert len(encode_line(told)) < len(encode_line(original)) / 2
        assert read_locations(tmp_path, told) == original
        assert files_in(tmp_path) == 2


def test_a_file_goes_with_the_last_attempt_that_reads_it(tmp_path: Path) -> None:
    files = LocationFiles(tmp_path)
    first, second = files.put(order("one", "two")), files.put(order("one", attempt=2))
    files.release(AttemptId("another", "v", 0, 1))
    assert files_in(tmp_path) == 2
    files.release(first.attempt)
    assert files_in(tmp_path) == 1
    assert read_locations(tmp_path, second) == order("one", attempt=2)
    files.release(second.attempt)
    files.release(second.attempt)
    assert files_in(tmp_path) == 0
    assert read_locations(tmp_path, files.put(order("one"))) == order("one")
    files.clear()
    assert files_in(tmp_path) == 0


def test_a_list_whose_file_cannot_be_written_stays_in_the_order(tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    directory.write_text("no directory")
    files = LocationFiles(directory)
    told = files.put(order("one"))
    assert read_locations(directory, told).deployment.inputs[0].locations == locations(400, "one")
    files.release(told.attempt)
    directory.unlink()
    assert not files.put(order("one")).deployment.inputs[0].locations


@pytest.mark.parametrize("locations_id", ["../../out", "/etc/out", "a" * 5_000, "\0", "ü"])
def test_no_id_leads_out_of_the_directory(tmp_path: Path, locations_id: str) -> None:
    files = LocationFiles(tmp_path / "run" / "here")
    told = files.put(order(locations_id))
    assert not told.deployment.inputs[0].locations
    assert read_locations(tmp_path / "run" / "here", told).deployment.inputs[0].locations == locations(400, locations_id)
    assert files_in(tmp_path / "run" / "here") == files_in(tmp_path) == 1


def test_a_file_that_is_gone_or_cut_off_is_no_shorter_list(tmp_path: Path) -> None:
    told = LocationFiles(tmp_path).put(order("one"))
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UnreadableLine, match="InputLocations"):
        read_locations(tmp_path, told)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_locations(tmp_path, told)


def test_what_a_killed_one_has_left_is_gone_when_it_has_started_again(tmp_path: Path) -> None:
    LocationFiles(tmp_path).put(order("one"))
    LocationFiles(tmp_path).clear()
    assert files_in(tmp_path) == 0
    LocationFiles(tmp_path / "never made").clear()
