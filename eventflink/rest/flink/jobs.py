"""One job: what it is, where it stands, how it is configured and how it came out. Its vertices are in `vertices.py`."""

from fastapi import APIRouter
from pydantic import Field

from eventflink.model import attempts
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.job_parameters import text_of
from eventflink.model.statuses import ApplicationStatus, JobStatus
from eventflink.rest.flink.accumulators import serialized
from eventflink.rest.flink.asynchronous import QueueStatus, QueueStatusId, ThrowableInfo, failure_cause
from eventflink.rest.flink.job_details import JobDetailsInfo, job_details_of
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.plans import JobPlanInfo, plan_of
from eventflink.rest.flink.shapes import NONE, Shape, epoch_ms
from eventflink.views.plain import fields_of

router = APIRouter(prefix=ONE_JOB)


class JobStatusInfo(Shape):
    """Where a job stands."""

    status: JobStatus


class ExecutionConfigInfo(Shape):
    """How the tasks of a job are run."""

    restart_strategy: str = Field(serialization_alias="restart-strategy")
    job_parallelism: int = Field(default=NONE, serialization_alias="job-parallelism")
    object_reuse_mode: bool = Field(default=False, serialization_alias="object-reuse-mode")
    user_config: dict[str, str] = Field(default={}, serialization_alias="user-config")


class JobConfigInfo(Shape):
    """How a job is configured."""

    jid: str
    name: str
    execution_config: ExecutionConfigInfo = Field(serialization_alias="execution-config")


class JobExecutionResult(Shape):
    """How a job came out."""

    id: str
    name: str
    application_status: ApplicationStatus = Field(serialization_alias="application-status")
    accumulator_results: dict[str, str] = Field(serialization_alias="accumulator-results")
    """As Java serializes them, in base 64: what Flink's clients read."""
    net_runtime: int = Field(serialization_alias="net-runtime")
    application_id: str = Field(serialization_alias="application-id")
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    failure_cause: ThrowableInfo | None = Field(serialization_alias="failure-cause", exclude_if=lambda cause: cause is None)


class JobExecutionResultResponseBody(Shape):
    """How a job came out, or that it has not ended."""

    status: QueueStatus
    result: JobExecutionResult | None = Field(
        default=None, serialization_alias="job-execution-result", exclude_if=lambda result: result is None
    )


_APPLICATION_STATUSES = {
    JobStatus.FINISHED: ApplicationStatus.SUCCEEDED,
    JobStatus.FAILED: ApplicationStatus.FAILED,
    JobStatus.CANCELED: ApplicationStatus.CANCELED,
}


@router.get("")
async def job_details(reads: JobReadsOfRequest) -> JobDetailsInfo:
    """Return a job with its vertices and its plan."""
    return job_details_of(await reads.job())


@router.get("/plan")
async def job_plan(reads: JobReadsOfRequest) -> JobPlanInfo:
    """Return the plan of a job."""
    return JobPlanInfo(plan=plan_of(await reads.job()))


@router.get("/status")
async def job_status(reads: JobReadsOfRequest) -> JobStatusInfo:
    """Return where a job stands; it is known of a job without an archive as well."""
    return JobStatusInfo(status=(await reads.status()).status)


@router.get("/config")
async def job_config(reads: JobReadsOfRequest) -> JobConfigInfo:
    """Return how a job is configured."""
    job = await reads.job()
    strategy = _restart_strategy(job.restart_strategy)
    parameters = {name: text_of(value) for name, value in job.parameters.items()}
    made = ExecutionConfigInfo(restart_strategy=strategy, user_config=parameters)
    return JobConfigInfo(jid=job.job_id, name=job.name, execution_config=made)


@router.get("/execution-result")
async def execution_result(reads: JobReadsOfRequest) -> JobExecutionResultResponseBody:
    """Return how a job came out, or that it has not ended."""
    name, result = await reads.result()
    if not result.is_terminal:
        return JobExecutionResultResponseBody(status=QueueStatus(id=QueueStatusId.IN_PROGRESS))
    made = JobExecutionResult(
        id=result.job_id,
        name=name,
        application_status=_APPLICATION_STATUSES[result.status],
        accumulator_results=serialized(result.accumulators or []),
        net_runtime=result.net_run_time_ms or 0,
        application_id=result.job_id,
        start_time=epoch_ms(result.submitted_at),
        end_time=epoch_ms(result.ended_at),
        failure_cause=_failure_cause(result.cause) if result.status is JobStatus.FAILED else None,
    )
    return JobExecutionResultResponseBody(status=QueueStatus(id=QueueStatusId.COMPLETED), result=made)


def _failure_cause(cause: attempts.FailureCause | None) -> ThrowableInfo | None:
    return failure_cause(cause.failure_type, cause.message, cause.stack_trace or "") if cause is not None else None


def _restart_strategy(strategy: RestartStrategy | None) -> str:
    """Return a restart strategy in words: its type, and of its numbers those that it uses."""
    if strategy is None:
        return "not known yet: the job has no JobMaster"
    used = [f"{name} {value}" for name, value in fields_of(strategy).items() if name != "strategy_type" and value]
    return ", ".join([strategy.strategy_type.lower().replace("_", "-"), *used])
