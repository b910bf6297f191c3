"""What some runs have in addition: jobs with shared slots, slots of several kinds, other schedulers, operators with orders.

Each is drawn from random numbers of its own, so that what else happens in a run is drawn as it would be without it.
"""

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from eventflink.events.effects import LeaderDeath
from eventflink.master.settings import AdaptiveSettings
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import SavepointMode, SchedulerType
from eventflink.testing.simulation.resource_driver import draw_profile

_SUSPENDING_SHARE: Final = 0.35
_ENDING_SHARE: Final = 0.15
_SHUTDOWNS_IN_ORDERS: Final = 0.15
_RESUMPTIONS_IN_ORDERS: Final = 0.4
_GUARDIANS_SHARE: Final = 0.75
_SILENT_GUARDIANS: Final = 0.15
_LATE_GUARDIANS: Final = 0.2
_FORGERS_SHARE: Final = 0.4
_DISKS_SHARE: Final = 0.3


class Lifecycles:
    """Operators who suspend jobs, resume them, and shut whole clusters down."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} lifecycles")
        self.is_suspending = self._rng.random() < _SUSPENDING_SHARE
        self.is_ending = self._rng.random() < _ENDING_SHARE
        """The cluster is shut down now and then; its masters are started again."""

    @property
    def has_orders(self) -> bool:
        """Tell whether the run has operators who do any of this."""
        return self.is_suspending or self.is_ending

    def next_order(self, jobs: Sequence[str]) -> tuple[str, dict[str, object]]:
        """Return what an order is about, and what it says; a suspension or a resumption of some job, or the end of the cluster."""
        if self.is_ending and (not jobs or self._rng.random() < _SHUTDOWNS_IN_ORDERS):
            status = self._rng.choice(("SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"))
            return "cluster", {"type": "ShutDownCluster", "application_status": status, "cancel_jobs": self._rng.random() < 0.3}
        job_id = self._rng.choice(jobs) if jobs else "nobody"
        resumes = self._rng.random() < _RESUMPTIONS_IN_ORDERS
        return job_id, {"type": "ResumeJob" if resumes else "SuspendJob", "job_id": job_id}

    def next_order_in_ms(self) -> float:
        """Return how long operators wait."""
        return 400 + self._rng.random() * 2_500

    def restart_in_ms(self) -> float:
        """Return how long it takes until a master of a cluster that has ended is started again."""
        return 500 + self._rng.random() * 2_000


class Disks:
    """Disks of TaskExecutors that are full for a while."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} disks")
        self.are_small = self._rng.random() < _DISKS_SHARE

    def next_fault_in_ms(self) -> float:
        """Return how long it takes until one is full."""
        return 300 + self._rng.random() * 3_000

    def choose(self, names: Sequence[str]) -> tuple[str, float]:
        """Return whose disk is full, and for how many milliseconds."""
        return self._rng.choice(names), self._rng.choice((20.0, 1_000.0, 4_000.0)) * (0.5 + self._rng.random())


class Guardians:
    """The guardians of masters: right, late, or dead themselves; and forged deaths in their name."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} guardians")
        self.are_there = self._rng.random() < _GUARDIANS_SHARE
        self.are_forged = self._rng.random() < _FORGERS_SHARE
        """Somebody says of leaders that they have died."""
        self._leaderships: list[LeaderDeath] = []
        """Whose end was forged."""

    def tells_in_ms(self) -> float | None:
        """Return how long it takes until a death is told; None: it is not told."""
        if not self.are_there or self._rng.random() < _SILENT_GUARDIANS:
            return None
        return self._rng.random() * (4_000 if self._rng.random() < _LATE_GUARDIANS else 50)

    def next_forgery(self, epoch: int, leader_id: str) -> LeaderDeath:
        """Return what is said, given the leadership that was accepted last: it is over, or an earlier one is, or one that never was."""
        present = LeaderDeath(epoch, leader_id)
        self._leaderships.append(present)
        forgeries = (
            present,
            self._rng.choice(self._leaderships),
            LeaderDeath(epoch, "nobody"),
            LeaderDeath(epoch + 1, leader_id),
            LeaderDeath(epoch + 1_000_000, leader_id),
        )
        return self._rng.choice(forgeries)

    def next_forgery_in_ms(self) -> float:
        """Return how long the next forgery takes."""
        return 100 + self._rng.random() * 2_500


def record_of(order: dict[str, object], request_id: str, reply_partition: int) -> bytes:
    """Return a record of `commands`."""
    return json.dumps({**order, "request_id": request_id, "reply_partition": reply_partition}).encode()


_ASKED: Final[tuple[dict[str, Any] | None, ...]] = (
    None,
    None,
    None,
    {"cpu_cores": 0.5},
    {"cpu_cores": 0.5},
    {"cpu_cores": "0.25", "task_heap_memory": "512m"},
    {"task_heap_memory": "1g", "managed_memory": 4096},
    {"extended_resources": {"gpu": 1}},
)
_FEW_RESTARTS: Final = {"type": "fixed-delay", "attempts": 5, "delay_ms": 300}
"""Of a job that asks for resources: one that nobody can satisfy would start again and again for longer than a run has time."""

_MIXED_SHARE: Final = 0.5
_UNBLOCK_SHARE: Final = 0.3
_LATE_SHARE: Final = 0.75
_LATE_BY_MS: Final = 4_500


class Resources:
    """Slots of several kinds, jobs that ask for them, and operators who block TaskManagers: what half of the runs have."""

    def __init__(self, seed: int, task_executors: int) -> None:
        self._rng = Random(f"{seed} resources")
        self.is_mixed = self._rng.random() < _MIXED_SHARE
        self.is_spread = not self.is_mixed or self._rng.random() < 0.5
        self._profiles = [draw_profile(self._rng) if self.is_mixed else None for _ in range(task_executors)]

    def profile_of(self, number: int) -> ResourceProfile | None:
        """Return what each slot of a machine has."""
        return self._profiles[number]

    def late_by_ms(self) -> int:
        """Return by how much later a machine starts: in a mixed cluster most do when jobs wait already."""
        return _LATE_BY_MS if self.is_mixed and self._rng.random() < _LATE_SHARE else 0

    def ask(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return the graph with resources for some of its vertices."""
        if not self.is_mixed:
            return graph
        vertices = [self._asking(vertex) for vertex in graph["vertices"]]
        strategy = graph["restart_strategy"]
        if any("resources" in vertex for vertex in vertices) and strategy["type"] != "none":
            strategy = _FEW_RESTARTS
        return graph | {"vertices": vertices, "restart_strategy": strategy}

    def _asking(self, vertex: dict[str, Any]) -> dict[str, Any]:
        asked = self._rng.choice(_ASKED)
        return vertex if asked is None else vertex | {"resources": asked}

    def next_order(self, names: list[str]) -> tuple[str, int | None]:
        """Return a TaskManager, and for how many milliseconds it is blocked; None: it is unblocked."""
        name = self._rng.choice([*names, "tm-99"])
        if self._rng.random() < _UNBLOCK_SHARE:
            return name, None
        return name, 500 + int(self._rng.random() * 7_000)

    def next_order_in_ms(self) -> float:
        """Return how long operators wait."""
        return 300 + self._rng.random() * 3_000


_SCHEDULERS_SHARE: Final = 0.25
_REACTIVE_SHARE: Final = 0.25
_NAMED: Final = ("adaptive", "adaptive", "default", "cluster-default")
_FORWARD_SHARE: Final = 0.6
_MOST_ASKED: Final = 5
_SOME_RESTARTS: Final = {"type": "fixed-delay", "attempts": 8, "delay_ms": 300}
"""More subtasks, and streams, fail more often: a job that restarts for each of them would do so for longer than a run has time."""


class Schedulers:
    """Adaptive jobs, forward edges and users who ask for another parallelism: what a quarter of the runs have."""

    def __init__(self, seed: int, wait_timeout_ms: int) -> None:
        self._rng = Random(f"{seed} schedulers")
        self.is_mixed = self._rng.random() < _SCHEDULERS_SHARE
        self.settings = self._draw_settings(wait_timeout_ms) if self.is_mixed else AdaptiveSettings()

    def _draw_settings(self, wait_timeout_ms: int) -> AdaptiveSettings:
        reactive = self._rng.random() < _REACTIVE_SHARE
        return AdaptiveSettings(
            scheduler=SchedulerType.ADAPTIVE if reactive or self._rng.random() < 0.5 else SchedulerType.DEFAULT,
            reactive=reactive,
            resource_wait_timeout_ms=wait_timeout_ms,
            resource_stabilization_timeout_ms=0 if reactive else int(self._rng.random() * 1_500),
            min_parallelism_increase=self._rng.choice((1, 1, 2)),
        )

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return the graph with a scheduler, and with forward edges where the parallelism is equal."""
        if not self.is_mixed:
            return graph
        parallelism = {vertex["id"]: vertex["parallelism"] for vertex in graph["vertices"]}
        edges = [
            edge | {"ship": "forward"}
            if parallelism[edge["from"]] == parallelism[edge["to"]] and self._rng.random() < _FORWARD_SHARE
            else edge
            for edge in graph["edges"]
        ]
        vertices = [vertex | {"max_parallelism": 8} for vertex in graph["vertices"]]
        strategy = graph["restart_strategy"] if graph["restart_strategy"]["type"] == "none" else _SOME_RESTARTS
        return graph | {"vertices": vertices, "edges": edges, "restart_strategy": strategy, "scheduler": self._rng.choice(_NAMED)}

    def next_rescale(self, jobs: list[str]) -> tuple[str, str, int]:
        """Return a job, a vertex, and which parallelism somebody asks for; now and then one that there is not."""
        return self._rng.choice([*jobs, "job-99"]), f"v{self._rng.randrange(3)}", self._rng.randrange(_MOST_ASKED + 1)

    def next_rescale_in_ms(self) -> float:
        """Return how long users wait."""
        return 200 + self._rng.random() * 2_000


_SHARING_SHARE: Final = 0.5
"""Of the runs."""
_JOB_SHARE: Final = 0.6
"""Of the jobs of such a run."""
_ALL_SHARE: Final = 0.7
"""Of these: how many have all their vertices in one group; the others leave out the first vertex."""
_APART_SHARE: Final = 0.75
"""Of these: how many have no edges."""
_LEAST: Final = {"cpu_cores": 0.25}
"""What a vertex asks for that has to ask for something, because another one of its group does."""


class SlotSharing:
    """Jobs whose vertices share slots.

    Only vertices that run at the same time are ever together in a slot, so many of these jobs lose the edges that would keep them apart.
    """

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} slot sharing")
        self.is_sharing = self._rng.random() < _SHARING_SHARE

    def group(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return the graph with a slot sharing group, or as it is."""
        if not self.is_sharing or self._rng.random() >= _JOB_SHARE:
            return graph
        left_out = 0 if self._rng.random() < _ALL_SHARE else 1
        edges = [] if self._rng.random() < _APART_SHARE else graph["edges"]
        members = graph["vertices"][left_out:]
        is_asking = any("resources" in vertex for vertex in members)
        grouped = [self._member(vertex, is_asking=is_asking) for vertex in members]
        return graph | {"vertices": [*graph["vertices"][:left_out], *grouped], "edges": edges}

    @staticmethod
    def _member(vertex: dict[str, Any], *, is_asking: bool) -> dict[str, Any]:
        asked = {"resources": vertex.get("resources", _LEAST)} if is_asking else {}
        return vertex | asked | {"slot_sharing_group": "together"}


_STREAMS_SHARE: Final = 0.5
"""Of the runs."""
_STREAM_SHARE: Final = 0.75
"""Of the jobs of such a run."""
_ALONE_SHARE: Final = 0.75
"""Of the streams: how many are all of their job, and so begin at once."""
_UNBOUNDED_SHARE: Final = 0.4
"""Of the streams: how many do not end by themselves."""
_EXACT_SHARE: Final = 0.75
"""Of the streams: how many write to Kafka; the others to a function."""


class Streams:
    """Jobs whose last vertex is a stream, their checkpoints, and users who ask for one: what half of the runs have."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} streams")
        self.are_there = self._rng.random() < _STREAMS_SHARE

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return the graph with a stream at its end, and with when its checkpoints are taken; or as it is."""
        if not self.are_there or graph.get("scheduler") == "adaptive" or self._rng.random() >= _STREAM_SHARE:
            return graph
        *others, last = graph["vertices"]
        checkpointing = {
            "interval_ms": self._rng.choice((0, 200, 500)),
            "timeout_ms": self._rng.choice((300, 1_500)),
            "min_pause_ms": self._rng.choice((0, 0, 300)),
            "tolerable_failed_checkpoints": self._rng.choice((-1, 0, 1, 3)),
            "max_retained": self._rng.choice((1, 1, 3)),
        }
        strategy = graph["restart_strategy"] if graph["restart_strategy"]["type"] == "none" else _SOME_RESTARTS
        if self._rng.random() < _ALONE_SHARE:
            others, graph = [], graph | {"edges": []}
        stream = {"vertices": [*others, last | {"stream": self._draw_stream()}], "checkpointing": checkpointing}
        return graph | stream | {"restart_strategy": strategy}

    def _draw_stream(self) -> dict[str, Any]:
        source = {"kafka": {"topic": "numbers", "max_offsets_per_trigger": self._rng.choice((8, 20, 50))}, "format": "text"}
        sink: dict[str, Any] = {"python": "jobs:write"}
        if self._rng.random() < _EXACT_SHARE:
            timeout_ms = self._rng.choice((1_000, 60_000, 60_000, 60_000))
            sink = {"kafka": {"topic": "answers", "transaction_timeout_ms": timeout_ms}, "format": "text"}
        trigger = {} if self._rng.random() < _UNBOUNDED_SHARE else {"trigger": {"available_now": True}}
        return {"sources": {"numbers": source}, "sink": sink, **trigger}

    def next_order(self, jobs: Sequence[str]) -> tuple[str, dict[str, object]]:
        """Return which job somebody wants a checkpoint of, and the order."""
        job_id = self._rng.choice(jobs) if jobs else "nobody"
        return job_id, {"type": "TriggerCheckpoint", "job_id": job_id}

    def next_order_in_ms(self) -> float:
        """Return how long users wait."""
        return 200 + self._rng.random() * 1_500


_SAVEPOINTS_SHARE: Final = 0.75
"""Of the runs that have streams."""
_RESTORED_SHARE: Final = 0.7
"""Of the jobs that have stopped with a savepoint: how many another one follows."""


class Savepoints:
    """Users who take savepoints of streams, of all modes, and let other jobs begin in them."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} savepoints")
        self.are_there = self._rng.random() < _SAVEPOINTS_SHARE

    def next_order(self, jobs: Sequence[str]) -> tuple[str, dict[str, object]]:
        """Return which of the jobs somebody wants a savepoint of, and the order."""
        job_id, mode = self._rng.choice(jobs), self._rng.choice(list(SavepointMode))
        return job_id, {"type": "TriggerSavepoint", "job_id": job_id, "mode": mode.value, "target_directory": "/savepoints"}

    def is_restored(self) -> bool:
        """Tell whether a job begins in a savepoint that is complete."""
        return self._rng.random() < _RESTORED_SHARE

    def next_order_in_ms(self) -> float:
        """Return how long users wait."""
        return 100 + self._rng.random() * 900
