"""What a REST process does itself in the background, and how it came out: bounded, and gone with the process."""

import asyncio
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

MAX_KEPT: Final = 1_000
"""How many operations that have ended are remembered, the newest."""

MAX_UNDER_WAY: Final = 16


class TooManyOperations(Exception):
    """So many are under way already."""


@dataclass(slots=True)
class Operations:
    """Operations by their ids, the newest last. For one event loop."""

    tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict)

    def start(self, work: Coroutine[Any, Any, Any]) -> str:
        """Begin what `work` does; return its id.

        Raises:
            TooManyOperations: it was not begun.

        """
        if sum(not task.done() for task in self.tasks.values()) >= MAX_UNDER_WAY:
            work.close()
            raise TooManyOperations(f"{MAX_UNDER_WAY} operations are under way: ask again later")
        operation_id = uuid.uuid4().hex
        task = self.tasks[operation_id] = asyncio.create_task(work, name=f"operation {operation_id}")
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # Nobody may ever ask for it.
        for ended in [each for each, task in self.tasks.items() if task.done()][: max(0, len(self.tasks) - MAX_KEPT)]:
            del self.tasks[ended]
        return operation_id
