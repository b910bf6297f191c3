"""A process of the operating system as faults see it: it can be killed and it can be stopped and continued; its machine has the clocks.

Whatever is to happen inside of a process goes through `deliver`: dead processes do nothing any more, stopped ones do it once continued.
"""

from collections import deque

from eventflink.testing.simulation.scheduler import Call, LocalClock, Scheduler


class Process:
    """One process, from its start to its death."""

    __slots__ = ("_backlog", "clock", "is_alive", "is_paused", "name", "paused_at_us", "scheduler")

    def __init__(self, name: str, scheduler: Scheduler, clock: LocalClock) -> None:
        self.name = name
        self.scheduler = scheduler
        self.clock = clock
        self.is_alive = True
        self.is_paused = False
        self.paused_at_us = 0
        self._backlog: deque[Call] = deque()

    @property
    def is_running(self) -> bool:
        """Tell whether it lives and is not stopped."""
        return self.is_alive and not self.is_paused

    def deliver(self, call: Call) -> None:
        """Do it now, or when the process continues, or never."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._backlog.append(call)
        else:
            call()

    def after(self, local_ms: float, call: Call) -> None:
        """Do it when so much time has passed on the clock of this machine."""
        self.scheduler.after(self.clock.delay_us(local_ms), lambda: self.deliver(call))

    def kill(self) -> None:
        """End it: SIGKILL."""
        self.is_alive = False
        self._backlog.clear()

    def pause(self) -> None:
        """Stop it: SIGSTOP. Time passes without it."""
        if self.is_running:
            self.is_paused = True
            self.paused_at_us = self.scheduler.now_us

    def resume(self) -> None:
        """Continue it: SIGCONT. What waited for it happens in its order, after whatever the caller does first."""
        if not self.is_paused:
            return
        self.is_paused = False
        self.scheduler.after(0, self._catch_up)

    def _catch_up(self) -> None:
        while self._backlog and self.is_running:
            self._backlog.popleft()()
