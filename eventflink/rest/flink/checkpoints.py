"""The checkpoints of a job, as Flink's CheckpointingStatisticsHandler answers them. To trigger one is a command.

What the state has of the part of each vertex and subtask in a checkpoint is in `checkpoint_parts.py`.
"""

from typing import Final

from fastapi import APIRouter

from eventflink.documents.checkpoints import CheckpointRow, JobCheckpoints, SavepointOfCheckpoint
from eventflink.model.job_graph import CheckpointSettings
from eventflink.model.statuses import CheckpointRetention, CheckpointStatus
from eventflink.rest.errors import not_found
from eventflink.rest.flink.checkpoint_parts import asked_by_vertex, latest_ack_ms, part_fields, part_with_subtasks
from eventflink.rest.flink.checkpoint_shapes import (
    NOT_ADDRESSABLE,
    CheckpointConfigInfo,
    CheckpointCounts,
    CheckpointingStatistics,
    CheckpointStatistics,
    CheckpointSummary,
    ExternalizedCheckpointInfo,
    LatestCheckpoints,
    RestoredCheckpointStatistics,
    TaskCheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
    summary_of,
)
from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest, vertex_of
from eventflink.rest.flink.shapes import NONE, epoch_ms

NEVER_MS: Final = 2**63 - 1
"""Flink's interval where no checkpoints are due."""

router = APIRouter(prefix=ONE_JOB)


@router.get("/checkpoints")
async def checkpoints(reads: JobReadsOfRequest) -> CheckpointingStatistics:
    """Return the checkpoints of a job, the newest first."""
    _, view = await reads.job_and_checkpoints()
    _require_streams(view)
    latest, counts = view.latest, view.counts
    completed = [row for row in view.history if row.status == CheckpointStatus.COMPLETED]
    sizes = summary_of([row.state_bytes for row in completed])
    durations = summary_of([row.duration_ms for row in completed])
    restored = latest.restored
    return CheckpointingStatistics(
        counts=CheckpointCounts(
            restored=counts.restored,
            total=counts.triggered,
            in_progress=counts.in_progress,
            completed=counts.completed,
            failed=counts.failed,
        ),
        summary=CheckpointSummary(checkpointed_size=sizes, state_size=sizes, end_to_end_duration=durations),
        latest=LatestCheckpoints(
            completed=_of_row(view, latest.completed) if latest.completed is not None else None,
            savepoint=_of_row(view, latest.savepoint) if latest.savepoint is not None else None,
            failed=_of_row(view, latest.failed) if latest.failed is not None else None,
            restored=RestoredCheckpointStatistics(restore_timestamp=epoch_ms(restored.at)) if restored is not None else None,
        ),
        history=[_of_row(view, row) for row in _rows(view)],
    )


@router.get("/checkpoints/config")
async def checkpoint_config(reads: JobReadsOfRequest) -> CheckpointConfigInfo:
    """Return how checkpoints of a job are taken."""
    _, view = await reads.job_and_checkpoints()
    settings = _require_streams(view)
    return CheckpointConfigInfo(
        interval=settings.interval_ms or NEVER_MS,
        timeout=settings.timeout_ms,
        min_pause=settings.min_pause_ms,
        externalization=ExternalizedCheckpointInfo(delete_on_cancellation=settings.retention == CheckpointRetention.DELETE_ON_CANCELLATION),
        tolerable_failed_checkpoints=settings.tolerable_failed_checkpoints,
    )


@router.get("/checkpoints/details/{checkpointid}")
async def checkpoint_details(reads: JobReadsOfRequest, checkpointid: int) -> CheckpointStatistics:
    """Return a checkpoint with the part of each vertex; of a part that is not known there is no subtask, and the sizes are -1."""
    job, view = await reads.job_and_checkpoints()
    row = _row(view, checkpointid)
    asked = asked_by_vertex(job, view, row)
    parts = {
        vertex.vertex_id: TaskCheckpointStatistics(**part_fields(row, asked.get(vertex.vertex_id, []), known=bool(asked)))
        for vertex in job.vertices
    }
    return _of_row(view, row).model_copy(update={"tasks": parts})


@router.get("/checkpoints/details/{checkpointid}/subtasks/{vertexid}")
async def checkpoint_subtasks(reads: JobReadsOfRequest, checkpointid: int, vertexid: str) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """Return the part of a vertex in a checkpoint, with its subtasks; of a part that is not known there is none."""
    job, view = await reads.job_and_checkpoints()
    vertex_of(job, vertexid)
    row = _row(view, checkpointid)
    asked = asked_by_vertex(job, view, row)
    return part_with_subtasks(row, asked.get(vertexid, []), known=bool(asked))


def _require_streams(view: JobCheckpoints) -> CheckpointSettings:
    if view.settings is None:
        raise not_found(f"Checkpointing is not enabled for this job ({view.job_id}): it has no streams")
    return view.settings


def _rows(view: JobCheckpoints) -> list[CheckpointRow]:
    """Return the checkpoints that are known, the newest first."""
    return [*([view.pending] if view.pending is not None else []), *view.history]


def _row(view: JobCheckpoints, checkpoint_id: int) -> CheckpointRow:
    _require_streams(view)
    latest = (view.latest.completed, view.latest.savepoint, view.latest.failed)
    found = next((row for row in (*_rows(view), *latest) if row is not None and row.checkpoint_id == checkpoint_id), None)
    if found is None:
        raise not_found(f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
    return found


def _of_row(view: JobCheckpoints, row: CheckpointRow) -> CheckpointStatistics:
    status, savepoint = row.status, row.savepoint
    triggered, duration = epoch_ms(row.triggered_at), row.duration_ms
    last_answer = NONE
    if status is CheckpointStatus.COMPLETED:
        last_answer = triggered + duration
    elif status is CheckpointStatus.IN_PROGRESS:
        last_answer = latest_ack_ms(row, view.subtasks)
        duration = max(NONE, last_answer - triggered)
    made = CheckpointStatistics(
        class_name=status.lower(),
        id=row.checkpoint_id,
        status=status,
        is_savepoint=savepoint is not None,
        trigger_timestamp=triggered,
        latest_ack_timestamp=last_answer,
        checkpointed_size=row.state_bytes,
        state_size=row.state_bytes,
        end_to_end_duration=duration,
        num_subtasks=row.subtasks,
        num_acknowledged_subtasks=row.acknowledged,
        checkpoint_type=_type_of(savepoint),
    )
    if status is CheckpointStatus.COMPLETED:
        path = savepoint.path if savepoint is not None else NOT_ADDRESSABLE
        is_discarded = savepoint is None and row.checkpoint_id not in view.retained
        return made.model_copy(update={"external_path": path, "discarded": is_discarded})
    if status is CheckpointStatus.FAILED:
        message = f"{row.reason}: {row.message}" if row.message else row.reason
        return made.model_copy(update={"failure_timestamp": triggered + duration, "failure_message": message})
    return made


def _type_of(savepoint: SavepointOfCheckpoint | None) -> str:
    if savepoint is None:
        return "CHECKPOINT"
    return "SYNC_SAVEPOINT" if savepoint.stops_streams else "SAVEPOINT"
