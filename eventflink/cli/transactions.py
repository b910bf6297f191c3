"""What `doctor` says of clients' transactions: whether brokers bound them, and which hold the cluster's topics up now (P11)."""

import time
from collections.abc import Iterator
from typing import Final

from eventflink.cli.finding import Finding, Verdict
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.log_lines import one_line
from eventflink.log.administration import AdministrationError, check_transaction_bound
from eventflink.log.transactions import OpenTransaction, abort_transaction, find_open_transactions

_TIMEOUT_S: Final = 5.0
_ABORT_TIMEOUT_S: Final = 30.0
_HANGS_AFTER_MS: Final = 10_000
"""A transaction that is open for so long hangs: a client that submits writes and commits at once."""


def topics_of(cluster_id: str) -> list[str]:
    """Return the names of a cluster's topics."""
    return [topic_name(cluster_id, topic) for topic in Topic]


def transaction_findings(bootstrap: str, cluster_id: str) -> Iterator[Finding]:
    """Yield what is found: one line for the brokers' bound, and one for each open transaction, or that there is none."""
    name = "transactions"
    try:
        warnings = check_transaction_bound(bootstrap, _TIMEOUT_S)
        found = find_open_transactions(bootstrap, topics_of(cluster_id), _TIMEOUT_S)
    except AdministrationError as error:
        yield Finding(name, Verdict.WARNING, str(error))
        return
    yield from (Finding(name, Verdict.WARNING, warning) for warning in warnings)
    for each in found:
        open_ms = int(time.time() * 1000) - each.began_at_ms
        ends_it = f"'eventflink doctor --abort-transaction {one_line(each.transactional_id)}' ends it"
        yield Finding(name, Verdict.FAILED if open_ms >= _HANGS_AFTER_MS else Verdict.WARNING, f"{_describe(each)}; {ends_it}")
    if not found:
        yield Finding(name, Verdict.OK, "none is open on the cluster's topics")


def _describe(transaction: OpenTransaction) -> str:
    """Say whose a transaction is, since when it is open, and until when at most."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(transaction.began_at_ms / 1000))
    until = f"for {transaction.timeout_ms / 1000:.0f} s at most; what stands behind it is not read before it ends"
    return f"{', '.join(transaction.topics)}: {_name(transaction)} is open since {since} UTC, {until}"


def _name(transaction: OpenTransaction) -> str:
    return f"the transaction '{one_line(transaction.transactional_id)}' of producer {transaction.producer_id}"


def abort(bootstrap: str, cluster_id: str, transactional_id: str) -> str:
    """End an open transaction and say which it was; empty: none of that id is open on the cluster's topics.

    Raises:
        AdministrationError: Kafka does not end it.

    """
    ended = abort_transaction(bootstrap, topics_of(cluster_id), transactional_id, _ABORT_TIMEOUT_S)
    return "" if ended is None else f"{', '.join(ended.topics)}: {_name(ended)} is aborted"
