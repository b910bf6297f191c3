"""Asks the leader for an answer again and again during a drill, with a command that changes nothing.

The command cancels a job that does not exist: a leader refuses it, and the refusal is a decision like any other, so its answer shows that
the leader takes commands. What waits when one leader crashes is answered by the next.
"""

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from eventflink.drills import DrillFailed
from eventflink.events.inputs import CancelJob
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.request_channel import RequestChannel
from eventflink.model.cluster_access import ClusterAccess

ACTOR: Final = "drill"
MAX_PROBES: Final = 500
"""Each leaves a record in the log."""

_INTERVAL_S: Final = 0.05
_REPEAT_S: Final = 0.5
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """An answer: where its decision stands, and when it came here, in monotonic seconds."""

    log_offset: int
    came_s: float


class Probe:
    """Probes one cluster in a thread of its own. Use it as a context manager."""

    def __init__(self, access: ClusterAccess, name: str) -> None:
        """Connect; nothing is asked before `start`. Raises as `RequestChannel` does."""
        self._channel = RequestChannel(access)
        self._name = name
        self._answers: list[ProbeAnswer] = []
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="drill-probe", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def wait_for_answer(self, after_offset: int, timeout_s: float) -> ProbeAnswer:
        """Return the first answer whose decision stands behind an offset.

        Raises:
            DrillFailed: none came in time.

        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                answer = next((a for a in self._answers if a.log_offset > after_offset), None)
                if answer is not None:
                    return answer
                if self._failure is not None:
                    raise DrillFailed(f"the leader cannot be asked: {self._failure}") from self._failure
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._thread.is_alive():
                    raise DrillFailed(f"no command was answered by a decision after offset {after_offset} within {timeout_s:g} s")
                self._changed.wait(min(left_s, _POLL_S))

    def _run(self) -> None:
        try:
            for number in range(MAX_PROBES):
                if not self._ask(number):
                    return
        except GatewayError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _ask(self, number: int) -> bool:
        """Send one request, again and again until it is answered; tell whether to continue."""
        request_id = f"{self._name}-{number}"
        request = self._channel.encode(CancelJob(job_id=f"{self._name}-no-such-job", request_id=request_id, actor=ACTOR))
        sent_s = float("-inf")
        while not self._stopping.is_set():
            if time.monotonic() - sent_s >= _REPEAT_S:
                self._channel.send(request)
                sent_s = time.monotonic()
            for answer in self._channel.receive(_POLL_S, (request_id,)):
                with self._changed:
                    self._answers.append(ProbeAnswer(answer.log_offset, time.monotonic()))
                    self._changed.notify_all()
                return not self._stopping.wait(_INTERVAL_S)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10 * _REPEAT_S)
        self._channel.close()
