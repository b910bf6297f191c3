"""What TaskExecutors report, and what the master answers: slot reports, offers and refusals, states of attempts, files.

Functions that read the state of the whole `Master` and return events; they change nothing. A report that is late, stale or of somebody
else is skipped by name.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from eventflink.events import log_events as e
from eventflink.events.inputs import FileUploadCompleted, SlotOffer, SlotOfferRefusal, SlotReport, TaskStateReport
from eventflink.events.log_events import LogEvent
from eventflink.master.answers import MAX_MESSAGE_LENGTH
from eventflink.master.failover import decide_refusal
from eventflink.master.slots import Allocation
from eventflink.model.attempts import AttemptId, AttemptStatus
from eventflink.model.statuses import ExecutionState, SlotState

if TYPE_CHECKING:
    from eventflink.master.master import Master


def decide_slot_report(master: "Master", report: SlotReport) -> list[LogEvent]:
    """Compare what an instance has with what the state expects: what is missing fails, what is unknown is cancelled."""
    if not master.resource_manager.is_current(report.task_manager_id, report.instance_id):
        return master.resource_manager.decide_foreign_report(report)
    present = {AttemptId(a.job_id, a.vertex_id, a.subtask_index, a.attempt) for a in report.attempts}
    # Only what this instance has acknowledged before can be missing (P16): its slot is ALLOCATED then.
    missing = [
        slot.allocation_id
        for slot in master.slot_manager.task_managers[report.task_manager_id].slots
        if slot.state is SlotState.ALLOCATED and _is_missing(master, slot.allocation_id, report.instance_id, present)
    ]
    # Who shares a slot with one that is missing fails with it, and so is to end there.
    unknown = tuple([a for a in report.attempts if not _expects(master, a, report.instance_id, missing)])
    return [e.TaskManagerReportReconciled(report.task_manager_id, report.instance_id, tuple(missing), unknown)]


def _is_missing(master: "Master", allocation_id: str, instance_id: str, present: set[AttemptId]) -> bool:
    """Tell whether an allocation that is not given up already has lost an attempt."""
    allocation = master.slot_manager.held_by(allocation_id, instance_id)
    return allocation is not None and any(a not in present and _is_acknowledged(master, allocation, a) for a in allocation.attempts)


def _is_acknowledged(master: "Master", allocation: Allocation, attempt: AttemptId) -> bool:
    """Tell whether the TaskExecutor has said of an attempt that it has it.

    Who has a slot for itself is acknowledged with the slot; of one that shares it the first state that is reported says so.
    """
    if not allocation.slot_sharing_group:
        return True
    return master.job_and_subtask(attempt)[1].state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING)


def _expects(master: "Master", status: AttemptStatus, instance_id: str, missing: Collection[str] = ()) -> bool:
    attempt = AttemptId(status.job_id, status.vertex_id, status.subtask_index, status.attempt)
    subtask = master.live_subtask(attempt)
    if subtask is None or subtask.allocation_id in missing:
        return False
    return master.slot_manager.held_by(subtask.allocation_id, instance_id) is not None


def decide_slot_offer(master: "Master", offer: SlotOffer) -> list[LogEvent]:
    """Take a slot as confirmed: PENDING to ALLOCATED."""
    allocation = master.slot_manager.held_by(offer.allocation_id, offer.instance_id)
    if allocation is None or master.slot_manager.state_of(allocation) is not SlotState.PENDING:
        return [_skipped(f"SlotOffer of {offer.allocation_id}: it is not pending on that instance")]
    return [e.SlotOffered(offer.allocation_id)]


def decide_slot_offer_refusal(master: "Master", refusal: SlotOfferRefusal, now_ms: int) -> list[LogEvent]:
    """Fail the attempt whose slot was refused; it may ask for another one."""
    allocation = master.slot_manager.held_by(refusal.allocation_id, refusal.instance_id)
    if allocation is None:
        return [_skipped(f"SlotOfferRefusal of {refusal.allocation_id}: that instance does not hold it")]
    reason = refusal.reason[:MAX_MESSAGE_LENGTH]
    named = AttemptId(allocation.attempt.job_id, refusal.vertex_id, refusal.subtask_index, refusal.attempt)
    if named not in allocation.attempts:
        return [_skipped(f"SlotOfferRefusal of {refusal.allocation_id}: {named} does not hold it")]
    job, subtask = master.job_and_subtask(named)
    returned = e.SlotShareReturned(refusal.allocation_id, *named) if allocation.others else None
    return [*decide_refusal(job, subtask, reason, now_ms), returned or e.SlotOfferRejected(refusal.allocation_id, reason)]


def decide_task_state_report(master: "Master", report: TaskStateReport, now_ms: int) -> list[LogEvent]:
    """Take the new state of a live attempt."""
    attempt = AttemptId(report.job_id, report.vertex_id, report.subtask_index, report.attempt)
    subtask = master.live_subtask(attempt)
    if subtask is None or master.slot_manager.held_by(subtask.allocation_id, report.instance_id) is None:
        return [_skipped(f"{report.execution_state} of {attempt}: not a live attempt of that instance")]
    returned = master.slot_manager.decide_return(attempt, subtask.allocation_id)
    return master.dispatcher.jobs[report.job_id].decide_report(report, returned, now_ms)


def decide_file_upload_completed(master: "Master", completed: FileUploadCompleted) -> list[LogEvent]:
    """Answer whoever waits for an upload."""
    request_id = completed.request_id
    upload = master.dispatcher.uploads.get(request_id) or master.task_manager_files.uploads.get(request_id)
    if upload is None or upload.instance_id != completed.instance_id:
        return [_skipped(f"upload {completed.request_id}: nobody waits for it from that instance")]
    return [e.FileUploaded(completed.request_id, completed.blob_key, completed.error)]


def _skipped(message: str) -> e.InputsSkipped:
    return e.InputsSkipped(1, message[:MAX_MESSAGE_LENGTH])
