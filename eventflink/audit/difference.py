"""What differs between two moments of one log: the leader, the jobs, the TaskManagers, the slots.

A moment is what is compared, taken out of a fold and independent of it, so that one fold gives several, one after the other. Only states
are compared: what came and went in between shows as far as the later moment remembers it; `events` and `why` tell the decisions.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from eventflink.documents.log import ComparedMoment, Difference, Differences
from eventflink.documents.plain import part_of
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.model.statuses import TERMINAL_JOB_STATUSES
from eventflink.views.jobs_and_cluster import cluster_view, job_row

MAX_ROWS: Final = 1_000
"""How many rows a difference has where nobody says otherwise."""

_OF_SLOTS: Final = ("slots", "slots_free", "slots_pending", "slot_requests")
_OF_TASK_MANAGER: Final = ("instance_id", "slots", "slots_free", "slot_profile", "blocked", "ready")
_TITLES: Final = {"leader": "the leadership", "cluster": "the cluster", "job": "job", "task_manager": "TaskManager"}


@dataclass(frozen=True, slots=True)
class ComparedState:
    """What there is at one offset of the log: the values of each thing, by type of thing and by id."""

    log_offset: int
    at: str | None
    """The time of the last decision."""
    things: dict[str, dict[str, dict[str, Any]]]


def moment_of(fold: Fold) -> ComparedState:
    """Return what a fold is now; it shares nothing with the fold."""
    view, dispatcher = cluster_view(fold), fold.master.dispatcher
    shutdown = view.shutdown
    state = None if shutdown is None else "is over" if shutdown.is_over else "is under way"
    forgotten = {job_id: {"status": str(job.status), "in_memory": False} for job_id, job in dispatcher.forgotten.items()}
    things = {
        "leader": {"": {"epoch": view.epoch, "master_id": fold.master.leader.master_id or None, "leader_id": view.leader_id or None}},
        "cluster": {"": {name: getattr(view, name) for name in _OF_SLOTS} | {"shutdown": state}},
        "job": forgotten | {job.job_id: _values_of(job) for job in dispatcher.jobs.values()},
        "task_manager": {row.task_manager_id: {name: getattr(row, name) for name in _OF_TASK_MANAGER} for row in view.task_managers},
    }
    return ComparedState(fold.last_offset, view.last_decision_at, things)


def _values_of(job: JobMaster) -> dict[str, Any]:
    row, checkpoints = job_row(job, 0), job.checkpoints
    return {
        "name": row.name,
        "status": str(row.status),
        "tasks_finished": row.tasks_finished,
        "restarts": row.restarts,
        "checkpoints": checkpoints.completed_count if checkpoints is not None else 0,
        "in_memory": True,
        **{f"parallelism of {vertex_id}": vertex.parallelism for vertex_id, vertex in job.execution_graph.vertices.items()},
    }


def difference_of(before: Fold, after: Fold, max_rows: int = MAX_ROWS) -> Differences:
    """Return what differs between the states of two folds of one log, as `difference_between` does."""
    return difference_between(moment_of(before), moment_of(after), max_rows)


def difference_between(before: ComparedState, after: ComparedState, max_rows: int = MAX_ROWS) -> Differences:
    """Return what differs between two moments, the first `max_rows` of it."""
    rows = list(_rows(before, after))
    return Differences(
        before=part_of(ComparedMoment, before),
        after=part_of(ComparedMoment, after),
        head=_head(before, after, rows),
        rows=rows[:max_rows],
        total=len(rows),
    )


def _rows(before: ComparedState, after: ComparedState) -> Iterator[Difference]:
    for thing in _TITLES:
        was, now = before.things[thing], after.things[thing]
        for name in [*was, *(name for name in now if name not in was)]:
            old, new = was.get(name), now.get(name)
            if old is None or new is None:
                main = next(iter(_shown(old or new or {})))
                yield _row(thing, name, main, old, new)
            elif old != new:
                shared = (each for each in _shown(old) if each in new and old[each] != new[each])
                yield from (_row(thing, name, each, old, new) for each in shared)


def _shown(values: dict[str, Any]) -> Iterator[str]:
    return (each for each in values if each != "name")


def _row(thing: str, name: str, what: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Difference:
    change = "new" if old is None else "gone" if new is None else "changed"
    known = new or old or {}
    called = " ".join(part for part in (_TITLES[thing], name, f"'{known['name']}'" if known.get("name") else "") if part)
    was, now = (old or {}).get(what), (new or {}).get(what)
    if change == "changed":
        says = f"{called}: {what.replace('_', ' ')} {_said(was)} → {_said(now)}"
    else:
        said = f"{what.replace('_', ' ')} {_said(now if change == 'new' else was)}"
        says = f"{called} is {change}: {said}"
    return Difference(thing=thing, id=name or None, name=known.get("name"), change=change, field=what, before=was, after=now, says=says)


def _said(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _head(before: ComparedState, after: ComparedState, rows: list[Difference]) -> str:
    """Return in one sentence how much differs, from what to what."""
    span = f"from {_place(before)} to {_place(after)}"
    if not rows:
        return f"nothing differs {span}"
    counts = Counter((row.thing, row.change) for row in rows if row.change != "changed")
    ended = sum(row.field == "status" and row.after in TERMINAL_JOB_STATUSES for row in rows if row.thing == "job")
    restarts = sum(_restarts(before, job_id, values) for job_id, values in after.things["job"].items())
    leaders = [row for row in rows if row.thing == "leader" and row.field == "epoch"]
    told = [
        _count(counts["job", "new"], "new job"),
        _count(ended, "job ended", "jobs ended"),
        _count(counts["job", "gone"], "job id expired", "job ids expired"),
        _count(restarts, "restart"),
        _count(counts["task_manager", "new"], "TaskManager came", "TaskManagers came"),
        _count(counts["task_manager", "gone"], "TaskManager went", "TaskManagers went"),
        *(f"epoch {row.before} → {row.after}" for row in leaders),
    ]
    known = ", ".join(filter(None, told))
    return f"{_count(len(rows), 'difference')} {span}{': ' if known else ''}{known}"


def _restarts(before: ComparedState, job_id: str, values: dict[str, Any]) -> int:
    """Return how often a job was restarted since, as far as it is still known."""
    known = int(before.things["job"].get(job_id, {}).get("restarts", 0))
    return max(0, int(values.get("restarts", known)) - known)


def _place(moment: ComparedState) -> str:
    return f"log offset {moment.log_offset}" + (f" ({moment.at})" if moment.at else "")


def _count(count: int, one: str, many: str = "") -> str:
    return "" if not count else f"{count} {one if count == 1 else many or one + 's'}"
