"""Failures of tasks in one sentence, and whose they are: what pages show of a failure without its stack trace.

Whose a failure is follows from its type, the stable word of `docs/job-graph.md`; of a type that is not listed it is the code's.
"""

import heapq
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from eventflink.master.exception_history import RootFailure
from eventflink.master.job_master import JobMaster
from eventflink.model.attempts import FailureCause
from eventflink.views.exceptions import exception_view
from eventflink.views.plain import View, one_sentence, reaction_of


class FailureKind(StrEnum):
    """Whose a failure is."""

    CODE = "code"
    DATA = "data"
    ROOM = "room"
    """There was no slot."""
    TASK_MANAGER = "task_manager"
    MASTERS = "masters"
    """Also Kafka's."""


_KINDS: Final = {
    **dict.fromkeys(("NoResourceAvailable", "UnfulfillableSlotRequest", "SlotOfferRejected"), FailureKind.ROOM),
    **dict.fromkeys(
        (
            "AttemptMissing",
            "ClientSilent",
            "ForkServerDied",
            "InputLost",
            "SparkConnectGrpcException",
            "SparkUnavailable",
            "TaskManagerDisconnected",
            "TaskManagerLost",
            "TaskManagerReleased",
            "TaskProcessBroken",
            "TaskProcessDied",
            "TaskProcessNotStarted",
            "UnexpectedCancellation",
        ),
        FailureKind.TASK_MANAGER,
    ),
    **dict.fromkeys(
        ("ArithmeticException", "DateTimeException", "InputUnusable", "NumberFormatException", "RowUnusable", "UnicodeDecodeError"),
        FailureKind.DATA,
    ),
    **dict.fromkeys(
        (
            "BlobDamaged",
            "BlobNotFound",
            "BlobStorageFailed",
            "BlobUnavailable",
            "KafkaException",
            "RegistryUnavailable",
            "SinkUnavailable",
        ),
        FailureKind.MASTERS,
    ),
}


def kind_of(cause: FailureCause) -> FailureKind:
    """Return whose a failure is: by its type, else by that of the exception that it goes back to."""
    return _KINDS.get(cause.failure_type) or _KINDS.get(cause.root_type, FailureKind.CODE)


def failure_row(job: JobMaster, root: RootFailure) -> View:
    """Return a failure that something followed from, in a row."""
    view, cause = exception_view(root), root.failure.cause
    return {
        "job_id": job.job_id,
        "name": job.execution_graph.graph.name,
        "task": view["task"],
        "vertex_id": view["vertex_id"],
        "subtask_index": view["subtask_index"],
        "attempt": view["attempt"],
        "task_manager_id": view["task_manager_id"],
        "failure_type": cause.failure_type,
        "message": cause.message,
        "at": view["at"],
        "kind": kind_of(cause),
        "sentence": failure_sentence(view),
    }


def failure_sentence(exception: View) -> str:
    """Return in one sentence what failed, why, and what that led to, of a failure as `exception_view` shows it."""
    reaction = reaction_of(exception)
    what = f"{exception['task']} failed: {cause_in_words(exception['cause'])}"
    return one_sentence(f"{what}: {reaction}" if reaction else what)


def cause_in_words(cause: View) -> str:
    """Return type and message of a cause in one line."""
    message = cause["message"].strip().partition("\n")[0]
    return f"{cause['failure_type']}: {message}" if message else cause["failure_type"]


def newest_failures(jobs: Iterable[JobMaster], count: int) -> list[View]:
    """Return the newest failures of all these jobs, the newest first."""
    roots = ((root.failure.at_ms, job, root) for job in jobs for root in job.exceptions.roots[-count:])
    return [failure_row(job, root) for _, job, root in heapq.nlargest(count, roots, key=lambda each: each[0])]
