"""The Dispatcher for callers: submit and cancel jobs, and ask what became of them.

A command that gets no answer is sent again under the same request id, which the masters answer again and never do twice (P8); a read goes
to any master. So a change of leader in between shows only as time. For many commands at once see `pipelined_client.py`.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Unpack

from eventflink.documents.checkpoints import CompletedCheckpoint, OperatorBackPressureStats, SubtaskBackPressure
from eventflink.documents.cluster import ClusterOverview
from eventflink.documents.failures import FailureOfJob
from eventflink.documents.jobs import JobList, JobStatuses
from eventflink.documents.one_job import ExecutionGraphInfo, JobResult
from eventflink.documents.runs import DEFAULT_NAMES, DEFAULT_RUNS, JobNamesPage, RunsPage
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.inputs import (
    CancelJob,
    DismissJobFailure,
    JobSubmission,
    ReleaseParkedInput,
    RequestFileUpload,
    RerunJob,
    RescaleJob,
    ResumeJob,
    ShutDownCluster,
    SuspendJob,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from eventflink.gateways.blocking import BlockingGateway, BlockingOptions
from eventflink.gateways.errors import RequestRefused
from eventflink.gateways.gateway import (
    DEFAULT_CHECKPOINT_TIMEOUT_S,
    DEFAULT_RESULT_TIMEOUT_S,
    CommandOptions,
    RequestOptions,
    header,
    method,
    read_as,
)
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.leader import finding_leader
from eventflink.gateways.reads import DEFAULT_MASTER_TIMEOUT_S, MAX_MASTERS, KnownMaster, MasterSilent, address_of
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.savepoints import remove_savepoint
from eventflink.gateways.schedule_methods import ScheduleMethods, parameters_of
from eventflink.gateways.steps import FindMasters, Get, Steps, ask, tell, work
from eventflink.model.attempts import AttemptId
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.job_graph import JobGraph
from eventflink.model.schedules import ScheduleDefinition
from eventflink.model.statuses import ApplicationStatus, JobStatus, SavepointMode, TaskFile

DEFAULT_JOBS: Final = 1_000

_FIND_TIMEOUT_S: Final = 5.0


def new_job_id() -> str:
    """Return a job id as Flink writes them: 32 hexadecimal digits."""
    return uuid.uuid4().hex


class DispatcherMethods(ScheduleMethods):
    """Requests to one cluster.

    Every read raises `ClusterUnreachable` when neither a REST process nor Kafka answered within `request_timeout_s`, every command
    `RequestRefused` (of the refusal's own type; `FencingTokenMismatch` by a leader that it is not for) and `RequestTimedOut`, whose
    `request_id` repeats it safely.
    """

    @method
    def find_leader(self, timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> Steps[LeaderHeartbeat]:
        """Return the heartbeat of the live leader: who it is and where its blob server is; raises as `leader.find_leader` does."""
        reads = self._reads
        return finding_leader(reads.access, timeout_s, clock=reads.clock, fraction=reads.fraction)

    # -- commands --------------------------------------------------------------------------------------------------

    @method
    def submit_job(self, job_graph: JobGraph, job_id: str | None = None, **options: Unpack[RequestOptions]) -> Steps[Accepted]:
        """Submit a job and wait until it is in the log."""
        return ask(JobSubmission(job_id=job_id or new_job_id(), job_graph=job_graph, **options))

    @method
    def rerun_job(
        self,
        rerun_of: str,
        job_id: str | None = None,
        parameters: Mapping[str, object] | None = None,
        *,
        failed: bool = False,
        from_vertices: Sequence[str] = (),
        job_graph: JobGraph | None = None,
        **options: Unpack[CommandOptions],
    ) -> Steps[Accepted]:
        """Run an ended job again, as another job, with its graph and code or with another graph of its name; wait until it is in the log.

        Parameters that are not named have the values of that job. A graph without code archives has those of that job. With `failed`,
        what it has finished is reused where it can be; with `from_vertices`, these and all that reads them run, and the rest is reused.
        Raises `UnknownJob` for a job that is not in the memory of the masters, `JobNotEnded`, `NothingFailed`, `InvalidParameters`, and
        `RequestRefused` with the code `UnknownVertex`.
        """
        given = parameters_of(parameters or {})
        named = tuple(from_vertices)
        new_id = job_id or new_job_id()
        return ask(
            RerunJob(
                job_id=new_id,
                rerun_of=rerun_of,
                parameters=given,
                failed=failed,
                from_vertices=named,
                job_graph=job_graph,
                **header(**options),
            )
        )

    @method
    def put_schedule(self, schedule_id: str, definition: ScheduleDefinition, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Make a schedule, or give it another definition, and wait until that is in the log.

        The archives of its job's code are in the blob store already. Raises `RequestRefused` with the code `ScheduleEnded` or
        `TooManySchedules`.
        """
        return self._put_schedule(schedule_id, definition, options)

    @method
    def dismiss_job_failure(self, job_id: str, reason: str = "", **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Remove a failed job from the problems of the cluster, and wait until that is in the log. Raises `JobNotFailed`."""
        return ask(DismissJobFailure(job_id=job_id, reason=reason, **header(**options)))

    @method
    def cancel_job(self, job_id: str, *, closing: bool = False, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Request the cancellation of a job and wait until the request is in the log; the job ends later.

        With `closing`, closing vertices that run are cancelled as well.
        """
        return ask(CancelJob(job_id=job_id, closing=closing, **header(**options)))

    @method
    def tell_cancel_job(self, job_id: str, **options: Unpack[CommandOptions]) -> Steps[str]:
        """Request the cancellation of a job without an answer; return the request's id once Kafka has it. The log tells a refusal."""
        return tell(CancelJob(job_id=job_id, **header(**options)))

    @method
    def suspend_job(self, job_id: str, reason: str = "", **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Stop a job without ending it: its attempts end, what has finished stays; wait until that is in the log.

        Raises `UnknownJob`, `JobTerminated`, and `JobEnding` for a job that fails or is being cancelled.
        """
        return ask(SuspendJob(job_id=job_id, reason=reason, **header(**options)))

    @method
    def resume_job(self, job_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Resume a suspended job with what had not finished, under a new JobMaster; raises as `suspend_job` does."""
        return ask(ResumeJob(job_id=job_id, **header(**options)))

    @method
    def shut_down_cluster(
        self,
        application_status: ApplicationStatus = ApplicationStatus.SUCCEEDED,
        diagnostics: str = "",
        *,
        cancel_jobs: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Steps[Accepted]:
        """End the whole cluster in order and wait until that is in the log; the end itself comes later (`ClusterStopped` in the log).

        Jobs are suspended, and resumed when masters are started again; with `cancel_jobs` they are cancelled. `ClusterShuttingDown`: the
        cluster is to end in another way already.
        """
        return ask(
            ShutDownCluster(application_status=application_status, diagnostics=diagnostics, cancel_jobs=cancel_jobs, **header(**options))
        )

    @method
    def retry_parked_input(self, parked_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Have what could not be decided tried again. `UnknownParkedInput`: nothing is parked under this id."""
        return ask(ReleaseParkedInput(parked_id=parked_id, **header(**options)))

    @method
    def drop_parked_input(self, parked_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Forget what could not be decided. `StillWanted`: it is still to be done; `UnknownParkedInput` as above."""
        return ask(ReleaseParkedInput(parked_id=parked_id, retry=False, **header(**options)))

    @method
    def request_file_upload(self, attempt: AttemptId, file: TaskFile, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Ask for a file of a task attempt; `FileUploaded` with the same request id follows in the log."""
        return ask(RequestFileUpload(**attempt._asdict(), file=file, **header(**options)))

    @method
    def request_rescale(self, job_id: str, vertex_id: str, parallelism: int, **options: Unpack[RequestOptions]) -> Steps[Accepted]:
        """Ask whichever JobMaster there is for another parallelism of a vertex; raises as the JobMaster's `rescale_job` does."""
        return ask(RescaleJob(job_id=job_id, vertex_id=vertex_id, parallelism=parallelism, **options))

    @method
    def request_checkpoint(self, job_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Ask for a checkpoint of a job's streams now; that it is complete, or was aborted, follows in the log.

        Raises:
            RequestRefused: with the codes of the JobMaster's `trigger_checkpoint`; nothing was changed.

        """
        return ask(TriggerCheckpoint(job_id=job_id, **header(**options)))

    @method
    def request_savepoint(
        self,
        job_id: str,
        target_directory: str = "",
        mode: SavepointMode = SavepointMode.CONTINUE,
        **options: Unpack[CommandOptions],
    ) -> Steps[Accepted]:
        """Ask for a savepoint, after which the job does what `mode` says; that it is complete, or was aborted, follows in the log.

        Raises:
            RequestRefused: with the codes of `trigger_savepoint`; nothing was changed.

        """
        return ask(TriggerSavepoint(job_id=job_id, target_directory=target_directory, mode=mode, **header(**options)))

    @method
    def trigger_checkpoint(
        self, job_id: str, timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S, **options: Unpack[CommandOptions]
    ) -> Steps[CompletedCheckpoint]:
        """Take a checkpoint of a job's streams now, and wait until it is complete; raises as the JobMaster's method does."""
        return self._checkpoint(TriggerCheckpoint(job_id=job_id, **header(**options)), timeout_s)

    @method
    def trigger_savepoint(
        self,
        job_id: str,
        target_directory: str = "",
        timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S,
        *,
        cancel_job: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Steps[CompletedCheckpoint]:
        """Take a savepoint, and wait until it is complete; with `cancel_job` nothing is read after it, and the job is cancelled then.

        Raises:
            RequestRefused: with the codes of `trigger_checkpoint`, `InvalidSavepointDirectory`, `StreamFinished` or `SavepointInProgress`.
            CheckpointFailed: it was aborted; the job goes on.
            RequestTimedOut: it is not complete yet.

        """
        mode = SavepointMode.CANCEL if cancel_job else SavepointMode.CONTINUE
        command = TriggerSavepoint(job_id=job_id, target_directory=target_directory, mode=mode, **header(**options))
        return self._checkpoint(command, timeout_s)

    @method
    def stop_with_savepoint(
        self,
        job_id: str,
        target_directory: str = "",
        timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S,
        *,
        drain: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Steps[CompletedCheckpoint]:
        """Take a savepoint after which nothing is read, and wait until it is complete; then the streams of the job finish.

        With `drain` what the sources have by then is read first. Raises as `trigger_savepoint` does.
        """
        mode = SavepointMode.DRAIN if drain else SavepointMode.STOP
        command = TriggerSavepoint(job_id=job_id, target_directory=target_directory, mode=mode, **header(**options))
        return self._checkpoint(command, timeout_s)

    @method
    def dispose_savepoint(self, savepoint_path: str) -> Steps[str]:
        """Remove a savepoint, whole or not, with the rights of who calls; return of which job it was.

        Raises:
            RequestRefused: with the code `InvalidSavepoint`: there is none, or it cannot be removed.

        """
        return work(lambda: remove_savepoint(savepoint_path))

    # -- reads -----------------------------------------------------------------------------------------------------

    @method
    def list_jobs(self) -> Steps[dict[str, JobStatus]]:
        """Return the ids of all jobs, running and retained, and where each stands; the newest last (of more than 100,000 those)."""
        answer = yield from self._reads.read("/job-statuses")
        return dict(read_as(JobStatuses, answer).jobs)

    @method
    def request_job(self, job_id: str) -> Steps[ExecutionGraphInfo]:
        """Return a whole job; raises `UnknownJob`."""
        return self._job(job_id)

    @method
    def request_job_exceptions(self, job_id: str) -> Steps[list[FailureOfJob]]:
        """Return the failures of a job, the newest first; raises `UnknownJob`."""
        return self._exceptions(job_id)

    @method
    def request_job_status(self, job_id: str) -> Steps[JobStatus]:
        """Return where a job stands; raises `UnknownJob`."""
        return (yield from self._job_standing(job_id)).status

    @method
    def request_job_result(self, job_id: str, *, timeout_s: float = DEFAULT_RESULT_TIMEOUT_S) -> Steps[JobResult]:
        """Wait for a job's end, over any failovers; raises `UnknownJob`, and `JobNotTerminated` after `timeout_s`."""
        return self._job_result(job_id, timeout_s)

    @method
    def request_multiple_job_details(
        self, statuses: Collection[JobStatus] = (), *, limit: int = DEFAULT_JOBS, labels: Mapping[str, str] = MappingProxyType({})
    ) -> Steps[JobList]:
        """Return the newest `limit` (1 to 1,000) jobs with one of these statuses (none given: any) and all these labels.

        Raises:
            QuestionInvalid: a bad limit.

        """
        return self._jobs(statuses, limit, labels)

    @method
    def request_job_names(self, part: str = "", *, first: int = 0, limit: int = DEFAULT_NAMES) -> Steps[JobNamesPage]:
        """Return the names of jobs with this part in them, those first that were submitted last. `QuestionInvalid`: a bad limit."""
        return self._names(part, first, limit)

    @method
    def request_runs(self, name: str, *, first: int = 0, limit: int = DEFAULT_RUNS) -> Steps[RunsPage]:
        """Return the runs of a name, the newest first, `limit` (1 to 100) from the `first`-th on. `QuestionInvalid`: a bad limit."""
        return self._runs(name, first, limit)

    @method
    def request_cluster_overview(self) -> Steps[ClusterOverview]:
        """Return how many TaskManagers, slots and jobs there are."""
        return self._cluster_overview()

    @method
    def get_blob_server_port(self) -> Steps[int]:
        """Return the port of the leader's blob server; its host is in `find_leader().blob_address`."""
        return address_of((yield from self._cluster_overview()).blob_address)[1]

    @method
    def request_metric_query_service_addresses(self) -> Steps[dict[str, str]]:
        """Return where each master that answers serves its metrics, host:port by id; one that serves none is not in it."""
        reads = self._reads
        deadline = reads.clock() + reads.request_timeout_s
        masters: list[KnownMaster] = yield FindMasters(min(_FIND_TIMEOUT_S, reads.request_timeout_s))
        addresses: dict[str, str] = {}
        for master in [m for m in masters if m.presence.query_address][:MAX_MASTERS]:
            left_s = deadline - reads.clock()
            if left_s <= 0:
                break
            try:
                answer = yield Get(master.presence.query_address, "/metrics-address", {}, min(DEFAULT_MASTER_TIMEOUT_S, left_s))
            except MasterSilent:
                continue  # It is gone, or of a version that does not tell.
            if answer["metrics_address"]:
                addresses[master.master_id] = answer["metrics_address"]
        return addresses

    @method
    def request_task_manager_metric_query_service_addresses(self) -> Steps[dict[str, str]]:
        """Return where each TaskManager serves its metrics, host:port by id; one that serves none is not in it."""
        return self._task_manager_metric_addresses()

    @method
    def request_operator_back_pressure_stats(self, job_id: str, vertex_id: str) -> Steps[OperatorBackPressureStats]:
        """Return how far a stream does not keep up, as of the last checkpoint that asked its subtasks.

        Raises:
            UnknownJob: there is no such job.
            RequestRefused: with the code `UnknownVertex`: the job has no stream of that name.

        """
        answer = yield from self._checkpoints(job_id)
        rows = [row for row in answer.subtasks if row.vertex_id == vertex_id]
        if answer.job_id != job_id or not rows:
            raise RequestRefused("UnknownVertex", f"stream not found: '{vertex_id[:128]}' in job '{job_id}'")
        subtasks = [
            SubtaskBackPressure(subtask_index=row.subtask_index, at=row.answer.at, level=said.level, ratio=said.ratio, reason=said.reason)
            for row in rows
            if row.answer is not None and (said := row.back_pressure) is not None
        ]
        level = max(subtasks, key=lambda each: each.ratio).level if subtasks else None
        return OperatorBackPressureStats(job_id=job_id, vertex_id=vertex_id, level=level, subtasks=subtasks, log_offset=answer.log_offset)


class DispatcherGateway(DispatcherMethods, BlockingGateway):
    """Blocking requests to one cluster. For one thread; close it, or use it as a context manager."""

    def __init__(self, cluster: ClusterAccess | str, cluster_id: str = "", **options: Unpack[BlockingOptions]) -> None:
        """Connect to the cluster.

        Raises:
            ClusterUnreachable: Kafka does not answer.
            ClusterNotFound: Kafka holds no such cluster.

        """
        super().__init__(cluster, cluster_id, **options)
        self._connection.connect()

    def job_master(self, job_id: str) -> JobMasterGateway:
        """Return a gateway to a job's JobMaster over this one's connection, in the same thread; it ends with this one."""
        connection = self._connection
        return JobMasterGateway(connection.access, job_id=job_id, connection=connection)
