"""Events of the Master: leadership, inputs and what answers them.

Values that mirror the schemas of the same names; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.statuses import FollowUpType


@dataclass(slots=True)
class LeadershipGranted(LogEvent):
    """A candidate's bid for the next epoch; the first one in log order wins (P1)."""

    master_id: str
    blob_address: str


@dataclass(slots=True)
class InputsBound(LogEvent):
    """Binds an inbound partition's cursor to the identity of its topic, so that a re-created topic is noticed (P9)."""

    topic: str
    partition: int
    topic_id: str
    next_offset: int


@dataclass(slots=True)
class InputsSkipped(LogEvent):
    """Inputs that change nothing (P7): late, repeated or about what is gone."""

    count: int
    reason: str


@dataclass(slots=True)
class InputsLost(LogEvent):
    """Retention overtook a cursor: inputs that nobody decided are gone (P9)."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


@dataclass(slots=True, kw_only=True)
class RequestAccepted(LogEvent):
    """The answer to a request that was done."""

    request_id: str = ""
    reply_partition: int = -1
    subject: str


@dataclass(slots=True, kw_only=True)
class RequestRejected(LogEvent):
    """The answer to a request, or any other input, that was refused; the state is untouched."""

    request_id: str = ""
    reply_partition: int = -1
    subject: str
    code: str
    message: str
    dead_letter: bool


@dataclass(slots=True)
class RequestRepeated(LogEvent):
    """A request id that is already answered came again: the same answer is sent once more (P8)."""

    request_id: str = ""
    reply_partition: int = -1


@dataclass(slots=True)
class AnswersExpired(LogEvent):
    """The oldest answers leave the state: their request ids are beyond the horizon (P8)."""

    count: int


@dataclass(slots=True)
class FollowUpDecided(LogEvent):
    """The oldest consequence in the state's queue was decided by the events that follow."""

    follow_up_type: FollowUpType
    subject: str


@dataclass(slots=True)
class InputsAttempted(LogEvent):
    """The leader is about to decide these inputs: an earlier leader crashed, perhaps at one of them (P10)."""

    topic: str
    first_offset: int
    last_offset: int
    deaths: int = 0


@dataclass(slots=True)
class InternalInputsAttempted(LogEvent):
    """The leader is about to decide a follow-up, or timers: leaders before it ended soon after they began, perhaps at one of them (P10)."""

    names: tuple[str, ...]
    deaths: int = 0
