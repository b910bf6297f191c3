"""The checkpoints of a job as queries show them: plain values, ready for JSON, the newest checkpoint first.

What `jobs_and_cluster.py` says of all views holds here as well.
"""

import dataclasses
from collections.abc import Mapping
from itertools import islice
from typing import Final

from eventflink.master.checkpoints import Acknowledgement, Checkpoint, Checkpoints, streams_of
from eventflink.master.execution_graph import SubtaskKey
from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph import StreamDefinition
from eventflink.model.statuses import JobStatus
from eventflink.model.stream_progress import StreamOutputProgress
from eventflink.views.back_pressure import back_pressure_view
from eventflink.views.plain import View, fields_of, iso_time

MAX_SUBTASKS: Final = 1_000
"""How many subtasks of streams are shown, at most."""


def checkpoints_view(job: JobMaster) -> View:
    """Return the checkpoints of a job, and where each subtask of a stream stood when it was last asked."""
    view = checkpoints_summary(job)
    if (checkpoints := job.checkpoints) is None:
        return view
    last_words = checkpoints.last_words
    keys = [(vertex.vertex, subtask.key) for vertex in streams_of(job.execution_graph) for subtask in vertex.subtasks]
    shown = islice(keys, MAX_SUBTASKS)
    return view | {
        "history": checkpoint_history(job),
        "subtasks": [stream_view(checkpoints, last_words, key, vertex.stream) for vertex, key in shown if vertex.stream],
        "subtasks_total": len(keys),
    }


def checkpoint_history(job: JobMaster) -> list[View]:
    """Return the newest checkpoints that have ended, the newest first."""
    return [_checkpoint_view(checkpoint) for checkpoint in reversed(job.checkpoints.history)] if job.checkpoints is not None else []


def checkpoints_summary(job: JobMaster) -> View:
    """Return what `checkpoints_view` shows, without the history and the subtasks."""
    view = no_checkpoints(job.job_id, job.execution_graph.graph.name, job.status)
    if (checkpoints := job.checkpoints) is None:
        return view
    pending = checkpoints.pending
    counts = {
        "triggered": checkpoints.triggered_count,
        "in_progress": int(pending is not None),
        "completed": checkpoints.completed_count,
        "failed": checkpoints.failed_count,
        "restored": checkpoints.restored_count,
    }
    latest = {
        "completed": _shown(checkpoints.latest),
        "savepoint": _shown(checkpoints.latest_savepoint),
        "failed": _shown(checkpoints.latest_failed),
        "restored": _restored(checkpoints),
    }
    return view | {
        "settings": dataclasses.asdict(checkpoints.settings),
        "counts": counts,
        "latest": latest,
        "pending": _shown(pending.checkpoint if pending is not None else None),
        "retained": [checkpoint.checkpoint_id for checkpoint in checkpoints.completed],
    }


def no_checkpoints(job_id: str, name: str, status: JobStatus) -> View:
    """Return the view of a job without streams."""
    latest = dict.fromkeys(("completed", "savepoint", "failed", "restored"))
    counts = dict.fromkeys(("triggered", "in_progress", "completed", "failed", "restored"), 0)
    view: View = {"job_id": job_id, "name": name, "status": status, "settings": None, "counts": counts, "latest": latest, "pending": None}
    return view | {"retained": [], "history": [], "subtasks": [], "subtasks_total": 0}


def _shown(checkpoint: Checkpoint | None) -> View | None:
    return _checkpoint_view(checkpoint) if checkpoint is not None else None


def _checkpoint_view(checkpoint: Checkpoint) -> View:
    view = dataclasses.asdict(checkpoint)
    del view["triggered_at_ms"]
    asked = {"actor": checkpoint.actor or None, "request_id": checkpoint.request_id or None}
    return view | {"triggered_at": iso_time(checkpoint.triggered_at_ms), **asked}


def _restored(checkpoints: Checkpoints) -> View | None:
    """Return the newest start of a query that went on after a batch of an earlier attempt."""
    restored = [(key, start) for key, start in checkpoints.starts.items() if start.restored_batch_id >= 0]
    if not restored:
        return None
    (vertex_id, index), start = max(restored, key=lambda each: each[1].at_ms)
    return {"at": iso_time(start.at_ms), "task": f"{vertex_id}[{index}]#{start.attempt}", "batch_id": start.restored_batch_id}


def output_view(output: StreamOutputProgress) -> View:
    """Return what an output has got."""
    view = fields_of(output)
    return view | {"written_at": iso_time(max(0, view.pop("written_at_ms")))}


def stream_view(
    checkpoints: Checkpoints, last_words: Mapping[SubtaskKey, Acknowledgement], key: SubtaskKey, stream: StreamDefinition
) -> View:
    """Return how the query of a subtask of a stream began, and where it stood when it was last asked."""
    start, answer = checkpoints.starts.get(key), last_words.get(key)
    view: View = {"task": f"{key[0]}[{key[1]}]", "vertex_id": key[0], "subtask_index": key[1], "start": None, "answer": None}
    if start is not None:
        view["start"] = fields_of(start) | {"at": iso_time(start.at_ms)}
        del view["start"]["at_ms"]
    if answer is not None:
        progress = fields_of(answer.progress)
        progress["sources"] = [fields_of(source) for source in progress["sources"]]
        progress["partition_lags"] = [fields_of(lag) for lag in progress["partition_lags"]]
        progress["outputs"] = [output_view(output) for output in answer.progress.outputs]
        progress["watermark"] = iso_time(max(0, progress.pop("watermark_ms")))
        view["answer"] = {"attempt": answer.attempt, "at": iso_time(answer.at_ms), **progress}
    view["back_pressure"] = back_pressure_view(stream, answer.progress) if answer is not None else None
    return view
