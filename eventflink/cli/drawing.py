"""How statuses and TaskManagers are drawn for people, by every command that shows them.

Only what a drawing needs is imported here: `list` and `status` wait for all of it.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from eventflink.cli.session import Session
    from eventflink.documents.cluster import ClusterStatus, KnownWorkers
    from eventflink.documents.task_managers import BlockedTaskManagerRow

_STYLES: Final = {
    "FINISHED": "green",
    "FAILED": "red",
    "FAILING": "red",
    "CANCELED": "yellow",
    "CANCELING": "yellow",
    "CANCELLING": "yellow",
    "RUNNING": "cyan",
    "RESTARTING": "yellow",
}


def styled(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=_STYLES.get(status, ""))


def seconds_until_now(duration_ms: int, submitted_at: str, ended_at: str | None) -> float:
    """Return how long a job has run: one that has not ended until now; its row counts to the last decision, which may be long ago."""
    told_s = duration_ms / 1000
    if ended_at:
        return told_s
    return max(told_s, (datetime.now(UTC) - datetime.fromisoformat(submitted_at)).total_seconds())


def task_manager_table(cluster: "ClusterStatus") -> Table:
    """Return the registered TaskManagers of a cluster's view as a table."""
    table = Table()
    for heading in ("TaskManager", "host", "process", "free slots", "of each slot", "registered", "new tasks"):
        table.add_column(heading, justify="right" if heading in ("process", "free slots") else "left")
    blocked = {row.task_manager_id: row for row in cluster.blocked}
    for row in cluster.task_managers:
        name = row.task_manager_id
        table.add_row(
            Text(name),
            Text(row.host),
            str(row.process_id),
            f"{row.slots_free}/{row.slots}",
            row.slot_profile or "not said",
            row.registered_at,
            Text(say_blocked(blocked[name]), style="yellow") if name in blocked else "yes" if row.ready else "last: it is loading",
        )
    return table


def print_pending_workers(session: "Session", workers: "KnownWorkers") -> None:
    """Print which workers the resource driver was asked for, and how the last one failed; nothing where there is none of it."""
    for worker in workers.pending:
        profile = f" of {worker.slot_profile}" if worker.slot_profile else ""
        text = f"{worker.worker_id} with {worker.slots} slots{profile} was asked of the resource driver at {worker.requested_at}"
        session.out.print(Text(f"{text}, and has not registered", style="yellow"))
    if workers.last_failure:
        text = f"the last request for a worker failed: {workers.last_failure}"
        session.out.print(Text(f"{text}; no other is asked for before {workers.retry_at}", style="yellow"))


def say_blocked(blocked: "BlockedTaskManagerRow") -> str:
    """Return why a TaskManager is blocked, for how long and by whom."""
    until = f" until {blocked.until}" if blocked.until else ""
    by = f", by {blocked.actor}" if blocked.actor else ""
    return f"blocked{until}: {blocked.reason or 'no reason was given'}{by}"
