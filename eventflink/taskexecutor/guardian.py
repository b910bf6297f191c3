"""The guardian of one TaskExecutor: a process of its own that survives it, cleans up after it, and tells the master of its death.

Started by `guardian_link.py` in a session of its own, it reads what is to be looked after from standard input. When the input ends without
`OrderlyEnd`, the TaskExecutor is dead: what its processes did not end by themselves is killed, its Spark sessions are released, and only
then is `TaskManagerDeath` appended (P15: who reads it may start the attempts again). Every step is bounded; then the guardian ends. The
TaskExecutor has encoded that record, so that the guardian starts and speaks without the classes and schemas of all records.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Final

import psutil

from eventflink.events.topics import Topic
from eventflink.log.last_record import produce_last_record
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.spark_engines import shown
from eventflink.processes.guardian_process import read_owner
from eventflink.taskexecutor import spark_release
from eventflink.taskexecutor.guardian_messages import (
    GuardedInstance,
    GuardianMessage,
    OrderlyEnd,
    ProcessEnded,
    ProcessStarted,
    SessionOpened,
    SessionReleased,
    decode_message,
)

_LOGGER = logging.getLogger(__name__)

_GRACE_S: Final = 1.0
_KILL_TIMEOUT_S: Final = 2.0
_RELEASE_TIMEOUT_S: Final = 4.0
_RELEASE_RETRY_S: Final = 0.25
_DELIVERY_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.01


class Estate:
    """What a TaskExecutor would leave behind if it died now."""

    def __init__(self) -> None:
        self.instance_id = ""
        self.death = b""
        self.processes: dict[int, psutil.Process] = {}
        self.sessions: dict[str, str] = {}
        self.is_orderly = False

    def apply_message(self, message: GuardianMessage) -> None:
        """Note one message."""
        match message:
            case GuardedInstance(instance_id=instance_id, death=death):
                self.instance_id, self.death = instance_id, bytes.fromhex(death)
            case ProcessStarted(process_id=process_id):
                # psutil notes when the process began, and so never takes a later one of the same id for it.
                with contextlib.suppress(psutil.NoSuchProcess):
                    self.processes[process_id] = psutil.Process(process_id)
            case ProcessEnded(process_id=process_id):
                self.processes.pop(process_id, None)
            case SessionOpened(session_id=session_id, remote=remote):
                self.sessions[session_id] = remote
            case SessionReleased(session_id=session_id):
                self.sessions.pop(session_id, None)
            case OrderlyEnd():
                self.is_orderly = True


def _is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_until_gone(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait, and return those that are still there after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    left = [p for p in processes if not _is_gone(p)]
    while left and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
        left = [p for p in left if not _is_gone(p)]
    return left


def _kill_groups(process_ids: Iterable[int]) -> None:
    """Kill whatever is left in the process groups that these processes led: what a task started itself is not tied to it."""
    own_group = os.getpgrp()
    for process_id in process_ids:
        if process_id == own_group:
            continue
        try:
            os.killpg(process_id, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def end_processes(processes: dict[int, psutil.Process]) -> int:
    """See every process gone; return how many had to be killed. They have a moment to end with their parent by themselves."""
    left = _wait_until_gone(processes.values(), _GRACE_S)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    _kill_groups(processes)
    for process in _wait_until_gone(left, _KILL_TIMEOUT_S):
        _LOGGER.error("ProcessNotEnded process_id=%d", process.pid)
    return len(left)


def release_sessions(sessions: dict[str, str]) -> None:
    """Release every Spark session, all at once; one that takes too long is left to the server's own time limits."""
    deadline_s = time.monotonic() + _RELEASE_TIMEOUT_S
    threads = [threading.Thread(target=_release, args=(remote, session, deadline_s), daemon=True) for session, remote in sessions.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))


def _release(remote: str, session_id: str, deadline_s: float) -> None:
    """Try until it works: a server that is just beginning an operation refuses to end it."""
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            spark_release.release_session(remote, session_id, timeout=left_s)
        except spark_release.ReleaseFailed as error:  # A server that ended runs nothing; the death has to be told in any case.
            _LOGGER.warning("SessionNotReleased session=%s remote=%s error=%s", session_id, shown(remote), error)
            time.sleep(_RELEASE_RETRY_S)
        else:
            return


def settle(estate: Estate, access: ClusterAccess, task_manager_id: str) -> bool:
    """Do what the death of the TaskExecutor asks for; return whether all of it was done.

    Without Kafka, or an instance, nothing is told: the master sees the missed heartbeats.
    """
    killed = end_processes(estate.processes)
    release_sessions(estate.sessions)
    _LOGGER.info("EstateSettled processes=%d killed=%d sessions=%d", len(estate.processes), killed, len(estate.sessions))
    if not estate.instance_id:
        return True
    told = produce_last_record(access, Topic.TASKMANAGERS, task_manager_id, estate.death, _DELIVERY_TIMEOUT_S)
    _LOGGER.info("DeathReported instance=%s told=%s", estate.instance_id, told)
    return told


def _watch(estate: Estate) -> None:
    """Read messages until the input ends."""
    preloaded = False
    for line in read_owner():
        try:
            message = decode_message(line)
        except ValueError as error:  # A line cut off by the death itself, or by a bug: reading continues.
            _LOGGER.warning("MessageUnreadable reason=%s", error)
            continue
        estate.apply_message(message)
        if isinstance(message, SessionOpened) and not preloaded:
            # In a thread: only a guardian with a session to release needs the gRPC modules, and reading must continue.
            threading.Thread(target=spark_release.preload, daemon=True).start()
            preloaded = True


def main() -> int:
    """Watch one TaskExecutor until it ends; return the exit code."""
    parser = argparse.ArgumentParser(description="Watches one TaskExecutor; started by it.")
    parser.add_argument("--access", required=True, type=ClusterAccess.of_text, help="how the cluster is reached, as JSON")
    parser.add_argument("--task-manager-id", required=True)
    arguments = parser.parse_args()
    estate = Estate()
    _watch(estate)
    if estate.is_orderly:
        return 0
    return 0 if settle(estate, arguments.access, arguments.task_manager_id) else 1


if __name__ == "__main__":
    sys.exit(main())
