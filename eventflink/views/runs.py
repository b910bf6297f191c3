"""Jobs of one name as the runs of a job: those in memory, and those of which an archive is left.

A state knows the first alone, and of the second only that they were there. So a page is made in two steps: `known_runs` takes from a state
what it knows, and `runs_page` and `names_page` put what was read of archives beside it, whenever that is there. A job is in the one or in
the other and never in both: what is to be read are archives of jobs that this very state does not hold.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from statistics import median_low
from typing import Final, NamedTuple

from eventflink.documents.jobs import JobRow
from eventflink.documents.one_job import AttemptInfo, JobInfo, VertexInfo
from eventflink.documents.runs import JobName, JobNamesPage, MarkOfRun, RunOfJob, RunsPage, VersionOfJob, VertexOfRun
from eventflink.leadership.fold import Fold
from eventflink.master.execution_graph import ExecutionVertex
from eventflink.master.job_master import JobMaster
from eventflink.model.job_parameters import shown_values
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.views.definitions import definition_digests
from eventflink.views.jobs_and_cluster import row_fields
from eventflink.views.plain import fields_of, iso_time

MAX_ARCHIVES: Final = 1_000
"""The most jobs that have left the memory whose archives are read: the newest of them."""

MAX_VERTICES: Final = 50
MAX_VERSIONS: Final = 100
MAX_TREND: Final = 20
MAX_TYPICAL: Final = 100
"""The most runs whose median is taken."""

_SAYS_MOST: Final = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.RECONCILING,
    ExecutionState.RUNNING,
    ExecutionState.INITIALIZING,
    ExecutionState.DEPLOYING,
    ExecutionState.SCHEDULED,
    ExecutionState.CANCELED,
    ExecutionState.CREATED,
    ExecutionState.FINISHED,
)


class KnownRun(NamedTuple):
    """What lists and versions are counted from. Ten thousand may come from another process: a tuple is unpickled soonest."""

    submitted_at_ms: int
    job_id: str
    name: str
    definition_digest: str
    status: JobStatus
    duration_ms: int
    ended_at_ms: int
    """0: it has not ended."""
    actor: str
    failure_is_dismissed: bool


_IN_ORDER: Final = attrgetter("submitted_at_ms", "job_id")
"""The order of runs, which has to stay the same when a job leaves the memory: so those of one millisecond are told apart by their ids."""


@dataclass(frozen=True, slots=True)
class JobThatLeft:
    """A job that has left the memory, and the digest of its archive."""

    submitted_at_ms: int
    job_id: str
    archive_digest: str


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """What a state knows of runs; or archives, where there are these alone."""

    runs: tuple[KnownRun, ...]
    """In the order of their submission."""
    rows: Mapping[str, RunOfJob]
    """Of those that may be shown, by the id of the job; in which version they are is not known yet."""
    left: tuple[JobThatLeft, ...]
    """Whose archives are to be read."""
    left_total: int
    """How many have left the memory and are remembered."""


def known_runs(fold: Fold, name: str | None, first: int = 0, limit: int = 0) -> KnownRuns:
    """Return what a state knows of the runs of a name (None: of all), with rows for any window of `limit` from the `first`-th newest on."""
    dispatcher, now_ms = fold.master.dispatcher, fold.last_decided_at_ms
    jobs = [job for job in dispatcher.jobs.values() if name is None or job.execution_graph.graph.name == name]
    jobs.sort(key=_IN_ORDER)
    digests = list(definition_digests(jobs))
    left = tuple(
        [
            JobThatLeft(each.submitted_at_ms, job_id, each.archive_digest)
            for job_id, each in islice(reversed(dispatcher.forgotten.items()), MAX_ARCHIVES)
            if each.archive_digest
        ]
    )
    places = sorted(map(_IN_ORDER, left))
    rows = {}
    for place, (job, digest) in enumerate(islice(zip(reversed(jobs), reversed(digests), strict=True), first + limit)):
        # Jobs that have left may turn out to be of this name, and stand before it.
        if place + len(left) - bisect_right(places, _IN_ORDER(job)) >= first:
            rows[job.job_id] = _run(job, digest, now_ms)
    runs = tuple([_known(job, digest, now_ms) for job, digest in zip(jobs, digests, strict=True)])
    return KnownRuns(runs, rows, left, len(dispatcher.forgotten))


def runs_page(known: KnownRuns, archived: Iterable[RunOfJob], name: str, first: int, limit: int) -> RunsPage:
    """Return the runs of a name from the `first`-th newest on; `archived` is what was read of `known.left`, of whatever names."""
    read = list(archived)
    rows = dict(known.rows) | {run.job_id: run for run in read if run.name == name}
    runs = _in_order(known.runs, [run for run in read if run.name == name])
    versions = _versions(runs)
    shown = [
        replace(rows[run.job_id], version=versions[run.definition_digest].version) for run in islice(reversed(runs), first, first + limit)
    ]
    vertices = dict.fromkeys(vertex.vertex_id for run in shown for vertex in run.vertices)
    return RunsPage(
        name=name,
        total=len(runs),
        runs=shown,
        vertices=list(islice(vertices, MAX_VERTICES)),
        typical_ms=_typical_ms(runs),
        versions=list(islice(reversed(versions.values()), MAX_VERSIONS)),
        versions_total=len(versions),
        unread=known.left_total - len(read),
    )


def names_page(known: KnownRuns, archived: Iterable[RunOfJob], part: str, first: int, limit: int) -> JobNamesPage:
    """Return the names that have a part in them, in any case, from the `first`-th on; those that were submitted last come first."""
    read = list(archived)
    by_name: dict[str, list[KnownRun]] = {}
    for run in reversed(_in_order(known.runs, read)):
        by_name.setdefault(run.name, []).append(run)
    wanted = part.lower()
    found = [name for name in by_name if wanted in name.lower()]
    return JobNamesPage(
        total=len(found),
        names=[_job_name(name, by_name[name][::-1]) for name in found[first : first + limit]],
        unread=known.left_total - len(read),
    )


def archived_run(job: JobInfo) -> RunOfJob:
    """Return an ended job as a run, from its archive."""
    vertices = [_archived_vertex(vertex) for vertex in job.vertices[:MAX_VERTICES]]
    began = [at for vertex in job.vertices if not _is_reused(vertex) for at in [_began_at(_newest_attempts(vertex))] if at is not None]
    return RunOfJob(
        **fields_of(job, JobRow),
        version=0,
        definition_digest=job.definition_digest,
        started_at=min(began, default=None),
        parameters=job.parameters,
        vertices=vertices,
        vertices_total=len(job.vertices),
        is_archived=True,
    )


def known_run(run: RunOfJob) -> KnownRun:
    """Return of a run what lists and versions are counted from."""
    return KnownRun(
        _ms_of(run.submitted_at),
        run.job_id,
        run.name,
        run.definition_digest,
        run.status,
        run.duration_ms,
        _ms_of(run.ended_at) if run.ended_at else 0,
        run.actor,
        run.failure_is_dismissed,
    )


def _in_order(runs: Sequence[KnownRun], archived: Iterable[RunOfJob]) -> list[KnownRun]:
    return sorted([*map(known_run, archived), *runs], key=_IN_ORDER)


def _versions(runs: Iterable[KnownRun]) -> dict[str, VersionOfJob]:
    """Return the versions by their definitions, those that came first first."""
    counts: Counter[str] = Counter()
    firsts: dict[str, KnownRun] = {}
    for run in runs:
        counts[run.definition_digest] += 1
        firsts.setdefault(run.definition_digest, run)
    return {
        digest: VersionOfJob(
            version=number,
            definition_digest=digest,
            first_job_id=run.job_id,
            first_submitted_at=iso_time(run.submitted_at_ms) or "",
            first_actor=run.actor,
            runs=counts[digest],
        )
        for number, (digest, run) in enumerate(firsts.items(), 1)
    }


def _job_name(name: str, runs: Sequence[KnownRun]) -> JobName:
    success = max((run for run in runs if run.status is JobStatus.FINISHED), key=attrgetter("ended_at_ms"), default=None)
    return JobName(
        name=name,
        runs=len(runs),
        versions=len({run.definition_digest for run in runs}),
        newest=_mark(runs[-1]),
        last_success_at=iso_time(success.ended_at_ms) if success is not None else None,
        last_success_job_id=success.job_id if success is not None else None,
        typical_ms=_typical_ms(runs),
        trend=[_mark(run) for run in runs[-MAX_TREND:]],
    )


def _mark(run: KnownRun) -> MarkOfRun:
    return MarkOfRun(
        job_id=run.job_id,
        status=run.status,
        submitted_at=iso_time(run.submitted_at_ms) or "",
        duration_ms=run.duration_ms,
        failure_is_dismissed=run.failure_is_dismissed,
    )


def _typical_ms(runs: Sequence[KnownRun]) -> int | None:
    finished = list(islice((run.duration_ms for run in reversed(runs) if run.status is JobStatus.FINISHED), MAX_TYPICAL))
    return median_low(finished) if finished else None


def _known(job: JobMaster, digest: str, now_ms: int) -> KnownRun:
    began_ms, ended_ms = job.submitted_at_ms, job.ended_at_ms
    duration_ms = (ended_ms or max(now_ms, began_ms)) - began_ms
    name = job.execution_graph.graph.name
    return KnownRun(began_ms, job.job_id, name, digest, job.status, duration_ms, ended_ms, job.actor, job.failure_is_dismissed)


def _run(job: JobMaster, digest: str, now_ms: int) -> RunOfJob:
    vertices = job.execution_graph.vertices
    began = [at_ms for vertex in vertices.values() if not vertex.is_reused for at_ms in [_began_ms(vertex)] if at_ms]
    return RunOfJob(
        **row_fields(job, now_ms) | {"parameters": shown_values(job.execution_graph.graph.parameters)},
        version=0,
        definition_digest=digest,
        started_at=iso_time(min(began, default=0)),
        vertices=[_vertex(job, vertex, now_ms) for vertex in islice(vertices.values(), MAX_VERTICES)],
        vertices_total=len(vertices),
    )


def _began_ms(vertex: ExecutionVertex) -> int:
    """Return when the first of the newest attempts was deployed; 0: none was."""
    times_ms = (each.execution.deployed_at_ms for each in vertex.subtasks if each.execution is not None)
    return min(filter(None, times_ms), default=0)


def _vertex(job: JobMaster, vertex: ExecutionVertex, now_ms: int) -> VertexOfRun:
    vertex_id, began_ms = vertex.vertex.vertex_id, _began_ms(vertex)
    deployed = [each.execution for each in vertex.subtasks if each.execution is not None and each.execution.deployed_at_ms]
    lives = any(not each.ended_at_ms for each in deployed) and job.status not in TERMINAL_JOB_STATUSES
    ended_ms = max(now_ms, began_ms) if lives else max((each.ended_at_ms for each in deployed), default=0)
    is_reused = vertex.is_reused
    return VertexOfRun(
        vertex_id=vertex_id,
        state=_says_most(vertex.state_counts),
        tasks=len(vertex.subtasks),
        tasks_finished=len(vertex.subtasks) - vertex.unfinished_subtasks,
        duration_ms=max(0, ended_ms - began_ms) if began_ms and not is_reused else None,
        is_reused=is_reused,
        skipped=vertex.skip.in_words() if vertex.skip is not None else None,
    )


def _archived_vertex(vertex: VertexInfo) -> VertexOfRun:
    newest, is_reused = _newest_attempts(vertex), _is_reused(vertex)
    began_at, ended_at = _began_at(newest), max((each.ended_at for each in newest if each.ended_at), default=None)
    ran_ms = max(0, _ms_of(ended_at) - _ms_of(began_at)) if began_at is not None and ended_at is not None else None
    return VertexOfRun(
        vertex_id=vertex.vertex_id,
        state=_says_most(vertex.states),
        tasks=len(vertex.subtasks),
        tasks_finished=vertex.states.get(ExecutionState.FINISHED, 0),
        duration_ms=ran_ms if not is_reused else None,
        is_reused=is_reused,
        skipped=vertex.skipped,
    )


def _is_reused(vertex: VertexInfo) -> bool:
    return vertex.reuse is not None and vertex.reuse.is_reused


def _newest_attempts(vertex: VertexInfo) -> list[AttemptInfo]:
    return [attempt for subtask in vertex.subtasks for attempt in subtask.attempts if attempt.attempt == subtask.attempt]


def _began_at(attempts: Iterable[AttemptInfo]) -> str | None:
    return min((each.deployed_at for each in attempts if each.deployed_at), default=None)


def _says_most(states: Iterable[ExecutionState]) -> ExecutionState:
    there = set(states)
    return next((state for state in _SAYS_MOST if state in there), ExecutionState.CREATED)


def _ms_of(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


Merge = Callable[[KnownRuns, Sequence[RunOfJob]], object]
"""What makes a document, or documents by name, of what a state knows and of what was read of archives."""
