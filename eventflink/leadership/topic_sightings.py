"""What a leader has seen of the topics whose records start jobs, as the inputs that follow from it.

Looking is up to the driver, who asks Kafka where topics end; no record is read. Nothing is decided here: which records a job gets follows
from a cursor in the log (`master/schedule_firing.py`). The rule: what no cursor has to learn is no input.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from eventflink.master.effects import CursorWatch
from eventflink.master.inputs import RecordsSeen
from eventflink.model.schedules import OffsetRange, take_records


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """What a look at a topic has shown."""

    topic_id: str
    bounds: tuple[OffsetRange, ...]
    """All partitions, each from its first record on, up to where no transaction is open."""


@dataclass(slots=True)
class TopicSightings:
    """Since when records wait behind cursors, as far as this leader has seen."""

    _since_ms: dict[str, tuple[dict[int, int], int]] = field(default_factory=dict)
    """By schedule: the cursor, and when records were first seen behind it."""

    def saw(self, watches: Iterable[CursorWatch], seen: Mapping[str, SeenTopic], now_ms: int) -> Iterator[RecordsSeen]:
        """Yield what schedules have to learn of the topics that were seen; `now_ms` is of a monotonic clock."""
        waiting: dict[str, tuple[dict[int, int], int]] = {}
        for watch in watches:
            if (topic := seen.get(watch.topic)) is None:
                continue
            waited_ms = 0
            if watch.topic_id == topic.topic_id:
                bounds = {each.partition: (each.first_offset, each.end_offset) for each in topic.bounds}
                if not take_records(watch.offsets, bounds, 0):
                    continue
                cursor = dict(watch.offsets)
                known = self._since_ms.get(watch.schedule_id)
                since_ms = known[1] if known is not None and known[0] == cursor else now_ms
                waiting[watch.schedule_id], waited_ms = (cursor, since_ms), now_ms - since_ms
            yield RecordsSeen(watch.schedule_id, watch.topic, topic.topic_id, topic.bounds, waited_ms)
        self._since_ms = waiting
