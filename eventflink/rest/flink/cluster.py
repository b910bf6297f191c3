"""The cluster as a whole: what a dashboard has to know of it, how much there is of everything, and its end."""

from datetime import datetime
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter
from pydantic import Field

from eventflink.documents.cluster import Overview
from eventflink.documents.task_managers import CountedTaskManager
from eventflink.leadership.fold import Fold
from eventflink.model.statuses import JobStatus
from eventflink.rest.commanding import CommandsOfRequest
from eventflink.rest.flink.shapes import Empty, Shape
from eventflink.rest.reading import ReadsOfRequest, ServicesOfRequest
from eventflink.views.queries import overview, task_managers

FLINK_VERSION: Final = "2.3.0-eventflink"
"""Of which Flink this is the API."""

REFRESH_INTERVAL_MS: Final = 3_000
"""How often a dashboard asks, as Flink's does unless it is told otherwise."""

router = APIRouter()


class Features(Shape):
    """What a dashboard may offer."""

    web_submit: bool = Field(default=False, serialization_alias="web-submit")
    web_cancel: bool = Field(default=True, serialization_alias="web-cancel")
    web_rescale: bool = Field(default=True, serialization_alias="web-rescale")
    web_history: bool = Field(default=False, serialization_alias="web-history")


class DashboardConfiguration(Shape):
    """What a dashboard asks for first."""

    refresh_interval: int = Field(serialization_alias="refresh-interval")
    timezone_name: str = Field(serialization_alias="timezone-name")
    timezone_offset: int = Field(serialization_alias="timezone-offset")
    """Milliseconds that this process is ahead of UTC."""
    flink_version: str = Field(default=FLINK_VERSION, serialization_alias="flink-version")
    flink_revision: str = Field(serialization_alias="flink-revision")
    features: Features


class ClusterOverviewWithVersion(Shape):
    """How much there is of everything."""

    taskmanagers: int
    taskmanagers_blocked: int = Field(serialization_alias="taskmanagers-blocked")
    slots_total: int = Field(serialization_alias="slots-total")
    slots_available: int = Field(serialization_alias="slots-available")
    """Free ones, also those of TaskManagers that are blocked."""
    slots_free_and_blocked: int = Field(serialization_alias="slots-free-and-blocked")
    jobs_running: int = Field(serialization_alias="jobs-running")
    """All that have not ended."""
    jobs_finished: int = Field(serialization_alias="jobs-finished")
    jobs_cancelled: int = Field(serialization_alias="jobs-cancelled")
    jobs_failed: int = Field(serialization_alias="jobs-failed")
    flink_version: str = Field(default=FLINK_VERSION, serialization_alias="flink-version")
    flink_commit: str = Field(serialization_alias="flink-commit")


def revision() -> str:
    """Return which eventflink this is."""
    return f"eventflink {version('eventflink')}"


@router.get("/config")
async def dashboard_configuration(services: ServicesOfRequest) -> DashboardConfiguration:
    """Return the configuration of a dashboard."""
    return configuration_of(REFRESH_INTERVAL_MS, Features(web_submit=services.configuration.web_submit_enabled))


def configuration_of(refresh_interval_ms: int, features: Features) -> DashboardConfiguration:
    """Return the configuration of a dashboard that may offer these features."""
    now = datetime.now().astimezone()
    offset = now.utcoffset()
    return DashboardConfiguration(
        refresh_interval=refresh_interval_ms,
        timezone_name=now.tzname() or "UTC",
        timezone_offset=round(offset.total_seconds() * 1000) if offset is not None else 0,
        flink_revision=revision(),
        features=features,
    )


@router.get("/overview")
async def cluster_overview(reads: ReadsOfRequest) -> ClusterOverviewWithVersion:
    """Return how many TaskManagers, slots and jobs there are."""

    def compute(fold: Fold) -> tuple[Overview, list[CountedTaskManager]]:
        return overview(fold), task_managers(fold).task_managers

    counts, rows = await reads.state(compute)
    blocked = [row for row in rows if row.blocked]
    return ClusterOverviewWithVersion(
        taskmanagers=counts.task_managers,
        taskmanagers_blocked=len(blocked),
        slots_total=counts.slots,
        slots_available=counts.slots_free,
        slots_free_and_blocked=sum(row.slots_free for row in blocked),
        jobs_running=counts.jobs_live,
        jobs_finished=counts.jobs.get(JobStatus.FINISHED, 0),
        jobs_cancelled=counts.jobs.get(JobStatus.CANCELED, 0),
        jobs_failed=counts.jobs.get(JobStatus.FAILED, 0),
        flink_commit=revision(),
    )


@router.delete("/cluster")
async def shut_down_cluster(commands: CommandsOfRequest) -> Empty:
    """End the cluster: its jobs are suspended, and go on when masters are started again."""
    await commands.decided(commands.dispatcher.shut_down_cluster(actor=commands.actor))
    return Empty()
