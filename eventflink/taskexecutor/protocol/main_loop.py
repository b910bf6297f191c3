"""The main loop of a TaskExecutor without its I/O: what one turn leads to, in the order in which it is to be done.

A driver (`executor.py`, the simulation, the benchmarks) collects what has happened as `Input`s, hands them in with the time, and performs
the actions that come back; their results are inputs of a later turn. The rules it keeps: no instance begins before the reader of
`deployments` is positioned (P12); the tick comes before every input; an instance that is over is replaced in the same turn; the reports of
a turn go out together, after the orders to processes, and with them what was held back before: reports never overtake each other, and what
a later one implies is left out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from eventflink.events.inputs import CheckpointAcknowledgement, SlotOffer, StreamStartReport, TaskManagerReport, TaskStateReport
from eventflink.model.statuses import ExecutionState
from eventflink.taskexecutor.protocol.actions import (
    Action,
    DriverAction,
    Input,
    InstanceStarted,
    NewInstanceNeeded,
    ProtocolSettings,
    SendReports,
    Stopped,
)
from eventflink.taskexecutor.protocol.attempts import attempt_of
from eventflink.taskexecutor.protocol.machine import Phase, TaskExecutorProtocol

MAX_WAIT_MS: Final = 100
"""For so long a driver may not look whether it was told to stop."""

MAX_HOLD_MS: Final = 50
"""For so long reports for which nobody waits are held back for company: each record of them costs the leader a decision."""

_STARTED: Final = (ExecutionState.INITIALIZING, ExecutionState.RUNNING)
_IMPLYING: Final = (ExecutionState.RUNNING, ExecutionState.FINISHED)


class MainLoop:
    """The turns of one TaskExecutor, from the start of its process until `stopped` says why it ended."""

    def __init__(self, settings: ProtocolSettings, new_instance_id: Callable[[], str]) -> None:
        """Begin with no instance; `new_instance_id` returns an id that no instance of any TaskExecutor has had."""
        self.protocol = TaskExecutorProtocol(settings)
        self.stopped: Stopped | None = None
        self._new_instance_id = new_instance_id
        self._held: list[TaskManagerReport] = []
        self._send_by_ms = 0
        """When those that are held have to go out."""

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the next turn may wait for something to happen: until something is due, and for `MAX_WAIT_MS` at most."""
        due_ms = self.protocol.next_due_ms
        wait_ms = MAX_WAIT_MS if due_ms is None else min(max(due_ms - now_ms, 0), MAX_WAIT_MS)
        return min(wait_ms, max(self._send_by_ms - now_ms, 0)) if self._held else wait_ms

    def turn(self, now_ms: int, wall_clock_ms: int, inputs: Iterable[Input]) -> list[DriverAction]:
        """Take what has happened since the last turn; return what is to be done, `Stopped` last of all.

        `now_ms` is of the monotonic clock that the inputs use, `wall_clock_ms` the host's time. The next turn is due after `wait_ms`.
        """
        # After a long pause of this process a fence is due before anything else is believed.
        todo: deque[Action] = deque(self.protocol.on_tick(now_ms))
        for on_input in inputs:
            todo.extend(on_input(now_ms))
        actions: list[DriverAction] = []
        while todo:
            match todo.popleft():
                case SendReports(reports=reports):
                    self._hold(reports, now_ms)
                case NewInstanceNeeded(reason=reason):
                    if self.protocol.phase is Phase.NEW:  # Else it was told to stop in the same turn.
                        instance_id = self._new_instance_id()
                        actions.append(InstanceStarted(instance_id, self.protocol.instance_id, reason))
                        todo.extend(self.protocol.start(now_ms, instance_id, wall_clock_ms))
                case Stopped() as end:
                    self.stopped = end
                case action:
                    actions.append(action)
        if self._held and (now_ms >= self._send_by_ms or self.stopped is not None):
            actions.append(SendReports(_without_implied(self._held), now_ms))
            self._held.clear()
        if self.stopped is not None:
            actions.append(self.stopped)
        return actions

    def _hold(self, reports: Sequence[TaskManagerReport], now_ms: int) -> None:
        """Put reports behind those that are held; all of them go out in this turn if one of these cannot wait."""
        if not self._held:
            self._send_by_ms = now_ms + MAX_HOLD_MS
        self._held += reports
        if not all(map(_can_wait, reports)):
            self._send_by_ms = now_ms


def _without_implied(reports: Sequence[TaskManagerReport]) -> tuple[TaskManagerReport, ...]:
    """Leave out how an attempt got on if it is said later that it runs or has finished: a master takes it through the states between."""
    states = {number: report for number, report in enumerate(reports) if isinstance(report, TaskStateReport)}
    further = {attempt_of(report): number for number, report in states.items() if report.execution_state in _IMPLYING}
    implied = {n for n, report in states.items() if report.execution_state in _STARTED and n < further.get(attempt_of(report), 0)}
    return tuple([report for number, report in enumerate(reports) if number not in implied])


def _can_wait(report: TaskManagerReport) -> bool:
    """Tell whether nothing follows from a report that anybody waits for: an attempt was taken, and gets on, or a stream answers."""
    if isinstance(report, TaskStateReport):
        return report.execution_state in _STARTED
    return isinstance(report, SlotOffer | StreamStartReport | CheckpointAcknowledgement)
