"""What a request is about, and the two answers to it, of whichever component: accepted, or refused by a code and in words.

Answers are bounded: a request is answered by a decision, however long the ids and words in it are (P7, P10a).
"""

from typing import Final

from eventflink.events.inputs import (
    BlockTaskManager,
    Command,
    ConfirmSnapshot,
    DrillStep,
    JobSubmission,
    ReportSnapshot,
    RequestTaskManagerFileUpload,
    ShutDownCluster,
    UnblockTaskManager,
)
from eventflink.events.log_events import RequestAccepted, RequestRejected

CLUSTER_SUBJECT: Final = "cluster"
"""What a request is about that concerns the whole cluster."""

MAX_MESSAGE_LENGTH: Final = 8_192
MAX_SUBJECT_LENGTH: Final = 128
"""As long as an id may be."""


def subject_of(request: JobSubmission | Command) -> str:
    """Return what a request is about, in full: the id of a job, a TaskManager, a snapshot or a drill, or the cluster."""
    match request:
        case BlockTaskManager() | UnblockTaskManager() | RequestTaskManagerFileUpload():
            return request.task_manager_id
        case ReportSnapshot() | ConfirmSnapshot():
            return request.snapshot_id
        case DrillStep():
            return request.drill_id
        case ShutDownCluster():
            return CLUSTER_SUBJECT
        case _:
            return request.job_id


def accepted(request: JobSubmission | Command) -> RequestAccepted:
    """Return that the request is done, or begun."""
    return RequestAccepted(
        request_id=request.request_id, reply_partition=request.reply_partition, subject=subject_of(request)[:MAX_SUBJECT_LENGTH]
    )


def rejected(request: JobSubmission | Command, code: str, message: str) -> RequestRejected:
    """Return that the request is refused, and changed nothing."""
    return RequestRejected(
        request_id=request.request_id,
        reply_partition=request.reply_partition,
        subject=subject_of(request)[:MAX_SUBJECT_LENGTH],
        code=code,
        message=message[:MAX_MESSAGE_LENGTH],
        dead_letter=False,
    )
