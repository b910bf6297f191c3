"""Starts, stops and looks at the daemons of one host: this one.

A daemon has a session of its own, no standard input, and its log for its output; it knows nothing of who started it. Its pid file is
written before anything else happens to it. Starts and stops on one host exclude each other; waiting for daemons to join does not.
"""

import datetime as dt
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eventflink.cli.cluster.daemons import Action, Daemon, DaemonReport, DaemonState, HostReport, HostRequest
from eventflink.cli.cluster.joining import SILENCE, JoinWatch, rest_url
from eventflink.cli.cluster.own_hosts import own_name
from eventflink.cli.session import Session
from eventflink.local.class_data import stop_making
from eventflink.processes.identity import ProcessIdentity, identify, is_running, send_signal, up_since
from eventflink.processes.log_files import last_lines, rotate
from eventflink.processes.pid_files import DaemonKind, PidFile, PidFiles, make_directory
from eventflink.processes.worker_processes import FOLDER

_POLL_S: Final = 0.1
_SETTLE_S: Final = 2.0
_KILL_TIMEOUT_S: Final = 10.0
_WITH_JVM: Final = frozenset({DaemonKind.TASK_EXECUTOR, DaemonKind.WORKER, DaemonKind.BROKER})
"""Daemons that start a JVM. After their end, another process may still make an archive of its classes."""


class HostAgent:
    """The daemons of one cluster on this host."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._configuration = session.configuration
        self._pid_files = PidFiles(self._configuration.pid_path)
        self._worker_files = PidFiles(self._configuration.pid_path / FOLDER)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self, request: HostRequest) -> HostReport:
        """Do what is asked for.

        Raises:
            CommandFailed: it is not known which Kafka is meant.
            OSError: another start or stop is under way, a pid file or a log cannot be written, or a program not be started.

        """
        match request.action:
            case Action.START:
                if request.cluster_secret:
                    self._session.take_secret(request.cluster_secret)
                return HostReport(daemons=tuple(self._start(request.daemons)))
            case Action.STOP:
                return HostReport(daemons=tuple(self._stop(request)))
            case Action.STATUS:
                return HostReport(daemons=tuple(self._status(request)))

    def running(self) -> list[PidFile]:
        """Return the daemons that run here."""
        return [file for file in self._pid_files.all() if is_running(file.identity)]

    # -- start -----------------------------------------------------------------------------------------------------

    def _start(self, daemons: Sequence[Daemon]) -> list[DaemonReport]:
        files: list[PidFile] = []
        started: set[str] = set()
        with self._pid_files.locked():
            for daemon in daemons:
                file = self._pid_files.read(daemon.daemon_id)
                if file is None or not is_running(file.identity):
                    file = self._spawn(daemon)
                    started.add(daemon.daemon_id)
                files.append(file)
        reports: dict[str, DaemonReport] = {}
        for kind in dict.fromkeys(file.kind for file in files):
            reports |= self._await([file for file in files if file.kind is kind], kind, started)
        return [reports[daemon.daemon_id] for daemon in daemons]

    def _spawn(self, daemon: Daemon) -> PidFile:
        bootstrap = "" if daemon.kind is DaemonKind.BROKER else self._session.bootstrap
        log_path = self._configuration.log_path / f"{daemon.daemon_id}.log"
        make_directory(log_path.parent, "env.log.dir")
        rotate(log_path, self._configuration.old_logs)
        with log_path.open("ab") as log:
            child = subprocess.Popen(
                [*self._session.child_arguments(bootstrap, self._overrides(daemon)), daemon.kind.value],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[daemon.daemon_id] = child
        # One that ended already is ours, too, until it is collected below: its number is given to nobody else.
        identity = identify(child.pid) or ProcessIdentity(child.pid, "")
        file = PidFile(
            kind=daemon.kind,
            daemon_id=daemon.daemon_id,
            host=daemon.host,
            host_name=socket.gethostname(),
            process_id=identity.process_id,
            started=identity.started,
            log_path=str(log_path),
            bootstrap=bootstrap,
        )
        self._pid_files.write(file)
        return file

    def _overrides(self, daemon: Daemon) -> dict[str, str]:
        """Return what this daemon is told besides the configuration."""
        overrides: dict[str, str] = {}
        if daemon.kind is DaemonKind.MASTER:
            overrides["jobmanager.id"] = daemon.daemon_id
            if daemon.query_port:
                overrides["jobmanager.query.port"] = str(daemon.query_port)
            # Others reach it under the name that the line gives, unless somebody knows better.
            if "jobmanager.rpc.address" not in self._session.key_sources and own_name(daemon.host) == daemon.host:
                overrides["jobmanager.rpc.address"] = daemon.host
        elif daemon.kind is DaemonKind.TASK_EXECUTOR:
            overrides["taskmanager.id"] = daemon.daemon_id
        elif daemon.broker_port is not None:
            overrides["broker.port"] = str(daemon.broker_port)
        return overrides

    def _await(self, files: list[PidFile], kind: DaemonKind, started: set[str]) -> dict[str, DaemonReport]:
        """Wait until each has joined or died, in all as long as the configuration allows."""
        pending = {file.daemon_id: file for file in files}
        watch = JoinWatch(self._session, kind)
        reports: dict[str, DaemonReport] = {}
        deadline = time.monotonic() + self._configuration.start_timeout_ms / 1000
        self._settle([file for file in files if file.daemon_id in started])
        while pending:
            alive = [file for file in pending.values() if is_running(file.identity)]
            joined = watch.joined(alive) if alive else set()
            for daemon_id, file in list(pending.items()):
                if not is_running(file.identity):
                    reports[daemon_id] = self._report(file, DaemonState.DIED, self._describe_death(file))
                    self._pid_files.remove(file)
                elif daemon_id in joined:
                    state = DaemonState.STARTED if daemon_id in started else DaemonState.RUNNING
                    reports[daemon_id] = self._report(file, state, self._url(file))
                elif time.monotonic() > deadline:
                    waited = f"{self._configuration.start_timeout_ms / 1000:g} s"
                    reports[daemon_id] = self._report(file, DaemonState.NOT_JOINED, f"not within {waited}: {watch.problem}")
                else:
                    continue
                del pending[daemon_id]
            time.sleep(_POLL_S)
        return reports

    @staticmethod
    def _settle(files: list[PidFile]) -> None:
        """Give daemons that end at once the time to do so: nobody joins that fast, and asking whether one has takes longer."""
        deadline = time.monotonic() + _SETTLE_S
        while files and time.monotonic() < deadline and all(is_running(file.identity) for file in files):
            time.sleep(_POLL_S)

    def _describe_death(self, file: PidFile) -> str:
        child = self._children.get(file.daemon_id)
        code = child.poll() if child is not None else None
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        return f"it ended by itself{how}; its log ends:\n{last_lines(self._log(file.daemon_id))}"

    # -- stop ------------------------------------------------------------------------------------------------------

    def _stop(self, request: HostRequest) -> list[DaemonReport]:
        """Stop what is meant among the daemons, and then among the workers that a resource driver started."""
        reports = self._stop_in(self._pid_files, request)
        if DaemonKind.WORKER in request.kinds and self._worker_files.all():
            reports += self._stop_in(self._worker_files, request)
        if not _WITH_JVM.isdisjoint(request.kinds):
            stop_making()
        return reports

    def _stop_in(self, files: PidFiles, request: HostRequest) -> list[DaemonReport]:
        """Ask all that are meant to end, wait for all together, kill what is left."""
        reports: list[DaemonReport] = []
        going: list[PidFile] = []
        with files.locked():
            for file in files.all():
                if file.kind not in request.kinds or file.daemon_id in request.spared:
                    continue
                try:
                    asked = send_signal(file.identity, signal.SIGTERM)
                except PermissionError:
                    reports.append(self._report(file, DaemonState.RUNNING, "it belongs to another user, who has to stop it"))
                    continue
                if asked:
                    going.append(file)
                else:
                    reports.append(self._report(file, DaemonState.DOWN, "it had already ended"))
                    files.remove(file)
            self._wait(going, self._configuration.stop_timeout_ms / 1000)
            reports += [self._end(file, files) for file in going]
        return reports

    def _end(self, file: PidFile, files: PidFiles) -> DaemonReport:
        """Say that it has ended; if it has not, see to it."""
        if not is_running(file.identity):
            files.remove(file)
            return self._report(file, DaemonState.STOPPED)
        send_signal(file.identity, signal.SIGKILL)
        self._wait([file], _KILL_TIMEOUT_S)
        waited = f"{self._configuration.stop_timeout_ms / 1000:g} s"
        if is_running(file.identity):
            return self._report(file, DaemonState.RUNNING, f"it did not end within {waited}, nor when it was killed")
        files.remove(file)
        return self._report(file, DaemonState.KILLED, f"it did not end within {waited} and was killed")

    @staticmethod
    def _wait(files: Sequence[PidFile], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(is_running(file.identity) for file in files):
            time.sleep(_POLL_S)

    # -- status ----------------------------------------------------------------------------------------------------

    def _status(self, request: HostRequest) -> list[DaemonReport]:
        named = {daemon.daemon_id: daemon for daemon in request.daemons}
        files = {file.daemon_id: file for file in self._pid_files.all()}
        reports = [self._look_at(daemon, files.get(daemon_id)) for daemon_id, daemon in named.items()]
        # What an earlier configuration named may run on.
        surplus = [file for daemon_id, file in files.items() if daemon_id not in named and is_running(file.identity)]
        return reports + [self._report(file, DaemonState.RUNNING, is_named=False) for file in surplus]

    def _look_at(self, daemon: Daemon, file: PidFile | None) -> DaemonReport:
        if file is not None and is_running(file.identity):
            if file.kind is DaemonKind.REST and not self._url(file):
                return self._report(file, DaemonState.NOT_JOINED, SILENCE[file.kind])
            return self._report(file, DaemonState.RUNNING, self._url(file))
        return DaemonReport(
            kind=daemon.kind,
            daemon_id=daemon.daemon_id,
            host=daemon.host,
            state=DaemonState.DOWN,
            log_path=str(self._log(daemon.daemon_id)),
            detail=f"process {file.process_id} has ended" if file is not None else "no pid file: it was stopped, or never came up",
        )

    def _url(self, file: PidFile) -> str:
        """Return where a REST process answers; "" for any other daemon."""
        return rest_url(self._configuration.data_path, file) if file.kind is DaemonKind.REST else ""

    def _log(self, daemon_id: str) -> Path:
        return self._configuration.log_path / f"{daemon_id}.log"

    @staticmethod
    def _report(file: PidFile, state: DaemonState, detail: str = "", *, is_named: bool = True) -> DaemonReport:
        since = up_since(file.identity)
        return DaemonReport(
            kind=file.kind,
            daemon_id=file.daemon_id,
            host=file.host,
            state=state,
            process_id=None if since is None else file.process_id,
            up_since=None if since is None else dt.datetime.fromtimestamp(since, dt.UTC).isoformat(timespec="seconds"),
            log_path=file.log_path,
            detail=detail,
            is_named=is_named,
        )
