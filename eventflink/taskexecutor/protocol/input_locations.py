"""What a TaskExecutor keeps of the lists of locations that it was told apart from the orders that name them.

The rule: an order one of whose lists is not here whole is left alone, as if it had not come. Its leader sends it again, with its lists.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from eventflink.events.effects import MAX_LOCATIONS_OF_PART, InputLocations, TaskDeployment
from eventflink.model.attempts import OutputLocation

MAX_KNOWN_LOCATIONS: Final = 200_000
"""Of all lists together: far more than one order may name."""


@dataclass(slots=True)
class _List:
    parts: dict[int, tuple[OutputLocation, ...]] = field(default_factory=dict)
    count: int = 0
    """How many parts there are."""
    joined: tuple[OutputLocation, ...] = ()
    """Those of all parts, once a task was to read them."""

    @property
    def size(self) -> int:
        return sum(map(len, self.parts.values()))

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == self.count


class KnownLocations:
    """The lists of locations that this TaskExecutor was told, those that were used last behind the others."""

    def __init__(self) -> None:
        """Know none."""
        self._lists: dict[str, _List] = {}
        self._size = 0

    def take(self, told: InputLocations) -> None:
        """Keep a part of a list; one that cannot be a part of it is left alone."""
        if not 0 <= told.part < told.parts or not 0 < len(told.locations) <= MAX_LOCATIONS_OF_PART:
            return
        known = self._lists.pop(told.locations_id, None)
        if known is not None and known.count != told.parts:
            self._size -= known.size
            known = None
        known = known or _List(count=told.parts)
        self._size += len(told.locations) - len(known.parts.get(told.part, ()))
        known.parts[told.part] = told.locations
        known.joined = ()
        self._lists[told.locations_id] = known
        while self._size > MAX_KNOWN_LOCATIONS:
            self._size -= self._lists.pop(next(iter(self._lists))).size

    def complete(self, deployment: TaskDeployment) -> TaskDeployment | None:
        """Return an order with all locations that it names, or None: some of them are not known."""
        named = [each.locations_id for each in deployment.inputs if each.locations_id]
        if not named:
            return deployment
        if not all(each in self._lists and self._lists[each].is_whole for each in named):
            return None
        for each in named:
            self._lists[each] = self._lists.pop(each)
        inputs = [replace(each, locations=self._all_of(each.locations_id)) if each.locations_id else each for each in deployment.inputs]
        return replace(deployment, inputs=tuple(inputs))

    def _all_of(self, locations_id: str) -> tuple[OutputLocation, ...]:
        known = self._lists[locations_id]
        if not known.joined:
            known.joined = tuple([location for part in sorted(known.parts) for location in known.parts[part]])
        return known.joined
