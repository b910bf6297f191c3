"""The ResourceManager for callers: keep new tasks away from a TaskManager, and let them go there again."""

from eventflink.events.inputs import BlockTaskManager, UnblockTaskManager
from eventflink.gateways.blocking_gateway import BlockingGateway
from eventflink.gateways.request_channel import Accepted


class ResourceManagerGateway(BlockingGateway):
    """Blocking requests to one cluster. For one thread; close it, or use it as a context manager."""

    def block_task_manager(
        self, task_manager_id: str, reason: str = "", *, duration_ms: int = 0, actor: str = "", request_id: str = ""
    ) -> Accepted:
        """Have a TaskManager get no new tasks, for a time or (0) until it is unblocked; what runs there goes on; raises as `ask` does."""
        command = BlockTaskManager(
            request_id=request_id, actor=actor, task_manager_id=task_manager_id, reason=reason, duration_ms=duration_ms
        )
        return self.ask(command)

    def unblock_task_manager(self, task_manager_id: str, *, actor: str = "", request_id: str = "") -> Accepted:
        """Have a TaskManager get new tasks again; raises as `ask` does."""
        return self.ask(UnblockTaskManager(request_id=request_id, actor=actor, task_manager_id=task_manager_id))
