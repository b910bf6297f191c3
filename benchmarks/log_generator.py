"""Writes a log for the replay benchmark: real decisions, made by the real leader, of jobs whose TaskManager answers at once.

Some jobs may be left running, so that the state at the end holds both kinds.

Only Kafka between the leader and itself is left out while the decisions are made; the records are those that a cluster
would have written.
"""

from collections.abc import Iterator
from typing import Final

from benchmarks.graphs import noop_graph
from eventflink.events.codec import PayloadCodec, ReportsCodec
from eventflink.events.effects import TaskDeployment
from eventflink.events.inputs import JobSubmission, SlotOffer, TaskManagerRegistration, TaskStateReport
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import InboundRecord, PartitionInbox
from eventflink.leadership.leader import Leader, grant_of
from eventflink.leadership.log_clock import LogClock
from eventflink.leadership.ports import ParticipantSettings
from eventflink.master.effects import CleanUp, Deployment, Effect
from eventflink.master.inputs import BindInputs, CleanupsCompleted
from eventflink.master.resource_manager import MAX_SLOTS
from eventflink.model.statuses import ExecutionState

_START_MS = 1_700_000_000_000
_HORIZON_MS = 10**12
_RUNNING = "running-"
"""How the ids of jobs begin that never end."""


_SLOTS: Final = 16


class LogGenerator:
    """One leader, one TaskManager, and as many jobs as it takes."""

    def __init__(self, fold: Fold, running_jobs: int = 0) -> None:
        """Start from an empty fold; `running_jobs` keep a slot each, in addition to those of the jobs that end.

        Raises:
            ValueError: one TaskManager cannot have so many slots.

        """
        if _SLOTS + running_jobs > MAX_SLOTS:
            raise ValueError(f"{_SLOTS} + {running_jobs} slots are more than the {MAX_SLOTS} of a TaskManager")
        self._fold = fold
        self._slots = _SLOTS + running_jobs
        self._running_jobs = running_jobs
        self._inboxes = {str(topic): PartitionInbox(1_000_000) for topic in INBOUND}
        self._offsets = dict.fromkeys(self._inboxes, 0)
        self._submissions = PayloadCodec("SubmissionEnvelope")
        self._reports = ReportsCodec("TaskManagerEnvelope")
        self._now_ms = _START_MS

    def records(self, event_count: int) -> Iterator[bytes]:
        """Yield records of the log until they hold at least this many events."""
        graph = noop_graph()
        grant = grant_of(self._fold, "generator", "generator-1", "localhost:1", _START_MS)
        if self._fold.fold_record(self._fold.last_offset + 1, self._now_ms, grant) is None:
            raise RuntimeError("the only candidate was not granted the leadership")
        yield grant
        settings = ParticipantSettings(master_id="generator", incarnation="generator", blob_address="localhost:1", window_size=1)
        leader = Leader(self._fold, InboundDecoder(), self._inboxes, settings, LogClock(self._now_ms, 0))
        leader.timers.extend(BindInputs(topic, "", 0) for topic in self._inboxes)
        self._put(Topic.TASKMANAGERS, self._reports.encode([TaskManagerRegistration("tm", "tm-1", "localhost", 1, self._slots)]))
        number = 0
        while self._fold.event_count < event_count or number < self._running_jobs:
            name = _RUNNING if number < self._running_jobs else "job-"
            job = JobSubmission(job_id=f"{name}{number}", request_id=f"request-{number}", actor="generator", job_graph=graph)
            self._put(Topic.SUBMISSIONS, self._submissions.encode(job, sent_at_ms=0))
            number += 1
            yield from self._drain(leader)
            leader.timers.extend(self._fold.master.due(self._now_ms, self._now_ms))

    def _drain(self, leader: Leader) -> Iterator[bytes]:
        while True:
            self._now_ms += 1
            value = leader.decide_next(self._now_ms, 0)
            if value is None:
                return
            released = leader.read_back(self._fold.last_offset + 1, self._now_ms, value)
            yield value
            for effect in released.effects if released is not None else ():
                self._answer(leader, effect)

    def _answer(self, leader: Leader, effect: Effect) -> None:
        if isinstance(effect, CleanUp):
            leader.timers.append(CleanupsCompleted((effect.job_id,)))
        if not isinstance(effect, Deployment) or not isinstance(effect.payload, TaskDeployment):
            return
        task = effect.payload
        said = ("tm", "tm-1", task.job_id, task.vertex_id, task.subtask_index, task.attempt)
        started = [SlotOffer("tm", "tm-1", task.allocation_id), TaskStateReport(*said, execution_state=ExecutionState.RUNNING)]
        self._put(Topic.TASKMANAGERS, self._reports.encode(started))
        if not task.job_id.startswith(_RUNNING):
            self._put(Topic.TASKMANAGERS, self._reports.encode([TaskStateReport(*said, execution_state=ExecutionState.FINISHED)]))

    def _put(self, topic: Topic, value: bytes) -> None:
        self._inboxes[topic].enqueue(InboundRecord(str(topic), self._offsets[topic], None, value))
        self._offsets[topic] += 1
