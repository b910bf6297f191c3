"""Slots of several kinds, jobs that ask for them, and operators who block TaskManagers: what half of the runs have in addition.

Everything here is drawn from random numbers of its own, so that what else happens in a run is drawn as it would be without it.
"""

from random import Random
from typing import Any, Final

from eventflink.model.resources import ExtendedResource, ResourceProfile

_SMALL: Final = ResourceProfile(500, 512 << 20)
_LARGE: Final = ResourceProfile(2_000, 4 << 30, managed_bytes=1 << 30)
_PROFILES: Final = (None, _SMALL, _SMALL, _LARGE, ResourceProfile(500, 512 << 20, extended_resources=(ExtendedResource("gpu", 1),)))
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
_BOUNDED_STRATEGY: Final = {"type": "fixed-delay", "attempts": 5, "delay_ms": 300}
"""Of a job that asks for resources: one that nobody can satisfy would start again and again for longer than a run has time."""

_MIXED_SHARE: Final = 0.5
_UNBLOCK_SHARE: Final = 0.3
_LATE_SHARE: Final = 0.75
_LATE_BY_MS: Final = 4_500


def draw_profile(rng: Random) -> ResourceProfile | None:
    """Return what each slot of some machine has."""
    return rng.choice(_PROFILES)


class Resources:
    """What a run has of all this."""

    def __init__(self, seed: int, task_executors: int) -> None:
        """Draw whether the run has any of it, and what its machines have."""
        self._rng = Random(f"{seed} resources")  # noqa: S311 - a run has to be repeatable, not secret
        self.is_mixed = self._rng.random() < _MIXED_SHARE
        self.is_spread = not self.is_mixed or self._rng.random() < 0.5  # noqa: PLR2004 - one of two
        self._profiles = [self._rng.choice(_PROFILES) if self.is_mixed else None for _ in range(task_executors)]

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
            strategy = _BOUNDED_STRATEGY
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
