"""Events of the Master: leadership, inputs and what answers them.

Values of which the schemas of the same names are made; `log_events.py` has all of them and the rule of all.
"""

from dataclasses import dataclass

from eventflink.events.decision import LogEvent
from eventflink.model.statuses import FollowUpType


@dataclass(slots=True)
class LeadershipGranted(LogEvent):
    """A candidate's bid for the next epoch; the first one in log order wins (P1)."""

    master_id: str
    """The master, stable over restarts."""
    blob_address: str
    """host:port of its blob server."""


@dataclass(slots=True)
class InputsBound(LogEvent):
    """Binds an inbound partition's cursor to the identity of its topic, so that a re-created topic is noticed (P9)."""

    topic: str
    """Without the cluster's prefix."""
    partition: int
    """Always 0 for inbound topics."""
    topic_id: str
    """The broker's id of the topic; empty where the broker has none."""
    next_offset: int
    """The next offset to decide."""


@dataclass(slots=True)
class InputsSkipped(LogEvent):
    """Inputs that change nothing (P7): late, repeated or about what is gone."""

    count: int
    """How many."""
    reason: str
    """What made them void."""


@dataclass(slots=True)
class InputsLost(LogEvent):
    """Retention overtook a cursor: undecided inputs are gone (P9)."""

    topic: str
    """Without the cluster's prefix."""
    partition: int
    """The partition."""
    from_offset: int
    """The first lost offset."""
    to_offset: int
    """The first offset that is still there."""


@dataclass(slots=True, kw_only=True)
class RequestAccepted(LogEvent):
    """The answer to a request that was done."""

    request_id: str = ""
    """Names the request; the same id is answered once more, never done twice. Empty: derived from topic, partition and offset."""
    reply_partition: int = -1
    """The partition of `replies` the client listens to; -1: it wants no reply; -2 in the log: unknown, so the answer goes to all."""
    subject: str
    """The id of the job (or other thing) it was about."""


@dataclass(slots=True, kw_only=True)
class RequestRejected(LogEvent):
    """The answer to a request, or any other input, that was refused; the state is untouched."""

    request_id: str = ""
    """Names the request; the same id is answered once more, never done twice. Empty: derived from topic, partition and offset."""
    reply_partition: int = -1
    """The partition of `replies` the client listens to; -1: it wants no reply; -2 in the log: unknown, so the answer goes to all."""
    subject: str
    """The id it was about, as far as it could be read."""
    code: str
    """A stable word for programs."""
    message: str
    """What is wrong, and where."""
    dead_letter: bool
    """The raw input went to `dead-letters`."""


@dataclass(slots=True)
class RequestRepeated(LogEvent):
    """A request id that is already answered came again: the same answer is sent once more (P8)."""

    request_id: str = ""
    """Names the request; the same id is answered once more, never done twice. Empty: derived from topic, partition and offset."""
    reply_partition: int = -1
    """The partition of `replies` the client listens to; -1: it wants no reply; -2 in the log: unknown, so the answer goes to all."""


@dataclass(slots=True)
class AnswersExpired(LogEvent):
    """The oldest answers leave the state: their request ids are beyond the horizon (P8)."""

    count: int
    """How many of the oldest."""


@dataclass(slots=True)
class FollowUpDecided(LogEvent):
    """The oldest consequence in the state's queue was decided by the events that follow."""

    follow_up_type: FollowUpType
    """Its kind."""
    subject: str
    """The job or allocation it is about; empty for the cluster."""


@dataclass(slots=True)
class InputsAttempted(LogEvent):
    """The leader is about to decide these inputs: an earlier leader crashed, perhaps at one of them (P10)."""

    topic: str
    """Without the cluster's prefix."""
    first_offset: int
    """The first of them."""
    last_offset: int
    """The last of them; the first again where one was announced alone."""
    deaths: int = 0
    """So many leaders before died at the first of them, by their guardians' word, and had not announced it alone."""


@dataclass(slots=True)
class InternalInputsAttempted(LogEvent):
    """The leader is about to decide a follow-up, or timers: leaders before it ended soon after they began, perhaps at one of them (P10)."""

    names: tuple[str, ...]
    """The type of each, and after a blank what it is about; one alone where a leader may have ended at it."""
    deaths: int = 0
    """So many leaders before died at the first of them, by their guardians' word, and had not announced it alone."""
