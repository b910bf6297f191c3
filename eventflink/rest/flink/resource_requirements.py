"""How parallel the vertices of a job are to be: a rescale of each vertex that wants another parallelism than the upper bound it is given.

A vertex gets its upper bound: at once with the default scheduler; with the adaptive one as soon as there are slots, and one subtask has to
do until then. So a higher lower bound is refused of an adaptive job. Vertices are rescaled one after the other: a refusal of one leaves
what was done before it, and the same request may be repeated.
"""

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.one_job import JobInfo
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, SchedulerType
from eventflink.rest.commanding import CommandsOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.flink.asynchronous import Body, Count
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.shapes import Empty, Shape
from eventflink.rest.requests import BodyRoute

router = APIRouter(prefix=ONE_JOB, route_class=BodyRoute)


class Parallelism(Shape):
    """Between which bounds the parallelism of a vertex is."""

    lower_bound: int = Field(serialization_alias="lowerBound")
    upper_bound: int = Field(serialization_alias="upperBound")


class JobVertexResourceRequirements(Shape):
    """What a vertex requires."""

    parallelism: Parallelism


class ParallelismBounds(Body):
    """How many subtasks a vertex may have."""

    lower_bound: Count = Field(alias="lowerBound")
    upper_bound: Count = Field(alias="upperBound")


class VertexRequirements(Body):
    """What a vertex is to have."""

    parallelism: ParallelismBounds


@router.get("/resource-requirements")
async def resource_requirements(reads: JobReadsOfRequest) -> dict[str, JobVertexResourceRequirements]:
    """Return of each vertex how many subtasks it may have; with the adaptive scheduler it may have to do with one."""
    job = await reads.job()
    is_adaptive = job.scheduler == SchedulerType.ADAPTIVE
    found = {}
    for vertex in job.vertices:
        wanted = vertex.wanted_parallelism
        bounds = Parallelism(lower_bound=1 if is_adaptive else wanted, upper_bound=wanted)
        found[vertex.vertex_id] = JobVertexResourceRequirements(parallelism=bounds)
    return found


@router.put("/resource-requirements")
async def update_resource_requirements(
    requirements: dict[str, VertexRequirements], reads: JobReadsOfRequest, commands: CommandsOfRequest
) -> Empty:
    """Give vertices another parallelism."""
    jobid, job = reads.job_id, await reads.job()
    if job.status in TERMINAL_JOB_STATUSES:
        raise RestError(HTTPStatus.CONFLICT, f"job '{jobid}' is {job.status} already")
    if faults := _faults_of(requirements, job):
        raise RestError(HTTPStatus.BAD_REQUEST, "; ".join(faults))
    for vertex in job.vertices:
        vertex_id = vertex.vertex_id
        wanted = requirements[vertex_id].parallelism.upper_bound
        if vertex.wanted_parallelism != wanted:
            await commands.decided(commands.dispatcher.request_rescale(jobid, vertex_id, wanted, actor=commands.actor))
    return Empty()


def _faults_of(requirements: dict[str, VertexRequirements], job: JobInfo) -> list[str]:
    """Return what is wrong with bounds, whatever the job does at the moment."""
    vertices = {vertex.vertex_id: vertex for vertex in job.vertices}
    faults = [f"vertex not found: '{name[:128]}' in job '{job.job_id}'" for name in requirements if name not in vertices]
    faults += [f"vertex '{name}' has no requirements; all vertices need them" for name in vertices if name not in requirements]
    for name, vertex in vertices.items():
        bounds = requirements[name].parallelism if name in requirements else None
        if bounds is None:
            continue
        if not bounds.lower_bound <= bounds.upper_bound <= vertex.max_parallelism:
            faults.append(
                f"vertex '{name}': not 1 <= lowerBound {bounds.lower_bound} <= upperBound {bounds.upper_bound} "
                f"<= maximum parallelism {vertex.max_parallelism}"
            )
        elif job.scheduler == SchedulerType.ADAPTIVE and bounds.lower_bound > 1:
            faults.append(f"vertex '{name}': lowerBound has to be 1, as the adaptive scheduler makes do with what slots there are")
    return faults
