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


class ToldLocations:
    """Which lists of locations each instance has been told."""

    def __init__(self, inline_locations: int = INLINE_LOCATIONS) -> None:
        """Begin with none; lists of at most `inline_locations` stand in the order itself."""
        self._inline_locations = inline_locations
        self._told: dict[tuple[str, str], None] = {}
        self._named: dict[str, tuple[tuple[OutputLocation, ...], str]] = {}
        """By the name of an input the list that it had last, and the list's id: all tasks of a vertex read the same."""

    def forget(self) -> None:
        """Take nothing for known any more: some of it may not have arrived."""
        self._told.clear()

    def tell(self, deployment: TaskDeployment, instance_id: str) -> Iterator[InputLocations | TaskDeployment]:
        """Yield the lists that the instance has not been told, and then the order, which names them."""
        inputs = list(deployment.inputs)
        for index, each in enumerate(inputs):
            if len(each.locations) > self._inline_locations:
                locations_id = self._name(each)
                if (instance_id, locations_id) not in self._told:
                    self._note(instance_id, locations_id)
                    yield from _parts_of(locations_id, each.locations)
                inputs[index] = _naming(each, locations_id)
        yield deployment if inputs == list(deployment.inputs) else replace(deployment, inputs=tuple(inputs))

    def _name(self, task_input: TaskInput) -> str:
        locations, known = task_input.locations, self._named.get(task_input.input_name)
        if known is None or known[0] != locations:
            if len(self._named) >= _MAX_NAMED:
                self._named.clear()
            known = self._named[task_input.input_name] = locations, hashlib.sha256(repr(locations).encode()).hexdigest()
        return known[1]

    def _note(self, instance_id: str, locations_id: str) -> None:
        self._told[instance_id, locations_id] = None
        if len(self._told) > _MAX_TOLD:
            del self._told[next(iter(self._told))]


def _parts_of(locations_id: str, locations: tuple[OutputLocation, ...]) -> Iterator[InputLocations]:
    firsts = range(0, len(locations), MAX_LOCATIONS_OF_PART)
    for part, first in enumerate(firsts):
        yield InputLocations(locations_id, part, len(firsts), locations[first : first + MAX_LOCATIONS_OF_PART])


def _naming(task_input: TaskInput, locations_id: str) -> TaskInput:
    return replace(task_input, locations=(), locations_id=locations_id)
