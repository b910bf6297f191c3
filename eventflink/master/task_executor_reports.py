"""What TaskExecutors register and report, and what the master answers: slot reports, offers and refusals, states of attempts.

A report that is late, stale or of somebody else is skipped by name. A TaskExecutor bounds what it says, and the master does not rely on
that: events of its own repeat it (for each attempt that ends with its instance, for each task that reads an output), so what is too long
is cut off, and an attempt whose outputs cannot be told to their readers fails. Nothing here changes anything.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from eventflink.events import log_events as e
from eventflink.events.inputs import SlotOffer, SlotOfferRefusal, SlotReport, TaskManagerRegistration, TaskStateReport
from eventflink.events.log_events import LogEvent
from eventflink.master.cluster_shutdown import REASON
from eventflink.master.exception_history import bounded_cause
from eventflink.master.execution_graph import Subtask
from eventflink.master.failover import decide_failure, decide_refusal
from eventflink.master.job_master import STARTING_STATES, JobMaster
from eventflink.master.requests import MAX_MESSAGE_LENGTH
from eventflink.master.resource_manager import refused
from eventflink.master.settings import Context
from eventflink.master.slots import Allocation
from eventflink.master.state import ClusterState
from eventflink.model.attempts import (
    MAX_ACCUMULATOR_NAME_LENGTH,
    MAX_ACCUMULATORS,
    MAX_DOUBLE,
    MAX_LONG,
    MAX_SNAPSHOTS,
    MAX_SOURCE_LENGTH,
    UNKNOWN_COUNT,
    Accumulators,
    AttemptId,
    AttemptStatus,
    FailureCause,
    IOMetrics,
    OutputLocation,
)
from eventflink.model.statuses import ExecutionState, SlotState
from eventflink.model.stream_progress import MAX_NUMBER
from eventflink.model.texts import cut_bytes

MAX_CAUSE_LENGTH: Final = 16_384
MAX_STACK_TRACE_LENGTH: Final = 98_304
MAX_OUTPUT_NAME_LENGTH: Final = 128
MAX_LOCATION_LENGTH: Final = 4_096
MAX_FILES: Final = 2**31 - 1
MAX_DIGEST_LENGTH: Final = 128

_ENDS: Final = (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)


def decide_task_manager_registration(state: ClusterState, registration: TaskManagerRegistration) -> list[LogEvent]:
    """Register an instance; not while the cluster is shut down, nor a worker that was given up."""
    if state.shutdown.is_under_way:
        return [refused(registration, REASON)]
    if (given_up := state.workers.given_up.get(registration.task_manager_id)) is not None:
        return [refused(registration, f"this worker was given up: {given_up}")]
    return state.resource_manager.decide_registration(registration)


def decide_slot_report(state: ClusterState, report: SlotReport) -> list[LogEvent]:
    """Compare what an instance has with what the state expects: what is missing fails, what is unknown is cancelled."""
    if not state.resource_manager.is_current(report.task_manager_id, report.instance_id):
        return state.resource_manager.decide_foreign_report(report)
    held = state.slot_manager.task_managers[report.task_manager_id]
    if 0 < report.number <= held.slot_report_number:
        return [_skipped(f"SlotReport {report.number} of {report.instance_id}: it was reconciled, or is older than one that was")]
    present = {a.attempt_id for a in report.attempts}
    # Only what this instance has acknowledged before can be missing (P16): its slot is ALLOCATED then.
    missing = [
        slot.allocation_id
        for slot in held.slots
        if slot.state is SlotState.ALLOCATED and _is_missing(state, slot.allocation_id, report.instance_id, present)
    ]
    # Who shares a slot with one that is missing fails with it, and so is to end there.
    unknown = tuple([a for a in report.attempts if not _expects(state, a, report.instance_id, missing)])
    place = (report.task_manager_id, report.instance_id)
    reconciled = e.TaskManagerReportReconciled(*place, tuple(missing), unknown, report.number, report.ready)
    return [reconciled, *state.blocklist.judge(report), *state.resource_manager.judge_spark(report)]


def _is_missing(state: ClusterState, allocation_id: str, instance_id: str, present: set[AttemptId]) -> bool:
    """Tell whether an allocation that is not given up already has lost an attempt."""
    allocation = state.slot_manager.held_by(allocation_id, instance_id)
    return allocation is not None and any(a not in present and _is_acknowledged(state, allocation, a) for a in allocation.attempts)


def _is_acknowledged(state: ClusterState, allocation: Allocation, attempt: AttemptId) -> bool:
    """Tell whether the TaskExecutor has said of an attempt that it has it.

    Who has a slot for itself is acknowledged with the slot; of one that shares it the first state that is reported says so.
    """
    if not allocation.slot_sharing_group:
        return True
    return state.job_and_subtask(attempt)[1].state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING)


def _expects(state: ClusterState, status: AttemptStatus, instance_id: str, missing: Collection[str] = ()) -> bool:
    subtask = state.live_subtask(status.attempt_id)
    if subtask is None or subtask.allocation_id in missing:
        return False
    return state.slot_manager.held_by(subtask.allocation_id, instance_id) is not None


def decide_slot_offer(state: ClusterState, offer: SlotOffer) -> list[LogEvent]:
    """Take a slot as confirmed: PENDING to ALLOCATED."""
    allocation = state.slot_manager.held_by(offer.allocation_id, offer.instance_id)
    if allocation is None or state.slot_manager.state_of(allocation) is not SlotState.PENDING:
        return [_skipped(f"SlotOffer of {offer.allocation_id}: it is not pending on that instance")]
    return [e.SlotOffered(offer.allocation_id)]


def decide_slot_offer_refusal(state: ClusterState, refusal: SlotOfferRefusal, context: Context) -> list[LogEvent]:
    """Fail the attempt whose slot was refused; it may ask for another one."""
    allocation = state.slot_manager.held_by(refusal.allocation_id, refusal.instance_id)
    if allocation is None:
        return [_skipped(f"SlotOfferRefusal of {refusal.allocation_id}: that instance does not hold it")]
    reason = cut_bytes(refusal.reason, MAX_MESSAGE_LENGTH)
    named = AttemptId(allocation.attempt.job_id, refusal.vertex_id, refusal.subtask_index, refusal.attempt)
    if named not in allocation.attempts:
        return [_skipped(f"SlotOfferRefusal of {refusal.allocation_id}: {named} does not hold it")]
    job, subtask = state.job_and_subtask(named)
    returned = e.SlotShareReturned(refusal.allocation_id, *named) if allocation.others else None
    return [*decide_refusal(job, subtask, reason, context.now_ms), returned or e.SlotOfferRejected(refusal.allocation_id, reason)]


def decide_task_state_report(state: ClusterState, report: TaskStateReport, context: Context) -> list[LogEvent]:
    """Take the new state of a live attempt."""
    attempt = report.attempt_id
    subtask = state.live_subtask(attempt)
    if subtask is None or state.slot_manager.held_by(subtask.allocation_id, report.instance_id) is None:
        return [_skipped(f"{report.execution_state} of {attempt}: not a live attempt of that instance")]
    said = report.execution_state
    if said in (ExecutionState.INITIALIZING, ExecutionState.RUNNING):
        return _advance(attempt, subtask, said) or [_skipped(f"{said}: the attempt is {subtask.state} already")]
    if said not in _ENDS:
        return [_skipped(f"{said} is nothing that a TaskExecutor reports")]
    returned = state.slot_manager.decide_return(attempt, subtask.allocation_id)
    return [*_decide_end(state.dispatcher.jobs[report.job_id], subtask, report, context.now_ms), returned]


def _decide_end(job: JobMaster, subtask: Subtask, report: TaskStateReport, now_ms: int) -> list[LogEvent]:
    """End an attempt as its TaskExecutor says, or as it was asked to."""
    attempt = job.attempt_of(subtask)
    if report.execution_state is ExecutionState.FAILED:
        cause = report.cause or FailureCause("Unknown", "the TaskExecutor gave no cause")
        cause = bounded_cause(cause, MAX_CAUSE_LENGTH, MAX_STACK_TRACE_LENGTH)
        return decide_failure(job, subtask, cause, now_ms, report.lost_inputs)
    if subtask.exceeds_time_limit:
        return decide_failure(job, subtask, FailureCause("Unknown", "it was told to end"), now_ms)
    # What is to start again has no result: no reader may see what is about to be replaced.
    if subtask.state is ExecutionState.CANCELING or subtask.key in job.restarts.due:
        return [e.TaskStateChanged(*attempt, subtask.state, ExecutionState.CANCELED)]
    if report.execution_state is ExecutionState.CANCELED:
        cause = FailureCause("UnexpectedCancellation", "the TaskExecutor cancelled the attempt on its own")
        return decide_failure(job, subtask, cause, now_ms)
    if fault := _find_fault_of_outputs(report.outputs):
        return decide_failure(job, subtask, FailureCause("OutputsUnusable", fault), now_ms)
    counted = (_bounded(report.io), _bounded_accumulators(report.accumulators))
    return [*_advance(attempt, subtask, ExecutionState.RUNNING), e.TaskFinished(*attempt, report.outputs, *counted)]


def _advance(attempt: AttemptId, subtask: Subtask, to_state: ExecutionState) -> list[LogEvent]:
    """Return the transitions from where a starting attempt stands to where it is said to be."""
    if subtask.state not in STARTING_STATES:
        return []
    path = STARTING_STATES[STARTING_STATES.index(subtask.state) : STARTING_STATES.index(to_state) + 1]
    return [e.TaskStateChanged(*attempt, before, after) for before, after in pairwise(path)]


def _skipped(message: str) -> e.InputsSkipped:
    return e.InputsSkipped(1, cut_bytes(message, MAX_MESSAGE_LENGTH))


def _bounded(io: IOMetrics | None) -> IOMetrics | None:
    """Return counts whose sums over all subtasks of a job are longs; those that cannot be are not known, and snapshots that can be."""
    if io is None:
        return None
    counts = (io.read_records, io.read_bytes, io.write_records, io.write_bytes)
    read_records, read_bytes, write_records, write_bytes = [n if 0 <= n <= MAX_NUMBER else UNKNOWN_COUNT for n in counts]
    snapshots = [each for each in io.snapshots if 1 <= len(each.source) <= MAX_SOURCE_LENGTH and -1 <= each.snapshot_id <= MAX_LONG]
    return IOMetrics(read_records, read_bytes, write_records, write_bytes, tuple(snapshots[:MAX_SNAPSHOTS]))


def _bounded_accumulators(said: Accumulators | None) -> Accumulators | None:
    """Return the first counters that a TaskExecutor would let a task have; it is the one that tells the task."""
    if said is None:
        return None
    longs = {each.name: each for each in said.longs if 1 <= len(each.name) <= MAX_ACCUMULATOR_NAME_LENGTH}
    doubles = {
        each.name: each
        for each in said.doubles
        if 1 <= len(each.name) <= MAX_ACCUMULATOR_NAME_LENGTH and abs(each.value) <= MAX_DOUBLE and each.name not in longs
    }
    kept_longs = tuple(longs.values())[:MAX_ACCUMULATORS]
    return Accumulators(kept_longs, tuple(doubles.values())[: MAX_ACCUMULATORS - len(kept_longs)])


def _find_fault_of_outputs(outputs: Sequence[OutputLocation]) -> str:
    """Return why outputs cannot be the result of an attempt, or nothing."""
    seen: set[str] = set()
    for each in outputs:
        if not 1 <= len(each.output) <= MAX_OUTPUT_NAME_LENGTH:
            return f"an output has a name of {len(each.output)} characters; it may have 1 to {MAX_OUTPUT_NAME_LENGTH}"
        if not 1 <= len(each.location) <= MAX_LOCATION_LENGTH:
            return f"the location of output '{each.output}' has {len(each.location)} characters; it may have 1 to {MAX_LOCATION_LENGTH}"
        if each.output in seen:
            return f"the output '{each.output}' is reported twice"
        if not (0 <= each.rows <= MAX_NUMBER and 1 <= each.files <= MAX_FILES and 0 <= each.size_bytes <= MAX_NUMBER):
            counts = f"{each.rows} rows in {each.files} files of {each.size_bytes} bytes"
            return f"the output '{each.output}' is reported with {counts}: it has to say what was written"
        if not 1 <= len(each.digest) <= MAX_DIGEST_LENGTH:
            return f"the output '{each.output}' is reported with a digest of {len(each.digest)} characters"
        seen.add(each.output)
    return ""
