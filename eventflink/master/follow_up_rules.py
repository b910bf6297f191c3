"""What each entry of the queue of follow-ups (`follow_ups.py`) leads to: one decision takes the head out, and says what follows (P10a)."""

from eventflink.events.log_events import FollowUpDecided, LogEvent
from eventflink.master import adaptive_scheduler, default_scheduler
from eventflink.master.checkpoint_coordinator import decide_broken_checkpoint
from eventflink.master.failover import decide_restarts
from eventflink.master.inputs import FollowUp
from eventflink.master.parking import decide_fail_job
from eventflink.master.settings import Context
from eventflink.master.slot_failures import decide_fail_allocation
from eventflink.master.slot_matching import decide_matches
from eventflink.master.state import ClusterState
from eventflink.model.statuses import FollowUpType, SchedulerType


def decide_follow_up(state: ClusterState, follow_up: FollowUp, context: Context) -> list[LogEvent]:
    """Decide the head of the queue."""
    subject, jobs, now_ms = follow_up.subject, state.dispatcher.jobs, context.now_ms
    match follow_up.follow_up_type:
        case FollowUpType.SCHEDULE_TASKS if jobs[subject].scheduler is SchedulerType.ADAPTIVE and jobs[subject].closing is None:
            events = adaptive_scheduler.decide_schedule(jobs[subject], adaptive_scheduler.resources_at(state, context))
        case FollowUpType.SCHEDULE_TASKS:
            events = default_scheduler.decide_schedule(jobs[subject], state.slot_manager, now_ms)
        case FollowUpType.MATCH_SLOTS:
            events = decide_matches(state.slot_manager, spread=context.settings.evenly_spread_out_slots)
        case FollowUpType.CANCEL_TASKS:
            events = jobs[subject].decide_task_cancellations()
        case FollowUpType.COMPLETE_JOB:
            completion = jobs[subject].decide_completion(context)
            archives = state.job_store.decide_archives(completion, context.settings)
            events = [*completion, *archives, *state.schedules.decide_follow(completion, context)]
        case FollowUpType.FAIL_ALLOCATION:
            events = decide_fail_allocation(state, subject, now_ms)
        case FollowUpType.RESTART_TASKS:
            events = decide_restarts(jobs[subject], now_ms)
        case FollowUpType.ABORT_CHECKPOINT:
            events = decide_broken_checkpoint(jobs[subject])
        case FollowUpType.FAIL_JOB:
            events = decide_fail_job(state, subject)
    return [FollowUpDecided(follow_up.follow_up_type, subject), *events]
