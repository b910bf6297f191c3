"""How rows flow through the streams of a job, by vertex, as of the last time that its subtasks were asked: by a checkpoint.

Between two checkpoints nothing is known of a stream, and nothing is made up; how busy its tasks are is never known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventflink.documents.checkpoints import BackPressure, BackPressureOfSubtask, OutputOfStream, StreamOfSubtask
from eventflink.master.checkpoints import Acknowledgement
from eventflink.master.execution_graph import ExecutionVertex, SubtaskKey
from eventflink.model.stream_progress import NO_WATERMARK
from eventflink.views.back_pressure import back_pressure_ratio, back_pressure_view
from eventflink.views.checkpoints import output_view
from eventflink.views.plain import fields_of, iso_time, sum_of_known


@dataclass(slots=True)
class _Sums:
    """What the answers of the subtasks of a vertex add up to."""

    records_behind: int | None = None
    """None: no source says."""
    records_per_second: float = 0.0
    rows_written: list[int] = field(default_factory=list)
    """By each output; -1: unknown."""
    written_at: str | None = None
    """ISO times of one length: the later one is the greater text."""

    def add(self, records_behind: Iterable[int], records_per_second: float) -> None:
        """Count an answer; -1: a source does not say."""
        for behind in records_behind:
            if behind >= 0:
                self.records_behind = (self.records_behind or 0) + behind
        self.records_per_second += records_per_second

    def add_outputs(self, outputs: Iterable[OutputOfStream]) -> None:
        """Count what outputs have got."""
        for output in outputs:
            self.written_at = max(filter(None, (self.written_at, output.written_at)), default=None)
            self.rows_written.append(output.rows_written)

    def view(self, back_pressure: BackPressure, subtask_index: int, watermark: str | None, at: str | None) -> dict[str, Any]:
        """Return the fields of `VertexRow` about flow by name; the back-pressure is that of its subtask that keeps up least."""
        return {
            "back_pressure": BackPressureOfSubtask(**fields_of(back_pressure), subtask_index=subtask_index),
            "watermark": watermark,
            "lag": self.records_behind,
            "records_per_second": self.records_per_second,
            "rows_written": sum_of_known(self.rows_written),
            "written_at": self.written_at,
            "flow_at": at,
        }


def flow_of(vertex: ExecutionVertex, last_words: Mapping[SubtaskKey, Acknowledgement]) -> dict[str, Any]:
    """Return how rows flow through a vertex, as fields of `VertexRow` by name; of one that is no stream, or was not asked yet, none."""
    stream, vertex_id = vertex.vertex.stream, vertex.vertex.vertex_id
    if stream is None:
        return {}
    sums, worst, worst_ratio, at_ms, watermark_ms = _Sums(), -1, -1.0, 0, NO_WATERMARK
    for index in range(vertex.parallelism):
        words = last_words.get((vertex_id, index))
        if words is None:
            continue
        progress = words.progress
        sums.add([source.records_behind for source in progress.sources], progress.input_rows_per_second)
        sums.add_outputs(map(output_view, progress.outputs))
        ratio, at_ms = round(back_pressure_ratio(stream, progress), 3), max(at_ms, words.at_ms)
        if ratio > worst_ratio:
            worst, worst_ratio = index, ratio
        if progress.watermark_ms > 0 and (watermark_ms == NO_WATERMARK or progress.watermark_ms < watermark_ms):
            watermark_ms = progress.watermark_ms
    if worst < 0:
        return {}
    shown = back_pressure_view(stream, last_words[vertex_id, worst].progress)
    return sums.view(shown, worst, iso_time(max(0, watermark_ms)), iso_time(at_ms))


def archived_flow(vertex_id: str, subtasks: Iterable[StreamOfSubtask]) -> dict[str, Any]:
    """Return the same of an ended job, from the subtasks that `checkpoints_view` shows: the first 1,000 of its streams."""
    mine = [row for row in subtasks if row.vertex_id == vertex_id]
    answers = [row.answer for row in mine if row.answer is not None]
    pressures = [(row.back_pressure, row.subtask_index) for row in mine if row.back_pressure is not None]
    if not answers or not pressures:
        return {}
    sums = _Sums()
    for answer in answers:
        sums.add([source.records_behind for source in answer.sources], answer.input_rows_per_second)
        sums.add_outputs(answer.outputs)
    worst, index = max(pressures, key=lambda each: each[0].ratio)
    watermark = min((answer.watermark for answer in answers if answer.watermark is not None), default=None)
    return sums.view(worst, index, watermark, max(answer.at for answer in answers))
