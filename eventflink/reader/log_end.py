"""Where the log ends, as Kafka says: one question for all who ask while the one before is under way, so a silent Kafka takes one thread.

The rule: an answer is of a question that was put to Kafka after one asked, and never of an earlier one.
"""

import asyncio
from collections.abc import Callable

from confluent_kafka import KafkaException

from eventflink.reader.observed_state import NotThere


class LogEnd:
    """Asks for whoever wants to know. For one event loop."""

    def __init__(self, fetch: Callable[[], int]) -> None:
        """Take what returns the offset that the next record of the log gets, or raises KafkaException; it is called in a thread."""
        self._fetch = fetch
        self._asked: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None
        """Whose question is not put yet."""

    async def ask(self) -> int:
        """Return the offset of the last record that the log has now.

        Raises:
            NotThere: Kafka does not say.

        """
        if self._next is None:
            self._next = asyncio.create_task(self._ask_behind(self._asked))
            self._next.add_done_callback(lambda done: done.cancelled() or done.exception())  # Whoever asked may be gone.
        return await asyncio.shield(self._next)

    async def _ask_behind(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait((before,))
        self._asked, self._next = self._next, None
        try:
            return await asyncio.to_thread(self._fetch) - 1
        except KafkaException as error:
            raise NotThere(f"Kafka does not say where the log ends: {error.args[0].str()}") from error
