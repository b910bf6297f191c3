"""The steps of a gateway in the calling thread, one after the other.

One connection is for one thread. Its way to the leader is opened with the first command; reads need none.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.log_events import CheckpointAborted, CheckpointCompleted, FileUploaded
from eventflink.gateways.deadline import NEVER, Deadline
from eventflink.gateways.errors import RequestTimedOut
from eventflink.gateways.follow import await_checkpoint, await_upload
from eventflink.gateways.gateway import DEFAULT_REQUEST_TIMEOUT_S, Gateway
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.leader import listen_for_leader
from eventflink.gateways.reads import KnownMaster, ask_master, find_masters
from eventflink.gateways.request_channel import MAX_REPEAT_AFTER_S, REPEAT_AFTER_S, Accepted, RequestChannel, result_of
from eventflink.gateways.state_reads import NO_SOURCES, Sources, StateReads, perform_rest
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
    drive,
)
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess, access_to

if TYPE_CHECKING:
    from eventflink.gateways.folding import Folding

T = TypeVar("T")
_Performer = Callable[[Any], Any]


class BlockingConnection:
    """One thread's connection to one cluster."""

    def __init__(
        self,
        access: ClusterAccess,
        request_timeout_s: float,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        deadline: Deadline = NEVER,
        sources: Sources = NO_SOURCES,
    ) -> None:
        self.access = access
        self.reads = StateReads(access, request_timeout_s, sources)
        self._folding: Folding | None = None
        self._request_timeout_s = request_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._deadline = deadline
        self._channel: RequestChannel | None = None
        self._performers: dict[type[Any], _Performer] = {
            AskRest: perform_rest,
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

    def connect(self) -> RequestChannel:
        """Return the way to the leader, opened with the first call; raises as `RequestChannel` does."""
        if self._channel is None:
            connect_timeout_s = self._deadline.left_s(self._connect_timeout_s)
            self._channel = RequestChannel(self.access, pipelined=False, connect_timeout_s=connect_timeout_s)
        return self._channel

    def run(self, steps: Steps[T]) -> T:
        """Take every step of a method; return what it gives, or raise its error."""
        return drive(steps, self._perform)

    def _perform(self, step: Step) -> Any:
        return self._performers[type(step)](step)

    def _fold(self, step: FoldLog) -> dict[str, Any]:
        if self._folding is None:
            from eventflink.gateways.folding import Folding  # noqa: PLC0415 - what decides is loaded by who folds

            self._folding = Folding(self.access, self.reads.sources)
        return self._folding.answer(step)

    def _get(self, step: Get) -> dict[str, Any]:
        return ask_master(step.query_address, step.path, step.parameters, timeout_s=step.timeout_s)

    def _find_masters(self, step: FindMasters) -> list[KnownMaster]:
        return find_masters(self.access, timeout_s=step.timeout_s)

    def _listen_for_leader(self, step: ListenForLeader) -> LeaderHeartbeat | None:
        return listen_for_leader(self.access, step)

    def _pause(self, step: Pause) -> None:
        time.sleep(step.seconds)

    def _await_upload(self, step: AwaitUpload) -> FileUploaded | None:
        return await_upload(self.access, step.accepted, step.timeout_s)

    def _await_checkpoint(self, step: AwaitCheckpoint) -> CheckpointCompleted | CheckpointAborted | None:
        return await_checkpoint(self.access, step.accepted, step.timeout_s)

    def _work(self, step: Work) -> Any:
        return step.call()

    def _ask(self, step: Ask) -> Accepted:
        channel = self.connect()
        encoded = channel.encode(step.request)
        deadline = time.monotonic() + self._deadline.left_s(self._request_timeout_s)
        waits = Backoff(REPEAT_AFTER_S, MAX_REPEAT_AFTER_S)
        while (now := time.monotonic()) < deadline:
            channel.send(encoded)
            send_again_at = min(now + waits.next(), deadline)
            while (left_s := send_again_at - time.monotonic()) > 0:
                for answer in channel.receive(left_s, (encoded.request_id,)):
                    return result_of(answer)
        raise RequestTimedOut(
            encoded.request_id,
            f"no master of '{self.access.cluster_id}' answered request {encoded.request_id} within {self._request_timeout_s:g} s; "
            "it may still be done",
        )

    def _tell(self, step: Tell) -> str:
        channel = self.connect()
        encoded = channel.encode(step.command, wants_reply=False)
        channel.tell(encoded, self._deadline.left_s(self._request_timeout_s))
        return encoded.request_id

    def close(self) -> None:
        """Let the connections go."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._folding is not None:
            self._folding.close()
            self._folding = None


class BlockingOptions(TypedDict, total=False):
    """What every blocking gateway may be given."""

    request_timeout_s: float
    """How long each request waits for its answer."""
    connect_timeout_s: float
    """How long Kafka may take to answer."""
    deadline: Deadline
    """Until when all commands together wait for Kafka and the leader."""
    sources: Sources
    """Where else the cluster can be read than from its log (`state_reads.sources_of`)."""
    connection: BlockingConnection | None
    """Another gateway's, which is closed there; None: one of its own."""


def done_by(deadline: Deadline, timeout_s: float | None) -> BlockingOptions:
    """Return the options of a gateway whose commands all end by the deadline, `timeout_s` after the first began; None: there is none."""
    return {"deadline": deadline} if timeout_s is None else {"deadline": deadline, "request_timeout_s": timeout_s}


class BlockingGateway(Gateway):
    """A gateway whose methods return when they are done. For one thread; close it, or use it as a context manager."""

    def __init__(
        self,
        cluster: ClusterAccess | str,
        cluster_id: str = "",
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        deadline: Deadline = NEVER,
        sources: Sources = NO_SOURCES,
        connection: BlockingConnection | None = None,
    ) -> None:
        """Prepare; nothing is connected before the first call. A `connection` is another gateway's, and is closed there."""
        self._connection = connection or BlockingConnection(
            access_to(cluster, cluster_id), request_timeout_s, connect_timeout_s, deadline, sources
        )
        self._owns_connection = connection is None
        super().__init__(self._connection.reads)

    def run(self, steps: Steps[T]) -> T:
        """Take every step of a method in the calling thread."""
        return self._connection.run(steps)

    def close(self) -> None:
        """Close the connections, if they are this gateway's own."""
        if self._owns_connection:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
