"""The blocklist: TaskManagers that get no new slots to fill, because an operator wants it so; what runs there keeps running.

A TaskManager is blocked by its id, so that it stays blocked when it starts again. It is unblocked by a command, or by itself when its
time is over. One that cannot write blocks itself, until it can or its instance is gone (L7); an operator's word replaces that, as it
replaces an earlier one of an operator. That its free slots are not given away is the SlotManager's part.
"""

from dataclasses import dataclass, field
from typing import Final

from eventflink.events.inputs import BlockTaskManager, SlotReport, UnblockTaskManager
from eventflink.events.log_events import (
    LogEvent,
    TaskManagerBlocked,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerReleased,
    TaskManagerUnblocked,
)
from eventflink.master.canonical import DERIVED, require
from eventflink.master.inputs import UnblockTaskManagers
from eventflink.master.requests import accepted, rejected
from eventflink.master.resource_manager import ResourceManager
from eventflink.master.settings import Context
from eventflink.model.actors import TASK_EXECUTOR
from eventflink.model.statuses import IllegalTransition

MAX_BLOCKED: Final = 10_000
EXPIRY_BATCH: Final = 256
TIME_IS_OVER: Final = "its time was over"
ITSELF: Final = TASK_EXECUTOR
"""The actor of a block that the TaskManager's own report led to."""
MAX_FAULT_LENGTH: Final = 512


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
            return [rejected(command, "UnknownTaskManager", f"TaskManager not found: '{command.task_manager_id}' is not registered")]
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
        return [
            rejected(command, "UnknownTaskManager", f"TaskManager not found: '{command.task_manager_id}' is neither registered nor blocked")
        ]

    def decide_unblock_task_managers(self, _value: UnblockTaskManagers, context: Context) -> list[LogEvent]:
        """Unblock a batch of those whose time is over."""
        over = [name for name, blocked in self.task_managers.items() if 0 < blocked.until_ms <= context.now_ms]
        return [TaskManagerUnblocked(name, TIME_IS_OVER, "") for name in over[:EXPIRY_BATCH]]

    def judge(self, report: SlotReport) -> list[LogEvent]:
        """Block a TaskManager that says that it cannot write, and unblock it when it says that it can again."""
        name, fault = report.task_manager_id, report.disk_fault[:MAX_FAULT_LENGTH]
        known = self.task_managers.get(name)
        if known is None:
            return [TaskManagerBlocked(name, fault, 0, ITSELF)] if fault and len(self.task_managers) < MAX_BLOCKED else []
        if known.actor != ITSELF or known.reason == fault:
            return []
        return [TaskManagerBlocked(name, fault, 0, ITSELF) if fault else TaskManagerUnblocked(name, "it can write again", ITSELF)]

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

    def apply_task_manager_lost(self, event: TaskManagerLost | TaskManagerDisconnected | TaskManagerReleased) -> None:
        """Forget what the instance said of itself: its successor says how it is with that one."""
        known = self.task_managers.get(event.task_manager_id)
        if known is not None and known.actor == ITSELF:
            del self.task_managers[event.task_manager_id]

    apply_task_manager_disconnected = apply_task_manager_released = apply_task_manager_lost

    def validate(self) -> None:
        """Check the bound."""
        require(len(self.task_managers) <= MAX_BLOCKED, f"{len(self.task_managers)} TaskManagers are blocked")
