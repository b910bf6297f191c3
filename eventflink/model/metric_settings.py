"""Scopes of metrics and where they are served, as the configuration writes them: Flink's words, read into what Prometheus has.

A scope is what a metric is about: a master, a job at a master, a TaskExecutor, a task. Its name is the beginning of the metric's name and
fixed, so that dashboards fit every cluster; its format (`metrics.scope.*`) says which of its variables are labels. Nothing here opens a
port or measures anything.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from eventflink.model.port_range import ports_of

_VARIABLE: Final = re.compile(r"<(\w+)>")


@dataclass(frozen=True, slots=True)
class _Kind:
    prefix: str
    variables: tuple[str, ...]
    required: tuple[str, ...]
    words: tuple[str, ...]


class MetricScope(Enum):
    """What a metric is about."""

    JOBMANAGER = _Kind("eventflink_jobmanager", ("cluster_id", "host", "jm_id"), (), ("jobmanager",))
    JOB = _Kind("eventflink_jobmanager_job", ("cluster_id", "host", "jm_id", "job_id", "job_name"), ("job_id",), ("jobmanager",))
    TASKMANAGER = _Kind("eventflink_taskmanager", ("cluster_id", "host", "tm_id"), (), ("taskmanager",))
    TASK = _Kind(
        "eventflink_taskmanager_task",
        ("cluster_id", "host", "tm_id", "job_id", "job_name", "task_id", "subtask_index", "task_attempt_num"),
        ("job_id", "task_id", "subtask_index", "task_attempt_num"),
        ("taskmanager",),
    )
    PROCESS = _Kind("eventflink", (), (), ())
    """A process of either kind; it has the labels of its master or TaskExecutor."""

    @property
    def prefix(self) -> str:
        """The beginning of the names of its metrics."""
        return self.value.prefix

    @property
    def variables(self) -> tuple[str, ...]:
        """What its format may name, each in angle brackets."""
        return self.value.variables


def scope_labels(scope: MetricScope, text: str) -> tuple[str, ...]:
    """Return the variables that a scope format makes labels, in its order.

    A format is written as Flink writes it, `<host>.taskmanager.<tm_id>`: parts between dots, each a variable or the scope's own word, which
    is in the metric's name already.

    Raises:
        ValueError: a part is neither, stands twice, or one without which two things would be one series is missing.

    """
    found: list[str] = []
    for part in filter(None, text.split(".")):
        match = _VARIABLE.fullmatch(part)
        if match is None:
            if part in scope.value.words:
                continue
            words = ", ".join(f"'{word}'" for word in scope.value.words)
            raise ValueError(f"'{part}' can be no part of it: names of metrics are fixed; a part is a <variable> or {words}")
        name = match.group(1)
        if name not in scope.variables:
            raise ValueError(f"<{name}> is not a variable of this scope: {', '.join(f'<{v}>' for v in scope.variables)}")
        if name in found:
            raise ValueError(f"<{name}> stands in it twice")
        found.append(name)
    missing = [name for name in scope.value.required if name not in found]
    if missing:
        raise ValueError(f"<{missing[0]}> must stand in it: without it two {scope.name.lower()}s could be one series")
    return tuple(found)


def read_ports(text: str) -> tuple[int, ...]:
    """Return the ports that a text names, in the order in which they are tried; empty: none; `0`: any free one.

    Raises:
        ValueError: it names no ports.

    """
    return tuple(ports_of(text)) if text else ()
