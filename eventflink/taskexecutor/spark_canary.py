"""Whether a Spark that runs also answers: a trivial query, again and again, in a thread of its supervisor.

A process that lives, and even one that takes connections, may answer nobody any more: its heap is full and it only collects garbage, its
threads wait for each other, somebody has stopped it. Here is only the asking; what follows from no answer is `spark_supervisor.py`'s. The
rule it keeps: silence is what calls have waited for, never what a clock says, so a supervisor that stood still itself proves nothing; and
a Spark that only has much to do is not silent.
"""

import logging
import threading
import time
import uuid
from typing import Final

from eventflink.taskexecutor.spark_release import SPARK_USER_ID, open_channel

_LOGGER = logging.getLogger(__name__)

INTERVAL_S: Final = 10.0
_CALLS_UNTIL_SILENT: Final = 3
EXECUTE: Final = "/spark.connect.SparkConnectService/ExecutePlan"
TRIVIAL: Final = "VALUES (1)"
"""It goes the way of all queries but for their last step: `SELECT 1` would wait for a core, which one long query may have for hours."""


class SparkCanary:
    """Asks a trivial query every ten seconds, and knows for how long nothing was answered."""

    def __init__(self, remote: str, timeout_ms: int) -> None:
        """Prepare to ask the Spark at an address, which may be silent for `timeout_ms`."""
        self._remote = remote
        self._timeout_s = timeout_ms / 1000
        self._silent_s = 0.0
        self._said = ""

    def start(self) -> None:
        """Ask from now on, until the process ends."""
        threading.Thread(target=self._run, name="spark-canary", daemon=True).start()

    def why_ill(self) -> str:
        """Return that Spark has answered nothing for too long, and what its client says of that; "": it answers."""
        if self._silent_s < self._timeout_s:
            return ""
        return f"it answered no trivial query for {self._silent_s:.0f} s, more than spark.local.answer-timeout ({self._said})"

    def _run(self) -> None:
        import grpc  # noqa: PLC0415 - a channel, and the threads of gRPC, only after Spark was forked

        channel, metadata = open_channel(self._remote)
        ask = channel.unary_stream(EXECUTE)
        session_id = str(uuid.uuid4())
        while True:
            began = time.monotonic()
            try:
                for _ in ask(trivial_query(session_id), metadata=metadata, timeout=self._timeout_s / _CALLS_UNTIL_SILENT):
                    pass
            except grpc.RpcError as error:
                waited_s = min(time.monotonic() - began, self._timeout_s / _CALLS_UNTIL_SILENT)
                self._said = f"{error.code().name}: {str(error.details()).partition(chr(10))[0][:200]}"
                self._silent_s += waited_s
                session_id = str(uuid.uuid4())  # A session that was silent for too long is closed for good.
                _LOGGER.warning("SparkSilent waited_s=%.1f silent_s=%.1f error=%r", waited_s, self._silent_s, self._said)
                # What is refused at once counts as well: as long as the pause behind it lasts.
                self._silent_s += pause_s if (pause_s := INTERVAL_S - waited_s) > 0 else 0.0
            else:
                self._silent_s = 0.0
            time.sleep(max(0.0, INTERVAL_S - (time.monotonic() - began)))


def trivial_query(session_id: str) -> bytes:
    """Return Spark Connect's request to execute `TRIVIAL` in a session, as protobuf: Spark's own classes for it take 100 MB of memory."""
    statement = _field(1, TRIVIAL.encode())
    plan = _field(1, _field(10, statement))
    return _field(1, session_id.encode()) + _field(2, _field(1, SPARK_USER_ID.encode())) + _field(3, plan) + _field(4, b"canary")


def _field(number: int, value: bytes) -> bytes:
    """Return a field of bytes, a text or a message, of less than 128 bytes."""
    return bytes(((number << 3) | 2, len(value))) + value
