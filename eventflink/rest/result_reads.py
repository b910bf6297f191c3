"""The first rows of a result, read where the log says they are, if this host can read there.

They are read now, whatever moment the page is of: of the past the log has only where they were. Reading goes on in threads, few at a time;
a thread that does not come back keeps its place, so that slow storage never takes more of them.
"""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from eventflink.documents.job_parts import ColumnOfResult, ResultRows
from eventflink.jobs.published import ResultUnreadable
from eventflink.model.attempts import OutputLocation
from eventflink.model.plain_values import cell_text
from eventflink.rest.errors import RestError

MAX_ROWS: Final = 100
MAX_COLUMNS: Final = 200
MAX_CELL: Final = 500
MAX_READS: Final = 2
TIMEOUT_S: Final = 10.0


class ResultReads:
    """The reads of results that go on in this process. For one event loop."""

    def __init__(self) -> None:
        """Begin without any; threads are started when they are needed."""
        self._threads = ThreadPoolExecutor(MAX_READS, "result-rows")
        self._reading = 0

    async def rows(self, named: ResultRows, outputs: list[OutputLocation], limit: int) -> ResultRows:
        """Return columns and rows as they are shown, or why they cannot be read.

        Raises:
            RestError: 503, too many are read already, or the storage does not answer.

        """
        if self._reading >= MAX_READS:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_READS} results are read already: ask again later")
        self._reading += 1
        reading = asyncio.get_running_loop().run_in_executor(self._threads, _read, named, outputs, limit)
        reading.add_done_callback(self._read_one)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await asyncio.shield(reading)
        except TimeoutError:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"the result could not be read within {TIMEOUT_S:g} s") from None

    def _read_one(self, reading: "asyncio.Future[ResultRows]") -> None:
        self._reading -= 1
        if not reading.cancelled():
            reading.exception()  # Of one that nobody waits for any more it would be said that nobody asked for it.


def _read(named: ResultRows, outputs: list[OutputLocation], limit: int) -> ResultRows:
    """Read in a thread."""
    from eventflink.jobs.plain_rows import python_columns  # noqa: PLC0415 - Arrow is large, and most never look at rows
    from eventflink.jobs.result import read_result  # noqa: PLC0415 - likewise

    try:
        table = read_result(outputs, limit + 1)
    except ResultUnreadable as error:
        return replace(named, unreadable=str(error))
    fields = list(table.schema)[:MAX_COLUMNS]
    shown = table.select(list(range(len(fields)))).slice(0, limit)
    columns = [[_cell(value) for value in column] for column in python_columns(shown)]
    return replace(
        named,
        columns=[ColumnOfResult(name=field.name[:MAX_CELL], type=str(field.type)[:MAX_CELL]) for field in fields],
        rows=[list(row) for row in zip(*columns, strict=True)],
        has_more=table.num_rows > limit or table.num_columns > MAX_COLUMNS,
    )


def _cell(value: Any) -> Any:
    """Return a value as JSON has it: a number that JavaScript has exactly, a truth, nothing, else its text."""
    if value is None or isinstance(value, bool):
        return value
    if (isinstance(value, int) and abs(value) < 2**53) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return cell_text(value)[:MAX_CELL]
