"""Operations of Flink that need Java, data that no job here leaves, or that Flink has disabled: empty lists, and what there is instead."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter
from pydantic import Field

from eventflink.rest.errors import Errors, RestError, not_found
from eventflink.rest.flink.shapes import Shape

NOT_IMPLEMENTED: Final[dict[int | str, dict[str, Any]]] = {int(HTTPStatus.NOT_IMPLEMENTED): {"model": Errors}}

router = APIRouter(responses=NOT_IMPLEMENTED)


class ClusterDataSetListResponseBody(Shape):
    """The data sets that jobs keep on TaskManagers for other jobs: there are none."""

    data_sets: list[Any] = Field(default=[], serialization_alias="dataSets")


@router.post("/jobs")
async def submit_job() -> None:
    """Refuse: what Flink's client sends is a job graph as Java serializes it."""
    message = (
        "a job graph of Java cannot run here: tasks are Python and Spark; "
        "POST /jars/upload takes a bundle of a job, POST /eventflink/v1/jobs its document, and so does `eventflink submit`"
    )
    raise RestError(HTTPStatus.NOT_IMPLEMENTED, message)


@router.get("/datasets")
async def data_sets() -> ClusterDataSetListResponseBody:
    """Return no data sets."""
    return ClusterDataSetListResponseBody()


@router.delete("/datasets/{datasetid}")
async def delete_data_set(datasetid: str) -> None:
    """Refuse: there is no such data set."""
    raise not_found(f"data set not found: '{datasetid[:128]}'; jobs keep no data sets for other jobs")


@router.get("/datasets/delete/{triggerid}")
async def data_set_deletion(triggerid: str) -> None:
    """Refuse: nothing was ever deleted."""
    raise not_found(f"operation not found: '{triggerid[:128]}'")


@router.patch("/jobs/{jobid}/rescaling")
@router.get("/jobs/{jobid}/rescaling/{triggerid}")
async def rescale_as_before(jobid: str) -> None:
    """Refuse, as Flink does since it has resource requirements, which say of each vertex what this said of all."""
    message = f"job '{jobid[:128]}' is rescaled by PUT /jobs/{{jobid}}/resource-requirements, vertex by vertex"
    raise RestError(HTTPStatus.NOT_IMPLEMENTED, message)


@router.patch("/jobs/{jobid}/clientHeartbeat")
async def client_heartbeat(jobid: str) -> None:
    """Refuse, as whoever relies on it would expect the job to end with its client."""
    message = f"job '{jobid[:128]}' does not end with its client: submit without execution.shutdown-on-attached-exit"
    raise RestError(HTTPStatus.NOT_IMPLEMENTED, message)
