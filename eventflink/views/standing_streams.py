"""Streams that run and bring nothing to an end, in words: rows come, and the watermark does not move, so no window of theirs closes.

It is what the subtask said when it was asked last. A stream without rows, without a watermark, or without state holds nobody up.
"""

from typing import Final

from eventflink.master.checkpoints import Acknowledgement
from eventflink.master.execution_graph import SubtaskKey
from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph import StreamDefinition
from eventflink.model.statuses import ExecutionState
from eventflink.model.stream_progress import NO_WATERMARK, StreamProgress
from eventflink.views.plain import iso_time

STANDS_MS: Final = 60_000
"""For how long rows come before a watermark that does not move is a problem."""


def why_it_stands(stream: StreamDefinition, progress: StreamProgress) -> str:
    """Return that the watermark of a stream stands still while rows come, and what that means; "": it does not."""
    if progress.watermark_stands_ms < STANDS_MS or not progress.state_rows:
        return ""
    came = f"for {progress.watermark_stands_ms // 1000:,} s, in which {progress.rows_since_watermark:,} rows came"
    so = f"so no window ends, and its {progress.state_rows:,} rows of state stay"
    if progress.watermark_ms == NO_WATERMARK:
        return f"its watermark has not begun {came}, none of them with a time: {so}"
    slowest = " (of several sources the one that is furthest behind counts)" if len(stream.sources) > 1 else ""
    return f"its watermark has stood at {iso_time(progress.watermark_ms)} {came}{slowest}: {so}"


def standing_streams(job: JobMaster) -> list[tuple[SubtaskKey, str]]:
    """Return the subtasks of a job whose watermark stands still, by vertex and index, each with the reason."""
    if job.checkpoints is None:
        return []
    answers = job.checkpoints.last_words.items()
    return sorted([(key, why) for key, answer in answers if (why := _why_subtask_stands(job, key, answer))])


def _why_subtask_stands(job: JobMaster, key: SubtaskKey, answer: Acknowledgement) -> str:
    subtask = job.execution_graph.subtask(*key)
    if subtask is None or answer.attempt != subtask.attempt or subtask.state is not ExecutionState.RUNNING:
        return ""
    stream = job.execution_graph.vertices[key[0]].vertex.stream
    return why_it_stands(stream, answer.progress) if stream is not None else ""
