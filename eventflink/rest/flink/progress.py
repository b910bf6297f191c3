"""What the subtasks of streams said at the last checkpoint, as the metrics of Flink that mean the same, and some of our own.

Rows of a batch are no counters: what Flink counts from the start of a task, such as `numRecordsIn`, is not offered.
"""

from typing import NamedTuple

from eventflink.documents.checkpoints import BackPressure, JobCheckpoints, StreamAnswer
from eventflink.documents.one_job import JobInfo
from eventflink.rest.flink.shapes import epoch_ms

WATERMARK = "currentInputWatermark"

Metrics = dict[str, float]
"""By name."""


class AnsweredSubtask(NamedTuple):
    """A subtask that was asked."""

    subtask_index: int
    answer: StreamAnswer
    back_pressure: BackPressure


def answers_of(checkpoints: JobCheckpoints, vertex_id: str) -> list[AnsweredSubtask]:
    """Return the subtasks of a vertex that have answered."""
    return [
        AnsweredSubtask(row.subtask_index, row.answer, row.back_pressure)
        for row in checkpoints.subtasks
        if row.vertex_id == vertex_id and row.answer is not None and row.back_pressure is not None
    ]


def metrics_of_subtask(row: AnsweredSubtask) -> Metrics:
    """Return the metrics of a subtask that has answered. Times are in milliseconds."""
    answer = row.answer
    behind = [source.records_behind for source in answer.sources if source.records_behind >= 0]
    metrics: Metrics = {
        "numRecordsInPerSecond": answer.input_rows_per_second,
        "backPressuredTimeMsPerSecond": round(1000 * row.back_pressure.ratio),
        "lastBatchId": answer.batch_id,
        "lastBatchInputRows": answer.input_rows,
        "lastBatchDurationMs": answer.batch_duration_ms,
        "lateRowsDropped": answer.late_rows_dropped,
        "processedRowsPerSecond": answer.processed_rows_per_second,
        "stateRows": answer.state_rows,
        "stateBytes": answer.state_bytes,
    }
    if behind:
        metrics["pendingRecords"] = sum(behind)
    if answer.watermark is not None:
        metrics[WATERMARK] = epoch_ms(answer.watermark)
    return metrics


def metrics_of_job(job: JobInfo, checkpoints: JobCheckpoints) -> Metrics:
    """Return the metrics of a job, from what `job_view` and `checkpoints_view` show."""
    counts, completed, restored = checkpoints.counts, checkpoints.latest.completed, checkpoints.latest.restored
    metrics = metrics_of_restarts(job.restarts)
    if checkpoints.settings is None:
        return metrics
    metrics |= {
        "totalNumberOfCheckpoints": counts.triggered,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
    }
    if completed is not None:
        metrics |= {
            "lastCheckpointDuration": completed.duration_ms,
            "lastCheckpointSize": completed.state_bytes,
            "lastCompletedCheckpointId": completed.checkpoint_id,
        }
    if restored is not None:
        metrics["lastCheckpointRestoreTimestamp"] = epoch_ms(restored.at)
    return metrics


def metrics_of_restarts(restarts: int) -> Metrics:
    """Return the metrics that tell how often a job was restarted."""
    return {"numRestarts": restarts, "fullRestarts": restarts}
