"""The life of one job as a story: who submitted it, what its tasks did, what went wrong and why, who led meanwhile, how it ended.

It is told from accepted decisions alone, in their order. What many tasks do alike is one line for each chapter: a chapter ends where the
job's status changes, a TaskManager of its is lost, or another master leads. Memory is bounded: of a long life the middle is left out.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from eventflink.audit.entries import Entry
from eventflink.documents.explanation import LineOfStory, StoryOfJob
from eventflink.events import log_events as e
from eventflink.events.wording import details_of, iso_time, subject_of
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.model.texts import printable

KEPT_OLDEST: Final = 100
KEPT_NEWEST: Final = 400
_SHOWN_NAMES: Final = 6
_NAMES: Final = "\0"
"""Stands in a line's text for what it happened to; nothing printable has it."""


@dataclass(slots=True)
class _Line:
    """Something that happened, once or to many tasks in one chapter."""

    kind: str
    text: str
    offset: int
    at_ms: int
    epoch: int
    until_offset: int
    until_ms: int
    count: int = 0
    names: Counter[str] = field(default_factory=Counter)
    """What it happened to, the first few."""

    @classmethod
    def of(cls, entry: Entry, kind: str, text: str) -> "_Line":
        at_ms = entry.decision.decided_at_ms
        return cls(kind, text, entry.offset, at_ms, entry.decision.epoch, entry.offset, at_ms)

    def add(self, entry: Entry, text: str, name: str) -> None:
        """Count one thing more; only the newest text is kept."""
        self.text, self.until_offset, self.until_ms = text, entry.offset, entry.decision.decided_at_ms
        self.count += 1
        if name and (name in self.names or len(self.names) < _SHOWN_NAMES):
            self.names[name] += 1

    def document(self) -> LineOfStory:
        """Return the line as it is shown."""
        return LineOfStory(
            kind=self.kind,
            look=_TROUBLE.get(self.kind, ""),
            offset=self.offset,
            until_offset=self.until_offset,
            at=iso_time(self.at_ms),
            until=iso_time(self.until_ms),
            epoch=self.epoch,
            count=self.count,
            text=printable(self.text.replace(_NAMES, self._say_names(), 1)),
        )

    def _say_names(self) -> str:
        said = [name if count == 1 else f"{name} ({count})" for name, count in self.names.items()]
        more = self.count - self.names.total()
        return ", ".join([*said, f"… and {more} more"] if more else said)


class StoryTeller:
    """Tells the story of one job, from its submission on."""

    def __init__(self, event: e.JobSubmitted) -> None:
        """Begin before the submission."""
        self.job_id = event.job_id
        self.name = event.job_graph.name
        self.status = JobStatus.INITIALIZING
        self.restarts = 0
        self.is_over = False
        """Nothing happens to it any more: the masters have forgotten it."""
        self._oldest: list[_Line] = []
        self._newest: deque[_Line] = deque(maxlen=KEPT_NEWEST)
        self._count = 0
        self._chapter: dict[tuple[str, str], _Line] = {}
        self._places: dict[str, tuple[str, str]] = {}
        """TaskManager and instance of each slot that is the job's; empty: it waits for one."""
        self._is_resumed = False

    def follow_entry(self, entry: Entry, silent_ms: int) -> None:
        """Take an accepted entry in; where it is a grant, nobody had decided for `silent_ms`, by Kafka's clock."""
        has_result = any(isinstance(event, e.JobResultStored) and event.job_id == self.job_id for event in entry.decision.events)
        for event in entry.decision.events:
            if isinstance(event, e.LeadershipGranted):
                if self.status not in TERMINAL_JOB_STATUSES:
                    silence = f"{silent_ms / 1000:.1f} s after the last decision"
                    self._tell(entry, "leadership", f"{event.master_id} leads, epoch {entry.decision.epoch}, {silence}")
            elif isinstance(event, e.TaskManagerLost | e.TaskManagerDisconnected | e.TaskManagerReleased):
                self._take_loss(entry, event)
            elif getattr(event, "job_id", None) == self.job_id:
                self._take(entry, event, has_result=has_result)
            elif getattr(event, "allocation_id", None) in self._places:
                self._take_slot(entry, event)

    def _take_loss(self, entry: Entry, event: e.TaskManagerLost | e.TaskManagerDisconnected | e.TaskManagerReleased) -> None:
        if any(instance_id == event.instance_id for _, instance_id in self._places.values()):
            self._tell(entry, "task_manager_lost", f"TaskManager {event.task_manager_id} is gone: {event.reason}")

    def _take_slot(self, entry: Entry, event: e.LogEvent) -> None:
        match event:
            case e.SlotAllocated():
                self._places[event.allocation_id] = (event.task_manager_id, event.instance_id)
            case e.SlotOfferRejected() | e.SlotRequestUnfulfillable() | e.SlotRequestTimedOut():
                self._count_in(entry, "no_slot", f"no slot: {_NAMES}", details_of(event))
            case e.SlotFreed() | e.SlotRequestCancelled():
                self._places.pop(event.allocation_id, None)

    def _take(self, entry: Entry, event: e.LogEvent, *, has_result: bool) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each event
        said, vertex_id = printable(details_of(event)), getattr(event, "vertex_id", "")
        match event:
            case e.JobSubmitted():
                tasks = sum(vertex.parallelism for vertex in event.job_graph.vertices)
                self._tell(entry, "submitted", f"submitted: {said}, {tasks} {'task' if tasks == 1 else 'tasks'}")
            case e.JobMasterStarted() if not self._is_resumed:
                self._tell(entry, "settings", f"goes by {said.partition(', ')[2]}", ends_chapter=False)
            case e.JobStatusChanged():
                self.status = event.to_status
                if not (has_result and event.to_status in TERMINAL_JOB_STATUSES):
                    self._tell(entry, "status", said)
            case e.JobResultStored():
                self.status = event.status
                self._tell(entry, "ended", f"ended: {said}")
            case e.SlotRequested():
                self._places[event.allocation_id] = ("", "")
            case e.TaskScheduled():
                self._count_in(entry, "scheduled", f"scheduled: {_NAMES}", vertex_id)
            case e.TaskDeployed():
                self._count_in(
                    entry, "deployed", f"deployed to {_NAMES}", self._places.get(event.allocation_id, ("", ""))[0] or "a shared slot"
                )
            case e.TaskStateChanged() if event.to_state in (ExecutionState.RUNNING, ExecutionState.CANCELED):
                self._count_in(entry, event.to_state.lower(), f"{event.to_state.lower()}: {_NAMES}", vertex_id)
            case e.TaskFinished():
                self._count_in(entry, "finished", f"finished: {_NAMES}", vertex_id)
            case e.TaskFailed():
                self._count_in(
                    entry, "failed", f"{_NAMES} failed: {said or 'no reason was given'}", subject_of(event, of_job=self.job_id), key=said
                )
            case e.TaskCancellationRequested():
                self._count_in(entry, "cancelling", f"{_NAMES} told to end: {said}", vertex_id, key=said)
            case e.RestartScheduled() | e.JobRestartScheduled():
                self.restarts = event.restarts
                self._count_in(entry, "restart", f"{said}: {_NAMES}" if vertex_id else said, vertex_id, key=said)
            case e.RegionRestarted():
                self._count_in(entry, "restarted", f"{_NAMES} start again with attempt {event.attempt}", vertex_id, key=str(event.attempt))
            case e.SlotRequestDeferred():
                self._count_in(entry, "waiting", f"waits for slots: {_NAMES}", said)
            case e.ResourcesAwaited():
                self._count_in(entry, "waiting", f"waits for resources: {_NAMES}", f"{vertex_id}, {said}")
            case e.StreamStarted():
                place = f"after batch {event.restored_batch_id}" if event.restored_batch_id >= 0 else "from the beginning"
                self._count_in(entry, "stream", f"{_NAMES} read {place}", subject_of(event, of_job=self.job_id), key=place)
            case e.CheckpointTriggered() if event.savepoint is not None:
                self._tell(entry, "savepoint", f"asked for: {said}", ends_chapter=False)
            case e.CheckpointCompleted() if event.savepoint_path:
                self._tell(entry, "savepoint", f"complete: {said}", ends_chapter=False)
            case e.CheckpointCompleted():
                self._count_in(entry, "checkpoints", f"checkpoints completed, the newest is {event.checkpoint_id}")
            case e.CheckpointAborted():
                self._tell(entry, "checkpoint_failed", f"aborted: {said}", ends_chapter=False)
            case e.JobEvicted():
                self._tell(entry, "evicted", "it leaves the masters' memory")
                self.is_over = True
            case _ if type(event) in _MILESTONES:
                kind, text = _MILESTONES[type(event)]
                self._is_resumed = self._is_resumed or isinstance(event, e.JobResumptionRequested)
                who = f"{vertex_id}: " if vertex_id else ""
                self._tell(entry, kind, f"{text}: {who}{said}" if said or who else text)

    def _tell(self, entry: Entry, kind: str, text: str, *, ends_chapter: bool = True) -> None:
        line = _Line.of(entry, kind, text)
        line.add(entry, text, "")
        self._add(line)
        if ends_chapter:
            self._chapter.clear()

    def _count_in(self, entry: Entry, kind: str, text: str, name: str = "", *, key: str = "") -> None:
        """Count one thing in the chapter's line of this kind and key."""
        line = self._chapter.get((kind, key))
        if line is None:
            line = self._chapter[kind, key] = _Line.of(entry, kind, text)
            self._add(line)
        line.add(entry, text, name)

    def _add(self, line: _Line) -> None:
        self._count += 1
        if len(self._oldest) < KEPT_OLDEST:
            self._oldest.append(line)
        else:
            self._newest.append(line)

    def story(self, log_offset: int) -> StoryOfJob:
        """Return the story of the job up to a record."""
        lines = [*self._oldest, *self._newest]
        return StoryOfJob(
            job_id=self.job_id,
            name=self.name,
            status=str(self.status),
            restarts=self.restarts,
            lines=[line.document() for line in lines],
            omitted=self._count - len(lines),
            log_offset=log_offset,
        )


_TROUBLE: Final = {
    "failed": "failed",
    "no_slot": "failed",
    "task_manager_lost": "failed",
    "checkpoint_failed": "failed",
    "restart": "waits",
    "waiting": "waits",
}
"""Kinds of lines that are not the ordinary course of a job."""

_MILESTONES: Final[dict[type[e.LogEvent], tuple[str, str]]] = {
    e.JobCancellationRequested: ("cancellation", "cancellation asked for"),
    e.JobSuspensionRequested: ("suspension", "suspension asked for"),
    e.JobResumptionRequested: ("resumption", "resumption asked for"),
    e.JobFailureDismissed: ("dismissed", "failure dismissed"),
    e.GlobalFailureOccurred: ("failed", "the job as a whole failed with"),
    e.JobTimeLimitNear: ("late", "near its time limit"),
    e.JobClosingStarted: ("closing", "its closing vertices begin"),
    e.JobClosingAborted: ("closing", "its closing vertices are cancelled"),
    e.JobRescaleRequested: ("rescale", "rescale asked for"),
    e.JobRescaled: ("rescale", "rescaled"),
    e.JobMasterStopped: ("job_master", "its JobMaster stopped"),
    e.VertexSkipped: ("skipped", "skipped"),
    e.JobReuseDecided: ("reused", "outputs of the job that it runs again"),
    e.JobOutputsReleased: ("cleaned_up", "its intermediate outputs are kept no longer"),
    e.JobCleanedUp: ("cleaned_up", "its intermediate data are removed"),
    e.JobCleanupFailed: ("cleaned_up", "its intermediate data could not be removed"),
    e.JobArchived: ("archived", "archived"),
    e.JobArchiveFailed: ("archived", "it could not be archived"),
}
"""Events that are a line of their own, whatever they come with: the kind of the line, and how it begins."""
