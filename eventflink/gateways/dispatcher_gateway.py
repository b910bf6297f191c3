"""The Dispatcher for callers: submit and cancel jobs, and ask what became of them; one request at a time, in the calling thread.

A command that gets no answer is sent again under the same request id, which the masters answer once more and never do
twice (P8); a read goes to any master. So a change of leader in between shows only as time. In an event loop take
`AsyncDispatcherGateway`; for many commands at once `pipelined_client.py`.
"""

import uuid
from collections.abc import Collection
from typing import Final, NoReturn

from eventflink.events.effects import LeaderBeat
from eventflink.events.inputs import CancelJob, JobSubmission, RequestFileUpload, ResumeJob, ShutDownCluster, SuspendJob
from eventflink.gateways.blocking import DEFAULT_REQUEST_TIMEOUT_S, BlockingConnection, BlockingGateway
from eventflink.gateways.calls import DEFAULT_JOBS
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.results import ClusterOverview, ExecutionGraphInfo, JobResult, MultipleJobsDetails
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import ApplicationStatus, JobStatus, TaskFile

DEFAULT_RESULT_TIMEOUT_S: Final = 600.0


def new_job_id() -> str:
    """Return a job id as Flink writes them: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def cancellation(job_id: str, actor: str, request_id: str, fencing_token: str) -> CancelJob:
    """Return the command that ends a job."""
    return CancelJob(job_id=job_id, request_id=request_id, actor=actor, leader_id=fencing_token)


def suspension(job_id: str, reason: str, actor: str, request_id: str, fencing_token: str) -> SuspendJob:
    """Return the command that stops a job without ending it."""
    return SuspendJob(job_id=job_id, reason=reason, request_id=request_id, actor=actor, leader_id=fencing_token)


def resumption(job_id: str, actor: str, request_id: str, fencing_token: str) -> ResumeJob:
    """Return the command that lets a suspended job go on."""
    return ResumeJob(job_id=job_id, request_id=request_id, actor=actor, leader_id=fencing_token)


def shutdown(
    application_status: ApplicationStatus, diagnostics: str, *, cancel_jobs: bool, actor: str, request_id: str, fencing_token: str
) -> ShutDownCluster:
    """Return the command that ends the whole cluster."""
    return ShutDownCluster(
        application_status=application_status,
        diagnostics=diagnostics,
        cancel_jobs=cancel_jobs,
        request_id=request_id,
        actor=actor,
        leader_id=fencing_token,
    )


def upload_request(attempt: AttemptId, file: TaskFile, actor: str, request_id: str, fencing_token: str) -> RequestFileUpload:
    """Return the command that asks for a file of an attempt."""
    return RequestFileUpload(**attempt._asdict(), file=file, request_id=request_id, actor=actor, leader_id=fencing_token)


class DispatcherGateway(BlockingGateway):
    """Blocking requests to one cluster. For one thread; close it, or use it as a context manager.

    Every read raises `NoMasterAnswered` when no master answered within `request_timeout_s`, every command `RequestRefused` (of the
    refusal's own type) and `RequestTimedOut`, whose `request_id` repeats it safely. A `fencing_token` is the `leader_id` of the leader that
    the command is for: if another one leads, `FencingTokenMismatch`.
    """

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
    ) -> None:
        """Connect to the cluster; each request waits up to `request_timeout_s` for its answer.

        Raises:
            ClusterUnreachable: Kafka does not answer.
            ClusterNotFound: Kafka holds no such cluster.

        """
        super().__init__(BlockingConnection(bootstrap, cluster_id, request_timeout_s, connect_timeout_s))
        self._bootstrap, self._cluster_id = bootstrap, cluster_id
        self._connection.connect()

    def job_master(self, job_id: str) -> JobMasterGateway:
        """Return a gateway to a job's JobMaster over this one's connection, in the same thread; it ends with this one."""
        return JobMasterGateway(self._bootstrap, self._cluster_id, job_id, connection=self._connection)

    def find_leader(self, timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> LeaderBeat:
        """Return the beat of the living leader: who it is and where its blob server is; raises as `leader.find_leader` does."""
        return self._run(self._calls.find_leader(timeout_s))

    # -- commands --------------------------------------------------------------------------------------------------

    def submit_job(self, job_graph: JobGraph, job_id: str | None = None, *, actor: str = "", request_id: str = "") -> Accepted:
        """Submit a job and wait until it is in the log."""
        submission = JobSubmission(job_id=job_id or new_job_id(), request_id=request_id, actor=actor, job_graph=job_graph)
        return self._run(self._calls.ask(submission))

    def cancel_job(self, job_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> Accepted:
        """Ask for the end of a job and wait until that is in the log; the end itself comes later."""
        return self._run(self._calls.ask(cancellation(job_id, actor, request_id, fencing_token)))

    def tell_cancel_job(self, job_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> str:
        """Ask for the end of a job, and want no answer; return the request's id once Kafka has it. Whether it was refused, the log says."""
        return self._run(self._calls.tell(cancellation(job_id, actor, request_id, fencing_token)))

    def suspend_job(self, job_id: str, reason: str = "", *, actor: str = "", request_id: str = "", fencing_token: str = "") -> Accepted:
        """Stop a job without ending it: its attempts end, what has finished stays; wait until that is in the log.

        Raises `UnknownJob`, `JobTerminated`, and `JobEnding` for a job that fails or is being cancelled.
        """
        return self._run(self._calls.ask(suspension(job_id, reason, actor, request_id, fencing_token)))

    def resume_job(self, job_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> Accepted:
        """Let a suspended job go on with what had not finished, under a new JobMaster; raises as `suspend_job` does."""
        return self._run(self._calls.ask(resumption(job_id, actor, request_id, fencing_token)))

    def shut_down_cluster(
        self,
        application_status: ApplicationStatus = ApplicationStatus.SUCCEEDED,
        diagnostics: str = "",
        *,
        cancel_jobs: bool = False,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
    ) -> Accepted:
        """End the whole cluster in order and wait until that is in the log; the end itself comes later (`ClusterStopped` in the log).

        Jobs are suspended, and go on when masters are started again; with `cancel_jobs` they are cancelled. `ClusterShuttingDown`: the
        cluster is to end in another way already.
        """
        command = shutdown(
            application_status, diagnostics, cancel_jobs=cancel_jobs, actor=actor, request_id=request_id, fencing_token=fencing_token
        )
        return self._run(self._calls.ask(command))

    def request_file_upload(
        self, attempt: AttemptId, file: TaskFile, *, actor: str = "", request_id: str = "", fencing_token: str = ""
    ) -> Accepted:
        """Ask for a file of a task attempt; `FileUploaded` with the same request id follows in the log."""
        return self._run(self._calls.ask(upload_request(attempt, file, actor, request_id, fencing_token)))

    # -- queries ---------------------------------------------------------------------------------------------------

    def list_jobs(self) -> dict[str, JobStatus]:
        """Return the ids of all jobs, running and retained, and where each stands; the newest last (of more than 100,000 those)."""
        return self._run(self._calls.list_jobs())

    def request_job(self, job_id: str) -> ExecutionGraphInfo:
        """Return a whole job; raises `UnknownJob`."""
        return self._run(self._calls.request_job(job_id))

    def request_job_status(self, job_id: str) -> JobStatus:
        """Return where a job stands; raises `UnknownJob`."""
        return self._run(self._calls.request_job_status(job_id))

    def request_job_result(self, job_id: str, *, timeout_s: float = DEFAULT_RESULT_TIMEOUT_S) -> JobResult:
        """Wait for a job's end, over any failovers; raises `UnknownJob`, and `JobNotTerminated` after `timeout_s`."""
        return self._run(self._calls.request_job_result(job_id, timeout_s))

    def request_multiple_job_details(self, statuses: Collection[JobStatus] = (), *, limit: int = DEFAULT_JOBS) -> MultipleJobsDetails:
        """Return the newest `limit` (1 to 1,000) jobs that have one of these statuses; none given: any. `QuestionInvalid`: a bad limit."""
        return self._run(self._calls.request_multiple_job_details(statuses, limit))

    def request_cluster_overview(self) -> ClusterOverview:
        """Return how many TaskManagers, slots and jobs there are."""
        return self._run(self._calls.request_cluster_overview())

    def get_blob_server_port(self) -> int:
        """Return the port of the leader's blob server; its host is in `find_leader().blob_address`."""
        return self._run(self._calls.get_blob_server_port())

    def request_metric_query_service_addresses(self) -> dict[str, str]:
        """Return where each master that answers serves its metrics, host:port by id; one that serves none is not in it."""
        return self._run(self._calls.request_metric_query_service_addresses())

    def request_task_manager_metric_query_service_addresses(self) -> dict[str, str]:
        """Return where each TaskManager serves its metrics, host:port by id; one that serves none is not in it."""
        return self._run(self._calls.request_task_manager_metric_query_service_addresses())

    # -- what Flink's has, and this one has not ----------------------------------------------------------------------

    def trigger_savepoint(self, job_id: str, target_directory: str) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"trigger_savepoint({job_id!r}, {target_directory!r})")

    def stop_with_savepoint(self, job_id: str, target_directory: str, *, drain: bool = False) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"stop_with_savepoint({job_id!r}, {target_directory!r}, drain={drain})")

    def dispose_savepoint(self, savepoint_path: str) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"dispose_savepoint({savepoint_path!r})")

    def request_operator_back_pressure_stats(self, job_id: str, vertex_id: str) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"request_operator_back_pressure_stats({job_id!r}, {vertex_id!r})")
