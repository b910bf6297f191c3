"""Topics that others write: where they end at a time, the same in each run. Nobody reads a record of them."""

from typing import Final

from eventflink.leadership.topic_sightings import SeenTopic
from eventflink.model.schedules import OffsetRange, PartitionOffset

_RECORD_EACH_MS: Final = (300, 700, 1_900)
"""How often a partition gets a record; the last one is made later."""
_LATER_FROM_MS: Final = 4_000
_KEPT: Final = 12
"""So many of the newest records of a partition are there; the others are deleted."""


def outside_topic(name: str, time_ms: int, active_ms: int) -> SeenTopic:
    """Return what a topic has; it is made anew half-way through, and gets no more records after `active_ms`."""
    written_ms, anew_ms = min(time_ms, active_ms), active_ms // 2
    number, since_ms = (1, 0) if written_ms < anew_ms else (2, anew_ms)
    ends = [(written_ms - since_ms) // each_ms for each_ms in _RECORD_EACH_MS[: 2 if written_ms - since_ms < _LATER_FROM_MS else None]]
    bounds = tuple(OffsetRange(partition, max(0, end - _KEPT), end) for partition, end in enumerate(ends))
    return SeenTopic(f"{name}-{number}", bounds)


def outside_offsets(name: str, time_ms: int, active_ms: int, age_ms: int) -> tuple[PartitionOffset, ...]:
    """Return of each partition the first record that is not older."""
    then = {each.partition: each.end_offset for each in outside_topic(name, max(0, time_ms - age_ms), active_ms).bounds}
    now = outside_topic(name, time_ms, active_ms)
    is_same = outside_topic(name, max(0, time_ms - age_ms), active_ms).topic_id == now.topic_id
    return tuple(PartitionOffset(each.partition, then.get(each.partition, 0) if is_same else 0) for each in now.bounds)
