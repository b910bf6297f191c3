"""What the master remembers of its inputs: a cursor per inbound partition (P6) and the answer to each request (P8).

An answer is kept until the horizon, so that a request that comes again is answered once more and not done twice. The expiry
is an event like any other. Answers are bounded: a request is answered by a decision, however long the ids and words in it are (P7, P10a).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from eventflink.events.inputs import MAX_ID_LENGTH, NO_REPLY, Request
from eventflink.events.log_events import (
    AnswersExpired,
    InputsAttempted,
    InputsBound,
    InputsLost,
    LogEvent,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
)
from eventflink.master.canonical import InvariantBroken
from eventflink.master.inputs import AttemptInputs, BindInputs, LoseInputs, PoisonedInput, UnreadableInput
from eventflink.model.statuses import IllegalTransition
from eventflink.model.texts import cut_bytes

EXPIRY_BATCH: Final = 1_000
ALL_REPLY_PARTITIONS: Final = -2
MAX_MESSAGE_LENGTH: Final = 8_192

Answerable = Request | UnreadableInput | PoisonedInput


def accepted(request: Request) -> RequestAccepted:
    """Return that the request is done, or begun."""
    return RequestAccepted(request_id=request.request_id, reply_partition=request.reply_partition, subject=request.subject[:MAX_ID_LENGTH])


def rejected(request: Answerable, code: str, message: str, *, dead_letter: bool = False) -> RequestRejected:
    """Return that the request is refused, and changed nothing."""
    return RequestRejected(
        request_id=request.request_id,
        reply_partition=request.reply_partition,
        subject=request.subject[:MAX_ID_LENGTH],
        code=code,
        message=cut_bytes(message, MAX_MESSAGE_LENGTH),
        dead_letter=dead_letter,
    )


def refused(poisoned: PoisonedInput) -> RequestRejected:
    """Return the refusal of an input that cannot be decided; it fits any state."""
    message = f"the input {poisoned.topic}@{poisoned.offset} could not be decided: {poisoned.error}"
    return rejected(poisoned, "InternalError", message, dead_letter=True)


@dataclass(slots=True)
class Cursor:
    """The next offset to decide of an inbound partition, bound to the identity of its topic."""

    topic_id: str
    next_offset: int
    rebound_count: int = 0
    """How often it was bound anew: an offset means another record each time, so ids that are derived from one tell it too."""


@dataclass(slots=True)
class Answer:
    """What a request was answered."""

    accepted: bool
    subject: str
    code: str
    message: str
    answered_at_ms: int


@dataclass(slots=True)
class Attempt:
    """Inputs of a topic that were announced and are not answered yet; one of them may crash the leader that decides it (P10)."""

    first_offset: int
    last_offset: int
    """The first again: it was announced alone."""
    leaders: int
    """How many leaders in a row announced the first of them alone, or died at it by their guardians' word."""
    suspect_until: int
    """Up to here inputs were announced by a leader that crashed: the next one announces each alone."""

    @property
    def is_single(self) -> bool:
        """Tell whether one input was announced alone."""
        return self.first_offset == self.last_offset

    def holds(self, offset: int) -> bool:
        """Tell whether some leader was about to decide the input."""
        return self.first_offset <= offset <= self.suspect_until


@dataclass(slots=True)
class Requests:
    """Cursors and answers."""

    cursors: dict[str, Cursor] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """By topic: what was announced on one topic is not forgotten because inputs of another one come between."""

    def decide_repeated(self, request_id: str, reply_partition: int) -> list[LogEvent] | None:
        """Return the decision for a request that is already answered; None for a new one."""
        if request_id in self.answers:
            return [RequestRepeated(request_id=request_id, reply_partition=reply_partition)]
        return None

    def decide_unreadable_input(self, value: UnreadableInput) -> list[LogEvent]:
        """Refuse what cannot be read; the refusal goes to every reply partition that may be the sender's."""
        if value.reply_partition == NO_REPLY and value.request_id:
            value = replace(value, reply_partition=ALL_REPLY_PARTITIONS)
        return [rejected(value, value.code, value.message, dead_letter=True)]

    def decide_poisoned_input(self, value: PoisonedInput) -> list[LogEvent]:
        """Refuse it; one that repeats a request is answered as that was, which the state knows without deciding it."""
        repeated = None if value.reply_partition == ALL_REPLY_PARTITIONS else self.decide_repeated(value.request_id, value.reply_partition)
        return repeated or [refused(value)]

    def decide_bind_inputs(self, binding: BindInputs) -> list[LogEvent]:
        """Bind the cursor of a topic that has none yet, is bound to another one of that name, or has passed records that are gone (P9)."""
        known = self.cursors.get(binding.topic)
        if known is not None and known.topic_id == binding.topic_id and known.next_offset <= binding.next_offset:
            return []
        return [InputsBound(topic=binding.topic, partition=0, topic_id=binding.topic_id, next_offset=binding.next_offset)]

    def decide_lose_inputs(self, lost: LoseInputs) -> list[LogEvent]:
        """Move a cursor over what retention removed; one that has passed it since then has lost nothing."""
        cursor = self.cursors[lost.topic]
        if lost.first_kept_offset <= cursor.next_offset:
            return []
        return [InputsLost(topic=lost.topic, partition=0, from_offset=cursor.next_offset, to_offset=lost.first_kept_offset)]

    def decide_expiry(self, horizon: int, oldest_kept_ms: int) -> list[LogEvent]:
        """Let the oldest answers beyond the horizon go, a batch at a time."""
        answered = islice((answer.answered_at_ms for answer in self.answers.values()), EXPIRY_BATCH)
        count = count_expired(answered, len(self.answers) - horizon, oldest_kept_ms)
        return [AnswersExpired(count)] if count else []

    def answer_to(self, repeated: RequestRepeated) -> RequestAccepted | RequestRejected | None:
        """Return what a request was answered, to where it came from this time; None: that is forgotten."""
        answer = self.answers.get(repeated.request_id)
        if answer is None:
            return None
        request_id, reply_partition = repeated.request_id, repeated.reply_partition
        if answer.accepted:
            return RequestAccepted(request_id=request_id, reply_partition=reply_partition, subject=answer.subject)
        return RequestRejected(
            request_id=request_id,
            reply_partition=reply_partition,
            subject=answer.subject,
            code=answer.code,
            message=answer.message,
            dead_letter=False,
        )

    def decide_attempt_inputs(self, value: AttemptInputs) -> list[LogEvent]:
        """Say which inputs are decided next."""
        return [InputsAttempted(value.topic, value.first_offset, value.last_offset, value.deaths)]

    def advance(self, topic: str, first_offset: int, last_offset: int) -> None:
        """Move a cursor behind inputs that an accepted decision answers.

        Offsets may be skipped (a read-committed reader never sees markers and aborted records), but never repeated.
        """
        cursor = self.cursors.get(topic)
        if cursor is None:
            raise InvariantBroken(f"a decision answers {topic}@{first_offset}, whose cursor is not bound")
        if not cursor.next_offset <= first_offset <= last_offset:
            answered = f"{topic}@{first_offset}..{last_offset}"
            raise InvariantBroken(f"a decision answers {answered}, but the cursor stands at {cursor.next_offset}")
        cursor.next_offset = last_offset + 1
        attempt = self.attempts.get(topic)
        if attempt is not None and attempt.first_offset <= last_offset:
            del self.attempts[topic]
            if last_offset < attempt.suspect_until:  # The others were announced by one leader.
                first = last_offset + 1
                self.attempts[topic] = Attempt(first, max(first, attempt.last_offset), 0, attempt.suspect_until)

    def apply_inputs_attempted(self, event: InputsAttempted) -> None:
        """Count the leaders that were about to decide the same input and did not answer it."""
        cursor, before = self.cursors.get(event.topic), self.attempts.get(event.topic)
        if cursor is None or not cursor.next_offset <= event.first_offset <= event.last_offset:
            raise IllegalTransition(f"{event} does not fit the cursor {cursor}")
        if event.deaths and (event.deaths < 0 or event.first_offset != event.last_offset):
            raise IllegalTransition(f"{event} says of what is not alone that {event.deaths} leaders died at it")
        leaders, until = int(event.first_offset == event.last_offset) + event.deaths, event.last_offset
        if before is not None and before.holds(event.first_offset):
            leaders += before.leaders if before.first_offset == event.first_offset else 0
            until = max(until, before.suspect_until)
        self.attempts[event.topic] = Attempt(event.first_offset, event.last_offset, leaders, until)

    def apply_inputs_bound(self, event: InputsBound) -> None:
        """Set a cursor: a new one, or one that an operator binds to another topic, or to where this one ends."""
        known = self.cursors.get(event.topic)
        if known is not None and known.topic_id == event.topic_id and known.next_offset <= event.next_offset:
            raise IllegalTransition(f"the cursor of {event.topic} is bound to {event.topic_id} already")
        rebound_count = known.rebound_count + 1 if known is not None else 0
        self.cursors[event.topic] = Cursor(event.topic_id, event.next_offset, rebound_count)
        self.attempts.pop(event.topic, None)  # Its offsets mean other records now.

    def apply_inputs_lost(self, event: InputsLost) -> None:
        """Move a cursor forward."""
        cursor = self.cursors.get(event.topic)
        if cursor is None or not cursor.next_offset == event.from_offset <= event.to_offset:
            raise IllegalTransition(f"{event} does not fit the cursor {cursor}")
        cursor.next_offset = event.to_offset
        self.attempts.pop(event.topic, None)

    def apply_request_accepted(self, event: RequestAccepted, at_ms: int) -> None:
        """Remember an answer."""
        self.answers[event.request_id] = Answer(accepted=True, subject=event.subject, code="", message="", answered_at_ms=at_ms)

    def apply_request_rejected(self, event: RequestRejected, at_ms: int) -> None:
        """Remember an answer, where a request is known to have had that id: one guessed from a record's key names nothing."""
        if event.request_id and event.reply_partition != ALL_REPLY_PARTITIONS:
            answer = Answer(accepted=False, subject=event.subject, code=event.code, message=event.message, answered_at_ms=at_ms)
            self.answers.setdefault(event.request_id, answer)

    def apply_answers_expired(self, event: AnswersExpired) -> None:
        """Forget the oldest."""
        if not 0 < event.count <= len(self.answers):
            raise IllegalTransition(f"{event.count} answers cannot expire: there are {len(self.answers)}")
        for request_id in list(islice(self.answers, event.count)):
            del self.answers[request_id]


def count_expired(at_ms: Iterable[int], excess: int, oldest_kept_ms: int) -> int:
    """Return how many go of what is kept, the oldest first: so many as are too many, and what is too old."""
    count = 0
    for each_ms in at_ms:
        if count >= excess and each_ms >= oldest_kept_ms:
            break
        count += 1
    return count
