"""Which interrupted operations of a Spark session still run, on a server that does not say what it runs: Spark 4.0 and 4.1.

Such a server names an operation once: in the answer to the interrupt that stops it. It ends the operation's answers when the thread has
ended that executes it, so these are read to their end. The rule it keeps: the names are in the session's settings before they are waited
for, so that whoever releases the session next, because this process died or gave up, waits for the same operations.
"""

import re
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

_NOTE: Final = "eventflink.interrupted."
"""What the settings begin with that name operations."""
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNKNOWN_OPERATION: Final = re.compile(r"INVALID_HANDLE\.OPERATION_(NOT_FOUND|ABANDONED)")
"""It has ended, and its answers were taken; or the server has given it up, and knows it no more."""
_SESSION: Final = "INVALID_HANDLE.SESSION"
_ANSWERS_GONE: Final = "INVALID_CURSOR.POSITION_NOT_AVAILABLE"
"""Of an operation that runs: its first answers were taken by its client. The error names the one that was asked for."""
_CURSOR: Final = "INVALID_CURSOR."
"""What else is wrong with where to go on; `DISCONNECTED`: another client has asked for the same answers."""
_SAID_BY_SPARK: Final = "grpc-status-details-bin"
_POLL_S: Final = 0.02

Call = Callable[[str, Any], Any]
"""Calls a method of the server by its name, with a request, for as long as the release may still take."""


class InterruptedOperations:
    """The operations of one session that were interrupted, by this release of it or by one before."""

    def __init__(self, call: Call, subject: dict[str, Any], deadline_s: float) -> None:
        """Name the session.

        Args:
            call: how the server is asked.
            subject: what each request says of the session and of who asks.
            deadline_s: until when operations are waited for, by the monotonic clock.

        """
        from pyspark.sql.connect.proto import base_pb2  # noqa: PLC0415 - as in spark_release

        self._messages = base_pb2
        self._call = call
        self._subject = subject
        self._deadline_s = deadline_s
        self._running: dict[str, str] = {}
        """By id, the last answer of each that was taken; empty: none is known."""
        self._noted: set[str] = set()

    def note(self, ids: Iterable[str]) -> None:
        """Write into the session's settings what was interrupted just now."""
        if not (new := set(ids) - self._noted):
            return
        pairs = [self._messages.KeyValue(key=f"{_NOTE}{operation_id}", value="true") for operation_id in sorted(new)]
        self._configure(set=self._messages.ConfigRequest.Set(pairs=pairs))
        self._add(new)

    def read_notes(self) -> None:
        """Take in what other releases have interrupted: before this one, or since it looked last."""
        answer = self._configure(get_all=self._messages.ConfigRequest.GetAll(prefix=_NOTE))
        self._add({found[0] for pair in answer.pairs if (found := _ID.search(pair.key))} - self._noted)

    def wait_for_end(self) -> int:
        """Wait until all have ended, or the time is up; return how many have not."""
        for operation_id in list(self._running):
            while not self._has_ended(operation_id):
                if time.monotonic() >= self._deadline_s:
                    return len(self._running)
                time.sleep(_POLL_S)
            del self._running[operation_id]
        return 0

    def _add(self, ids: set[str]) -> None:
        self._noted |= ids
        self._running |= dict.fromkeys(ids, "")

    def _configure(self, **operation: Any) -> Any:
        return self._call(
            "Config", self._messages.ConfigRequest(**self._subject, operation=self._messages.ConfigRequest.Operation(**operation))
        )

    def _has_ended(self, operation_id: str) -> bool:
        """Read the answers of an operation from where this release is; False: they ended before the operation did, or the time did."""
        import grpc  # noqa: PLC0415 - as in spark_release

        last = self._running[operation_id] or None
        request = self._messages.ReattachExecuteRequest(**self._subject, operation_id=operation_id, last_response_id=last)
        try:
            for response in self._call("ReattachExecute", request):
                self._running[operation_id] = response.response_id
                if response.HasField("result_complete"):  # Of one that has started a stream: the answer says no more than that.
                    return True
        except grpc.RpcError as error:
            return self._judge(operation_id, error)
        return False

    def _judge(self, operation_id: str, error: Any) -> bool:
        """Tell whether an error at the end of answers says that the operation has ended.

        Raises:
            grpc.RpcError: it says nothing of the operation.

        """
        import grpc  # noqa: PLC0415 - as in spark_release

        details = str(error.details())
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return False
        if not any(key == _SAID_BY_SPARK for key, _ in error.trailing_metadata() or ()) or _SESSION in details:
            raise error
        if _UNKNOWN_OPERATION.search(details):
            return True
        if _ANSWERS_GONE in details and (found := _ID.search(details)):
            self._running[operation_id] = found[0]
        return _CURSOR not in details
