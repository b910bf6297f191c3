"""One TaskExecutor for callers: its slots, and the files of the attempts that it ran; one request at a time, in the calling thread.

It is asked by the masters, over the log: a caller needs no way to its host, and it no port.
"""

from eventflink.gateways.blocking import DEFAULT_REQUEST_TIMEOUT_S, BlockingConnection, BlockingGateway
from eventflink.gateways.calls import TaskExecutorCalls
from eventflink.gateways.dispatcher_gateway import upload_request
from eventflink.gateways.resource_manager_gateway import DEFAULT_UPLOAD_TIMEOUT_S
from eventflink.gateways.results import TaskManagerDetails
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile


class TaskExecutorGateway(BlockingGateway):
    """Blocking requests about one TaskExecutor; errors and fencing tokens are those of `DispatcherGateway`."""

    def __init__(
        self, bootstrap: str, cluster_id: str, task_manager_id: str, *, request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
    ) -> None:
        """Prepare; nothing is connected before the first call."""
        super().__init__(BlockingConnection(bootstrap, cluster_id, request_timeout_s))
        self._task_executor = TaskExecutorCalls(self._calls, task_manager_id)

    def request_slot_report(self) -> TaskManagerDetails:
        """Return its slots as the SlotManager has them; raises `UnknownTaskManager`."""
        return self._run(self._calls.request_task_manager_details(self._task_executor.task_manager_id))

    def request_file_upload(
        self,
        attempt: AttemptId,
        file: TaskFile,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Have it upload a file of an attempt that ran on it; return the blob key.

        Raises `UnknownJob`, `FileNotAvailable` (also if the attempt ran elsewhere), `TooManyUploads`, and `RequestTimedOut`.
        """
        request = upload_request(attempt, file, actor, request_id, fencing_token)
        return self._run(self._task_executor.request_file_upload(request, timeout_s))
