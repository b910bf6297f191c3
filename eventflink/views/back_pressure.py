"""Back-pressure of streams, from where they stood at the last checkpoint: a ratio, Flink's levels, and the reason in words.

The ratio is the part, from 0 to 1, by which a stream does not keep up. It is the greatest of:

- *behind*: of the records that were there when the last batch began, the part that it left (records behind / (behind + its rows));
- *overrun*, where batches have an interval: the part of the batch that lies beyond it (1 - interval / duration);
- *shortfall*, where the next batch begins at once: by how much the batch took longer than what it read had taken to come
  (1 - rows processed per second / rows that came per second).

Up to 0.1 the level is ok, up to 0.5 low, above that high. A stream that ends with what is there now only has to work: it is always ok.
Of one in real time only *behind* counts, since its batches last as long as they are told to.

The reason also says how many rows were dropped because they were late, and why nothing comes to an end, where that is so. Neither is
back-pressure.
"""

from typing import Final

from eventflink.documents.checkpoints import BackPressure
from eventflink.model.job_graph import StreamDefinition
from eventflink.model.statuses import BackPressureLevel, StreamTrigger
from eventflink.model.stream_progress import NO_BATCH, StreamProgress
from eventflink.views.standing_streams import why_it_stands

LOW_ABOVE: Final = 0.1
HIGH_ABOVE: Final = 0.5


def back_pressure_view(stream: StreamDefinition, progress: StreamProgress) -> BackPressure:
    """Return the level, the ratio and the reason of one subtask."""
    ratio = back_pressure_ratio(stream, progress)
    return BackPressure(level=level_of(ratio), ratio=round(ratio, 3), reason=_reason_of(stream, progress))


def back_pressure_ratio(stream: StreamDefinition, progress: StreamProgress) -> float:
    """Return the ratio of one subtask."""
    return max(_ratios_of(stream, progress))


def level_of(ratio: float) -> BackPressureLevel:
    """Return Flink's level of a ratio."""
    if ratio <= LOW_ABOVE:
        return BackPressureLevel.OK
    return BackPressureLevel.LOW if ratio <= HIGH_ABOVE else BackPressureLevel.HIGH


def _ratios_of(stream: StreamDefinition, progress: StreamProgress) -> tuple[float, float, float]:
    """Return how far it is behind, by how much its batches overrun, and fall short; 0 for what does not apply."""
    if progress.batch_id == NO_BATCH or stream.trigger is StreamTrigger.AVAILABLE_NOW:
        return 0.0, 0.0, 0.0
    left = _records_behind(progress)
    behind = left / (left + progress.input_rows) if left else 0.0
    if stream.trigger is StreamTrigger.REAL_TIME:
        return behind, 0.0, 0.0
    duration_ms, interval_ms = progress.batch_duration_ms, stream.trigger_interval_ms
    comes, goes = progress.input_rows_per_second, progress.processed_rows_per_second
    overrun = 1 - interval_ms / duration_ms if interval_ms and duration_ms > interval_ms else 0.0
    shortfall = 1 - goes / comes if not interval_ms and comes > goes > 0 else 0.0
    return behind, overrun, shortfall


def _reason_of(stream: StreamDefinition, progress: StreamProgress) -> str:
    if progress.batch_id == NO_BATCH:
        return "no batch has been committed yet"
    if stream.trigger is StreamTrigger.AVAILABLE_NOW:
        return "it reads what was there when it began, and ends"
    ratios = _ratios_of(stream, progress)
    duration_ms, interval_ms = progress.batch_duration_ms, stream.trigger_interval_ms
    comes, goes = progress.input_rows_per_second, progress.processed_rows_per_second
    if not any(ratios):
        reason = "it keeps up"
    elif ratios[0] == max(ratios):
        reason = f"{_records_behind(progress):,} records behind, after a batch of {progress.input_rows:,}"
    elif interval_ms:
        reason = f"a batch takes {duration_ms:,} ms, and one is due every {interval_ms:,} ms"
    else:
        reason = f"{comes:,.0f} rows come in a second, {goes:,.0f} are processed"
    if stream.trigger is not StreamTrigger.REAL_TIME and progress.slowest_phase and duration_ms > 0:
        share = min(100, round(100 * progress.slowest_phase_ms / duration_ms))
        reason += f"; {progress.slowest_phase} takes {share} % of the batch"
    if progress.late_rows_dropped:
        reason += f"; {progress.late_rows_dropped:,} rows came behind the watermark and were dropped"
    return f"{reason}; {why}" if (why := why_it_stands(stream, progress)) else reason


def _records_behind(progress: StreamProgress) -> int:
    return sum([max(0, source.records_behind) for source in progress.sources])
