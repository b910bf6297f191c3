"""The long lists of locations that tasks of one TaskExecutor read, each in a file while a task that is to read it has not ended.

All tasks of a vertex may read the same list. In the order of each, it would pass through the TaskExecutor's main loop, the fork server and
the task's channel once for each task, and heartbeats would wait for it. So `process_link.py` writes a list once, and its orders name it;
the process of a task (`task_process.py`) reads it there.

The rule it keeps: a directory is of one TaskExecutor, which empties it when it starts. Another one of the host has another.
"""

import hashlib
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from eventflink.events.effects import InputLocations, TaskInput
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.taskexecutor.message_lines import LineCodec
from eventflink.taskexecutor.process_events import LaunchTask

_LOGGER = logging.getLogger(__name__)
_CODEC: Final = LineCodec(InputLocations)
_ENDING: Final = ".json"


@dataclass(slots=True)
class LocationFiles:
    """The files in one directory. Used by the TaskExecutor's main loop only."""

    directory: Path
    _readers: dict[str, set[AttemptId]] = field(default_factory=dict)
    """By the id of the list, the attempts that were told its file and have not ended."""

    def put(self, order: LaunchTask) -> LaunchTask:
        """Return the order with its long lists in files; where a file cannot be written, the list stays in the order."""
        inputs = order.deployment.inputs
        if not any(each.locations_id for each in inputs):
            return order
        inputs = tuple([self._put(each, order.attempt) if each.locations_id else each for each in inputs])
        return replace(order, deployment=replace(order.deployment, inputs=inputs))

    def _put(self, task_input: TaskInput, attempt: AttemptId) -> TaskInput:
        locations_id = task_input.locations_id
        if locations_id not in self._readers:
            path = _path_of(self.directory, locations_id)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_CODEC.encode(InputLocations(locations_id, 0, 1, task_input.locations)))
            except OSError as error:
                _LOGGER.warning("LocationsNotWritten attempt=%s error=%s", attempt, error)
                with suppress(OSError):
                    path.unlink()
                return replace(task_input, locations_id="")
        self._readers.setdefault(locations_id, set()).add(attempt)
        return replace(task_input, locations=())

    def release(self, attempt: AttemptId) -> None:
        """Remove the files that no other attempt reads: this one has ended."""
        for locations_id in [each for each, readers in self._readers.items() if attempt in readers]:
            self._readers[locations_id].discard(attempt)
            if not self._readers[locations_id]:
                del self._readers[locations_id]
                _remove(_path_of(self.directory, locations_id))

    def clear(self) -> None:
        """Remove all files, also those of a TaskExecutor that was killed: no process is left that could read them."""
        self._readers.clear()
        for path in [*self.directory.glob(f"*{_ENDING}")]:
            _remove(path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _LOGGER.warning("LocationsNotRemoved file=%s error=%s", path.name, error)


def read_locations(directory: Path, order: LaunchTask) -> LaunchTask:
    """Return the order with the lists that its `LocationFiles` have put into files.

    Raises:
        OSError: a file cannot be read.
        UnreadableLine: a file is not what was written.

    """
    deployment = order.deployment
    inputs = [replace(each, locations=_read(directory, each.locations_id)) if each.locations_id else each for each in deployment.inputs]
    return replace(order, deployment=replace(deployment, inputs=tuple(inputs)))


def _read(directory: Path, locations_id: str) -> tuple[OutputLocation, ...]:
    told: InputLocations = _CODEC.decode(_path_of(directory, locations_id).read_bytes())
    return told.locations


def _path_of(directory: Path, locations_id: str) -> Path:
    """Return the file of a list. It is named by a hash: the id comes out of a record, and may be no name of a file."""
    return directory / f"{hashlib.sha256(locations_id.encode()).hexdigest()}{_ENDING}"
