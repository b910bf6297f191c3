"""Where the rows are that tasks read, told to each instance once: a list of many locations does not stand in each order.

Each task that reads an edge other than FORWARD reads what all subtasks before it left. With all of them in each order, a vertex of a
thousand subtasks behind one of a thousand would be told a million locations. This module remembers the lists that an instance was told in
this term. The instance may have lost them, so an order that is resent goes with all of its lists. The instance keeps them in
`taskexecutor/protocol/input_locations.py`.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from eventflink.events.effects import INLINE_LOCATIONS, MAX_LOCATIONS_OF_PART, InputLocations, TaskDeployment
from eventflink.model.attempts import OutputLocation

_MAX_TOLD: Final = 100_000
"""The most pairs of instance and list that are remembered; a list that was forgotten is told once more."""
_MAX_NAMED: Final = 64
_MAX_BYTES_OF_PART: Final = 512 * 1024
"""The most bytes of text in a part: half of the bytes that a record may have."""


class ToldLocations:
    """Which lists of locations each instance has been told."""

    def __init__(self, inline_locations: int = INLINE_LOCATIONS) -> None:
        """Begin with none; lists of at most `inline_locations` stand in the order itself."""
        self._inline_locations = inline_locations
        self._told: dict[tuple[str, str], None] = {}
        self._named: dict[str, tuple[tuple[OutputLocation, ...], str]] = {}
        """By their first location the lists that were named last, and their ids: all tasks of a vertex read the same."""

    def forget(self) -> None:
        """Take nothing for known any more: some of it may not have arrived."""
        self._told.clear()

    def tell(self, deployment: TaskDeployment, instance_id: str) -> Iterator[InputLocations | TaskDeployment]:
        """Yield the lists that the instance has not been told, and then the order, which names them."""
        long = {n: each for n, each in enumerate(deployment.inputs) if len(each.locations) > self._inline_locations}
        if not long:
            yield deployment
            return
        inputs = list(deployment.inputs)
        for index, each in long.items():
            locations_id = self._name(each.locations)
            if (instance_id, locations_id) not in self._told:
                self._note(instance_id, locations_id)
                yield from _parts_of(locations_id, each.locations)
            inputs[index] = replace(each, locations=(), locations_id=locations_id)
        yield replace(deployment, inputs=tuple(inputs))

    def _name(self, locations: tuple[OutputLocation, ...]) -> str:
        known = self._named.pop(locations[0].location, None)
        if known is None or known[0] != locations:
            known = locations, hashlib.sha256(repr(locations).encode()).hexdigest()
        self._named[locations[0].location] = known
        if len(self._named) > _MAX_NAMED:
            del self._named[next(iter(self._named))]
        return known[1]

    def _note(self, instance_id: str, locations_id: str) -> None:
        self._told[instance_id, locations_id] = None
        if len(self._told) > _MAX_TOLD:
            del self._told[next(iter(self._told))]


def _parts_of(locations_id: str, locations: tuple[OutputLocation, ...]) -> Iterator[InputLocations]:
    parts: list[list[OutputLocation]] = []
    size = 0
    for each in locations:
        weight = sum(len(text.encode()) for text in (each.output, each.location, each.digest))
        if not parts or len(parts[-1]) == MAX_LOCATIONS_OF_PART or size + weight > _MAX_BYTES_OF_PART:
            parts.append([])
            size = 0
        parts[-1].append(each)
        size += weight
    for number, part in enumerate(parts):
        yield InputLocations(locations_id, number, len(parts), tuple(part))
