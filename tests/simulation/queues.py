"""Queues of jobs in runs: which are configured, which jobs name them, and the judge of who got a slot.

The judge counts itself, from what the log says of requests and slots: it uses nothing of what the masters compute.
"""

from collections import Counter
from random import Random
from typing import Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.model.job_queues import DEFAULT_QUEUE, JobQueue
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SHARE: Final = 0.3
"""Of the runs."""
_NAMES: Final = ("adhoc", "etl", "streams")


class Queues:
    """Operators who configure queues, and authors of jobs who name them. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = Random(f"{seed} queues")
        self.are_there = rng.random() < _SHARE
        drawn = [JobQueue(name, rng.randint(1, 3), rng.randint(1, 3), rng.choice((None, 0, 1, 2))) for name in _NAMES[: rng.randint(1, 3)]]
        self.configured = tuple(drawn) if self.are_there else ()
        self.reclaim_after_ms = rng.choice((None, 0, 500))
        """After so long queues take slots back from others."""

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph that names a queue, or as it was; a queue that is not configured is refused, so none is named."""
        if not self.are_there or self._rng.random() < 0.2:
            return graph
        return graph | {"queue": self._rng.choice(self.configured).name, "priority": self._rng.choice((0, 0, 1, -1))}


class QueueLedger:
    """What the log says of queues, and of the slots that their jobs wait for and hold."""

    def __init__(self) -> None:
        self._queues: dict[str, JobQueue] = {}
        self._named: dict[str, str] = {}
        """The queue that each job names."""
        self._plain: set[str] = set()
        """Jobs that any slot will do for, and that share none."""
        self._waiting: dict[str, str] = {}
        """The job of each request."""
        self._held: dict[str, tuple[str, str]] = {}
        """The job of each allocation that has a slot, and the instance of the TaskManager."""

    def on_decision(self, decision: Decision, offset: int) -> None:
        """Take what an accepted decision says.

        Raises:
            ViolationFound: a queue holds more than it may, or borrows what another waits for below its quota.

        """
        for event in decision.events:
            match event:
                case e.QueuesConfigured():
                    self._queues = {queue.name: queue for queue in event.queues}
                case e.JobSubmitted():
                    self._named[event.job_id] = event.job_graph.queue
                    if all(vertex.resources is None and vertex.slot_sharing_group is None for vertex in event.job_graph.vertices):
                        self._plain.add(event.job_id)
                case e.SlotRequested():
                    self._waiting[event.allocation_id] = event.job_id
                case e.SlotRequestCancelled() | e.SlotRequestTimedOut() | e.SlotRequestUnfulfillable():
                    self._waiting.pop(event.allocation_id, None)
                case e.SlotAllocated():
                    job_id = self._waiting.pop(event.allocation_id)
                    self._check(job_id, offset)
                    self._held[event.allocation_id] = (job_id, event.instance_id)
                case e.SlotFreed() | e.SlotOfferRejected():
                    self._held.pop(event.allocation_id, None)
                case e.TaskManagerLost() | e.TaskManagerDisconnected() | e.TaskManagerReleased():
                    self._held = {name: held for name, held in self._held.items() if held[1] != event.instance_id}

    def _check(self, job_id: str, offset: int) -> None:
        if not self._queues:
            return
        held = Counter(self._queue_of(holder).name for holder, _ in self._held.values())
        queue = self._queue_of(job_id)
        if queue.borrowing_limit is not None and held[queue.name] >= queue.nominal_quota + queue.borrowing_limit:
            raise ViolationFound(Invariant.QUEUES, f"log@{offset}: {queue} holds {held[queue.name]} slots, and gets another for {job_id}")
        if held[queue.name] < queue.nominal_quota:
            return
        for waiting in set(self._waiting.values()) & self._plain:
            other = self._queue_of(waiting)
            if held[other.name] < other.nominal_quota:
                raise ViolationFound(Invariant.QUEUES, f"log@{offset}: {queue} borrows a slot for {job_id}, and {waiting} of {other} waits")

    def _queue_of(self, job_id: str) -> JobQueue:
        return self._queues.get(self._named[job_id]) or self._queues.get(DEFAULT_QUEUE) or JobQueue(DEFAULT_QUEUE, 0)
