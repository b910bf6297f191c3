"""The checkpoints of a job as queries show them, the newest checkpoint first.

What `jobs_and_cluster.py` says of all views holds here as well.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from eventflink.documents.checkpoints import (
    CheckpointRow,
    CheckpointsPage,
    CheckpointsSummary,
    CountedCheckpoints,
    JobCheckpoints,
    NewestCheckpoints,
    OutputOfStream,
    QueryStart,
    RestoredCheckpoint,
    SavepointOfCheckpoint,
    StreamAnswer,
    StreamOfSubtask,
)
from eventflink.master.checkpoints import Acknowledgement, Checkpoint, Checkpoints, StreamStart, streams_of
from eventflink.master.execution_graph import SubtaskKey
from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph import StreamDefinition
from eventflink.model.stream_progress import StreamOutputProgress
from eventflink.views.back_pressure import back_pressure_view
from eventflink.views.plain import fields_of, iso_time

MAX_SUBTASKS: Final = 1_000
"""How many subtasks of streams are shown, at most."""


def checkpoints_view(job: JobMaster) -> JobCheckpoints:
    """Return the checkpoints of a job, and where each subtask of a stream stood when it was last asked."""
    page = checkpoints_page_of(job)
    if (checkpoints := job.checkpoints) is None:
        return JobCheckpoints(**fields_of(page))
    last_words = checkpoints.last_words
    keys = [(vertex.vertex, subtask.key) for vertex in streams_of(job.execution_graph) for subtask in vertex.subtasks]
    shown = islice(keys, MAX_SUBTASKS)
    subtasks = [stream_view(checkpoints, last_words, key, vertex.stream) for vertex, key in shown if vertex.stream]
    return JobCheckpoints(**fields_of(page), subtasks=subtasks, subtasks_total=len(keys))


def checkpoints_page_of(job: JobMaster) -> CheckpointsPage:
    """Return the same without the subtasks, which have their progress with them."""
    history = [_row(checkpoint) for checkpoint in reversed(job.checkpoints.history)] if job.checkpoints is not None else []
    summary = fields_of(checkpoints_summary(job))
    return CheckpointsPage(**summary, job_id=job.job_id, name=job.execution_graph.graph.name, status=job.status, history=history)


def checkpoints_summary(job: JobMaster) -> CheckpointsSummary:
    """Return the checkpoints of a job without their history."""
    if (checkpoints := job.checkpoints) is None:
        return CheckpointsSummary()
    pending = checkpoints.pending
    return CheckpointsSummary(
        settings=checkpoints.settings,
        counts=CountedCheckpoints(
            triggered=checkpoints.triggered_count,
            in_progress=int(pending is not None),
            completed=checkpoints.completed_count,
            failed=checkpoints.failed_count,
            restored=checkpoints.restored_count,
        ),
        latest=NewestCheckpoints(
            completed=_row_if_any(checkpoints.latest),
            savepoint=_row_if_any(checkpoints.latest_savepoint),
            failed=_row_if_any(checkpoints.latest_failed),
            restored=_restored(checkpoints),
        ),
        pending=_row_if_any(pending.checkpoint if pending is not None else None),
        retained=[checkpoint.checkpoint_id for checkpoint in checkpoints.completed],
    )


def _row_if_any(checkpoint: Checkpoint | None) -> CheckpointRow | None:
    return _row(checkpoint) if checkpoint is not None else None


def _row(checkpoint: Checkpoint) -> CheckpointRow:
    view = fields_of(checkpoint)
    del view["triggered_at_ms"]
    if checkpoint.savepoint is not None:
        view["savepoint"] = SavepointOfCheckpoint(**fields_of(checkpoint.savepoint))
    asked = {"actor": checkpoint.actor or None, "request_id": checkpoint.request_id or None}
    return CheckpointRow(**view | asked, triggered_at=iso_time(checkpoint.triggered_at_ms) or "")


def _restored(checkpoints: Checkpoints) -> RestoredCheckpoint | None:
    """Return the newest start of a query that went on after a batch of an earlier attempt."""
    restored = [(key, start) for key, start in checkpoints.starts.items() if start.restored_batch_id >= 0]
    if not restored:
        return None
    (vertex_id, index), start = max(restored, key=lambda each: each[1].at_ms)
    return RestoredCheckpoint(
        at=iso_time(start.at_ms) or "", task=f"{vertex_id}[{index}]#{start.attempt}", batch_id=start.restored_batch_id
    )


def output_view(output: StreamOutputProgress) -> OutputOfStream:
    """Return what an output has got."""
    view = fields_of(output)
    return OutputOfStream(written_at=iso_time(max(0, view.pop("written_at_ms"))), **view)


def stream_view(
    checkpoints: Checkpoints, last_words: Mapping[SubtaskKey, Acknowledgement], key: SubtaskKey, stream: StreamDefinition
) -> StreamOfSubtask:
    """Return how the query of a subtask of a stream began, and where it stood when it was last asked."""
    start, answer = checkpoints.starts.get(key), last_words.get(key)
    return StreamOfSubtask(
        task=f"{key[0]}[{key[1]}]",
        vertex_id=key[0],
        subtask_index=key[1],
        start=_start(start) if start is not None else None,
        answer=_answer(answer) if answer is not None else None,
        back_pressure=back_pressure_view(stream, answer.progress) if answer is not None else None,
    )


def _start(start: StreamStart) -> QueryStart:
    view = fields_of(start)
    return QueryStart(at=iso_time(view.pop("at_ms")) or "", **view)


def _answer(answer: Acknowledgement) -> StreamAnswer:
    said = answer.progress
    view = fields_of(said) | {"sources": list(said.sources), "partition_lags": list(said.partition_lags)}
    view |= {"outputs": [output_view(output) for output in said.outputs], "watermark": iso_time(max(0, view.pop("watermark_ms")))}
    return StreamAnswer(attempt=answer.attempt, at=iso_time(answer.at_ms) or "", **view)
