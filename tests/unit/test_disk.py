"""A disk that takes nothing is named, with what is free: shown on a real file system that is full, and on one that is read-only."""

import subprocess
from pathlib import Path

import pytest

from eventflink.processes.disk import find_fault
from eventflink.taskexecutor import spark_server
from eventflink.taskexecutor.disk_watch import DiskWatch
from eventflink.taskexecutor.spark_server import SparkServerSettings, SparkUnavailable, ensure_server
from tests.support.small_disk import run_on_small_disk

LOOK = """
from pathlib import Path
from eventflink.processes.disk import find_fault
place = Path(sys.argv[1])
print(find_fault(place))
print(find_fault(place, 1_000_000))
try:
    with (place / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError:
    print(find_fault(place))
(place / "fill").unlink()
call("mount", b"none", place.as_posix().encode(), b"tmpfs", MS_REMOUNT | MS_RDONLY, b"size=64k")
print(find_fault(place))
"""


def test_a_directory_that_can_be_written_to_has_no_fault_and_nothing_is_left_there(tmp_path: Path) -> None:
    assert find_fault(tmp_path) == ""
    assert not list(tmp_path.iterdir())


def test_too_little_room_is_a_fault_that_says_how_much_there_is(tmp_path: Path) -> None:
    assert find_fault(tmp_path, 1 << 62).startswith(f"{tmp_path}: only ")


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert find_fault(tmp_path / "gone").startswith(f"{tmp_path}/gone: No such file or directory (what is free is not known: ")


@pytest.mark.rule("L7")
def test_a_full_disk_and_a_read_only_one_say_so(tmp_path: Path) -> None:
    usable, small, full, read_only = run_on_small_disk(tmp_path, LOOK)
    assert usable == ""
    assert small == f"{tmp_path}: only 65536 of 65536 bytes are free, less than 1000000 bytes"
    assert full == f"{tmp_path}: No space left on device (0 of 65536 bytes are free)"
    assert read_only == f"{tmp_path}: Read-only file system (65536 of 65536 bytes are free)"


def test_a_change_is_told_once_and_of_whichever_directory(tmp_path: Path) -> None:
    told: list[str] = []
    directories = [tmp_path / name for name in ("one", "two")]
    watch = DiskWatch(directories, 0, told.append)
    for directory in directories:
        watch.look()
        watch.look()
        directory.mkdir()
    assert len(told) == 1
    watch.look()
    watch.look()
    assert told == [told[0], ""]
    directories[1].rmdir()
    watch.look()
    assert told[2].startswith(f"{directories[1]}: No such file")


def test_where_spark_cannot_write_its_log_the_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log is empty then."""
    monkeypatch.setattr(spark_server, "find_fault", lambda directory: f"{directory}: No space left on device")
    (tmp_path / "spark.log").touch()
    monkeypatch.setattr(spark_server, "_spawn", lambda *_: subprocess.Popen(["false"]))
    settings = SparkServerSettings("local[1]", "1g", "", 0)
    with pytest.raises(SparkUnavailable, match=f"Spark did not start \\({tmp_path}: No space left on device\\):"):
        ensure_server(tmp_path, settings)
