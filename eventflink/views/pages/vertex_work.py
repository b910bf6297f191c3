"""What the newest attempts of a vertex have done together: records read and written, and from when to when.

Of a stream that runs, `flow.py` says where it stood last.
"""

from collections.abc import Sequence

from eventflink.master.execution_graph import ExecutionVertex
from eventflink.views.plain import View, iso_time, sum_of_known


def work_of(vertex: ExecutionVertex) -> View:
    """Return when the first attempt began and all had ended, and how many records the finished ones read and wrote (null: unknown)."""
    executions = [subtask.execution for subtask in vertex.subtasks if subtask.execution is not None]
    told = [execution.io for execution in executions if execution.io is not None]
    has_ended = len(executions) == vertex.parallelism and all(execution.ended_at_ms for execution in executions)
    return {
        "read_records": sum_of_known(io.read_records for io in told),
        "write_records": sum_of_known(io.write_records for io in told),
        "began_at": iso_time(min((each.deployed_at_ms for each in executions if each.deployed_at_ms), default=0)),
        "ended_at": iso_time(max(each.ended_at_ms for each in executions)) if has_ended else None,
    }


def archived_work(subtasks: Sequence[View]) -> View:
    """Return the same of an ended job, from its subtasks as `job_view` shows them; an archive may not have the attempts."""
    newest = [attempt for subtask in subtasks for attempt in subtask.get("attempts", ()) if attempt["attempt"] == subtask["attempt"]]
    told = [attempt["io"] for attempt in newest if attempt.get("io") is not None]
    ends = [attempt["ended_at"] for attempt in newest]
    return {
        "read_records": sum_of_known(io["read_records"] for io in told),
        "write_records": sum_of_known(io["write_records"] for io in told),
        "began_at": min(filter(None, (attempt["deployed_at"] for attempt in newest)), default=None),
        "ended_at": max(ends) if len(ends) == len(subtasks) and all(ends) else None,
    }
