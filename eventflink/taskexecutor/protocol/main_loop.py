"""The main loop of a TaskExecutor without its I/O: what one turn leads to, in the order in which it is to be done.

A driver (`executor.py`, the simulation, the benchmarks) collects what has happened as `Input`s, hands them in with the time, and performs
the actions that come back; their results are inputs of a later turn. The rules it keeps: no instance begins before the reader of
`deployments` is positioned (P12); the tick comes before every input; an instance that is over is replaced in the same turn; the reports of
a turn go out together, after the orders to processes.
"""

from collections import deque
from collections.abc import Callable, Iterable

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
from eventflink.taskexecutor.protocol.machine import Phase, TaskExecutorProtocol


class MainLoop:
    """The turns of one TaskExecutor, from the start of its process until `stopped` says why it ended."""

    def __init__(self, settings: ProtocolSettings, new_instance_id: Callable[[], str]) -> None:
        """Begin with no instance; `new_instance_id` returns an id that no instance of any TaskExecutor has had."""
        self.protocol = TaskExecutorProtocol(settings)
        self.stopped: Stopped | None = None
        self._new_instance_id = new_instance_id

    def turn(self, now_ms: int, wall_clock_ms: int, inputs: Iterable[Input]) -> list[DriverAction]:
        """Take what has happened since the last turn; return what is to be done, `Stopped` last of all.

        `now_ms` is of the monotonic clock that the inputs use, `wall_clock_ms` the host's time. Call it at least every few tens of
        milliseconds.
        """
        # After a long pause of this process a fence is due before anything else is believed.
        todo: deque[Action] = deque(self.protocol.on_tick(now_ms))
        for on_input in inputs:
            todo.extend(on_input(now_ms))
        actions: list[DriverAction] = []
        records: list[SendReports] = []
        while todo:
            match todo.popleft():
                case SendReports() as record:
                    records.append(record)
                case NewInstanceNeeded(reason=reason):
                    if self.protocol.phase is Phase.NEW:  # Else it was told to stop in the same turn.
                        instance_id = self._new_instance_id()
                        actions.append(InstanceStarted(instance_id, self.protocol.instance_id, reason))
                        todo.extend(self.protocol.start(now_ms, instance_id, wall_clock_ms))
                case Stopped() as end:
                    self.stopped = end
                case action:
                    actions.append(action)
        if records:
            actions.append(SendReports(tuple([report for record in records for report in record.reports]), now_ms))
        if self.stopped is not None:
            actions.append(self.stopped)
        return actions
