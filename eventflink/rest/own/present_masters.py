"""The masters that say that they are there: who leads, which standbys there are, and how near to the leader they are.

The log does not hold it: it is asked of Kafka when somebody asks here, on `leadership`, where a master speaks twice in a lease. How far a
standby is behind is told as of when it spoke last, by what the leader had said until then.
"""

import asyncio
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from confluent_kafka import KafkaException
from fastapi import APIRouter

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import LeaderHeartbeat, MasterPresence
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic
from eventflink.events.wording import iso_time
from eventflink.log.newest_records import RecordRead, newest_records
from eventflink.model.statuses import Role
from eventflink.rest.errors import RestError
from eventflink.rest.own.moments import OwnShape
from eventflink.rest.own.topics import KAFKA_TIMEOUT_S
from eventflink.rest.reading import ServicesOfRequest

MAX_RECORDS: Final = 1_000
"""So many of the newest records are looked at: more than half a minute of heartbeats."""

_SILENT_LEASES: Final = 2
"""A master that has missed all four of its turns to speak is silent."""

router = APIRouter()


class PresentMaster(OwnShape):
    """A master as it said last that it is there."""

    master_id: str
    role: Role
    epoch: int
    """Of the leadership that it follows, or has."""
    log_offset: int
    """The last record of the log that it had read."""
    lag: int | None
    """By how many records it was behind the leader then; null of a leader itself, and where no leader was heard of before."""
    ready: bool
    """Whether it would lead on at once: a standby that speaks, and is behind by no more than a leader may have unconfirmed."""
    silent: bool
    """Whether it has not spoken for two leases."""
    heard_at: str
    feature_level: int


class PresentMasters(OwnShape):
    """The masters that were heard of lately, the leader first, then by lag."""

    masters: list[PresentMaster]


@router.get("/masters/present")
async def present(services: ServicesOfRequest) -> PresentMasters:
    """Return the masters that were heard of lately, with their lag behind the leader, and whether they are ready to follow it."""
    configuration = services.configuration
    try:
        records, _ = await asyncio.to_thread(newest_records, services.access, Topic.LEADERSHIP, MAX_RECORDS, KAFKA_TIMEOUT_S)
    except KafkaException as error:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"Kafka does not tell which masters there are: {error}") from error
    now_ms = time.time_ns() // 1_000_000
    codec = PayloadCodec("LeadershipEnvelope", seal=seals_of(services.access).of(Topic.LEADERSHIP))
    return PresentMasters(masters=masters_of(reversed(records), codec, now_ms, configuration.lease_timeout_ms, configuration.window_size))


def masters_of(
    records: Iterable[RecordRead], codec: PayloadCodec, now_ms: int, lease_timeout_ms: int, window_size: int
) -> list[PresentMaster]:
    """Return what records of `leadership`, the oldest first, say of each master."""
    known: dict[str, PresentMaster] = {}
    led: LeaderHeartbeat | None = None
    for record in records:
        try:
            said, _ = codec.decode(record.value or b"")
        except UndecodableRecord:
            continue  # Bytes that are no presence make no master.
        if isinstance(said, LeaderHeartbeat):
            led = said if led is None or said.epoch >= led.epoch else led
        elif isinstance(said, MasterPresence):
            lag = None if led is None or said.role is Role.LEADER else max(0, led.log_offset - said.log_offset)
            silent = now_ms - record.timestamp_ms > _SILENT_LEASES * lease_timeout_ms
            known[said.master_id] = PresentMaster(
                master_id=said.master_id,
                role=said.role,
                epoch=said.epoch,
                log_offset=said.log_offset,
                lag=lag,
                ready=said.role is Role.STANDBY and not silent and lag is not None and lag <= window_size,
                silent=silent,
                heard_at=iso_time(record.timestamp_ms),
                feature_level=said.feature_level,
            )
    return sorted(
        known.values(), key=lambda each: (each.role is not Role.LEADER, each.silent, each.lag is None, each.lag or 0, each.master_id)
    )
