"""Ends what a task left running on a Spark Connect server: interrupts every operation of its session and closes the session.

Raw gRPC with Spark's own messages, no SparkSession: it works from any process that knows the session's id, in milliseconds once
`preload` has been called. The rule it keeps: when `release_session` returns, the server runs nothing of the session and takes nothing
more under its id (it remembers closed ids), so a request that the killed task had still sent finds its session closed.
"""

import logging
import time
from typing import Any, Final
from urllib.parse import urlsplit

logger = logging.getLogger(__name__)

SPARK_USER_ID: Final = "eventflink"
"""Spark tells sessions apart by user and id; every task uses this user."""

_CLIENT_TYPE: Final = "eventflink"
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
        ValueError: it is no such address.

    """
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise ValueError(f"'{remote}' is no Spark Connect address: sc://host:port is expected")
    return f"{parts.hostname}:{parts.port or 15002}"


def _open_channel(remote: str) -> tuple[Any, list[tuple[str, str]]]:
    """Open the channel that Spark's own client would open, credentials included."""
    import grpc  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if "/;" not in remote.rstrip("/;"):
        return grpc.insecure_channel(channel_target(remote)), []
    from pyspark.sql.connect.client.core import DefaultChannelBuilder  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    builder = DefaultChannelBuilder(remote)
    return builder.toChannel(), list(builder.metadata())


def _wait_until_operations_ended(stub: Any, session_id: str, user_id: str, timeout: float, metadata: list[tuple[str, str]]) -> None:
    """Wait until every operation of the session is over.

    An operation that is still being planned notices the interrupt late. Were the session closed before that, the server would lose sight of
    the operation and run it to its end: `ReleaseSession` fails then, and succeeds without effect when it is repeated.

    Raises:
        ReleaseFailed: an operation still ran after `timeout` seconds.

    """
    import grpc  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql.connect.proto import base_pb2  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    running = (
        base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING,
        base_pb2.GetStatusResponse.OperationStatus.OPERATION_STATE_TERMINATING,
    )
    request = base_pb2.GetStatusRequest(
        session_id=session_id,
        user_context=base_pb2.UserContext(user_id=user_id),
        client_type=_CLIENT_TYPE,
        operation_status=base_pb2.GetStatusRequest.OperationStatusRequest(),
    )
    deadline = time.monotonic() + timeout
    while True:
        try:
            answer = stub.GetStatus(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED or "INVALID_HANDLE.SESSION" in str(error.details()):
                return  # A server before Spark 4.2 cannot say; a session that is closed runs nothing.
            raise
        if not any(status.state in running for status in answer.operation_statuses):
            return
        if time.monotonic() >= deadline:
            raise ReleaseFailed(f"session {session_id} still runs operations {timeout:g} s after they were interrupted")
        time.sleep(_POLL_S)


def release_session(remote: str, session_id: str, user_id: str = SPARK_USER_ID, timeout: float = 5.0) -> None:
    """Interrupt every operation of the session and close it; a session that is unknown or closed already is fine.

    Args:
        remote: the Spark Connect address, `sc://host:port`.
        session_id: the UUID of the session.
        user_id: the user under which it was opened.
        timeout: for each of the calls, and for the operations to end, in seconds.

    Raises:
        ReleaseFailed: the server did not answer in time, or refused.

    """
    import grpc  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    user = base_pb2.UserContext(user_id=user_id)
    interrupt = base_pb2.InterruptRequest(
        session_id=session_id,
        user_context=user,
        client_type=_CLIENT_TYPE,
        interrupt_type=base_pb2.InterruptRequest.InterruptType.INTERRUPT_TYPE_ALL,
    )
    release = base_pb2.ReleaseSessionRequest(session_id=session_id, user_context=user, client_type=_CLIENT_TYPE)
    try:
        channel, metadata = _open_channel(remote)
        with channel:
            stub = base_pb2_grpc.SparkConnectServiceStub(channel)
            try:
                stub.Interrupt(interrupt, timeout=timeout, metadata=metadata)
            except grpc.RpcError as error:
                if "INVALID_HANDLE.SESSION" not in str(error.details()):
                    raise
            _wait_until_operations_ended(stub, session_id, user_id, timeout, metadata)
            stub.ReleaseSession(release, timeout=timeout, metadata=metadata)
    except (grpc.RpcError, ValueError) as error:
        details = error.details() if isinstance(error, grpc.RpcError) else str(error)
        raise ReleaseFailed(f"{remote} did not release session {session_id}: {str(details).splitlines()[0][:500]}") from error
    logger.info("SparkSessionReleased remote=%s session=%s", remote, session_id)
