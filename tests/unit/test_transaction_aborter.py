"""A leader ends what it has seen open for the whole time on a topic that was held up all the while, and nothing else (P11).

`doctor` finds what holds a topic up, whether Kafka lists it or not.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from eventflink.cli import transactions as findings
from eventflink.cli.finding import Verdict
from eventflink.entrypoint import transaction_aborter
from eventflink.entrypoint.transaction_aborter import MAX_ABORTED, ROUND_MS, TransactionAborter
from eventflink.log import transactions
from eventflink.log.admin_connection import AccessRefused, AdministrationError, Watermarks
from eventflink.log.transactions import OpenTransaction, abort_transaction
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess

TOPIC = "c.submissions"
HANGING = OpenTransaction("a", 7, 5, 60_000, (TOPIC,))
AFTER_MS = 10_000


class Kafka:
    """What is open, and what was ended; a clock goes on from round to round."""

    def __init__(self, patch: pytest.MonkeyPatch, abort_after_ms: int = AFTER_MS) -> None:
        self.open: list[OpenTransaction] = [HANGING]
        self.ended: list[str] = []
        self.asked = 0
        self.now_ms = 0
        self.failure = ""
        patch.setattr(transaction_aborter, "find_open_transactions", self._find)
        patch.setattr(transaction_aborter, "abort_transaction", self._abort)
        self._aborter = TransactionAborter(KafkaAccess("broker"), abort_after_ms, lambda: self.now_ms)

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
                self._aborter.look(topics)
                if self._aborter._round is not None:
                    await self._aborter._round
                self.now_ms += ROUND_MS

        asyncio.run(look())


@pytest.mark.rule("P11")
def test_a_transaction_is_ended_when_it_was_seen_open_for_so_long_and_not_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka(monkeypatch)
    kafka.look(AFTER_MS, TOPIC)
    assert kafka.ended == []
    kafka.look(AFTER_MS + 2 * ROUND_MS, TOPIC)
    assert kafka.ended == ["a"]
    assert f"TransactionAborted topics={TOPIC} transactional_id=a producer_id=7 began_at_ms=5 seen_open_ms=10000" in caplog.messages


@pytest.mark.rule("P11")
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
    assert "TransactionsNotAborted topics=c.submissions retry_ms=2000 reason=no Write on TransactionalId a" in caplog.messages


def test_a_round_ends_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch)
    kafka.open = [replace(HANGING, transactional_id=str(number)) for number in range(3 * MAX_ABORTED)]
    kafka.look(AFTER_MS + ROUND_MS, TOPIC)
    assert len(kafka.ended) == MAX_ABORTED


# -- what doctor says ---------------------------------------------------------------------------------------------------


class Asked:
    """A Kafka as `doctor` asks it: what it lists, and where its inbound topics end, look by look (the last one stays)."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.listed: list[OpenTransaction] | AdministrationError = []
        self.bound: list[str] | AdministrationError = []
        self.committed: list[int] = [7]
        self.end = 7
        self.topics = {TOPIC, "c.commands", "c.taskmanagers"}
        self.looks: list[tuple[list[str], bool]] = []
        patch.setattr(findings, "find_open_transactions", lambda *_: self._say(self.listed))
        patch.setattr(findings, "check_transaction_bound", lambda *_: self._say(self.bound))
        patch.setattr(findings, "AdminConnection", lambda *_: self)
        patch.setattr("eventflink.cli.transactions.time.sleep", lambda _: self.committed[1:] and self.committed.pop(0))

    @staticmethod
    def _say(answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def find_topics(self) -> dict[str, None]:
        return dict.fromkeys(self.topics)

    def read_watermarks(self, partitions: Iterable[tuple[str, int]], *, is_committed: bool = False) -> dict[tuple[str, int], Watermarks]:
        wanted = list(partitions)
        self.looks.append(([topic for topic, _ in wanted], is_committed))
        behind = self.committed[0] if is_committed else self.end
        return {(topic, n): Watermarks(0, behind if topic == TOPIC else 3) for topic, n in wanted}

    def said(self) -> list[tuple[Verdict, str]]:
        return [(verdict, detail) for _, verdict, detail in findings.transaction_findings(access_to("broker", "c"))]


def test_open_transactions_are_listed_to_whom_brokers_do_not_tell_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Asked(monkeypatch)
    kafka.bound, kafka.listed = AccessRefused("User:a may not DescribeConfigs"), [HANGING]
    (unknown, said), (failed, hangs) = kafka.said()
    assert (unknown, said) == (Verdict.WARNING, "whether transactions are bounded is not known: User:a may not DescribeConfigs")
    assert failed is Verdict.FAILED
    assert hangs.startswith(f"{TOPIC}: the transaction 'a' of producer 7 is open since ")


def test_what_a_transaction_holds_back_is_found_where_it_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Asked(monkeypatch)
    kafka.committed, kafka.end = [2], 7
    held = f"{TOPIC}: 5 records are held back by a transaction that User:ANONYMOUS may not see; Describe on its TransactionalId shows it"
    assert kafka.said() == [(Verdict.FAILED, held)]
    inbound = ["c.commands", TOPIC, "c.taskmanagers"]
    assert kafka.looks == [(inbound, False), (inbound, True), ([TOPIC], False), ([TOPIC], True)], "the end before the committed end"
    kafka.listed = AdministrationError("not over OAUTHBEARER")
    held = f"{TOPIC}: 5 records are held back by an open transaction; kafka-transactions.sh shows it"
    assert kafka.said() == [(Verdict.WARNING, "not over OAUTHBEARER"), (Verdict.FAILED, held)]


def test_a_transaction_that_goes_on_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks one ends and the next begins, or none is open any more."""
    for looks, end in (([2, 5], 7), ([2, 7], 7)):
        kafka = Asked(monkeypatch)
        kafka.committed, kafka.end = looks, end
        assert kafka.said() == [(Verdict.OK, "none is open on the cluster's topics")]


def test_a_topic_is_looked_at_beside_those_that_are_listed_and_none_is_passed_over_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Asked(monkeypatch)
    kafka.listed, kafka.committed = [replace(HANGING, topics=("c.log",))], [2]
    assert [verdict for verdict, _ in kafka.said()] == [Verdict.FAILED, Verdict.FAILED]
    kafka.listed = [HANGING]
    assert [verdict for verdict, _ in kafka.said()] == [Verdict.FAILED], "whose that is, is said already"
    kafka.listed, kafka.committed, kafka.topics = [], [7], {TOPIC, "c.commands"}
    assert kafka.said() == [
        (Verdict.WARNING, "topics not found: c.taskmanagers; they do not exist, or User:ANONYMOUS may not Describe them")
    ]


@pytest.mark.parametrize("key", ["ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location"])
def test_a_certificate_that_is_not_taken_is_named_with_what_is(key: str) -> None:
    with pytest.raises(AdministrationError, match=rf"not with kafka\.{key}; with ssl\.certificate\.location and ssl"):
        transactions._connection(KafkaAccess("k:1"), {"security.protocol": "ssl", key: "x"})


def test_who_may_not_end_a_transaction_is_told_what_grants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            return

        def init_transactions(self, _timeout_s: float) -> None:
            raise KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))

    monkeypatch.setattr(transactions, "find_open_transactions", lambda *_: [replace(HANGING, transactional_id="a b")])
    monkeypatch.setattr(transactions, "Producer", Refused)
    with pytest.raises(AccessRefused) as refused:
        abort_transaction(KafkaAccess("k:1"), (TOPIC,), "a b", 1)
    assert str(refused.value) == (
        "User:ANONYMOUS may not Write transactional id 'a b' at k:1; what grants it is: kafka-acls.sh --bootstrap-server k:1 "
        "--add --allow-principal User:ANONYMOUS --operation Write --transactional-id 'a b'"
    )
