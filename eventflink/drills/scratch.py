"""A scratch cluster for a rehearsal: topics under an id of its own, a directory of its own, and real masters that can reach nothing else.

Everything a master writes outside Kafka lies below its directories, which are scratch ones here; every topic it reads or writes has the
scratch id in its name; no TaskExecutor knows that id; and with `drills.rehearsal` it only notes what it would clean up. Whatever happens,
the masters end and the topics go when the block ends.
"""

import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from eventflink.drills import DrillFailed
from eventflink.events.topics import INBOUND
from eventflink.gateways.reads import KnownMaster, find_masters
from eventflink.log.administration import AdministrationError, delete_topics, ensure_topics
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.cluster_secret import OFF
from eventflink.model.configuration import Configuration
from eventflink.model.rehearsal import SCRATCH_MARK
from eventflink.processes.child_processes import ChildProcess, end_children, start_child

START_TIMEOUT_S: Final = 120.0
_KILL_TIMEOUT_S: Final = 15.0

_MAX_BASE: Final = 96
_DELETIONS: Final = 5
_PAUSE_S: Final = 0.1
_NEVER: Final = "1000000"
"""Missed heartbeats: the TaskManagers of the copied state send theirs elsewhere, and must not be declared lost for that."""

Command = Callable[[dict[str, str], Sequence[str]], list[str]]
"""Returns the command line of an `eventflink` with these overrides and this command."""

_logger = logging.getLogger(__name__)


def scratch_id(cluster_id: str) -> str:
    """Return an id for a scratch cluster that nobody had before."""
    return f"{cluster_id[:_MAX_BASE]}{SCRATCH_MARK}{uuid.uuid4().hex[:12]}"


class ScratchCluster:
    """Topics, directory and masters of one rehearsal. For the main thread; use it as a context manager."""

    def __init__(self, configuration: Configuration, access: ClusterAccess, command: Command) -> None:
        self.access = access.of_copy(scratch_id(access.cluster_id))
        self._replication_factor = configuration.replication_factor
        self._command = command
        self._directory = Path()
        self.masters: dict[str, ChildProcess] = {}

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="eventflink-drill-"))
        try:
            ensure_topics(self.access, self._replication_factor)
        except BaseException:
            self._remove()
            raise
        _logger.info("ScratchClusterMade cluster=%s directory=%s", self.access.cluster_id, self._directory)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """End the masters, and leave neither topics nor files."""
        try:
            end_children(list(self.masters.values()))
        finally:
            self._remove()

    def overrides(self, master_id: str) -> dict[str, str]:
        """Return the configuration that keeps a master to the scratch cluster, whatever the real one's says."""
        directory = self._directory / master_id
        return {
            "cluster.id": self.access.cluster_id,
            "security.cluster-secret": self.access.secret_reference or OFF,
            "jobmanager.id": master_id,
            "jobmanager.rpc.address": "localhost",
            "jobmanager.query.bind-host": "127.0.0.1",
            "jobmanager.query.port": "0",
            "high-availability.type": "kafka",  # An outside service would elect the real cluster's masters with these.
            "data.directory": str(directory),
            "blob.storage.directory": str(directory / "blobs"),
            "blob.server.bind-host": "127.0.0.1",
            "blob.server.port": "0",
            "execution.working-directory": str(directory / "jobs"),
            "heartbeat.missed-beats": _NEVER,
            "snapshots.interval-records": "0",
            "snapshots.trim-log": "false",
            "drills.allowed": "false",
            "drills.rehearsal": "true",
        }

    def start_master(self, master_id: str) -> ChildProcess:
        """Start a master whose inputs are the scratch topics."""
        rebind = [argument for topic in INBOUND for argument in ("--rebind", str(topic))]
        command = self._command(self.overrides(master_id), ["master", *rebind])
        master = self.masters[master_id] = start_child(master_id, command, self._directory)
        return master

    def wait_for_presence(self, master: ChildProcess, log_offset: int) -> KnownMaster:
        """Wait until a master says that it has read the log to an offset, and return what it says.

        Raises:
            ChildDied: it ended.
            DrillFailed: it did not in time.

        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            master.check()
            known = next((m for m in find_masters(self.access) if m.master_id == master.name), None)
            if known is not None and known.presence.log_offset >= log_offset:
                return known
            time.sleep(_PAUSE_S)
        raise DrillFailed(f"the rehearsal's {master.name} did not read the log to offset {log_offset} within {START_TIMEOUT_S:.0f} s")

    def kill(self, master_id: str) -> float:
        """Kill a master; return when, in monotonic seconds."""
        master = self.masters.pop(master_id)
        killed_s = time.monotonic()
        master.process.kill()
        master.process.wait(_KILL_TIMEOUT_S)
        return killed_s

    def count_lines(self, text: str) -> int:
        """Return how many lines of the masters' logs contain a text."""
        return sum(
            text in line
            for path in sorted(self._directory.glob("*.log"))
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        )

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        for number in range(_DELETIONS):
            try:
                delete_topics(self.access)
            except AdministrationError as error:
                if number == _DELETIONS - 1:
                    raise DrillFailed(
                        f"the scratch topics {self.access.cluster_id}.* could not be deleted; delete them by hand: {error}"
                    ) from error
                time.sleep(2**number * _PAUSE_S)
            else:
                _logger.info("ScratchClusterRemoved cluster=%s", self.access.cluster_id)
                return
