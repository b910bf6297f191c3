"""The ResourceManager and its SlotManager for callers: TaskManagers and their slots; one request at a time, in the calling thread."""

from typing import Final

from eventflink.events.inputs import BlockTaskManager, RequestTaskManagerFileUpload, UnblockTaskManager
from eventflink.gateways.blocking import DEFAULT_REQUEST_TIMEOUT_S, BlockingConnection, BlockingGateway
from eventflink.gateways.dispatcher_gateway import upload_request
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.results import ResourceOverview, TaskManagerDetails, TaskManagerInfo
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile, TaskManagerFile

DEFAULT_UPLOAD_TIMEOUT_S: Final = 30.0


def block(task_manager_id: str, reason: str, duration_ms: int, actor: str, request_id: str, fencing_token: str) -> BlockTaskManager:
    """Return the command that keeps new tasks away from a TaskManager."""
    return BlockTaskManager(
        request_id=request_id,
        actor=actor,
        task_manager_id=task_manager_id,
        reason=reason,
        duration_ms=duration_ms,
        leader_id=fencing_token,
    )


def unblock(task_manager_id: str, actor: str, request_id: str, fencing_token: str) -> UnblockTaskManager:
    """Return the command that lets new tasks go to a TaskManager again."""
    return UnblockTaskManager(request_id=request_id, actor=actor, task_manager_id=task_manager_id, leader_id=fencing_token)


def own_file_request(
    task_manager_id: str, file: TaskManagerFile, name: str, actor: str, request_id: str, fencing_token: str
) -> RequestTaskManagerFileUpload:
    """Return the command that asks for something of a TaskExecutor itself."""
    return RequestTaskManagerFileUpload(
        request_id=request_id, actor=actor, task_manager_id=task_manager_id, file=file, name=name, leader_id=fencing_token
    )


class ResourceManagerGateway(BlockingGateway):
    """Blocking requests to one cluster's ResourceManager; errors and fencing tokens are those of `DispatcherGateway`."""

    def __init__(self, bootstrap: str, cluster_id: str, *, request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S) -> None:
        """Prepare; nothing is connected before the first call."""
        super().__init__(BlockingConnection(bootstrap, cluster_id, request_timeout_s))

    def request_task_manager_info(self) -> tuple[TaskManagerInfo, ...]:
        """Return every registered TaskManager."""
        return self._run(self._calls.request_task_manager_info())

    def request_task_manager_details_info(self, task_manager_id: str) -> TaskManagerDetails:
        """Return one TaskManager with its slots; raises `UnknownTaskManager`."""
        return self._run(self._calls.request_task_manager_details(task_manager_id))

    def request_resource_overview(self) -> ResourceOverview:
        """Return how many TaskManagers and slots there are."""
        return self._run(self._calls.request_resource_overview())

    def block_task_manager(
        self,
        task_manager_id: str,
        reason: str = "",
        *,
        duration_ms: int = 0,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
    ) -> Accepted:
        """Have a TaskManager get no new tasks, for a time or (0) until it is unblocked; what runs there goes on."""
        return self._run(self._calls.ask(block(task_manager_id, reason, duration_ms, actor, request_id, fencing_token)))

    def unblock_task_manager(self, task_manager_id: str, *, actor: str = "", request_id: str = "", fencing_token: str = "") -> Accepted:
        """Have a TaskManager get new tasks again."""
        return self._run(self._calls.ask(unblock(task_manager_id, actor, request_id, fencing_token)))

    def request_task_manager_file_upload(
        self,
        attempt: AttemptId,
        file: TaskFile,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Have the TaskManager that ran an attempt upload one of its files; return the blob key.

        Raises `FileNotAvailable`, `TooManyUploads`, and `RequestTimedOut` after `timeout_s`.
        """
        request = upload_request(attempt, file, actor, request_id, fencing_token)
        return self._run(self._calls.request_file(request, timeout_s))

    def request_task_manager_file_upload_by_type(
        self,
        task_manager_id: str,
        file: TaskManagerFile,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Have a TaskExecutor upload its log (LOG) or what it prints (STDOUT); return the blob key.

        Raises `UnknownTaskManager`, `FileNotAvailable`, `TooManyUploads`, and `RequestTimedOut` after `timeout_s`.
        """
        request = own_file_request(task_manager_id, file, "", actor, request_id, fencing_token)
        return self._run(self._calls.request_file(request, timeout_s))

    def request_task_manager_file_upload_by_name(
        self,
        task_manager_id: str,
        name: str,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Have a TaskExecutor upload one of the logs of its list; return the blob key. Raises as the method before."""
        request = own_file_request(task_manager_id, TaskManagerFile.NAMED, name, actor, request_id, fencing_token)
        return self._run(self._calls.request_file(request, timeout_s))

    def request_task_manager_log_list(
        self,
        task_manager_id: str,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Have a TaskExecutor upload the list of its logs; return the key of a JSON document `{"logs": [{"name", "size_bytes", …}]}`."""
        request = own_file_request(task_manager_id, TaskManagerFile.LOG_LIST, "", actor, request_id, fencing_token)
        return self._run(self._calls.request_file(request, timeout_s))

    def request_thread_dump(
        self,
        task_manager_id: str,
        *,
        actor: str = "",
        request_id: str = "",
        fencing_token: str = "",
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
    ) -> str:
        """Have a TaskExecutor upload the stacks of its own threads; return the key of a text."""
        request = own_file_request(task_manager_id, TaskManagerFile.THREAD_DUMP, "", actor, request_id, fencing_token)
        return self._run(self._calls.request_file(request, timeout_s))

    def request_task_manager_metric_query_service_addresses(self) -> dict[str, str]:
        """Return where each TaskManager serves its metrics, host:port by id; one that serves none is not in it."""
        return self._run(self._calls.request_task_manager_metric_query_service_addresses())

    # -- SlotManager -----------------------------------------------------------------------------------------------

    def get_number_registered_slots(self) -> int:
        """Return how many slots there are."""
        return self._run(self._calls.get_number_registered_slots())

    def get_number_registered_slots_of(self, task_manager_id: str) -> int:
        """Return how many slots a TaskManager has; raises `UnknownTaskManager`."""
        return self._run(self._calls.get_number_registered_slots_of(task_manager_id))

    def get_number_free_slots(self) -> int:
        """Return how many slots are free."""
        return self._run(self._calls.get_number_free_slots())

    def get_number_free_slots_of(self, task_manager_id: str) -> int:
        """Return how many slots of a TaskManager are free; raises `UnknownTaskManager`."""
        return self._run(self._calls.get_number_free_slots_of(task_manager_id))

    def get_number_pending_slot_requests(self) -> int:
        """Return how many attempts wait for a slot."""
        return self._run(self._calls.get_number_pending_slot_requests())

    def get_number_pending_task_manager_slots(self) -> int:
        """Return how many slots were asked of the resource driver and have not registered."""
        return self._run(self._calls.get_number_pending_task_manager_slots())
