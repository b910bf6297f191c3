"""The gateways for `asyncio`: the same methods as the blocking ones, to be awaited, by any number of tasks of one event loop at once.

What each method does, and which errors it raises, stands at the blocking gateway of the same name. Cancelling a task that awaits one
leaves nothing behind; the request itself may still be done, as after `RequestTimedOut`. A gateway is made inside a running event loop.
"""

from collections.abc import Collection
from typing import NoReturn

from eventflink.events.effects import LeaderBeat
from eventflink.events.inputs import JobSubmission
from eventflink.gateways.asynchronous import MAX_UNDER_WAY, AsyncConnection, AsyncGateway
from eventflink.gateways.blocking import DEFAULT_REQUEST_TIMEOUT_S
from eventflink.gateways.calls import DEFAULT_JOBS, JobMasterCalls, TaskExecutorCalls
from eventflink.gateways.dispatcher_gateway import (
    DEFAULT_RESULT_TIMEOUT_S,
    cancellation,
    new_job_id,
    resumption,
    shutdown,
    suspension,
    upload_request,
)
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.resource_manager_gateway import DEFAULT_UPLOAD_TIMEOUT_S, block, own_file_request, unblock
from eventflink.gateways.results import (
    ClusterOverview,
    ExecutionGraphInfo,
    JobResult,
    MultipleJobsDetails,
    ResourceOverview,
    TaskManagerDetails,
    TaskManagerInfo,
)
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import ApplicationStatus, JobStatus, TaskFile, TaskManagerFile


class AsyncDispatcherGateway(AsyncGateway):
    """`DispatcherGateway` for an event loop."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_under_way: int = MAX_UNDER_WAY,
    ) -> None:
        """Prepare; nothing is connected before the first call. More calls than `max_under_way` wait for their turn."""
        super().__init__(AsyncConnection(bootstrap, cluster_id, request_timeout_s, max_under_way))
        self._bootstrap, self._cluster_id = bootstrap, cluster_id

    def job_master(self, job_id: str) -> "AsyncJobMasterGateway":
        """Do as `DispatcherGateway.job_master`; not to be awaited."""
        return AsyncJobMasterGateway(self._bootstrap, self._cluster_id, job_id, connection=self._connection)

    async def find_leader(self, timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> LeaderBeat:
        """Do as `DispatcherGateway.find_leader`."""
        return await self._run(self._calls.find_leader(timeout_s))

    async def submit_job(self, job_graph: JobGraph, job_id: str | None = None, *, actor: str = "", request_id: str = "") -> Accepted:
        """Do as `DispatcherGateway.submit_job`."""
        submission = JobSubmission(job_id=job_id or new_job_id(), request_id=request_id, actor=actor, job_graph=job_graph)
        return await self._run(self._calls.ask(submission))

    async def cancel_job(self, job_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> Accepted:
        """Do as `DispatcherGateway.cancel_job`."""
        return await self._run(self._calls.ask(cancellation(job_id, actor, request_id, fencing_token)))

    async def tell_cancel_job(self, job_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> str:
        """Do as `DispatcherGateway.tell_cancel_job`."""
        return await self._run(self._calls.tell(cancellation(job_id, actor, request_id, fencing_token)))

    async def suspend_job(
        self, job_id: str, reason: str = "", *, actor: str = "", request_id: str = "", fencing_token: str = ""
    ) -> Accepted:
        """Do as `DispatcherGateway.suspend_job`."""
        return await self._run(self._calls.ask(suspension(job_id, reason, actor, request_id, fencing_token)))

    async def resume_job(self, job_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> Accepted:
        """Do as `DispatcherGateway.resume_job`."""
        return await self._run(self._calls.ask(resumption(job_id, actor, request_id, fencing_token)))

    async def shut_down_cluster(
        self,
        application_status: ApplicationStatus = ApplicationStatus.SUCCEEDED,
        diagnostics: str = "",
        *,
        cancel_jobs: bool = False,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
    ) -> Accepted:
        """Do as `DispatcherGateway.shut_down_cluster`."""
        command = shutdown(
            application_status, diagnostics, cancel_jobs=cancel_jobs, actor=actor, request_id=request_id, fencing_token=fencing_token
        )
        return await self._run(self._calls.ask(command))

    async def request_file_upload(
        self, attempt: AttemptId, file: TaskFile, *, actor: str = "", request_id: str = "", fencing_token: str = ""
    ) -> Accepted:
        """Do as `DispatcherGateway.request_file_upload`."""
        return await self._run(self._calls.ask(upload_request(attempt, file, actor, request_id, fencing_token)))

    async def list_jobs(self) -> dict[str, JobStatus]:
        """Do as `DispatcherGateway.list_jobs`."""
        return await self._run(self._calls.list_jobs())

    async def request_job(self, job_id: str) -> ExecutionGraphInfo:
        """Do as `DispatcherGateway.request_job`."""
        return await self._run(self._calls.request_job(job_id))

    async def request_job_status(self, job_id: str) -> JobStatus:
        """Do as `DispatcherGateway.request_job_status`."""
        return await self._run(self._calls.request_job_status(job_id))

    async def request_job_result(self, job_id: str, *, timeout_s: float = DEFAULT_RESULT_TIMEOUT_S) -> JobResult:
        """Do as `DispatcherGateway.request_job_result`."""
        return await self._run(self._calls.request_job_result(job_id, timeout_s))

    async def request_multiple_job_details(self, statuses: Collection[JobStatus] = (), *, limit: int = DEFAULT_JOBS) -> MultipleJobsDetails:
        """Do as `DispatcherGateway.request_multiple_job_details`."""
        return await self._run(self._calls.request_multiple_job_details(statuses, limit))

    async def request_cluster_overview(self) -> ClusterOverview:
        """Do as `DispatcherGateway.request_cluster_overview`."""
        return await self._run(self._calls.request_cluster_overview())

    async def get_blob_server_port(self) -> int:
        """Do as `DispatcherGateway.get_blob_server_port`."""
        return await self._run(self._calls.get_blob_server_port())

    async def request_metric_query_service_addresses(self) -> dict[str, str]:
        """Do as `DispatcherGateway.request_metric_query_service_addresses`."""
        return await self._run(self._calls.request_metric_query_service_addresses())

    async def request_task_manager_metric_query_service_addresses(self) -> dict[str, str]:
        """Do as `DispatcherGateway.request_task_manager_metric_query_service_addresses`."""
        return await self._run(self._calls.request_task_manager_metric_query_service_addresses())

    async def trigger_savepoint(self, job_id: str, target_directory: str) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"trigger_savepoint({job_id!r}, {target_directory!r})")

    async def stop_with_savepoint(self, job_id: str, target_directory: str, *, drain: bool = False) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"stop_with_savepoint({job_id!r}, {target_directory!r}, drain={drain})")

    async def dispose_savepoint(self, savepoint_path: str) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"dispose_savepoint({savepoint_path!r})")

    async def request_operator_back_pressure_stats(self, job_id: str, vertex_id: str) -> NoReturn:
        """Raise `NotSupported`."""
        raise self._calls.not_supported(f"request_operator_back_pressure_stats({job_id!r}, {vertex_id!r})")


class AsyncResourceManagerGateway(AsyncGateway):
    """`ResourceManagerGateway` for an event loop."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_under_way: int = MAX_UNDER_WAY,
    ) -> None:
        """Prepare; nothing is connected before the first call. More calls than `max_under_way` wait for their turn."""
        super().__init__(AsyncConnection(bootstrap, cluster_id, request_timeout_s, max_under_way))

    async def request_task_manager_info(self) -> tuple[TaskManagerInfo, ...]:
        """Do as `ResourceManagerGateway.request_task_manager_info`."""
        return await self._run(self._calls.request_task_manager_info())

    async def request_task_manager_details_info(self, task_manager_id: str) -> TaskManagerDetails:
        """Do as `ResourceManagerGateway.request_task_manager_details_info`."""
        return await self._run(self._calls.request_task_manager_details(task_manager_id))

    async def request_resource_overview(self) -> ResourceOverview:
        """Do as `ResourceManagerGateway.request_resource_overview`."""
        return await self._run(self._calls.request_resource_overview())

    async def block_task_manager(
        self,
        task_manager_id: str,
        reason: str = "",
        *,
        duration_ms: int = 0,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
    ) -> Accepted:
        """Do as `ResourceManagerGateway.block_task_manager`."""
        return await self._run(self._calls.ask(block(task_manager_id, reason, duration_ms, actor, request_id, fencing_token)))

    async def unblock_task_manager(
        self, task_manager_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = ""
    ) -> Accepted:
        """Do as `ResourceManagerGateway.unblock_task_manager`."""
        return await self._run(self._calls.ask(unblock(task_manager_id, actor, request_id, fencing_token)))

    async def request_task_manager_file_upload(
        self,
        attempt: AttemptId,
        file: TaskFile,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Do as `ResourceManagerGateway.request_task_manager_file_upload`."""
        request = upload_request(attempt, file, actor, request_id, fencing_token)
        return await self._run(self._calls.request_file(request, timeout_s))

    async def request_task_manager_file_upload_by_type(
        self,
        task_manager_id: str,
        file: TaskManagerFile,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Do as `ResourceManagerGateway.request_task_manager_file_upload_by_type`."""
        request = own_file_request(task_manager_id, file, "", actor, request_id, fencing_token)
        return await self._run(self._calls.request_file(request, timeout_s))

    async def request_task_manager_file_upload_by_name(
        self,
        task_manager_id: str,
        name: str,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Do as `ResourceManagerGateway.request_task_manager_file_upload_by_name`."""
        request = own_file_request(task_manager_id, TaskManagerFile.NAMED, name, actor, request_id, fencing_token)
        return await self._run(self._calls.request_file(request, timeout_s))

    async def request_task_manager_log_list(
        self,
        task_manager_id: str,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Do as `ResourceManagerGateway.request_task_manager_log_list`."""
        request = own_file_request(task_manager_id, TaskManagerFile.LOG_LIST, "", actor, request_id, fencing_token)
        return await self._run(self._calls.request_file(request, timeout_s))

    async def request_thread_dump(
        self,
        task_manager_id: str,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Do as `ResourceManagerGateway.request_thread_dump`."""
        request = own_file_request(task_manager_id, TaskManagerFile.THREAD_DUMP, "", actor, request_id, fencing_token)
        return await self._run(self._calls.request_file(request, timeout_s))

    async def request_task_manager_metric_query_service_addresses(self) -> dict[str, str]:
        """Do as `ResourceManagerGateway.request_task_manager_metric_query_service_addresses`."""
        return await self._run(self._calls.request_task_manager_metric_query_service_addresses())

    async def get_number_registered_slots(self) -> int:
        """Do as `ResourceManagerGateway.get_number_registered_slots`."""
        return await self._run(self._calls.get_number_registered_slots())

    async def get_number_registered_slots_of(self, task_manager_id: str) -> int:
        """Do as `ResourceManagerGateway.get_number_registered_slots_of`."""
        return await self._run(self._calls.get_number_registered_slots_of(task_manager_id))

    async def get_number_free_slots(self) -> int:
        """Do as `ResourceManagerGateway.get_number_free_slots`."""
        return await self._run(self._calls.get_number_free_slots())

    async def get_number_free_slots_of(self, task_manager_id: str) -> int:
        """Do as `ResourceManagerGateway.get_number_free_slots_of`."""
        return await self._run(self._calls.get_number_free_slots_of(task_manager_id))

    async def get_number_pending_slot_requests(self) -> int:
        """Do as `ResourceManagerGateway.get_number_pending_slot_requests`."""
        return await self._run(self._calls.get_number_pending_slot_requests())

    async def get_number_pending_task_manager_slots(self) -> int:
        """Do as `ResourceManagerGateway.get_number_pending_task_manager_slots`."""
        return await self._run(self._calls.get_number_pending_task_manager_slots())


class AsyncJobMasterGateway(AsyncGateway):
    """`JobMasterGateway` for an event loop."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        job_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_under_way: int = MAX_UNDER_WAY,
        connection: AsyncConnection | None = None,
    ) -> None:
        """Prepare; nothing is connected before the first call. A `connection` is another gateway's, and is closed there."""
        own = connection or AsyncConnection(bootstrap, cluster_id, request_timeout_s, max_under_way)
        super().__init__(own, owns_connection=connection is None)
        self._job_master = JobMasterCalls(self._calls, job_id)

    async def connect(self) -> str:
        """Do as `JobMasterGateway.connect`."""
        return await self._run(self._job_master.connect())

    async def request_job(self) -> ExecutionGraphInfo:
        """Do as `JobMasterGateway.request_job`."""
        return await self._run(self._calls.request_job(self._job_master.job_id))

    async def request_job_status(self) -> JobStatus:
        """Do as `JobMasterGateway.request_job_status`."""
        return await self._run(self._calls.request_job_status(self._job_master.job_id))

    async def rescale_job(self, vertex_id: str, parallelism: int, *, actor: str = "", request_id: str = "") -> Accepted:
        """Do as `JobMasterGateway.rescale_job`."""
        return await self._run(self._job_master.rescale_job(vertex_id, parallelism, actor, request_id))

    async def tell_rescale_job(self, vertex_id: str, parallelism: int, *, actor: str = "", request_id: str = "") -> str:
        """Do as `JobMasterGateway.tell_rescale_job`."""
        return await self._run(self._job_master.tell_rescale_job(vertex_id, parallelism, actor, request_id))

    async def cancel(self, *, actor: str = "", request_id: str = "") -> Accepted:
        """Do as `JobMasterGateway.cancel`."""
        return await self._run(self._job_master.cancel(actor, request_id))

    async def suspend(self, reason: str = "", *, actor: str = "", request_id: str = "") -> Accepted:
        """Do as `JobMasterGateway.suspend`."""
        return await self._run(self._job_master.suspend(reason, actor, request_id))

    async def tell_cancel(self, *, actor: str = "", request_id: str = "") -> str:
        """Do as `JobMasterGateway.tell_cancel`."""
        return await self._run(self._job_master.tell_cancel(actor, request_id))


class AsyncTaskExecutorGateway(AsyncGateway):
    """`TaskExecutorGateway` for an event loop."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        task_manager_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_under_way: int = MAX_UNDER_WAY,
    ) -> None:
        """Prepare; nothing is connected before the first call. More calls than `max_under_way` wait for their turn."""
        super().__init__(AsyncConnection(bootstrap, cluster_id, request_timeout_s, max_under_way))
        self._task_executor = TaskExecutorCalls(self._calls, task_manager_id)

    async def request_slot_report(self) -> TaskManagerDetails:
        """Do as `TaskExecutorGateway.request_slot_report`."""
        return await self._run(self._calls.request_task_manager_details(self._task_executor.task_manager_id))

    async def request_file_upload(
        self,
        attempt: AttemptId,
        file: TaskFile,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Do as `TaskExecutorGateway.request_file_upload`."""
        request = upload_request(attempt, file, actor, request_id, fencing_token)
        return await self._run(self._task_executor.request_file_upload(request, timeout_s))
