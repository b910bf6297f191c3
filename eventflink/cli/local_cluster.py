"""A whole cluster on this machine: the embedded broker (where no Kafka is named), one master, a REST process, some TaskExecutors.

Started in the order in which they need each other and stopped in the reverse one, so that a TaskExecutor can still sign off at
the master, and the master at Kafka. Once the cluster is up, a master, a TaskExecutor or a REST process that ends is started again, until it
ends too often. `up` and `demo` are this with different things around it.
"""

import contextlib
import subprocess
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.log_events import TaskManagerRegistered
from eventflink.gateways.errors import ClusterNotFound, ClusterUnreachable, NoLeader
from eventflink.gateways.folding import read_fold
from eventflink.gateways.follow import LogFollower
from eventflink.gateways.following import wait_until_it_follows
from eventflink.gateways.leader import find_leader
from eventflink.local.class_data import stop_making
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes import announced_address
from eventflink.processes.announced_address import Announced
from eventflink.processes.child_processes import ChildProcess, ChildProcesses
from eventflink.processes.file_lock import locked
from eventflink.processes.worker_processes import WorkerProcesses
from eventflink.taskexecutor.spark_server import is_server_alive

_MASTER: Final = "master"
_STANDBY: Final = "standby"
_REST: Final = "rest"
_POLL_S: Final = 1.0
_SPARK_ENDS_WITHIN_S: Final = 15.0
_SPARK_POLL_S: Final = 0.1
_GRACE_S: Final = 15.0
_MAX_REPLACED: Final = 5
_REPLACED_WITHIN_S: Final = 60.0
"""So often within that time a process is started again; one more time it is the cluster's end: it cannot run."""


class ClusterEnded(Exception):
    """The cluster was shut down, and has ended with this exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"the cluster was shut down: exit code {exit_code}")
        self.exit_code = exit_code


class LocalCluster:
    """Starts on entry and stops on exit. For the main thread, in which the children have to be started."""

    def __init__(self, session: Session, task_executors: int, say: Callable[[str], None]) -> None:
        """Prepare a cluster with this many TaskExecutors; `say` takes lines for people."""
        self._session = session
        self._task_executors = task_executors
        self._say = say
        self._data_path = session.configuration.data_path
        self._start_timeout_s = session.configuration.start_timeout_ms / 1000
        self._children = ChildProcesses(self._data_path / "logs")
        self._exit = contextlib.ExitStack()
        self._broker: EmbeddedBroker | None = None
        self._replaced_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MAX_REPLACED))
        """When a process of each name was started again last, monotonic."""
        self._is_up = False
        self.bootstrap = ""
        self.rest_url = ""
        self.leader: LeaderHeartbeat | None = None

    def __enter__(self) -> Self:
        """Start everything and wait until the leader leads and the TaskExecutors are registered.

        Raises:
            ChildDied: a process of the cluster ended.
            CommandFailed: the cluster did not come up in time, or another one runs on the same data directory.
            BrokerUnavailable, JavaMissing: the embedded broker cannot be started.

        """
        try:
            self._exit.enter_context(_exclusive(self._data_path))
            self._session.have_secret()
            self.bootstrap = self._session.configuration.bootstrap_servers or self._start_broker()
            # Stops what is left when the start is broken off; an orderly stop has emptied it before.
            self._exit.callback(self._children.stop)
            self._start_master()
            rest = self._children.start(_REST, [*self._session.child_arguments(self.bootstrap, {}), "rest"])
            self._start_task_executors()
            self.rest_url = self._await_rest(rest)
            self._say(f"the dashboard and Flink's REST API are at {self.rest_url}")
            self._is_up = True
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _start_broker(self) -> str:
        configuration = self._session.configuration
        timeout_s = configuration.broker_start_timeout_ms / 1000
        broker = EmbeddedBroker(self._data_path / "broker", configuration.broker_port, progress=self._say, start_timeout_s=timeout_s)
        self._exit.callback(broker.stop)
        bootstrap = broker.start()
        self._broker = broker
        self._exit.enter_context(announced_address.announced(self._data_path, Announced.BROKER, bootstrap))
        self._say(f"Kafka listens on {bootstrap}")
        return bootstrap

    def _start_master(self) -> None:
        self._say("starting the master")
        command = [*self._session.child_arguments(self.bootstrap, {}), "master"]
        child = self._children.start(_MASTER, command)
        deadline = time.monotonic() + self._start_timeout_s
        while self.leader is None:
            self.check()
            try:
                self.leader = find_leader(self.access, timeout_s=_POLL_S)
            except (NoLeader, ClusterNotFound, ClusterUnreachable) as error:  # On a busy machine a broker that has just started is slow.
                if time.monotonic() > deadline:
                    raise CommandFailed(ExitCode.UNREACHABLE, f"the master does not lead: {error}; its log is {child.log_path}") from error
                time.sleep(0.05)
        self._say(f"master {self.leader.master_id} leads (epoch {self.leader.epoch})")

    def _start_task_executors(self) -> None:
        if self.leader is None or not self._task_executors:
            return
        base = self._session.configuration.task_manager_id or f"tm-{self._session.configuration.host}"
        missing = {base if self._task_executors == 1 else f"{base}-{n}" for n in range(1, self._task_executors + 1)}
        # Not from the heartbeat's offset: the last record that the leader read may be one that nobody accepts.
        fold = read_fold(self.access)
        with LogFollower(self.access, fold.last_offset + 1, acceptance=fold.acceptance) as follower:
            self._say(f"starting {', '.join(f'TaskExecutor {name}' for name in sorted(missing))}")
            for name in sorted(missing):
                command = [*self._session.child_arguments(self.bootstrap, {"taskmanager.id": name}), "taskexecutor"]
                self._children.start(name, command)
            deadline = time.monotonic() + self._start_timeout_s
            while missing:
                self.check()
                if time.monotonic() > deadline:
                    raise CommandFailed(
                        ExitCode.UNREACHABLE, f"not registered in {self._start_timeout_s:g} s: {', '.join(sorted(missing))}"
                    )
                for event in follower.accepted_events(_POLL_S):
                    if isinstance(event, TaskManagerRegistered) and event.task_manager_id in missing:
                        missing.discard(event.task_manager_id)
                        self._say(f"TaskExecutor {event.task_manager_id} is registered ({event.slot_count} slots)")

    def _await_rest(self, rest: ChildProcess) -> str:
        """Return the URL of the REST process, once it answers."""
        deadline = time.monotonic() + self._start_timeout_s
        while (url := announced_address.read(self._data_path, Announced.REST, rest.process.pid)) is None:
            self.check()
            if time.monotonic() > deadline:
                raise CommandFailed(ExitCode.UNREACHABLE, f"the REST process does not answer; its log is {rest.log_path}")
            time.sleep(0.05)
        return url

    def _replace_ended(self) -> None:
        """Start again what has ended, unless it did so too often.

        Raises:
            ChildDied: it did, or the cluster is not up yet.
            ClusterEnded: the cluster was shut down.

        """
        for child in [each for each in self._children.children if each.end()]:
            if self.leader is not None and read_fold(self.access).master.shutdown.is_under_way:
                raise ClusterEnded(self._await_master())
            times_s, now_s = self._replaced_s[child.name], time.monotonic()
            if not self._is_up or (len(times_s) == _MAX_REPLACED and now_s - times_s[0] < _REPLACED_WITHIN_S):
                child.check()
            times_s.append(now_s)
            self._say(f"{child.name} ended by itself ({child.end()}); starting it again; its log is {child.log_path}")
            self._children.replace(child)

    @property
    def access(self) -> ClusterAccess:
        """How the cluster is reached."""
        return self._session.configuration.access(self.bootstrap, self._session.role)

    def start_standby(self) -> str:
        """Start another master, wait until it follows the log, and return its id."""
        master_id = f"{_STANDBY}-{self._session.configuration.host}"
        self._say(f"starting a second master, {master_id}")
        command = [*self._session.child_arguments(self.bootstrap, {"jobmanager.id": master_id}), "master"]
        child = self._children.start(_STANDBY, command)
        wait_until_it_follows(self.access, master_id, child.check)
        return master_id

    def kill_leader(self) -> str:
        """Kill the master that was started first, which leads, as the kernel does when memory ends; return its id."""
        assert self.leader is not None  # noqa: S101 - a started cluster has one
        self._children.kill(_MASTER)
        return self.leader.master_id

    def await_leader(self, master_id: str) -> LeaderHeartbeat:
        """Wait until this master leads."""
        deadline = time.monotonic() + self._start_timeout_s
        while self.leader is None or self.leader.master_id != master_id:
            if time.monotonic() > deadline:
                raise CommandFailed(ExitCode.UNREACHABLE, f"{master_id} does not lead after {self._start_timeout_s:g} s")
            with contextlib.suppress(NoLeader, ClusterUnreachable):
                self.leader = find_leader(self.access, timeout_s=_POLL_S)
        return self.leader

    @property
    def master_process_id(self) -> int:
        """The id of the master's process."""
        return next(child.process.pid for child in self._children.children if child.name == _MASTER)

    def check(self) -> None:
        """Start ended processes again.

        Raises:
            ChildDied: a process ended too often.
            ClusterEnded: the cluster was shut down.
            CommandFailed: the embedded broker ended.

        """
        self._replace_ended()
        if self._broker is not None and not self._broker.is_running:
            raise CommandFailed(ExitCode.ENVIRONMENT, f"the embedded broker ended by itself; its log is {self._broker.log_path}")

    def _await_master(self) -> int:
        """Wait for the end of the master of a cluster that is shut down; return its exit code."""
        [master] = [child for child in self._children.children if child.name == _MASTER]
        # Twice: for the ends of the tasks, and for the ends of the TaskExecutors.
        timeout_s = 2 * self._session.configuration.shutdown_timeout_ms / 1000 + _GRACE_S
        try:
            return master.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            message = f"the cluster is shut down, and its master has not ended within {timeout_s:g} s; its log is {master.log_path}"
            raise CommandFailed(ExitCode.UNREACHABLE, message) from None

    def stop(self) -> None:
        """Stop the TaskExecutors, then the master, then the broker, and what they have begun beside. Does nothing the second time."""
        self._children.stop([child.name for child in self._children.children if child.name not in (_MASTER, _STANDBY)])
        self._children.stop()
        self._stop_workers()  # No master is there any more that would have others started.
        self._exit.close()
        stop_making()
        self._await_end_of_spark()

    def _await_end_of_spark(self) -> None:
        """Wait for the end of the host's Spark: it ends soon after its last TaskExecutor, and another one on this directory may run."""
        runtime_directory = self._session.configuration.data_path / "run"
        deadline = time.monotonic() + _SPARK_ENDS_WITHIN_S
        while runtime_directory.exists() and is_server_alive(runtime_directory) and time.monotonic() < deadline:
            time.sleep(_SPARK_POLL_S)

    def _stop_workers(self) -> None:
        """Stop the workers of the resource driver `process`: they outlive their master, and not the cluster."""
        configuration = self._session.configuration
        processes = WorkerProcesses(configuration.pid_path, configuration.log_path)
        for file in processes.stop_all(configuration.stop_timeout_ms / 1000):
            self._say(f"worker {file.daemon_id} is stopped")


@contextlib.contextmanager
def _exclusive(data_path: Path) -> Iterator[None]:
    """Hold the data directory: two local clusters on one would mix their brokers' data and their logs."""
    directory = data_path / "run"
    directory.mkdir(parents=True, exist_ok=True)
    busy = CommandFailed(
        ExitCode.ENVIRONMENT, f"a local cluster already runs on {data_path}; stop it, or give this one another -D data.directory=…"
    )
    with locked(directory / "local-cluster.lock", 0.0, busy):
        yield
