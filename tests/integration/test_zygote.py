"""A process that is forked for a test is the one that is executed for a user: in what it is, in what it says, and in what it decides."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from eventflink.gateways.reads import ask_master, listen_for_masters
from eventflink.leadership.fold import Fold
from eventflink.log.replay import new_fold, replay
from eventflink.model.statuses import JobStatus
from tests.support import zygote
from tests.support.running_cluster import PROGRAM, RunningCluster, is_alive, running_cluster, wait_until

TIMEOUT_S: Final = 120.0
NOWHERE: Final = ("-Dbootstrap.servers=127.0.0.1:1", "-Dcluster.id=none")


def answers_of(cluster: RunningCluster) -> dict[str, dict[str, Any]]:
    """Return what each master answers at the log's end, once its digest is found to be that of the log."""
    answers = {}
    expected = cluster.masters & cluster.processes.keys()
    for master in listen_for_masters(cluster.access, listen_s=60, expected=expected):
        where = master.presence.query_address
        digest = ask_master(where, "/digest", {"linearizable": "true"}, timeout_s=60)
        fold = replay(cluster.access, new_fold(cluster.access), end_offset=digest["log_offset"] + 1)
        assert (digest["digest"], digest["epoch"]) == (fold.master.digest(), fold.acceptance.epoch)
        health = ask_master(where, "/health", {"linearizable": "true"}, timeout_s=60)
        answers[master.master_id] = {name: health[name] for name in health if name not in ("master_id", "role")}
    return answers


@pytest.mark.slow
def test_a_master_that_is_executed_and_one_that_is_forked_lead_a_cluster_to_the_same_state(bootstrap: str, tmp_path: Path) -> None:
    """And a TaskExecutor of each kind runs the tasks of both."""
    with running_cluster(bootstrap, tmp_path) as cluster:
        cluster.start_master("forked")
        cluster.start_task_executor("tm-forked", slots=1)
        cluster.popen = subprocess.Popen
        cluster.start_standby("executed")
        cluster.start_task_executor("tm-executed", slots=1)
        cluster.popen = zygote.Popen
        for round_, (leader, follower) in enumerate((("forked", "executed"), ("executed", "forked")), 1):
            gate = tmp_path / leader
            job_id = cluster.run_task("wait_for_file", parallelism=2, path=str(gate))
            cluster.wait_for_running(job_id)  # Both at once, and each TaskExecutor has one slot.
            gate.with_name(f"{leader}.go").touch()
            cluster.wait_for_status(job_id, JobStatus.FINISHED)
            answers = answers_of(cluster)
            assert set(answers) == {leader, follower}
            assert answers[leader] == answers[follower]
            assert len(cluster.state().master.dispatcher.jobs) == round_
            epoch = cluster.state().acceptance.epoch
            cluster.kill(leader)
            cluster.wait_for(partial(_is_led_by, follower, epoch), f"{follower} leads")
            cluster.start_standby(leader)


def _is_led_by(master_id: str, after_epoch: int, fold: Fold) -> bool:
    return fold.acceptance.epoch > after_epoch and fold.master.leader.master_id == master_id


def seen_from_outside(process: subprocess.Popen[Any]) -> dict[str, Any]:
    """Return what the kernel says of a process, but its memory, its times and its number."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    kept = (
        "Name",
        "Umask",
        "PPid",
        "TracerPid",
        "Uid",
        "Gid",
        "Groups",
        "NSpgid",
        "NSsid",
        "Threads",
        "Sig[BIC]",
        "ShdPnd",
        "Cap",
        "NoNew",
    )
    facts: dict[str, Any] = dict(re.findall(rf"^((?:{'|'.join(kept)})\w*):\s*(.*)$", status, re.MULTILINE))
    of = psutil.Process(process.pid)
    links = {number: str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in (0, 1, 2)}
    of_kernel = {"limits": Path(f"/proc/{process.pid}/limits").read_text(), "files": of.num_fds(), "nice": of.nice()}
    return facts | {"cmdline": of.cmdline(), "cwd": of.cwd(), "exe": of.exe(), "links": links} | of_kernel


@pytest.mark.parametrize("more", [{}, {"start_new_session": True}, {"process_group": 0}])
def test_a_master_looks_the_same_from_outside_however_it_was_started(tmp_path: Path, more: dict[str, Any]) -> None:
    ways: dict[str, type[subprocess.Popen[Any]]] = {"forked": zygote.Popen, "started": subprocess.Popen}
    with (tmp_path / "output.txt").open("wb") as output:
        files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        started = {
            way: popen([*PROGRAM, *NOWHERE, f"-Ddata.directory={tmp_path / way}", "master"], cwd=tmp_path, **files, **more)
            for way, popen in ways.items()
        }

    def shown() -> list[dict[str, Any]]:
        own = {way: (str(process.pid), way) for way, process in started.items()}
        facts = {way: seen_from_outside(process) for way, process in started.items()}
        return [{fact: re.sub("|".join(own[way]), "own", str(value)) for fact, value in facts[way].items()} for way in ways]

    seen: list[dict[str, Any]] = []

    def alike() -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):  # One that finds no Kafka ends at last.
            seen[:] = shown()
            forked, executed = seen
            return executed["Threads"] != "1" and forked == executed
        return all(process.poll() is not None for process in started.values())

    try:
        wait_until(alike, "both have begun, and are alike", TIMEOUT_S)
        assert seen[0] == seen[1]
    except AssertionError:
        assert seen[0] == seen[1]
        raise
    finally:
        for process in started.values():
            process.terminate()
    assert {process.wait(TIMEOUT_S) for process in started.values()} <= {0, -signal.SIGTERM}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("lst",),
        ("config",),
        ("config", "--json"),
        ("-v", "-Drest.port=x", "config"),
        ("list", "--help"),
        (*NOWHERE, "-Dclient.timeout=1", "list"),
        (*NOWHERE, "-Dclient.timeout=1", "submit", "-", "--detach"),
    ],
)
def test_a_command_says_the_same_however_it_was_started(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "eventflink.yaml").write_text("rest.port: 1234\n")
    environment = os.environ | {"EVENTFLINK_CONTEXT": "", "COLUMNS": "70", "TZ": "Asia/Tokyo"}
    how: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "input": b"{", "timeout": TIMEOUT_S}
    command = [sys.executable, "-m", "eventflink.cli", *arguments]
    forked, executed = (run(command, check=False, **how) for run in (zygote.run, subprocess.run))
    assert (forked.returncode, forked.stdout, forked.stderr) == (executed.returncode, executed.stdout, executed.stderr)


def test_a_command_whose_reader_goes_away_ends_the_same_however_it_was_started() -> None:
    ends = []
    popens: tuple[type[subprocess.Popen[Any]], ...] = (zygote.Popen, subprocess.Popen)
    for popen in popens:
        with popen([sys.executable, "-m", "eventflink.cli", "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            ends.append((process.stderr.read(), process.wait(TIMEOUT_S)))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 0), (signal.SIGTERM, 0)])
def test_how_one_ended_is_known(tmp_path: Path, number: int, code: int) -> None:
    command = [*PROGRAM, *NOWHERE, f"-Ddata.directory={tmp_path / 'data'}", "taskexecutor"]
    with zygote.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: psutil.Process(process.pid).num_threads() > 1, "it has begun", TIMEOUT_S)
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == code


def test_what_only_an_interpreter_can_be_given_has_it_executed() -> None:
    """Variables that are read as modules are imported, and functions that run between fork and exec."""
    command = [*PROGRAM, *NOWHERE, "-Dclient.timeout=1", "list"]
    given: tuple[dict[str, Any], ...] = ({"env": os.environ | {"PYTHONUTF8": "1"}}, {"preexec_fn": os.getpid})
    for what in given:
        with zygote.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **what) as process:
            wanted, executed = what.get("env", os.environ).items(), psutil.Process(process.pid)
            # While the kernel sets up what is executed there is no environment for a moment.
            wait_until(executed.environ, "it is executed", TIMEOUT_S)
            assert wanted <= executed.environ().items()
            process.kill()


OWNER = """
import sys, time, psutil
from tests.support import zygote
print(zygote.run([sys.executable, "-m", "eventflink.cli", "--version"], capture_output=True, text=True).stdout.strip())
print(psutil.Process().children()[0].pid, flush=True)
time.sleep(600)
"""


def test_a_zygote_ends_with_its_owner_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=zygote.ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().startswith("eventflink ")
        process_id = int(owner.stdout.readline())
        assert is_alive(process_id)
        owner.kill()
        wait_until(lambda: not is_alive(process_id), "the end of the zygote", TIMEOUT_S)
