"""Plain values for views: what everything that is shown is made of, and how a point in time is written."""

from datetime import UTC, datetime
from typing import Any

View = dict[str, Any]


def iso_time(at_ms: int) -> str | None:
    """Return a point in time as text; None for 0, which stands for never."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds") if at_ms else None
