"""A real leader under floods on each of its inbound topics: what is good is accepted, others have their turn, and nothing grows for ever.

One cluster for all of it: a master, and a host of simulated TaskExecutors whose job runs on throughout.
"""

import json
import time
from collections.abc import Iterator
from functools import partial

import psutil
import pytest
from confluent_kafka import Producer

from benchmarks.graphs import idle_graph
from eventflink.events.codec import PayloadCodec, ReportsCodec
from eventflink.events.decision import InputCause
from eventflink.events.inputs import Disconnection, Heartbeat, TaskManagerRegistration
from eventflink.events.log_events import (
    JobSubmitted,
    LogEvent,
    RequestRejected,
    TaskFailed,
    TaskManagerLost,
    TaskManagerRegistered,
)
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.fold import Fold
from eventflink.log.replay import log_bounds
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
GARBAGE = 2_000
"""On each of four topics."""
LARGE = 100
"""One in so many has 900 kB, more than any inbound record may have."""
FLAPS = 200
REPORTS = ReportsCodec("TaskManagerEnvelope")
HEARTBEATS = PayloadCodec("HeartbeatEnvelope")


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    # What a flood does is the question here, and not how fast the machine is that all of it runs on.
    patience = {"high-availability.lease-timeout": 10_000, "heartbeat.missed-beats": 9, "taskmanager.self-fence-timeout": 7_500}
    # And nobody is refused for want of a seal: whoever floods the cluster is one of its own.
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **patience, **{"security.cluster-secret": "off"}) as running:
        running.start_master()
        running.start_host("host", task_executors=2, slots=8)
        running.wait_for_running(running.submit(idle_graph(parallelism=4), "steady"))
        yield running
        assert running.state().acceptance.epoch == 1, "no flood cost a leadership"


@pytest.fixture
def producer(cluster: RunningCluster) -> Iterator[Producer]:
    made = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 200_000})
    yield made
    assert made.flush(30) == 0


def put(producer: Producer, cluster: RunningCluster, topic: Topic, value: bytes, key: bytes | None = None) -> None:
    producer.produce(topic_name(cluster.cluster_id, topic), value=value, key=key, partition=0)


def wait_until_decided(cluster: RunningCluster, topic: Topic, offset: int) -> None:
    cluster.wait_for(lambda fold: fold.master.requests.cursors[topic].next_offset >= offset, f"{topic} decided up to {offset}", 120)


def next_offset(cluster: RunningCluster, topic: Topic) -> int:
    return cluster.state().master.requests.cursors[topic].next_offset


def events_from(cluster: RunningCluster, offset: int) -> list[LogEvent]:
    return [event for at, decision in cluster.decisions() if at >= offset for event in decision.events]


def is_registered(task_manager_id: str, instance_id: str, fold: Fold) -> bool:
    return fold.master.resource_manager.is_current(task_manager_id, instance_id)


def memory_of(cluster: RunningCluster) -> int:
    return int(psutil.Process(cluster.processes["master"].pid).memory_info().rss)


def test_amid_garbage_on_every_topic_each_good_job_is_accepted_and_each_refused_record_buried(
    cluster: RunningCluster, producer: Producer
) -> None:
    """The inboxes are bounded in bytes, so what the master holds is, whatever waits in Kafka."""
    before, begun = memory_of(cluster), log_bounds(cluster.access)[1]
    offsets = {topic: next_offset(cluster, topic) for topic in (Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS)}
    kinds = (b"\xc3\x01garbage %d", b'{"type": "Nonsense%d"}', b"%d" + b"\0" * 4_000, b'{"job_graph": [%d]}')
    for number in range(GARBAGE):
        for topic in (*offsets, Topic.HEARTBEATS):
            put(producer, cluster, topic, bytes(900_000) if number % LARGE == 0 else kinds[number % len(kinds)] % number)
        producer.poll(0)
    accepted = [cluster.submit(idle_graph(parallelism=1), f"good-{number}") for number in range(5)]
    assert producer.flush(60) == 0
    for topic, offset in offsets.items():
        wait_until_decided(cluster, topic, offset + GARBAGE)
    events = events_from(cluster, begun)
    assert [event.job_id for event in events if isinstance(event, JobSubmitted)] == accepted
    refused = [event for event in events if isinstance(event, RequestRejected)]
    assert len(refused) == 3 * GARBAGE
    assert all(event.dead_letter for event in refused)
    letters = wait_until(lambda: found if len(found := cluster.dead_letters()) >= 3 * GARBAGE else None, "dead letters", 120)
    assert len({(letter.topic, letter.offset) for letter in letters}) == 3 * GARBAGE
    assert memory_of(cluster) - before < 300 * 1024 * 1024
    for job_id in accepted:
        cluster.wait_for_running(job_id)


def test_thousands_of_submissions_do_not_keep_another_client_from_cancelling(cluster: RunningCluster, producer: Producer) -> None:
    """Topics take turns. The master sleeps until all of it is in Kafka, and the command behind it."""
    victim = cluster.submit(idle_graph(parallelism=1), "victim")
    graph = {"name": "flood", "vertices": [{"id": "only", "python": "m:f", "resources": {"cpu_cores": 1_000_000}}]}
    first = next_offset(cluster, Topic.SUBMISSIONS)
    cluster.pause("master")
    try:
        for number in range(5_000):
            put(producer, cluster, Topic.SUBMISSIONS, json.dumps({"job_id": f"flood-{number}", "job_graph": graph}).encode())
        assert producer.flush(30) == 0
        put(producer, cluster, Topic.COMMANDS, json.dumps({"type": "CancelJob", "job_id": victim, "actor": "another"}).encode())
        assert producer.flush(30) == 0
    finally:
        cluster.resume("master")
    cluster.wait_for_status(victim, JobStatus.CANCELED)
    causes = [cause for _, decision in cluster.decisions() for cause in decision.causes if isinstance(cause, InputCause)]
    answered = max(n for n, cause in enumerate(causes) if cause.topic == Topic.COMMANDS)
    decided = sum(cause.topic == Topic.SUBMISSIONS and cause.first_offset >= first for cause in causes[:answered])
    assert decided < 2_500, "the command came last of all, and was not decided last"
    wait_until_decided(cluster, Topic.SUBMISSIONS, first + 5_000)
    assert sum(job_id.startswith("flood-") for job_id in cluster.state().master.dispatcher.jobs) == 5_000


def test_a_task_manager_that_comes_anew_again_and_again_harms_nobody_else(cluster: RunningCluster, producer: Producer) -> None:
    """Each time costs as many events; its slots are those of its last instance, and what was blocked stays so."""
    begun, offset = log_bounds(cluster.access)[1], next_offset(cluster, Topic.TASKMANAGERS)
    slots = cluster.state().master.slot_manager.get_number_registered_slots()
    for number in range(FLAPS):
        registration = TaskManagerRegistration("flapping", f"flapping-{number}", "h", number, 4, begun_at_ms=number + 1)
        put(producer, cluster, Topic.TASKMANAGERS, REPORTS.encode([registration]))
    assert producer.flush(30) == 0
    wait_until_decided(cluster, Topic.TASKMANAGERS, offset + FLAPS)
    events = events_from(cluster, begun)
    registered = [e for e in events if isinstance(e, TaskManagerRegistered) and e.task_manager_id == "flapping"]
    lost = [e for e in events if isinstance(e, TaskManagerLost) and e.task_manager_id == "flapping"]
    assert len(registered) == FLAPS
    assert FLAPS - 1 <= len(lost) <= FLAPS
    assert not [e for e in events if isinstance(e, TaskFailed)]
    assert len(events) <= 8 * FLAPS
    # It never sends a heartbeat: soon it is lost for good.
    cluster.wait_for(lambda fold: "flapping" not in fold.master.resource_manager.task_managers, "the last instance is lost")
    fold = cluster.state()
    assert fold.master.slot_manager.get_number_registered_slots() == slots
    assert all(f"flapping-{number}" in fold.master.resource_manager.gone_instances for number in range(FLAPS))
    assert fold.master.dispatcher.jobs["steady"].status is JobStatus.RUNNING
    fold.master.validate()


def test_one_that_is_lost_and_returns_by_withheld_heartbeats_costs_two_events_a_time(cluster: RunningCluster, producer: Producer) -> None:
    """It sends heartbeats as long as it likes to, is lost when it stops, and has to come back as a new instance."""
    begun = log_bounds(cluster.access)[1]
    for number in range(2):
        instance = f"shy-{number}"
        put(producer, cluster, Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("shy", instance, "h", 1, 2)]))
        producer.flush(10)
        cluster.wait_for(partial(is_registered, "shy", instance), "registered")
        for heartbeat in range(3):
            put(producer, cluster, Topic.HEARTBEATS, HEARTBEATS.encode(Heartbeat("shy", instance, heartbeat, 2, 0)))
            producer.flush(10)
            time.sleep(0.2)
        cluster.wait_for(lambda fold: "shy" not in fold.master.resource_manager.task_managers, "lost")
    own = [e for e in events_from(cluster, begun) if getattr(e, "task_manager_id", "") == "shy"]
    assert [type(e).__name__ for e in own] == ["TaskManagerRegistered", "TaskManagerLost"] * 2
    put(producer, cluster, Topic.TASKMANAGERS, REPORTS.encode([Disconnection("shy", "shy-1", "late")]))
    producer.flush(10)
    assert cluster.state().master.dispatcher.jobs["steady"].status is JobStatus.RUNNING


@pytest.mark.soak("eventflink.entrypoint")
def test_heartbeats_of_ten_thousand_unknown_task_managers_change_nothing(cluster: RunningCluster, producer: Producer) -> None:
    before, state = log_bounds(cluster.access)[1], cluster.state().master.resource_manager
    known = dict(state.task_managers)
    for number in range(10_000):
        put(producer, cluster, Topic.HEARTBEATS, HEARTBEATS.encode(Heartbeat(f"unknown-{number}", f"u-{number}", 0, 1, 0)))
    assert producer.flush(30) == 0
    cluster.submit(idle_graph(parallelism=1), "after-the-heartbeats")
    cluster.wait_for_running("after-the-heartbeats")
    assert cluster.state().master.resource_manager.task_managers.keys() == known.keys()
    named = [e for e in events_from(cluster, before) if "unknown-" in getattr(e, "task_manager_id", "")]
    assert not named
