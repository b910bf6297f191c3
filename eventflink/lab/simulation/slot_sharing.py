"""Jobs whose vertices share slots: what some runs have in addition, drawn from random numbers of its own.

Only vertices that run at the same time are ever together in a slot, so many of these jobs lose the edges that would keep them apart.
"""

from random import Random
from typing import Any, Final

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
    """What a run has of it."""

    def __init__(self, seed: int) -> None:
        """Draw whether the run has any of it."""
        self._rng = Random(f"{seed} slot sharing")  # noqa: S311 - a run has to be repeatable, not secret
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
