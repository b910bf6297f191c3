"""Commands: whatever a client may write to the topic `commands`, answered when the leader has decided it and this state reflects that."""

from fastapi import APIRouter, Request

from eventflink.gateways.steps import ask
from eventflink.rest.access.roles import COMMAND_ROLES, require
from eventflink.rest.commanding import CommandsOfRequest
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.requests import COMMAND_BODY, command_of

router = APIRouter()


class Decided(OwnShape):
    """The leader has accepted a request."""

    request_id: str
    subject: str
    """The job or the TaskManager that it is about."""
    offset: int
    """Of the decision."""


@router.post("/commands", openapi_extra=COMMAND_BODY)
async def command(request: Request, commands: CommandsOfRequest) -> Decided:
    """Have the leader do something; what follows from it comes later. Repeated under the same `request_id`, it is done once."""
    wanted = command_of(await request.body(), commands.actor)
    require(commands.identity, COMMAND_ROLES[type(wanted)])
    accepted = await commands.decided(commands.dispatcher.run(ask(wanted)))
    return Decided(request_id=accepted.request_id, subject=accepted.subject, offset=accepted.log_offset)
