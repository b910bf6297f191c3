"""What ended jobs leave to be done outside: gathered, because each outcome is a decision that nobody waits for; and done in its place."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.entrypoint.cleaning import Cleaner, remove_intermediate_data
from eventflink.master.effects import CleanUp
from eventflink.master.inputs import CleanupsCompleted, MasterInput
from eventflink.model.configuration import build_configuration
from eventflink.model.places import Place


def test_clean_ups_of_jobs_that_end_soon_after_each_other_have_one_outcome(tmp_path: Path) -> None:
    for job_id in ("first", "second"):
        (tmp_path / job_id / "edge").mkdir(parents=True)
    outcomes: list[MasterInput] = []

    async def clean() -> None:
        has_outcome = asyncio.Event()

        def note(outcome: MasterInput) -> None:
            outcomes.append(outcome)
            has_outcome.set()

        cleaner = Cleaner(Place(str(tmp_path)), note, lambda *_: None)
        task = asyncio.create_task(cleaner.run())
        cleaner.submit(CleanUp("first", ()))
        for _ in range(10):
            await asyncio.sleep(0)
        cleaner.submit(CleanUp("second", ()))
        async with asyncio.timeout(120):
            await has_outcome.wait()
        task.cancel()

    asyncio.run(clean())
    assert outcomes == [CleanupsCompleted(("first", "second"))]
    assert not list(tmp_path.iterdir())


def make(path: Path, *names: str) -> None:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)


def files_of(path: Path) -> list[str]:
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir())


@pytest.mark.rule("L5")
@pytest.mark.parametrize("link", ["job", "job/vertex", "job/vertex/out/0"])
@pytest.mark.parametrize("kept", [(), ("job/vertex/out/0/attempt-1",)])
def test_clean_up_removes_nothing_behind_a_link_wherever_a_task_has_put_it(tmp_path: Path, link: str, kept: tuple[str, ...]) -> None:
    working, victim = tmp_path / "working", tmp_path / "victim"
    make(victim, "precious", "out/0/attempt-1/precious", "vertex/out/0/attempt-1/precious", "attempt-1/precious")
    before = files_of(victim)
    (working / link).parent.mkdir(parents=True)
    (working / link).symlink_to(victim)
    remove_intermediate_data(Place(str(working)), "job", [f"file://{working / place}" for place in kept])
    assert files_of(victim) == before
    assert (working / link).is_symlink() == bool(kept)
    assert (working / "job").exists() == bool(kept)


@pytest.mark.rule("L5")
def test_a_directory_that_becomes_a_link_while_it_is_emptied_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working, victim = tmp_path / "working", tmp_path / "victim"
    make(victim, "inner/precious")
    make(working, "job/inner/data")
    opened = os.open

    def replace_and_open(path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "inner":
            (working / "job").rename(working / "aside")
            (working / "job").symlink_to(victim)
        return opened(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", replace_and_open)
    with pytest.raises(OSError, match="Not a directory"):  # What is at the job's name by now is no directory; the next try removes it.
        remove_intermediate_data(Place(str(working)), "job", ())
    assert files_of(victim) == ["inner/precious"]


def test_a_directory_that_is_moved_away_while_it_is_emptied_takes_the_clean_up_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, victim = tmp_path / "working", tmp_path / "victim"
    make(victim, "precious")
    make(working, "job/inner/data", "job/other")
    unlink = os.unlink

    def move_and_unlink(path: str | Path, *, dir_fd: int | None = None) -> None:
        if path == "data":
            (working / "job" / "inner").rename(victim / "inner")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", move_and_unlink)
    with pytest.raises(OSError, match="was moved while it was removed"):
        remove_intermediate_data(Place(str(working)), "job", ())
    assert (victim / "precious").exists()


def test_clean_up_removes_nothing_of_a_job_of_that_id_in_another_cluster(tmp_path: Path) -> None:
    """Two clusters of one data directory run jobs of one id where the id is made of offsets."""
    orders, test = (
        build_configuration({"cluster.id": cluster_id, "data.directory": tmp_path}, "f").working_place for cluster_id in ("orders", "test")
    )
    for place in (orders, test):
        make(place.path, "submissions-0-0/vertex/out/0/attempt-1/rows", "submissions-0-0/stream/checkpoint.0/metadata")
    before = files_of(test.path)
    remove_intermediate_data(orders, "submissions-0-0", ())
    assert (files_of(orders.path), files_of(test.path)) == ([], before)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A directory for directories that are nested so deeply that Python's own clean-up would end in an error: of a test that has failed."""
    yield tmp_path
    subprocess.run(["rm", "-rf", "--", str(tmp_path)], check=True, timeout=120)


def test_clean_up_keeps_results_and_removes_what_lies_beside_them_however_deep(deep: Path) -> None:
    tmp_path = deep
    make(tmp_path, "job/a/out/0/attempt-1/rows", "job/a/out/0/attempt-0/rows", "job/b/out/0/attempt-0/rows", "other/rows")
    here = os.open(tmp_path / "job" / "b", os.O_RDONLY)
    for _ in range(3_000):  # Deeper than a recursion, a path or the descriptors of a process go.
        os.mkdir("deep", dir_fd=here)
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    kept = [f"file://{tmp_path}/job/a/out/0/attempt-1", f"{tmp_path}/job/c/out/0/attempt-1", "/elsewhere/rows"]
    remove_intermediate_data(Place(str(tmp_path)), "job", kept)
    assert files_of(tmp_path) == ["job/a/out/0/attempt-1/rows", "other/rows"]
    assert not (tmp_path / "job" / "b").exists()
    remove_intermediate_data(Place(str(tmp_path)), "job", ())
    remove_intermediate_data(Place(str(tmp_path)), "job", ())
    assert files_of(tmp_path) == ["other/rows"]
    assert not (tmp_path / "job").exists()
