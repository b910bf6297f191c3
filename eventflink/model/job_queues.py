"""Named queues of jobs: the keys below `queues.`, and how many slots the jobs of a queue may hold. The words are Kueue's.

A queue is entitled to its nominal quota, and may borrow what others leave free, up to its borrowing limit. Which queue is next, and how
many slots each holds, is in `master/queue_shares.py`.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from eventflink.model.named_keys import by_name, read_named

DEFAULT_QUEUE: Final = "default"
"""The queue of jobs that name none. Where it is not configured it has no quota, the weight 1 and no borrowing limit."""
MAX_QUEUES: Final = 64
MAX_QUOTA: Final = 1_000_000
MAX_WEIGHT: Final = 1_000
MAX_PRIORITY: Final = 100
"""Of a job, above and below zero: the leader looks at each priority that waits with every match."""

NOMINAL_QUOTA: Final = "nominal-quota"
_WEIGHT: Final = "weight"
_LIMIT: Final = "borrowing-limit"
_BOUNDS: Final = {NOMINAL_QUOTA: (0, MAX_QUOTA), _WEIGHT: (1, MAX_WEIGHT), _LIMIT: (0, MAX_QUOTA)}


@dataclass(frozen=True, slots=True)
class JobQueue:
    """What the jobs of one queue may hold together, in slots."""

    name: str
    """What jobs call it."""
    nominal_quota: int
    """How many slots it is entitled to."""
    weight: int = 1
    """Its share, beside that of others, of the slots that are borrowed."""
    borrowing_limit: int | None = None
    """How many slots it may hold beyond its quota; null: all that others leave free."""

    @property
    def limit(self) -> int | None:
        """How many slots it may hold at the most; None: all that there are."""
        return None if self.borrowing_limit is None else self.nominal_quota + self.borrowing_limit


def counted_in(queue: str, known: Container[str]) -> str:
    """Return the queue in which a job counts that names this one: where it is not configured, the default one."""
    return queue if queue in known else DEFAULT_QUEUE


def parse_queues(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys below `queues.` as texts; `queues_of` makes queues of them.

    Raises:
        ValueError: a name is none, a number is none or out of its bounds, a queue has no quota, or there are too many.

    """
    texts = read_named("queues", "a queue", values)
    queues_of(texts)
    return texts


def queues_of(texts: Mapping[str, str]) -> tuple[JobQueue, ...]:
    """Return the queues that the keys below `queues.` describe, in the order of their names.

    Raises:
        ValueError: as `parse_queues`.

    """
    numbers = {name: {part: _number_of(name, part, text) for part, text in said.items()} for name, said in by_name(texts).items()}
    if len(numbers) > MAX_QUEUES:
        raise ValueError(f"queues: {len(numbers)} queues; at most {MAX_QUEUES} may be configured")
    for name, said in numbers.items():
        if NOMINAL_QUOTA not in said:
            raise ValueError(f"queues.{name}.{NOMINAL_QUOTA}: missing; say how many slots the queue is entitled to, 0 if none")
    return tuple([JobQueue(name, said[NOMINAL_QUOTA], said.get(_WEIGHT, 1), said.get(_LIMIT)) for name, said in numbers.items()])


def _number_of(name: str, part: str, text: str) -> int:
    key = f"queues.{name}.{part}"
    if part not in _BOUNDS:
        raise ValueError(f"{key}: unknown key of a queue; known: {', '.join(_BOUNDS)}")
    low, high = _BOUNDS[part]
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1
    if not low <= number <= high:
        raise ValueError(f"{key}: invalid number: '{text[:64]}'; give a whole number from {low} to {high}")
    return number
