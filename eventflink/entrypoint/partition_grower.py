"""The leader adds partitions to `deployments` where the fleet has outgrown them, in a thread.

Who is registered reads on where it does, and who registers later chooses among all, so nobody waits for it. The rule: where Kafka refuses,
all share the partitions that there are, and the log says so once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from eventflink.leadership.log_lines import one_line
from eventflink.log.admin_connection import AdministrationError
from eventflink.model.backoff import Backoff

_logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 2_000
_LONGEST_PAUSE_MS: Final = 300_000


class PartitionGrower:
    """For one term, and its event loop."""

    def __init__(self, grow: Callable[[int], None], monotonic_ms: Callable[[], int]) -> None:
        """Have `grow` see to it in a thread that there are at least so many partitions."""
        self._grow = grow
        self._monotonic_ms = monotonic_ms
        self._partitions = 0
        """At least so many there are."""
        self._told = ""
        """Why there could not be more."""
        self._next_ms = 0
        self._backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        self._work: asyncio.Task[None] | None = None

    def submit(self, partitions: int) -> None:
        """Have there be so many, unless there are, or it is being seen to, or was a moment ago in vain."""
        is_under_way = self._work is not None and not self._work.done()
        if partitions > self._partitions and not is_under_way and self._monotonic_ms() >= self._next_ms:
            self._work = asyncio.create_task(self._add(partitions), name="grow-deployments")

    def close(self) -> None:
        """Begin no more; what is under way ends by itself."""
        if self._work is not None:
            self._work.cancel()

    async def _add(self, partitions: int) -> None:
        try:
            await asyncio.to_thread(self._grow, partitions)
        except AdministrationError as error:
            if (reason := one_line(str(error))) != self._told:
                self._told = reason
                _logger.warning("PartitionsNotAdded topic=deployments wanted=%d reason=%s", partitions, reason)
            self._next_ms = self._monotonic_ms() + self._backoff.next()
        else:
            self._partitions = partitions
            self._backoff.reset()
