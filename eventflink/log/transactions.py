"""Open transactions of clients, which hold readers of committed records back (P11): whose they are, since when, and how one is ended.

librdkafka's administration does not ask for them, so two requests of Kafka's protocol (ListTransactions and DescribeTransactions, KIP-664)
are spoken here over aiokafka's connections. Each broker is asked, for each coordinates some. The rule: only who names a transaction that
is open on a topic of the cluster ends one.
"""

import asyncio
import logging
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields
from confluent_kafka import KafkaException, Producer

from eventflink.log.admin_connection import AccessRefused, AdministrationError, KafkaUnreachable
from eventflink.log.refusals import explain, is_denied
from eventflink.model.kafka_settings import KafkaAccess, client_settings, mechanism_of

_client_logger: Final = logging.getLogger(__name__)
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # What fails is an error of ours, once.

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NOT_HERE: Final = ("ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location")
"""What librdkafka reads a client's certificate from, and Python does not."""
_TAGS: Final = ("tags", TaggedFields)
_UNFINISHED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class _ListResponse(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 66, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_state_filters", CompactArray(CompactString("utf-8"))),
        (
            "transaction_states",
            CompactArray(
                ("transactional_id", CompactString("utf-8")), ("producer_id", Int64), ("transaction_state", CompactString("utf-8")), _TAGS
            ),
        ),
        _TAGS,
    )


class _ListStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, API_KEY, API_VERSION, RESPONSE_TYPE = True, 66, 0, _ListResponse
    SCHEMA = Schema(("state_filters", CompactArray(CompactString("utf-8"))), ("producer_id_filters", CompactArray(Int64)), _TAGS)


class _ListTransactions(Request[_ListStruct]):  # type: ignore[misc]
    API_KEY = 66

    def build(self, request_struct_class: type[_ListStruct]) -> Any:
        return request_struct_class(list(_UNFINISHED), [], {})


class _DescribeResponse(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 65, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "transaction_states",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", CompactString("utf-8")),
                ("transaction_state", CompactString("utf-8")),
                ("transaction_timeout_ms", Int32),
                ("transaction_start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                ("topics", CompactArray(("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), _TAGS)),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _DescribeStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, API_KEY, API_VERSION, RESPONSE_TYPE = True, 65, 0, _DescribeResponse
    SCHEMA = Schema(("transactional_ids", CompactArray(CompactString("utf-8"))), _TAGS)


class _DescribeTransactions(Request[_DescribeStruct]):  # type: ignore[misc]
    API_KEY = 65

    def __init__(self, transactional_ids: list[str]) -> None:
        self._transactional_ids = transactional_ids

    def build(self, request_struct_class: type[_DescribeStruct]) -> Any:
        return request_struct_class(self._transactional_ids, {})


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One transaction that has begun and has not ended."""

    transactional_id: str
    producer_id: int
    began_at_ms: int
    """By the clock of the broker that coordinates it."""
    timeout_ms: int
    """After so long its coordinator aborts it."""
    topics: tuple[str, ...]
    """In which it has written."""


def find_open_transactions(kafka: KafkaAccess, topics: Collection[str], timeout_s: float) -> list[OpenTransaction]:
    """Return the transactions that are open on any of these topics, the oldest first.

    Raises:
        KafkaUnreachable: no broker answered within `timeout_s`.
        AdministrationError: the brokers do not tell.

    """
    try:
        found = asyncio.run(asyncio.wait_for(_ask_brokers(kafka, int(timeout_s * 1000)), timeout_s))
    except TimeoutError as error:
        raise KafkaUnreachable(f"{kafka.bootstrap}: list transactions: no answer within {timeout_s:.0f} s") from error
    except (IncompatibleBrokerVersion, NotImplementedError) as error:
        raise AdministrationError(f"{kafka.bootstrap}: list transactions: this Kafka does not tell (before 3.0)") from error
    except (KafkaError, OSError) as error:
        raise AdministrationError(f"{kafka.bootstrap}: list transactions: {error}") from error
    return sorted((each for each in found if not set(topics).isdisjoint(each.topics)), key=lambda each: each.began_at_ms)


async def _ask_brokers(kafka: KafkaAccess, timeout_ms: int) -> list[OpenTransaction]:
    client = AIOKafkaClient(request_timeout_ms=timeout_ms, **_connection(kafka, client_settings(kafka)))
    try:
        await client.bootstrap()
        found = [await _ask_broker(client, broker.nodeId) for broker in client.cluster.brokers()]
    finally:
        await client.close()
    return [each for of_broker in found for each in of_broker]


def _connection(kafka: KafkaAccess, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return as aiokafka's arguments what librdkafka's settings say of a connection.

    Raises:
        AdministrationError: they want what aiokafka does not have.
        OSError: a certificate or a key cannot be used.

    """
    protocol, mechanism = settings.get("security.protocol", "plaintext").upper(), mechanism_of(settings)
    found: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap, "security_protocol": protocol}
    if protocol.startswith("SASL_"):
        if mechanism not in _MECHANISMS:
            raise AdministrationError(f"{kafka.bootstrap}: list transactions: not over {mechanism}; kafka-transactions.sh does")
        user, password = settings.get("sasl.username"), settings.get("sasl.password")
        found |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    if protocol.endswith("SSL"):
        if foreign := [key for key in _NOT_HERE if settings.get(key)]:
            wanted = "with ssl.certificate.location and ssl.key.location it does"
            raise AdministrationError(f"{kafka.bootstrap}: list transactions: not with kafka.{foreign[0]}; {wanted}")
        context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem"))
        context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
        if certificate := settings.get("ssl.certificate.location"):
            context.load_cert_chain(certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
        found["ssl_context"] = context
    return found


async def _ask_broker(client: Any, node_id: int) -> list[OpenTransaction]:
    listed = await client.send(node_id, _ListTransactions())
    ids = [transactional_id for transactional_id, *_ in listed.transaction_states or []]
    if not ids:
        return []
    described = await client.send(node_id, _DescribeTransactions(ids))
    return [
        OpenTransaction(transactional_id, producer_id, began_at_ms, timeout_ms, tuple(sorted(topic for topic, *_ in topics or [])))
        for error_code, transactional_id, _, timeout_ms, began_at_ms, producer_id, _, topics, *_ in described.transaction_states or []
        if not error_code  # Else it has ended meanwhile, or another broker coordinates it by now.
    ]


def abort_transaction(kafka: KafkaAccess, topics: Collection[str], transactional_id: str, timeout_s: float) -> OpenTransaction | None:
    """End a transaction that is open on one of these topics: its producer is fenced, and what it wrote is never read.

    Returns:
        What it was; None if no such transaction is open.

    Raises:
        AccessRefused: a right to do that is missing.
        AdministrationError: Kafka does not end it, or does not answer within `timeout_s`.

    """
    found = {each.transactional_id: each for each in find_open_transactions(kafka, topics, timeout_s)}
    if transactional_id not in found:
        return None
    settings = client_settings(kafka, {"transactional.id": transactional_id, "log_level": 0})
    try:
        Producer(settings, logger=_client_logger).init_transactions(timeout_s)  # Kafka aborts what its predecessor had begun.
    except KafkaException as error:
        said = explain(error.args[0], kafka, "Write", transactional_id=transactional_id)
        if is_denied(error.args[0]):
            raise AccessRefused(said) from error
        raise AdministrationError(f"{kafka.bootstrap}: abort the transaction '{transactional_id}': {said}") from error
    return found[transactional_id]
