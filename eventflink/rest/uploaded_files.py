"""Files of TaskManagers and of task attempts, fetched for a request: logs, what was printed, the stacks of threads.

They travel as for the command line: an order through the log to the TaskExecutor, an upload to the blob store, and from there to here.
Each request is such an order, so it is a command, and a dashboard that asks again and again has each of them in the log.
"""

import asyncio
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends

from eventflink.blob import BlobError, BlobNotFound
from eventflink.blob.client import get_blob
from eventflink.blob.tls import tls_files
from eventflink.rest.access.identity import Identity
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.reading import ServicesOfRequest
from eventflink.rest.services import Services
from eventflink.views.queries import overview


class Files:
    """The files that one request reads."""

    def __init__(self, services: Services, identity: Identity) -> None:
        """Take the way to the leader."""
        self.actor = identity.name
        self.gateway = services.resource_manager
        self._services = services

    async def fetch(self, upload: Awaitable[str]) -> bytes:
        """Return what a TaskExecutor uploads; `upload` gives the key.

        Raises:
            GatewayError: the order was refused, the file is not there, or it did not come in time.
            RestError: 404 it is gone again; 503 the blob server does not answer.

        """
        key = await upload
        address = (await self._services.state.read(overview)).value.blob_address
        try:
            return await asyncio.to_thread(get_blob, address, key, tls=tls_files(self._services.configuration))
        except BlobNotFound as error:
            raise RestError(HTTPStatus.NOT_FOUND, str(error)) from error
        except BlobError as error:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error


async def _files_of(services: ServicesOfRequest, identity: IdentityOfRequest) -> Files:
    return Files(services, identity)


FilesOfRequest = Annotated[Files, Depends(_files_of)]
