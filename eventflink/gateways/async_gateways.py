"""The gateways for `asyncio`: the methods are those of the blocking ones, to be awaited.

Their steps in an event loop are reads from a REST process by aiohttp, else from the log by one thread for all, commands over one pipelined
client, and looks at Kafka in a few threads. They stand apart so that programs without an event loop do not load an HTTP client for one.

Kafka's client has no event loop, so its part is threads behind; what many wait for at once, results and reads, is sockets of the loop
and needs none. A call that is cancelled leaves nothing behind: its socket is closed, its request is sent no more and its place is free; a
thread that worked for it alone ends at its next poll, a quarter of a second later at most.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, TypeVar, Unpack

from eventflink.blob.tls import client_context
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.log_events import CheckpointAborted, CheckpointCompleted, FileUploaded
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.gateways.dispatcher_gateway import DispatcherMethods
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.follow import await_checkpoint, await_upload
from eventflink.gateways.gateway import DEFAULT_REQUEST_TIMEOUT_S, Gateway
from eventflink.gateways.job_master_gateway import JobMasterMethods
from eventflink.gateways.leader import listen_for_leader
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.gateways.reads import KnownMaster, ask_master, find_masters
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.resource_manager_gateway import ResourceManagerMethods
from eventflink.gateways.rest_process import MAX_ANSWER_BYTES, OFFSET_HEADER, answer_in, silent
from eventflink.gateways.state_reads import NO_SOURCES, Sources, StateReads
from eventflink.gateways.steps import (
    Ask,
    AskRest,
    AwaitCheckpoint,
    AwaitUpload,
    FindMasters,
    FoldLog,
    Get,
    ListenForLeader,
    Pause,
    Step,
    Steps,
    Tell,
    Work,
    drive_async,
)
from eventflink.gateways.task_executor_gateway import TaskExecutorMethods
from eventflink.model.cluster_access import ClusterAccess, access_to

if TYPE_CHECKING:
    import aiohttp

    from eventflink.gateways.folding import Folding

MAX_UNDER_WAY: Final = 1_024
_THREADS: Final = 8
T = TypeVar("T")


class AsyncConnection:
    """One event loop's connection to one cluster. At most `max_under_way` calls are under way; others wait for their turn."""

    def __init__(
        self,
        access: ClusterAccess,
        request_timeout_s: float,
        max_under_way: int = MAX_UNDER_WAY,
        seals: Seals = NO_SEALS,
        sources: Sources = NO_SOURCES,
    ) -> None:
        self.access = access
        self.reads = StateReads(access, request_timeout_s, sources)
        self._folding: asyncio.Task[Folding] | None = None
        self._request_timeout_s = request_timeout_s
        self._max_under_way = max_under_way
        self._seals = seals
        self._room = asyncio.Semaphore(max_under_way)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gateway")
        self._closing = threading.Event()
        self._connecting: asyncio.Task[PipelinedClient] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._finding: asyncio.Task[list[KnownMaster]] | None = None
        self._performers: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {
            AskRest: self._ask_rest,
            FoldLog: self._fold,
            Get: self._get,
            FindMasters: self._find_masters,
            ListenForLeader: self._listen_for_leader,
            Pause: self._pause,
            Ask: self._ask,
            Tell: self._tell,
            AwaitUpload: self._await_upload,
            AwaitCheckpoint: self._await_checkpoint,
            Work: self._work,
        }

    async def run(self, steps: Steps[T]) -> T:
        """Take every step of a method; return what it gives, or raise its error.

        Raises:
            GatewayError: the gateway is closed, or too many calls were under way for as long as a request may take.

        """
        if self._closing.is_set():
            raise GatewayError("the gateway is closed")
        try:
            async with asyncio.timeout(self._request_timeout_s):
                await self._room.acquire()
        except TimeoutError:
            raise GatewayError(f"{self._max_under_way} calls were under way for {self._request_timeout_s:g} s; none ended") from None
        try:
            return await drive_async(steps, self._perform)
        finally:
            self._room.release()

    async def _perform(self, step: Step) -> Any:
        if self._closing.is_set():
            raise GatewayError("the gateway was closed before the answer came")
        return await self._performers[type(step)](step)

    async def _pause(self, step: Pause) -> None:
        await asyncio.sleep(step.seconds)

    async def _listen_for_leader(self, step: ListenForLeader) -> LeaderHeartbeat | None:
        return await self._in_thread(lambda stop: listen_for_leader(self.access, step, stop=stop))

    async def _await_upload(self, step: AwaitUpload) -> FileUploaded | None:
        return await self._in_thread(lambda stop: await_upload(self.access, step.accepted, step.timeout_s, stop=stop))

    async def _await_checkpoint(self, step: AwaitCheckpoint) -> CheckpointCompleted | CheckpointAborted | None:
        accepted, timeout_s = step.accepted, step.timeout_s
        return await self._in_thread(lambda stop: await_checkpoint(self.access, accepted, timeout_s, stop=stop))

    async def _work(self, step: Work) -> Any:
        return await self._in_thread(lambda _stop: step.call())

    async def _in_thread(self, call: Callable[[Callable[[], bool]], T]) -> T:
        """Return what a blocking call returns; it is given a question that says whether anybody still waits for it."""
        given_up = threading.Event()
        try:
            return await asyncio.wrap_future(self._threads.submit(call, lambda: given_up.is_set() or self._closing.is_set()))
        finally:
            given_up.set()

    async def _ask_rest(self, step: AskRest) -> dict[str, Any]:
        rest = step.rest
        try:
            import aiohttp  # noqa: PLC0415 - it is large, and programs that only send commands never read
            from yarl import URL  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:  # The extra `async` brings it; whoever has it not folds the log.
            raise silent(rest, f"{error.name} is not installed") from error
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=self._max_under_way))
        url = URL(rest.url + rest.target_of(f"/state{step.path}", step.parameters), encoded=True)
        timeout = aiohttp.ClientTimeout(total=step.timeout_s)
        context = client_context(rest.tls) if rest.tls is not None else True
        try:
            async with self._session.get(url, headers=rest.headers, timeout=timeout, ssl=context) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise silent(rest, f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
                offset = response.headers.get(OFFSET_HEADER)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            raise silent(rest, f"{type(error).__name__}: {error}") from error
        return answer_in(rest, response.status, offset, bytes(body))

    async def _fold(self, step: FoldLog) -> dict[str, Any]:
        from eventflink.gateways.folding import Folding, timeout_of  # noqa: PLC0415 - what decides is loaded by who folds

        begun = self._folding
        if begun is None or (begun.done() and (begun.cancelled() or begun.exception() is not None)):
            begun = self._folding = asyncio.create_task(asyncio.to_thread(Folding, self.access, self.reads.sources))
        folding = await asyncio.shield(begun)
        try:
            async with asyncio.timeout(timeout_of(step)):
                return await asyncio.wrap_future(folding.begin(step))
        except GatewayError:
            raise
        except Exception as error:  # As in `Folding.answer`.
            if (found := folding.translated(error)) is None:
                raise
            raise found from error

    async def _get(self, step: Get) -> dict[str, Any]:
        return await self._in_thread(lambda _stop: ask_master(step.query_address, step.path, step.parameters, timeout_s=step.timeout_s))

    async def _find_masters(self, step: FindMasters) -> list[KnownMaster]:
        """Look for the masters once for all who want to know them now: after a failover that is everybody."""
        if self._finding is None or self._finding.done():
            look = self._in_thread(lambda stop: find_masters(self.access, timeout_s=step.timeout_s, stop=stop))
            self._finding = asyncio.create_task(look)
            self._finding.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._finding)

    async def connect(self) -> PipelinedClient:
        """Return the way to the leader, opened with the first call; raises as `RequestChannel` does."""
        connecting = self._connecting
        if connecting is None or (connecting.done() and (connecting.cancelled() or connecting.exception() is not None)):
            connecting = self._connecting = asyncio.create_task(
                asyncio.to_thread(
                    PipelinedClient,
                    self.access,
                    request_timeout_s=self._request_timeout_s,
                    max_pending=self._max_under_way,
                    seals=self._seals,
                )
            )
        # A call that is cancelled meanwhile leaves the connection to the others, or to `close`.
        return await asyncio.shield(connecting)

    async def _tell(self, step: Tell) -> str:
        client = await self.connect()
        return await self._in_thread(lambda _: client.tell(step.command))

    async def _ask(self, step: Ask) -> Accepted:
        client = await self.connect()
        # Never blocks: as many may be pending there as calls may be under way here.
        return await asyncio.wrap_future(client.send(step.request))

    async def close(self) -> None:
        """Let the connections go; calls that still wait for an answer get an error."""
        self._closing.set()
        if self._session is not None:
            await self._session.close()
        if self._folding is not None:
            with contextlib.suppress(GatewayError):
                await asyncio.to_thread((await self._folding).close)
        if self._connecting is not None:
            with contextlib.suppress(GatewayError):
                client = await self._connecting
                await asyncio.to_thread(client.close)
        await asyncio.to_thread(self._threads.shutdown)


class AsyncOptions(TypedDict, total=False):
    """What every gateway for an event loop may be given."""

    request_timeout_s: float
    """How long each request waits for its answer."""
    max_under_way: int
    """More calls than this wait for their turn."""
    connection: AsyncConnection | None
    """Another gateway's, which is closed there; None: one of its own."""
    sources: Sources
    """Where else the cluster can be read than from its log (`state_reads.sources_of`)."""
    seals: Seals
    """Of a process that knows who asks: its requests are sealed with them, and their actors stand in the log as proven (L6)."""


class AsyncGateway(Gateway):
    """A gateway whose methods are awaited, by any number of tasks of one event loop at once.

    It is made inside the running loop; use it in `async with`, or await `close`. Cancelling a task that awaits a method leaves nothing
    behind; the request itself may still be done, as after `RequestTimedOut`.
    """

    def __init__(
        self,
        cluster: ClusterAccess | str,
        cluster_id: str = "",
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_under_way: int = MAX_UNDER_WAY,
        connection: AsyncConnection | None = None,
        seals: Seals = NO_SEALS,
        sources: Sources = NO_SOURCES,
    ) -> None:
        """Prepare; nothing is connected before the first call. More calls than `max_under_way` wait for their turn.

        A `connection` is another gateway's, and is closed there. `seals` are of a process that knows who asks, as a REST process does.
        """
        self._connection = connection or AsyncConnection(access_to(cluster, cluster_id), request_timeout_s, max_under_way, seals, sources)
        self._owns_connection = connection is None
        super().__init__(self._connection.reads)

    async def run(self, steps: Steps[T]) -> T:
        """Take every step of a method in the event loop."""
        return await self._connection.run(steps)

    async def close(self) -> None:
        """Close the connections, if they are this gateway's own; calls that still wait for an answer get an error."""
        if self._owns_connection:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class AsyncDispatcherGateway(DispatcherMethods, AsyncGateway):
    """Requests to one cluster, for an event loop."""

    def job_master(self, job_id: str) -> "AsyncJobMasterGateway":
        """Return a gateway to a job's JobMaster over this one's connection; it ends with this one. Not to be awaited."""
        connection = self._connection
        return AsyncJobMasterGateway(connection.access, job_id=job_id, connection=connection)


class AsyncResourceManagerGateway(ResourceManagerMethods, AsyncGateway):
    """Requests to one cluster's ResourceManager, for an event loop."""


class AsyncJobMasterGateway(JobMasterMethods, AsyncGateway):
    """Requests to one job's JobMaster, for an event loop."""

    def __init__(self, cluster: ClusterAccess | str, cluster_id: str = "", job_id: str = "", **options: Unpack[AsyncOptions]) -> None:
        super().__init__(cluster, cluster_id, **options)
        self.job_id = job_id


class AsyncTaskExecutorGateway(TaskExecutorMethods, AsyncGateway):
    """Requests about one TaskExecutor, for an event loop."""

    def __init__(
        self, cluster: ClusterAccess | str, cluster_id: str = "", task_manager_id: str = "", **options: Unpack[AsyncOptions]
    ) -> None:
        super().__init__(cluster, cluster_id, **options)
        self.task_manager_id = task_manager_id
