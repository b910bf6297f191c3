"""What is fuzzed, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from eventflink.events.seal import NO_SEALS
from tests.fuzz.documents import Documents
from tests.fuzz.engine import Target
from tests.fuzz.executing import TaskExecutor
from tests.fuzz.folding import Log, Snapshots
from tests.fuzz.leading import Leader, Masters
from tests.fuzz.listening import Clients
from tests.fuzz.sealing import SEALS, name_of
from tests.fuzz.serving import Ports

_SEALABLE: Final[Mapping[str, Callable[..., Target]]] = {
    "leader": Leader,
    "masters": Masters,
    "taskexecutor": TaskExecutor,
    "log": Log,
    "snapshots": Snapshots,
    "clients": Clients,
}

TARGETS: Final[Mapping[str, Callable[[], Target]]] = {
    **{name_of(name, seals): partial(made, seals) for seals in (NO_SEALS, SEALS) for name, made in _SEALABLE.items()},
    Documents.name: Documents,
    Ports.name: Ports,
}
"""Each that reads what masters and TaskExecutors say is one more in a cluster that has a secret."""
