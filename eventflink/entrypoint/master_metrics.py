"""The metrics of a master: what each one is, read from the participant and from the accepted state, and how a scrape asks for them.

A scrape comes in a thread of its own and asks the loop that decides, where each collector is bounded and quick. What is soft (role,
inboxes, lag, what is unconfirmed) is read as it is; what comes from the fold is read as every read is: of the accepted state only, so a
leader that waits for its decisions to be read back has no such numbers until then.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from eventflink.entrypoint.leadership_metrics import LeadershipMetrics
from eventflink.events.log_events import RegionRestarted
from eventflink.events.topics import Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.participant import Participant
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.master.checkpoints import Acknowledgement, Checkpoints
from eventflink.master.execution_graph import SubtaskKey
from eventflink.master.job_master import JobMaster
from eventflink.metrics import metric_catalogue as c
from eventflink.metrics.registry import Collect, MetricRegistry, Samples
from eventflink.metrics.service import new_registry
from eventflink.model.configuration import Configuration
from eventflink.model.job_graph import StreamDefinition
from eventflink.model.metric_settings import MetricScope
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus, Role, SlotRequestDeferralReason
from eventflink.model.stream_progress import NO_BATCH
from eventflink.views.back_pressure import back_pressure_view
from eventflink.views.queues import queue_rows


@dataclass(frozen=True, slots=True)
class MasterView:
    """What can be seen of a master without asking its fold."""

    participant: Participant | None
    """None between two terms."""
    log_end_offset: int | None
    """The log's end offset in the broker's last answer."""
    held_back: Mapping[Topic, int]
    """How many records of which topics lie behind a client's open transaction."""
    effects_failed: int
    now_ms: int
    """The master's monotonic clock."""
    wall_ms: int


def work_collectors(work: LeadershipMetrics) -> dict[str, Collect[MasterView]]:
    """Return the collectors of what a master is and does."""
    return {
        "leadership": partial(_collect_leadership, work),
        "decisions": partial(_collect_decisions, work),
        "unconfirmed": _collect_unconfirmed,
        "lag": _collect_lag,
        "inbox": _collect_inboxes,
        "heartbeats": _collect_heartbeats,
    }


def _collect_leadership(work: LeadershipMetrics, view: MasterView, samples: Samples) -> None:
    participant = view.participant
    role = participant.role if participant is not None else None
    samples.add(c.IS_LEADER, float(role is Role.LEADER))
    samples.add_one_of(c.ROLE, role, Role)
    samples.add(c.LEADERSHIPS_BEGUN, work.leaderships_begun)
    samples.add_counts(c.LEADERSHIPS_ENDED, work.leaderships_ended)
    if participant is not None:
        samples.add(c.EPOCH, participant.fold.acceptance.epoch)
        samples.add(c.RANK, participant.rank(view.now_ms))
        samples.add(c.MASTERS, participant.peers.count(view.now_ms))
        samples.add(c.HEARD_ITSELF_AGE, (view.now_ms - participant.heard_itself_ms) / 1000)


def _collect_decisions(work: LeadershipMetrics, view: MasterView, samples: Samples) -> None:
    samples.add(c.DECISIONS, work.decisions)
    samples.add_histogram(c.DECIDE_LATENCY, work.decide_latency)
    samples.add_histogram(c.READ_BACK_LATENCY, work.read_back_latency)
    samples.add_counts(c.EVENTS, work.events)
    samples.add(c.RESTARTS, work.events[RegionRestarted.__name__])
    samples.add_counts(c.EFFECTS, work.effects)
    samples.add(c.EFFECTS_FAILED, view.effects_failed)


def _collect_unconfirmed(view: MasterView, samples: Samples) -> None:
    if view.participant is None:
        return
    leader = view.participant.leader
    unconfirmed = leader.unconfirmed if leader is not None else ()
    samples.add(c.UNCONFIRMED, len(unconfirmed))
    samples.add(c.UNCONFIRMED_AGE, (view.now_ms - unconfirmed[0].appended_at_ms) / 1000 if unconfirmed else 0.0)


def _collect_lag(view: MasterView, samples: Samples) -> None:
    participant = view.participant
    if participant is None:
        return
    last_offset = participant.fold.last_offset
    end_offset = max(view.log_end_offset or 0, participant.log_end_offset)
    samples.add(c.LOG_OFFSET, last_offset)
    samples.add(c.LOG_LAG, max(0, end_offset - 1 - last_offset))
    samples.add(c.LOG_QUEUED, len(participant.intake.log))


def _collect_inboxes(view: MasterView, samples: Samples) -> None:
    participant = view.participant
    if participant is None:
        return
    for topic, inbox in participant.intake.inboxes.items():
        samples.add(c.INBOX_LENGTH, len(inbox.waiting) + len(inbox.decided), topic)
        samples.add(c.INBOX_BYTES, inbox.byte_count, topic)
        samples.add(c.INBOX_PAUSED, float(Topic(topic) in participant.intake.is_paused), topic)
        samples.add(c.HELD_BACK, view.held_back.get(Topic(topic), 0), topic)


def _collect_heartbeats(view: MasterView, samples: Samples) -> None:
    heard_ms = view.participant.oldest_word_ms() if view.participant is not None else None
    if heard_ms is not None:
        samples.add(c.HEARTBEAT_AGE, max(0, view.now_ms - heard_ms) / 1000)


# -- the accepted state ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateView:
    """The fold at a moment at which it was, or will be, accepted."""

    fold: Fold
    log_now_ms: int
    """The log's time: that of a leader runs, that of others stands at the last decision."""


def state_collectors(max_jobs: int) -> dict[str, Collect[StateView]]:
    """Return the collectors of what the cluster has; `max_jobs` live jobs have metrics of their own."""
    return {
        "log": _collect_log,
        "slots": _collect_slots,
        "jobs": _collect_jobs,
        "snapshots": _collect_snapshots,
        "live-jobs": partial(_collect_live_jobs, max_jobs),
        "streams": partial(_collect_streams, max_jobs),
    }


def _collect_log(view: StateView, samples: Samples) -> None:
    samples.add(c.ACCEPTED, view.fold.accepted_count)
    samples.add(c.REJECTED, view.fold.rejected_count)
    samples.add(c.FOLLOW_UPS, len(view.fold.master.follow_ups.entries))
    samples.add(c.FEATURE_LEVEL, view.fold.master.upkeep.feature_level)


def _collect_slots(view: StateView, samples: Samples) -> None:
    master = view.fold.master
    slots = master.slot_manager
    samples.add(c.TASK_MANAGERS, len(master.resource_manager.task_managers))
    samples.add(c.SLOTS, slots.get_number_registered_slots())
    samples.add(c.FREE_SLOTS, slots.get_number_free_slots())
    samples.add(c.SLOT_REQUESTS, slots.get_number_pending_slot_requests())
    oldest = next(iter(slots.pending.values()), None)  # They stand in the order in which they came.
    samples.add(c.SLOT_REQUEST_AGE, _age_s(view, oldest.requested_at_ms) if oldest is not None else 0.0)
    deferred = Counter[SlotRequestDeferralReason]()
    counts = slots.queues.counts()
    for profile, told in slots.deferrals.told.items():
        deferred[told.reason] += counts[profile]
    for reason in SlotRequestDeferralReason:
        samples.add(c.DEFERRED_SLOT_REQUESTS, deferred[reason], reason)
    for row in queue_rows(slots):
        samples.add(c.QUEUE_QUOTA, row.nominal_quota, row.queue)
        samples.add(c.QUEUE_HELD, row.held, row.queue)
        samples.add(c.QUEUE_REQUESTS, row.requests, row.queue)


def _collect_jobs(view: StateView, samples: Samples) -> None:
    dispatcher = view.fold.master.dispatcher
    counts = Counter(job.status for job in dispatcher.jobs.values())
    for status in JobStatus:
        samples.add(c.JOBS, counts[status], status)
    samples.add(c.JOBS_DIRTY, len(dispatcher.dirty))
    samples.add(c.JOBS_KEPT, len(dispatcher.kept))
    samples.add(c.UPLOADS, len(view.fold.master.uploads.pending))


def _collect_snapshots(view: StateView, samples: Samples) -> None:
    upkeep = view.fold.master.upkeep
    confirmed = upkeep.newest_confirmed()
    samples.add(c.SNAPSHOTS, len(upkeep.snapshots))
    samples.add(c.SNAPSHOT_OFFSET, max((s.log_offset for s in upkeep.snapshots.values()), default=-1))
    samples.add(c.CONFIRMED_OFFSET, upkeep.snapshots[confirmed].log_offset if confirmed is not None else -1)


def _collect_live_jobs(max_jobs: int, view: StateView, samples: Samples) -> None:
    told, left_out = _told_jobs(max_jobs, view)
    for job in told:
        _tell_job(view, job, samples)
    samples.add(c.JOBS_LEFT_OUT, left_out)


def _told_jobs(max_jobs: int, view: StateView) -> tuple[list[JobMaster], int]:
    """Return the oldest live jobs, and how many are left out: a job that has its metrics keeps them until it ends."""
    told: list[JobMaster] = []
    left_out = tasks = 0
    for job in view.fold.master.dispatcher.jobs.values():
        if job.status in TERMINAL_JOB_STATUSES:
            continue
        if len(told) == max_jobs or tasks + (count := _task_count(job)) > c.MAX_JOB_TASKS:
            left_out += 1
            continue
        told.append(job)
        tasks += count
    return told, left_out


def _task_count(job: JobMaster) -> int:
    return sum(len(vertex.subtasks) for vertex in job.execution_graph.vertices.values())


def _tell_job(view: StateView, job: JobMaster, samples: Samples) -> None:
    scope = _scope_of(job)
    samples.add(c.JOB_STATUS, 1, job.status, scope=scope)
    for state, count in job.execution_graph.state_counts().items():
        samples.add(c.JOB_TASKS, count, state, scope=scope)
    samples.add(c.JOB_RESTARTS, job.restarts.count, scope=scope)
    samples.add(c.JOB_AGE, _age_s(view, job.submitted_at_ms), scope=scope)
    if job.fails_at_ms is not None:
        samples.add(c.JOB_TIME_LEFT, (job.fails_at_ms - job.submitted_at_ms) / 1000 - _age_s(view, job.submitted_at_ms), scope=scope)


def _scope_of(job: JobMaster) -> dict[str, str]:
    return {"job_id": job.job_id, "job_name": job.execution_graph.graph.name}


def _collect_streams(max_jobs: int, view: StateView, samples: Samples) -> None:
    """Tell of checkpoints, and where the last completed one has each subtask."""
    room, left_out = c.MAX_STREAM_SUBTASKS, 0
    for job in _told_jobs(max_jobs, view)[0]:
        if (checkpoints := job.checkpoints) is None:
            continue
        _tell_checkpoints(view, job, checkpoints, samples)
        answers = list(islice(checkpoints.progress.items(), room))
        room -= len(answers)
        left_out += len(checkpoints.progress) - len(answers)
        vertices, scope = job.execution_graph.vertices, _scope_of(job)
        # An answer never changes: the loop only finds it, and the thread that serves the scrape makes samples of it.
        samples.later.extend(partial(_tell_subtask, scope, key, vertices[key[0]].vertex.stream, answer) for key, answer in answers)
    samples.add(c.STREAM_SUBTASKS_LEFT_OUT, left_out)


def _tell_checkpoints(view: StateView, job: JobMaster, checkpoints: Checkpoints, samples: Samples) -> None:
    scope, latest = _scope_of(job), checkpoints.latest
    samples.add(c.CHECKPOINTS_COMPLETED, checkpoints.completed_count, scope=scope)
    samples.add(c.CHECKPOINTS_FAILED, checkpoints.failed_count, scope=scope)
    samples.add(c.CHECKPOINTS_IN_PROGRESS, float(checkpoints.pending is not None), scope=scope)
    if latest is not None:
        samples.add(c.CHECKPOINT_DURATION, latest.duration_ms / 1000, scope=scope)
        samples.add(c.CHECKPOINT_SIZE, latest.state_bytes, scope=scope)
        samples.add(c.CHECKPOINT_AGE, _age_s(view, latest.triggered_at_ms), scope=scope)


def _tell_subtask(
    scope: Mapping[str, str], key: SubtaskKey, stream: StreamDefinition | None, answer: Acknowledgement, samples: Samples
) -> None:
    progress, labels = answer.progress, (key[0], str(key[1]))
    if progress.batch_id == NO_BATCH:
        return
    add = partial(samples.add, scope=scope)
    add(c.STREAM_BATCH, progress.batch_id, *labels)
    if not progress.sources or stream is None:
        return  # Every batch has sources: no batch of this run has ended, so there is nothing to say of it.
    add(c.STREAM_INPUT_RATE, progress.input_rows_per_second, *labels)
    add(c.STREAM_PROCESSED_RATE, progress.processed_rows_per_second, *labels)
    add(c.STREAM_BATCH_DURATION, progress.batch_duration_ms / 1000, *labels)
    add(c.STREAM_STATE_ROWS, progress.state_rows, *labels)
    add(c.STREAM_STATE_BYTES, progress.state_bytes, *labels)
    add(c.STREAM_LATE_ROWS, progress.late_rows_dropped, *labels)
    add(c.STREAM_BACK_PRESSURE, back_pressure_view(stream, progress).ratio, *labels)
    add(c.STREAM_WATERMARK_STANDS, progress.watermark_stands_ms / 1000, *labels)
    for output in progress.outputs:
        if output.rows_written >= 0:
            add(c.STREAM_ROWS_WRITTEN, output.rows_written, *labels, output.name, output.location)
    if progress.watermark_ms > 0:  # 0 is Spark's watermark before the first row.
        add(c.STREAM_WATERMARK_LAG, (answer.at_ms - progress.watermark_ms) / 1000, *labels)
    if behind := [source.records_behind for source in progress.sources if source.records_behind >= 0]:
        add(c.STREAM_RECORDS_BEHIND, sum(behind), *labels)
        add(c.STREAM_PARTITIONS_BEHIND, progress.partitions_behind, *labels)
    # A query may read a source twice, and two series must not have the same labels.
    lags = {(lag.source, lag.topic, str(lag.partition)): lag.records_behind for lag in reversed(progress.partition_lags)}
    for place, records_behind in lags.items():
        add(c.STREAM_PARTITION_LAG, records_behind, *labels, *place)


def _age_s(view: StateView, since_ms: int) -> float:
    return max(0, view.log_now_ms - since_ms) / 1000


R = TypeVar("R")


class StateNotRead(Exception):
    """The accepted state cannot be read now; the message says why."""


def master_registry(
    configuration: Configuration, work: LeadershipMetrics, loop: asyncio.AbstractEventLoop, look: Callable[[], MasterView]
) -> MetricRegistry:
    """Return the registry of a master whose loop is `loop`; `look` is only called there."""
    registry = new_registry(configuration, MetricScope.JOBMANAGER, {"jm_id": configuration.master_id})
    registry.add_source("work", partial(_ask_loop, loop, look), work_collectors(work))
    registry.add_source("state", partial(_ask_state, loop, look), state_collectors(configuration.metrics_max_jobs))
    return registry


def _ask_loop(loop: asyncio.AbstractEventLoop, look: Callable[[], MasterView], work: Callable[[MasterView], R]) -> "Future[R]":
    """Have the loop look, between two of its turns."""
    future: Future[R] = Future()

    def answer() -> None:
        try:
            future.set_result(work(look()))
        except Exception as error:  # noqa: BLE001 - reported to the caller; the loop continues
            future.set_exception(error)

    loop.call_soon_threadsafe(answer)
    return future


def _ask_state(loop: asyncio.AbstractEventLoop, look: Callable[[], MasterView], work: Callable[[StateView], R]) -> "Future[R]":
    """Have the present participant answer a read, as the query server does: once what it reflects was accepted."""
    future: Future[R] = Future()

    def ask() -> None:
        view = look()
        participant = view.participant
        if participant is None:
            future.set_exception(StateNotRead("this master builds its state from the log"))
            return

        def compute(fold: Fold) -> Any:
            leader = participant.leader
            now_ms = leader.clock.read(view.now_ms, view.wall_ms) if leader is not None else fold.last_decided_at_ms
            return work(StateView(fold, now_ms))

        def deliver(answered: Answered | ReadRefused) -> None:
            if isinstance(answered, ReadRefused):
                future.set_exception(StateNotRead(str(answered)))
            else:
                future.set_result(answered.value)

        participant.reads.ask(Read(-1, compute, deliver))

    loop.call_soon_threadsafe(ask)
    return future
