"""Streams that run and bring nothing to an end, in words: no window closes, nothing leaves their state, or nothing is written.

It is what the subtask said when it was asked last. A stream without rows, or without state, holds nobody up.
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

SILENT_MS: Final = 3_600_000
"""For how long an attempt reads rows and writes none before that is a problem: a window of a day is one, for its first day."""

GROWS_MS: Final = 3_600_000
GROWN_ROWS: Final = 10_000
"""For how long, and by how much, a state without a watermark grows before that is a problem: one for each customer grows as well."""


def why_it_stands(stream: StreamDefinition, progress: StreamProgress) -> str:
    """Return why nothing that a stream keeps comes to an end, and what that means; "": it does, or there is nothing."""
    return _why_watermark_stands(stream, progress) or _why_state_stays(progress) or _why_nothing_is_written(progress)


def _why_watermark_stands(stream: StreamDefinition, progress: StreamProgress) -> str:
    if progress.watermark_stands_ms < STANDS_MS or not progress.state_rows:
        return ""
    came = f"for {progress.watermark_stands_ms // 1000:,} s, in which {progress.rows_since_watermark:,} rows came"
    so = f"so no window ends, and its {progress.state_rows:,} rows of state stay"
    if progress.watermark_ms == NO_WATERMARK:
        return f"its watermark has not begun {came}, none of them with a time: {so}"
    slowest = " (of several sources the one that is furthest behind counts)" if len(stream.sources) > 1 else ""
    return f"its watermark has stood at {iso_time(progress.watermark_ms)} {came}{slowest}: {so}"


def _why_state_stays(progress: StreamProgress) -> str:
    """With a watermark rows leave the state when it passes them, which may be days away; without one, maybe never."""
    has_watermark = progress.watermark_ms != NO_WATERMARK or progress.rows_since_watermark
    if has_watermark or progress.state_grows_ms < GROWS_MS or progress.state_grown_rows < GROWN_ROWS:
        return ""
    return (
        f"its state has only grown for {progress.state_grows_ms // 60_000:,} min: by {progress.state_grown_rows:,} rows to "
        f"{progress.state_rows:,} ({progress.state_bytes:,} bytes); no row has left it, and without a watermark Spark takes none out"
    )


def _why_nothing_is_written(progress: StreamProgress) -> str:
    """One that has written before may have nothing to tell for a day; one that never has is looked at."""
    for output in progress.outputs:
        if output.rows_written == 0 and output.silent_ms >= SILENT_MS:
            came = f"{output.silent_ms // 60_000:,} min, in which {output.rows_since:,} rows came"
            return f"its output '{output.name}' ({output.location}) has got no row since the attempt began, for {came}"
    return ""


def standing_streams(job: JobMaster) -> list[tuple[SubtaskKey, str]]:
    """Return the subtasks of a job that bring nothing to an end, by vertex and index, each with the reason."""
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
