"""The systemd unit of conf/systemd: systemd takes it, what it starts is a command that exists, and it comes back when it should."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.model.configuration import Configuration
from eventflink.session.cluster_session import DIRECTORY_VARIABLE

UNIT = Path(__file__).parents[2] / "conf" / "systemd" / "eventflink@.service"
ENDED_WITH_ITS_CLUSTER = {"163", "165"}
"""Of a master: the cluster was shut down as FAILED, or as UNKNOWN (docs/operating.md)."""


def value_of(key: str) -> str:
    [found] = re.findall(rf"^{key}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("command", ["master", "taskexecutor", "rest"])
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_it(tmp_path: Path, command: str) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/opt/eventflink/bin/eventflink", shutil.which("true") or "")
    unit = tmp_path / f"eventflink@{command}.service"
    unit.write_text(text.replace("User=eventflink\n", ""), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    own = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, own) == (0, [])


@pytest.mark.parametrize("command", ["master", "taskexecutor", "rest"])
def test_what_it_starts_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, *arguments = value_of("ExecStart").replace("%i", command).split()
    assert run([*arguments, "--help"]) == ExitCode.OK
    assert f"eventflink {command}" in capsys.readouterr().out
    assert value_of("Environment").startswith(f"{DIRECTORY_VARIABLE}=")


def test_it_is_not_started_again_where_that_would_be_in_vain() -> None:
    assert value_of("Restart") == "on-failure"
    assert set(value_of("RestartPreventExitStatus").split()) == {str(int(ExitCode.USAGE)), *ENDED_WITH_ITS_CLUSTER}


def test_a_task_executor_has_the_time_that_its_tasks_are_given_to_end() -> None:
    kill_timeout_ms = Configuration.model_validate({}).kill_timeout_ms
    assert int(value_of("TimeoutStopSec")) * 1000 > 2 * kill_timeout_ms
