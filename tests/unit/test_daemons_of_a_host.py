"""Pid files, rotated logs, and stopping: against real processes of this host."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.cluster.daemons import Action, Daemon, DaemonReport, DaemonState, HostRequest
from eventflink.cli.cluster.host_agent import HostAgent
from eventflink.cli.exit_codes import explain
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session
from eventflink.processes import pid_files
from eventflink.processes.identity import ProcessIdentity, identify, is_running, send_signal, up_since
from eventflink.processes.log_files import last_lines, rotate
from eventflink.processes.pid_files import DaemonKind, PidFile, PidFiles, PidFilesUnusable
from eventflink.processes.worker_processes import FOLDER

SLEEPS = "import time; print('ready', flush=True); time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
Run = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache: stopping ends what makes archives of class data for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "eventflink"


@pytest.fixture
def run() -> Iterator[Run]:
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(120)
        assert process.stdout is not None
        process.stdout.close()


def file_of(process_id: int, daemon_id: str = "tm-a", **more: Any) -> PidFile:
    identity = identify(process_id)
    assert identity is not None
    values = {
        "kind": DaemonKind.TASK_EXECUTOR,
        "daemon_id": daemon_id,
        "host": "localhost",
        "host_name": socket.gethostname(),
        "process_id": process_id,
        "started": identity.started,
        "log_path": "/nowhere.log",
        "bootstrap": "localhost:1",
    }
    return PidFile.model_validate(values | more)


def agent(tmp_path: Path, **overrides: str) -> tuple[HostAgent, PidFiles]:
    values = {"data.directory": str(tmp_path), "cluster.stop-timeout": "500", "bootstrap.servers": "localhost:1"} | overrides
    session = Session(None, values, verbose=False)
    return HostAgent(session), PidFiles(session.configuration.pid_path)


def stop(of: HostAgent, *kinds: DaemonKind, spared: tuple[str, ...] = ()) -> tuple[DaemonReport, ...]:
    return of.serve(HostRequest(action=Action.STOP, host="localhost", kinds=kinds or tuple(DaemonKind), spared=spared)).daemons


def test_a_process_is_who_it_is_until_it_ends(run: Run) -> None:
    process = run(SLEEPS)
    identity = identify(process.pid)
    assert identity is not None
    assert identity == identify(process.pid)
    since = up_since(identity)
    assert since is not None
    assert abs(since - time.time()) < 60
    process.kill()
    deadline = time.monotonic() + 10
    while is_running(identity):  # It is a zombie then: nobody has waited for it.
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert identify(process.pid) is None
    assert not send_signal(identity, signal.SIGTERM)
    process.wait()
    assert identify(process.pid) is None
    assert up_since(identity) is None


def test_a_number_that_was_given_out_again_is_neither_taken_for_ours_nor_killed(tmp_path: Path, run: Run) -> None:
    process = run(SLEEPS)
    of, files = agent(tmp_path)
    identity = identify(process.pid)
    assert identity is not None
    boot, _, ticks = identity.started.rpartition(":")
    for started in (f"{boot}:{int(ticks) - 1}", f"an-earlier-boot:{ticks}", ""):
        files.write(file_of(process.pid, started=started))
        assert of.running() == []
        assert not send_signal(ProcessIdentity(process.pid, started), signal.SIGKILL)
        (report,) = stop(of)
        assert (report.state, report.process_id) == (DaemonState.DOWN, None)
        assert files.all() == []
    assert process.poll() is None


def test_what_runs_is_asked_to_end_and_what_does_not_end_is_killed(tmp_path: Path, run: Run) -> None:
    of, files = agent(tmp_path)
    orderly, stubborn = run(SLEEPS), run(STUBBORN)
    files.write(file_of(orderly.pid, "orderly"))
    files.write(file_of(stubborn.pid, "stubborn"))
    reports = {report.daemon_id: report for report in stop(of)}
    assert reports["orderly"].state is DaemonState.STOPPED
    assert reports["stubborn"].state is DaemonState.KILLED
    assert reports["stubborn"].detail == "it did not end within 0.5 s and was killed"
    assert (orderly.wait(60), stubborn.wait(60)) == (-15, -9)
    assert files.all() == []
    assert stop(of) == ()


@pytest.mark.parametrize(("kind", "ends"), [(DaemonKind.TASK_EXECUTOR, True), (DaemonKind.BROKER, True), (DaemonKind.MASTER, False)])
def test_what_makes_archives_of_class_data_ends_with_what_started_a_jvm(
    tmp_path: Path, cache: Path, kind: DaemonKind, *, ends: bool
) -> None:
    names = ["eventflink.local.class_data", str(cache / "class-data" / "spark.jsa")]
    with subprocess.Popen([sys.executable, "-c", SLEEPS, *names], stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"ready\n"
        stop(agent(tmp_path)[0], kind)
        assert (maker.poll() is not None) is ends
        maker.kill()


def test_only_the_kinds_that_are_meant_are_stopped_and_not_the_spared(tmp_path: Path, run: Run) -> None:
    of, files = agent(tmp_path)
    kinds = {"m-1": DaemonKind.MASTER, "m-2": DaemonKind.MASTER, "t-1": DaemonKind.TASK_EXECUTOR}
    processes = {daemon_id: run(SLEEPS) for daemon_id in kinds}
    for daemon_id, kind in kinds.items():
        files.write(file_of(processes[daemon_id].pid, daemon_id, kind=kind))
    assert [r.daemon_id for r in stop(of, DaemonKind.MASTER, spared=("m-2",))] == ["m-1"]
    assert [file.daemon_id for file in of.running()] == ["m-2", "t-1"]


def test_workers_of_a_resource_driver_are_stopped_when_they_are_meant(tmp_path: Path, run: Run) -> None:
    of, files = agent(tmp_path)
    daemon, worker = run(SLEEPS), run(SLEEPS)
    workers = PidFiles(files.path("x").parent / FOLDER)
    files.write(file_of(daemon.pid, "master-a", kind=DaemonKind.MASTER))
    workers.write(file_of(worker.pid, "worker-1", kind=DaemonKind.WORKER))
    assert stop(of, DaemonKind.TASK_EXECUTOR) == ()
    [report] = stop(of, DaemonKind.WORKER)
    assert (report.daemon_id, report.kind, report.state) == ("worker-1", DaemonKind.WORKER, DaemonState.STOPPED)
    assert worker.wait(120) == -signal.SIGTERM
    assert (workers.all(), [file.daemon_id for file in files.all()]) == ([], ["master-a"])


def test_the_files_of_another_host_and_garbage_are_left_alone(tmp_path: Path, run: Run) -> None:
    of, files = agent(tmp_path)
    process = run(SLEEPS)
    files.write(file_of(process.pid, "foreign", host_name="another-machine"))
    files.path("garbage").write_text("12345")
    files.path("renamed").write_text(file_of(process.pid, "original").model_dump_json())
    assert files.all() == []
    assert stop(of) == ()
    assert sorted(path.name for path in files.path("x").parent.glob("*.pid")) == ["foreign.pid", "garbage.pid", "renamed.pid"]
    assert process.poll() is None


def test_status_tells_what_runs_what_is_missing_and_what_is_too_much(tmp_path: Path, run: Run) -> None:
    of, files = agent(tmp_path)
    running, gone = run(SLEEPS), run(SLEEPS)
    for daemon_id, process in {"tm-a": running, "tm-b": gone, "tm-old": running}.items():
        files.write(file_of(process.pid, daemon_id))
    gone.kill()
    gone.wait(120)
    daemons = tuple(Daemon(kind=DaemonKind.TASK_EXECUTOR, daemon_id=d, host="localhost") for d in ("tm-a", "tm-b", "tm-c"))
    reports = of.serve(HostRequest(action=Action.STATUS, host="localhost", daemons=daemons)).daemons
    assert [(r.daemon_id, r.state.value, r.is_named) for r in reports] == [
        ("tm-a", "running", True),
        ("tm-b", "down", True),
        ("tm-c", "down", True),
        ("tm-old", "running", False),
    ]
    assert reports[0].process_id == running.pid
    assert reports[0].up_since is not None
    assert f"process {gone.pid} has ended" in reports[1].detail


def test_two_starts_or_stops_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pid_files, "LOCK_TIMEOUT_S", 0.2)
    of, files = agent(tmp_path)
    with files.locked(), pytest.raises(PidFilesUnusable, match=r"another 'cluster start' or 'cluster stop' holds") as refused:
        stop(of)
    assert explain(refused.value)[0] is ExitCode.ENVIRONMENT
    assert stop(of) == ()


def test_a_daemon_that_dies_at_once_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    """It is a real master, whose configuration does not hold; nothing is left of it but the log."""
    config = tmp_path / "eventflink.yaml"
    config.write_text(f"data.directory: {tmp_path}\nbootstrap.servers: localhost:1\nenv.log.dir: {tmp_path}/logs\n")
    (tmp_path / "logging.yaml").write_text("- no mapping\n")
    session = Session(config, {}, verbose=False)
    daemon = Daemon(kind=DaemonKind.MASTER, daemon_id="master-a", host="localhost")
    (report,) = HostAgent(session).serve(HostRequest(action=Action.START, host="localhost", daemons=(daemon,))).daemons
    assert report.state is DaemonState.DIED
    assert report.detail.startswith("it ended by itself (exit code 2); its log ends:\neventflink: ")
    assert f"{tmp_path}/logging.yaml: the document must be a mapping" in report.detail
    assert PidFiles(session.configuration.pid_path).all() == []
    assert report.log_path == str(tmp_path / "logs" / "eventflink" / "master-a.log")


def test_a_new_log_pushes_the_older_ones_back(tmp_path: Path) -> None:
    log = tmp_path / "tm.log"
    for start in range(8):
        rotate(log, 5)
        log.write_text(f"start {start}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tm.log", *(f"tm.log.{n}" for n in range(1, 6))]
    assert [log.with_name(f"tm.log.{n}").read_text() for n in range(1, 6)] == [f"start {n}" for n in (6, 5, 4, 3, 2)]
    rotate(log, 0)
    assert not log.exists()


def test_the_end_of_a_log_is_short_however_long_it_is(tmp_path: Path) -> None:
    log = tmp_path / "tm.log"
    log.write_text("".join(f"line {n}\n" for n in range(100_000)))
    assert last_lines(log).splitlines() == [f"line {n}" for n in range(99_985, 100_000)]
    assert last_lines(tmp_path / "none").startswith("(it cannot be read: ")
