"""The parts of vertices and subtasks in a checkpoint, from what `checkpoints_view` keeps of the subtasks' answers.

It keeps the last answer of each subtask: those to the pending checkpoint, otherwise those to the newest that completed. Of another
checkpoint, and where the view does not show every subtask, the parts are not known, and none are made up.
"""

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
from eventflink.views.plain import View


def ack_ms(subtask: View) -> int:
    """Return when a subtask answered last; -1: never."""
    return epoch_ms(subtask["answer"]["at"]) if subtask["answer"] is not None else NONE


def has_answered(row: View, subtask: View) -> bool:
    """Tell whether the last answer of a subtask was to this checkpoint: there is one at a time, so its time tells."""
    began, at = epoch_ms(row["triggered_at"]), ack_ms(subtask)
    status = CheckpointStatus(row["status"])
    if status is CheckpointStatus.IN_PROGRESS:
        return at >= began
    duration: int = row["duration_ms"]
    return status is CheckpointStatus.COMPLETED and began <= at <= began + duration


def asked_by_vertex(job: View, view: View, row: View) -> dict[str, list[View]]:
    """Return the subtasks that a checkpoint asked, by vertex; none where not all of them are known."""
    if row["status"] == CheckpointStatus.IN_PROGRESS:
        finished = {
            (vertex["vertex_id"], subtask["subtask_index"])
            for vertex in job["vertices"]
            for subtask in vertex["subtasks"]
            if subtask["state"] == ExecutionState.FINISHED
        }
        asked = [each for each in view["subtasks"] if has_answered(row, each) or (each["vertex_id"], each["subtask_index"]) not in finished]
    else:
        asked = [each for each in view["subtasks"] if has_answered(row, each)]
    if len(asked) != row["subtasks"]:
        return {}
    parts: dict[str, list[View]] = {}
    for each in asked:
        parts.setdefault(each["vertex_id"], []).append(each)
    return parts


def part_fields(row: View, asked: list[View], *, known: bool) -> View:
    """Return what `TaskCheckpointStatistics` tells of the subtasks of one vertex that were asked, and whether that is known."""
    answered = [each for each in asked if has_answered(row, each)]
    size = sum(each["answer"]["state_bytes"] for each in answered) if known else NONE
    last = max((ack_ms(each) for each in answered), default=NONE)
    return {
        "id": row["checkpoint_id"],
        "status": row["status"],
        "latest_ack_timestamp": last,
        "checkpointed_size": size,
        "state_size": size,
        "end_to_end_duration": max((_duration_ms(row, each) for each in answered), default=NONE),
        "num_subtasks": len(asked),
        "num_acknowledged_subtasks": len(answered),
    }


def part_with_subtasks(row: View, asked: list[View], *, known: bool) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """Return the part of one vertex with the subtasks that were asked, and whether that is known."""
    answered = [each for each in asked if has_answered(row, each)]
    sizes = summary_of([each["answer"]["state_bytes"] for each in answered])
    durations = summary_of([_duration_ms(row, each) for each in answered])
    return TaskCheckpointStatisticsWithSubtaskDetails(
        **part_fields(row, asked, known=known),
        summary=TaskCheckpointSummary(checkpointed_size=sizes, state_size=sizes, end_to_end_duration=durations),
        subtasks=[_of_subtask(row, each) for each in asked],
    )


def _duration_ms(row: View, subtask: View) -> int:
    return ack_ms(subtask) - epoch_ms(row["triggered_at"])


def _of_subtask(row: View, subtask: View) -> SubtaskCheckpointStatistics:
    if not has_answered(row, subtask):
        return SubtaskCheckpointStatistics(class_name="pending", index=subtask["subtask_index"], status="pending_or_failed")
    size = subtask["answer"]["state_bytes"]
    return SubtaskCheckpointStatistics(
        class_name="completed",
        index=subtask["subtask_index"],
        status="completed",
        ack_timestamp=ack_ms(subtask),
        end_to_end_duration=_duration_ms(row, subtask),
        checkpointed_size=size,
        state_size=size,
        checkpoint=CheckpointDurationInfo(),
        alignment=CheckpointAlignmentInfo(),
        start_delay=0,
        unaligned_checkpoint=False,
        aborted=False,
    )
