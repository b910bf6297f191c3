"""A job that a test submitted: where it stands, what it left, how it failed.

Asked of the masters each time, nothing is kept; a change of leader in between shows only as time.
"""

import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self

from eventflink.documents.checkpoints import CompletedCheckpoint
from eventflink.documents.failures import FailureOfJob
from eventflink.documents.one_job import ExecutionGraphInfo, SubtaskInfo
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ClusterUnreachable, RequestRefused, RequestTimedOut
from eventflink.gateways.outputs import find_output
from eventflink.jobs.plain_rows import python_rows
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.stack_traces import cut_stack_trace
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.testing.failures import Unexpected

DEFAULT_TIMEOUT_S: Final = 180.0
"""The first job of a cluster waits for Spark as well, which takes a minute on a busy machine."""

REQUEST_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.05
_SHOWN_EXCEPTIONS: Final = 3
_SHOWN_TRACE_LINES: Final = 12
_NO_ANSWER: Final = (ClusterUnreachable, RequestTimedOut)
"""What a crashed leader or broker looks like from here, until somebody leads again."""

_NOT_YET: Final = ("StreamsNotReady", "JobNotRunning")
"""Why a savepoint is refused while a crashed task starts again."""


class JobsCluster(Protocol):
    """What a job asks of the cluster that has it."""

    access: ClusterAccess
    savepoint_directory: str

    @property
    def gateway(self) -> DispatcherGateway:
        """The way to whoever leads."""

    def describe(self) -> str:
        """Say how the cluster is."""


class JobHandle:
    """One job. As a context manager it cancels the job at the end of the block, if it has not ended by then: a stream never does.

    Examples:
        >>> def test_a_stream_can_be_stopped(eventflink_cluster):
        ...     with eventflink_cluster.submit("stream.yaml") as job:
        ...         job.wait_until_running("orders")
        ...         assert job.stop_with_savepoint()

    """

    def __init__(self, cluster: JobsCluster, job_id: str) -> None:
        self._cluster = cluster
        self.job_id = job_id

    def __repr__(self) -> str:
        return f"JobHandle({self.job_id!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.has_ended:
            self.cancel()

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def status(self) -> JobStatus:
        """Where the job stands now."""
        return self._cluster.gateway.request_job_status(self.job_id)

    @property
    def has_ended(self) -> bool:
        """Whether the job has finished, failed or been cancelled."""
        return self.status in TERMINAL_JOB_STATUSES

    def details(self) -> ExecutionGraphInfo:
        """Return the whole job: vertices, subtasks, attempts, restarts, as the Python gateway gives it."""
        return self._cluster.gateway.request_job(self.job_id)

    def exceptions(self) -> list[FailureOfJob]:
        """Return the failures, the newest first, with what each led to."""
        return self._cluster.gateway.request_job_exceptions(self.job_id)

    def result(
        self, vertex: str | None = None, *, output: str = "default", limit: int = 100_000, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> list[dict[str, Any]]:
        """Wait for the job to finish and return the rows that a vertex left, in the order of its subtasks.

        Args:
            vertex: whose; None: of the one whose output no other vertex reads.
            output: which of its outputs.
            limit: with more rows than that the result is refused: it is not one to look at row by row.
            timeout_s: how long the job may take.

        """
        self.wait(timeout_s=timeout_s)
        found = find_output(self.details(), vertex, output)
        rows = python_rows(found.to_arrow(limit + 1))
        if len(rows) > limit:
            raise ValueError(f"vertex '{found.vertex_id}' left more than {limit} rows; give a higher limit, or look at them with Spark")
        return rows

    # -- savepoints ------------------------------------------------------------------------------------------------

    def savepoint(self, directory: Path | str | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Take a savepoint and return its path; the job goes on.

        It waits for a leader, and until all streams run. This and the two methods below may be called in a thread of their own: so a test
        crashes something in the middle of a savepoint.

        Args:
            directory: where the savepoint gets a directory of its own; None: one among the cluster's temporary directories.
            timeout_s: how long all of it may take.

        Raises:
            CheckpointFailed: it was aborted, for instance because a task died; the job goes on.
            RequestRefused: the leader refuses it; the message says why.

        """
        return self._take_savepoint(lambda gateway: gateway.trigger_savepoint, directory, timeout_s)

    def stop_with_savepoint(self, directory: Path | str | None = None, *, drain: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Take a savepoint after which nothing is read, wait until the job is FINISHED, and return the path; otherwise as `savepoint`.

        With `drain` what the sources have by then is read first.
        """
        return self._take_savepoint(
            lambda gateway: partial(gateway.stop_with_savepoint, drain=drain), directory, timeout_s, JobStatus.FINISHED
        )

    def cancel_with_savepoint(self, directory: Path | str | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Take a savepoint after which nothing is read, wait until the job is CANCELED, and return the path; otherwise as `savepoint`."""
        return self._take_savepoint(
            lambda gateway: partial(gateway.trigger_savepoint, cancel_job=True), directory, timeout_s, JobStatus.CANCELED
        )

    def _take_savepoint(
        self,
        method_of: Callable[[DispatcherGateway], Callable[..., CompletedCheckpoint]],
        directory: Path | str | None,
        timeout_s: float,
        end: JobStatus | None = None,
    ) -> str:
        """Have a savepoint taken, also by the leader that comes after a crash, and wait for the job's end if it is to have one."""
        target = self._cluster.savepoint_directory if directory is None else str(directory)
        deadline = time.monotonic() + timeout_s
        request_id = str(uuid.uuid4())  # Asked again after a silence, it is the same savepoint.

        def taken() -> str:
            nonlocal request_id
            try:
                left_s = max(deadline - time.monotonic(), _POLL_S)
                return method_of(gateway)(self.job_id, target, left_s, actor="eventflink.testing", request_id=request_id).savepoint_path
            except RequestRefused as refused:
                if refused.code not in _NOT_YET:
                    raise
                request_id = str(uuid.uuid4())
                return ""

        def ended() -> bool:
            return gateway.request_job_status(self.job_id) is end

        # A gateway is for one thread.
        with DispatcherGateway(self._cluster.access, request_timeout_s=REQUEST_TIMEOUT_S) as gateway:
            path: str = self._wait_for(taken, "ready for a savepoint, or the savepoint was not complete,", timeout_s)
            if end is not None:
                self._wait_for(ended, end, max(deadline - time.monotonic(), _POLL_S))
        return path

    # -- acting and waiting ----------------------------------------------------------------------------------------

    def cancel(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Cancel the job and wait until it is; what has ended already stays as it is."""
        try:
            self._cluster.gateway.cancel_job(self.job_id, actor="eventflink.testing")
        except RequestRefused:
            if not self.has_ended:
                raise
        self._wait_for(lambda: self.has_ended, JobStatus.CANCELED, timeout_s)

    def wait(self, status: JobStatus | str = JobStatus.FINISHED, timeout_s: float = DEFAULT_TIMEOUT_S) -> Self:
        """Wait until the job has this status; raises `Unexpected` when it ends with another one, or when the time is over."""
        wanted = JobStatus(status)

        def reached() -> bool:
            now = self.status
            if now is not wanted and now in TERMINAL_JOB_STATUSES:
                raise Unexpected(f"job {self.job_id} is {now}, and was to be {wanted}\n{self.describe()}")
            return now is wanted

        self._wait_for(reached, wanted, timeout_s)
        return self

    def wait_until_running(self, vertex: str | None = None, *, attempt: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> Self:
        """Wait until all subtasks of a vertex, or of the job, run in this attempt or a later one."""

        def running() -> bool:
            return all(s.state is ExecutionState.RUNNING and s.attempt >= attempt for _, s in self._live_subtasks(vertex, None))

        self._wait_for(running, f"running in {vertex or 'all vertices'}", timeout_s)
        return self

    def running_subtask(self, vertex: str | None, subtask: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> tuple[str, SubtaskInfo]:
        """Wait until a subtask of this index runs, of this vertex or of any; return its vertex and it."""

        def running() -> list[tuple[str, SubtaskInfo]]:
            return [(v, s) for v, s in self._live_subtasks(vertex, subtask) if s.state is ExecutionState.RUNNING]

        found: list[tuple[str, SubtaskInfo]] = self._wait_for(running, f"running in {vertex or 'any vertex'}[{subtask}]", timeout_s)
        return found[0]

    def _live_subtasks(self, vertex: str | None, subtask: int | None) -> list[tuple[str, SubtaskInfo]]:
        """Return the subtasks that are meant, of which there is at least one, of a job that has not ended."""
        job = self.details()
        meant = [(v, s) for v in job.vertices if vertex in (None, v.vertex_id) for s in v.subtasks if subtask in (None, s.subtask_index)]
        if not meant:
            has = ", ".join(f"{v.vertex_id} ({v.parallelism} subtasks)" for v in job.vertices)
            raise ValueError(f"job {self.job_id} has no {vertex or 'vertex with'}[{subtask}]; it has {has}")
        if job.is_archived:
            raise Unexpected(f"job {self.job_id} is {job.status}, and was to run\n{self.describe()}")
        return [(v.vertex_id, s) for v, s in meant]

    def _wait_for(self, condition: Callable[[], Any], wanted: str, timeout_s: float) -> Any:
        deadline = time.monotonic() + timeout_s
        silence = ""
        while True:
            try:
                if value := condition():
                    return value
                silence = ""
            except _NO_ANSWER as error:
                silence = f"\n{error}"
            if time.monotonic() > deadline:
                raise Unexpected(f"job {self.job_id} was not {wanted} within {timeout_s:g} s\n{self.describe()}{silence}")
            time.sleep(_POLL_S)

    # -- telling ---------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say where the job stands, its tasks, its last failures, and how the cluster is: what the errors of the waits end with."""
        try:
            job = self.details()
            failures = self.exceptions()[:_SHOWN_EXCEPTIONS]
        except _NO_ANSWER as error:
            return f"nobody answers for it: {error}\n{self._cluster.describe()}"
        tasks = [f"{v.vertex_id}[{s.subtask_index}]#{s.attempt} {s.state}" for v in job.vertices for s in v.subtasks]
        lines = [f"it is {job.status} after {job.restarts} restarts; tasks: {', '.join(tasks[:50])}"]
        if job.cause is not None:
            lines.append(f"cause: {job.cause.failure_type}: {job.cause.message}")
        for failure in failures:
            cause = failure.cause
            lines.append(f"{failure.task} failed at {failure.at}: {cause.failure_type}: {cause.message}")
            trace = cut_stack_trace((cause.stack_trace or "").strip(), lambda text: text.count("\n") < _SHOWN_TRACE_LINES)
            lines += [f"    {line}" for line in trace.splitlines()[-_SHOWN_TRACE_LINES:]]
        return "\n".join([*lines, self._cluster.describe()])
