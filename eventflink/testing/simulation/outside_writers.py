"""Tables and files that others write: which versions and which files there are at a time, the same in each run. Nobody reads a row."""

from typing import Final
from zlib import crc32

from eventflink.model.schedules import TableVersion

_VERSION_EACH_MS: Final = 600
_KEPT: Final = 8
"""So many of the newest versions have their commits; those of the others are cleaned up."""
_BACK: Final = 3
"""So many versions a table goes back to, at a quarter of the time."""
_NEVER: Final = 4
"""Of so many files one is never there."""


class OutsideTable:
    """What a table has at a time; it goes back to an older version once, is made anew half-way through, and gets nothing at the end."""

    def __init__(self, name: str, time_ms: int, active_ms: int, wall_ms: int) -> None:
        """Take the name of the table, the time of the run, until when it gets versions, and what a clock says now."""
        written_ms, anew_ms, back_ms = min(time_ms, active_ms), active_ms // 2, active_ms // 4
        number, self._since_ms = (1, 0) if written_ms < anew_ms else (2, anew_ms)
        count = (written_ms - self._since_ms) // _VERSION_EACH_MS
        if back_ms <= written_ms < anew_ms:
            count = max(0, count - _BACK)
        self._newest = count
        self._table_id = f"{name}-{number}"
        self._passed_ms = time_ms - self._since_ms
        self._wall_ms = wall_ms

    @property
    def table_id(self) -> str:
        """The id of the table."""
        return self._table_id

    @property
    def last(self) -> TableVersion:
        """The newest version."""
        return TableVersion(self._newest)

    def had_id(self, table_id: str, version: TableVersion) -> bool:
        """Tell that it had not: a table of the simulation has one id."""
        del table_id, version
        return False

    def before(self, since_ms: int | None) -> TableVersion:
        """Return as `TableLine` does."""
        first = self._first()
        if since_ms is None:
            return TableVersion(first - 1)
        written = (self._passed_ms - (self._wall_ms - since_ms)) // _VERSION_EACH_MS
        return TableVersion(min(self._newest, max(first - 1, written)))

    def continue_from(self, cursor: TableVersion) -> TableVersion:
        """Return as `TableLine` does."""
        return min(max(cursor, TableVersion(self._first() - 1), key=_number), self.last, key=_number)

    def _first(self) -> int:
        return max(0, self._newest - _KEPT + 1)


def _number(version: TableVersion) -> int:
    return version.number


def is_there(file: str, time_ms: int, active_ms: int) -> bool:
    """Tell whether a file is there at a time of the run; each that comes is there before `active_ms`."""
    number = crc32(file.encode())
    return number % _NEVER != 0 and time_ms >= number // _NEVER % max(1, active_ms)
