"""What a thing is now, by the state at the end of the log, and what it waits for, if it does.

Where the masters have forgotten the thing, the log's last event about it is what counts.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from eventflink.audit.subjects import Subject, SubjectType
from eventflink.documents.waits import Wait
from eventflink.events.log_events import RequestAccepted
from eventflink.master.execution_graph import Execution, Subtask, SubtaskKey
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.rescaling import wanted_parallelism
from eventflink.master.uploads import PendingUpload
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.closing import runs_note
from eventflink.model.conditions import condition_in_words
from eventflink.model.statuses import ExecutionState, SlotState
from eventflink.views.exceptions import exception_view
from eventflink.views.jobs_and_cluster import reuse_of
from eventflink.views.plain import iso_time, reaction_of
from eventflink.views.standing_streams import standing_streams
from eventflink.views.waits import Waits, not_confirmed, parallelism_in_words

_TASKS_SHOWN: Final = 5


@dataclass(slots=True)
class Standing:
    """What a thing is now."""

    state: str
    facts: dict[str, Any] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    cause: FailureCause | None = None
    """The root cause of the failure; None: nothing has failed."""


def standing_of(subject: Subject, master: Master) -> Standing:
    """Return what the subject is in a state."""
    match subject.subject_type:
        case SubjectType.JOB:
            return _of_job(subject, master)
        case SubjectType.SUBTASK:
            return _of_subtask(subject, master)
        case SubjectType.ALLOCATION:
            return _of_allocation(subject, master)
        case SubjectType.TASK_MANAGER | SubjectType.INSTANCE:
            return _of_task_manager(subject, master)
        case SubjectType.REQUEST:
            return _of_request(subject, master)


def _of_job(subject: Subject, master: Master) -> Standing:
    job = master.dispatcher.jobs.get(subject.job_id)
    if job is None:
        result = subject.result
        facts: dict[str, Any] = {"evicted": True, "net_run_time_ms": result.net_run_time_ms if result is not None else None}
        if subject.root_failure is not None:
            facts["root_failure"] = str(subject.root_failure)
        return Standing(str(subject.job_status), facts, cause=result.cause if result is not None else None)
    vertices, strategy = job.execution_graph.vertices, job.restarts.strategy
    facts = {
        "name": job.execution_graph.graph.name,
        "since": iso_time(job.status_since_ms),
        "actor": job.actor or None,
        "tasks": {str(state): count for state, count in job.execution_graph.state_counts().items()},
        "restarts": job.restarts.count,
        "restart_strategy": strategy.strategy_type.lower().replace("_", "-") if strategy is not None else None,
        "failover_strategy": job.restarts.failover_strategy.lower(),
        "last_failure": _last_failure(job),
    }
    rescaled = {
        v: parallelism_in_words(job, v, master.slot_manager) for v in vertices if vertices[v].parallelism != wanted_parallelism(job, v)
    }
    if rescaled:
        facts["parallelism"] = rescaled
    if (closing := job.closing) is not None:
        ended = f"; its closing vertices were cancelled: {closing.abort_reason}" if closing.abort_reason else ""
        facts["closing"] = f"since {iso_time(closing.began_at_ms)} it is closed as {closing.outcome.status}{ended}"
    if closings := {v: note for v, each in vertices.items() if (note := runs_note(each.vertex, job.execution_graph.outcome))}:
        facts["closing_vertices"] = closings
    if skipped := {v: each.skip.in_words() for v, each in vertices.items() if each.skip is not None}:
        facts["skipped_vertices"] = skipped
    if job.reuse:
        facts["vertices"] = {
            vertex_id: f"{'is reused' if reuse.is_reused else 'runs'}: {reuse.why}"
            for vertex_id in job.reuse
            if (reuse := reuse_of(job, vertex_id)) is not None
        }
    if subject.root_failure is not None:
        facts["root_failure"] = str(subject.root_failure)
    return Standing(str(job.status), facts, _waits_of_job(job, list(job.execution_graph.subtasks()), master), job.cause)


def _last_failure(job: JobMaster) -> str | None:
    """Return which attempt failed last, and what that led to."""
    newest = job.exceptions.newest
    if newest is None:
        return None
    view = exception_view(newest)
    return f"{view.task}: {reaction_of(view)}"


def _waits_of_job(job: JobMaster, subtasks: list[Subtask], master: Master) -> list[Wait]:
    all_waits = Waits(master)
    waits = [wait for s in subtasks if (wait := all_waits.of_subtask(job, s)) is not None]
    shown = _first(waits)
    shown += _first([Wait(_name_of(job, key), why) for key, why in standing_streams(job)])
    if (until_ms := master.dispatcher.kept.get(job.job_id)) is not None:
        held = job.job_id in master.dispatcher.held()
        more = ", and while a job takes them that runs it again" if held else ""
        shown.append(Wait("the clean-up", f"its outputs are kept to be reused until {iso_time(until_ms)}{more}", iso_time(job.ended_at_ms)))
    dirty = master.dispatcher.dirty.get(job.job_id)
    if dirty is not None:
        again = f"; it failed {dirty.attempts} times, the next try is at {iso_time(dirty.retry_at_ms)}" if dirty.attempts else ""
        shown.append(Wait("the clean-up", f"the job's intermediate data are not removed yet{again}", iso_time(job.ended_at_ms)))
    return shown


def _name_of(job: JobMaster, key: SubtaskKey) -> str:
    subtask = job.execution_graph.vertices[key[0]].subtasks[key[1]]
    return str(AttemptId(job.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt))


def _first(waits: list[Wait]) -> list[Wait]:
    more = len(waits) - _TASKS_SHOWN
    asked = Wait(f"{more} more tasks", "'eventflink why JOB/VERTEX[INDEX]' tells of each")
    return [*waits[:_TASKS_SHOWN], asked] if more > 0 else waits


def _of_subtask(subject: Subject, master: Master) -> Standing:
    job = master.dispatcher.jobs.get(subject.job_id)
    subtask = job.execution_graph.subtask(subject.vertex_id, subject.subtask_index) if job is not None else None
    if job is None or subtask is None:
        return _of_ended_attempt(subject, subject.attempt or max(subject.ends, default=1), {"evicted": True}, None)
    attempt = subject.attempt or subtask.attempt
    execution = job.execution_graph.execution_of(AttemptId(job.job_id, subtask.vertex_id, subtask.subtask_index, attempt))
    facts: dict[str, Any] = {
        "attempt": attempt,
        "task_manager_id": (execution.task_manager_id if execution is not None else "") or None,
        "instance_id": (execution.instance_id if execution is not None else "") or None,
        "job_status": str(job.status),
    }
    vertex = job.execution_graph.vertices[subtask.vertex_id].vertex
    if (note := runs_note(vertex, job.execution_graph.outcome)) is not None:
        facts["runs"] = note
    if vertex.condition is not None:
        facts["runs"] = condition_in_words(vertex.condition)
    if execution is not None and execution.reused_from:
        facts["reused_from"] = execution.reused_from
    if attempt != subtask.attempt:
        facts["newest_attempt"] = subtask.attempt
        return _of_ended_attempt(subject, attempt, facts, execution)
    failed = subtask.last_failure if subtask.state is ExecutionState.FAILED else None
    facts |= {"allocation_id": subtask.allocation_id or None, "outputs": {o.output: o.location for o in subtask.outputs}}
    group = job.execution_graph.vertices[subtask.vertex_id].vertex.slot_sharing_group
    if group is not None:
        allocation = master.slot_manager.allocations.get(subtask.allocation_id)
        this = AttemptId(job.job_id, subtask.vertex_id, subtask.subtask_index, subtask.attempt)
        together = [str(a) for a in allocation.attempts if a != this] if allocation is not None else []
        facts |= {"slot_sharing_group": group, "shares_its_slot_with": ", ".join(together) or None}
    if (skip := job.execution_graph.vertices[subtask.vertex_id].skip) is not None:
        return Standing("SKIPPED", facts | {"skipped": skip.in_words()})
    wait = Waits(master).of_subtask(job, subtask)
    stands = [Wait(_name_of(job, key), why) for key, why in standing_streams(job) if key == subtask.key]
    return Standing(str(subtask.state), facts, [wait, *stands] if wait is not None else stands, failed)


def _of_ended_attempt(subject: Subject, attempt: int, facts: dict[str, Any], execution: Execution | None) -> Standing:
    """Return what an attempt was that is not its subtask's current one, as the log tells it, else as the state does."""
    end = subject.ends.get(attempt)
    state = end.state if end is not None else execution.end_state if execution is not None else None
    facts = {"attempt": attempt, **facts, "job_status": str(subject.job_status)}
    return Standing(str(state) if state is not None else "never ran", facts, cause=end.cause if end is not None else None)


def _of_allocation(subject: Subject, master: Master) -> Standing:
    attempt = str(AttemptId(subject.job_id, subject.vertex_id, subject.subtask_index, subject.attempt))
    slots = master.slot_manager
    allocation = slots.allocations.get(subject.allocation_id)
    if allocation is not None:
        facts = {
            "attempt": ", ".join(map(str, allocation.attempts)),
            "task_manager_id": allocation.task_manager_id,
            "instance_id": allocation.instance_id,
            "slot_index": allocation.slot_index,
        }
        if allocation.orphaned:
            return Standing("LOST", {**facts, "reason": allocation.orphaned})
        state = slots.state_of(allocation)
        waits = [Wait(attempt, not_confirmed(allocation.task_manager_id))] if state is SlotState.PENDING else []
        return Standing(str(state), facts, waits)
    request = slots.pending.get(subject.allocation_id)
    if request is not None:
        wait = Wait(attempt, Waits(master).why_no_slot(subject.allocation_id), iso_time(request.requested_at_ms))
        return Standing("REQUESTED", {"attempt": attempt}, [wait])
    return Standing("ended", {"attempt": attempt})


def _of_task_manager(subject: Subject, master: Master) -> Standing:
    managers, slots = master.resource_manager, master.slot_manager
    manager = managers.task_managers.get(subject.task_manager_id)
    if subject.subject_type is SubjectType.INSTANCE and (manager is None or manager.instance_id != subject.name):
        reason = managers.gone_instances.get(subject.name)
        return Standing("gone" if reason else "not registered", {"task_manager_id": subject.task_manager_id, "reason": reason})
    if manager is None:
        return Standing("not registered")
    held = [(a, slots.allocations[a]) for a in (s.allocation_id for s in slots.task_managers[subject.task_manager_id].slots) if a]
    facts = {
        "task_manager_id": subject.task_manager_id,
        "instance_id": manager.instance_id,
        "host": manager.host,
        "process_id": manager.process_id,
        "since": iso_time(manager.registered_at_ms),
        "slots": manager.slot_count,
        "slots_free": slots.get_number_free_slots_of(subject.task_manager_id),
        "slot_profile": str(manager.slot_profile) if manager.slot_profile is not None else None,
        "attempts": {allocation_id: ", ".join(map(str, allocation.attempts)) for allocation_id, allocation in held},
    }
    blocked = master.blocklist.task_managers.get(subject.task_manager_id)
    if blocked is not None:
        facts |= {"blocked": blocked.reason or "no reason was given", "blocked_by": blocked.actor}
        facts["blocked_until"] = iso_time(blocked.until_ms)
    waits = [Wait(str(a.attempt), not_confirmed(a.task_manager_id)) for _, a in held if slots.state_of(a) is SlotState.PENDING]
    return Standing("registered", facts, _first(waits))


def _of_request(subject: Subject, master: Master) -> Standing:
    answer = subject.answer
    if answer is None or isinstance(answer, RequestAccepted):
        job = master.dispatcher.jobs.get(subject.job_id)
        facts: dict[str, Any] = {"subject": subject.job_id}
        if job is not None:
            facts["job_status"] = str(job.status)
        upload = master.uploads.pending.get(subject.name)
        if upload is None:
            return Standing("accepted", facts)
        owner = upload.attempt if isinstance(upload, PendingUpload) else upload.task_manager_id
        return Standing("accepted", facts, [Wait(f"the {upload.file} of {owner}", f"{upload.task_manager_id} has not uploaded it yet")])
    return Standing("refused", {"subject": answer.subject}, cause=FailureCause(answer.code, answer.message))
