"""Which refusals share a decision: those of records of one topic that stand behind each other and cannot be read (P7).

A flood of nonsense would otherwise cost a decision for each record, and what stands behind it would wait for all of them. Nothing is
decided here. A batch is bounded in records, in the bytes that are decoded for it and in those of its answers; whoever is said to have
asked is the same for all of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.events.topics import MAX_INBOUND_BYTES
from eventflink.leadership.inbound import Inbound
from eventflink.leadership.intake import InboundRecord
from eventflink.master.inputs import UnreadableInput
from eventflink.master.requests import MAX_MESSAGE_LENGTH

MAX_RECORDS: Final = 256
MAX_ANSWER_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class Refusals:
    """Looks for the records that are refused together with one before them."""

    _ahead: dict[str, tuple[int, Inbound]] = field(default_factory=dict)
    """By topic, what was decoded in vain because it did not belong to a batch: its offset and what it says."""

    def decoded(self, record: InboundRecord) -> Inbound | None:
        """Return what a record says, if it was decoded already; only once."""
        offset, inbound = self._ahead.pop(record.topic, (-1, None))
        return inbound if offset == record.offset else None

    def behind(
        self, first: InboundRecord, refusal: Inbound, waiting: Iterable[InboundRecord], decode: Callable[[InboundRecord], Inbound | None]
    ) -> list[tuple[InboundRecord, UnreadableInput]]:
        """Return the records among those that wait behind `first` that are refused with it, in their order.

        `decode` returns None for a record that has to be decided alone.
        """
        found: list[tuple[InboundRecord, UnreadableInput]] = []
        if (value := _refusal_of(refusal)) is None:
            return found
        read_bytes, answer_bytes = len(first), _answer_bytes(value)
        for record in islice(waiting, MAX_RECORDS - 1):
            read_bytes += len(record)
            if read_bytes > MAX_INBOUND_BYTES or (inbound := decode(record)) is None:
                break
            value = _refusal_of(inbound)
            if value is None or inbound.actor != refusal.actor or (answer_bytes := answer_bytes + _answer_bytes(value)) > MAX_ANSWER_BYTES:
                self._ahead[record.topic] = (record.offset, inbound)
                break
            found.append((record, value))
        return found


def _refusal_of(inbound: Inbound) -> UnreadableInput | None:
    value = inbound.inputs[0] if len(inbound.inputs) == 1 else None
    return value if isinstance(value, UnreadableInput) else None


def _answer_bytes(value: UnreadableInput) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in (value.message[:MAX_MESSAGE_LENGTH], value.subject, value.request_id))
