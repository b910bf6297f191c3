"""What users did in one go, and where they came in: the next version, which goes on with the state of version 1."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

GAP_MS = 30 * 60 * 1000
"""Who views nothing for so long has gone."""

ENDED = "user STRING, began_ms BIGINT, ended_ms BIGINT, pages BIGINT, entry STRING"


def sessions(context: Any) -> Any:
    """Return each session once it has ended: when its user came back after a gap, or when the watermark has passed the gap.

    `entry` is its first page, and null of a session that began in version 1.
    """
    views = context.inputs["views"].selectExpr("user", "at", "unix_millis(at) AS at_ms", "page")
    ended = views.groupBy("user").transformWithStateInPandas(
        statefulProcessor=Sessions(), outputStructType=ENDED, outputMode="append", timeMode="eventTime"
    )
    return ended.selectExpr(
        "user",
        "timestamp_millis(began_ms) AS began",
        "timestamp_millis(ended_ms) AS ended",
        "pages",
        "(ended_ms - began_ms) DIV 1000 AS seconds",
        "entry",
    )


class Sessions(StatefulProcessor):  # type: ignore[misc]  # Spark has types of its own, which are not followed here
    """The open session of each user, with a timer at the end of the gap after its last page."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state: that of version 1 as it was, and one more."""
        self._handle = handle
        self._session = handle.getValueState("session", "began_ms BIGINT, ended_ms BIGINT, pages BIGINT")
        self._entry = handle.getValueState("entry", "page STRING")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """Add pages to the user's session, and return those that are over."""
        session = before = self._session.get()
        entry = self._entry.get()
        over = []
        for views in rows:
            for at_ms, page in sorted(zip(map(int, views["at_ms"]), views["page"], strict=True)):
                if session is not None and at_ms <= session[1] + GAP_MS:
                    session = (min(session[0], at_ms), max(session[1], at_ms), session[2] + 1)
                    continue
                if session is not None:
                    over.append(_row(key, session, entry))
                session, entry = (at_ms, at_ms, 1), (page,)
        if before is not None:
            self._handle.deleteTimer(before[1] + GAP_MS)
        if session is not None:
            self._session.update(session)
            self._handle.registerTimer(session[1] + GAP_MS)
        if entry is not None:
            self._entry.update(entry)
        yield _rows(over)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """End the user's session."""
        row = _row(key, self._session.get(), self._entry.get())
        self._session.clear()
        self._entry.clear()
        yield _rows([row])


def _row(key: Any, session: Any, entry: Any) -> tuple[Any, ...]:
    return (*key, *session, entry[0] if entry is not None else None)


def _rows(over: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(over, columns=["user", "began_ms", "ended_ms", "pages", "entry"])
