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
    partition: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class TimerCause:
    """Something was due."""

    timer: str


@dataclass(slots=True)
class FollowUpCause:
    """A consequence of an earlier decision, from the state's queue."""

    follow_up_type: FollowUpType


Cause = InputCause | TimerCause | FollowUpCause


@dataclass(slots=True, kw_only=True)
class Decision:
    """One decision, atomic because a Kafka record is."""

    epoch: int
    sequence: int
    leader_id: str
    decided_at_ms: int
    previous_hash: bytes
    causes: tuple[Cause, ...]
    actor: str
    events: tuple[LogEvent, ...]
    """The seal behind them is no part of it: it says who wrote the record, and nothing of what was decided (P3a)."""
