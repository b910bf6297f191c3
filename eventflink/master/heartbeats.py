"""Soft state: when each TaskManager's instance was last heard of. It is rebuilt after a failover and enters no digest.

Silence counts only once the leader has read its own later canary on the heartbeat partition, for only then could a heartbeat have
been read (P13); all deadlines start again at promotion. All times are the leader's monotonic milliseconds.
"""

from dataclasses import dataclass, field

from eventflink.master.inputs import HeartbeatTimeout


@dataclass(slots=True)
class HeartbeatMonitor:
    """When each instance was last heard of."""

    timeout_ms: int
    promoted_at_ms: int
    canary_sent_at_ms: int = -1
    """When the newest canary that was read back had been sent."""
    last_heard_ms: dict[str, int] = field(default_factory=dict)
    """By instance id."""

    def heard(self, instance_id: str, now_ms: int) -> None:
        """Take note of a heartbeat, a registration or any other record of an instance."""
        self.last_heard_ms[instance_id] = now_ms

    def canary_read(self, sent_at_ms: int) -> None:
        """Take note that a canary came back."""
        self.canary_sent_at_ms = max(self.canary_sent_at_ms, sent_at_ms)

    def overdue(self, task_manager_id: str, instance_id: str, now_ms: int) -> HeartbeatTimeout | None:
        """Return the timeout of an instance that was silent for too long, proven by a canary; None otherwise."""
        heard = self.last_heard_ms.setdefault(instance_id, max(self.promoted_at_ms, now_ms))
        deadline = max(heard, self.promoted_at_ms) + self.timeout_ms
        if now_ms < deadline or self.canary_sent_at_ms < deadline:
            return None
        return HeartbeatTimeout(task_manager_id, instance_id, now_ms - heard)

    def forget_all_but(self, instance_ids: set[str]) -> None:
        """Drop what is remembered of instances that are gone."""
        for instance_id in [i for i in self.last_heard_ms if i not in instance_ids]:
            del self.last_heard_ms[instance_id]
