"""Back-pressure of streams: the ratio is that of the worst part, in Flink's levels, with the reason in words."""

from typing import Any

import pytest

from eventflink.documents.checkpoints import BackPressure
from eventflink.model.job_graph import StreamDefinition, StreamSink
from eventflink.model.statuses import BackPressureLevel, StreamConnector, StreamTrigger
from eventflink.model.stream_progress import StreamProgress, StreamSourceProgress
from eventflink.views.back_pressure import back_pressure_view, level_of


def stream(interval_ms: int = 0, trigger: StreamTrigger = StreamTrigger.PROCESSING_TIME) -> StreamDefinition:
    return StreamDefinition(
        sources=(), sinks=(StreamSink(connector=StreamConnector.PYTHON, location="m:f"),), trigger=trigger, trigger_interval_ms=interval_ms
    )


def sources(*behind: int) -> tuple[StreamSourceProgress, ...]:
    return tuple(StreamSourceProgress(name="s", end_offset="", records_behind=number) for number in behind)


@pytest.mark.parametrize(
    ("interval_ms", "said", "ratio", "reason"),
    [
        (500, {"batch_duration_ms": 400}, 0.0, "it keeps up"),
        (500, {"batch_duration_ms": 2_000}, 0.75, "a batch takes 2,000 ms, and one is due every 500 ms"),
        (500, {"sources": sources(900, -1), "input_rows": 100}, 0.9, "900 records behind, after a batch of 100"),
        (500, {"sources": sources(3, 2), "input_rows": 0}, 1.0, "5 records behind, after a batch of 0"),
        (
            500,
            {"batch_duration_ms": 1_000, "sources": sources(1), "input_rows": 9},
            0.5,
            "a batch takes 1,000 ms, and one is due every 500 ms",
        ),
        (0, {"input_rows_per_second": 200.0, "processed_rows_per_second": 150.0}, 0.25, "200 rows come in a second, 150 are processed"),
        (0, {"input_rows_per_second": 150.0, "processed_rows_per_second": 200.0}, 0.0, "it keeps up"),
        (0, {"batch_duration_ms": 10_000}, 0.0, "it keeps up"),
        (500, {"input_rows_per_second": 200.0, "processed_rows_per_second": 150.0}, 0.0, "it keeps up"),
    ],
)
def test_the_level_is_that_of_the_worst_part_and_says_which(interval_ms: int, said: dict[str, Any], ratio: float, reason: str) -> None:
    view = back_pressure_view(stream(interval_ms), StreamProgress(batch_id=3, **said))
    assert (view.level, view.ratio) == (level_of(ratio), ratio)
    assert reason in view.reason


def test_a_stream_in_real_time_is_judged_by_what_it_leaves_alone() -> None:
    real_time = stream(5_000, StreamTrigger.REAL_TIME)
    progress = StreamProgress(batch_id=3, batch_duration_ms=9_000, slowest_phase="addBatch", slowest_phase_ms=8_000)
    assert back_pressure_view(real_time, progress) == BackPressure(level=BackPressureLevel.OK, ratio=0.0, reason="it keeps up")
    behind = StreamProgress(batch_id=3, batch_duration_ms=5_100, sources=sources(29), input_rows=71)
    assert back_pressure_view(real_time, behind).reason == "29 records behind, after a batch of 71"
    assert back_pressure_view(real_time, behind).level is BackPressureLevel.LOW


def test_the_slowest_phase_of_the_batch_is_named_with_its_share() -> None:
    progress = StreamProgress(batch_id=3, batch_duration_ms=1_000, slowest_phase="addBatch", slowest_phase_ms=610)
    assert back_pressure_view(stream(500), progress).reason.endswith("500 ms; addBatch takes 61 % of the batch")


@pytest.mark.parametrize(
    ("ratio", "level"),
    [(0.0, "OK"), (0.1, "OK"), (0.11, "LOW"), (0.5, "LOW"), (0.51, "HIGH"), (1.0, "HIGH")],
)
def test_the_bounds_of_the_levels_are_flinks(ratio: float, level: str) -> None:
    assert level_of(ratio) is BackPressureLevel(level)


def test_a_bounded_stream_and_one_without_a_batch_are_ok() -> None:
    behind = StreamProgress(batch_id=3, sources=sources(10**6))
    assert back_pressure_view(stream(trigger=StreamTrigger.AVAILABLE_NOW), behind).level is BackPressureLevel.OK
    assert back_pressure_view(stream(), StreamProgress(batch_id=-1, sources=sources(5))).reason == "no batch has been committed yet"
