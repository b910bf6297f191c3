"""From Spark's report of a batch to `StreamProgress`, and from a checkpoint directory to its last committed batch."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from eventflink.jobs.stored_files import names_in, read_whole
from eventflink.model.attempts import UNKNOWN_COUNT
from eventflink.model.job_graph import DEFAULT_OUTPUT, StreamSink
from eventflink.model.places import Place
from eventflink.model.stream_progress import (
    NEVER,
    NO_BATCH,
    NO_WATERMARK,
    PartitionLag,
    StreamOutputProgress,
    StreamProgress,
    StreamSourceProgress,
    furthest_behind,
)

MAX_OFFSET_LENGTH: Final = 16_384
_OFFSETS: Final = TypeAdapter(dict[str, dict[int, int]])
"""Of Kafka: the next offset by topic and partition."""
OBSERVED: Final = "eventflink.output.{}"
"""What Spark's count of the rows for a sink is called, by the number of the sink."""
_TRIGGER: Final = "triggerExecution"
_BEGUN: Final = "offsets"
"""The directory of the batches that have begun."""
_HEADER_LINES: Final = 2
"""Of Spark's note of a batch: its version, and when the batch began; the others are the offsets of the sources."""
_COMMITTED: Final = "commits"
"""The same of those that are done."""


class SeenBatches:
    """What the batches of an attempt's queries come to, one after the other: each counts once, as Spark says that it has ended.

    Spark keeps the newest batches only. Where some were not seen, the rows that were read are unknown from then on.
    """

    def __init__(self, restored_batch_id: int, sinks: Sequence[StreamSink] = ()) -> None:
        """Begin after the last batch of an earlier attempt, or after -1; Spark counts the rows for the sinks."""
        self.rows_read = 0
        """-1: they are unknown."""
        self.late_rows_dropped = 0
        self.rows_since_watermark = 0
        """That came since the watermark moved last."""
        self.watermark_stands_ms = 0
        """From then on until the last batch with such rows."""
        self.state_grown_rows = 0
        """Since rows were taken out of the state last."""
        self.state_grows_ms = 0
        """From then on until the last batch with which it grew."""
        self._watermark = ""
        self._moved_at: datetime | None = None
        self._state_rows = self._least_state_rows = 0
        self._least_at: datetime | None = None
        self._batch_id = restored_batch_id
        self._is_counted = True
        """Whether the rows of that batch are in the sum."""
        self.outputs = [_SeenOutput(OBSERVED.format(index), sink) for index, sink in enumerate(sinks)]

    def take(self, newest: Iterable[Any]) -> None:
        """Take the newest batches, the newest last; those that were taken before may be among them.

        An idle query speaks of its next batch before that begins, without rows.
        """
        for each in newest:
            if each.batchId > self._batch_id:
                if each.batchId > self._batch_id + 1:
                    self.forget()
                self._batch_id, self._is_counted = each.batchId, False
            if each.batchId < self._batch_id:
                continue
            is_new = bool(each.numInputRows) and not self._is_counted
            self._watch_watermark(each, each.numInputRows if is_new else 0)
            self._watch_state(each)
            for output in self.outputs:
                output.take(each, each.numInputRows if is_new else 0)
            if is_new:
                self._is_counted = True
                self.late_rows_dropped += sum(state.numRowsDroppedByWatermark for state in each.stateOperators)
                if self.rows_read != UNKNOWN_COUNT:
                    self.rows_read += each.numInputRows

    def _watch_watermark(self, batch: Any, rows: int) -> None:
        """Take the watermark by which a batch went, which the batches before it have made, and how many rows came with it."""
        watermark = batch.eventTime.get("watermark", "")
        began_at = datetime.fromisoformat(batch.timestamp)
        if watermark != self._watermark or self._moved_at is None:
            self._watermark, self._moved_at = watermark, began_at
            self.rows_since_watermark = self.watermark_stands_ms = 0
        elif rows and watermark:
            self.rows_since_watermark += rows
            self.watermark_stands_ms = max(0, round((began_at - self._moved_at).total_seconds() * 1000))

    def _watch_state(self, batch: Any) -> None:
        """Take how many rows the state has after a batch, and whether the batch took any out."""
        rows = sum(state.numRowsTotal for state in batch.stateOperators)
        began_at = datetime.fromisoformat(batch.timestamp)
        if self._least_at is None or rows < self._state_rows or any(state.numRowsRemoved for state in batch.stateOperators):
            self._least_state_rows, self._least_at = rows, began_at
            self.state_grown_rows = self.state_grows_ms = 0
        elif rows > self._state_rows:
            self.state_grown_rows = rows - self._least_state_rows
            self.state_grows_ms = max(0, round((began_at - self._least_at).total_seconds() * 1000))
        self._state_rows = rows

    def forget(self) -> None:
        """Take note that batches may have ended unseen."""
        self.rows_read = UNKNOWN_COUNT
        for output in self.outputs:
            output.rows_written = UNKNOWN_COUNT


class _SeenOutput:
    """What one output has got, by what Spark has observed of its rows."""

    def __init__(self, observation: str, sink: StreamSink) -> None:
        self._observation = observation
        self._sink = sink
        self._batch_id = NO_BATCH
        """The newest batch that was counted."""
        self._since: datetime | None = None
        self.rows_written = 0
        self._written_at_ms = NEVER
        self._rows_since = self._silent_ms = 0

    def take(self, batch: Any, rows_read: int) -> None:
        """Take a batch, and how many rows it has read that were not told before."""
        began_at, written = datetime.fromisoformat(batch.timestamp), self._written_by(batch)
        if rows_read and self._batch_id != batch.batchId:  # It was not observed.
            self.rows_written = UNKNOWN_COUNT
        if self._since is None or written:
            self._since, self._rows_since, self._silent_ms = began_at, 0, 0
        if written:
            self._written_at_ms = round(began_at.timestamp() * 1000)
            if self.rows_written != UNKNOWN_COUNT:
                self.rows_written += written
        elif rows_read:
            self._rows_since += rows_read
            self._silent_ms = max(0, round((began_at - self._since).total_seconds() * 1000))

    def _written_by(self, batch: Any) -> int:
        """Return how many rows a batch has brought, the first time that Spark tells it."""
        observed = batch.observedMetrics.get(self._observation)
        if observed is None or batch.batchId <= self._batch_id:
            return 0
        self._batch_id = batch.batchId
        # By Spark Connect a Row has the values and their schema, and not the values.
        return int(observed["values"][0] if "values" in observed else observed[0])

    def progress(self) -> StreamOutputProgress:
        """Return what it has got up to now."""
        return StreamOutputProgress(
            name=self._sink.name or DEFAULT_OUTPUT,
            location=self._sink.location,
            rows_written=self.rows_written,
            written_at_ms=self._written_at_ms,
            rows_since=self._rows_since,
            silent_ms=self._silent_ms,
        )


def progress_of(reported: Any, source_names: list[str], last_batch_id: int, seen: SeenBatches) -> StreamProgress:
    """Return where a query stands.

    Args:
        reported: a `StreamingQueryProgress`, or None before the first batch of this run has ended.
        source_names: of the graph, in the order in which the query has them; a source that the query reads twice is named by Spark.
        last_batch_id: the last committed batch of its checkpoint directory.
        seen: what the batches of the attempt come to, this one among them.

    """
    if reported is None:
        return StreamProgress(batch_id=last_batch_id, rows_read=seen.rows_read, late_rows_dropped=seen.late_rows_dropped)
    phases = {name: ms for name, ms in reported.durationMs.items() if name != _TRIGGER}
    slowest = max(phases, key=lambda name: phases[name], default="")
    states = reported.stateOperators
    names = [_name_of(source_names, i, each) for i, each in enumerate(reported.sources)]
    lags = [
        _partition_lags(name, each.endOffset or "", each.latestOffset or "") for name, each in zip(names, reported.sources, strict=True)
    ]
    behind = [lag for of_source in lags for lag in of_source or ()]
    return StreamProgress(
        batch_id=last_batch_id,
        sources=tuple([_source_progress(*each) for each in zip(names, reported.sources, lags, strict=True)]),
        input_rows=reported.numInputRows,
        input_rows_per_second=_finite(reported.inputRowsPerSecond),
        processed_rows_per_second=_finite(reported.processedRowsPerSecond),
        batch_duration_ms=reported.batchDuration,
        slowest_phase=slowest,
        slowest_phase_ms=phases.get(slowest, 0),
        state_rows=sum(state.numRowsTotal for state in states),
        state_bytes=sum(state.memoryUsedBytes for state in states),
        late_rows_dropped=seen.late_rows_dropped,
        watermark_ms=_watermark_ms(reported.eventTime.get("watermark", "")),
        partitions_behind=len(behind),
        partition_lags=furthest_behind(behind),
        rows_read=seen.rows_read,
        rows_since_watermark=seen.rows_since_watermark,
        watermark_stands_ms=seen.watermark_stands_ms,
        state_grown_rows=seen.state_grown_rows,
        state_grows_ms=seen.state_grows_ms,
        outputs=tuple([output.progress() for output in seen.outputs]),
    )


def _source_progress(name: str, source: Any, lags: list[PartitionLag] | None) -> StreamSourceProgress:
    offset = source.endOffset or ""
    return StreamSourceProgress(
        name=name,
        end_offset=offset if len(offset) <= MAX_OFFSET_LENGTH else "",
        records_behind=-1 if lags is None else sum(lag.records_behind for lag in lags),
    )


def _partition_lags(name: str, read: str, latest: str) -> list[PartitionLag] | None:
    """Return the partitions that have records between two offsets, which Spark's own figures do not name; None: they are not Kafka's."""
    try:
        ends, latests = _OFFSETS.validate_json(read), _OFFSETS.validate_json(latest)
    except ValidationError:
        return None
    return [
        PartitionLag(source=name, topic=topic, partition=number, records_behind=behind)
        for topic, numbers in latests.items()
        for number, end in numbers.items()
        if (behind := end - ends.get(topic, {}).get(number, 0)) > 0
    ]


def _name_of(names: list[str], index: int, source: Any) -> str:
    return names[index] if index < len(names) else source.description[:256]


def _finite(rate: float) -> float:
    return rate if rate == rate and abs(rate) != float("inf") else 0.0  # noqa: PLR0124 - NaN, which Spark reports of empty batches


def _watermark_ms(text: str) -> int:
    try:
        # Before the first row, Spark's watermark is the beginning of 1970.
        return int(datetime.fromisoformat(text).timestamp() * 1000) or NO_WATERMARK
    except ValueError:
        return NO_WATERMARK


def begun_batch_place(location: Place, batch_id: int) -> Place:
    """Return where a checkpoint directory notes what a batch reads, before it begins."""
    return location / _BEGUN / str(batch_id)


def offsets_fingerprint(location: Place, batch_id: int) -> str:
    """Return a fingerprint of what a batch reads: of what Spark notes before it begins, without the version and the time; empty: unknown.

    Nobody knows it where the directory is not on the host of the Spark server.

    Raises:
        StoreFailed: the store in which it is does not say.

    """
    try:
        note = read_whole(begun_batch_place(location, batch_id))
    except OSError:
        return ""
    lines = note.splitlines()[_HEADER_LINES:]
    return hashlib.blake2b(b"\n".join(lines), digest_size=8).hexdigest()


def remove_cut_notes(location: Place) -> None:
    """Remove what is left of the note of a first batch that was being written when its query was stopped or killed.

    Spark begins no query anew beside it (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY). Whole notes are numbers, and stay.
    A store has no others.
    """
    if location.scheme:
        return
    for directory in (location / _BEGUN, location / _COMMITTED):
        for entry in directory.path.glob(".*"):
            entry.unlink(missing_ok=True)


def last_committed_batch(location: Place) -> int:
    """Return the newest batch that a checkpoint directory notes as done; -1: there is none."""
    return _newest_batch(location / _COMMITTED)


def last_begun_batch(location: Place) -> int:
    """Return the newest batch that a checkpoint directory notes as begun, which is repeated if it is not done; -1: there is none."""
    return _newest_batch(location / _BEGUN)


def _newest_batch(notes: Place) -> int:
    return max((int(name) for name in names_in(notes) if name.isdigit()), default=NO_BATCH)
