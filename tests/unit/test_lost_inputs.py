"""What is gone or damaged of a published output is noticed by its list of files, and told with the subtask that wrote it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eventflink.jobs.published import FILE_LIST, OutputInvisible, find_damage, write_file_list
from eventflink.model.attempts import LostInput
from eventflink.taskexecutor.lost_inputs import MAX_LOST_INPUTS, InputLost, OpenedInput, OpenedInputs, failure_of


def _publish(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in ("part-0.parquet", "part-1.parquet", "_SUCCESS", ".part-0.parquet.crc"):
        (directory / name).write_bytes(name.encode())
    write_file_list(directory)
    return directory


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return _publish(tmp_path / "with space" / "attempt-1")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "directory": (shutil.rmtree, "is not there"),
    "a file": (lambda p: (p / "part-1.parquet").unlink(), "part-1.parquet is gone"),
    "the end of a file": (lambda p: (p / "part-0.parquet").write_bytes(b"part"), "part-0.parquet has 4 bytes, and had 14"),
    "the list": (lambda p: (p / FILE_LIST).unlink(), "has no list of its files"),
    "nonsense for a list": (lambda p: (p / FILE_LIST).write_text("["), "cannot be read: "),
    "another list": (lambda p: (p / FILE_LIST).write_text(json.dumps({"files": {"a": "b"}})), "is not a valid list of files"),
}


def test_a_whole_output_has_no_damage(output: Path) -> None:
    assert find_damage(str(output)) is None
    assert find_damage(f"file://{output}") is None
    assert json.loads((output / FILE_LIST).read_text())["files"] == {"part-0.parquet": 14, "part-1.parquet": 14}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=list(DAMAGES))
def test_damage_is_found_and_named(output: Path, damage: Callable[[Path], object], said: str) -> None:
    damage(output)
    assert said in (find_damage(str(output)) or "")


def test_an_output_that_this_host_does_not_see_cannot_be_published(tmp_path: Path) -> None:
    with pytest.raises(OutputInvisible, match="where this host finds nothing"):
        write_file_list(tmp_path / "elsewhere")


def test_a_lost_input_is_refused_when_it_is_opened(output: Path) -> None:
    opened = OpenedInputs()
    opened.open(OpenedInput("rows", {0: str(output)}))
    with pytest.raises(InputLost, match=r"input 'more' has lost what subtask 1 published: .*none is not there$"):
        opened.open(OpenedInput("more", {0: str(output), 1: str(output / "none")}))


def test_a_failure_names_what_was_lost_after_it_was_opened(output: Path) -> None:
    """User code wraps what Spark says; its own trace stays."""
    opened = OpenedInputs([OpenedInput("rows", {3: str(output)}), OpenedInput("fine", {0: str(_publish(output.parent / "attempt-2"))})])
    error = KeyError("sum")
    assert failure_of(error, "v", opened)[1] == ()
    assert failure_of(error, "v", opened)[0].failure_type == "KeyError"
    (output / "part-0.parquet").unlink()
    cause, lost = failure_of(error, "v", opened)
    assert lost == (LostInput("rows", 3),)
    assert cause.failure_type == "InputLost"
    assert cause.message.startswith("vertex 'v': input 'rows' has lost what subtask 3 published: ")
    assert "KeyError: 'sum'" in (cause.stack_trace or "")


@pytest.mark.parametrize(
    ("said", "is_lost"),
    [
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{}/part-0.parquet.", True),
        ("[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file://{}/part-0.parquet.", False),
        ("[DIVIDE_BY_ZERO] while {}/part-0.parquet was read", False),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{}0/part-0.parquet.", False),
    ],
)
def test_what_spark_cannot_read_is_lost_although_its_length_is_right(output: Path, said: str, *, is_lost: bool) -> None:
    opened = OpenedInputs([OpenedInput("rows", {0: str(output)})])
    error = LookupError("of the user")
    error.__cause__ = RuntimeError(said.format(str(output).replace(" ", "%20")))
    cause, lost = failure_of(error, "v", opened)
    assert lost == ((LostInput("rows", 0),) if is_lost else ())
    assert ("Spark cannot read" in cause.message) == is_lost


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
    opened = OpenedInputs([OpenedInput("rows", {i: str(tmp_path / str(i)) for i in range(MAX_LOST_INPUTS + 5)})])
    cause, lost = failure_of(ValueError("x"), "v", opened)
    assert len(lost) == MAX_LOST_INPUTS
    assert cause.message.endswith(f"and {MAX_LOST_INPUTS + 2} more")
