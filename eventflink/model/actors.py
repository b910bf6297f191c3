"""Who asked, as the log names them: a name that the cluster knows stands alone, one that a record only declares is marked.

Whoever may write to the topics may declare any name. The rule: what comes by Kafka is marked by the leader, unless one of the cluster's own
processes has sealed it (P3a): a master, or a REST process that knows whose token it was asked with. So no sender takes a mark away, or
another's name.
"""

from typing import Final

_MARK: Final = " (declared)"
"""No name that the cluster knows ends so: `rest/access/identity.py:NAME_PATTERN`."""


TASK_EXECUTOR: Final = "TaskExecutor"
"""Who blocks a TaskManager by its own report. Nobody who asks stands in the log as that: he would be taken for it."""


def named(name: str, *, is_proven: bool) -> str:
    """Return a name as the log has it."""
    return name if is_proven and name != TASK_EXECUTOR else declared(name)


def declared(name: str) -> str:
    """Return a name as the log has it where nobody has proven it; who declared none is nobody."""
    return f"{name}{_MARK}" if name else ""


def is_called(actor: str, name: str) -> bool:
    """Tell whether an actor of the log has this name, proven or not."""
    return actor in (name, declared(name))
