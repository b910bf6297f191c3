"""What it costs to match slot requests as the cluster grows: the real core, decide and apply, without Kafka.

Three situations, each at several sizes. Requests come while slots are free; slots are freed one at a time while a fifth of all requests
wait; TaskManagers come while all requests wait. Slots have four profiles and a fifth kind that says nothing, and jobs ask for each of
them. Everything that follows from an input is in its time: scheduling, deferring, ends of tasks and jobs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks.report import Distribution
from eventflink.events.inputs import JobSubmission, TaskManagerRegistration, TaskStateReport
from eventflink.events.log_events import SlotAllocated, TaskDeployed
from eventflink.master.inputs import MasterInput
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.resources import ExtendedResource, ResourceProfile
from eventflink.model.statuses import ExecutionState

SLOTS: Final = 8
"""Of a TaskManager."""

UNIT: Final = 100
"""How many TaskManagers the smallest cluster has; it gets ten requests for each."""

TASKS: Final = 100
"""Of a job; one sample is so many requests."""

FREED: Final = 20
"""How many slots are freed in one sample."""

REGISTERED: Final = 10
"""How many TaskManagers come in one sample."""

_PROFILES: Final = (
    None,
    ResourceProfile(500, 512 << 20),
    ResourceProfile(1_000, 2 << 30),
    ResourceProfile(2_000, 4 << 30, managed_bytes=1 << 30),
    ResourceProfile(1_000, 2 << 30, extended_resources=(ExtendedResource("gpu", 1),)),
)
_ASKED: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"cpu_cores": 0.5},
    {"cpu_cores": 1, "task_heap_memory": "2g"},
    {"cpu_cores": 2, "managed_memory": "1g"},
    {"extended_resources": {"gpu": 1}},
)
_START_MS: Final = 1_700_000_000_000


class NotMatched(Exception):
    """Requests that have to get slots did not."""


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """One cluster, spread or packed; requests that got slots, a second."""

    task_managers: int
    slots: int
    requests: int
    spread: bool
    free_slots_per_s: Distribution
    """Requests came while slots were free."""
    freed_slots_per_s: Distribution
    """One slot was freed at a time, while a fifth of the requests waited."""
    waiting_requests_per_s: Distribution
    """TaskManagers came, while all requests waited."""


class _Core:
    """A master's state, and what becomes of an input."""

    def __init__(self, *, spread: bool) -> None:
        self.master = Master(MasterSettings(evenly_spread_out_slots=spread, job_store_capacity=10**9))
        self._now_ms = _START_MS
        self._jobs = 0
        self.deployed: list[tuple[TaskDeployed, SlotAllocated]] = []

    def take(self, value: MasterInput) -> None:
        """Decide an input and all that follows from it."""
        self._now_ms += 1
        master, follow_ups = self.master, self.master.follow_ups
        following: MasterInput | None = value
        while following is not None:
            allocated: SlotAllocated | None = None
            for event in master.decide(following, self._now_ms):
                master.apply(event, self._now_ms)
                if isinstance(event, SlotAllocated):
                    allocated = event
                elif isinstance(event, TaskDeployed) and allocated is not None:
                    self.deployed.append((event, allocated))
            following = follow_ups.head()

    def register(self, number: int) -> None:
        profile = _PROFILES[number % len(_PROFILES)]
        self.take(TaskManagerRegistration(f"tm-{number}", f"tm-{number}-1", "host", 1, SLOTS, slot_profile=profile))

    def submit(self, graph: JobGraph) -> None:
        self._jobs += 1
        self.take(JobSubmission(job_id=f"job-{self._jobs}", request_id=f"job-{self._jobs}", job_graph=graph))

    def finish(self, task: TaskDeployed, slot: SlotAllocated) -> None:
        attempt = (task.job_id, task.vertex_id, task.subtask_index, task.attempt)
        self.take(TaskStateReport(slot.task_manager_id, slot.instance_id, *attempt, execution_state=ExecutionState.FINISHED))


def _graphs() -> list[JobGraph]:
    """Return a job for each profile."""
    resources = ({"resources": asked} if asked else {} for asked in _ASKED)
    return [
        parse_job_graph({"name": "slots", "vertices": [{"id": "task", "python": "m:f", "parallelism": TASKS, **asked}]}, "benchmark")
        for asked in resources
    ]


def _rates(core: _Core, chunks: Iterator[Callable[[], None]]) -> Distribution:
    """Return requests that got slots a second, one sample for each chunk of work."""
    samples = []
    for work in chunks:
        before = len(core.deployed)
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        if len(core.deployed) == before:
            raise NotMatched("no request of a whole sample got a slot")
        samples.append((len(core.deployed) - before) / seconds)
    return Distribution.of(samples)


def _measure_free_first(task_managers: int, *, spread: bool) -> tuple[Distribution, Distribution]:
    """Measure requests that come while slots are free, then slots that are freed while requests wait."""
    core, graphs = _Core(spread=spread), _graphs()
    for number in range(task_managers):
        core.register(number)
    jobs = task_managers * SLOTS // TASKS
    # The jobs of one kind fit the TaskManagers of that kind; where they go is the matching's affair.
    free = _rates(core, (partial(core.submit, graphs[-1 - number % len(graphs)]) for number in range(jobs)))
    for number in range(jobs // 4):
        core.submit(graphs[number % len(graphs)])
    ended = core.deployed[:task_managers]

    def finish(first: int) -> None:
        for task, slot in ended[first : first + FREED]:
            core.finish(task, slot)

    freed = _rates(core, (partial(finish, first) for first in range(0, task_managers, FREED)))
    core.master.validate()
    return free, freed


def _measure_waiting_first(task_managers: int, *, spread: bool) -> Distribution:
    """Measure TaskManagers that come while requests wait."""
    core, graphs = _Core(spread=spread), _graphs()
    for number in range(task_managers * SLOTS // TASKS * 5 // 4):
        core.submit(graphs[number % len(graphs)])

    def register(first: int) -> None:
        for number in range(first, first + REGISTERED):
            core.register(number)

    rates = _rates(core, (partial(register, first) for first in range(0, task_managers, REGISTERED)))
    core.master.validate()
    return rates


def measure_slots(multiples: Sequence[int], say: Callable[[str], None]) -> list[SlotFigures]:
    """Measure each size, spread and packed.

    Raises:
        NotMatched: requests did not get the slots that there are.

    """
    figures = []
    for multiple in multiples:
        for spread in (True, False):
            task_managers = UNIT * multiple
            how = "spread" if spread else "packed"
            free, freed = _measure_free_first(task_managers, spread=spread)
            waiting = _measure_waiting_first(task_managers, spread=spread)
            say(f"{task_managers:,} TaskManagers, {how}: {free.median:,.0f}, {freed.median:,.0f} and {waiting.median:,.0f} requests/s")
            requests = task_managers * SLOTS * 5 // 4
            figures.append(SlotFigures(task_managers, task_managers * SLOTS, requests, spread, free, freed, waiting))
    return figures
