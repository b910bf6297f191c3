"""A job with its vertices, as Flink's JobDetailsHandler answers it: `/jobs/{jobid}`; its plan is in `plans.py`."""

from pydantic import Field

from eventflink.documents.one_job import JobInfo, VertexInfo
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.rest.flink.attempts import current_row, now_of, standing_of
from eventflink.rest.flink.io_metrics import IOMetricsInfo, io_metrics_of
from eventflink.rest.flink.job_lists import scheduler_type_of
from eventflink.rest.flink.plans import Plan, job_type_of, plan_of
from eventflink.rest.flink.shapes import NONE, Shape, epoch_ms


class JobDetailsVertexInfo(Shape):
    """A vertex as a row; times are those of its current attempts."""

    id: str
    slot_sharing_group_id: str = Field(serialization_alias="slotSharingGroupId")
    """The name of the group; a vertex without one is a group of its own."""
    name: str
    max_parallelism: int = Field(serialization_alias="maxParallelism")
    parallelism: int
    status: ExecutionState
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    tasks: dict[str, int]
    metrics: IOMetricsInfo


class JobDetailsInfo(Shape):
    """A job with its vertices."""

    jid: str
    application_id: str = Field(serialization_alias="application-id")
    name: str
    is_stoppable: bool = Field(default=False, serialization_alias="isStoppable")
    state: JobStatus
    job_type: str = Field(serialization_alias="job-type")
    scheduler_type: str = Field(serialization_alias="schedulerType")
    start_time: int = Field(serialization_alias="start-time")
    end_time: int = Field(serialization_alias="end-time")
    duration: int
    max_parallelism: int = Field(default=NONE, serialization_alias="maxParallelism")
    now: int
    """Up to when durations count: where the log's time stands, or when the job ended."""
    timestamps: dict[str, int]
    """When it entered each status last; 0: never."""
    vertices: list[JobDetailsVertexInfo]
    status_counts: dict[str, int] = Field(serialization_alias="status-counts")
    """How many vertices are in each state."""
    plan: Plan
    pending_operators: int = Field(default=0, serialization_alias="pending-operators")


def job_details_of(job: JobInfo) -> JobDetailsInfo:
    """Return the answer from what `job_view` shows."""
    now = now_of(job)
    vertices = [_vertex_info(vertex, now) for vertex in job.vertices]
    counts = dict.fromkeys((state.value for state in ExecutionState), 0)
    for vertex in vertices:
        counts[vertex.status] += 1
    return JobDetailsInfo(
        jid=job.job_id,
        application_id=job.job_id,
        name=job.name,
        state=job.status,
        job_type=job_type_of(has_streams=job.has_streams),
        scheduler_type=scheduler_type_of(job.scheduler),
        start_time=epoch_ms(job.submitted_at),
        end_time=epoch_ms(job.ended_at),
        duration=job.duration_ms,
        now=now,
        timestamps={status.value: epoch_ms(job.status_times.get(status), none=0) for status in JobStatus},
        vertices=vertices,
        status_counts=counts,
        plan=plan_of(job),
    )


def _vertex_info(vertex: VertexInfo, now_ms: int) -> JobDetailsVertexInfo:
    standing = standing_of(vertex.subtasks, now_ms)
    return JobDetailsVertexInfo(
        id=vertex.vertex_id,
        slot_sharing_group_id=vertex.slot_sharing_group or vertex.vertex_id,
        name=vertex.name,
        max_parallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        status=standing.state,
        start_time=standing.start_ms,
        end_time=standing.end_ms,
        duration=standing.duration_ms,
        tasks=standing.counts,
        metrics=io_metrics_of(current_row(subtask) for subtask in vertex.subtasks),
    )
