"""From an id as a person writes it to the one thing in the log that it names.

Everything that ever had an id is found, also what the masters have forgotten. Where one text is the id of several things,
a job comes first: its own chain begins with its request.
"""

import difflib
import heapq
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from os.path import commonprefix
from typing import Final

from eventflink.audit import NothingKnown
from eventflink.audit.attribution import attempt_of
from eventflink.audit.entries import Entry
from eventflink.events.job_master_events import execution_state_after
from eventflink.events.log_events import (
    JobResultStored,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RegionRestarted,
    RequestAccepted,
    RequestRejected,
    SlotRequested,
    TaskFailed,
    TaskManagerRegistered,
    TaskManagerRegistrationRefused,
    TaskScheduled,
)
from eventflink.master.master import Master
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, JobStatus

_TASK: Final = re.compile(r"(?P<job>[^/]+)/(?P<vertex>.+)\[(?P<index>\d{1,9})\](?:#(?P<attempt>\d{1,9}))?")
_NEAREST: Final = 5
_COMPARED: Final = 20_000
_COMPARED_WHOLE: Final = 300
"""Those that have the most in common with a text at their beginning or end: to compare all of them letter by letter takes seconds."""
_AMBIGUOUS_SHOWN: Final = 5


class SubjectType(StrEnum):
    """What an id can name."""

    JOB = "job"
    SUBTASK = "subtask"
    ALLOCATION = "allocation"
    TASK_MANAGER = "TaskManager"
    INSTANCE = "instance"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt of a subtask ended."""

    state: ExecutionState
    cause: FailureCause | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing in the log; of the ids only those are set that belong to its type."""

    subject_type: SubjectType
    name: str
    """Its whole id."""
    job_id: str = ""
    vertex_id: str = ""
    subtask_index: int = 0
    attempt: int = 0
    """0: all attempts of the subtask."""
    allocation_id: str = ""
    task_manager_id: str = ""
    root_failure: AttemptId | None = None
    """Of a job: the attempt whose failure ended it."""
    job_status: JobStatus | None = None
    """Of a job: the last status that the log tells, also when the masters have forgotten the job."""
    ends: Mapping[int, "AttemptEnd"] = field(default_factory=dict)
    """Of a subtask: how its attempts ended, by attempt."""
    result: JobResultStored | None = None
    answer: RequestAccepted | RequestRejected | None = None


@dataclass(slots=True)
class _Job:
    """What was seen of a job that the text may mean."""

    graph: JobGraph
    status: JobStatus = JobStatus.CREATED
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of the subtasks that started again: the newest attempt."""
    parallelism: dict[str, int] = field(default_factory=dict)
    """How many subtasks of a vertex were scheduled, at most, at any time."""
    last_failed: AttemptId | None = None
    root_failure: AttemptId | None = None
    result: JobResultStored | None = None
    ends: dict[int, AttemptEnd] = field(default_factory=dict)
    """Of the one subtask that is asked for."""

    def follow_event(self, event: LogEvent, subtask: tuple[str, int] | None) -> None:
        """Take an event of this job in; `subtask` is the one that is asked for."""
        if subtask is not None and subtask == (getattr(event, "vertex_id", None), getattr(event, "subtask_index", None)):
            self._take_end(event)
        match event:
            case TaskFailed():
                self.last_failed = AttemptId(event.job_id, event.vertex_id, event.subtask_index, event.attempt)
            case RegionRestarted():
                self.attempts[event.vertex_id, event.subtask_index] = event.attempt
            case TaskScheduled():  # A rescale gives subtasks and attempts that neither the graph nor a restart tells of.
                key = (event.vertex_id, event.subtask_index)
                self.parallelism[event.vertex_id] = max(self.parallelism.get(event.vertex_id, 0), event.subtask_index + 1)
                if event.attempt > self.attempts.get(key, 1):
                    self.attempts[key] = event.attempt
            case JobStatusChanged():
                self.status = event.to_status
                if event.to_status is JobStatus.FAILING:
                    self.root_failure = self.last_failed
            case JobResultStored():
                self.result = event

    def _take_end(self, event: LogEvent) -> None:
        state, attempt = execution_state_after(event), attempt_of(event)
        if state in TERMINAL_EXECUTION_STATES and attempt is not None:
            self.ends[attempt.attempt] = AttemptEnd(state, event.cause if isinstance(event, TaskFailed) else None)


class SubjectFinder:
    """Watches the accepted decisions of a log go by, then says what a text names."""

    def __init__(self, text: str) -> None:
        """Begin with nothing seen.

        Raises:
            NothingKnown: the text is empty.

        """
        if not text:
            raise NothingKnown("an id is expected, and the text is empty")
        self._text = text
        self._task = _TASK.fullmatch(text)
        self._subtask = (self._task["vertex"], int(self._task["index"])) if self._task else None
        self._job_text: str = self._task["job"] if self._task else text
        self._jobs: dict[str, _Job] = {}
        self._others: dict[SubjectType, Subject] = {}

    def follow_entry(self, entry: Entry) -> None:
        """Take one entry in."""
        if entry.accepted:
            for event in entry.decision.events:
                self._take(event)

    def _take(self, event: LogEvent) -> None:
        if isinstance(event, JobSubmitted) and event.job_id.startswith(self._job_text):
            self._jobs[event.job_id] = _Job(event.job_graph)
        elif (job := self._jobs.get(getattr(event, "job_id", ""))) is not None:
            job.follow_event(event, self._subtask)
        text = self._text
        match event:
            case SlotRequested(allocation_id=allocation_id) if allocation_id == text:
                of = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
                self._note(Subject(SubjectType.ALLOCATION, text, *of, allocation_id=text))
            case TaskManagerRegistered() | TaskManagerRegistrationRefused():
                if event.task_manager_id == text:
                    self._note(Subject(SubjectType.TASK_MANAGER, text, task_manager_id=text))
                if event.instance_id == text:
                    self._note(Subject(SubjectType.INSTANCE, text, task_manager_id=event.task_manager_id))
            case RequestAccepted() | RequestRejected():
                if event.request_id == text or (isinstance(event, RequestRejected) and event.subject == text):
                    name = event.request_id or event.subject
                    self._note(Subject(SubjectType.REQUEST, name, job_id=event.subject, answer=event))

    def _note(self, subject: Subject) -> None:
        self._others[subject.subject_type] = subject

    def resolve(self, master: Master, job_ids: Iterable[str], first_offset: int) -> Subject:
        """Return what the text names by the records that were seen and the state after them; `job_ids` and `first_offset` are for hints.

        Raises:
            NothingKnown: nothing, or several jobs begin with it.

        """
        self._take_state(master)
        if self._task is not None and (exact := self._job(self._job_text)) is not None:
            return self._resolve_task(*exact)
        if self._text in self._jobs:
            return self._job_subject(self._text)
        for subject_type in (SubjectType.TASK_MANAGER, SubjectType.INSTANCE, SubjectType.ALLOCATION, SubjectType.REQUEST):
            if subject_type in self._others:
                return self._others[subject_type]
        if self._text in master.schedules.schedules:  # Its jobs have ids that begin so.
            raise NothingKnown(f"'{self._text}' is a schedule: 'eventflink schedule show {self._text}' says what it started, and why")
        found = self._job(self._text)
        if found is not None:
            return self._job_subject(found[0])
        raise self._nothing("id", chain(_known_ids(master), job_ids), first_offset)

    def resolve_job(self, master: Master, job_ids: Iterable[str], first_offset: int) -> str:
        """Return the job that the text names, whatever else has it for an id; raises as `resolve` does."""
        self._take_state(master)
        found = self._job(self._text)
        if found is None:
            raise self._nothing("job", job_ids, first_offset)
        return found[0]

    def _nothing(self, what: str, known: Iterable[str], first_offset: int) -> NothingKnown:
        likely = heapq.nlargest(_COMPARED_WHOLE, dict.fromkeys(islice(known, _COMPARED)), key=self._shared_ends)
        near = difflib.get_close_matches(self._text, likely, n=_NEAREST, cutoff=0.5)
        hint = f"; the nearest: {', '.join(near)}" if near else ""
        begins = f"; the log begins at offset {first_offset}" if first_offset else ""
        return NothingKnown(f"{what} not found in the log: '{self._text}'{hint}{begins}")

    def _shared_ends(self, known: str) -> int:
        """Return how many letters an id shares with the text from their beginning on, or up to their end: one mistake leaves half."""
        return max(_shared(self._text, known), _shared(self._text[::-1], known[::-1]))

    def _take_state(self, master: Master) -> None:
        """Know also what is in the state: where the beginning of the log is gone, no record may tell of it."""
        for job_id, job in master.dispatcher.jobs.items():
            if job_id.startswith(self._job_text) and job_id not in self._jobs:
                graph = job.execution_graph
                attempts = {subtask.key: subtask.attempt for subtask in graph.subtasks()} if self._task is not None else {}
                parallelism = {vertex_id: vertex.parallelism for vertex_id, vertex in graph.vertices.items()}
                self._jobs[job_id] = _Job(graph.graph, job.status, attempts, parallelism)
        text, slots = self._text, master.slot_manager
        for manager_id, manager in master.resource_manager.task_managers.items():
            if manager_id == text:
                self._others.setdefault(SubjectType.TASK_MANAGER, Subject(SubjectType.TASK_MANAGER, text, task_manager_id=text))
            if manager.instance_id == text:
                self._others.setdefault(SubjectType.INSTANCE, Subject(SubjectType.INSTANCE, text, task_manager_id=manager_id))
        if (asked := slots.allocations.get(text) or slots.pending.get(text)) is not None:
            subject = Subject(SubjectType.ALLOCATION, text, *asked.attempt, allocation_id=text)
            self._others.setdefault(SubjectType.ALLOCATION, subject)

    def _job(self, text: str) -> tuple[str, _Job] | None:
        """Return the job with this id, or the only one whose id begins so.

        Raises:
            NothingKnown: several do.

        """
        if text in self._jobs:
            return text, self._jobs[text]
        fitting = [job_id for job_id in self._jobs if job_id.startswith(text)]
        if len(fitting) > 1:
            shown = ", ".join(fitting[-_AMBIGUOUS_SHOWN:])
            raise NothingKnown(f"'{text}' is ambiguous: {len(fitting)} job ids begin with it, such as {shown}")
        return (fitting[0], self._jobs[fitting[0]]) if fitting else None

    def _job_subject(self, job_id: str) -> Subject:
        job = self._jobs[job_id]
        return Subject(
            SubjectType.JOB,
            job_id,
            job_id=job_id,
            root_failure=job.root_failure if job.status in (JobStatus.FAILING, JobStatus.FAILED) else None,
            job_status=job.status,
            result=job.result,
        )

    def _resolve_task(self, job_id: str, job: _Job) -> Subject:
        assert self._task is not None  # noqa: S101 - for the type checker; the caller asked
        vertex_id, index, attempt = self._task["vertex"], int(self._task["index"]), int(self._task["attempt"] or 0)
        vertex = next((v for v in job.graph.vertices if v.vertex_id == vertex_id), None)
        if vertex is None:
            known = ", ".join(v.vertex_id for v in job.graph.vertices[:_COMPARED])
            raise NothingKnown(f"vertex not found: '{vertex_id}' in job '{job_id}'; it has {known}")
        parallelism = max(vertex.parallelism, job.parallelism.get(vertex_id, 0))
        if index >= parallelism:
            raise NothingKnown(
                f"subtask not found: {index} of vertex '{vertex_id}' of job '{job_id}'; it has {parallelism} subtasks, counted from 0"
            )
        newest = job.attempts.get((vertex_id, index), 1)
        if self._task["attempt"] and not 1 <= attempt <= newest:
            raise NothingKnown(f"attempt not found: {attempt} of {job_id}/{vertex_id}[{index}]; it has {newest} attempts, counted from 1")
        name = f"{job_id}/{vertex_id}[{index}]" + (f"#{attempt}" if attempt else "")
        return Subject(SubjectType.SUBTASK, name, job_id, vertex_id, index, attempt, job_status=job.status, ends=job.ends)


def _shared(one: str, other: str) -> int:
    return len(commonprefix((one, other)))  # noqa: RUF071 - letter by letter is what is meant


def _known_ids(master: Master) -> Iterable[str]:
    """Yield ids that the state holds, newest first where there are many of a kind."""
    dispatcher, slots, managers = master.dispatcher, master.slot_manager, master.resource_manager
    yield from managers.task_managers
    yield from (manager.instance_id for manager in managers.task_managers.values())
    for ids in (dispatcher.jobs, slots.allocations, slots.pending, managers.gone_instances, dispatcher.forgotten, master.requests.answers):
        yield from islice(reversed(ids), _COMPARED // 6)
