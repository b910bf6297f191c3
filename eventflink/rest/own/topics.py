"""What Kafka holds of the cluster: its topics and how far behind their readers are, what was refused unread, and the snapshots.

It is asked of Kafka when somebody asks here, and of no offset of the log: topics have no common moment.
"""

import asyncio
from http import HTTPStatus
from typing import Annotated, Final

from confluent_kafka import KafkaException
from fastapi import APIRouter, Query

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import DeadLetter
from eventflink.events.topics import Topic
from eventflink.events.wording import iso_time
from eventflink.leadership.fold import Fold
from eventflink.log.administration import AdministrationError, describe_topics
from eventflink.log.newest_records import RecordRead, newest_records
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.roles import IdentityOfRequest
from eventflink.rest.errors import RestError
from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.rest.reading import READ_TIMEOUT_S, ServicesOfRequest
from eventflink.views.plain import fields_of

router = APIRouter()

KAFKA_TIMEOUT_S: Final = 4.0
"""Shorter than the time in which a process ends in order: who asks then still gets an answer."""

MAX_DEAD_LETTERS: Final = 100
MAX_SHOWN_BYTES: Final = 4_096
"""Of the key and of the value of a dead letter."""


class TopicShape(OwnShape):
    """A topic."""

    topic: str
    name: str
    """In Kafka."""
    partitions: int
    replicas: int
    messages: int
    """How many offsets are kept."""
    retention_ms: int
    """-1: for ever."""
    cleanup_policy: str
    end_offset: int | None
    """After the last record, of a topic with one partition."""
    next_offset: int | None
    """Of a topic with requests or reports: the first that the leader has not answered, as far as this process knows."""
    lag: int | None


class TopicsPage(OwnShape):
    """The topics of a cluster."""

    topics: list[TopicShape]
    log_lag: int
    """How many records of the log this process has not read."""


class DeadLetterShape(OwnShape):
    """A record that was refused because it could not be read, or not be decided."""

    offset: int
    at: str | None
    topic: str
    """Where it came in, and there its partition and offset."""
    partition: int
    input_offset: int
    reason: str
    refused_by: str
    key: str | None
    text: str | None
    """Its first bytes as text, where they are UTF-8."""
    hex: str | None
    length: int


class DeadLetters(OwnShape):
    """The newest dead letters, the newest first."""

    records: list[DeadLetterShape]
    total: int


class SnapshotShape(OwnShape):
    """A snapshot."""

    snapshot_id: str
    log_offset: int
    digest: str
    chunks: int
    bytes: int
    taken_by: str
    confirmed_by: str | None
    """Another master that came to the same state."""


class Snapshots(OwnShape):
    """The snapshots that the masters remember, the newest last."""

    snapshots: list[SnapshotShape]


@router.get("/topics")
async def topics(services: ServicesOfRequest) -> TopicsPage:
    """Return the topics, with the lag of the leader behind each that it answers, and of this process behind the log."""

    def cursors(fold: Fold) -> dict[str, int]:
        return {topic: cursor.next_offset for topic, cursor in fold.master.requests.cursors.items()}

    try:
        rows = await asyncio.to_thread(describe_topics, services.access, KAFKA_TIMEOUT_S)
    except AdministrationError as error:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
    reading = await services.state.read(cursors, timeout_s=READ_TIMEOUT_S)
    found = []
    for row in rows:
        next_offset = reading.value.get(row.topic)
        lag = max(0, row.end_offset - next_offset) if next_offset is not None and row.end_offset is not None else None
        found.append(TopicShape(**fields_of(row), next_offset=next_offset, lag=lag))
    ends = [row.end_offset for row in rows if row.topic == Topic.LOG and row.end_offset is not None]
    return TopicsPage(topics=found, log_lag=max(0, max(ends, default=0) - 1 - reading.log_offset))


@router.get("/dead-letters")
async def dead_letters(
    services: ServicesOfRequest,
    identity: IdentityOfRequest,
    limit: Annotated[int, Query(ge=1, le=MAX_DEAD_LETTERS)] = 50,
) -> DeadLetters:
    """Return what could not be read, or not be decided, and why.

    What stands in it is for operators: nobody can tell where the secrets are in what cannot be read.
    """
    try:
        records, total = await asyncio.to_thread(newest_records, services.access, Topic.DEAD_LETTERS, limit, KAFKA_TIMEOUT_S)
    except KafkaException as error:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"Kafka does not give the dead letters: {error}") from error
    codec = PayloadCodec("DeadLetterEnvelope")
    return DeadLetters(records=[shown_to(identity.role, _letter(codec, record)) for record in records], total=total)


@router.get("/snapshots")
async def snapshots(moments: MomentsOfRequest) -> Moment[Snapshots]:
    """Return the snapshots that the masters remember."""
    return await moments.page(snapshots_view)


def snapshots_view(fold: Fold) -> Snapshots:
    """Return the snapshots that a state knows of."""
    return Snapshots(
        snapshots=[
            SnapshotShape(
                snapshot_id=snapshot_id,
                log_offset=snapshot.log_offset,
                digest=snapshot.digest,
                chunks=snapshot.chunk_count,
                bytes=snapshot.byte_count,
                taken_by=snapshot.taken_by,
                confirmed_by=snapshot.confirmed_by or None,
            )
            for snapshot_id, snapshot in fold.master.upkeep.snapshots.items()
        ]
    )


def shown_to(role: AccessRole, letter: DeadLetterShape) -> DeadLetterShape:
    """Return what a role is shown of a dead letter."""
    return letter if role.covers(AccessRole.OPERATOR) else letter.model_copy(update={"key": None, "text": None, "hex": None})


def _letter(codec: PayloadCodec, record: RecordRead) -> DeadLetterShape:
    """Return a dead letter; anybody may write to its topic, so what cannot be decoded is one that says so."""
    try:
        letter, _ = codec.decode(record.value or b"")
    except UndecodableRecord as error:
        letter = DeadLetter(
            topic=str(Topic.DEAD_LETTERS),
            partition=0,
            offset=record.offset,
            reason=f"it is not a dead letter: {error}",
            key=record.key,
            value=record.value,
            value_length=len(record.value or b""),
            refused_by="",
        )
    assert isinstance(letter, DeadLetter)  # noqa: S101 - for the type checker; the envelope holds nothing else
    value = letter.value[:MAX_SHOWN_BYTES] if letter.value is not None else None
    return DeadLetterShape(
        offset=record.offset,
        at=iso_time(record.timestamp_ms) if record.timestamp_ms > 0 else None,
        topic=letter.topic,
        partition=letter.partition,
        input_offset=letter.offset,
        reason=letter.reason,
        refused_by=letter.refused_by,
        key=letter.key[:MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace") if letter.key is not None else None,
        text=_text_of(value),
        hex=value.hex() if value is not None else None,
        length=letter.value_length,
    )


def _text_of(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the bound has cut is no reason to show none.
        return value[: error.start].decode("utf-8") if error.start >= MAX_SHOWN_BYTES - 3 else None
