"""One picture of a cluster and its jobs, as `top` shows it: made of two views and the one before, without asking anybody."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from eventflink.cli.drawing import say_blocked, seconds_until_now, styled
from eventflink.documents.cluster import ClusterStatus
from eventflink.documents.jobs import JobList
from eventflink.documents.task_managers import TaskManagerRow
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState

_BAR: Final = 12
_HEAD_LINES: Final = 12
"""What stands around the rows: heads of tables, lines, the totals."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What was asked at one moment."""

    cluster_id: str
    cluster: ClusterStatus
    jobs: JobList
    at_s: float
    """By a clock that only goes forward."""

    def as_json(self) -> dict[str, Any]:
        """Return both views as one document."""
        return {"cluster_id": self.cluster_id, "cluster": self.cluster, "jobs": self.jobs.jobs, "jobs_total": self.jobs.total}


def draw(frame: Frame, before: Frame | None, max_lines: int = 10_000) -> list[RenderableType]:
    """Return what is shown of a frame, from top to bottom, in at most so many lines: of many rows the first ones.

    `before` is the frame before this one, for what happened since.
    """
    rows = max(2, max_lines - _HEAD_LINES)
    managers = frame.cluster.task_managers[: max(1, rows // 3)]
    return [_head(frame, before), _task_managers(frame, managers), _jobs(frame, rows - len(managers))]


def _head(frame: Frame, before: Frame | None) -> Text:
    cluster = frame.cluster
    jobs = ", ".join(f"{count} {status}" for status, count in sorted(cluster.jobs.items())) or "none"
    tasks = Counter[str]()
    for job in frame.jobs.jobs:
        if job.status not in TERMINAL_JOB_STATUSES:
            tasks.update(job.tasks_by_state)
    told = ", ".join(f"{count} {state}" for state, count in sorted(tasks.items())) or "none"
    waits = f", {cluster.slot_requests} requests wait" if cluster.slot_requests else ""
    text = Text.assemble(
        (f"cluster '{frame.cluster_id}'", "bold"),
        f"  epoch {cluster.epoch}, led by {cluster.leader_id or 'nobody'}\n"
        f"log offset {cluster.log_offset}{_rate(frame, before)}, last decision {cluster.last_decision_at or 'never'}\n"
        f"jobs: {jobs}\ntasks of those that live: {told}\n"
        f"slots: {cluster.slots - cluster.slots_free} of {cluster.slots} taken{waits}",
    )
    if before is not None and before.cluster.epoch != cluster.epoch:
        text.append(f"\nanother master leads since epoch {before.cluster.epoch}", style="yellow")
    if cluster.shutdown is not None:
        text.append("\nthe cluster is shut down" if cluster.shutdown.is_over else "\nthe cluster is being shut down", style="yellow")
    return text


def _rate(frame: Frame, before: Frame | None) -> str:
    if before is None or frame.at_s <= before.at_s:
        return ""
    decided = frame.cluster.log_offset - before.cluster.log_offset
    return f" ({max(0, decided) / (frame.at_s - before.at_s):.1f} decisions a second)"


def _task_managers(frame: Frame, shown: list[TaskManagerRow]) -> Table:
    blocked = {row.task_manager_id: row for row in frame.cluster.blocked}
    table = Table(box=None, pad_edge=False, header_style="bold reverse", expand=True)
    for heading in ("TaskManager", "host", "slots taken", "", "remark"):
        table.add_column(heading, justify="right" if heading == "slots taken" else "left", no_wrap=True)
    for row in shown:
        name, taken = row.task_manager_id, row.slots - row.slots_free
        remark = Text(say_blocked(blocked[name]), style="yellow") if name in blocked else Text("" if row.ready else "it is loading")
        table.add_row(Text(name), Text(row.host), f"{taken}/{row.slots}", _bar(taken, row.slots, "cyan"), remark)
    if more := len(frame.cluster.task_managers) - len(shown):
        table.add_row(Text(f"and {more} more", style="dim"))
    return table


def _jobs(frame: Frame, rows: int) -> Table:
    listed = list(reversed(frame.jobs.jobs))
    # Those that live come first, then the newest.
    listed.sort(key=lambda job: job.status in TERMINAL_JOB_STATUSES)
    table = Table(box=None, pad_edge=False, header_style="bold reverse", expand=True)
    for heading in ("job id", "name", "status", "tasks", "", "running", "restarts", "seconds"):
        table.add_column(heading, justify="right" if heading in ("tasks", "running", "restarts", "seconds") else "left", no_wrap=True)
    for job in listed[:rows]:
        table.add_row(
            Text(job.job_id),
            Text(job.name),
            styled(job.status),
            f"{job.tasks_finished}/{job.tasks}",
            _bar(job.tasks_finished, job.tasks, "green"),
            str(job.tasks_by_state.get(ExecutionState.RUNNING, "")),
            Text(str(job.restarts or ""), style="yellow"),
            f"{seconds_until_now(job.duration_ms, job.submitted_at, job.ended_at):.1f}",
        )
    if more := frame.jobs.total - min(rows, len(listed)):
        table.add_row(Text(f"and {more} more", style="dim"))
    return table


def _bar(part: int, whole: int, style: str) -> Text:
    full = round(_BAR * part / whole) if whole else 0
    return Text.assemble(("■" * full, style), ("·" * (_BAR - full), "dim"))
