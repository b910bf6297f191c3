"""What the master remembers of its inputs: a cursor per inbound partition (P6) and the answer to each request (P8).

An answer is kept until the horizon, so that a request that comes again is answered once more and not done twice. The expiry
is an event like any other.
"""

from dataclasses import dataclass, field

from eventflink.events.log_events import (
    AnswersExpired,
    InputsBound,
    InputsLost,
    LogEvent,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
)
from eventflink.master.canonical import require
from eventflink.master.inputs import BindInputs, LoseInputs
from eventflink.model.statuses import IllegalTransition

EXPIRY_BATCH = 1_000
ALL_REPLY_PARTITIONS = -2
NO_REPLY = -1


@dataclass(slots=True)
class Cursor:
    """The next offset to decide of an inbound partition, bound to the identity of its topic."""

    topic_id: str
    next_offset: int


@dataclass(slots=True)
class Answer:
    """What a request was answered."""

    accepted: bool
    subject: str
    code: str
    message: str


@dataclass(slots=True)
class Requests:
    """Cursors and answers."""

    cursors: dict[str, Cursor] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def decide_repeated(self, request_id: str, reply_partition: int) -> list[LogEvent] | None:
        """Return the decision for a request that is already answered; None for a new one."""
        if request_id in self.answers:
            return [RequestRepeated(request_id=request_id, reply_partition=reply_partition)]
        return None

    def decide_binding(self, binding: BindInputs) -> list[LogEvent]:
        """Bind the cursor of a topic that has none yet."""
        require(binding.topic not in self.cursors, f"the cursor of {binding.topic} is bound already")
        return [InputsBound(topic=binding.topic, partition=0, topic_id=binding.topic_id, next_offset=binding.next_offset)]

    def decide_lost(self, lost: LoseInputs) -> list[LogEvent]:
        """Move a cursor over what retention removed; one that has passed it since then has lost nothing."""
        cursor = self.cursors[lost.topic]
        if lost.first_kept_offset <= cursor.next_offset:
            return []
        return [InputsLost(topic=lost.topic, partition=0, from_offset=cursor.next_offset, to_offset=lost.first_kept_offset)]

    def decide_expiry(self, horizon: int) -> list[LogEvent]:
        """Let the oldest answers beyond the horizon go, a batch at a time."""
        count = min(len(self.answers) - horizon, EXPIRY_BATCH)
        return [AnswersExpired(count=count)] if count > 0 else []

    def advance(self, topic: str, first_offset: int, last_offset: int) -> None:
        """Move a cursor behind inputs that an accepted decision answers.

        Offsets may be skipped (a read-committed reader never sees markers and aborted records), but never repeated.
        """
        cursor = self.cursors.get(topic)
        require(cursor is not None, f"a decision answers {topic}@{first_offset}, whose cursor is not bound")
        assert cursor is not None  # noqa: S101 - for the type checker; required above
        require(
            cursor.next_offset <= first_offset <= last_offset,
            f"a decision answers {topic}@{first_offset}..{last_offset}, but the cursor stands at {cursor.next_offset}",
        )
        cursor.next_offset = last_offset + 1

    def apply_inputs_bound(self, event: InputsBound, _at: int) -> None:
        """Set a cursor: a new one, or one that an operator binds to another topic."""
        known = self.cursors.get(event.topic)
        if known is not None and known.topic_id == event.topic_id:
            raise IllegalTransition(f"the cursor of {event.topic} is bound to {event.topic_id} already")
        self.cursors[event.topic] = Cursor(event.topic_id, event.next_offset)

    def apply_inputs_lost(self, event: InputsLost, _at: int) -> None:
        """Move a cursor forward."""
        cursor = self.cursors.get(event.topic)
        if cursor is None or not cursor.next_offset == event.from_offset <= event.to_offset:
            raise IllegalTransition(f"{event} does not fit the cursor {cursor}")
        cursor.next_offset = event.to_offset

    def apply_request_accepted(self, event: RequestAccepted, _at: int) -> None:
        """Remember an answer."""
        self.answers[event.request_id] = Answer(accepted=True, subject=event.subject, code="", message="")

    def apply_request_rejected(self, event: RequestRejected, _at: int) -> None:
        """Remember an answer, where a request is known to have had that id: one guessed from a record's key names nothing."""
        if event.request_id and event.reply_partition != ALL_REPLY_PARTITIONS:
            self.answers.setdefault(event.request_id, Answer(accepted=False, subject=event.subject, code=event.code, message=event.message))

    def apply_answers_expired(self, event: AnswersExpired, _at: int) -> None:
        """Forget the oldest."""
        if not 0 < event.count <= len(self.answers):
            raise IllegalTransition(f"{event.count} answers cannot expire: there are {len(self.answers)}")
        for request_id in [r for r, _ in zip(self.answers, range(event.count), strict=False)]:
            del self.answers[request_id]
