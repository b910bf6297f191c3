"""Where the rows are that tasks read, told to each instance once: a list of many locations does not stand in each order.

Each task that reads an edge other than FORWARD reads what all subtasks before it left. With all of them in each order, a vertex of a
thousand subtasks behind one of a thousand would be told a million locations. Here is which lists an instance has been told in this term; it
may have lost them, so what is resent is told with all of its lists again. What an instance keeps of them is its own affair
(`taskexecutor/protocol/input_locations.py`).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from eventflink.events.effects import INLINE_LOCATIONS, MAX_LOCATIONS_OF_PART, InputLocations, TaskDeployment, TaskInput
from eventflink.model.attempts import OutputLocation

_MAX_TOLD: Final = 100_000
"""Lists of instances that are remembered; what is forgotten is told once more."""
_MAX_NAMED: Final = 64
_MAX_BYTES_OF_PART: Final = 512 * 1024
"""Of its texts: half of what a record may have."""


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
        inputs = list(deployment.inputs)
        for index, each in enumerate(inputs):
            if len(each.locations) > self._inline_locations:
                locations_id = self._name(each.locations)
                if (instance_id, locations_id) not in self._told:
                    self._note(instance_id, locations_id)
                    yield from _parts_of(locations_id, each.locations)
                inputs[index] = _naming(each, locations_id)
        yield deployment if inputs == list(deployment.inputs) else replace(deployment, inputs=tuple(inputs))

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


def _naming(task_input: TaskInput, locations_id: str) -> TaskInput:
    return replace(task_input, locations=(), locations_id=locations_id)
