"""Dry runs: what the leader would decide if a request came now, or had come after the record that `at` names. Nothing is written."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from eventflink.audit.dry_runs import dry_run_view
from eventflink.documents.log import Differences
from eventflink.documents.one_job import WouldBeReused
from eventflink.events.inputs import Request as MasterRequest
from eventflink.model.actors import named
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.requests import COMMAND_BODY, command_of, json_of, submission_of

router = APIRouter()

_SUBMISSION = "SubmitJob"


class Refusal(OwnShape):
    """Why a request would be refused."""

    code: str
    message: str


class WouldBe(OwnShape):
    """An event that would be decided."""

    type: str
    subject: str
    details: str


class DryRun(OwnShape):
    """What a request would lead to at once."""

    accepted: bool
    refusal: Refusal | None
    sentence: str
    events: Annotated[list[WouldBe], Field(max_length=200)]
    events_total: int
    is_whole: bool
    """Whether nothing more follows at once."""
    reuse: list[WouldBeReused] = Field(default_factory=list)
    """Of each vertex of a job that would run again from somewhere."""
    differences: Differences
    """Of the states before and after, as `/eventflink/v1/diff` tells them."""
    leader_id: str
    """The fencing token of the leader that would decide: a command that names it is for no other."""
    job_master_id: str | None


@router.post("/dry-run", openapi_extra=COMMAND_BODY)
async def dry_run(request: Request, moments: MomentsOfRequest, identity: IdentityOfRequest, services: ServicesOfRequest) -> Moment[DryRun]:
    """Say what a command would lead to, or a submission: `{"type": "SubmitJob", "document": …, "parameters": …, "job_id": …}`."""
    wanted = _request_of(await request.body(), named(identity.name, is_proven=bool(services.proof.secrets)))
    return await moments.spend(dry_run_view, wanted)


def _request_of(body: bytes, actor: str) -> MasterRequest:
    document = json_of(body)
    if isinstance(document, dict) and document.get("type") == _SUBMISSION:
        given, values, job_id = document.get("document"), document.get("parameters"), document.get("job_id")
        return submission_of(
            given if isinstance(given, str | dict) else "",
            values if isinstance(values, dict) else {},
            job_id if isinstance(job_id, str) else None,
            actor,
        )
    return command_of(body, actor)
