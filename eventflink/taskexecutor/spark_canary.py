"""Whether a Spark that runs also answers: a trivial query, again and again, in a thread of its supervisor.

A process that lives, and even one that takes connections, may answer nobody any more: its heap is full and it only collects garbage, its
threads wait for each other, somebody has stopped it. Here is only the asking; what follows from no answer is `spark_supervisor.py`'s. The
rule it keeps: silence is time in which a call waited and Spark could have answered. A supervisor that stood still itself proves nothing, a
Spark that only has much to do is not silent, and of one whose threads wait for a core little counts: the host is slow, and not Spark.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from eventflink.taskexecutor.spark_release import SPARK_USER_ID, open_channel

_LOGGER = logging.getLogger(__name__)

INTERVAL_S: Final = 10.0
LOOK_INTERVAL_S: Final = 0.5
_LONGEST_STEP_S: Final = 1.0
"""What one look counts at most: a supervisor that stood still itself had no time to hear an answer."""

_CALLS_UNTIL_SILENT: Final = 3
EXECUTE: Final = "/spark.connect.SparkConnectService/ExecutePlan"
TRIVIAL: Final = "VALUES (1)"
"""It goes the way of all queries but for their last step: `SELECT 1` would wait for a core, which one long query may have for hours."""


class SparkCanary:
    """Asks a trivial query every ten seconds, and knows for how long nothing was answered."""

    def __init__(self, remote: str, timeout_ms: int, share_of_cores: Callable[[], float]) -> None:
        """Prepare to ask the Spark at an address, which may be silent for `timeout_ms`.

        `share_of_cores` is asked while a call waits: of the time since it was asked last in which Spark wanted cores, the part in which
        it had them.
        """
        self._remote = remote
        self._timeout_s = timeout_ms / 1000
        self._share_of_cores = share_of_cores
        self._call: Any = None
        """What is asked; None between two calls."""
        self._looked_at_s = 0.0
        self._silent_s = 0.0
        """Of all calls since the last answer, what counts."""
        self._waited_s = 0.0
        """The same by the clock."""
        self._call_silent_s = 0.0
        """The part of the silence that is this call's."""
        self._said = ""
        self._closed = threading.Event()

    def close(self) -> None:
        """Ask no more, and give the call up that waits."""
        self._closed.set()
        if (call := self._call) is not None:
            call.cancel()

    def start(self) -> None:
        """Ask from now on, until it is closed or the process ends."""
        threading.Thread(target=self._run, name="spark-canary", daemon=True).start()

    def why_ill(self) -> str:
        """Return that Spark has answered nothing for too long, and what its client says of that; "": it answers.

        It is to be asked all the time, for this is where silence is counted.
        """
        call, now_s = self._call, time.monotonic()
        if call is not None and now_s - self._looked_at_s >= LOOK_INTERVAL_S:
            passed_s = min(now_s - self._looked_at_s, _LONGEST_STEP_S)
            self._looked_at_s = now_s
            self._count(passed_s, passed_s * self._share_of_cores())
            if self._call_silent_s >= self._timeout_s / _CALLS_UNTIL_SILENT:
                call.cancel()  # It may have been lost: the next one begins anew.
        if self._silent_s < self._timeout_s:
            return ""
        slow = ""
        if self._waited_s >= 2 * self._silent_s:
            slow = f" in {self._waited_s:.0f} s on a host so busy that it waited for cores the rest of the time"
        return f"it answered no trivial query for {self._silent_s:.0f} s{slow}, more than spark.local.answer-timeout ({self._said})"

    def _count(self, waited_s: float, silent_s: float) -> None:
        self._waited_s += waited_s
        self._silent_s += silent_s
        self._call_silent_s += silent_s

    def _run(self) -> None:
        import grpc  # noqa: PLC0415 - a channel, and the threads of gRPC, only after Spark was forked

        channel, metadata = open_channel(self._remote)
        ask = channel.unary_stream(EXECUTE)
        session_id = str(uuid.uuid4())
        while not self._closed.is_set():
            began_s = self._looked_at_s = time.monotonic()
            self._share_of_cores()  # What was before is not this call's.
            self._call_silent_s = 0.0
            call = self._call = ask(trivial_query(session_id), metadata=metadata)
            try:
                for _ in call:
                    pass
            except grpc.RpcError as error:
                self._call = None
                waited_s = time.monotonic() - began_s
                given_up = error.code() is grpc.StatusCode.CANCELLED
                said = str(error.details()).partition(chr(10))[0][:200]
                self._said = f"no answer after {waited_s:.0f} s" if given_up else f"{error.code().name}: {said}"
                session_id = str(uuid.uuid4())  # A session that was silent for too long is closed for good.
                # What is refused at once counts as well: as long as the pause behind it lasts.
                pause_s = max(0.0, INTERVAL_S - waited_s)
                self._count(pause_s, pause_s)
                _LOGGER.warning("SparkSilent waited_s=%.1f silent_s=%.1f error=%r", waited_s, self._silent_s, self._said)
            else:
                self._call = None
                self._silent_s = self._waited_s = 0.0
            self._closed.wait(max(0.0, INTERVAL_S - (time.monotonic() - began_s)))
        channel.close()


def trivial_query(session_id: str) -> bytes:
    """Return Spark Connect's request to execute `TRIVIAL` in a session, as protobuf: Spark's own classes for it take 100 MB of memory."""
    statement = _field(1, TRIVIAL.encode())
    plan = _field(1, _field(10, statement))
    return _field(1, session_id.encode()) + _field(2, _field(1, SPARK_USER_ID.encode())) + _field(3, plan) + _field(4, b"canary")


def _field(number: int, value: bytes) -> bytes:
    """Return a field of bytes, a text or a message, of less than 128 bytes."""
    return bytes(((number << 3) | 2, len(value))) + value
