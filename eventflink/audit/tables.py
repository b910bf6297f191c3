"""The tables of an audit as Arrow record batches, decoded from entries of the log.

`decisions` has a row for each record, `events` a row for each event of each record, `leaderships` a row for each grant, won
or lost. Rows are collected a batch at a time, so memory is bounded by a batch; only of leaderships all rows are kept.
Timestamps are milliseconds in UTC, without a zone. The
offset is `log_offset`, as `offset` alone is a word of SQL.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from eventflink.audit.entries import Entry
from eventflink.audit.plain import json_text, plain
from eventflink.events.log_events import LeadershipGranted, LogEvent
from eventflink.events.wording import describe_causes
from eventflink.leadership.acceptance import is_grant

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 16 * 1024 * 1024
"""Of the payloads of a batch: a few large job graphs end it early."""

_TIME: Final = pa.timestamp("ms")
_MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: what a SQL engine and Python can both show."""

DECISIONS: Final = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("epoch", pa.int64()),
        ("sequence", pa.int64()),
        ("leader_id", pa.string()),
        ("decided_at", _TIME),
        ("log_timestamp", _TIME),
        ("actor", pa.string()),
        ("accepted", pa.bool_()),
        ("rejection", pa.string()),
        ("causes", pa.string()),
        ("event_count", pa.int32()),
        ("byte_count", pa.int32()),
    ]
)

_SUBJECT_COLUMNS: Final[dict[str, pa.DataType]] = {
    "job_id": pa.string(),
    "vertex_id": pa.string(),
    "subtask_index": pa.int64(),
    "attempt": pa.int64(),
    "task_manager_id": pa.string(),
    "instance_id": pa.string(),
    "allocation_id": pa.string(),
    "slot_index": pa.int64(),
    "request_id": pa.string(),
    "subject": pa.string(),
    "reason": pa.string(),
}
"""Fields of events by their names; null where an event has none such."""

EVENTS: Final = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("event_index", pa.int32()),
        ("epoch", pa.int64()),
        ("sequence", pa.int64()),
        ("decided_at", _TIME),
        ("accepted", pa.bool_()),
        ("type", pa.string()),
        *_SUBJECT_COLUMNS.items(),
        ("from_state", pa.string()),
        ("to_state", pa.string()),
        ("payload", pa.string()),
    ]
)

LEADERSHIPS: Final = pa.schema(
    [
        ("epoch", pa.int64()),
        ("leader_id", pa.string()),
        ("master_id", pa.string()),
        ("accepted", pa.bool_()),
        ("granted_offset", pa.int64()),
        ("granted_at", _TIME),
        ("last_offset", pa.int64()),
        ("last_appended_at", _TIME),
        ("decisions", pa.int64()),
        ("events", pa.int64()),
        ("rejected_decisions", pa.int64()),
    ]
)

SCHEMAS: Final = {"decisions": DECISIONS, "events": EVENTS, "leaderships": LEADERSHIPS}


def _time(at_ms: int) -> int | None:
    """Return a time as a column takes it; None for one that no calendar shows."""
    return at_ms if 0 <= at_ms <= _MAX_TIME_MS else None


def decision_row(entry: Entry) -> tuple[Any, ...]:
    """Return the row of `decisions`, in the order of its schema."""
    decision = entry.decision
    return (
        entry.offset,
        decision.epoch,
        decision.sequence,
        decision.leader_id,
        _time(decision.decided_at_ms),
        _time(entry.timestamp_ms),
        decision.actor or None,
        entry.accepted,
        entry.rejection,
        describe_causes(decision) or None,
        len(decision.events),
        entry.byte_count,
    )


def event_rows(entry: Entry) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `events`, in the order of its schema."""
    decision = entry.decision
    for index, event in enumerate(decision.events):
        yield (
            entry.offset,
            index,
            decision.epoch,
            decision.sequence,
            _time(decision.decided_at_ms),
            entry.accepted,
            type(event).__name__,
            *[_subject(event, name) for name in _SUBJECT_COLUMNS],
            _state(event, "from_status", "from_state"),
            _state(event, "to_status", "to_state"),
            json_text(plain(event)),
        )


def _subject(event: LogEvent, name: str) -> Any:
    value = getattr(event, name, None)
    return None if value == "" else value


def _state(event: LogEvent, *names: str) -> str | None:
    return next((str(value) for name in names if (value := getattr(event, name, None)) is not None), None)


@dataclass(slots=True)
class _Leadership:
    """A grant, and what its leader decided."""

    entry: Entry
    granted: LeadershipGranted
    last: Entry
    decisions: int = 0
    events: int = 0
    rejected: int = 0

    def row(self) -> tuple[Any, ...]:
        """Return the row of `leaderships`; times are Kafka's, as a grant is decided before its leader's clock is set."""
        decision = self.entry.decision
        return (
            decision.epoch,
            decision.leader_id,
            self.granted.master_id,
            self.entry.accepted,
            self.entry.offset,
            _time(self.entry.timestamp_ms),
            self.last.offset,
            _time(self.last.timestamp_ms),
            self.decisions,
            self.events,
            self.rejected,
        )


class Leaderships:
    """Collects the rows of `leaderships`: a grant counts as its leader's first decision."""

    def __init__(self) -> None:
        self._grants: list[_Leadership] = []
        self._by_leader: dict[str, _Leadership] = {}

    def follow_entry(self, entry: Entry) -> None:
        """Take one record of the log in. Decisions of a leader whose grant was not read are in no leadership."""
        decision = entry.decision
        if is_grant(decision):
            granted = decision.events[0]
            assert isinstance(granted, LeadershipGranted)  # noqa: S101 - for the type checker; is_grant said so
            self._by_leader[decision.leader_id] = _Leadership(entry, granted, entry)
            self._grants.append(self._by_leader[decision.leader_id])
        leadership = self._by_leader.get(decision.leader_id)
        if leadership is None:
            return
        if entry.accepted:
            leadership.last = entry
            leadership.decisions += 1
            leadership.events += len(decision.events)
        else:
            leadership.rejected += 1

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows in the order of the grants."""
        return [leadership.row() for leadership in self._grants]


class TableBuilder:
    """Collects rows of one table and gives them away as record batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add_row(self, row: tuple[Any, ...]) -> None:
        """Take a row; its last column is the one that may be large."""
        self._rows.append(row)
        self._bytes += len(row[-1]) if isinstance(row[-1], str) else 0

    def is_full(self) -> bool:
        """Tell whether it is time to take the batch."""
        return len(self._rows) >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def take_batch(self) -> pa.RecordBatch:
        """Return the rows collected since the last batch."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._rows = []
        self._bytes = 0
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
