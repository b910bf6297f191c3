"""What is gone or damaged of a published output is noticed by its list of files, and told with the subtask that wrote it."""

import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventflink.jobs.published import FILE_LIST, OutputNotWhole, find_damage, write_file_list
from eventflink.model.attempts import LostInput, OutputLocation
from eventflink.model.places import Place
from eventflink.taskexecutor.lost_inputs import MAX_LOST_INPUTS, InputLost, OpenedInput, OpenedInputs, failure_of


def _publish(directory: Path, *rows: int) -> OutputLocation:
    """Publish an output with files of so many rows."""
    directory.mkdir(parents=True)
    for number, count in enumerate(rows):
        pq.write_table(pa.table({"n": list(range(count))}), directory / f"part-{number}.parquet")
        (directory / f".part-{number}.parquet.crc").write_bytes(b"crc")
    (directory / "_SUCCESS").touch()
    return write_file_list("default", Place(str(directory)), sum(rows))


@pytest.fixture
def output(tmp_path: Path) -> OutputLocation:
    return _publish(tmp_path / "with space" / "attempt-1", 2, 3)


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _scramble_the_end(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-30:-8] = b"x" * 22
    path.write_bytes(data)


def _empty(directory: Path) -> None:
    for path in directory.glob("part-*"):
        path.unlink()


def _publish_again(directory: Path) -> None:
    shutil.rmtree(directory)
    _publish(directory, 2, 3, 4)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "directory": (shutil.rmtree, "is not there"),
    "a file": (lambda p: (p / "part-1.parquet").unlink(), "part-1.parquet is gone"),
    "all files": (_empty, "part-0.parquet is gone"),
    "the end of a file": (lambda p: _shorten(p / "part-0.parquet"), "bytes, and had"),
    "the sense of an end": (lambda p: _scramble_the_end(p / "part-0.parquet"), "cannot be read: "),
    "a file that is there twice": (
        lambda p: shutil.copy(p / "part-1.parquet", p / "part-2.parquet"),
        "part-2.parquet was not written by the attempt",
    ),
    "a foreign file": (lambda p: (p / "foreign.parquet").write_bytes(b"PAR1"), "foreign.parquet was not written by the attempt"),
    "a foreign directory": (lambda p: _publish(p / "more", 1), "was not written by the attempt"),
    "the list": (lambda p: (p / FILE_LIST).unlink(), "has no list of its files"),
    "nonsense for a list": (lambda p: (p / FILE_LIST).write_text("["), "is not the list of files that was written"),
    "another list": (lambda p: (p / FILE_LIST).write_text(json.dumps({"files": {}})), "is not the list of files that was written"),
    "a list without an end": (lambda p: (p / FILE_LIST).open("ab").truncate(2**30), "is not the list of files that was written"),
    "what somebody else has published": (_publish_again, "is not the list of files that was written"),
}


def test_a_whole_output_has_no_damage(output: OutputLocation) -> None:
    directory = Path(output.location)
    assert find_damage(output) is None
    assert find_damage(replace(output, location=f"file://{directory}")) is None
    sizes = {name: (directory / name).stat().st_size for name in ("part-0.parquet", "part-1.parquet")}
    assert json.loads((directory / FILE_LIST).read_text())["files"] == sizes
    assert output == OutputLocation("default", str(directory), 5, 2, sum(sizes.values()), output.digest)


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=list(DAMAGES))
def test_damage_is_found_and_named(output: OutputLocation, damage: Callable[[Path], object], said: str) -> None:
    damage(Path(output.location))
    found = find_damage(output)
    assert found is not None
    assert said in found
    assert output.location in found


def test_other_rows_than_were_written_are_damage(output: OutputLocation) -> None:
    assert (find_damage(replace(output, rows=6)) or "").endswith("has 5 rows, and 6 were written")


@pytest.mark.parametrize("rows", [(), (4,), (3, 3)])
def test_an_output_of_which_this_host_sees_other_rows_than_spark_wrote_cannot_be_published(tmp_path: Path, rows: tuple[int, ...]) -> None:
    """An executor has written to a disk of its own; or, where there is no file at all, all of them have."""
    place = tmp_path / "here"
    place.mkdir()
    for number, count in enumerate(rows):
        pq.write_table(pa.table({"n": list(range(count))}), place / f"part-{number}.parquet")
    with pytest.raises(OutputNotWhole) as raised:
        write_file_list("default", Place(str(place)), 5)
    found = f"Spark wrote 5 rows to {place}, where host {socket.gethostname()} finds {sum(rows)} in {len(rows)} files: "
    assert str(raised.value).startswith(found)
    assert "must see the same execution.working-directory" in str(raised.value)
    assert not (place / FILE_LIST).exists()


def test_no_rows_are_in_a_file_as_well(tmp_path: Path) -> None:
    """Spark writes one for the columns alone: where there is none, it is elsewhere."""
    (tmp_path / "none").mkdir()
    with pytest.raises(OutputNotWhole, match="finds 0 in 0 files"):
        write_file_list("default", Place(str(tmp_path / "none")), 0)
    assert _publish(tmp_path / "empty", 0).rows == 0


def test_an_output_that_this_host_does_not_see_cannot_be_published(tmp_path: Path) -> None:
    with pytest.raises(OutputNotWhole, match=r"Spark wrote 7 rows to .*, where host .* finds nothing \(No such file or directory\)"):
        write_file_list("default", Place(str(tmp_path / "elsewhere")), 7)


def test_an_output_with_a_file_that_cannot_be_read_cannot_be_published(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"no Parquet")
    with pytest.raises(OutputNotWhole, match="finds a file that cannot be read: "):
        write_file_list("default", Place(str(tmp_path)), 7)


def test_a_lost_input_is_refused_when_it_is_opened(output: OutputLocation) -> None:
    opened = OpenedInputs()
    opened.open(OpenedInput("rows", {0: output}))
    with pytest.raises(InputLost, match=r"input 'more' has lost what subtask 1 published: .*none is not there$"):
        opened.open(OpenedInput("more", {0: output, 1: replace(output, location=f"{output.location}/none")}))


def test_a_failure_names_what_was_lost_after_it_was_opened(output: OutputLocation) -> None:
    """User code wraps what Spark says; its own trace stays."""
    fine = _publish(Path(output.location).parent / "attempt-2", 1)
    opened = OpenedInputs([OpenedInput("rows", {3: output}), OpenedInput("fine", {0: fine})])
    error = KeyError("sum")
    assert failure_of(error, "v", opened)[1] == ()
    assert failure_of(error, "v", opened)[0].failure_type == "KeyError"
    (Path(output.location) / "part-0.parquet").unlink()
    cause, lost = failure_of(error, "v", opened)
    assert lost == (LostInput("rows", 3),)
    assert cause.failure_type == "InputLost"
    assert cause.message.startswith("vertex 'v': input 'rows' has lost what subtask 3 published: ")
    assert "KeyError: 'sum'" in (cause.stack_trace or "")


@pytest.mark.parametrize(
    ("said", "is_lost"),
    [
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{}/part-0.parquet.", True),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file://{}/part-0.parquet. File does not exist.", True),
        ("[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file://{}/part-0.parquet.", False),
        ("[DIVIDE_BY_ZERO] while {}/part-0.parquet was read", False),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{}0/part-0.parquet.", False),
    ],
)
def test_what_spark_cannot_read_is_lost_although_its_length_is_right(output: OutputLocation, said: str, *, is_lost: bool) -> None:
    opened = OpenedInputs([OpenedInput("rows", {0: output})])
    error = LookupError("of the user")
    error.__cause__ = RuntimeError(said.format(output.location.replace(" ", "%20")))
    cause, lost = failure_of(error, "v", opened)
    assert lost == ((LostInput("rows", 0),) if is_lost else ())
    assert ("Spark cannot read" in cause.message) == is_lost
    assert ("must see the same execution.working-directory" in cause.message) == ("FILE_NOT_EXIST" in said)


def test_what_is_lost_while_a_task_runs_is_found_when_it_has_written(output: OutputLocation) -> None:
    """Spark may have listed the directory before or after: whether the rows were read is not known."""
    opened = OpenedInputs()
    opened.open(OpenedInput("rows", {0: output}))
    opened.check_again()
    (Path(output.location) / "part-0.parquet").unlink()
    with pytest.raises(InputLost, match=r"subtask 0 published: .*part-0\.parquet is gone"):
        opened.check_again()


def test_a_failure_names_the_exception_that_it_goes_back_to() -> None:
    inner, outer, apart = KeyError("k"), RuntimeError("outer"), ValueError("apart")
    outer.__cause__, apart.__context__ = inner, inner
    assert failure_of(outer, "v", OpenedInputs())[0].root_type == "KeyError"
    assert failure_of(outer, "v", OpenedInputs())[0].root_message == "'k'"
    assert failure_of(apart, "v", OpenedInputs())[0].root_type == "KeyError"
    apart.__suppress_context__ = True
    assert failure_of(apart, "v", OpenedInputs())[0].root_type == ""
    inner.__context__ = outer
    assert failure_of(outer, "v", OpenedInputs())[0].failure_type == "RuntimeError", "a ring has no end, and is left after a while"


def test_what_is_told_of_many_losses_is_bounded(tmp_path: Path) -> None:
    opened = OpenedInputs([OpenedInput("rows", {i: OutputLocation("default", str(tmp_path / str(i))) for i in range(MAX_LOST_INPUTS + 5)})])
    cause, lost = failure_of(ValueError("x"), "v", opened)
    assert len(lost) == MAX_LOST_INPUTS
    assert cause.message.endswith(f"and {MAX_LOST_INPUTS + 2} more")
