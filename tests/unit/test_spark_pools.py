"""Which Spark runs a task, where its files are, and when they go."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventflink.model.spark_pools import OF_JOB, SHARED, SparkPool
from eventflink.processes.file_lock import FileLock
from eventflink.taskexecutor.spark_pools import hold_pool, pool_directory, pool_settings, remove_unused, spark_directories
from eventflink.taskexecutor.spark_server import LOG_FILE, SERVER_FILE, SparkServerSettings
from eventflink.taskexecutor.spark_watch import SparkWatch, note_end

if TYPE_CHECKING:
    from eventflink.model.spark_ends import SparkEnd


def test_each_pool_and_each_job_that_has_its_own_has_a_directory(tmp_path: Path) -> None:
    asked = [(SHARED, "a"), (OF_JOB, "a"), (OF_JOB, "b"), ("job-a", "b"), ("reports", "b")]
    assert len({pool_directory(tmp_path, *each) for each in asked}) == len(asked)
    assert pool_directory(tmp_path, SHARED, "a") == tmp_path
    assert pool_directory(tmp_path, "reports", "a") == pool_directory(tmp_path, "reports", "b")


@pytest.mark.parametrize(
    ("pool", "master", "memory"),
    [
        (SparkPool(OF_JOB), "local[*]", "1g"),
        (SparkPool("p", memory="4g"), "local[*]", "4g"),
        (SparkPool("p", "512m", 2), "local[2]", "512m"),
    ],
)
def test_a_pool_has_what_it_asks_for_and_else_what_is_configured(pool: SparkPool, master: str, memory: str) -> None:
    shared = SparkServerSettings("local[*]", "1g", "a:b:1", pool_idle_timeout_ms=7)
    settings = pool_settings(shared, pool)
    assert (settings.master, settings.memory, settings.packages, settings.idle_timeout_ms) == (master, memory, "a:b:1", 7)


def test_the_catalogue_that_one_process_has_at_a_time_is_that_of_the_shared_spark() -> None:
    shared = SparkServerSettings("local[*]", "1g", catalog_directory="/var/lib/tables")
    assert pool_settings(shared, SparkPool("reports")).catalog_directory == ""


def _pool(runtime_directory: Path, name: str, age_s: float) -> Path:
    directory = pool_directory(runtime_directory, name, "job")
    hold_pool(directory).release()
    (directory / LOG_FILE).touch()
    os.utime(directory / LOG_FILE, (time.time() - age_s,) * 2)
    return directory


def test_only_files_of_pools_go_that_are_old_and_that_nobody_uses(tmp_path: Path) -> None:
    assert remove_unused(tmp_path, 60) == 0
    old, recent, held, alive = (_pool(tmp_path, name, 10 if name == "recent" else 100) for name in ("old", "recent", "held", "alive"))
    lease, server = hold_pool(held), FileLock(alive / SERVER_FILE, 1)
    server.acquire()
    assert remove_unused(tmp_path, 60) == 1
    assert [path for path in (old, recent, held, alive) if not path.exists()] == [old]
    assert set(spark_directories(tmp_path)) == {tmp_path, recent, held, alive}
    lease.release()
    server.release()
    assert remove_unused(tmp_path, 60) == 2


def test_the_end_of_a_pools_spark_is_told_with_its_name(tmp_path: Path) -> None:
    told: list[SparkEnd] = []
    watch = SparkWatch(tmp_path, told.append)
    note_end(_pool(tmp_path, "reports", 0), "its heap of 1g was full")
    watch.look()
    watch.look()
    assert [end.reason for end in told] == ["of pool 'named-reports': its heap of 1g was full"]
