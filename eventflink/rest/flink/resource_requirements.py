"""How parallel the vertices of a job are to be: a rescale of each vertex that wants another parallelism than the upper bound it is given.

A vertex gets its upper bound: at once with the default scheduler; with the adaptive one as soon as there are slots, and one subtask has to
do until then. So a higher lower bound is refused of an adaptive job. Vertices are rescaled one after the other: a refusal of one leaves
what was done before it, and the same request may be repeated.
"""

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import Field

from eventflink.leadership.fold import Fold
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, SchedulerType
from eventflink.rest.commanding import ACTOR, CommandsOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.flink.asynchronous import Body
from eventflink.rest.flink.shapes import Empty
from eventflink.rest.reading import ReadsOfRequest
from eventflink.views.archive import archived_job
from eventflink.views.jobs_and_cluster import job_view, not_in_memory
from eventflink.views.plain import View

router = APIRouter()


class ParallelismBounds(Body):
    """How many subtasks a vertex may have."""

    lower_bound: int = Field(alias="lowerBound", ge=1, le=2**31 - 1)
    upper_bound: int = Field(alias="upperBound", ge=1, le=2**31 - 1)


class VertexRequirements(Body):
    """What a vertex is to have."""

    parallelism: ParallelismBounds


@router.put("/jobs/{jobid}/resource-requirements")
async def update_resource_requirements(
    jobid: str, requirements: dict[str, VertexRequirements], reads: ReadsOfRequest, commands: CommandsOfRequest
) -> Empty:
    """Give vertices another parallelism."""

    def compute(fold: Fold) -> View:
        if jobid not in fold.master.dispatcher.jobs:
            raise not_in_memory(fold, jobid)
        return job_view(fold, jobid)

    job = await reads.job(compute, archived_job)
    if job["status"] in TERMINAL_JOB_STATUSES:
        raise RestError(HTTPStatus.CONFLICT, f"job '{jobid}' is {job['status']} already")
    if faults := _faults_of(requirements, job):
        raise RestError(HTTPStatus.BAD_REQUEST, "; ".join(faults))
    for vertex in job["vertices"]:
        vertex_id = vertex["vertex_id"]
        wanted = requirements[vertex_id].parallelism.upper_bound
        if vertex["wanted_parallelism"] != wanted:
            await commands.decided(commands.dispatcher.request_rescale(jobid, vertex_id, wanted, actor=ACTOR))
    return Empty()


def _faults_of(requirements: dict[str, VertexRequirements], job: View) -> list[str]:
    """Return what is wrong with bounds, whatever the job does at the moment."""
    vertices = {vertex["vertex_id"]: vertex for vertex in job["vertices"]}
    faults = [f"job '{job['job_id']}' has no vertex '{name[:128]}'" for name in requirements if name not in vertices]
    faults += [f"vertex '{name}' has no requirements; all vertices need them" for name in vertices if name not in requirements]
    for name, vertex in vertices.items():
        bounds = requirements[name].parallelism if name in requirements else None
        if bounds is None:
            continue
        if not bounds.lower_bound <= bounds.upper_bound <= vertex["max_parallelism"]:
            faults.append(
                f"vertex '{name}': not 1 <= lowerBound {bounds.lower_bound} <= upperBound {bounds.upper_bound} "
                f"<= maximum parallelism {vertex['max_parallelism']}"
            )
        elif job["scheduler"] == SchedulerType.ADAPTIVE and bounds.lower_bound > 1:
            faults.append(f"vertex '{name}': lowerBound has to be 1, as the adaptive scheduler makes do with what slots there are")
    return faults
