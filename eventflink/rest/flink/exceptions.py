"""Why attempts of a job failed, as Flink's JobExceptionsHandler answers it: `/jobs/{jobid}/exceptions`, the newest failure first."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field

from eventflink.documents.failures import FailureOfJob, FailureRow
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Shape, epoch_ms
from eventflink.views.plain import MAX_EXCEPTIONS

DEFAULT_EXCEPTIONS: Final = 20
"""As Flink's."""

router = APIRouter(prefix=ONE_JOB)


def _is_none(value: str | None) -> bool:
    return value is None


class ExceptionInfo(Shape):
    """A failure. What the job as a whole failed of has no task and no TaskManager."""

    exception_name: str = Field(serialization_alias="exceptionName")
    stacktrace: str
    """Where none was kept: the type and the message."""
    timestamp: int
    task_name: str | None = Field(serialization_alias="taskName", exclude_if=_is_none)
    endpoint: str | None = Field(exclude_if=_is_none)
    task_manager_id: str | None = Field(serialization_alias="taskManagerId", exclude_if=_is_none)
    failure_labels: dict[str, str] = Field(default={}, serialization_alias="failureLabels")


class RootExceptionInfo(ExceptionInfo):
    """A failure that something followed from, with those that came with it."""

    concurrent_exceptions: list[ExceptionInfo] = Field(serialization_alias="concurrentExceptions")


class JobExceptionHistory(Shape):
    """The newest failures, and whether there are more."""

    entries: list[RootExceptionInfo]
    truncated: bool


class JobExceptionsInfoWithHistory(Shape):
    """The newest failures of a job."""

    exception_history: JobExceptionHistory = Field(serialization_alias="exceptionHistory")


@router.get("/exceptions")
async def exceptions(
    reads: JobReadsOfRequest,
    limit: Annotated[int, Query(alias="maxExceptions", ge=0)] = DEFAULT_EXCEPTIONS,
    labels: Annotated[str, Query(alias="failureLabelFilter", pattern=r"^([^:,]+:[^:,]+(,[^:,]+:[^:,]+)*)?$")] = "",
) -> JobExceptionsInfoWithHistory:
    """Return the newest failures of a job. Failures have no labels here: those with certain labels are none."""
    view = await reads.exceptions(min(limit, MAX_EXCEPTIONS))
    entries = [_root(exception) for exception in view.exceptions] if not labels else []
    return JobExceptionsInfoWithHistory(exception_history=JobExceptionHistory(entries=entries, truncated=view.truncated and not labels))


def _root(exception: FailureOfJob) -> RootExceptionInfo:
    concurrent = [ExceptionInfo(**_fields(each)) for each in exception.concurrent]
    return RootExceptionInfo(**_fields(exception), concurrent_exceptions=concurrent)


def _fields(failure: FailureRow) -> dict[str, Any]:
    cause = failure.cause
    return {
        "exception_name": cause.failure_type,
        "stacktrace": cause.stack_trace or f"{cause.failure_type}: {cause.message}",
        "timestamp": epoch_ms(failure.at),
        "task_name": failure.task if failure.vertex_id else None,
        "endpoint": failure.task_manager_id,
        "task_manager_id": failure.task_manager_id,
    }
