"""What a leader has seen of the topics whose records start jobs, as the inputs that follow from it.

Looking is up to the driver, who asks Kafka where topics end; no record is read. Nothing is decided here, and nothing remembered: which
records a job gets follows from a cursor in the log (`master/schedule_firing.py`). The rule: a look that changes no cursor makes no input.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from eventflink.master.effects import CursorWatch
from eventflink.master.inputs import RecordsSeen
from eventflink.model.schedules import OffsetRange, PartitionOffset, records_behind

OffsetsAt = Callable[[str, int], tuple[PartitionOffset, ...]]
"""Returns, of each partition of a topic, the first record that is not older than a time, in milliseconds since 1970; else the end."""


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """What a look at a topic has shown."""

    topic_id: str
    bounds: tuple[OffsetRange, ...]
    """All partitions, each from its first record on, up to where no transaction is open."""


def news_of(watches: Iterable[CursorWatch], seen: Mapping[str, SeenTopic], offsets_at: OffsetsAt) -> Iterator[RecordsSeen]:
    """Yield what schedules have to learn of the topics that were seen."""
    for watch in watches:
        topic = seen.get(watch.topic)
        if topic is None or (watch.topic_id == topic.topic_id and not _has_news(watch, topic)):
            continue
        since = offsets_at(watch.topic, watch.since_ms) if watch.since_ms is not None else ()
        yield RecordsSeen(watch.schedule_id, watch.topic, topic.topic_id, topic.bounds, since)


def _has_news(watch: CursorWatch, topic: SeenTopic) -> bool:
    """Tell whether there are records behind a cursor, or were, and are deleted."""
    has_lost = any(each.first_offset > watch.offsets.get(each.partition, 0) for each in topic.bounds)
    return has_lost or bool(records_behind(watch.offsets, topic.bounds))
