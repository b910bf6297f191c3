"""What the routes work with, made once for a process: the state, the way to the leader, archives, the past, and who may ask."""

from dataclasses import dataclass, field

from eventflink.blob.job_archives import JobArchives
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncResourceManagerGateway
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.reader.archives.runs import ArchivedRuns
from eventflink.reader.heartbeats import Heartbeats
from eventflink.reader.observed_state import ObservedState
from eventflink.reader.past.port import History, NoHistory
from eventflink.reader.state_cache import StateCache
from eventflink.rest.access.guard import Admission
from eventflink.rest.jar_store import JarStore
from eventflink.rest.operations import Operations
from eventflink.rest.result_reads import ResultReads
from eventflink.rest.uploads import Turns


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one process."""

    configuration: Configuration
    access: ClusterAccess
    state: ObservedState
    dispatcher: AsyncDispatcherGateway
    resource_manager: AsyncResourceManagerGateway
    archives: JobArchives | None
    """None: this configuration names no place for archives."""
    heartbeats: Heartbeats
    archived_runs: ArchivedRuns = field(default_factory=ArchivedRuns)
    operations: Operations = field(default_factory=Operations)
    history: History = field(default_factory=NoHistory)
    cache: StateCache = field(default_factory=StateCache)
    results: ResultReads = field(default_factory=ResultReads)
    admission: Admission = field(default_factory=Admission)
    proof: Seals = NO_SEALS
    """What the gateways seal requests with: who asks is proven by it."""
    turns: Turns = field(default_factory=Turns)
    """Of uploads."""
    jars: JarStore = field(default_factory=lambda: JarStore(None))
