"""A leader ends what it has seen open for the whole time on a topic that was held up all the while, and nothing else (P11)."""

import asyncio
from dataclasses import replace

import pytest

from eventflink.entrypoint import transaction_ender
from eventflink.entrypoint.transaction_ender import MAX_ENDED, ROUND_MS, TransactionEnder
from eventflink.log.admin_connection import AdministrationError
from eventflink.log.transactions import OpenTransaction

TOPIC = "c.submissions"
HANGING = OpenTransaction("a", 7, 5, 60_000, (TOPIC,))
AFTER_MS = 10_000


class Kafka:
    """What is open, and what was ended; a clock goes on from round to round."""

    def __init__(self, patch: pytest.MonkeyPatch, end_after_ms: int = AFTER_MS) -> None:
        self.open: list[OpenTransaction] = [HANGING]
        self.ended: list[str] = []
        self.asked = 0
        self.now_ms = 0
        self.failure = ""
        patch.setattr(transaction_ender, "find_open_transactions", self._find)
        patch.setattr(transaction_ender, "abort_transaction", self._abort)
        self._ender = TransactionEnder("broker", end_after_ms, lambda: self.now_ms)

    def _find(self, *_: object) -> list[OpenTransaction]:
        self.asked += 1
        if self.failure:
            raise AdministrationError(self.failure)
        return list(self.open)

    def _abort(self, _bootstrap: str, _topics: object, transactional_id: str, _timeout_s: float) -> OpenTransaction | None:
        [found] = [each for each in self.open if each.transactional_id == transactional_id]
        self.open.remove(found)
        self.ended.append(transactional_id)
        return found

    def look(self, until_ms: int, *topics: str) -> None:
        """Look every second up to a time."""

        async def look() -> None:
            while self.now_ms < until_ms:
                self._ender.look(topics)
                if self._ender._round is not None:
                    await self._ender._round
                self.now_ms += ROUND_MS

        asyncio.run(look())


def test_a_transaction_is_ended_when_it_was_seen_open_for_so_long_and_not_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka(monkeypatch)
    kafka.look(AFTER_MS, TOPIC)
    assert kafka.ended == []
    kafka.look(AFTER_MS + 2 * ROUND_MS, TOPIC)
    assert kafka.ended == ["a"]
    assert f"TransactionEnded topics={TOPIC} transactional_id=a producer_id=7 began_at_ms=5 seen_open_ms=10000" in caplog.messages


def test_what_is_begun_anew_or_holds_nobody_up_in_between_is_as_young_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch)
    kafka.look(8_000, TOPIC)
    kafka.open = [replace(HANGING, began_at_ms=6)]
    kafka.look(16_000, TOPIC)
    kafka.look(17_000)
    kafka.look(26_000, TOPIC)
    assert kafka.ended == []


def test_nothing_is_asked_while_nothing_is_held_up_or_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for kafka, topics in ((Kafka(monkeypatch), ()), (Kafka(monkeypatch, 0), (TOPIC,))):
        kafka.look(3 * AFTER_MS, *topics)
        assert kafka.asked == 0


def test_what_fails_is_said_and_tried_again_ever_more_seldom(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka(monkeypatch)
    kafka.failure = "no Write on TransactionalId a"
    kafka.look(60_000, TOPIC)
    assert kafka.asked == 5, "after 0, 2, 6, 14 and 30 seconds"
    assert "TransactionsNotEnded topics=c.submissions retry_ms=2000 reason=no Write on TransactionalId a" in caplog.messages


def test_a_round_ends_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch)
    kafka.open = [replace(HANGING, transactional_id=str(number)) for number in range(3 * MAX_ENDED)]
    kafka.look(AFTER_MS + ROUND_MS, TOPIC)
    assert len(kafka.ended) == MAX_ENDED
