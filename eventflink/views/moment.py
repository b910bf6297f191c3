"""A page of one moment: what a function makes of the state after one record of the log, with what names that record.

Live and past pages both come from here, so they cannot differ in anything but the state that they are given.
"""

from collections.abc import Callable
from typing import Any

from eventflink.leadership.fold import Fold
from eventflink.views.plain import iso_time


def moment_view(fold: Fold, compute: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Return what `compute(fold, *arguments)` makes of the state, and of which record the state is; raises what `compute` raises."""
    return {
        "offset": fold.last_offset,
        "decided_at": iso_time(fold.last_decided_at_ms),
        "epoch": fold.acceptance.epoch,
        "leader_id": fold.acceptance.leader_id,
        "master_id": fold.master.leader.master_id,
        "body": compute(fold, *arguments),
    }
