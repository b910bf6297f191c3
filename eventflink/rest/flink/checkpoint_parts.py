"""The parts of vertices and subtasks in a checkpoint, from what `checkpoints_view` keeps of the subtasks' answers.

It keeps the last answer of each subtask: those to the pending checkpoint, otherwise those to the newest that completed. Of another
checkpoint, and where the view does not show every subtask, the parts are not known, and none are made up.
"""

from typing import Any

from eventflink.documents.checkpoints import CheckpointRow, JobCheckpoints, StreamAnswer, StreamOfSubtask
from eventflink.documents.one_job import JobInfo
from eventflink.model.statuses import CheckpointStatus, ExecutionState
from eventflink.rest.flink.checkpoint_shapes import (
    CheckpointAlignmentInfo,
    CheckpointDurationInfo,
    SubtaskCheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
    TaskCheckpointSummary,
    summary_of,
)
from eventflink.rest.flink.shapes import NONE, epoch_ms


def answer_to(row: CheckpointRow, subtask: StreamOfSubtask) -> StreamAnswer | None:
    """Return the last answer of a subtask if it was to this checkpoint: there is one at a time, so its time tells."""
    answer = subtask.answer
    if answer is None:
        return None
    began, at = epoch_ms(row.triggered_at), epoch_ms(answer.at)
    is_to_it = at >= began if row.status is CheckpointStatus.IN_PROGRESS else began <= at <= began + row.duration_ms
    return answer if is_to_it and row.status is not CheckpointStatus.FAILED else None


def latest_ack_ms(row: CheckpointRow, subtasks: list[StreamOfSubtask]) -> int:
    """Return when the last of the subtasks answered; -1: none has."""
    return max((epoch_ms(answer.at) for answer in _answers(row, subtasks)), default=NONE)


def asked_by_vertex(job: JobInfo, view: JobCheckpoints, row: CheckpointRow) -> dict[str, list[StreamOfSubtask]]:
    """Return the subtasks that a checkpoint asked, by vertex; none where not all of them are known."""
    asked = [each for each in view.subtasks if answer_to(row, each) is not None]
    if row.status is CheckpointStatus.IN_PROGRESS:
        finished = {
            (vertex.vertex_id, subtask.subtask_index)
            for vertex in job.vertices
            for subtask in vertex.subtasks
            if subtask.state == ExecutionState.FINISHED
        }
        asked = [each for each in view.subtasks if each in asked or (each.vertex_id, each.subtask_index) not in finished]
    if len(asked) != row.subtasks:
        return {}
    parts: dict[str, list[StreamOfSubtask]] = {}
    for each in asked:
        parts.setdefault(each.vertex_id, []).append(each)
    return parts


def part_fields(row: CheckpointRow, asked: list[StreamOfSubtask], *, known: bool) -> dict[str, Any]:
    """Return what `TaskCheckpointStatistics` tells of the subtasks of one vertex that were asked, and whether that is known."""
    answered = _answers(row, asked)
    size = sum(each.state_bytes for each in answered) if known else NONE
    return {
        "id": row.checkpoint_id,
        "status": row.status,
        "latest_ack_timestamp": latest_ack_ms(row, asked),
        "checkpointed_size": size,
        "state_size": size,
        "end_to_end_duration": max((_duration_ms(row, each) for each in answered), default=NONE),
        "num_subtasks": len(asked),
        "num_acknowledged_subtasks": len(answered),
    }


def part_with_subtasks(row: CheckpointRow, asked: list[StreamOfSubtask], *, known: bool) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """Return the part of one vertex with the subtasks that were asked, and whether that is known."""
    answered = _answers(row, asked)
    sizes = summary_of([each.state_bytes for each in answered])
    durations = summary_of([_duration_ms(row, each) for each in answered])
    return TaskCheckpointStatisticsWithSubtaskDetails(
        **part_fields(row, asked, known=known),
        summary=TaskCheckpointSummary(checkpointed_size=sizes, state_size=sizes, end_to_end_duration=durations),
        subtasks=[_of_subtask(row, each) for each in asked],
    )


def _answers(row: CheckpointRow, asked: list[StreamOfSubtask]) -> list[StreamAnswer]:
    return [answer for each in asked if (answer := answer_to(row, each)) is not None]


def _duration_ms(row: CheckpointRow, answer: StreamAnswer) -> int:
    return epoch_ms(answer.at) - epoch_ms(row.triggered_at)


def _of_subtask(row: CheckpointRow, subtask: StreamOfSubtask) -> SubtaskCheckpointStatistics:
    answer = answer_to(row, subtask)
    if answer is None:
        return SubtaskCheckpointStatistics(class_name="pending", index=subtask.subtask_index, status="pending_or_failed")
    return SubtaskCheckpointStatistics(
        class_name="completed",
        index=subtask.subtask_index,
        status="completed",
        ack_timestamp=epoch_ms(answer.at),
        end_to_end_duration=_duration_ms(row, answer),
        checkpointed_size=answer.state_bytes,
        state_size=answer.state_bytes,
        checkpoint=CheckpointDurationInfo(),
        alignment=CheckpointAlignmentInfo(),
        start_delay=0,
        unaligned_checkpoint=False,
        aborted=False,
    )
