"""The ResourceManager and its SlotManager for callers: TaskManagers and their slots."""

from typing import Unpack

from eventflink.documents.cluster import ClusterOverview
from eventflink.documents.task_managers import AllocatedTaskManager, CountedTaskManager
from eventflink.events.inputs import BlockTaskManager, RequestFileUpload, RequestTaskManagerFileUpload, UnblockTaskManager
from eventflink.gateways.blocking import BlockingGateway
from eventflink.gateways.gateway import DEFAULT_UPLOAD_TIMEOUT_S, CommandOptions, Gateway, header, method
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.steps import Steps, ask
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TaskFile, TaskManagerFile


class ResourceManagerMethods(Gateway):
    """Requests to one cluster's ResourceManager; errors and fencing tokens are those of the Dispatcher's methods."""

    @method
    def request_task_manager_info(self) -> Steps[list[CountedTaskManager]]:
        """Return every registered TaskManager."""
        return self._task_managers()

    @method
    def request_task_manager_details_info(self, task_manager_id: str) -> Steps[AllocatedTaskManager]:
        """Return one TaskManager with its slots; raises `UnknownTaskManager`."""
        return self._task_manager(task_manager_id)

    @method
    def request_resource_overview(self) -> Steps[ClusterOverview]:
        """Return how many TaskManagers and slots there are."""
        return self._cluster_overview()

    @method
    def block_task_manager(
        self,
        task_manager_id: str,
        reason: str = "",
        *,
        duration_ms: int = 0,
        **options: Unpack[CommandOptions],
    ) -> Steps[Accepted]:
        """Have a TaskManager get no new tasks, for a time or (0) until it is unblocked; what runs there keeps running."""
        return ask(BlockTaskManager(task_manager_id=task_manager_id, reason=reason, duration_ms=duration_ms, **header(**options)))

    @method
    def unblock_task_manager(self, task_manager_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Have a TaskManager get new tasks again."""
        return ask(UnblockTaskManager(task_manager_id=task_manager_id, **header(**options)))

    @method
    def request_task_manager_file_upload(
        self,
        attempt: AttemptId,
        file: TaskFile,
        *,
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
        **options: Unpack[CommandOptions],
    ) -> Steps[str]:
        """Have the TaskManager that ran an attempt upload one of its files; return the blob key.

        Raises `FileNotAvailable`, `TooManyUploads`, and `RequestTimedOut` after `timeout_s`.
        """
        command = RequestFileUpload(**attempt._asdict(), file=file, **header(**options))
        return self._upload(command, timeout_s)

    @method
    def request_task_manager_file_upload_by_type(
        self,
        task_manager_id: str,
        file: TaskManagerFile,
        *,
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
        **options: Unpack[CommandOptions],
    ) -> Steps[str]:
        """Have a TaskExecutor upload its log (LOG) or what it prints (STDOUT); return the blob key.

        Raises `UnknownTaskManager`, `FileNotAvailable`, `TooManyUploads`, and `RequestTimedOut` after `timeout_s`.
        """
        command = RequestTaskManagerFileUpload(task_manager_id=task_manager_id, file=file, **header(**options))
        return self._upload(command, timeout_s)

    @method
    def request_task_manager_file_upload_by_name(
        self,
        task_manager_id: str,
        name: str,
        *,
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
        **options: Unpack[CommandOptions],
    ) -> Steps[str]:
        """Have a TaskExecutor upload one of the logs of its list; return the blob key. Raises as the method before."""
        command = RequestTaskManagerFileUpload(task_manager_id=task_manager_id, file=TaskManagerFile.NAMED, name=name, **header(**options))
        return self._upload(command, timeout_s)

    @method
    def request_task_manager_log_list(
        self,
        task_manager_id: str,
        *,
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
        **options: Unpack[CommandOptions],
    ) -> Steps[str]:
        """Have a TaskExecutor upload the list of its logs; return the key of a JSON document `{"logs": [{"name", "size_bytes", …}]}`."""
        command = RequestTaskManagerFileUpload(task_manager_id=task_manager_id, file=TaskManagerFile.LOG_LIST, **header(**options))
        return self._upload(command, timeout_s)

    @method
    def request_thread_dump(
        self,
        task_manager_id: str,
        *,
        timeout_s: float = DEFAULT_UPLOAD_TIMEOUT_S,
        **options: Unpack[CommandOptions],
    ) -> Steps[str]:
        """Have a TaskExecutor upload the stacks of its own threads; return the key of a text."""
        command = RequestTaskManagerFileUpload(task_manager_id=task_manager_id, file=TaskManagerFile.THREAD_DUMP, **header(**options))
        return self._upload(command, timeout_s)

    @method
    def request_task_manager_metric_query_service_addresses(self) -> Steps[dict[str, str]]:
        """Return where each TaskManager serves its metrics, host:port by id; one that serves none is not in it."""
        return self._task_manager_metric_addresses()

    # -- SlotManager -----------------------------------------------------------------------------------------------

    @method
    def get_number_registered_slots(self) -> Steps[int]:
        """Return how many slots there are."""
        return (yield from self._cluster_overview()).slots

    @method
    def get_number_registered_slots_of(self, task_manager_id: str) -> Steps[int]:
        """Return how many slots a TaskManager has; raises `UnknownTaskManager`."""
        return (yield from self._task_manager(task_manager_id)).slots

    @method
    def get_number_free_slots(self) -> Steps[int]:
        """Return how many slots are free."""
        return (yield from self._cluster_overview()).slots_free

    @method
    def get_number_free_slots_of(self, task_manager_id: str) -> Steps[int]:
        """Return how many slots of a TaskManager are free; raises `UnknownTaskManager`."""
        return (yield from self._task_manager(task_manager_id)).slots_free

    @method
    def get_number_pending_slot_requests(self) -> Steps[int]:
        """Return how many attempts wait for a slot."""
        return (yield from self._cluster_overview()).slot_requests

    @method
    def get_number_pending_task_manager_slots(self) -> Steps[int]:
        """Return how many slots were asked of the resource driver and have not registered."""
        return (yield from self._cluster_overview()).slots_pending


class ResourceManagerGateway(ResourceManagerMethods, BlockingGateway):
    """Blocking requests to one cluster's ResourceManager."""
