"""How rows flow through the streams of a job, by vertex, as of the last time that its subtasks were asked: by a checkpoint.

Between two checkpoints nothing is known of a stream, and nothing is made up; how busy its tasks are is never known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from eventflink.master.checkpoints import Acknowledgement
from eventflink.master.execution_graph import ExecutionVertex, SubtaskKey
from eventflink.views.back_pressure import back_pressure_ratio, back_pressure_view
from eventflink.views.plain import View, iso_time


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is counted of the answer of one subtask. Times are ISO 8601, which is ordered as time is."""

    at: str
    watermark: str | None
    records_behind: int
    """-1: no source says."""
    records_per_second: float


def flow_of(vertex: ExecutionVertex, last_words: Mapping[SubtaskKey, Acknowledgement]) -> View:
    """Return how rows flow through a vertex; of one that is no stream, or was not asked yet, that it is not known."""
    stream = vertex.vertex.stream
    if stream is None:
        return _flow((), None)
    answers = [(index, words) for index in range(vertex.parallelism) if (words := last_words.get((vertex.vertex.vertex_id, index)))]
    if not answers:
        return _flow((), None)
    index, worst = max(answers, key=lambda each: back_pressure_ratio(stream, each[1].progress))
    return _flow(map(_answer_of, (words for _, words in answers)), back_pressure_view(stream, worst.progress) | {"subtask_index": index})


def archived_flow(vertex_id: str, subtasks: Iterable[View]) -> View:
    """Return the same of an ended job, from the subtasks that `checkpoints_view` shows."""
    answered = [row for row in subtasks if row["vertex_id"] == vertex_id and row["answer"] is not None]
    if not answered:
        return _flow((), None)
    worst = max(answered, key=lambda row: row["back_pressure"]["ratio"])
    return _flow(_answers_of(answered), worst["back_pressure"] | {"subtask_index": worst["subtask_index"]})


def _answer_of(words: Acknowledgement) -> _Answer:
    progress = words.progress
    behind = [source.records_behind for source in progress.sources if source.records_behind >= 0]
    watermark = iso_time(max(0, progress.watermark_ms))
    return _Answer(iso_time(words.at_ms) or "", watermark, sum(behind) if behind else -1, progress.input_rows_per_second)


def _answers_of(rows: Iterable[View]) -> Iterator[_Answer]:
    for row in rows:
        answer = row["answer"]
        behind = [source["records_behind"] for source in answer["sources"] if source["records_behind"] >= 0]
        yield _Answer(answer["at"], answer["watermark"], sum(behind) if behind else -1, answer["input_rows_per_second"])


def _flow(answers: Iterable[_Answer], back_pressure: View | None) -> View:
    known = list(answers)
    behind = [answer.records_behind for answer in known if answer.records_behind >= 0]
    return {
        "back_pressure": back_pressure,
        "busy": None,
        "watermark": min((answer.watermark for answer in known if answer.watermark is not None), default=None),
        "lag": sum(behind) if behind else None,
        "records_per_second": sum(answer.records_per_second for answer in known) if known else None,
        "flow_at": max((answer.at for answer in known), default=None),
    }
