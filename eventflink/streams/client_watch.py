"""Whether the task of a stream still lives, seen from where its sink runs: beside the Spark server, which the task's death does not end.

The task says so again and again by a setting of its session (`HEARTBEAT_SETTING`). A sink that asks the server keeps the session open
by that, so it has to look for itself. The rule it keeps: no clocks are compared, only how long the setting has not changed here.
"""

import time
from typing import TYPE_CHECKING, Any, Final

from eventflink.streams.failures import ClientSilent

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

HEARTBEAT_SETTING: Final = "spark.eventflink.clientHeartbeat"
"""Of the session: changes as long as the task lives."""

SESSION_TIMEOUT_S: Final = 60
"""After this long without a word from its client, the server closes a session, and a sink ends its stream."""


class ClientWatch:
    """What one sink has heard of its task."""

    def __init__(self, timeout_s: float = SESSION_TIMEOUT_S) -> None:
        """Give the task this long between two changes."""
        self._timeout_s = timeout_s
        self._heard: str | None = None
        self._heard_at_s = 0.0

    def check(self, session: "SparkSession") -> None:
        """Look whether the task has been heard of in time.

        Raises:
            ClientSilent: it has not; whoever started the stream is gone.

        """
        self.note(session.conf.get(HEARTBEAT_SETTING, ""), time.monotonic())

    def note(self, heard: str, now_s: float) -> None:
        """Take what the setting is now; `now_s` is of any clock that does not go back. Raises `ClientSilent`."""
        if heard != self._heard:
            self._heard, self._heard_at_s = heard, now_s
        elif now_s - self._heard_at_s > self._timeout_s:
            raise ClientSilent(f"the task that started this stream has not been heard of for {self._timeout_s:g} s")


class WatchedFunction:
    """A function of the user as a sink, called as long as the task lives."""

    def __init__(self, function: "Callable[[DataFrame, int], Any]") -> None:
        """Take the function."""
        self._function = function
        self._watch = ClientWatch()

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Call the function with a batch and its number."""
        self._watch.check(batch.sparkSession)
        self._function(batch, batch_id)
