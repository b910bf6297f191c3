"""Savepoints on a real cluster: what is read before one and after one counts once, whatever is killed meanwhile."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import eventflink
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import CheckpointAborted, CheckpointTriggered, StreamStarted, TaskFailed
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import CheckpointFailed
from eventflink.model.statuses import JobStatus
from eventflink.streams.savepoint import MANIFEST, SavepointUnusable, read_savepoint
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.stream_work import KEYS, SPARK_TIMEOUT_S, Work

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("savepoints"), **{"spark.remote": spark}) as running:
        running.start_master("master-1")
        running.start_standby("master-2")
        running.start_task_executor(slots=4)
        yield running


def ask(cluster: RunningCluster, capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    capsys.readouterr()
    exit_code = run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, *command, "--json"])
    captured = capsys.readouterr()
    assert exit_code in (ExitCode.OK, ExitCode.NEGATIVE), captured.err
    assert captured.out, captured.err
    answer: dict[str, Any] = json.loads(captured.out)
    return answer


def stop(cluster: RunningCluster, job_id: str, directory: Path, *, drain: bool = False) -> str:
    """Stop a job with a savepoint, and return where that is."""
    with DispatcherGateway(cluster.access) as gateway:
        taken = gateway.stop_with_savepoint(job_id, str(directory), drain=drain)
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    return taken.savepoint_path


def is_gone(path: Path) -> bool:
    return not path.exists()


def has_more_than(count: int, rows: list[dict[str, Any]]) -> bool:
    return len(rows) > count


def refusal_of(cluster: RunningCluster, job_id: str) -> str:
    """Return why the first attempt of a stream failed, once it has."""

    def causes() -> list[str]:
        failures = [event.cause for event in cluster.events_of(job_id) if isinstance(event, TaskFailed)]
        assert {cause.failure_type for cause in failures} <= {"SavepointUnusable"}, failures
        return [cause.message for cause in failures]

    return str(wait_until(causes, "it is refused", SPARK_TIMEOUT_S)[0])


@pytest.mark.rule("S3")
def test_what_is_fed_all_the_time_is_copied_once_by_three_jobs_one_after_the_other(cluster: RunningCluster, tmp_path: Path) -> None:
    """Each is stopped in the middle of its batches, wherever that is."""
    work = Work(cluster)
    ended = threading.Event()

    def feed_on() -> None:
        while not ended.wait(0.2):
            work.feed(40)

    feeding = threading.Thread(target=feed_on)
    feeding.start()
    path: str | None = None
    try:
        for _ in range(3):
            job_id = work.submit(savepoint=path)
            work.wait_for_start(job_id)
            seen = len(work.reader.rows)
            work.reader.read_until(partial(has_more_than, seen + 300), SPARK_TIMEOUT_S)
            path = stop(cluster, job_id, tmp_path)
            own = cluster.directory / "data" / "jobs" / cluster.cluster_id / job_id / "stream" / "checkpoint.0"
            wait_until(partial(is_gone, own), "what the job left is removed")
    finally:
        ended.set()
        feeding.join()
    job_id = work.submit(savepoint=path)
    work.check_copied_once()
    work.cancel(job_id)


def test_counts_go_on_in_another_job_and_a_savepoint_is_shown_and_removed(
    cluster: RunningCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Work(cluster, "count_by_key", output_mode="update", settings={"spark.sql.shuffle.partitions": 3})
    work.feed()
    job_id = work.submit()
    work.check_counted_once()
    stopped = ask(cluster, capsys, "stop", job_id, "-p", str(tmp_path))
    assert (stopped["status"], stopped["state_rows"]) == ("FINISHED", KEYS)
    path = stopped["savepoint_path"]
    shown = ask(cluster, capsys, "savepoint", "inspect", path)
    [part] = shown["parts"]
    assert (shown["job_id"], shown["mode"], part["vertex_id"]) == (job_id, "STOP", "stream")
    [operator] = part["operators"]
    assert (operator["name"], operator["partitions"], operator["rows"]) == ("stateStoreSave", 3, KEYS)
    assert sum(json.loads(part["offsets"][0])[work.source].values()) == 300
    # In a process of its own, as for a user: it starts a Spark. A client of Spark Connect leaves these variables to its children.
    inspect = [sys.executable, "-m", "eventflink.cli", "savepoint", "inspect", path, "--state", "stream", "--json"]
    environment = os.environ | {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_REMOTE": "sc://127.0.0.1:1"}
    read = subprocess.run(inspect, capture_output=True, check=False, timeout=SPARK_TIMEOUT_S, env=environment)
    assert read.returncode == ExitCode.OK, read.stderr.decode()
    state = json.loads(read.stdout)
    assert {row["key"]["key"]: row["value"]["count"] for row in state["rows"]} == {
        f"k{key}": len([n for n in range(300) if n % KEYS == key]) for key in range(KEYS)
    }
    work.feed()
    moved = tmp_path / "moved"
    Path(path).rename(moved)
    again = work.submit(savepoint=str(moved))
    assert work.wait_for_start(again).restored_batch_id == part["batch_id"]
    work.check_counted_once()
    assert run(["savepoint", "--dispose", str(moved)]) == ExitCode.OK
    assert not moved.exists()
    work.feed()
    work.check_counted_once()
    work.cancel(again)


def test_a_job_goes_on_after_a_savepoint_and_another_begins_where_that_is(
    cluster: RunningCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Work(cluster, "count_by_key", output_mode="update", settings={"spark.sql.shuffle.partitions": 2})
    work.feed()
    job_id = work.submit()
    work.check_counted_once()
    path = ask(cluster, capsys, "savepoint", job_id, str(tmp_path))["savepoint_path"]
    work.feed()
    work.check_counted_once()
    other = Work(cluster, "count_by_key", **work.stream)
    other.source, other.fed = work.source, work.fed
    with eventflink.connect(cluster.bootstrap, cluster.cluster_id) as connected:
        with pytest.raises(SavepointUnusable, match=r"has the streams 'stream'.*allow_non_restored_state"):
            connected.submit(other.graph("another"), savepoint=path)
        fork = connected.submit(other.graph(), savepoint=path).job_id
        other.wait_for_start(fork)
        assert connected.job(fork).checkpoint().savepoint_path == ""
    other.check_counted_once()
    assert min(row["count"] for row in other.reader.rows) > 300 // KEYS
    [subtask] = cluster.job(job_id).execution_graph.subtasks()
    assert subtask.attempt == 1
    work.feed()
    work.check_counted_once()
    work.cancel(job_id)
    other.cancel(fork)


def test_a_job_is_cancelled_or_drained_with_a_savepoint(
    cluster: RunningCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Work(cluster, trigger={"processing_time_ms": 600_000})
    work.feed()
    job_id = work.submit()
    work.wait_until_copied()
    work.feed()
    path = stop(cluster, job_id, tmp_path, drain=True)
    work.check_copied_once()
    second = work.submit(savepoint=path)
    work.wait_for_start(second)
    assert ask(cluster, capsys, "cancel", "-s", str(tmp_path), second, "--wait")["status"] == "CANCELED"
    [path] = [str(each) for each in tmp_path.iterdir() if second in each.name]
    work.feed()
    third = work.submit(savepoint=path)
    work.check_copied_once()
    work.cancel(third)


@pytest.mark.rule("S3")
def test_when_a_savepoint_cannot_be_written_the_stream_goes_on(cluster: RunningCluster, tmp_path: Path) -> None:
    work = Work(cluster)
    work.feed()
    job_id = work.submit()
    work.wait_until_copied()
    occupied = tmp_path / "a-file"
    occupied.touch()
    with DispatcherGateway(cluster.access) as gateway:
        with pytest.raises(CheckpointFailed, match="a-file"):
            gateway.trigger_savepoint(job_id, str(occupied))
        with pytest.raises(CheckpointFailed, match="a-file"):
            gateway.stop_with_savepoint(job_id, str(occupied))
        wait_until(lambda: len([s for s in cluster.events_of(job_id) if isinstance(s, StreamStarted)]) == 2, "it runs again")
        work.feed()
        work.check_copied_once()
        [subtask] = cluster.job(job_id).execution_graph.subtasks()
        assert subtask.attempt == 1
        gateway.trigger_checkpoint(job_id)
    work.cancel(job_id)


@pytest.mark.rule("S3")
def test_the_task_and_the_leader_are_killed_in_a_savepoint_and_what_follows_is_right(cluster: RunningCluster, tmp_path: Path) -> None:
    work = Work(cluster)
    work.feed()
    job_id = work.submit()
    work.wait_until_copied()
    task = cluster.wait_for_task_process(job_id)
    task.suspend()
    failures: list[CheckpointFailed] = []

    def stop_it() -> None:
        with DispatcherGateway(cluster.access) as gateway, pytest.raises(CheckpointFailed) as raised:
            gateway.stop_with_savepoint(job_id, str(tmp_path))
        failures.append(raised.value)

    stopping = threading.Thread(target=stop_it)
    stopping.start()
    wait_until(
        lambda: any(isinstance(event, CheckpointTriggered) and event.savepoint for event in cluster.events_of(job_id)), "it is under way"
    )
    task.kill()
    stopping.join(SPARK_TIMEOUT_S)
    assert len(failures) == 1
    work.feed()
    work.check_copied_once()

    def restarted() -> bool:
        return any(isinstance(event, StreamStarted) and event.attempt == 2 for event in cluster.events_of(job_id))

    wait_until(restarted, "the next attempt")
    cluster.kill("master-1")
    path = stop(cluster, job_id, tmp_path)
    cluster.start_standby("master-1")
    work.feed()
    again = work.submit(savepoint=path)
    work.check_copied_once()
    work.cancel(again)
    assert [event for event in cluster.events_of(job_id) if isinstance(event, CheckpointAborted)]


def test_a_stream_without_state_is_rescaled_and_one_with_state_is_not(cluster: RunningCluster, tmp_path: Path) -> None:
    work = Work(cluster)
    work.feed()
    job_id = work.submit()
    work.wait_until_copied()
    path = stop(cluster, job_id, tmp_path)
    work.feed()
    wide = work.submit(savepoint=path, parallelism=2)
    work.check_copied_once()
    path = stop(cluster, wide, tmp_path)
    assert read_savepoint(path).parallelism_of("stream") == 2
    work.feed()
    narrow = work.submit(savepoint=path)
    work.check_copied_once()
    work.cancel(narrow)

    counting = Work(cluster, "count_by_key", output_mode="update", settings={"spark.sql.shuffle.partitions": 2})
    counting.feed()
    job_id = counting.submit()
    counting.check_counted_once()
    path = stop(cluster, job_id, tmp_path)
    for refused, reason in (
        ({"parallelism": 2}, "the state of stateStoreSave belongs to the subtask whose partitions it came from"),
        ({"settings": {"spark.sql.shuffle.partitions": 5}}, "was written with spark.sql.shuffle.partitions=2, and the graph has 5"),
        ({"vertex_id": "another"}, "has the streams 'stream', which no stream of the job goes on with"),
    ):
        job_id = counting.submit(savepoint=path, **refused)
        assert reason in refusal_of(cluster, job_id)
        with DispatcherGateway(cluster.access) as gateway:
            gateway.cancel_job(job_id)
    (Path(path) / MANIFEST).unlink()
    job_id = counting.submit(savepoint=path)
    assert f"invalid savepoint '{path}': it has no {MANIFEST}" in refusal_of(cluster, job_id)
    counting.cancel(job_id)
