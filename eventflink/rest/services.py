"""What the routes work with: the state, the way to the leader, and the archives; made once for a process."""

from dataclasses import dataclass

from eventflink.blob.job_archives import JobArchives
from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncResourceManagerGateway
from eventflink.model.configuration import Configuration
from eventflink.rest.observed_state import ObservedState


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one process."""

    configuration: Configuration
    state: ObservedState
    dispatcher: AsyncDispatcherGateway
    resource_manager: AsyncResourceManagerGateway
    archives: JobArchives | None
    """None: this configuration names no place for archives."""
