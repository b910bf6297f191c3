"""A disk that takes nothing is named, with what is free: shown on a real file system that is full, and on one that is read-only."""

import subprocess
import sys
from pathlib import Path

import pytest

from eventflink.processes.disk import find_fault
from eventflink.taskexecutor import spark_server
from eventflink.taskexecutor.disk_watch import DiskWatch
from eventflink.taskexecutor.spark_server import SparkServerSettings, SparkUnavailable, ensure_server

SMALL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, MS_REMOUNT, MS_RDONLY = 0x20000, 0x10000000, 32, 1
def call(name, *arguments):
    if getattr(libc, name)(*arguments):
        print("NO", name, os.strerror(ctypes.get_errno()))
        sys.exit(0)
uid, gid = os.getuid(), os.getgid()
call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)
place = sys.argv[1].encode()
call("mount", b"none", place, b"tmpfs", 0, b"size=64k")
"""
"""Mounts a file system of 64 KiB in a name space of its own, where the kernel lets us."""

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


def test_a_full_disk_and_a_read_only_one_say_so(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", SMALL + LOOK, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60)
    if ended.stdout.startswith("NO "):
        pytest.skip(f"this machine lets nobody mount a small file system: {ended.stdout.strip()}")
    usable, small, full, read_only = ended.stdout.splitlines()
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
