"""The processes of a failover benchmark: masters of which one leads, and hosts of TaskExecutors, started, stopped and killed for real.

Every process dies with the benchmark. Each start of a master has an id of its own, so that the log says which process leads.
"""

import itertools
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.failover_watch import LogWatch
from benchmarks.simulated_task_executors import host_settings
from eventflink.events.topics import INBOUND, topic_name
from eventflink.gateways.following import MasterNotFollowing, wait_until_it_follows
from eventflink.log.admin_connection import AdminConnection
from eventflink.model.configuration import Configuration
from eventflink.processes.child_processes import ChildDied, ChildProcess, end_children, start_child

START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0

Command = Callable[[dict[str, str], str], list[str]]
"""Returns the command line of an `eventflink` with these overrides and this command."""


class FailoverCluster:
    """Masters and TaskExecutors on one broker. For the main thread, with which the processes end; use it as a context manager."""

    def __init__(self, configuration: Configuration, bootstrap: str, command: Command) -> None:
        """Start nothing yet; the topics of the cluster must be there."""
        self.configuration = configuration
        self.bootstrap = bootstrap
        self.cluster_id = configuration.cluster_id
        self.access = configuration.access(bootstrap)
        self.watch = LogWatch(self.access)
        self.masters: dict[str, ChildProcess] = {}
        self.hosts: dict[str, ChildProcess] = {}
        self.task_managers: dict[str, frozenset[str]] = {}
        """The TaskManagers of each host."""
        self._command = command
        self._numbers = itertools.count(1)
        self._others: list[ChildProcess] = []

    # -- starting --------------------------------------------------------------------------------------------------

    def start_master(self) -> str:
        """Start a master and wait until it leads, or until it is a standby that follows the log; return its id.

        Raises:
            ChildDied: it did not.

        """
        master_id = f"master-{next(self._numbers)}"
        running = self._start(master_id, self._command({"jobmanager.id": master_id}, "master"))
        self.masters[master_id] = running
        try:
            wait_until_it_follows(self.access, master_id, running.check)
        except MasterNotFollowing as error:
            raise ChildDied(f"{error}; {running.end_of_log()}") from error
        if self.watch.ask(lambda: self.watch.leadership) is None:
            self.watch.wait_for(lambda: self.watch.leadership, "a first leader")
        # Ready is a standby that has heard the leader for as long as a standby listens before it campaigns.
        time.sleep(self.configuration.lease_timeout_ms / 1000)
        return master_id

    def start_host(self, task_executors: int, slots: int, journal: Path | None = None) -> str:
        """Start a host of simulated TaskExecutors and wait until all of them are registered; return its name.

        Raises:
            ChildDied, NotSeen: they are not.

        """
        name = f"host-{next(self._numbers)}"
        settings = host_settings(self.configuration, self.bootstrap, name, task_executors, slots, journal)
        return self._start_host(name, settings.command(), frozenset(settings.task_manager_ids))

    def start_task_executor(self, slots: int) -> str:
        """Start a real TaskExecutor and wait until it is registered; return its id; raises as `start_host` does."""
        name = f"tm-{next(self._numbers)}"
        # Its tasks use no Spark, and a JVM that starts beside what is measured would be measured with it.
        overrides = {"taskmanager.id": name, "taskmanager.numberOfTaskSlots": str(slots), "spark.start-early": "false"}
        command = self._command(overrides, "taskexecutor")
        return self._start_host(name, command, frozenset({name}))

    def _start_host(self, name: str, command: Sequence[str], task_manager_ids: frozenset[str]) -> str:
        self.hosts[name] = self._start(name, command)
        self.task_managers[name] = task_manager_ids
        registered = self.watch.fold.master.resource_manager.task_managers
        self.watch.wait_for(lambda: task_manager_ids <= registered.keys(), f"registration of {', '.join(sorted(task_manager_ids))}")
        return name

    def _start(self, name: str, command: Sequence[str]) -> ChildProcess:
        return start_child(name, command, self.configuration.data_path / "logs")

    def check(self) -> None:
        """Raise `ChildDied` if a process ended by itself."""
        for running in [*self.masters.values(), *self.hosts.values()]:
            running.check()

    def wait_until_decided(self) -> None:
        """Wait until everything that was said up to now is decided, so that a measurement begins with nothing left over.

        Raises:
            NotSeen: it is not in time.

        """
        names = {topic: topic_name(self.cluster_id, topic) for topic in INBOUND}
        marks = AdminConnection(self.access.kafka).read_watermarks([(name, 0) for name in names.values()])
        ends = {topic: marks[name, 0].high for topic, name in names.items()}
        cursors = self.watch.fold.master.requests.cursors

        def decided() -> bool:
            return all(end == 0 or (topic in cursors and cursors[topic].next_offset >= end) for topic, end in ends.items())

        self.watch.wait_for(decided, "decisions of all inputs", START_TIMEOUT_S)

    # -- ending ----------------------------------------------------------------------------------------------------

    def leader_id(self) -> str:
        """Return the id of the master that leads, as the log says.

        Raises:
            ChildDied: that master does not run any more.

        """
        leadership = self.watch.wait_for(lambda: self.watch.leadership, "a leader")
        if leadership.master_id not in self.masters:
            raise ChildDied(f"the leader of epoch {leadership.epoch}, {leadership.master_id}, does not run")
        return leadership.master_id

    def end_leader(self, signal_number: signal.Signals) -> tuple[int, float]:
        """Send the leader SIGKILL or SIGTERM; return the epoch that ends and the time it was sent, in monotonic seconds."""
        epoch = self.watch.ask(lambda: self.watch.fold.acceptance.epoch)
        return epoch, self._end(self.masters.pop(self.leader_id()), signal_number)

    def kill_host(self, name: str) -> float:
        """Kill a host with all its TaskExecutors; return the time it was sent."""
        return self._end(self.hosts.pop(name), signal.SIGKILL)

    def _end(self, running: ChildProcess, signal_number: signal.Signals) -> float:
        sent_s = time.monotonic()
        running.process.send_signal(signal_number)
        self._others.append(running)
        return sent_s

    def reap(self) -> None:
        """Wait for the processes that were told to end."""
        while self._others:
            running = self._others.pop()
            try:
                running.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
                raise ChildDied(f"{running.name} did not end within {STOP_TIMEOUT_S:.0f} s; {running.end_of_log()}") from None

    def close(self) -> None:
        """End every process: TaskExecutors first, so that a master hears of it, and the first leader last, so that nobody takes over."""
        end_children([*self._others, *self.hosts.values()], STOP_TIMEOUT_S)
        for running in reversed(self.masters.values()):
            end_children([running], STOP_TIMEOUT_S)
        self._others.clear()
        self.hosts.clear()
        self.masters.clear()
        self.watch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
