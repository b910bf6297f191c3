"""The metrics of masters, read from real participants over a log that is a list: the numbers are those that what happened leads to."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from eventflink.entrypoint.leadership_metrics import LeadershipMetrics
from eventflink.entrypoint.master_metrics import MasterView, master_registry
from eventflink.events.codec import ReportsCodec
from eventflink.events.effects import CheckpointOrder, TaskDeployment
from eventflink.events.inputs import (
    ConfirmSnapshot,
    Heartbeat,
    ReportSnapshot,
    SlotOffer,
    TaskManagerRegistration,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.events.log_events import CheckpointCompleted
from eventflink.events.topics import Topic
from eventflink.master.effects import Deployment
from eventflink.master.settings import MasterSettings
from eventflink.metrics import metric_catalogue
from eventflink.model.configuration import Configuration, build_configuration
from eventflink.model.job_queues import JobQueue
from eventflink.model.statuses import ExecutionState
from eventflink.model.stream_progress import NO_BATCH, PartitionLag, StreamOutputProgress, StreamSourceProgress
from tests.support.cluster import acknowledgement, decline, graph, stream, stream_start, vertex
from tests.support.participants import HEARTBEATS, Node, World
from tests.support.scrapes import STREAM_METRICS, Scrape, scrape_registry

JM = "eventflink_jobmanager_"
REPORTS = ReportsCodec("TaskManagerEnvelope")


class Measured:
    """Masters of one world, each with its metrics."""

    def __init__(self, **configuration: object) -> None:
        self.world = World()
        self.work: dict[str, LeadershipMetrics] = {}
        self.keys = configuration
        self.log_end_offset: int | None = None

    def start(self, master_id: str, **more: Any) -> Node:
        self.work[master_id] = LeadershipMetrics()
        return self.world.start(master_id, observer=self.work[master_id], **more)

    def configuration(self, master_id: str) -> Configuration:
        return build_configuration({"jobmanager.id": master_id, "cluster.id": "cell", "data.directory": "/tmp", **self.keys}, "test")

    def scrape(self, node: Node, meanwhile: Callable[[], None] | None = None) -> Scrape:
        """Scrape one master; `meanwhile` happens in its loop between asking and answering."""
        present = self.world.nodes.get(node.master_id)

        def look() -> MasterView:
            participant = present.participant if present is not None else None
            return MasterView(participant, self.log_end_offset, {Topic.COMMANDS: 12}, 3, self.world.now_ms, self.world.wall_ms)

        async def scrape() -> Scrape:
            loop = asyncio.get_running_loop()
            registry = master_registry(self.configuration(node.master_id), self.work[node.master_id], loop, look)
            scraping = asyncio.create_task(asyncio.to_thread(scrape_registry, registry))
            if meanwhile is not None:
                await asyncio.sleep(0.1)
                meanwhile()
            return await scraping

        return asyncio.run(scrape())

    def report(self, *reports: TaskManagerReport) -> None:
        self.world.put(Topic.TASKMANAGERS, REPORTS.encode(reports))
        self.world.run(50)

    def register(self, name: str, slots: int) -> None:
        self.report(TaskManagerRegistration(name, f"{name}-1", "host", 1, slots))

    def deployed(self) -> list[TaskDeployment]:
        payloads = [p.payload for p in self.world.produced if p.topic is Topic.DEPLOYMENTS]
        return [p for p in payloads if isinstance(p, TaskDeployment)]


def scrape_of_a_busy_leader() -> tuple[Scrape, Measured]:
    """Two jobs of two tasks each on three slots; one has run to its end on tm-1."""
    measured = Measured()
    node = measured.start("m-1")
    world = measured.world
    world.leader()
    world.run(50)
    measured.register("tm-1", 3)
    for job_id in ("first", "second"):
        world.submit(graph(vertex("v", parallelism=2)), job_id)
    world.run(50)
    for task in [t for t in measured.deployed() if t.job_id == "first"]:
        ids = (task.job_id, task.vertex_id, task.subtask_index, task.attempt)
        state = TaskStateReport("tm-1", "tm-1-1", *ids, ExecutionState.RUNNING, (), None)
        measured.report(SlotOffer("tm-1", "tm-1-1", task.allocation_id), state)
    world.now_ms += 700
    return measured.scrape(node), measured


def test_a_leader_tells_what_its_cluster_has_and_does() -> None:
    scrape, measured = scrape_of_a_busy_leader()
    labels = {"cluster_id": "cell", "jm_id": "m-1"}
    assert scrape.one(f"{JM}is_leader", **labels) == 1
    assert scrape.by("role", f"{JM}role") == {"LEADER": 1}
    assert scrape.one(f"{JM}epoch") == 1
    assert scrape.one(f"{JM}leaderships_begun_total") == 1
    assert scrape.by("reason", f"{JM}leaderships_ended_total") == {}
    assert scrape.one(f"{JM}leaderships_ended_total", reason="Deposed") == 0
    assert scrape.one(f"{JM}task_managers") == 1
    assert (scrape.one(f"{JM}task_slots_registered"), scrape.one(f"{JM}task_slots_free")) == (3, 0)
    assert scrape.one(f"{JM}pending_slot_requests") == 1
    assert scrape.one(f"{JM}oldest_pending_slot_request_age_seconds") == pytest.approx(0.85, abs=0.1)
    assert scrape.one(f"{JM}oldest_heartbeat_age_seconds") >= 0.7
    assert scrape.by("status", f"{JM}jobs") == {"RUNNING": 2}
    assert scrape.one(f"{JM}effect_records_failed_total") == 3
    assert scrape.by("topic", f"{JM}inputs_held_back") == {"commands": 12}
    log = measured.world.log
    accepted = measured.world.accepted()
    assert scrape.one(f"{JM}log_offset") == len(log) - 1
    assert scrape.one(f"{JM}log_lag_records") == 0
    assert scrape.one(f"{JM}log_decisions_accepted_total") == accepted.accepted_count == len(log)
    assert scrape.one(f"{JM}log_decisions_rejected_total") == 0
    assert scrape.one(f"{JM}decisions_total") == len(log) - 1  # All but the grant.
    assert scrape.one(f"{JM}decide_latency_seconds_count") == scrape.one(f"{JM}decisions_total")
    assert scrape.one(f"{JM}append_to_read_back_latency_seconds_count") == scrape.one(f"{JM}decisions_total")
    assert scrape.one(f"{JM}decide_latency_seconds_bucket", le="+Inf") == scrape.one(f"{JM}decisions_total")
    assert 0 < scrape.one(f"{JM}decide_latency_seconds_sum") < 10


def test_events_are_counted_by_the_names_that_the_log_has() -> None:
    scrape, measured = scrape_of_a_busy_leader()
    counted = scrape.by("event", f"{JM}events_total")
    names = [type(event).__name__ for event in measured.world.events(object)]
    assert counted == {name: names.count(name) for name in names}
    assert counted["JobSubmitted"] == 2
    assert counted["SlotRequested"] == 4
    effects = scrape.by("effect", f"{JM}effects_released_total")
    assert effects["TaskDeployment"] == len(measured.deployed()) == 3
    assert effects["RequestAccepted"] == 2


def test_slot_requests_that_wait_are_counted_by_reason() -> None:
    measured = Measured()
    node = measured.start("m-1")
    measured.world.leader()
    measured.register("tm-1", 2)
    measured.world.submit(graph(vertex("v", parallelism=5)), "wide")
    measured.world.submit(graph(vertex("v", parallelism=4, cpu_cores=1)), "large")
    measured.world.run(50)
    scrape = measured.scrape(node)
    by_reason = scrape.by("reason", f"{JM}deferred_slot_requests")
    assert by_reason == {"NO_FREE_SLOT": 3, "NO_FITTING_SLOT": 4}
    assert scrape.one(f"{JM}pending_slot_requests") == sum(by_reason.values())
    measured.register("tm-2", 3)
    assert measured.scrape(node).by("reason", f"{JM}deferred_slot_requests") == {"NO_FITTING_SLOT": 4}


def test_queues_of_jobs_tell_what_they_may_hold_hold_and_wait_for() -> None:
    measured = Measured()
    node = measured.start("m-1", settings=MasterSettings(queues=(JobQueue("adhoc", 1, borrowing_limit=1), JobQueue("etl", 8))))
    measured.world.leader()
    measured.world.run(200)
    measured.register("tm-1", 4)
    measured.world.submit(graph(vertex("v", parallelism=5), queue="adhoc"), "flood")
    measured.world.run(50)
    scrape = measured.scrape(node)
    assert scrape.by("queue", f"{JM}queue_nominal_quota_slots") == {"adhoc": 1, "etl": 8}
    assert scrape.by("queue", f"{JM}queue_held_slots") == {"adhoc": 2}
    assert scrape.by("queue", f"{JM}queue_pending_slot_requests") == {"adhoc": 3}
    assert scrape_of_a_busy_leader()[0].by("queue", f"{JM}queue_held_slots") == {}


def test_live_jobs_have_metrics_of_their_own() -> None:
    scrape, _ = scrape_of_a_busy_leader()
    assert scrape.one(f"{JM}job_status", job_id="first", job_name="test job", status="RUNNING") == 1
    assert scrape.one(f"{JM}job_tasks", job_id="first", state="RUNNING") == 2
    assert scrape.one(f"{JM}job_tasks", job_id="second", state="SCHEDULED") == 1
    assert scrape.one(f"{JM}job_restarts_total", job_id="second") == 0
    assert scrape.one(f"{JM}job_age_seconds", job_id="second") >= 0.7
    assert scrape.one(f"{JM}jobs_without_metrics") == 0


@pytest.mark.parametrize(("max_jobs", "max_tasks", "told"), [(2, 10_000, ["job-0", "job-1"]), (100, 7, ["job-0"]), (0, 10_000, [])])
def test_beyond_the_bounds_jobs_are_left_out_and_counted(
    max_jobs: int, max_tasks: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_catalogue, "MAX_JOB_TASKS", max_tasks)
    measured = Measured(**{"metrics.max-jobs": max_jobs})
    node = measured.start("m-1")
    measured.world.leader()
    for number in range(5):
        measured.world.submit(graph(vertex("v", parallelism=4)), f"job-{number}")
    measured.world.run(100)
    scrape = measured.scrape(node)
    assert sorted(scrape.by("job_id", f"{JM}job_status")) == told
    assert scrape.one(f"{JM}jobs_without_metrics") == 5 - len(told)
    assert scrape.by("status", f"{JM}jobs") == {"RUNNING": 5}


def test_a_job_with_a_time_limit_tells_how_much_of_it_is_left() -> None:
    measured = Measured()
    node = measured.start("m-1")
    measured.world.leader()
    measured.world.submit(graph(vertex("v"), time_limit="10s"), "limited")
    measured.world.submit(graph(vertex("v")), "unlimited")
    measured.world.run(1_000)
    left = measured.scrape(node).by("job_id", f"{JM}job_time_limit_left_seconds")
    assert set(left) == {"limited"}
    assert 8 < left["limited"] < 9.5


def test_a_job_that_is_too_large_leaves_out_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_catalogue, "MAX_JOB_TASKS", 7)
    measured = Measured()
    node = measured.start("m-1")
    measured.world.leader()
    for job_id, parallelism in (("large", 8), ("small", 7)):
        measured.world.submit(graph(vertex("v", parallelism=parallelism)), job_id)
    measured.world.run(100)
    scrape = measured.scrape(node)
    assert set(scrape.by("job_id", f"{JM}job_status")) == {"small"}
    assert scrape.one(f"{JM}jobs_without_metrics") == 1


JOB = f"{JM}job_"
STREAM = f"{JM}job_stream_"


class Streams(Measured):
    """A leader whose jobs `first` and `second` are a stream each, all queries of which run."""

    def __init__(self, parallelism: int = 2) -> None:
        super().__init__()
        self.node = self.start("m-1")
        self.world.leader()
        self.register("tm-1", 2 * parallelism)
        for job_id in ("first", "second"):
            self.world.submit(graph(stream("s", parallelism), checkpointing={"interval_ms": 1_000}), job_id)
        self.world.run(50)
        for task in self.deployed():
            report = TaskStateReport("tm-1", "tm-1-1", *task.attempt_id, ExecutionState.RUNNING, (), None)
            self.report(SlotOffer("tm-1", "tm-1-1", task.allocation_id), report, stream_start(Deployment("tm-1", "tm-1-1", task)))

    def orders(self, *job_ids: str) -> list[Deployment]:
        """Let the interval pass; return what is asked of the subtasks of these jobs, in their order."""
        before = len(self.world.produced)
        self.world.run(1_100)
        payloads = [p.payload for p in self.world.produced[before:] if p.topic is Topic.DEPLOYMENTS]
        return [Deployment("tm-1", "tm-1-1", p) for p in payloads if isinstance(p, CheckpointOrder) and p.job_id in job_ids]


def behind(*records: int) -> tuple[StreamSourceProgress, ...]:
    return tuple(StreamSourceProgress(name="s", end_offset="", records_behind=number) for number in records)


def lags(*of_partitions: tuple[int, int]) -> dict[str, object]:
    told = tuple(PartitionLag(source="s", topic="t", partition=number, records_behind=records) for number, records in of_partitions)
    return {"partitions_behind": 30, "partition_lags": told}


def test_checkpoints_are_counted_by_job_and_the_last_one_is_told() -> None:
    streams = Streams()
    [one, other] = streams.orders("first")
    before = streams.scrape(streams.node)
    assert before.by("job_id", f"{JOB}checkpoints_in_progress") == {"first": 1, "second": 1}
    assert before.values(f"{JOB}last_checkpoint_duration_seconds") == []
    streams.report(acknowledgement(one, 4, state_bytes=100))
    streams.world.run(2_000)
    streams.report(acknowledgement(other, 6, state_bytes=30))
    completed_at_ms = streams.world.now_ms
    streams.report(decline(streams.orders("first")[0]))
    scrape = streams.scrape(streams.node)
    assert scrape.by("job_id", f"{JOB}completed_checkpoints_total") == {"first": 1}
    assert scrape.by("job_id", f"{JOB}failed_checkpoints_total") == {"first": 1}
    assert scrape.by("job_id", f"{JOB}checkpoints_in_progress") == {"second": 1}
    assert scrape.one(f"{JOB}last_checkpoint_size_bytes", job_id="first", job_name="test job") == 130
    [completed] = streams.world.events(CheckpointCompleted)
    assert completed.duration_ms > 2_000
    assert scrape.one(f"{JOB}last_checkpoint_duration_seconds") == completed.duration_ms / 1000
    age_ms = completed.duration_ms + streams.world.now_ms - completed_at_ms
    assert scrape.one(f"{JOB}last_checkpoint_age_seconds") == pytest.approx(age_ms / 1000, abs=0.1)


def test_a_subtask_of_a_stream_tells_what_it_said_in_the_last_completed_checkpoint() -> None:
    streams = Streams()
    [one, other] = streams.orders("first")
    told: dict[str, object] = {"state_rows": 7, "state_bytes": 900, "late_rows_dropped": 3, "watermark_ms": streams.world.wall_ms - 60_000}
    outputs = [StreamOutputProgress(name=name, location="t", rows_written=rows) for name, rows in (("a", 6), ("b", -1))]
    told |= {"watermark_stands_ms": 4_500, "outputs": tuple(outputs)}
    rates = {"input_rows": 20, "input_rows_per_second": 40.0, "processed_rows_per_second": 80.0, "batch_duration_ms": 250}
    streams.report(acknowledgement(one, 4, sources=behind(50, -1, 10), **lags((1, 40), (7, 20), (1, 5)), **told, **rates))
    assert streams.scrape(streams.node).values(f"{STREAM}last_committed_batch") == []
    streams.report(acknowledgement(other, 9))
    scrape = streams.scrape(streams.node)
    labels = {"job_id": "first", "task_id": "s", "subtask_index": "0"}
    expected = {
        "last_committed_batch": 4,
        "input_rows_per_second": 40,
        "processed_rows_per_second": 80,
        "batch_duration_seconds": 0.25,
        "state_rows": 7,
        "state_bytes": 900,
        "late_rows_dropped": 3,
        "watermark_stands_seconds": 4.5,
        "records_behind": 60,
        "partitions_behind": 30,
        "back_pressure_ratio": 0.75,
    }
    assert {name: scrape.one(f"{STREAM}{name}", **labels) for name in expected} == expected
    assert scrape.one(f"{STREAM}rows_written", **labels, output="a", location="t") == 6
    assert scrape.by("output", f"{STREAM}rows_written") == {"a": 6}
    assert scrape.one(f"{STREAM}watermark_lag_seconds", **labels) == pytest.approx(60, abs=0.5)
    assert scrape.by("subtask_index", f"{STREAM}last_committed_batch") == {"0": 4, "1": 9}
    assert scrape.by("partition", f"{STREAM}partition_records_behind") == {"1": 40, "7": 20}
    assert scrape.one(f"{STREAM}partition_records_behind", source="s", topic="t", partition="7", **labels) == 20
    assert STREAM_METRICS - scrape.names == set()


@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        (
            {"sources": behind(-1), "watermark_ms": -1},
            {"watermark_lag_seconds", "records_behind", "partitions_behind", "partition_records_behind", "rows_written"},
        ),
        ({"sources": behind(0), "watermark_ms": 0}, {"watermark_lag_seconds", "partition_records_behind", "rows_written"}),
    ],
)
def test_a_stream_without_watermark_or_lag_has_no_such_metric(said: dict[str, object], left_out: set[str]) -> None:
    streams = Streams(parallelism=1)
    streams.report(acknowledgement(streams.orders("first")[0], 3, **said))
    names = {name for name in STREAM_METRICS if name.startswith(STREAM)}
    assert names - streams.scrape(streams.node).names == {f"{STREAM}{name}" for name in left_out}


@pytest.mark.parametrize(("batch_id", "told"), [(NO_BATCH, set()), (5, {f"{STREAM}last_committed_batch"})])
def test_a_stream_whose_run_has_ended_no_batch_tells_only_which_it_committed(batch_id: int, told: set[str]) -> None:
    streams = Streams(parallelism=1)
    streams.report(acknowledgement(streams.orders("first")[0], batch_id))
    scrape = streams.scrape(streams.node)
    assert scrape.one(f"{JOB}completed_checkpoints_total", job_id="first") == 1
    assert {name for name in scrape.names if name.startswith(STREAM)} == told


def test_beyond_the_bound_subtasks_of_streams_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_catalogue, "MAX_STREAM_SUBTASKS", 3)
    streams = Streams()
    streams.report(*[acknowledgement(order, 1) for order in streams.orders("first", "second")])
    scrape = streams.scrape(streams.node)
    told = [s.labels["job_id"] for s in scrape.samples if s.name == f"{STREAM}last_committed_batch"]
    assert sorted(told) == ["first", "first", "second"]
    assert scrape.one(f"{JM}stream_subtasks_without_metrics") == 1


def test_jobs_without_streams_have_no_metrics_of_streams() -> None:
    scrape, _ = scrape_of_a_busy_leader()
    assert STREAM_METRICS & scrape.names == set()


def test_a_standby_tells_the_same_of_the_cluster_and_how_far_it_lags_behind() -> None:
    measured = Measured()
    leader, standby = measured.start("m-1"), measured.start("m-2")
    world = measured.world
    assert world.leader() is leader
    measured.register("tm-1", 2)
    world.run(1_000)
    standby.is_blind = True
    for number in range(4):
        world.command(f"r-{number}")
        world.run(50)
    world.run(200)
    of_leader, of_standby = measured.scrape(leader), measured.scrape(standby)
    assert (of_leader.one(f"{JM}is_leader"), of_standby.one(f"{JM}is_leader")) == (1, 0)
    assert of_standby.by("role", f"{JM}role") == {"STANDBY": 1}
    assert of_standby.one(f"{JM}epoch") == of_leader.one(f"{JM}epoch")
    assert of_standby.one(f"{JM}task_slots_registered") == 2
    assert of_standby.one(f"{JM}masters") == of_leader.one(f"{JM}masters") == 2
    assert (of_standby.one(f"{JM}rank"), of_leader.one(f"{JM}rank")) == (0, 1)
    assert of_standby.one(f"{JM}log_lag_records") == of_leader.one(f"{JM}log_offset") - of_standby.one(f"{JM}log_offset") >= 4
    assert of_standby.values(f"{JM}oldest_heartbeat_age_seconds") == []
    assert of_standby.one(f"{JM}decisions_total") == 0
    assert of_standby.by("event", f"{JM}events_total")["TaskManagerRegistered"] == 1
    assert of_standby.one(f"{JM}inbox_length", topic="commands") == 4  # Nothing that it has read answers them.
    assert of_leader.one(f"{JM}inbox_length", topic="commands") == 0
    measured.log_end_offset = len(world.log) + 90
    assert measured.scrape(standby).one(f"{JM}log_lag_records") == len(world.log) + 90 - 1 - of_standby.one(f"{JM}log_offset")


def test_a_change_of_leader_shows_at_both() -> None:
    measured = Measured()
    leader, standby = measured.start("m-1"), measured.start("m-2")
    world = measured.world
    assert world.leader() is leader
    world.run(500)
    leader.is_frozen = True
    world.run_until(lambda: standby.participant.leader is not None)
    world.run(100)
    leader.is_frozen = False
    world.append(world.log[1])  # As a leader does that has not heard that it was deposed.
    world.run(200)
    measured.work["m-1"].ended(type(leader.ends[-1]).__name__)
    of_former, of_new = measured.scrape(leader), measured.scrape(standby)
    assert of_new.one(f"{JM}is_leader") == 1
    assert of_new.one(f"{JM}log_decisions_rejected_total") == of_former.one(f"{JM}log_decisions_rejected_total") == 1
    assert of_new.one(f"{JM}epoch") == of_former.one(f"{JM}epoch") == 2
    assert of_former.one(f"{JM}is_leader") == 0
    assert of_former.by("reason", f"{JM}leaderships_ended_total") == {"Deposed": 1}
    assert of_former.one(f"{JM}leaderships_begun_total") == of_new.one(f"{JM}leaderships_begun_total") == 1


def test_what_a_fall_left_unconfirmed_is_no_latency_of_the_next_leadership() -> None:
    measured = Measured()
    node = measured.start("m-1")
    world = measured.world
    world.leader()
    world.run(100)
    node.is_blind = True
    for number in range(3):
        world.command(f"r-{number}")
    world.run_until(lambda: bool(node.ends))
    work = measured.work["m-1"]
    work.ended(type(node.ends[0]).__name__)
    work.ended("TermEnded")
    unread, before = work.decisions - sum(work.read_back_latency.counts), sum(work.read_back_latency.counts)
    assert unread >= 1
    node.is_blind = False
    world.run(200)
    assert sum(work.read_back_latency.counts) == before  # What comes back now is the log of a deposed leader.
    world.run_until(lambda: node.participant.leader is not None)
    world.run(500)
    scrape = measured.scrape(node)
    assert scrape.one(f"{JM}leaderships_begun_total") == 2
    assert scrape.by("reason", f"{JM}leaderships_ended_total") == {"LeadershipEnded": 1}
    read_back = scrape.one(f"{JM}append_to_read_back_latency_seconds_count")
    assert read_back == scrape.one(f"{JM}decisions_total") - unread
    assert not work._appended_s  # Nothing of before is left, so each was measured from its own append.


def test_a_full_inbox_says_that_its_reading_pauses() -> None:
    measured = Measured()
    node = measured.start("m-1", capacity=64)
    for number in range(70):
        measured.world.command(f"r-{number}")
    node.receive()
    scrape = measured.scrape(node)
    assert scrape.one(f"{JM}inbox_length", topic="commands") == 64
    assert scrape.one(f"{JM}inbox_paused", topic="commands") == 1
    assert scrape.one(f"{JM}inbox_paused", topic="submissions") == 0
    assert scrape.one(f"{JM}inbox_bytes", topic="commands") > 1000


def test_heartbeats_make_the_oldest_word_young() -> None:
    measured = Measured()
    node = measured.start("m-1")
    world = measured.world
    world.leader()
    measured.register("tm-1", 1)
    measured.register("tm-2", 1)
    world.run(2_000)
    world.heartbeats.append(HEARTBEATS.encode(Heartbeat("tm-1", "tm-1-1", 1, 1, 0)))
    world.step()
    assert measured.scrape(node).one(f"{JM}oldest_heartbeat_age_seconds") == pytest.approx(2.0, abs=0.2)
    world.heartbeats.append(HEARTBEATS.encode(Heartbeat("tm-2", "tm-2-1", 1, 1, 0)))
    world.step()
    assert measured.scrape(node).one(f"{JM}oldest_heartbeat_age_seconds") < 0.1


def test_snapshots_show_with_their_offsets() -> None:
    measured = Measured()
    node = measured.start("m-1")
    world = measured.world
    world.leader()
    world.run(500)
    assert measured.scrape(node).one(f"{JM}newest_snapshot_offset") == -1
    world.send(
        ReportSnapshot(
            request_id="r", actor="m-2", snapshot_id="s-1", log_offset=1, digest="d", chunk_count=1, byte_count=1, taken_by="m-2"
        )
    )
    world.run(100)
    scrape = measured.scrape(node)
    assert (scrape.one(f"{JM}snapshots"), scrape.one(f"{JM}newest_snapshot_offset")) == (1, 1)
    assert scrape.one(f"{JM}newest_confirmed_snapshot_offset") == -1
    world.send(ConfirmSnapshot(request_id="c", actor="m-1", snapshot_id="s-1", log_offset=1, digest="d", confirmed_by="m-1"))
    world.run(100)
    assert measured.scrape(node).one(f"{JM}newest_confirmed_snapshot_offset") == 1


def test_what_is_not_accepted_is_in_no_number_of_the_state() -> None:
    """P4: the leader has decided on a registration, but not read it back; the numbers of the state come when it has."""
    measured = Measured()
    node = measured.start("m-1")
    world = measured.world
    world.leader()
    world.run(100)
    node.is_blind = True
    world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("tm-1", "tm-1-1", "host", 1, 2)]))
    world.step()
    assert len(node.participant.leader.unconfirmed) == 1  # type: ignore[union-attr]

    def read_back() -> None:
        node.is_blind = False
        node.receive()
        node.participant.read_back(world.now_ms)

    scrape = measured.scrape(node, meanwhile=read_back)
    assert scrape.one(f"{JM}task_managers") == 1
    assert scrape.one(f"{JM}unconfirmed_decisions") == 1


def test_a_leader_that_waits_for_its_decisions_tells_all_but_the_state() -> None:
    measured = Measured()
    node = measured.start("m-1")
    world = measured.world
    world.leader()
    world.run(100)
    node.is_blind = True
    world.put(Topic.TASKMANAGERS, REPORTS.encode([TaskManagerRegistration("tm-1", "tm-1-1", "host", 1, 2)]))
    world.run(200)
    scrape = measured.scrape(node)
    assert scrape.values(f"{JM}task_managers") == []
    assert scrape.one(f"{JM}unconfirmed_decisions") == 1
    assert scrape.one(f"{JM}oldest_unconfirmed_decision_age_seconds") == pytest.approx(0.19, abs=0.02)
    assert scrape.one(f"{JM}is_leader") == 1
    assert scrape.by("collector", "eventflink_metrics_collector_failures_total") == {"state": 1}


def test_between_two_terms_a_master_says_that_it_does_not_lead() -> None:
    measured = Measured()
    node = measured.start("m-1")
    measured.world.leader()
    measured.world.kill(node)
    scrape = measured.scrape(node)
    assert scrape.one(f"{JM}is_leader") == 0
    assert scrape.by("role", f"{JM}role") == {}
    assert scrape.values(f"{JM}log_offset") == []
    assert scrape.by("collector", "eventflink_metrics_collector_failures_total") == {"state": 1}


def test_a_collector_that_fails_costs_its_own_metrics_only(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured()
    node = measured.start("m-1")
    measured.world.leader()
    measured.world.run(100)

    def broken(*_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("eventflink.master.slot_manager.SlotManager.get_number_free_slots", broken)
    scrape = measured.scrape(node)
    assert scrape.values(f"{JM}task_managers") == []
    assert scrape.one(f"{JM}snapshots") == 0
    assert scrape.by("status", f"{JM}jobs") == {}
    assert scrape.by("collector", "eventflink_metrics_collector_failures_total") == {"slots": 1}


def test_being_measured_changes_no_decision() -> None:
    """The same inputs at the same times lead to the same log, measured and scraped or not."""

    def run(*, measured: bool) -> list[bytes]:
        either = Measured()
        node = either.start("m-1") if measured else either.world.start("m-1")
        either.world.leader()
        for number in range(20):
            either.world.command(f"r-{number}")
            either.world.run(30)
            if measured and number % 10 == 0:
                either.scrape(node)
        return either.world.log

    assert run(measured=True) == run(measured=False)


def test_job_names_of_users_are_labels_whatever_they_hold() -> None:
    measured = Measured()
    node = measured.start("m-1")
    measured.world.leader()
    name = 'a "quoted"\nname \\ with ü and ' + "x" * 200
    document = json.loads(json.dumps(graph(vertex("v")))) | {"name": name}
    measured.world.submit(document, "job")
    measured.world.run(100)
    assert list(measured.scrape(node).by("job_name", f"{JM}job_status")) == [name[:200]]
