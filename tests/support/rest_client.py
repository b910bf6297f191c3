"""A client of the real REST application over a log that is a list: only Kafka is left out, and commands reach nobody."""

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi.testclient import TestClient

from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncResourceManagerGateway
from eventflink.leadership.fold import Fold
from eventflink.model.configuration import load_configuration
from eventflink.rest.application import build_application
from eventflink.rest.observed_state import ObservedState
from eventflink.rest.services import Services
from tests.support.hand import NOWHERE


@contextmanager
def rest_client(fold: Fold, **configuration: str) -> Iterator[TestClient]:
    """Give a client; the state stays where the fold stands."""
    state = ObservedState()
    state.replace(fold)
    services = Services(
        configuration=load_configuration(None, configuration),
        state=state,
        dispatcher=AsyncDispatcherGateway(NOWHERE, "nobody", request_timeout_s=1),
        resource_manager=AsyncResourceManagerGateway(NOWHERE, "nobody", request_timeout_s=1),
        archives=None,
    )
    with TestClient(build_application(services), base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client
