"""What a request changes: a command to the leader, which any number of REST processes may send.

A command is answered when the leader has decided it and the state of this process reflects that, so whoever reads here next sees it. The
header of the answer names the offset of the decision, for reads from other processes.
"""

import logging
from collections.abc import Awaitable
from typing import Annotated

from fastapi import Depends, Response

from eventflink.gateways.async_gateways import AsyncDispatcherGateway
from eventflink.gateways.request_channel import Accepted
from eventflink.reader.observed_state import NotThere
from eventflink.rest.access.identity import Identity
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.reading import OFFSET_HEADER, READ_TIMEOUT_S, ServicesOfRequest
from eventflink.rest.services import Services

_logger = logging.getLogger(__name__)


class Commands:
    """The commands of one request."""

    def __init__(self, services: Services, identity: Identity, response: Response) -> None:
        """Take the way to the leader."""
        self.identity = identity
        self.actor = identity.name
        """Who asks, as the log names it."""
        self._services = services
        self._response = response

    @property
    def dispatcher(self) -> AsyncDispatcherGateway:
        """Whom commands go to."""
        return self._services.dispatcher

    async def decided(self, command: Awaitable[Accepted]) -> Accepted:
        """Return that a command was accepted, once the state reflects it.

        A state that lags behind for long makes nothing undone: then the answer comes first, and names the offset.

        Raises:
            GatewayError: it was refused, or there was no answer.

        """
        accepted = await command
        try:
            await self._services.state.read(lambda _fold: None, min_offset=accepted.log_offset, timeout_s=READ_TIMEOUT_S)
        except NotThere as error:
            _logger.warning("RestLagsBehindCommand request=%s offset=%d reason=%s", accepted.request_id, accepted.log_offset, error)
        self._response.headers[OFFSET_HEADER] = str(accepted.log_offset)
        return accepted


async def _commands_of(services: ServicesOfRequest, identity: IdentityOfRequest, response: Response) -> Commands:
    return Commands(services, identity, response)


CommandsOfRequest = Annotated[Commands, Depends(_commands_of)]
