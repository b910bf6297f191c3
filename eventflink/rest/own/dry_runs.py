"""Dry runs: what the leader would decide if a request came now, or had come after the record that `at` names. Nothing is written."""

from fastapi import APIRouter, Request

from eventflink.audit.dry_runs import dry_run_view
from eventflink.documents.dry_run import DryRunPage
from eventflink.events.inputs import Request as MasterRequest
from eventflink.model.actors import named
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.requests import COMMAND_BODY, command_of, json_of, submission_of

router = APIRouter()

_SUBMISSION = "SubmitJob"


@router.post("/dry-run", openapi_extra=COMMAND_BODY)
async def dry_run(
    request: Request, moments: MomentsOfRequest, identity: IdentityOfRequest, services: ServicesOfRequest
) -> Moment[DryRunPage]:
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
