"""Which archive of classes a start uses, when it records for one, and what is removed; the JVMs are in the integration tests."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from eventflink.local.class_data import ClassData, stop_making

WEEK_S = 7 * 24 * 3600

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a JVM runs with is read from /proc")


def start(cache: Path, *identity: str) -> ClassData:
    return ClassData("program-1", Path(sys.executable), identity, "Main", cache_directory=cache)


def recorded_by(data: ClassData) -> Path:
    [option] = data.options
    return Path(option.removeprefix("-XX:DumpLoadedClassList="))


def put(cache: Path, *identity: str, suffix: str = ".jsa") -> Path:
    """Put a file where the archive of this identity would be."""
    path = cache / "class-data" / (recorded_by(start(cache, *identity)).name.split(".")[0] + suffix)
    path.touch()
    return path


def grow_old(path: Path) -> None:
    then = time.time() - WEEK_S - 60
    os.utime(path, (then, then))


def test_an_archive_is_used_by_starts_like_the_one_that_it_was_made_of(tmp_path: Path) -> None:
    archive = put(tmp_path, "-XX:+UseG1GC")
    assert start(tmp_path, "-XX:+UseG1GC").options[0] == f"-XX:SharedArchiveFile={archive}"
    assert recorded_by(start(tmp_path, "-XX:+UseSerialGC")).parent == archive.parent


def test_an_archive_is_made_without_the_jars_at_the_end_that_other_starts_do_not_have(tmp_path: Path) -> None:
    directory = tmp_path / "class-data"
    directory.mkdir()
    recorded, said = directory / "some.classes", tmp_path / "said"
    recorded.write_text("some/Class")
    java = tmp_path / "java"  # It says what it is told, and makes the archive.
    java.write_text(
        f'#!/bin/sh\necho "$*" >{said}; for each; do case $each in -XX:SharedArchiveFile=*) touch "${{each#*=}}";; esac; done\n'
    )
    java.chmod(0o700)
    jvm = [str(java), "-c", "read never", "-cp", "base.jar:more.jar", "Main"]  # A shell that waits stands for it.
    with subprocess.Popen(jvm, executable="/bin/sh", stdin=subprocess.PIPE) as running:
        arguments = [str(directory / "some.jsa"), str(recorded), str(running.pid), "Main", "some/Class", "more.jar"]
        subprocess.run([sys.executable, "-m", "eventflink.local.class_data", *arguments], check=True, timeout=60)
        running.kill()
    assert (directory / "some.jsa").exists()
    assert said.read_text().endswith("-cp base.jar\n")


def test_what_no_start_has_used_for_a_week_is_removed_by_any_other(tmp_path: Path) -> None:
    used, unused, left = put(tmp_path, "used"), put(tmp_path, "unused"), recorded_by(start(tmp_path, "left"))
    for path in (used, unused, left):
        grow_old(path)
    start(tmp_path, "used")
    assert used.exists()
    assert not unused.exists()
    assert not left.exists()


def test_of_more_archives_than_a_user_can_need_those_that_were_used_last_are_kept(tmp_path: Path) -> None:
    used = put(tmp_path, "used")
    others = [used.with_name(f"spark-{number}.jsa") for number in range(19)]
    for number, archive in enumerate([used, *others]):
        archive.touch()
        os.utime(archive, (time.time() - 60 + number,) * 2)
    start(tmp_path, "used")
    assert [archive.exists() for archive in (used, *others)] == [True, *[False] * 4, *[True] * 15]


def test_where_an_archive_could_not_be_made_it_is_tried_again_after_a_week(tmp_path: Path) -> None:
    failed = put(tmp_path, "refused", suffix=".failed")
    assert not start(tmp_path, "refused").options
    grow_old(failed)
    assert recorded_by(start(tmp_path, "refused")).exists()


def test_what_makes_an_archive_can_be_ended_and_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "class-data"
    directory.mkdir()
    recorded = directory / "some.classes"
    recorded.touch()
    # A JVM that runs, and has not loaded what is waited for; this process stands for it.
    jvm = [str(os.getpid()), psutil.Process().cmdline()[-1], "a/Class/that/never/Comes", ""]
    command = [sys.executable, "-m", "eventflink.local.class_data", str(directory / "some.jsa"), str(recorded), *jvm]
    with subprocess.Popen(command) as maker:
        while not (directory / "some.lock").exists():
            assert maker.poll() is None
            time.sleep(0.02)
        stop_making(tmp_path / "other")
        assert maker.poll() is None, "it makes one for another cache"
        stop_making(tmp_path)
        maker.wait(60)
    assert {path.suffix for path in directory.iterdir()} <= {".lock"}
