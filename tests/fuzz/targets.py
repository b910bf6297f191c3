"""What is fuzzed, by name."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.fuzz.documents import Documents
from tests.fuzz.engine import Target
from tests.fuzz.executing import TaskExecutor
from tests.fuzz.folding import Log, Snapshots
from tests.fuzz.leading import Leader, Masters
from tests.fuzz.listening import Clients
from tests.fuzz.serving import Ports

_MADE: Final[tuple[type[Target], ...]] = (Leader, Masters, TaskExecutor, Log, Snapshots, Clients, Documents, Ports)

TARGETS: Final[Mapping[str, Callable[[], Target]]] = {made.name: made for made in _MADE}
