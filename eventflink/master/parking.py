"""What is done about an internal input that cannot be decided: it is parked, its job fails, and an operator may try it again (P10).

Rules that read the state and return events; the data are in `follow_ups.py`. Whether an input can be decided is found out by the leader.
"""

from typing import Final

from eventflink.events.inputs import ReleaseParkedInput
from eventflink.events.log_events import GlobalFailureOccurred, InputParked, JobStatusChanged, LogEvent, ParkedInputReleased
from eventflink.master import inputs as i
from eventflink.master.job_master import JobMaster
from eventflink.master.requests import accepted, rejected
from eventflink.master.state import ClusterState
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import JOB_TRANSITIONS, FollowUpType, JobStatus
from eventflink.model.texts import cut_bytes

MAX_REASON_BYTES: Final = 1_024
MAX_SUBJECT_BYTES: Final = 256
_OF_NO_JOB: Final = frozenset({FollowUpType.MATCH_SLOTS, FollowUpType.FAIL_ALLOCATION})


def name_of(value: i.InternalInput) -> tuple[str, str]:
    """Return the type of an internal input and what it is about: what two of the same name lead to is parked together."""
    match value:
        case i.FollowUp():
            return value.follow_up_type, value.subject
        case i.HeartbeatTimeout():
            subject = value.instance_id
        case i.WorkerTerminated():
            subject = value.worker_id
        case i.BindInputs() | i.LoseInputs():
            subject = value.topic
        case i.RecordsSeen() | i.VersionsSeen() | i.TableNotSeen() | i.FileSeen() | i.FileMissed():
            subject = value.schedule_id
        case i.CleanupsCompleted():
            subject = ",".join(value.job_ids)
        case i.ArchivesWritten():
            subject = ",".join(archive.job_id for archive in value.archives)
        case _:
            subject = getattr(value, "job_id", "")
    return type(value).__name__, cut_bytes(subject, MAX_SUBJECT_BYTES)


def parking_of(state: ClusterState, value: i.InternalInput, error: Exception) -> InputParked:
    """Return the event that parks an input. It reads as little of the state as it can: that may be half changed.

    Where deciding it failed at one job of several, and that job is not about to end already, it is parked for this job alone.
    """
    input_type, subject = name_of(value)
    job_id: str | None = None
    if isinstance(error, i.Blamed) and _can_end(state, error.job_id):
        subject = job_id = error.job_id
    elif isinstance(value, i.FollowUp):
        allocation = state.slot_manager.allocations.get(subject)
        job_id = subject if value.follow_up_type not in _OF_NO_JOB else allocation.attempt.job_id if allocation is not None else None
    elif isinstance(value, i.RestartsDue | i.CheckpointDue | i.TimeLimitsDue | i.AdaptJob):
        job_id = value.job_id
    return InputParked(input_type, subject, job_id, cut_bytes(repr(error), MAX_REASON_BYTES))


def _can_end(state: ClusterState, job_id: str) -> bool:
    """Tell whether a job can fail, or its tasks are about to be cancelled: then nothing of it waits for long."""
    job = state.dispatcher.jobs.get(job_id)
    return job is not None and (_can_fail(job) or (FollowUpType.CANCEL_TASKS, job_id) in state.follow_ups.entries)


def _can_fail(job: JobMaster) -> bool:
    return not job.is_ending if job.closing is not None else JobStatus.FAILING in JOB_TRANSITIONS[job.status]


def decide_fail_job(state: ClusterState, job_id: str) -> list[LogEvent]:
    """Fail a job of which something is parked; one that ends already, or is suspended, stays as it is, and one that is closed ends."""
    job = state.dispatcher.jobs.get(job_id)
    why = next((f"{name[0]} could not be decided: {p.reason}" for name, p in state.follow_ups.parked.items() if p.job_id == job_id), None)
    if job is None or why is None or not _can_fail(job):
        return []
    if job.closing is not None:
        return job.decide_closing_abort(why)
    failure = GlobalFailureOccurred(job_id, FailureCause("InputParked", why))
    return [failure, JobStatusChanged(job_id, job.status, JobStatus.FAILING, why)]


def decide_release_parked_input(state: ClusterState, command: ReleaseParkedInput) -> list[LogEvent]:
    """Try a parked input again, or drop it; nothing is dropped that the state still wants done."""
    name = state.follow_ups.name_of(command.parked_id)
    if name is None:
        return [rejected(command, "UnknownParkedInput", f"parked input not found: '{command.parked_id}'")]
    if not command.retry and state.follow_ups.parked[name].wanted:
        return [rejected(command, "StillWanted", f"{' '.join(filter(None, name))} is still to be done: try it again, or end what wants it")]
    return [accepted(command), ParkedInputReleased(command.parked_id, command.retry, command.actor)]
