"""Read operations about one job that have no meaning here: each is refused with the reason, and with what there is instead."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter

from eventflink.rest.errors import Errors, RestError
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {int(HTTPStatus.NOT_IMPLEMENTED): {"model": Errors}}

router = APIRouter(prefix=ONE_JOB, responses=_RESPONSES)


@router.get("/vertices/{vertexid}/jm-operator-metrics")
async def operator_metrics(reads: JobReadsOfRequest, vertexid: str) -> None:
    """Refuse: no part of an operator runs in the master."""
    await reads.vertex(vertexid)
    raise _not_here("no part of an operator runs in the master; metrics of its subtasks are at /jobs/{jobid}/vertices/{vertexid}/metrics")


@router.get("/jobmanager/log-url")
@router.get("/taskmanagers/{taskmanagerid}/log-url")
async def log_url(reads: JobReadsOfRequest) -> None:
    """Refuse: logs have no pages of their own."""
    await reads.job()
    raise _not_here("logs have no page of their own; `eventflink logs` shows those of a job's tasks")


@router.get("/rescales/config")
@router.get("/rescales/details/{rescaleuuid}")
@router.get("/rescales/history")
@router.get("/rescales/overview")
@router.get("/rescales/summary")
async def rescales(reads: JobReadsOfRequest) -> None:
    """Refuse: the state keeps no history of rescales."""
    await reads.job()
    raise _not_here("the state keeps no history of rescales; `eventflink history JOB` tells of them from the log")


def _not_here(reason: str) -> RestError:
    return RestError(HTTPStatus.NOT_IMPLEMENTED, reason)
