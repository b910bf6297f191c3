"""What is sent to the outside: one notification, whatever it says and however it is carried.

The rule: everything in it follows from the log and the notification document, so the same record always gives the same notification with
the same key, and a receiver that has a key already may drop what comes with it again.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Notification:
    """One message for one or more receivers."""

    key: str
    """Unique for what it says: of the cluster, the offset of the record and the place in it."""
    log_offset: int
    """The record of the log that it tells of."""
    receivers: tuple[str, ...]
    """The names of those who get it."""
    job_id: str
    """The job that it is about; empty: none."""
    text: str
    """What it says in words, in one line or more."""
    document: dict[str, Any]
    """What it says as plain values, ready for JSON."""
