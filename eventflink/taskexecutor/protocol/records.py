"""The records that a TaskExecutor writes and reads, as bytes: reports, heartbeats, and what is in `deployments`."""

from collections.abc import Iterator, Sequence
from typing import Final

from eventflink.events.codec import PayloadCodec, ReportsCodec, UndecodableRecord
from eventflink.events.effects import DeploymentEnvelope
from eventflink.events.inputs import Heartbeat, TaskManagerReport
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic

RECORD_LIMIT_BYTES: Final = 64 * 1024
"""One decision answers one record, and repeats its ids in several events for each report: it has room for a few times as much."""


class TaskExecutorCodecs:
    """Encodes what a TaskExecutor says, and decodes what is said to it."""

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        """With the seals of a cluster, records get them; and without a valid one no deployment is believed (P3a)."""
        self._reports = ReportsCodec("TaskManagerEnvelope", seal=seals.of(Topic.TASKMANAGERS))
        self._heartbeats = PayloadCodec("HeartbeatEnvelope", seal=seals.of(Topic.HEARTBEATS))
        self._deployments = PayloadCodec("DeploymentEnvelope", seal=seals.of(Topic.DEPLOYMENTS))

    def encode_reports(self, reports: Sequence[TaskManagerReport]) -> Iterator[tuple[Sequence[TaskManagerReport], bytes]]:
        """Yield the records of `taskmanagers` that hold these reports, in order: one, or several when they are too large for one."""
        value = self._reports.encode(reports)
        if len(value) <= RECORD_LIMIT_BYTES or len(reports) == 1:
            yield reports, value
            return
        half = len(reports) // 2
        yield from self.encode_reports(reports[:half])
        yield from self.encode_reports(reports[half:])

    def encode_heartbeat(self, heartbeat: Heartbeat) -> bytes:
        """Return the record of `heartbeats`."""
        return self._heartbeats.encode(heartbeat)

    def decode_deployment(self, value: bytes) -> DeploymentEnvelope:
        """Return what a record of `deployments` says.

        Raises:
            UndecodableRecord: it is not such a record, or no master's.

        """
        payload, fields = self._deployments.decode(value)
        try:
            return DeploymentEnvelope(payload=payload, **fields)
        except TypeError as error:
            raise UndecodableRecord(str(error)) from error


def is_for(key: bytes | None, task_manager_id: str) -> bool:
    """Tell by its key whether a record of `deployments` is for this TaskManager, or for all: those of others are never decoded."""
    return not key or key == task_manager_id.encode()
