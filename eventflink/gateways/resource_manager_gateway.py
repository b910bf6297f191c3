"""The ResourceManager and its SlotManager for callers: TaskManagers and their slots; one request at a time, in the calling thread."""

from typing import Final

from eventflink.events.inputs import BlockTaskManager, UnblockTaskManager
from eventflink.gateways.blocking import DEFAULT_REQUEST_TIMEOUT_S, BlockingConnection, BlockingGateway
from eventflink.gateways.dispatcher_gateway import upload_request
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.results import ResourceOverview, TaskManagerDetails, TaskManagerInfo
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile

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
