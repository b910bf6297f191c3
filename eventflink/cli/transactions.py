"""What `doctor` says of clients' transactions: whether brokers bound them, and which hold the cluster's topics up now (P11).

Kafka lists only transactions whose TransactionalId the asker may Describe. The rule: none is said to be open before the inbound topics
themselves show that nothing is held back.
"""

import time
from collections.abc import Collection, Iterator
from typing import Final

from eventflink.cli.finding import Finding, Verdict
from eventflink.events.topics import INBOUND, Topic, topic_name
from eventflink.leadership.log_lines import one_line
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import AdministrationError, check_transaction_bound
from eventflink.log.transactions import OpenTransaction, abort_transaction, find_open_transactions
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.kafka_settings import KafkaAccess, principal_of

_NAME: Final = "transactions"
_TIMEOUT_S: Final = 5.0
_ABORT_TIMEOUT_S: Final = 30.0
_HANGS_AFTER_MS: Final = 10_000
"""A transaction that is open for so long hangs: a client that submits writes and commits at once."""
_SECOND_LOOK_S: Final = 1.0
"""After so long a transaction that was just being committed is over."""


def topics_of(cluster_id: str) -> list[str]:
    """Return the names of a cluster's topics."""
    return [topic_name(cluster_id, topic) for topic in Topic]


def transaction_findings(access: ClusterAccess) -> Iterator[Finding]:
    """Yield what is found: of the brokers' bound, of each open transaction, and of what another holds back; or that none is open."""
    yield from _bound_findings(access.kafka)
    is_listed, found = True, list[OpenTransaction]()
    try:
        found = find_open_transactions(access.kafka, topics_of(access.cluster_id), _TIMEOUT_S)
    except AdministrationError as error:
        is_listed = False
        yield Finding(_NAME, Verdict.WARNING, str(error))
    for each in found:
        open_ms = int(time.time() * 1000) - each.began_at_ms
        ends_it = f"'eventflink doctor --abort-transaction {one_line(each.transactional_id)}' ends it"
        yield Finding(_NAME, Verdict.FAILED if open_ms >= _HANGS_AFTER_MS else Verdict.WARNING, f"{_describe(each)}; {ends_it}")
    seen = {topic for each in found for topic in each.topics}
    hidden = list(_hidden_findings(access.kafka, {topic_name(access.cluster_id, topic) for topic in INBOUND} - seen, is_listed=is_listed))
    yield from hidden
    if not found and not hidden:
        yield Finding(_NAME, Verdict.OK, "none is open on the cluster's topics" if is_listed else "none holds an inbound topic up")


def _bound_findings(kafka: KafkaAccess) -> Iterator[Finding]:
    try:
        warnings = check_transaction_bound(kafka, _TIMEOUT_S)
    except AdministrationError as error:
        warnings = [f"whether transactions are bounded is not known: {error}"]
    yield from (Finding(_NAME, Verdict.WARNING, warning) for warning in warnings)


def _hidden_findings(kafka: KafkaAccess, topics: Collection[str], *, is_listed: bool) -> Iterator[Finding]:
    """Yield on which of these topics records are held back by a transaction that is not listed."""
    who = principal_of(kafka.settings) or "the user of these settings"
    connection = AdminConnection(kafka, _TIMEOUT_S)
    try:
        visible = set(topics) & connection.find_topics().keys()
        before = _held_back(connection, visible)
        if before:
            time.sleep(_SECOND_LOOK_S)
        after = _held_back(connection, before)
    except AdministrationError as error:
        yield Finding(_NAME, Verdict.WARNING, f"whether records are held back is not known: {error}")
        return
    by_whom = f"a transaction that {who} may not see; Describe on its TransactionalId shows it"
    if not is_listed:
        by_whom = "an open transaction; kafka-transactions.sh shows it"
    for topic, (end, records) in after.items():
        if before[topic][0] == end:
            yield Finding(_NAME, Verdict.FAILED, f"{topic}: {records} records are held back by {by_whom}")
    if unseen := sorted(set(topics) - visible):
        yield Finding(_NAME, Verdict.WARNING, f"topics not found: {', '.join(unseen)}; they do not exist, or {who} may not Describe them")


def _held_back(connection: AdminConnection, topics: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return where committed reading ends, and how many records there are behind that; of topics that have some."""
    partitions = [(topic, 0) for topic in sorted(topics)]
    ends = connection.read_watermarks(partitions)  # First: what comes between the readings would seem held back.
    committed = connection.read_watermarks(partitions, is_committed=True)
    records = {partition: ends[partition].high - committed[partition].high for partition in partitions}
    return {topic: (committed[topic, 0].high, records[topic, 0]) for topic, _ in partitions if records[topic, 0] > 0}


def _describe(transaction: OpenTransaction) -> str:
    """Say whose a transaction is, since when it is open, and until when at most."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(transaction.began_at_ms / 1000))
    until = f"for {transaction.timeout_ms / 1000:.0f} s at most; what stands behind it is not read before it ends"
    return f"{', '.join(transaction.topics)}: {_name(transaction)} is open since {since} UTC, {until}"


def _name(transaction: OpenTransaction) -> str:
    return f"the transaction '{one_line(transaction.transactional_id)}' of producer {transaction.producer_id}"


def abort(access: ClusterAccess, transactional_id: str) -> str:
    """End an open transaction and say which it was; empty: none of that id is open on the cluster's topics.

    Raises:
        AdministrationError: Kafka does not end it.

    """
    ended = abort_transaction(access.kafka, topics_of(access.cluster_id), transactional_id, _ABORT_TIMEOUT_S)
    return "" if ended is None else f"{', '.join(ended.topics)}: {_name(ended)} is aborted"
