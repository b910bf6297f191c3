"""The processes of a test's cluster: started, found by what they do, killed, started again.

Every process dies with the test's process. A task is found by the file that it prints to, Spark by its supervisor's runtime directory:
nothing is asked of a process that is to be killed.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from eventflink.documents.one_job import SubtaskInfo
from eventflink.gateways.errors import ClusterUnreachable, GatewayError
from eventflink.gateways.following import MasterNotFollowing, wait_until_it_follows
from eventflink.gateways.leader import find_leader
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.model.attempts import AttemptId
from eventflink.model.configuration import load_configuration
from eventflink.model.statuses import TaskFile
from eventflink.processes.child_processes import ChildDied, ChildProcess, end_children, start_child
from eventflink.taskexecutor.spark_server import SparkServerSettings, ensure_server, is_server_alive
from eventflink.taskexecutor.task_files import task_file_path
from eventflink.taskexecutor.task_spark import open_session
from eventflink.testing.failures import CannotCrash, ClusterNotStarted, Unexpected
from eventflink.testing.fast_java import fast_java
from eventflink.testing.process_search import spark_servers, task_process
from eventflink.testing.settings import MiniClusterSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.05
_LOOK_S: Final = 2.0
_STOP_TIMEOUT_S: Final = 20.0
_CONFIGURATION_VARIABLES: Final = ("EVENTFLINK_CONFIG", "EVENTFLINK_CONF_DIR")
"""They name the configuration of another cluster."""


class ClusterProcesses:
    """Masters and TaskExecutors by their ids. For the main thread, with which they end."""

    def __init__(self, bootstrap: str, cluster_id: str, directory: Path, settings: MiniClusterSettings) -> None:
        """Name the processes; raises ConfigurationError where the settings are wrong."""
        self._overrides = settings.overrides(bootstrap, cluster_id, str(directory / "data"))
        self.configuration = load_configuration(None, self._overrides)
        self.access = self.configuration.access(bootstrap)
        """How the cluster is reached."""
        self._masters = [f"master-{n + 1}" for n in range(settings.masters)]
        self._task_executors = [f"tm-{n + 1}" for n in range(settings.task_executors)]
        self._children: dict[str, ChildProcess] = {}

    # -- starting --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all at once and wait until the cluster is whole; raises ClusterNotStarted."""
        try:
            self.restart(START_TIMEOUT_S)
        except Unexpected as error:
            raise ClusterNotStarted(str(error)) from None

    def restart(self, timeout_s: float) -> None:
        """Start what does not run, and wait until one leads, the others follow, and every TaskExecutor is registered."""
        deadline = time.monotonic() + timeout_s
        started = [name for name in (*self._masters, *self._task_executors) if not self._is_running(name)]
        for name in started:
            self._start(name)
        leader = self._find_leader(deadline)
        for name in self._masters:
            if name in started and name != leader:
                self._follow(name)
        self._wait_until_registered(deadline)

    def _start(self, name: str) -> None:
        role, key = ("master", "jobmanager.id") if name in self._masters else ("taskexecutor", "taskmanager.id")
        options = [f"-D{option}={value}" for option, value in {**self._overrides, key: name}.items()]
        with fast_java():
            environment = {k: v for k, v in os.environ.items() if k not in _CONFIGURATION_VARIABLES}
        data_path = self.configuration.data_path
        data_path.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "eventflink.cli", *options, role]
        # There, no ./conf is found that is meant for another cluster.
        self._children[name] = start_child(name, command, data_path / "logs", directory=data_path, environment=environment)

    def _is_running(self, name: str) -> bool:
        return name in self._children and self._children[name].process.poll() is None

    def _check(self) -> None:
        """Raise `Unexpected` if a process ended that was not killed here."""
        for child in self._children.values():
            try:
                child.check()
            except ChildDied as error:
                raise Unexpected(str(error)) from None

    def _find_leader(self, deadline: float) -> str:
        """Wait for the heartbeat of a leader whose process runs; return its id."""
        said = "nobody was asked"
        while time.monotonic() < deadline:
            self._check()
            try:
                heartbeat = find_leader(self.access, timeout_s=_LOOK_S)
            except GatewayError as error:
                said = str(error)
                continue
            if self._is_running(heartbeat.master_id):
                return heartbeat.master_id
        raise Unexpected(f"nobody leads the cluster: {said}\n{self.describe()}")

    def _follow(self, name: str) -> None:
        try:
            wait_until_it_follows(self.access, name, self._check)
        except MasterNotFollowing as error:
            raise Unexpected(f"{error}\n{self.describe()}") from None

    def _wait_until_registered(self, deadline: float) -> None:
        """Wait until the processes that run now are registered, and not those that they replace."""
        missing: set[str] = set()
        with ResourceManagerGateway(self.access) as gateway:

            def registered() -> bool:
                self._check()
                try:
                    known = {info.task_manager_id: info.process_id for info in gateway.request_task_manager_info()}
                except ClusterUnreachable:
                    return False
                missing.clear()
                missing.update(n for n in self._task_executors if known.get(n) != self._children[n].process.pid)
                return not missing

            self._wait_for(registered, lambda: f"not registered: {', '.join(sorted(missing))}", deadline)

    def _wait_for(self, condition: Callable[[], Any], otherwise: Callable[[], str], deadline: float) -> Any:
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise Unexpected(f"{otherwise()}\n{self.describe()}")
            time.sleep(_POLL_S)
        return value

    def close(self) -> None:
        """End all: TaskExecutors first, so that a master hears of it."""
        for names in (self._task_executors, self._masters):
            end_children([self._children.pop(name) for name in names if name in self._children], _STOP_TIMEOUT_S)

    # -- Spark -----------------------------------------------------------------------------------------------------

    @property
    def _runtime_directory(self) -> Path:
        return self.configuration.data_path / "run"

    def open_spark_session(self) -> "SparkSession":
        """Open a session on the Spark of the cluster's tasks, started now if it did not run; raises SparkUnavailable."""
        configuration = self.configuration
        if configuration.spark_remote:
            return open_session(configuration.spark_remote, None)
        settings = SparkServerSettings.of(configuration)
        with fast_java():
            address = ensure_server(self._runtime_directory, settings)
        return open_session(address, self._runtime_directory)

    # -- killing ---------------------------------------------------------------------------------------------------

    def kill_master(self, *, leader: bool) -> str:
        """Kill the leader, or a master that does not lead."""
        leads = self._find_leader(time.monotonic() + START_TIMEOUT_S)
        meant = [name for name in self._masters if (name == leads) is leader and self._is_running(name)]
        if not meant:
            raise CannotCrash(f"standby not found: the cluster has {len(self._masters)} masters (eventflink_masters), and {leads} leads")
        return self._kill("leader" if leader else "standby", meant[0])

    def kill_task_executor(self, name: str | None) -> str:
        """Kill this TaskExecutor, or the first that runs."""
        meant = [n for n in self._task_executors if name in (None, n) and self._is_running(n)]
        if not meant:
            raise CannotCrash(f"no TaskExecutor{f' {name}' if name else ''} of this cluster runs")
        return self._kill("taskexecutor", meant[0])

    def _kill(self, kind: str, name: str) -> str:
        process = self._children.pop(name).process
        process.kill()
        process.wait()
        return f"{kind} {name} (process {process.pid})"

    def kill_task(self, job_id: str, vertex_id: str, subtask: SubtaskInfo, timeout_s: float) -> str:
        """Kill the process of an attempt."""
        task_manager_id = subtask.task_manager_id
        if task_manager_id is None or not self._is_running(task_manager_id):
            raise CannotCrash(f"{vertex_id}[{subtask.subtask_index}] runs on {task_manager_id}, which is not a process of this cluster")
        attempt = AttemptId(job_id, vertex_id, subtask.subtask_index, subtask.attempt)
        path = task_file_path(self.configuration.data_path / "logs" / task_manager_id, attempt, TaskFile.STDOUT)
        executor = self._children[task_manager_id].process.pid
        what = f"{vertex_id}[{attempt.subtask_index}]#{attempt.attempt}"
        process: psutil.Process = self._wait_for(
            lambda: task_process(executor, path), lambda: f"no process runs {what}", time.monotonic() + timeout_s
        )
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        return f"task {what} (process {process.pid})"

    def kill_spark(self) -> str:
        """Kill the JVM of the tasks' Spark server, and wait until nobody is told its address any more."""
        servers = spark_servers(self._runtime_directory)
        if not servers:
            why = "it is not the cluster's own" if self.configuration.spark_remote else "no task has asked for it yet"
            raise CannotCrash(f"no Spark server runs for this cluster: {why}")
        for server in servers:
            with contextlib.suppress(psutil.NoSuchProcess):
                server.kill()
        psutil.wait_procs(servers, _STOP_TIMEOUT_S)
        self._wait_for(
            lambda: not is_server_alive(self._runtime_directory),
            lambda: "Spark's supervisor did not end",
            time.monotonic() + _STOP_TIMEOUT_S,
        )
        return f"spark (process {', '.join(str(server.pid) for server in servers)})"

    # -- telling ---------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say which processes run, and how those ended that do not."""
        names = [*self._masters, *self._task_executors]
        running = [name for name in names if self._is_running(name)]
        killed = [name for name in names if name not in self._children]
        lines = [f"running: {', '.join(running) or 'nothing'}" + (f"; killed by the test: {', '.join(killed)}" if killed else "")]
        for child in self._children.values():
            try:
                child.check()
            except ChildDied as error:
                lines.append(str(error))
        return "\n".join([*lines, f"logs: {self.configuration.data_path / 'logs'}"])
