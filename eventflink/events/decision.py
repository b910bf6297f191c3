"""The envelope of the log: one decision of a leader, what it answers, and the base class of the events that it holds.

The acceptance of decisions is in `leadership/fold.py`; their bytes are in `codec.py`.
"""

from dataclasses import dataclass

from eventflink.model.statuses import FollowUpType


@dataclass(slots=True)
class LogEvent:
    """What happened, in the past tense; the classes are in the modules of `log_events.py`."""


@dataclass(slots=True)
class InputCause:
    """Inputs of one inbound partition, first to last."""

    topic: str
    """Without the cluster's prefix."""
    partition: int
    """The partition."""
    first_offset: int
    """The first input's offset."""
    last_offset: int
    """The last input's offset."""


@dataclass(slots=True)
class TimerCause:
    """Something was due, or something that the leader had started came to its end."""

    timer: str
    """The name of the internal input."""


@dataclass(slots=True)
class FollowUpCause:
    """A consequence of an earlier decision, from the state's queue."""

    follow_up_type: FollowUpType
    """Its kind."""


Cause = InputCause | TimerCause | FollowUpCause


@dataclass(slots=True, kw_only=True)
class Decision:
    """One decision of a leader, atomic because a record is.

    The fold accepts it by epoch, sequence and leader_id (P1). `events` is the last field, so that blocks of it can be encoded one by one.
    """

    epoch: int
    """The fencing token."""
    sequence: int
    """Counts the leader's decisions; 0 for the grant."""
    leader_id: str
    """Fresh for each candidacy."""
    decided_at_ms: int
    """Milliseconds since 1970 by the log's clock (P20)."""
    previous_hash: bytes
    """Running hash over the accepted records before this one (P3); empty for a grant."""
    causes: tuple[Cause, ...]
    """What it answers."""
    actor: str
    """Who asked; empty: it was not requested."""
    events: tuple[LogEvent, ...]
    """What happened, in order. The seal behind them is no part of it: it says who wrote the record, not what was decided (P3a)."""
