"""Ends what a task left running on a Spark Connect server: interrupts every operation of its session and closes the session.

Raw gRPC with Spark's own messages, no SparkSession: it works from any process that knows the session's id, in a fraction of a second
once `preload` has been called. The rule it keeps: when `release_session` returns, the server runs nothing of the session and takes
nothing more under its id (it remembers closed ids), so a request that the killed task had still sent finds its session closed. Spark
breaks it in one case: with adaptive execution, an interrupt that comes while a query is planned can leave a stage running; sessions of
tasks therefore do without adaptive execution. A server before Spark 4.2 does not say what runs: see `interrupted_operations.py`.
"""

import contextlib
import logging
import time
from typing import Any, Final
from urllib.parse import urlsplit

from eventflink.model.spark_engines import DEFAULT_PORT, shown
from eventflink.taskexecutor.interrupted_operations import InterruptedOperations

logger = logging.getLogger(__name__)

SPARK_USER_ID: Final = "eventflink"
"""Spark tells sessions apart by user and id; every task uses this user."""

DEFAULT_QUIET_S: Final = 0.1
_PARAMETER_OF_TOKEN: Final = "token="  # noqa: S105 - the name of the parameter
_CLIENT_TYPE: Final = "eventflink"
_SESSION_GONE: Final = "INVALID_HANDLE.SESSION"
_LEAST_CALL_TIMEOUT_S: Final = 0.5
_ANY_SIZE: Final = (("grpc.max_receive_message_length", -1),)
"""Answers that nobody has taken may be large, and are read where a server does not say otherwise that an operation has ended."""
_POLL_S: Final = 0.02


class ReleaseFailed(Exception):
    """The server may still run operations of the session; the message says why."""


def preload() -> None:
    """Import what `release_session` needs (about 0.3 s), so that it is there when it is needed."""
    import grpc  # noqa: F401, PLC0415 - a process that never speaks to Spark never loads gRPC
    import pyspark.sql.connect.proto.base_pb2_grpc  # noqa: F401, PLC0415 - likewise


def channel_target(remote: str) -> str:
    """Return host:port of a Spark Connect address `sc://host[:port][/;parameters]`.

    Raises:
        ValueError: it is not such an address.

    """
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise ValueError(f"invalid Spark Connect address: '{remote}'; give sc://host:port")
    return f"{parts.hostname}:{parts.port or DEFAULT_PORT}"


def open_channel(remote: str) -> tuple[Any, list[tuple[str, str]]]:
    """Open the channel that Spark's own client would open; return it with what each call says of who asks.

    Raises:
        ValueError: the address is not a Spark Connect address.

    """
    import grpc  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    target = channel_target(remote)
    parameters = [each for each in remote.partition("/;")[2].split(";") if each]
    is_local = target.startswith("localhost:")
    if not parameters:
        return grpc.insecure_channel(target, _ANY_SIZE), []
    if is_local and all(each.startswith(_PARAMETER_OF_TOKEN) for each in parameters):
        # The host's own Spark: it does without Spark's client, which takes long to load.
        tokens = [each.removeprefix(_PARAMETER_OF_TOKEN) for each in parameters]
        return grpc.insecure_channel(target, _ANY_SIZE), [("authorization", f"Bearer {token}") for token in tokens]
    from pyspark.sql.connect.client.core import DefaultChannelBuilder  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    builder = DefaultChannelBuilder(remote)
    return builder.toChannel(), list(builder.metadata())


def release_session(remote: str, session_id: str, timeout: float = 5.0, *, quiet_s: float = DEFAULT_QUIET_S) -> None:
    """Interrupt every operation of the session, wait until all have ended, and close it; one that is closed or unknown is fine.

    Args:
        remote: the Spark Connect address, `sc://host:port`.
        session_id: the UUID of the session.
        timeout: for all of it, in seconds.
        quiet_s: how long nothing must run before the session is closed, in seconds: what a killed client sent last may still be on its
            way. Zero when the client itself closes the session.

    Raises:
        ReleaseFailed: the server did not answer in time, refused, or still ends an operation.

    """
    import grpc  # noqa: PLC0415 - see preload

    try:
        channel, metadata = open_channel(remote)
        with channel:
            _Release(channel, metadata, session_id, time.monotonic() + timeout).run(quiet_s)
    except (grpc.RpcError, ValueError) as error:
        details = error.details() if isinstance(error, grpc.RpcError) else str(error)
        if _SESSION_GONE in str(details):
            return
        raise ReleaseFailed(f"{shown(remote)} did not release session {session_id}: {str(details).partition(chr(10))[0][:500]}") from error
    logger.info("SparkSessionReleased remote=%s session=%s", shown(remote), session_id)


class _Release:
    """One release: its calls, and its deadline for all of them."""

    def __init__(self, channel: Any, metadata: list[tuple[str, str]], session_id: str, deadline_s: float) -> None:
        from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc  # noqa: PLC0415 - see preload

        self._messages = base_pb2
        self._stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        self._metadata = metadata
        self._subject: dict[str, Any] = {
            "session_id": session_id,
            "user_context": base_pb2.UserContext(user_id=SPARK_USER_ID),
            "client_type": _CLIENT_TYPE,
        }
        self._session_id = session_id
        self._deadline_s = deadline_s
        self._interrupted: set[str] = set()
        """The operations that were stopped in the middle. Spark closes each of them when its thread ends."""
        self._terminating: set[str] = set()
        """The operations that were not closed when the server was last asked, and have a result or an error."""
        self._unlisted: InterruptedOperations | None = None
        """What was interrupted on a server that does not say what runs; None: it was not asked yet, or says it."""

    def run(self, quiet_s: float) -> None:
        """Interrupt until nothing has run for `quiet_s`, then close.

        An operation that is still being planned notices the interrupt late. Were the session closed before that, the server would lose
        sight of the operation and run it to its end: `ReleaseSession` fails then, and succeeds without effect when it is repeated.
        """
        quiet_since_s: float | None = None
        while True:
            self._interrupt()
            running = self._count_running()
            now_s = time.monotonic()
            if running:
                quiet_since_s = None
                if now_s >= self._deadline_s:
                    raise ReleaseFailed(f"session {self._session_id} was interrupted, but {running} operations have not ended yet")
            else:
                quiet_since_s = now_s if quiet_since_s is None else quiet_since_s
                if now_s - quiet_since_s >= quiet_s or now_s >= self._deadline_s:
                    break
            time.sleep(_POLL_S)
        self._call("ReleaseSession", self._messages.ReleaseSessionRequest(**self._subject))

    def _interrupt(self) -> None:
        everything = self._messages.InterruptRequest.InterruptType.INTERRUPT_TYPE_ALL
        answer = self._call("Interrupt", self._messages.InterruptRequest(**self._subject, interrupt_type=everything))
        self._interrupted.update(answer.interrupted_ids)
        if self._unlisted is not None:
            self._unlisted.note(answer.interrupted_ids)

    def _count_running(self) -> int:
        """Return how many operations have not ended; where the server does not say it, they are waited for first."""
        import grpc  # noqa: PLC0415 - see preload

        if self._unlisted is not None:
            self._unlisted.read_notes()
            return self._unlisted.wait_for_end()
        every_operation = self._messages.GetStatusRequest.OperationStatusRequest()
        try:
            answer = self._call("GetStatus", self._messages.GetStatusRequest(**self._subject, operation_status=every_operation))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            self._unlisted = InterruptedOperations(self._call, self._subject, self._deadline_s)
            self._unlisted.note(self._interrupted)
            self._unlisted.read_notes()
            return self._unlisted.wait_for_end()
        states = self._messages.GetStatusResponse.OperationStatus.OperationState
        running = {each.operation_id for each in answer.operation_statuses if each.state == states.OPERATION_STATE_RUNNING}
        terminating = {each.operation_id for each in answer.operation_statuses if each.state == states.OPERATION_STATE_TERMINATING}
        # What had its result before the last interrupt, and was not interrupted by it, has ended: the server only keeps the answer.
        for operation_id in (terminating & self._terminating) - self._interrupted:
            self._drop_answer(operation_id)
        self._terminating = terminating
        return len(running | terminating)

    def _drop_answer(self, operation_id: str) -> None:
        """Close an operation that has ended, and that the server keeps for minutes because its client was killed before it took the end.

        Were one closed that still runs, the server would say at once that it has ended.
        """
        import grpc  # noqa: PLC0415 - see preload

        everything = self._messages.ReleaseExecuteRequest.ReleaseAll()
        request = self._messages.ReleaseExecuteRequest(**self._subject, operation_id=operation_id, release_all=everything)
        with contextlib.suppress(grpc.RpcError):  # What cannot be closed is waited for.
            self._call("ReleaseExecute", request)

    def _call(self, method: str, request: Any) -> Any:
        left_s = max(_LEAST_CALL_TIMEOUT_S, self._deadline_s - time.monotonic())
        return getattr(self._stub, method)(request, timeout=left_s, metadata=self._metadata)
