"""What a resource driver is to do, from what the accepted decisions want and what it lists: as a machine without I/O.

One of these lives for one leadership. It begins knowing nothing; the orders of accepted decisions and the list of all workers, which a new
leader says first, tell it what is wanted. The rules: nothing is stopped before that list came, no worker is requested twice,
and a worker that was ordered to stop stays stopped, in whatever order the orders come (L5).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eventflink.master.effects import RequestWorker, StopWorker, WorkerOrder, WorkersWanted
from eventflink.master.inputs import WorkerTerminated

MAX_STOPPED: Final = 10_000
"""So many are remembered; a late order for one that was stopped even earlier is not expected."""


@dataclass(frozen=True, slots=True)
class ListedWorker:
    """A worker that a driver knows of: it runs or is about to, or has ended and not been stopped yet."""

    worker_id: str
    is_running: bool
    diagnostics: str = ""
    """How it ended, where it has."""


@dataclass(frozen=True, slots=True)
class DriverSteps:
    """What a driver is to do, and what the master is to be told."""

    requests: tuple[RequestWorker, ...]
    stops: tuple[str, ...]
    terminated: tuple[WorkerTerminated, ...]


@dataclass(slots=True)
class WorkerReconciler:
    """What one leadership wants of its driver."""

    wanted: dict[str, RequestWorker | None] = field(default_factory=dict)
    """None: the worker has registered, so there is nothing to be started."""
    stopped: dict[str, None] = field(default_factory=dict)
    """What this leadership was ordered to stop; ids are never used again."""
    is_complete: bool = False
    """Whether the list of all workers came: from then on the others are orphans."""
    _asked: set[str] = field(default_factory=set)
    _reported: set[str] = field(default_factory=set)

    def accept_order(self, order: WorkerOrder) -> None:
        """Take an order of an accepted decision; orders may come twice, and the list later than orders of newer decisions."""
        match order:
            case RequestWorker():
                self._want(order.worker_id, order)
            case StopWorker():
                self.stopped[order.worker_id] = None
                if len(self.stopped) > MAX_STOPPED:
                    del self.stopped[next(iter(self.stopped))]
                self.wanted.pop(order.worker_id, None)
                self._asked.discard(order.worker_id)
                self._reported.discard(order.worker_id)
            case WorkersWanted():
                for request in order.pending:
                    self._want(request.worker_id, request)
                for worker_id in order.registered:
                    if worker_id not in self.stopped:
                        self.wanted[worker_id] = None
                self.is_complete = True

    def _want(self, worker_id: str, request: RequestWorker) -> None:
        if worker_id not in self.stopped:
            self.wanted.setdefault(worker_id, request)

    def compare(self, listed: Iterable[ListedWorker]) -> DriverSteps:
        """Return what is to be done, given all workers that the driver knows of; call it again when something has changed."""
        found = {worker.worker_id: worker for worker in listed}
        requests: list[RequestWorker] = []
        terminated: list[WorkerTerminated] = []
        for worker_id, request in self.wanted.items():
            worker = found.get(worker_id)
            if worker is None and request is not None and worker_id not in self._asked:
                requests.append(request)
            elif (worker is None or not worker.is_running) and worker_id not in self._reported:
                self._reported.add(worker_id)
                how = worker.diagnostics if worker is not None else ""
                terminated.append(WorkerTerminated(worker_id, how or "the resource driver knows of it no more"))
        self._asked.update(request.worker_id for request in requests)
        self._asked.update(found.keys() & self.wanted.keys())
        stops = [worker_id for worker_id in found if worker_id not in self.wanted and (self.is_complete or worker_id in self.stopped)]
        return DriverSteps(tuple(requests), tuple(stops), tuple(terminated))
