"""Waiting for a job's end by following the log, with a live table for people or lines for everything else."""

import time
from collections.abc import Callable
from typing import Final, Self

from rich.live import Live

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.job_progress import JobProgress
from eventflink.cli.session import Session
from eventflink.events.log_events import JobResultStored, JobSubmitted, LogEvent
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.follow import LogFollower, follow_request
from eventflink.gateways.request_channel import Accepted
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import JobStatus

_POLL_S: Final = 0.25
_HINT_EVERY_S: Final = 5.0


def exit_code_of(status: JobStatus) -> ExitCode:
    """Return what a job that ended so means for the command that waited for it."""
    return ExitCode.OK if status is JobStatus.FINISHED else ExitCode.NEGATIVE


def wait_for_end(
    session: Session,
    job_id: str,
    follower: LogFollower,
    *,
    timeout_s: float | None,
    quiet: bool,
    hint: Callable[[JobProgress], str] | None = None,
    began_s: float | None = None,
) -> JobProgress:
    """Follow the log from where the follower stands, before or at the job's submission, until the job has its result.

    `hint` says in one line what the job is waiting for; without a terminal it is printed every five seconds. `timeout_s` counts from
    `began_s` of the monotonic clock, by default from now.

    Raises:
        CommandFailed: `timeout_s` is over; the job is still running.
        LogUnreadable, ClusterUnreachable: the log cannot be followed.

    """
    deadline = Deadline.after(timeout_s, began_s)
    progress = JobProgress(job_id)
    with _Display(session, quiet=quiet, hint=hint) as display:
        while progress.result is None:
            for event in follower.accepted_events(_POLL_S):
                if progress.apply(event):
                    display.show(progress)
            display.pass_time(progress)
            if deadline.is_over():
                seen = f"; its last failure: {progress.last_failure}" if progress.last_failure else ""
                what = f"job {job_id} has not ended within {timeout_s:g} s ({progress.status}); it is still running{seen}"
                raise CommandFailed(ExitCode.UNREACHABLE, what)
    return progress


def wait_for_end_after(session: Session, accepted: Accepted, *, timeout_s: float | None, began_s: float, quiet: bool) -> JobProgress:
    """Wait for the end of the job that an accepted submission is about; raises as `wait_for_end` does.

    A job that was submitted before, and whose beginning is trimmed from the log, is asked of the masters: they know it, and show no tasks.
    """

    def is_submitted(event: LogEvent) -> bool:
        return isinstance(event, JobSubmitted) and event.job_id == accepted.job_id

    deadline = Deadline.after(timeout_s, began_s)
    try:
        follower = follow_request(session.access, accepted, is_submitted, deadline)
    except ClusterUnreachable as error:
        if not deadline.is_over():
            raise
        # With little left Kafka had no time to answer: that it does not would be too much said.
        what = f"job {accepted.job_id} is accepted; what became of it is not known after {timeout_s:g} s: {error}"
        raise CommandFailed(ExitCode.UNREACHABLE, what) from error
    with follower:
        if not follower.is_trimmed:
            return wait_for_end(session, accepted.job_id, follower, timeout_s=timeout_s, began_s=began_s, quiet=quiet)
    with DispatcherGateway(session.access, deadline=deadline) as gateway:
        ended = gateway.request_job_result(accepted.job_id, timeout_s=deadline.left_s())
    progress = JobProgress(accepted.job_id)
    cause = FailureCause(ended.cause.failure_type, ended.cause.message, ended.cause.stack_trace) if ended.cause is not None else None
    progress.apply(JobResultStored(job_id=ended.job_id, status=ended.status, cause=cause, net_run_time_ms=ended.net_run_time_ms))
    return progress


class _Display:
    """Shows a job's progress on standard error: live on a terminal, a line per change of status elsewhere, or nothing."""

    def __init__(self, session: Session, *, quiet: bool, hint: Callable[[JobProgress], str] | None) -> None:
        self._console = session.err
        self._quiet = quiet
        self._hint = hint
        self._hinted_at = time.monotonic()
        self._live: Live | None = None
        self._last_line = ""

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: JobProgress) -> None:
        if self._live is not None:
            self._live.update(progress.draw(self._hint(progress) if self._hint else ""))
        elif not self._quiet:
            line = progress.describe_status()
            if line != self._last_line:
                self._console.print(line, markup=False)
                self._last_line = line

    def pass_time(self, progress: JobProgress) -> None:
        """Show the hint again: on a terminal in place, elsewhere as a line every five seconds."""
        if self._hint is None or self._quiet:
            return
        if self._live is not None:
            self.show(progress)
        elif time.monotonic() - self._hinted_at >= _HINT_EVERY_S:
            self._hinted_at = time.monotonic()
            self._console.print(f"{progress.job_id} {progress.status}: {self._hint(progress)}", markup=False)
