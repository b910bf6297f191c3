"""When a master starts a snapshotter: to take a snapshot, to confirm another master's, to trim the log.

The work is done in a process of its own (`snapshotter`), one at a time; here is only when. What is wanted follows from the accepted state
alone, so masters need not coordinate: each waits by its rank, the leader longest. The rule: a snapshotter that fails
or hangs disturbs nothing; it is killed after its time, tried again with back-off, and it dies with its master.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from eventflink.master.upkeep import Upkeep
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.snapshots.snapshotter import DONE, REFUTED

_logger = logging.getLogger(__name__)

TICK_S: Final = 1.0
TIMEOUT_S: Final = 1800.0
FIRST_BACKOFF_S: Final = 10.0
MAX_BACKOFF_S: Final = 3600.0
MAX_RANK: Final = 5
GRACE_SHARE: Final = 10
"""Each rank waits a tenth of the interval longer before it takes a snapshot: by then those before it have been heard of."""

CONFIRM_GRACE_S: Final = 20.0
"""Each rank waits this much longer before it confirms one."""

_KILL_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class MomentOfCluster:
    """What a master sees of the cluster at one moment."""

    log_offset: int
    """The offset of the last record that it has folded."""
    upkeep: Upkeep
    leads: bool
    rank: int
    """How many masters there are that should do such work before this one; the leader ranks behind all standbys."""


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """What a snapshotter is started for."""

    mode: str
    """`take`, `confirm` or `trim`."""
    snapshot_id: str = ""
    trusted: tuple[str, ...] = ()
    """Confirmed snapshots, from which the one who confirms may start."""


class SnapshotProcess(Protocol):
    """A snapshotter that runs; `subprocess.Popen` is one."""

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""

    def kill(self) -> None:
        """End it."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""


@dataclass(slots=True)
class _Run:
    task: SnapshotTask
    process: SnapshotProcess
    log_offset: int
    started_s: float


class SnapshotKeeper:
    """Decides once a tick whether there is something to do, and looks after the process that does it."""

    def __init__(
        self, configuration: Configuration, start: Callable[[SnapshotTask], SnapshotProcess], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the settings, what starts a snapshotter, and a monotonic clock in seconds."""
        self._configuration = configuration
        self._start = start
        self._clock = clock
        self._run: _Run | None = None
        self._not_before_s = 0.0
        self._backoff = Backoff(FIRST_BACKOFF_S, MAX_BACKOFF_S)
        self._taken_at_offset = -1
        """Where the last snapshot of this process was taken: its report may not have been decided yet."""
        self._first_seen: tuple[str, float] = ("", 0.0)
        """The newest snapshot, and when this master first saw it."""
        self._compared: set[str] = set()
        """Snapshots that were compared here, whatever came of it; should a confirmation get lost, the next snapshot is confirmed."""
        self._trimmed = ""
        """The snapshot behind which the log was trimmed last, or could not be."""

    def tick(self, view: MomentOfCluster) -> None:
        """Look after the snapshotter that runs, or start one if that is due."""
        now_s = self._clock()
        if self._run is not None and not self._finish(self._run, now_s):
            return
        task = self._find_task(view, now_s) if now_s >= self._not_before_s else None
        if task is None:
            return
        try:
            process = self._start(task)
        except OSError as error:
            _logger.warning("SnapshotterFailed mode=%s reason=OSError error=%s", task.mode, error)
            self._back_off(now_s)
            return
        _logger.info("SnapshotterStarted mode=%s snapshot=%s offset=%d", task.mode, task.snapshot_id, view.log_offset)
        self._run = _Run(task, process, view.log_offset, now_s)

    def _finish(self, run: _Run, now_s: float) -> bool:
        """Tell whether the snapshotter is done, and take note of how it went."""
        code = run.process.poll()
        if code is None:
            if now_s - run.started_s < TIMEOUT_S:
                return False
            run.process.kill()
            run.process.wait(_KILL_TIMEOUT_S)
            _logger.warning("SnapshotterKilled mode=%s timeout_s=%.0f", run.task.mode, TIMEOUT_S)
        self._run = None
        if code in (DONE, REFUTED):
            self._backoff.reset()
            self._note_done(run)
        else:
            _logger.warning("SnapshotterFailed mode=%s exit_code=%s", run.task.mode, code)
            self._back_off(now_s)
        return True

    def _note_done(self, run: _Run) -> None:
        """Take note of what need not be done again."""
        if run.task.mode == "take":
            self._taken_at_offset = run.log_offset
        elif run.task.mode == "trim":
            self._trimmed = run.task.snapshot_id
        else:
            self._compared.add(run.task.snapshot_id)

    def _back_off(self, now_s: float) -> None:
        self._not_before_s = now_s + self._backoff.next()

    def _find_task(self, view: MomentOfCluster, now_s: float) -> SnapshotTask | None:
        self._compared.intersection_update(view.upkeep.snapshots)
        return self._find_trim(view) or self._find_confirmation(view, now_s) or self._find_take(view)

    def _find_trim(self, view: MomentOfCluster) -> SnapshotTask | None:
        confirmed = view.upkeep.newest_confirmed()
        wanted = self._configuration.snapshot_trim_log and view.leads and confirmed is not None
        if not wanted or confirmed is None or confirmed == self._trimmed:
            return None
        return SnapshotTask("trim", confirmed)

    def _find_confirmation(self, view: MomentOfCluster, now_s: float) -> SnapshotTask | None:
        newest = next(reversed(view.upkeep.snapshots), None)
        if newest is None:
            return None
        if newest != self._first_seen[0]:
            self._first_seen = (newest, now_s)
        record = view.upkeep.snapshots[newest]
        if record.confirmed_by or record.taken_by == self._configuration.master_id or newest in self._compared:
            return None
        if now_s - self._first_seen[1] < min(view.rank, MAX_RANK) * CONFIRM_GRACE_S:
            return None
        return SnapshotTask("confirm", newest, tuple(s for s, r in view.upkeep.snapshots.items() if r.confirmed_by))

    def _find_take(self, view: MomentOfCluster) -> SnapshotTask | None:
        interval = self._configuration.snapshot_interval_records
        if not interval:
            return None
        newest = max((r.log_offset for r in view.upkeep.snapshots.values()), default=-1)
        fresh = view.log_offset - max(newest, self._taken_at_offset)
        wanted = interval + min(view.rank, MAX_RANK) * interval // GRACE_SHARE
        return SnapshotTask("take") if fresh >= wanted else None

    async def run(self, look: Callable[[], MomentOfCluster | None]) -> None:
        """Tick every second until cancelled, and then end the snapshotter; `look` returns None while there is nothing to see.

        For the event loop of the main thread: the kernel ends a snapshotter with the thread that started it.
        """
        try:
            while True:
                view = look()
                if view is not None:
                    self.tick(view)
                await asyncio.sleep(TICK_S)
        finally:
            self.close()

    def close(self) -> None:
        """End the snapshotter that runs, if any; what it has not finished counts for nothing."""
        if self._run is not None:
            self._run.process.kill()
            self._run.process.wait(_KILL_TIMEOUT_S)
            self._run = None


def starter(configuration: Configuration, access: ClusterAccess) -> Callable[[SnapshotTask], SnapshotProcess]:
    """Return what starts a snapshotter as a process; its log goes where this process's goes."""

    def start(task: SnapshotTask) -> SnapshotProcess:
        values = {
            "--access": access.as_text(),
            "--master-id": configuration.master_id,
            "--snapshot-id": task.snapshot_id,
            "--trusted": ",".join(task.trusted),
            "--retained": str(configuration.snapshots_retained),
            "--keep-records": str(configuration.snapshot_trim_keep_records),
            "--parent": str(os.getpid()),
        }
        arguments = [f"{name}={value}" for name, value in values.items()]
        command = [sys.executable, "-m", "eventflink.snapshots.snapshotter", task.mode, *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)

    return start
