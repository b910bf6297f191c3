"""What a leader has seen of the tables whose versions start jobs, as the inputs that follow from it.

Looking is up to the driver, who reads logs and catalogues. Nothing is decided here, and nothing remembered: which versions a job gets
follows from a cursor in the log (`master/schedule_firing.py`). The rule: a look that changes no cursor makes no input.
"""

from typing import Protocol

from eventflink.master.effects import TableWatch
from eventflink.master.inputs import VersionsSeen
from eventflink.model.schedules import TableVersion


class TableLine(Protocol):
    """The versions that a table has now, one after the other up to the newest. Both methods may read."""

    @property
    def table_id(self) -> str:
        """The id that the table has of itself."""

    @property
    def last(self) -> TableVersion:
        """The newest version."""

    def had_id(self, table_id: str, version: TableVersion) -> bool:
        """Tell whether the table had this id at a version: its versions go on where it gets another one."""

    def before(self, since_ms: int | None) -> TableVersion:
        """Return the version before the first one that is not older than a time; None: before the first one that is there."""

    def continue_from(self, cursor: TableVersion) -> TableVersion:
        """Return the version from which on all is known that came after a cursor.

        That is the cursor. Where versions after it are not there any more, it is the one before those that are; where the table has gone
        back to an older version, it is the newest one that it still has in common with the cursor.
        """


def sighting_of(watch: TableWatch, line: TableLine) -> VersionsSeen | None:
    """Return what a schedule has to learn of its table; None: it knows that."""
    has_id = watch.table_id == line.table_id
    is_same = watch.cursor is not None and (has_id or line.had_id(watch.table_id, watch.cursor))
    if is_same and watch.cursor == line.last and not watch.fault:
        return None
    base = line.continue_from(watch.cursor) if watch.cursor is not None and is_same else line.before(watch.since_ms)
    had_id = watch.table_id if is_same and not has_id else ""
    return VersionsSeen(watch.schedule_id, watch.table, watch.cursor, line.table_id, base, line.last, had_id)
