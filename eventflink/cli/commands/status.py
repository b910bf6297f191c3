"""`eventflink status`: one job with its tasks, or the cluster with its TaskManagers."""

from datetime import datetime

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_jobs
from eventflink.cli.drawing import print_pending_workers, seconds_until_now, styled, task_manager_table
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_cluster, ask_job, ask_past_cluster, ask_past_job
from eventflink.documents.cluster import ClusterStatus
from eventflink.documents.one_job import JobInfo, SlotRequirement, VertexInfo
from eventflink.model.durations import duration_text
from eventflink.model.job_queues import DEFAULT_QUEUE
from eventflink.model.plain_values import json_text
from eventflink.model.stack_traces import user_location
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus
from eventflink.model.texts import printable
from eventflink.views.plain import reaction_of


@click.command()
@click.argument("job_id", required=False, shell_complete=complete_jobs)
@click.option("--at", "place", metavar="PLACE", help="As it was at this offset of the log, or at this ISO 8601 time (UTC).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def status(session: Session, job_id: str | None, place: str | None, *, as_json: bool) -> int:
    """Show the job JOB_ID (the beginning of its id is enough), or without one the whole cluster."""
    if job_id:
        job = ask_past_job(session, job_id, place) if place is not None else ask_job(session, job_id)
        if as_json:
            session.print_json(job)
        else:
            _print_job(session, job, is_past=place is not None)
        return ExitCode.OK
    cluster = ask_past_cluster(session, place) if place is not None else ask_cluster(session)
    if as_json:
        session.print_json(cluster)
    else:
        _print_cluster(session, cluster)
    return ExitCode.OK


def _print_job(session: Session, view: JobInfo, *, is_past: bool) -> None:
    told_ms = view.duration_ms
    seconds = told_ms / 1000 if is_past else seconds_until_now(told_ms, view.submitted_at, view.ended_at)
    duration = f" {seconds:.3f} s, by {view.actor or '?'}"
    more = [f"runs {view.rerun_of} again"] if view.rerun_of else []
    after = f", after {view.after_job_id}" if view.after_job_id else ""
    more += [f"of schedule {view.schedule_id} for {view.instant}{after}"] if view.schedule_id else []
    more += [f"run again by {view.run_again_by}"] if view.run_again_by else []
    more += ["its failure is dismissed"] if view.failure_is_dismissed else []
    said = ", ".join([duration, *more])
    session.out.print(Text.assemble(f"{view.name} ({view.job_id}) ", styled(view.status), said))
    _print_settings(session, view, seconds)
    if view.cause:
        session.out.print(Text(f"{view.cause.failure_type}: {view.cause.message}", style="red"))
    for kind in view.slot_requirements:
        session.out.print(Text(_describe_requirement(kind)))
    for waiting in view.slot_requests:
        asks = f" that ask for {waiting.resources}" if waiting.resources else ""
        session.out.print(Text(f"{waiting.requests} slot requests{asks} wait: {waiting.why}", style="yellow"))
    _print_reuse(session, view)
    _print_closing(session, view)
    _print_parallelism(session, view)
    for exception in view.exceptions:
        cause = exception.cause
        message = cause.message.partition("\n")[0]
        place = f" ({found})" if (found := user_location(cause.stack_trace or "")) else ""
        session.out.print(
            Text(
                f"{exception.at} {exception.task} {cause.failure_type}: {message}{place} → {reaction_of(exception)}",
                style="yellow",
            )
        )
    if older := view.exceptions_total - len(view.exceptions):
        session.out.print(Text(f"{older} older failures: 'eventflink exceptions {view.job_id}'", style="dim"))
    has_groups = any(vertex.slot_sharing_group for vertex in view.vertices)
    table = Table()
    for heading in ("vertex", *(["group"] if has_groups else []), "subtask", "attempt", "state", "TaskManager", "last failure"):
        table.add_column(heading, justify="right" if heading in ("subtask", "attempt") else "left")
    for vertex in view.vertices:
        for subtask in vertex.subtasks:
            failure = subtask.last_failure
            table.add_row(
                Text(vertex.name),
                *([Text(vertex.slot_sharing_group or "")] if has_groups else []),
                str(subtask.subtask_index),
                str(subtask.attempt),
                styled(subtask.state) if not vertex.skipped else Text("skipped", style="dim"),
                Text(subtask.task_manager_id or ""),
                Text(f"{failure.failure_type}: {failure.message.splitlines()[0] if failure.message else ''}" if failure else ""),
            )
    session.out.print(table)


def _print_settings(session: Session, view: JobInfo, seconds: float) -> None:
    """Say what this run was given, after so many seconds of it: values of its parameters, and its time."""
    if view.description:
        session.out.print(Text(view.description))
    said = [f"owner: {view.owner}"] if view.owner else []
    said += [f"{name}={value}" if value else name for name, value in view.labels.items()]
    if said:
        session.out.print(Text(", ".join(said)))
    for title, url in view.links.items():
        session.out.print(Text(f"{title}: {url}"))
    if view.parameters:
        values = [f"{name}={value if isinstance(value, str) else json_text(value)}" for name, value in view.parameters.items()]
        session.out.print(Text(f"parameters: {', '.join(values)}"))
    if view.queue != DEFAULT_QUEUE or view.priority:
        session.out.print(Text(f"queue: {view.queue}, priority {view.priority}"))
    if view.suspended_because:
        session.out.print(Text(printable(f"suspended because: {view.suspended_because}")))
    if view.time_limit_ms is not None:
        session.out.print(Text(f"time limit: {duration_text(view.time_limit_ms)}{_describe_time_left(view, seconds)}"))


def _describe_time_left(view: JobInfo, seconds: float) -> str:
    """Return how much of its time a job has left after so many seconds; empty: it has ended, or ends."""
    if view.status is JobStatus.SUSPENDED:
        return ", which stands still while it is suspended"
    if view.fails_at is None:
        return ""
    ends_after = datetime.fromisoformat(view.fails_at) - datetime.fromisoformat(view.submitted_at)
    return f", {max(0, ends_after.total_seconds() - seconds):.0f} s left: it fails at {view.fails_at}"


def _print_reuse(session: Session, view: JobInfo) -> None:
    """Say until when outputs are kept, and of each vertex of a job that runs another one again whether it is reused, and why."""
    if view.outputs_kept_until:
        session.out.print(Text(f"its outputs are kept until {view.outputs_kept_until}, for 'eventflink rerun {view.job_id}'"))
    for vertex in view.vertices:
        if (reuse := vertex.reuse) is not None:
            session.out.print(Text(f"{vertex.vertex_id} {'is reused' if reuse.is_reused else 'runs'}: {reuse.why}"))


def _print_closing(session: Session, view: JobInfo) -> None:
    """Say how far the closing vertices of a job are, of each whether it runs and why, and of others why they were skipped."""
    if (closing := view.closing) is not None:
        until = f"at the latest until {closing.ends_at}" if view.status not in TERMINAL_JOB_STATUSES else ""
        until = f"cancelled: {closing.abort_reason}" if closing.abort_reason else until
        session.out.print(Text(f"closed since {closing.began_at} as {closing.outcome}{', ' if until else ''}{until}"))
    for vertex in view.vertices:
        if note := f"it was skipped, for {vertex.skipped}" if vertex.skipped else vertex.runs_note:
            session.out.print(Text(f"{vertex.vertex_id}: {note}"))


def _print_parallelism(session: Session, view: JobInfo) -> None:
    """Say of each vertex that has another parallelism than it wants, or waits, which and why."""
    for vertex in view.vertices:
        if vertex.parallelism_note or vertex.parallelism != vertex.wanted_parallelism:
            session.out.print(Text(f"{vertex.vertex_id}: {_describe_parallelism(vertex)}", style="yellow"))


def _describe_requirement(kind: SlotRequirement) -> str:
    of_group = f" of the slot sharing group '{kind.slot_sharing_group}'" if kind.slot_sharing_group else ""
    with_room = f" with room for {kind.resources}" if kind.resources else ""
    waiting = f", {kind.requested} tasks wait" if kind.requested else ""
    return f"slots{of_group}{with_room}: {kind.required} required, {kind.held} held{waiting}"


def _describe_parallelism(vertex: VertexInfo) -> str:
    """Return the parallelism of a vertex beside the one that it wants, and why it has another: `2 of 4 (waiting for slots: …)`."""
    note = f" ({vertex.parallelism_note})" if vertex.parallelism_note else ""
    return f"parallelism {vertex.parallelism} of {vertex.wanted_parallelism}{note}"


def _print_cluster(session: Session, cluster: ClusterStatus) -> None:
    jobs = ", ".join(f"{count} {name}" for name, count in sorted(cluster.jobs.items())) or "none"
    session.out.print(
        f"cluster '{session.cluster_id}': epoch {cluster.epoch}, log offset {cluster.log_offset}, "
        f"last decision {cluster.last_decision_at}\n"
        f"jobs: {jobs}\nslots: {cluster.slots_free} free of {cluster.slots}, {cluster.slots_pending} pending, "
        f"{cluster.slot_requests} requests wait",
        markup=False,
    )
    if (shutdown := cluster.shutdown) is not None:
        state = "has been shut down" if shutdown.is_over else "is being shut down"
        by = f", by {shutdown.actor}" if shutdown.actor else ""
        session.out.print(Text(f"the cluster {state} as {shutdown.application_status}{by}: {shutdown.diagnostics}", style="yellow"))
    session.out.print(task_manager_table(cluster))
    print_pending_workers(session, cluster.workers)
