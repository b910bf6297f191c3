"""How patiently Faust's consumer asks the broker for records, and how often for those that are not urgent.

aiokafka has one fetch under way per broker. A fetch of all partitions can wait at the broker for long, since the first record of any of
them ends it: waiting costs nothing, and each fetch that finds nothing costs both sides. Two things are added here to how it goes about
that. A fetch that leaves out a partition, whose records aiokafka still holds, waits only for moments: a record of that partition would
wait behind it. And the partitions of one topic, whose records come often and can wait, are asked for at intervals, many records at once.
"""

import time
from collections.abc import Callable
from typing import Any, Final

PATIENT_WAIT_MS: Final = 100
"""How long a broker holds a fetch of all partitions that finds nothing. Other requests on that connection wait behind it."""

HELD_WAIT_MS: Final = 3
"""The same for a fetch that leaves out a partition. With Faust's 1,500 ms, a record of the log waits that long behind silent topics."""

GATHERING_MS: Final = 50
"""How long the records of the gathered topic are let come together at the broker."""


class FetchPace:
    """Sets the pace of one fetcher of aiokafka, in the thread of which it runs."""

    def __init__(self, fetcher: Any, gathered_topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Stand before the fetcher's own method that makes its requests."""
        self._fetcher = fetcher
        self._gathered_topic = gathered_topic
        self._clock = clock
        self._next_gathered_s = 0.0
        self._make_actions = fetcher._get_actions_per_node  # noqa: SLF001 - aiokafka has no hook for when it fetches what
        fetcher._get_actions_per_node = self.actions_per_node  # noqa: SLF001

    def actions_per_node(self, assignment: Any) -> tuple[Any, ...]:
        """Return what the fetcher would do now, its fetches with their waits, and without the gathered topic while that is not due."""
        fetcher, now_s = self._fetcher, self._clock()
        gathering_ms = max(0, round((self._next_gathered_s - now_s) * 1000))
        fetcher._fetch_max_wait_ms = HELD_WAIT_MS if fetcher._records else gathering_ms or PATIENT_WAIT_MS  # noqa: SLF001
        requests, resets, timeout_s, *others = self._make_actions(assignment)
        if not any(topic == self._gathered_topic for _, request in requests for topic, _ in request.topics):
            return requests, resets, timeout_s, *others
        if not gathering_ms:
            self._next_gathered_s = now_s + GATHERING_MS / 1000
            return requests, resets, timeout_s, *others
        kept = []
        for node_id, request in requests:
            request._topics = [entry for entry in request.topics if entry[0] != self._gathered_topic]  # noqa: SLF001
            if request.topics:
                kept.append((node_id, request))
        return kept, resets, min(timeout_s, gathering_ms / 1000), *others
