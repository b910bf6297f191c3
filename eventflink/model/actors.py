"""Who asked, as the log names them: a name that the cluster knows stands alone, one that a record only declares is marked.

Whoever may write to the topics may declare any name. The rule: what comes by Kafka is marked by the leader, unless one of the cluster's own
processes has sealed it (P3a); so no sender takes a mark away, or another's name.
"""

from typing import Final

_MARK: Final = " (declared)"
"""No name that the cluster knows ends so: `rest/access/identity.py:NAME_PATTERN`."""


def declared(name: str) -> str:
    """Return a name as the log has it where nobody has proven it; who declared none is nobody."""
    return f"{name}{_MARK}" if name else ""


def is_called(actor: str, name: str) -> bool:
    """Tell whether an actor of the log has this name, proven or not."""
    return actor in (name, declared(name))
