"""Dry runs: what the leader would decide if a request came now, or had come after the record that `at` names. Nothing is written."""

import asyncio
from dataclasses import replace

from fastapi import APIRouter, Request

from eventflink.audit.dry_runs import dry_run_view
from eventflink.documents.dry_run import DryRunPage
from eventflink.events.inputs import Request as MasterRequest
from eventflink.model.actors import named
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.rest.own.submissions import SubmissionBody, checked
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.requests import COMMAND_BODY, command_of, json_of, submission_of
from eventflink.rest.submitting import begun_in_savepoint

router = APIRouter()

_SUBMISSION = "SubmitJob"


@router.post("/dry-run", openapi_extra=COMMAND_BODY)
async def dry_run(
    request: Request, moments: MomentsOfRequest, identity: IdentityOfRequest, services: ServicesOfRequest
) -> Moment[DryRunPage]:
    """Say what a command would lead to, or a submission: `{"type": "SubmitJob"}` with the fields of `POST /jobs`."""
    wanted = await _request_of(await request.body(), named(identity.name, is_proven=bool(services.proof.secrets)))
    return await moments.spend(dry_run_view, wanted)


async def _request_of(body: bytes, actor: str) -> MasterRequest:
    said = json_of(body)
    if not isinstance(said, dict) or said.pop("type", None) != _SUBMISSION:
        return command_of(body, actor)
    wanted = checked(SubmissionBody, said)
    submission = await asyncio.to_thread(submission_of, wanted.document, wanted.parameters, wanted.job_id, actor)
    allow = wanted.allow_non_restored_state
    graph = await begun_in_savepoint(submission.job_graph, wanted.savepoint_path, allow_non_restored_state=allow)
    return replace(submission, job_graph=graph)
