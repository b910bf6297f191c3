"""Metrics of the cluster and of its TaskManagers: what the state knows of them, under Flink's names. Those of jobs are elsewhere."""

from typing import Annotated

from fastapi import APIRouter, Query

from eventflink.documents.task_managers import CountedTaskManager
from eventflink.rest.flink.metrics import AggregatedMetric, MetricInfo, Modes, Names, aggregate, aggregation_modes, metrics_of
from eventflink.rest.reading import ReadsOfRequest
from eventflink.views.queries import overview, task_manager, task_managers

router = APIRouter()


@router.get("/jobmanager/metrics", response_model_exclude_none=True)
async def job_manager_metrics(reads: ReadsOfRequest, names: Names = None) -> list[MetricInfo]:
    """Return metrics of the cluster."""
    counts = await reads.state(overview)
    values = {
        "taskSlotsTotal": counts.slots,
        "taskSlotsAvailable": counts.slots_free,
        "numRegisteredTaskManagers": counts.task_managers,
        "numRunningJobs": counts.jobs_live,
    }
    return metrics_of(values, names)


@router.get("/taskmanagers/metrics", response_model_exclude_none=True)
async def aggregated_metrics(
    reads: ReadsOfRequest,
    names: Names = None,
    modes: Modes = None,
    ids: Annotated[str | None, Query(alias="taskmanagers", description="Comma-separated list of TaskManagers; default: all.")] = None,
) -> list[AggregatedMetric]:
    """Return what metrics of TaskManagers add up to."""
    wanted_modes = aggregation_modes(modes)
    rows = (await reads.state(task_managers)).task_managers
    wanted = None if ids is None else set(ids.split(","))
    chosen = [_values_of(row) for row in rows if wanted is None or row.task_manager_id in wanted]
    return aggregate(chosen, names, wanted_modes)


@router.get("/taskmanagers/{taskmanagerid}/metrics", response_model_exclude_none=True)
async def task_manager_metrics(taskmanagerid: str, reads: ReadsOfRequest, names: Names = None) -> list[MetricInfo]:
    """Return metrics of one TaskManager."""
    return metrics_of(_values_of(await reads.state(lambda fold: task_manager(fold, taskmanagerid))), names)


def _values_of(row: CountedTaskManager) -> dict[str, int]:
    return {"taskSlotsTotal": row.slots, "taskSlotsAvailable": row.slots_free, "assignedTasks": row.tasks}
