"""The recovery mode of a new leader whose predecessor did not resign (P10): it may have crashed at some input.

What waited at promotion is announced in the log, and that read back, before it is decided: many inputs at once, but each alone where a
leader crashed after announcing several, and the one at which the leader before died, if its guardian said which. An input that two leaders
in a row announced alone and did not answer, or died at, is refused. Here is what is known and which inputs are next; the leader decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from eventflink.leadership.fold import Fold
from eventflink.leadership.intake import InboundRecord, PartitionInbox
from eventflink.master.inputs import AttemptInputs, AttemptInternalInputs, InternalInput, MasterInput
from eventflink.master.parking import name_of
from eventflink.master.suspects import MAX_CRASHES, label

ANNOUNCED_INPUTS: Final = 32
"""So many inputs are announced at once, as long as no leader crashed after announcing them: one round trip for all."""


MOST_DIGITS: Final = 19
"""Of an offset of Kafka, which is a signed number of 64 bits."""


class LeadersCrashed(Exception):
    """Nothing else is known of what is wrong with an internal input."""


@dataclass(slots=True)
class RecoveryMode:
    """What a leader has to announce, and has announced."""

    fold: Fold
    inboxes: Mapping[str, PartitionInbox]
    lease_timeout_ms: int
    remaining: int = 0
    """How many inputs are still announced, and that read back, before they are decided; 0: none."""
    _until: dict[str, int] = field(default_factory=dict)
    """By topic, the last offset that may have waited when the leader before crashed."""
    _since_ms: int | None = None
    _announced: dict[str, int] = field(default_factory=dict)
    """What was announced and is not decided yet: by topic, up to which offset."""
    _announcement: int = 0
    """The sequence of the decision that says so."""
    suspect: str = ""
    """The input at which the leader before died, by its guardian's word, until it is decided; empty: none is known."""
    _is_suspect_decided: bool = False
    is_watching: bool = False
    """Internal inputs are announced as well, and each is decided for itself."""
    _watches_until_ms: int = 0
    _attempted: tuple[str, ...] = ()
    """The internal inputs that were announced; what else is decided comes before or after all of them."""

    def enter_recovery(self, remaining: int, high_offsets: Mapping[str, int]) -> None:
        """Enter the mode for so many inputs at most: only what waited when the leader before crashed can have been the cause.

        `high_offsets` tells where the inbound topics ended when this process began to read them: not all may have arrived yet.
        """
        self.remaining = remaining
        self._until = {topic: max(inbox.last_waiting_offset, high_offsets.get(topic, 0) - 1) for topic, inbox in self.inboxes.items()}

    def watch_internal_inputs(self, until_ms: int) -> None:
        """Announce internal inputs until this time as well: the leader before ended early, perhaps at one of them."""
        self.is_watching, self._watches_until_ms = True, until_ms

    def may_decide(self, oldest_unconfirmed: int | None, monotonic_ms: int) -> bool:
        """Tell whether something may be decided now: not while an announcement was not read back.

        `oldest_unconfirmed` is the sequence of the oldest decision that was not read back yet.
        """
        self.is_watching = self.is_watching and monotonic_ms < self._watches_until_ms
        return oldest_unconfirmed is None or oldest_unconfirmed > self._announcement

    def look(self, monotonic_ms: int) -> None:
        """End the mode with the last input that waited at promotion."""
        if self._since_ms is None:
            self._since_ms = monotonic_ms
        is_late = monotonic_ms - self._since_ms >= self.lease_timeout_ms
        if not any(self._holds_a_suspect(topic, last, is_late=is_late) for topic, last in self._until.items()):
            self.remaining = 0

    def _holds_a_suspect(self, topic: str, last_offset: int, *, is_late: bool) -> bool:
        """Tell whether an input that waited at promotion waits still, or, for a lease, may be on its way from Kafka."""
        cursor = self.fold.master.requests.cursors.get(topic)
        if cursor is None or cursor.next_offset > last_offset:
            return False
        record = self.inboxes[topic].head_from(cursor.next_offset)
        return record.offset <= last_offset if record is not None else not is_late and self.inboxes[topic].last_offset < last_offset

    def poison_of(self, record: InboundRecord) -> str | None:
        """Return why an input is refused undecided: two leaders in a row crashed when they were about to decide it."""
        attempt = self.fold.master.requests.attempts.get(record.topic)
        is_theirs = attempt is not None and attempt.is_single and attempt.first_offset == record.offset and not self.has_announced(record)
        if is_theirs and attempt is not None and attempt.leaders >= MAX_CRASHES:
            return f"{attempt.leaders} leaders in a row crashed when they were about to decide it"
        return None

    def is_to_be_announced(self, record: InboundRecord) -> bool:
        """Tell whether an input may not be decided before it was announced."""
        if self.has_announced(record):
            return False
        return record.name == self.suspect or (self.remaining > 0 and record.offset <= self._until.get(record.topic, -1))

    def has_announced(self, record: InboundRecord) -> bool:
        """Tell whether this leader has announced the input."""
        return record.offset <= self._announced.get(record.topic, -1)

    @property
    def announced_topics(self) -> tuple[str, ...]:
        """The topics of which inputs were announced that are not decided yet."""
        return tuple(self._announced)

    def announcement(self, record: InboundRecord, sequence: int) -> AttemptInputs:
        """Name the inputs that are next, the first of them `record`, for the decision of that sequence."""
        earlier = self.fold.master.requests.attempts.get(record.topic)
        is_counted = earlier is not None and earlier.first_offset == record.offset and earlier.leaders > 0
        deaths = self._deaths_at(record.name, is_counted=is_counted)
        last = record.offset
        if not deaths and (earlier is None or not earlier.holds(record.offset)):
            last = min(record.offset + ANNOUNCED_INPUTS - 1, self._until[record.topic], self.inboxes[record.topic].last_waiting_offset)
            if record.offset < (suspected := self._suspected_offset(record.topic)) <= last:
                last = suspected - 1
        self._announced[record.topic], self._announcement = last, sequence
        return AttemptInputs(record.topic, record.offset, last, deaths)

    def _suspected_offset(self, topic: str) -> int:
        """Return which record of a topic is the suspect; -1: none is. Without a cluster secret anybody may have named it."""
        named, _, offset = self.suspect.partition("@")
        is_offset = len(offset) <= MOST_DIGITS and offset.isascii() and offset.isdecimal()
        return int(offset) if named == topic and is_offset else -1

    def decides(self, record: InboundRecord) -> None:
        """Take note that an input is being decided."""
        if record.offset >= self._announced.get(record.topic, record.offset):
            self._announced.pop(record.topic, None)
        self._is_suspect_decided = bool(self.suspect) and record.name == self.suspect
        self.remaining = max(0, self.remaining - 1)

    # -- internal inputs -------------------------------------------------------------------------------------------

    def unannounced(self, values: Iterable[MasterInput]) -> tuple[str, ...]:
        """Name the internal inputs to announce before the first of these is decided; nothing: it may be decided.

        One at which a leader may have ended is announced alone, and one that is parked for that is not decided.
        """
        names: list[str] = []
        if not self.is_watching and not self.suspect:
            return ()
        suspects = self.fold.master.suspects
        for value in islice(values, ANNOUNCED_INPUTS if self.is_watching else 1):
            name = label(*name_of(value)) if isinstance(value, InternalInput) else ""
            if not self.is_watching and name != self.suspect:
                break
            is_suspect = name in suspects.crashes or name == self.suspect
            if not name or suspects.is_poison(name) or name in self._attempted or (is_suspect and names):
                break
            names.append(name)
            if is_suspect:
                break
        return tuple(names)

    def internal_announcement(self, names: tuple[str, ...]) -> AttemptInternalInputs:
        """Name the internal inputs that are next."""
        return AttemptInternalInputs(names, self._deaths_at(names[0], is_counted=self.fold.master.suspects.crashes.get(names[0], 0) > 0))

    def _deaths_at(self, name: str, *, is_counted: bool) -> int:
        """Return how many leaders died at an input, by their guardians' word, that the log does not count already."""
        return int(name == self.suspect and not is_counted)

    def awaits_announcement(self, value: InternalInput) -> bool:
        """Tell whether an internal input may not be decided along with its cause, because the leader before died at it."""
        return bool(self.suspect) and label(*name_of(value)) == self.suspect

    def announces(self, names: tuple[str, ...], sequence: int) -> None:
        """Take note that internal inputs were announced, in the decision of that sequence."""
        self._attempted, self._announcement = names, sequence

    def says(self) -> None:
        """Take note of a decision: what was announced before it and is not decided is announced again."""
        self._attempted = ()
        if self._is_suspect_decided:
            self.suspect, self._is_suspect_decided = "", False

    def check(self, name: str) -> None:
        """Raise `LeadersCrashed` if so many leaders ended at the internal input of this name that it is parked instead."""
        self._is_suspect_decided = self._is_suspect_decided or name == self.suspect
        if self.fold.master.suspects.is_poison(name):
            raise LeadersCrashed(f"{MAX_CRASHES} leaders in a row crashed when they were about to decide it")
