"""Checkpoints on a real cluster: a stream says where it stands, goes on from there, and a change of leader is no matter."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events import log_events as e
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import RequestRefused
from eventflink.model.statuses import BackPressureLevel, JobStatus
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.topics import create_topic, feed

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360
COUNT = 300


@pytest.fixture
def cluster(bootstrap: str, spark: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path, **{"spark.remote": spark}) as running:
        running.start_master("master-1")
        running.start_standby("master-2")
        running.start_task_executor()
        yield running


def submit(cluster: RunningCluster, source: str, target: str) -> str:
    sources = {"source": {"kafka": {"topic": source}, "format": "json", "schema": "key STRING, number BIGINT"}}
    stream = {"sources": sources, "sink": {"kafka": {"topic": target}, "format": "json"}}
    vertex = {"id": "stream", "python": "stream_tasks:copy", "stream": stream}
    strategy = {"type": "fixed-delay", "attempts": 5, "delay_ms": 100}
    archive = cluster.user_code(Path(stream_tasks.__file__))
    return cluster.submit(cluster.graph(vertex, restart_strategy=strategy, checkpointing={"interval_ms": 0}, code_archives=[archive]))


def wait_for_start(cluster: RunningCluster, job_id: str, attempt: int) -> e.StreamStarted:
    def started() -> list[e.StreamStarted]:
        return [s for s in cluster.events_of(job_id) if isinstance(s, e.StreamStarted) and s.attempt == attempt]

    found: list[e.StreamStarted] = wait_until(started, f"the query of attempt {attempt} runs", SPARK_TIMEOUT_S)
    return found[0]


def ask(cluster: RunningCluster, capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, *command, "--json"]) == ExitCode.OK
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def next_offsets(answer: dict[str, Any]) -> int:
    """Return how many records of its topic a stream has read, by the offsets that it says."""
    [subtask] = answer["subtasks"]
    [source] = subtask["answer"]["sources"]
    return sum(sum(partitions.values()) for partitions in json.loads(source["end_offset"]).values())


def test_a_stream_says_where_it_stands_and_goes_on_from_there_also_under_another_leader(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = create_topic(cluster.bootstrap), create_topic(cluster.bootstrap)
    feed(cluster.bootstrap, source, ({"key": "k", "number": number} for number in range(COUNT)))
    job_id = submit(cluster, source, target)
    assert wait_for_start(cluster, job_id, 1).restored_batch_id == -1

    def has_read_all() -> bool:
        ask(cluster, capsys, "checkpoint", job_id)
        shown = ask(cluster, capsys, "checkpoints", job_id[:12])
        return bool(shown["subtasks"][0]["answer"]["sources"]) and next_offsets(shown) == COUNT

    wait_until(has_read_all, "all that was fed is in a checkpoint", SPARK_TIMEOUT_S)
    before = ask(cluster, capsys, "checkpoints", job_id)
    assert (before["counts"]["completed"], before["counts"]["failed"]) == (before["counts"]["triggered"], 0)
    batch_id = before["subtasks"][0]["answer"]["batch_id"]
    assert batch_id >= 0

    cluster.wait_for_task_process(job_id).kill()
    assert wait_for_start(cluster, job_id, 2).restored_batch_id >= batch_id
    cluster.kill("master-1")
    with DispatcherGateway(cluster.access) as gateway:
        taken = gateway.trigger_checkpoint(job_id, 30.0, actor="me")
        assert taken.checkpoint_id == before["counts"]["triggered"] + 1
        stats = gateway.request_operator_back_pressure_stats(job_id, "stream")
        assert (stats.level, [each.subtask_index for each in stats.subtasks]) == (BackPressureLevel.OK, [0])
        after = ask(cluster, capsys, "checkpoints", job_id)
        assert (after["counts"]["restored"], after["latest"]["restored"]["task"]) == (1, "stream[0]#2")
        assert next_offsets(after) == COUNT
        location = Path(after["subtasks"][0]["start"]["location"])
        assert location.is_dir()
        gateway.cancel_job(job_id)
        cluster.wait_for_status(job_id, JobStatus.CANCELED)
        with pytest.raises(RequestRefused, match="JobTerminated"):
            gateway.trigger_checkpoint(job_id)
    wait_until(lambda: not location.exists(), "what a cancelled job left is removed")
