"""A dry run as a document: what a request would lead to, event by event, in a sentence, and as a difference of two states."""

from collections import Counter
from typing import Final

from eventflink.audit.difference import difference_between, moment_of
from eventflink.documents.dry_run import DryRunPage, WhyRefused
from eventflink.documents.log import EventInWords
from eventflink.documents.one_job import WouldBeReused
from eventflink.events.inputs import FencedJobCommand, JobSubmission, Request, RerunJob
from eventflink.events.log_events import FollowUpDecided, JobReuseDecided, LogEvent, RequestRejected
from eventflink.events.wording import details_of, subject_of
from eventflink.leadership.dry_run import dry_run
from eventflink.leadership.fold import Fold
from eventflink.model.reuse import VertexReuse
from eventflink.views.jobs_and_cluster import reuse_view
from eventflink.views.plain import fields_of

MAX_EVENTS: Final = 200
MAX_DIFFERENCES: Final = 100

_TOLD: Final = {
    "TaskCancellationRequested": ("1 task is cancelled", "{} tasks are cancelled"),
    "TaskScheduled": ("1 task is scheduled", "{} tasks are scheduled"),
    "SlotAllocated": ("1 slot is allocated", "{} slots are allocated"),
    "SlotFreed": ("1 slot is freed", "{} slots are freed"),
    "RegionRestarted": ("1 task is restarted", "{} tasks are restarted"),
    "JobSuspensionRequested": ("1 job is suspended", "{} jobs are suspended"),
    "JobCancellationRequested": ("1 job is cancelled", "{} jobs are cancelled"),
    "JobFailureDismissed": ("1 failure is dismissed", "{} failures are dismissed"),
    "CheckpointTriggered": ("1 checkpoint begins", "{} checkpoints begin"),
}
"""What is said of an outcome, by the events that there are of it."""


def dry_run_view(fold: Fold, request: Request) -> DryRunPage:
    """Return what a request would lead to; `fold` is of no use afterwards."""
    leader_id, job_master_id = fold.acceptance.leader_id, None
    if isinstance(request, FencedJobCommand) and (job := fold.master.dispatcher.jobs.get(request.job_id)) is not None:
        job_master_id = job.job_master_id or None
    rerun_of = request.rerun_of if isinstance(request, RerunJob) else ""
    before = moment_of(fold)
    outcome = dry_run(fold, request)
    told = [event for event in outcome.events if not isinstance(event, FollowUpDecided)]
    refusal = next((event for event in told if isinstance(event, RequestRejected) and event.request_id == request.request_id), None)
    return DryRunPage(
        accepted=refusal is None,
        refusal=WhyRefused(code=refusal.code, message=refusal.message) if refusal is not None else None,
        sentence=_sentence(request, refusal, told),
        events=[EventInWords(type=type(e).__name__, subject=subject_of(e), details=details_of(e)) for e in told[:MAX_EVENTS]],
        events_total=len(told),
        is_whole=outcome.is_whole,
        reuse=[WouldBeReused(vertex_id=each.vertex_id, **fields_of(reuse_view(each, rerun_of))) for each in _reuse_among(told)],
        differences=difference_between(before, moment_of(fold), MAX_DIFFERENCES),
        leader_id=leader_id,
        job_master_id=job_master_id,
    )


def _reuse_among(events: list[LogEvent]) -> tuple[VertexReuse, ...]:
    return next((event.vertices for event in events if isinstance(event, JobReuseDecided)), ())


def _sentence(request: Request, refusal: RequestRejected | None, events: list[LogEvent]) -> str:
    named = f"the submission of {request.subject}" if isinstance(request, JobSubmission) else f"{type(request).__name__} {request.subject}"
    if refusal is not None:
        return f"{named} would be refused: {refusal.message}"
    counts = Counter(type(event).__name__ for event in events)
    reuse = _reuse_among(events)
    said = [f"{sum(each.is_reused for each in reuse)} of {len(reuse)} vertices are reused"] if reuse else []
    said += [one if counts[name] == 1 else many.format(counts[name]) for name, (one, many) in _TOLD.items() if counts[name]]
    waiting = counts["SlotRequested"] - counts["SlotAllocated"]
    if waiting > 0:
        said.append(f"{waiting} slot request{'s wait' if waiting > 1 else ' waits'}")
    return f"{named} would be accepted: {', '.join(said) or 'nothing else follows at once'}"
