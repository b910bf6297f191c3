"""The questions about a cluster that clients put, by path: one table for whoever answers, a REST process or a fold of the log.

An answer is plain values, and names the offset of the log that it reflects. The rule: a path and its parameters have the same answer
wherever it is computed, so there is one function of the state for each, and nothing that answers adds to it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from eventflink.blob.job_archives import JobArchives
from eventflink.documents.one_job import JobArchive
from eventflink.documents.plain import plain
from eventflink.documents.runs import DEFAULT_NAMES, DEFAULT_RUNS, MAX_FIRST, MAX_NAMES, MAX_RUNS, RunOfJob
from eventflink.leadership.fold import Fold
from eventflink.model.statuses import JobStatus
from eventflink.reader.archives.reading import read_archived
from eventflink.reader.archives.runs import ArchivedRuns
from eventflink.views import queries
from eventflink.views.archive import archived_exceptions, archived_status
from eventflink.views.checkpoints import checkpoints_view
from eventflink.views.exceptions import exceptions_view
from eventflink.views.job_document import document_of
from eventflink.views.jobs_and_cluster import JobNotFound, cluster_view, find_job, job_view, jobs_view
from eventflink.views.plain import MAX_EXCEPTIONS
from eventflink.views.queries import MAX_LISTED_JOBS
from eventflink.views.runs import KnownRuns, Merge, known_runs, names_page, runs_page
from eventflink.views.schedules import schedule_view, schedules_view

DEFAULT_JOBS: Final = 100
MAX_LISTED_SCHEDULES: Final = 10_000
MAX_WAIT_MS: Final = 60_000
_OF_A_JOB: Final = re.compile(r"/jobs/(.*?)(/exceptions|/checkpoints|/document|/status|/result|)", re.DOTALL)
_OF_A_SCHEDULE: Final = re.compile(r"/schedules/(.*)", re.DOTALL)
_OF_A_TASK_MANAGER: Final = re.compile(r"/taskmanagers/(.*)", re.DOTALL)

Parameters = Mapping[str, str | int | Sequence[str]]


class QuestionRefused(Exception):
    """There is no such question, or a parameter is wrong; the message says which."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a state."""

    compute: Callable[[Fold], object]
    """Returns a document, or documents by name. Raises `JobNotFound` and `SubjectNotFound`."""
    from_archive: Callable[[JobArchive], object] | None = None
    """Makes the same answer of the archive of a job that has left the memory; None: it is not about one job."""
    wait_s: float = 0.0
    """How long a job's end is waited for; 0: the answer is given at once."""
    rows: int = 0
    """How many jobs there may be in the answer."""
    merge: Merge | None = None
    """Makes the answer of `KnownRuns`, which `compute` returns, and of the archives that these name; None: that is the answer itself."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, or which job is to be looked for in the archives."""

    view: dict[str, Any]
    log_offset: int
    epoch: int
    missing: JobNotFound | None = None
    runs: KnownRuns | None = None
    """What is to be merged with archives."""

    def is_enough(self, question: Question) -> bool:
        """Return False if the end of the job that is waited for has not come."""
        return question.wait_s == 0 or self.missing is not None or bool(self.view["result"]["is_terminal"])


def question_of(path: str, parameters: Parameters) -> Question:
    """Return the question at a path.

    Raises:
        QuestionInvalid: there is none, or it does not take these parameters.

    """
    given = dict(parameters)
    question = _question(path, given)
    if given:
        raise QuestionRefused(f"{path}: unknown parameter: '{next(iter(given))[:40]}'")
    return question


def look_up(question: Question, fold: Fold) -> Found:
    """Return what a state answers, which shares nothing with it; raises `SubjectNotFound`, and `JobNotFound` of what has no archive."""
    try:
        found = question.compute(fold)
        if isinstance(found, KnownRuns):
            return Found({}, fold.last_offset, fold.acceptance.epoch, runs=found)
        return Found(plain(found), fold.last_offset, fold.acceptance.epoch)
    except JobNotFound as missing:
        if question.from_archive is None:
            raise
        return Found({}, fold.last_offset, fold.acceptance.epoch, missing)


def answer_of(question: Question, found: Found, archives: JobArchives | None, archived: ArchivedRuns | None = None) -> dict[str, Any]:
    """Return the whole answer; blocks where it is in an archive, and raises as `read_archived` does."""
    view = found.view
    if found.runs is not None:
        view = merged(question, found.runs, (archived or ArchivedRuns()).read(archives, found.runs.left))
    if found.missing is not None and question.from_archive is not None:
        view = plain(question.from_archive(read_archived(archives, found.missing)))
    return {**view, "epoch": found.epoch, "log_offset": found.log_offset}


def merged(question: Question, known: KnownRuns, archived: Sequence[RunOfJob]) -> dict[str, Any]:
    """Return an answer of what a state knows of runs and what was read of archives."""
    assert question.merge is not None  # noqa: S101 - what returns `KnownRuns` has it
    view: dict[str, Any] = plain(question.merge(known, archived))
    return view


def _question(path: str, given: dict[str, str | int | Sequence[str]]) -> Question:
    """Return the question at a path, and take its parameters out of `given`."""
    if path in _OF_THE_CLUSTER:
        return Question(_OF_THE_CLUSTER[path])
    if path == "/jobs":
        statuses, limit = _statuses(given), _number(given, "limit", DEFAULT_JOBS, MAX_LISTED_JOBS)
        labels, queues = _texts(given, "label"), _texts(given, "queue")
        return Question(lambda fold: jobs_view(fold, statuses, limit, labels, queues), rows=limit)
    if path in ("/runs", "/names"):
        return _of_runs(path, given)
    if (found := _OF_A_TASK_MANAGER.fullmatch(path)) is not None:
        name = found[1]
        return Question(lambda fold: {"task_manager": queries.task_manager(fold, name)})
    if (found := _OF_A_SCHEDULE.fullmatch(path)) is not None:
        schedule_id = found[1]
        return Question(lambda fold: {"schedule": schedule_view(fold, schedule_id)})
    if (found := _OF_A_JOB.fullmatch(path)) is not None:
        return _of_a_job(found[1], found[2], given)
    raise QuestionRefused(f"unknown question: '{path[:200]}'")


def _of_runs(path: str, given: dict[str, str | int | Sequence[str]]) -> Question:
    name, first = _text(given, "name", ""), _number(given, "first", 0, MAX_FIRST, least=0)
    if path == "/names":
        limit = _number(given, "limit", DEFAULT_NAMES, MAX_NAMES)
        return Question(
            lambda fold: known_runs(fold, None),
            merge=lambda known, archived: {"names": names_page(known, archived, name, first, limit)},
        )
    if not name:
        raise QuestionRefused("invalid name: '' is no name of a job")
    limit = _number(given, "limit", DEFAULT_RUNS, MAX_RUNS)
    return Question(
        lambda fold: known_runs(fold, name, first, limit),
        merge=lambda known, archived: {"runs": runs_page(known, archived, name, first, limit)},
    )


def _of_a_job(job_id: str, part: str, given: dict[str, str | int | Sequence[str]]) -> Question:
    match part:
        case "/exceptions":
            limit = _number(given, "limit", MAX_EXCEPTIONS, MAX_EXCEPTIONS)
            return Question(lambda fold: exceptions_view(find_job(fold, job_id), limit), partial(archived_exceptions, limit=limit))
        case "/checkpoints":
            return Question(lambda fold: checkpoints_view(find_job(fold, job_id)), lambda archive: archive.checkpoints)
        case "/document":
            return Question(lambda fold: document_of(find_job(fold, job_id)), lambda archive: archive.document)
        case "/status":
            return Question(lambda fold: {"job": queries.job_status(fold, job_id)}, lambda archive: {"job": archived_status(archive)})
        case "/result":
            wait_s = _number(given, "wait_ms", 0, MAX_WAIT_MS, least=0) / 1000
            return Question(lambda fold: {"result": queries.job_result(fold, job_id)}, lambda archive: {"result": archive.result}, wait_s)
        case _:
            return Question(lambda fold: {"job": job_view(fold, job_id)}, lambda archive: {"job": archive.job})


_OF_THE_CLUSTER: Final[dict[str, Callable[[Fold], object]]] = {
    "/cluster": lambda fold: {"cluster": cluster_view(fold)},
    "/overview": lambda fold: {"overview": queries.overview(fold)},
    "/job-statuses": queries.job_statuses,
    "/schedules": lambda fold: {"schedules": schedules_view(fold, limit=MAX_LISTED_SCHEDULES)},
    "/taskmanagers": queries.task_managers,
}


def _texts(given: dict[str, str | int | Sequence[str]], name: str) -> list[str]:
    asked = given.pop(name, ())
    return [str(asked)] if isinstance(asked, str | int) else list(asked)


def _statuses(given: dict[str, str | int | Sequence[str]]) -> frozenset[str]:
    statuses = frozenset(_texts(given, "status"))
    unknown = sorted(str(each) for each in statuses - set(JobStatus))
    if unknown:
        raise QuestionRefused(f"unknown status: '{unknown[0][:40]}'; known: {', '.join(JobStatus)}")
    return frozenset(str(each) for each in statuses)


def _text(given: dict[str, str | int | Sequence[str]], name: str, default: str) -> str:
    value = given.pop(name, default)
    if not isinstance(value, str | int):
        raise QuestionRefused(f"invalid {name}: one is expected, and {len(value)} are given")
    return str(value)


def _number(given: dict[str, str | int | Sequence[str]], name: str, default: int, most: int, *, least: int = 1) -> int:
    text = _text(given, name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise QuestionRefused(f"invalid {name}: '{text[:40]}' is not a whole number from {least} to {most}")
    return int(text)
