"""The leader aborts transactions of clients that hold an inbound topic up for too long (P11), as an operator does with `doctor`.

It works in a thread, one round after the other, and looks for transactions only while something is held up. The rule: a transaction is
aborted only if this process has seen it open for the whole time, by its own clock, on a topic that was held up all the while.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from eventflink.leadership.log_lines import one_line
from eventflink.log.administration import AdministrationError
from eventflink.log.transactions import OpenTransaction, abort_transaction, find_open_transactions
from eventflink.model.backoff import Backoff
from eventflink.model.kafka_settings import KafkaAccess

_logger = logging.getLogger(__name__)

ROUND_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 300_000
"""Between rounds that fail; each pause is twice the one before."""

MAX_ABORTED: Final = 8
"""Transactions that a round aborts at most."""

_TIMEOUT_S: Final = 10.0
_Key = tuple[str, int, int]


class TransactionAborter:
    """For one event loop; `abort_after_ms` of 0: nothing is ever aborted."""

    def __init__(self, kafka: KafkaAccess, abort_after_ms: int, monotonic_ms: Callable[[], int]) -> None:
        self._kafka = kafka
        self._abort_after_ms = abort_after_ms
        self._monotonic_ms = monotonic_ms
        self._seen_ms: dict[_Key, int] = {}
        """Since when each is known to be open."""
        self._next_ms = 0
        self._backoff = Backoff(2 * ROUND_MS, LONGEST_PAUSE_MS)
        self._round: asyncio.Task[None] | None = None

    def look(self, topics: Collection[str]) -> None:
        """Begin a round, if one is due; `topics` are the names of those that are held up now."""
        if not self._abort_after_ms or (self._round is not None and not self._round.done()):
            return
        if not topics:
            self._seen_ms.clear()
        elif self._monotonic_ms() >= self._next_ms:
            self._round = asyncio.create_task(self._work(tuple(topics)), name="abort-transactions")

    def close(self) -> None:
        """Begin no more; a round that is under way ends by itself."""
        if self._round is not None:
            self._round.cancel()

    async def _work(self, topics: tuple[str, ...]) -> None:
        try:
            found = await asyncio.to_thread(find_open_transactions, self._kafka, topics, _TIMEOUT_S)
            now_ms = self._monotonic_ms()
            self._seen_ms = {key: self._seen_ms.get(key, now_ms) for key in map(_key_of, found)}
            due = [each for each in found if now_ms - self._seen_ms[_key_of(each)] >= self._abort_after_ms]
            for each in due[:MAX_ABORTED]:
                await self._abort(each, topics, now_ms - self._seen_ms[_key_of(each)])
        except AdministrationError as error:
            pause_ms = self._backoff.next()
            _logger.warning("TransactionsNotAborted topics=%s retry_ms=%d reason=%s", ",".join(topics), pause_ms, one_line(str(error)))
        else:
            self._backoff.reset()
            pause_ms = ROUND_MS
        self._next_ms = self._monotonic_ms() + pause_ms

    async def _abort(self, transaction: OpenTransaction, topics: tuple[str, ...], open_ms: int) -> None:
        aborted = await asyncio.to_thread(abort_transaction, self._kafka, topics, transaction.transactional_id, _TIMEOUT_S)
        if aborted is not None:
            _logger.warning(
                "TransactionAborted topics=%s transactional_id=%s producer_id=%d began_at_ms=%d seen_open_ms=%d",
                ",".join(aborted.topics),
                one_line(aborted.transactional_id),
                aborted.producer_id,
                aborted.began_at_ms,
                open_ms,
            )


def _key_of(transaction: OpenTransaction) -> _Key:
    return transaction.transactional_id, transaction.producer_id, transaction.began_at_ms
