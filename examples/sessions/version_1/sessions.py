"""What users did in one go: a stream as a user writes it. It travels with the job, and imports nothing of eventflink."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

GAP_MS = 30 * 60 * 1000
"""Who views nothing for so long has gone."""

ENDED = "user STRING, began_ms BIGINT, ended_ms BIGINT, pages BIGINT"


def sessions(context: Any) -> Any:
    """Return each session once it has ended: when its user came back after a gap, or when the watermark has passed the gap."""
    views = context.inputs["views"].selectExpr("user", "at", "unix_millis(at) AS at_ms")
    ended = views.groupBy("user").transformWithStateInPandas(
        statefulProcessor=Sessions(), outputStructType=ENDED, outputMode="append", timeMode="eventTime"
    )
    return ended.selectExpr("user", "timestamp_millis(began_ms) AS began", "timestamp_millis(ended_ms) AS ended", "pages")


class Sessions(StatefulProcessor):  # type: ignore[misc]  # Spark has types of its own, which are not followed here
    """The open session of each user, with a timer at the end of the gap after its last page."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._handle = handle
        self._session = handle.getValueState("session", "began_ms BIGINT, ended_ms BIGINT, pages BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """Add pages to the user's session, and return those that are over."""
        session = before = self._session.get()
        over = []
        for views in rows:
            for at_ms in sorted(map(int, views["at_ms"])):
                if session is None:
                    session = (at_ms, at_ms, 1)
                elif at_ms > session[1] + GAP_MS:
                    over.append((*key, *session))
                    session = (at_ms, at_ms, 1)
                else:
                    session = (min(session[0], at_ms), max(session[1], at_ms), session[2] + 1)
        if before is not None:
            self._handle.deleteTimer(before[1] + GAP_MS)
        if session is not None:
            self._session.update(session)
            self._handle.registerTimer(session[1] + GAP_MS)
        yield _rows(over)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803, ARG002 - Spark's names
        """End the user's session."""
        session = self._session.get()
        self._session.clear()
        yield _rows([(*key, *session)])


def _rows(over: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(over, columns=["user", "began_ms", "ended_ms", "pages"])
