"""The blocklist: TaskManagers that get no new slots to fill, because an operator wants it so; what runs there keeps running.

A TaskManager is blocked by its id, so that it stays blocked when it starts again. It is unblocked by a command, or by itself when its
time is over. That its free slots are not given away is the SlotManager's part.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.inputs import BlockTaskManager, UnblockTaskManager
from eventflink.events.log_events import LogEvent, TaskManagerBlocked, TaskManagerUnblocked
from eventflink.master.canonical import DERIVED, require
from eventflink.master.inputs import UnblockTaskManagers
from eventflink.master.requests import accepted, rejected
from eventflink.master.resource_manager import ResourceManager
from eventflink.master.settings import Context
from eventflink.model.statuses import IllegalTransition

MAX_BLOCKED: Final = 10_000
EXPIRY_BATCH: Final = 256
TIME_IS_OVER: Final = "its time was over"


@dataclass(slots=True)
class BlockedTaskManager:
    """Why a TaskManager is blocked, and for how long."""

    reason: str
    until_ms: int
    actor: str
    blocked_at_ms: int


@dataclass(slots=True)
class Blocklist:
    """All blocked TaskManagers, registered or not."""

    resource_manager: ResourceManager = field(metadata=DERIVED)
    task_managers: dict[str, BlockedTaskManager] = field(default_factory=dict)

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide_block_task_manager(self, command: BlockTaskManager, context: Context) -> list[LogEvent]:
        """Block a TaskManager; one that is blocked gets the new reason and the new end."""
        known = self.task_managers.get(command.task_manager_id)
        if known is None and command.task_manager_id not in self.resource_manager.task_managers:
            return [rejected(command, "UnknownTaskManager", f"no TaskManager '{command.task_manager_id}' is registered")]
        if known is None and len(self.task_managers) >= MAX_BLOCKED:
            return [rejected(command, "TooManyBlocked", f"{MAX_BLOCKED} TaskManagers are blocked already")]
        until_ms = context.now_ms + command.duration_ms if command.duration_ms else 0
        if known is not None and (known.reason, known.until_ms) == (command.reason, until_ms):
            return [accepted(command)]
        return [accepted(command), TaskManagerBlocked(command.task_manager_id, command.reason, until_ms, command.actor)]

    def decide_unblock_task_manager(self, command: UnblockTaskManager) -> list[LogEvent]:
        """Unblock a TaskManager; one that is not blocked is as it is wanted."""
        if command.task_manager_id in self.task_managers:
            return [accepted(command), TaskManagerUnblocked(command.task_manager_id, "a command", command.actor)]
        if command.task_manager_id in self.resource_manager.task_managers:
            return [accepted(command)]
        return [rejected(command, "UnknownTaskManager", f"no TaskManager '{command.task_manager_id}' is registered or blocked")]

    def decide_unblock_task_managers(self, _value: UnblockTaskManagers, context: Context) -> list[LogEvent]:
        """Unblock a batch of those whose time is over."""
        over = [name for name, blocked in self.task_managers.items() if 0 < blocked.until_ms <= context.now_ms]
        return [TaskManagerUnblocked(name, TIME_IS_OVER, "") for name in over[:EXPIRY_BATCH]]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply_task_manager_blocked(self, event: TaskManagerBlocked, at_ms: int) -> None:
        """Remember why and for how long; a newer command replaces what an older one said."""
        if event.task_manager_id not in self.task_managers and len(self.task_managers) >= MAX_BLOCKED:
            raise IllegalTransition(f"{MAX_BLOCKED} TaskManagers are blocked already")
        self.task_managers[event.task_manager_id] = BlockedTaskManager(event.reason, event.until_ms, event.actor, at_ms)

    def apply_task_manager_unblocked(self, event: TaskManagerUnblocked) -> None:
        """Forget it."""
        if self.task_managers.pop(event.task_manager_id, None) is None:
            raise IllegalTransition(f"{event.task_manager_id} is not blocked")

    def validate(self) -> None:
        """Check the bound."""
        require(len(self.task_managers) <= MAX_BLOCKED, f"{len(self.task_managers)} TaskManagers are blocked")
