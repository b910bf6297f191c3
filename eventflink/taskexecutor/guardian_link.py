"""The TaskExecutor's side of its guardian: keeps it informed, and remembers what its successor has to know."""

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from eventflink.events.codec import ReportsCodec
from eventflink.events.inputs import TaskManagerDeath
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes.file_lock import FileLock
from eventflink.processes.guardian_process import GuardianProcess
from eventflink.taskexecutor.guardian_messages import (
    GuardedInstance,
    GuardianMessage,
    OrderlyEnd,
    ProcessEnded,
    ProcessStarted,
    SessionOpened,
    SessionReleased,
    encode_message,
)

_LOGGER = logging.getLogger(__name__)


class GuardianLink:
    """Owns the guardian process; used by the main loop only."""

    def __init__(self, access: ClusterAccess, task_manager_id: str, log_path: Path, identity_lock: FileLock) -> None:
        """Prepare; what the guardian has to say goes to the file `log_path`; it holds the lock, too, as long as it lives."""
        arguments = ["--access", access.as_text(), "--task-manager-id", task_manager_id]
        self._access = access
        self._task_manager_id = task_manager_id
        self._guardian = GuardianProcess("eventflink.taskexecutor.guardian", arguments, self._known, log_path, identity_lock)
        self._instance: GuardedInstance | None = None
        self._processes: dict[int, ProcessStarted] = {}
        self._sessions: dict[str, SessionOpened] = {}

    @property
    def process_id(self) -> int | None:
        """The guardian's process, if there is one."""
        return self._guardian.process_id

    def begin_instance(self, instance_id: str) -> None:
        """Tell the guardian which instance this is, and what it is to say of its death."""
        reason = f"the TaskExecutor's process {os.getpid()} ended without deregistering"
        codec = ReportsCodec("TaskManagerEnvelope", seal=seals_of(self._access).of(Topic.TASKMANAGERS))
        death = codec.encode([TaskManagerDeath(self._task_manager_id, instance_id, reason)])
        self.send_message(GuardedInstance(instance_id, death.hex()))

    def send_message(self, message: GuardianMessage) -> None:
        """Tell the guardian, and remember it for the next one."""
        match message:
            case GuardedInstance():
                self._instance = message
            case ProcessStarted(process_id=process_id):
                self._processes[process_id] = message
            case ProcessEnded(process_id=process_id):
                self._processes.pop(process_id, None)
            case SessionOpened(session_id=session_id):
                self._sessions[session_id] = message
            case SessionReleased(session_id=session_id):
                self._sessions.pop(session_id, None)
            case OrderlyEnd():
                pass
        for line in _lines([message]):
            self._guardian.write(line)

    def forget_processes(self) -> None:
        """Say that every process so far is gone: their fork server ended."""
        for process_id in list(self._processes):
            self.send_message(ProcessEnded(process_id))

    def check(self) -> None:
        """Start a guardian when there is none; call it now and then."""
        self._guardian.check()

    def close(self) -> None:
        """Tell it that this is the orderly end, and see it end."""
        self.send_message(OrderlyEnd())
        self._guardian.close()

    def _known(self) -> Iterator[bytes]:
        known: list[GuardianMessage] = [*([self._instance] if self._instance else []), *self._processes.values(), *self._sessions.values()]
        return _lines(known)


def _lines(messages: Iterable[GuardianMessage]) -> Iterator[bytes]:
    """Yield the messages as lines, without what is too long for the pipe."""
    for message in messages:
        try:
            yield encode_message(message)
        except ValueError as error:
            _LOGGER.warning("GuardianNotTold message=%s reason=%s", type(message).__name__, error)
