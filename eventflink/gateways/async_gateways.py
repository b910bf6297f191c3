"""The gateways for `asyncio`: the methods are those of the blocking ones, to be awaited.

They stand apart so that programs without an event loop do not load an HTTP client for one.
"""

from eventflink.gateways.asynchronous import MAX_UNDER_WAY, AsyncConnection, AsyncGateway
from eventflink.gateways.dispatcher_gateway import DispatcherMethods
from eventflink.gateways.gateway import DEFAULT_REQUEST_TIMEOUT_S
from eventflink.gateways.job_master_gateway import JobMasterMethods
from eventflink.gateways.resource_manager_gateway import ResourceManagerMethods
from eventflink.gateways.task_executor_gateway import TaskExecutorMethods


class AsyncDispatcherGateway(DispatcherMethods, AsyncGateway):
    """Requests to one cluster, for an event loop."""

    def job_master(self, job_id: str) -> "AsyncJobMasterGateway":
        """Return a gateway to a job's JobMaster over this one's connection; it ends with this one. Not to be awaited."""
        connection = self._connection
        return AsyncJobMasterGateway(connection.bootstrap, connection.cluster_id, job_id, connection=connection)


class AsyncResourceManagerGateway(ResourceManagerMethods, AsyncGateway):
    """Requests to one cluster's ResourceManager, for an event loop."""


class AsyncJobMasterGateway(JobMasterMethods, AsyncGateway):
    """Requests to one job's JobMaster, for an event loop."""

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
        """Prepare, as `AsyncGateway` does."""
        super().__init__(bootstrap, cluster_id, request_timeout_s=request_timeout_s, max_under_way=max_under_way, connection=connection)
        self.job_id = job_id


class AsyncTaskExecutorGateway(TaskExecutorMethods, AsyncGateway):
    """Requests about one TaskExecutor, for an event loop."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        task_manager_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_under_way: int = MAX_UNDER_WAY,
        connection: AsyncConnection | None = None,
    ) -> None:
        """Prepare, as `AsyncGateway` does."""
        super().__init__(bootstrap, cluster_id, request_timeout_s=request_timeout_s, max_under_way=max_under_way, connection=connection)
        self.task_manager_id = task_manager_id
