"""Code archives on a host stay while a task's process uses them, and go some time after the last one did."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventflink.processes.file_lock import LockBusy
from eventflink.taskexecutor import archive_cache
from eventflink.taskexecutor.archive_cache import UNPACKING, _lock_of, hold_archive, release_unused
from eventflink.taskexecutor.task_packages import unpacked

DATA = b"code"
DIGEST = hashlib.sha256(DATA).hexdigest()
HOLDER = """
import sys
from pathlib import Path
from eventflink.taskexecutor.archive_cache import hold_archive
hold_archive(Path(sys.argv[1]), sys.argv[2], lambda: sys.exit("it is there"))
print("held", flush=True)
sys.stdin.read()
"""


def fetch_of(data: bytes, calls: list[int] | None = None) -> Callable[[], bytes]:
    def fetch() -> bytes:
        if calls is not None:
            calls.append(1)
        return data

    return fetch


def put(directory: Path, data: bytes = DATA, age_s: float = 0) -> Path:
    """Leave an archive that nobody uses."""
    path, descriptor = hold_archive(directory, hashlib.sha256(data).hexdigest(), fetch_of(data))
    os.close(descriptor)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_it_is_fetched_once_and_again_if_it_is_damaged(tmp_path: Path) -> None:
    calls: list[int] = []
    for _ in range(2):
        path, descriptor = hold_archive(tmp_path, DIGEST, fetch_of(DATA, calls))
        os.close(descriptor)
    assert len(calls) == 1
    path.write_bytes(b"other")
    path, _ = hold_archive(tmp_path, DIGEST, fetch_of(DATA, calls))
    assert len(calls) == 2
    assert path.read_bytes() == DATA


def test_an_unused_archive_goes_after_the_delay(tmp_path: Path) -> None:
    old, new = put(tmp_path, b"old", age_s=11), put(tmp_path, b"new", age_s=9)
    assert release_unused(tmp_path, 10) == 1
    assert not old.exists()
    assert new.exists()


def test_a_use_begins_the_delay_anew(tmp_path: Path) -> None:
    path = put(tmp_path, age_s=11)
    os.close(hold_archive(tmp_path, DIGEST, fetch_of(b"never asked"))[1])
    assert release_unused(tmp_path, 10) == 0
    assert path.exists()


@pytest.mark.parametrize("end", [lambda p: p.stdin.close(), lambda p: p.kill()], ids=["in order", "killed"])
def test_what_a_process_uses_stays_until_it_is_gone_and_for_the_delay_after(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    path = put(tmp_path, age_s=1000)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), DIGEST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        os.utime(path, (0, 0))  # It has run for very long.
        assert release_unused(tmp_path, 10, kept=0) == 0
        end(process)
        process.wait(120)
    assert release_unused(tmp_path, 10) == 0, "it was seen in use just now"
    os.utime(path, (0, 0))
    assert release_unused(tmp_path, 10) == 1
    assert not path.exists()


def test_of_the_unused_only_the_newest_are_kept(tmp_path: Path) -> None:
    paths = [put(tmp_path, bytes([n]), age_s=n) for n in range(5)]
    assert release_unused(tmp_path, 1000, kept=2) == 3
    assert [path.exists() for path in paths] == [True, True, False, False, False]


def test_parts_that_were_abandoned_go(tmp_path: Path) -> None:
    old, new = tmp_path / "x.part", tmp_path / "y.part"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    release_unused(tmp_path, 10)
    assert not old.exists()
    assert new.exists()


def test_who_fetches_what_another_has_stored_meanwhile_uses_that(tmp_path: Path) -> None:
    held: list[int] = []

    def fetch() -> bytes:
        held.append(hold_archive(tmp_path, DIGEST, fetch_of(DATA))[1])  # Another task is faster.
        return DATA

    path, descriptor = hold_archive(tmp_path, DIGEST, fetch)
    os.close(descriptor)
    assert release_unused(tmp_path, 0, kept=0) == 0
    assert path.read_bytes() == DATA
    os.close(held[0])


def test_many_who_hold_and_release_at_once_always_find_what_they_hold(tmp_path: Path) -> None:
    def use(number: int) -> bool:
        data = bytes([number % 3])
        path, descriptor = hold_archive(tmp_path, hashlib.sha256(data).hexdigest(), fetch_of(data))
        release_unused(tmp_path, 0, kept=0)
        whole = path.read_bytes() == data
        os.close(descriptor)
        return whole

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(300)))


def test_a_lock_that_is_not_given_back_is_told_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_cache, "_LOCK_TIMEOUT_S", 0.05)
    with _lock_of(tmp_path), pytest.raises(LockBusy, match="lock"):
        hold_archive(tmp_path, DIGEST, fetch_of(DATA))


def test_a_directory_that_is_not_there_has_nothing_to_release(tmp_path: Path) -> None:
    assert release_unused(tmp_path / "none", 0) == 0


def test_what_was_unpacked_goes_whole_or_not_at_all_though_its_removal_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next task unpacks it again: half of it would be taken for the whole."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for number in range(3):
            archive.writestr(f"package/module_{number}.py", "")
    data = written.getvalue()

    def use() -> Path:
        path, descriptor = hold_archive(tmp_path, hashlib.sha256(data).hexdigest(), fetch_of(data))
        files = unpacked(path)
        os.close(descriptor)
        return files

    def cut_off(path: Path, **_options: object) -> None:
        next(path.rglob("*.py")).unlink()

    assert len([*use().rglob("*.py")]) == 3
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", cut_off)
        assert release_unused(tmp_path, 0) == 1
    assert len([*use().rglob("*.py")]) == 3
    abandoned = tmp_path / f"x{UNPACKING}"
    (abandoned / "package").mkdir(parents=True)
    assert release_unused(tmp_path, 0) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"lock", abandoned.name}
    os.utime(abandoned, (0, 0))
    release_unused(tmp_path, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"lock"}
