"""The pages of the whole cluster: its overview, what waits, and its TaskManagers."""

from fastapi import APIRouter

from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ApplicationStatus, ExecutionState, JobStatus
from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.own.page_shapes import Failure, Wait
from eventflink.rest.own.task_manager_shapes import TaskManagerSlots
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.pages.health import Severity

router = APIRouter()


class Problem(OwnShape):
    """Something that is wrong."""

    severity: Severity
    sentence: str
    link: str
    """The page of the dashboard that shows more."""


class SlotCounts(OwnShape):
    """The slots of the cluster, and who waits for them."""

    total: int
    free: int
    pending: int
    """Asked of the resource driver, and not registered yet."""
    requests: int
    """Tasks that wait for a slot."""
    resources: ResourceProfile | None
    """What all slots have together whose TaskManagers say it; null: none does."""
    resources_free: ResourceProfile | None
    """What of it is in free slots."""


class Masters(OwnShape):
    """Who leads, as the log says."""

    leader: str
    blob_address: str


class Shutdown(OwnShape):
    """How far the end of the cluster has come."""

    application_status: ApplicationStatus
    diagnostics: str
    cancel_jobs: bool
    actor: str
    requested_at: str | None
    status_recorded_at: str | None
    is_over: bool


class ClusterPage(OwnShape):
    """The overview of a cluster."""

    sentence: str
    """Whether everything is fine."""
    problems: list[Problem]
    jobs: dict[JobStatus, int]
    tasks: dict[ExecutionState, int]
    """Of jobs that have not ended."""
    slots: SlotCounts
    waits: list[Wait]
    """The first five: trouble first, then the longest."""
    waits_total: int
    failures: list[Failure]
    """The newest five."""
    task_managers: list[TaskManagerSlots]
    """The first ones, up to 2,000 slots in all."""
    task_managers_total: int
    masters: Masters
    shutdown: Shutdown | None


@router.get("/cluster")
async def cluster(moments: MomentsOfRequest) -> Moment[ClusterPage]:
    """Return the overview of the cluster: whether everything is fine, what is broken, and whose it is."""
    return await moments.page(cluster_page, of_all_jobs=True)
