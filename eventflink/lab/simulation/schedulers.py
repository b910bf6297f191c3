"""Adaptive jobs, forward edges and users who ask for another parallelism: what a quarter of the runs have in addition.

Everything here is drawn from random numbers of its own, so that what else happens in a run is drawn as it would be without it.
"""

from random import Random
from typing import Any, Final

from eventflink.master.settings import AdaptiveSettings
from eventflink.model.statuses import SchedulerType

_SHARE: Final = 0.25
_REACTIVE_SHARE: Final = 0.25
_NAMED: Final = ("adaptive", "adaptive", "default", "cluster-default")
_FORWARD_SHARE: Final = 0.6
_MOST_ASKED: Final = 5
_BOUNDED_STRATEGY: Final = {"type": "fixed-delay", "attempts": 8, "delay_ms": 300}
"""More subtasks fail more often: one that restarts as a whole for each of them would do so for longer than a run has time."""


class Schedulers:
    """What a run has of all this."""

    def __init__(self, seed: int, wait_timeout_ms: int) -> None:
        """Draw whether the run has any of it, and how its cluster is configured."""
        self._rng = Random(f"{seed} schedulers")  # noqa: S311 - a run has to be repeatable, not secret
        self.is_mixed = self._rng.random() < _SHARE
        self.settings = self._draw_settings(wait_timeout_ms) if self.is_mixed else AdaptiveSettings()

    def _draw_settings(self, wait_timeout_ms: int) -> AdaptiveSettings:
        reactive = self._rng.random() < _REACTIVE_SHARE
        return AdaptiveSettings(
            scheduler=SchedulerType.ADAPTIVE if reactive or self._rng.random() < 0.5 else SchedulerType.DEFAULT,  # noqa: PLR2004 - one of two
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
        strategy = graph["restart_strategy"] if graph["restart_strategy"]["type"] == "none" else _BOUNDED_STRATEGY
        return graph | {"vertices": vertices, "edges": edges, "restart_strategy": strategy, "scheduler": self._rng.choice(_NAMED)}

    def next_rescale(self, jobs: list[str]) -> tuple[str, str, int]:
        """Return a job, a vertex, and which parallelism somebody asks for; now and then one that there is not."""
        return self._rng.choice([*jobs, "job-99"]), f"v{self._rng.randrange(3)}", self._rng.randrange(_MOST_ASKED + 1)

    def next_rescale_in_ms(self) -> float:
        """Return how long users wait."""
        return 200 + self._rng.random() * 2_000
