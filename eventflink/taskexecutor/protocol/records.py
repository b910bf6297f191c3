"""The records that a TaskExecutor writes and reads, as bytes: reports, heartbeats, and what is in `deployments`."""

from collections.abc import Iterator, Sequence
from typing import Final

from eventflink.events.codec import PayloadCodec, ReportsCodec, UndecodableRecord
from eventflink.events.effects import DeploymentEnvelope
from eventflink.events.inputs import Heartbeat, TaskManagerReport

RECORD_LIMIT_BYTES: Final = 64 * 1024
"""One decision answers one record, and repeats its ids in several events for each report: it has room for a few times as much."""

_REPORTS: Final = ReportsCodec("TaskManagerEnvelope")
_HEARTBEATS: Final = PayloadCodec("HeartbeatEnvelope")
_DEPLOYMENTS: Final = PayloadCodec("DeploymentEnvelope")


def encode_reports(reports: Sequence[TaskManagerReport]) -> Iterator[tuple[Sequence[TaskManagerReport], bytes]]:
    """Yield the records of `taskmanagers` that hold these reports, in order: one, or several when they are too large for one."""
    value = _REPORTS.encode(reports)
    if len(value) <= RECORD_LIMIT_BYTES or len(reports) == 1:
        yield reports, value
        return
    half = len(reports) // 2
    yield from encode_reports(reports[:half])
    yield from encode_reports(reports[half:])


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Return the record of `heartbeats`."""
    return _HEARTBEATS.encode(heartbeat)


def is_for(key: bytes | None, task_manager_id: str) -> bool:
    """Tell by its key whether a record of `deployments` is for this TaskManager, or for all: those of others are never decoded."""
    return not key or key == task_manager_id.encode()


def decode_deployment(value: bytes) -> DeploymentEnvelope:
    """Return what a record of `deployments` says.

    Raises:
        UndecodableRecord: it is not such a record.

    """
    payload, fields = _DEPLOYMENTS.decode(value)
    try:
        return DeploymentEnvelope(payload=payload, **fields)
    except TypeError as error:
        raise UndecodableRecord(str(error)) from error
