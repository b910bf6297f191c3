"""P3a on a real cluster: who has no secret writes to every topic, and starts masters and TaskExecutors, and nobody believes any of it."""

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eventflink.events.codec import DecisionCodec, PayloadCodec, ReportsCodec
from eventflink.events.effects import InstanceForgotten, LeaderHeartbeat, Resignation
from eventflink.events.inputs import Heartbeat, TaskManagerDeath
from eventflink.events.log_events import LeadershipGranted, RequestRejected
from eventflink.events.topics import SPECIFICATIONS, Topic, deployment_partition, topic_name
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path, **{"high-availability.lease-timeout": 6_000}) as running:
        running.start_master()
        running.start_task_executor()
        yield running


class Stranger:
    """Somebody who may write to every topic."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap})

    def write(self, topic: Topic, value: bytes, key: str = "", partition: int = 0) -> None:
        self._producer.produce(topic_name(self._cluster.cluster_id, topic), value, key, partition=partition)
        assert not self._producer.flush(30)


def refusals(cluster: RunningCluster) -> list[RequestRejected]:
    return [event for _, decision in cluster.decisions() for event in decision.events if isinstance(event, RequestRejected)]


def forge_everything(cluster: RunningCluster) -> int:
    """Write what fits as well as anybody can know who reads everything; return how many records of the log that were."""
    stranger, fold, codec = Stranger(cluster), cluster.state(), DecisionCodec()
    acceptance, instance_id = fold.acceptance, fold.master.resource_manager.task_managers["tm"].instance_id
    last = cluster.decisions()[-1][1]
    grant = replace(last, epoch=acceptance.epoch + 1, sequence=0, leader_id="nobody", events=(LeadershipGranted("nobody", "nowhere:1"),))
    forged = (replace(last, sequence=last.sequence + 1, previous_hash=fold.running_hash), grant)
    for decision in forged:
        stranger.write(Topic.LOG, codec.encode(decision))
    for garbage in (b"garbage", b"\xc3\x01" + bytes(40)):
        stranger.write(Topic.LOG, garbage)
    leadership = PayloadCodec("LeadershipEnvelope")
    for said in (
        Resignation(*(epoch := (acceptance.epoch, acceptance.leader_id))),
        LeaderHeartbeat(*epoch, "m", "nowhere:1", 2**40, 2**62),
    ):
        stranger.write(Topic.LEADERSHIP, leadership.encode(said), "leader")
    death = ReportsCodec("TaskManagerEnvelope").encode([TaskManagerDeath("tm", instance_id, "so it is said")])
    stranger.write(Topic.TASKMANAGERS, death, "tm")
    order = {"epoch": acceptance.epoch, "task_manager_id": "tm", "instance_id": instance_id}
    partition = deployment_partition("tm", SPECIFICATIONS[Topic.DEPLOYMENTS].partitions)
    forgotten = PayloadCodec("DeploymentEnvelope").encode(InstanceForgotten("so it is said"), **order)
    stranger.write(Topic.DEPLOYMENTS, forgotten, "tm", partition)
    return len(forged) + 2


def test_what_a_stranger_writes_deposes_nobody_loses_no_task_and_no_master_stumbles_over_it(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job_id = cluster.run_task("wait_for_file", path=str(gate))
    cluster.wait_for_running(job_id)
    before = cluster.state()
    epoch, instance_id = before.acceptance.epoch, before.master.resource_manager.task_managers["tm"].instance_id
    count = forge_everything(cluster)
    cluster.wait_for(lambda fold: fold.foreign_count == count, "the forged records read")
    [refused] = cluster.wait_for(lambda _: refusals(cluster), "the forged death refused")
    assert "no valid seal" in refused.message
    gate.with_name("gate.go").touch()
    job = cluster.wait_for_status(job_id, JobStatus.FINISHED)
    assert {subtask.attempt for subtask in job.execution_graph.subtasks()} == {1}
    after = cluster.state()
    assert (after.acceptance.epoch, after.master.resource_manager.task_managers["tm"].instance_id) == (epoch, instance_id)
    cluster.kill("master")
    cluster.start_master()
    cluster.wait_for_status(cluster.run_task("noop"), JobStatus.FINISHED)


def test_a_master_without_the_secret_refuses_to_lead_and_a_task_executor_without_it_is_no_part_of_the_cluster(
    cluster: RunningCluster,
) -> None:
    off = {"security.cluster-secret": "off"}
    master = cluster.start("stranger", "master", **off, **{"jobmanager.id": "stranger"})
    assert master.wait(60) == 4
    del cluster.processes["stranger"]
    assert "cluster secret not found, and the log is sealed with one" in cluster.output("stranger")
    cluster.start("tm-stranger", "taskexecutor", **off, **{"taskmanager.id": "tm-stranger"})
    wait_until(lambda: refusals(cluster), "its registration refused")
    assert "tm-stranger" not in cluster.state().master.resource_manager.task_managers


@pytest.mark.rule("P3a")
def test_a_rest_process_shows_no_heartbeat_that_a_stranger_wrote(cluster: RunningCluster) -> None:
    """Heartbeats have one order: when a later one is shown, the forged one was read."""
    cluster.start_host("host", 1)
    url = cluster.start_rest()

    def heard_ms(task_manager_id: str) -> int:
        with urllib.request.urlopen(f"{url}/taskmanagers/{task_manager_id}", timeout=60) as answer:
            return int(json.load(answer)["timeSinceLastHeartbeat"])

    def wait_until_read() -> None:
        now_ms = time.time_ns() // 1_000_000
        wait_until(lambda: heard_ms("host-1") > now_ms, "a later heartbeat")

    cluster.pause("tm")
    wait_until_read()
    before = heard_ms("tm")
    instance_id = cluster.state().master.resource_manager.task_managers["tm"].instance_id
    Stranger(cluster).write(Topic.HEARTBEATS, PayloadCodec("HeartbeatEnvelope").encode(Heartbeat("tm", instance_id, 1, 1, 0)), "tm")
    wait_until_read()
    after = heard_ms("tm")
    cluster.resume("tm")
    assert after == before
