"""What is run on another host, and what becomes of hosts that do not answer as they should."""

import shlex
import sys
from pathlib import Path

import pytest

from eventflink.cli.cluster.daemons import Action, Daemon, HostReport, HostRequest
from eventflink.cli.cluster.ssh import HostUnreachable, ask_host, remote_command, ssh_command
from eventflink.cli.session import Session
from eventflink.model.configuration import ConfigurationError
from eventflink.processes.pid_files import DaemonKind

REQUEST = HostRequest(
    action=Action.STATUS, host="far", daemons=(Daemon(kind=DaemonKind.MASTER, daemon_id="master-far", host="far", query_port=8081),)
)


def session(**overrides: str) -> Session:
    return Session(None, {key.replace("__", "."): value for key, value in overrides.items()}, verbose=False)


def test_ssh_never_asks_and_the_user_s_options_come_first() -> None:
    command = ssh_command(session(env__ssh__opts="-p 2222 -o 'User=ops team'").configuration, "far", "true")
    assert command[:5] == ["ssh", "-p", "2222", "-o", "User=ops team"]
    assert command[-3:] == ["--", "far", "true"]
    assert {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5"} <= set(command)
    assert ssh_command(session(env__ssh__command="docker exec -i").configuration, "far", "true")[:3] == ["docker", "exec", "-i"]


@pytest.mark.parametrize("key", ["env.ssh.command", "env.ssh.opts"])
def test_half_a_quotation_is_named_with_its_key(key: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{key}: 'it's' is not a valid part of a command line: No closing quotation"):
        ssh_command(Session(None, {key: "it's"}, verbose=False).configuration, "far", "true")


def test_the_remote_command_survives_the_shell(tmp_path: Path) -> None:
    config = tmp_path / "with blank" / "eventflink.yaml"
    config.parent.mkdir()
    config.write_text("cluster.id: x\n")
    said = remote_command(Session(config, {"data.directory": "/a b/$(c)'d"}, verbose=False), Path("/here it is"))
    changed, executed = said.split(" && ")
    assert shlex.split(changed) == ["cd", "/here it is"]
    assert shlex.split(executed) == [
        *["exec", sys.executable, "-m", "eventflink.cli", "-c", str(config), "-D", "data.directory=/a b/$(c)'d"],
        *["cluster", "on-host"],
    ]


def test_the_remote_program_and_directory_are_configured() -> None:
    said = remote_command(session(env__remote__program="env A=1 /opt/eventflink", env__remote__directory="/srv"), Path("/here"))
    assert said.startswith("cd /srv && exec env A=1 /opt/eventflink -D 'env.remote.program=")
    assert said.endswith(" cluster on-host")
    with pytest.raises(ConfigurationError, match=r"env.remote.program: 'it's' is not a valid part of a command line"):
        remote_command(session(env__remote__program="it's"), Path("/here"))


def stand_in(tmp_path: Path, script: str) -> Session:
    """Let a script be what stands between the hosts, as any command may that takes ssh's arguments."""
    path = tmp_path / "between.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return session(env__ssh__command=str(path))


def test_the_request_goes_in_and_the_report_comes_back_behind_whatever_a_login_says(tmp_path: Path) -> None:
    own = stand_in(tmp_path, f"cat > {tmp_path}/request; echo 'Welcome!'; echo '{{\"daemons\":[]}}'")
    assert ask_host(own, "far", REQUEST) == HostReport(daemons=())
    assert HostRequest.model_validate_json((tmp_path / "request").read_bytes()) == REQUEST


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'ssh: connect to host far port 22: Connection refused' >&2; exit 255", "Connection refused (exit code 255"),
        ("exit 127", "far: nothing was said (exit code 127"),
        ("echo hello", "its answer is not a report: 'hello'"),
        ("true", "its answer is not a report: ''"),
    ],
)
def test_a_host_that_fails_is_told_with_what_it_said(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(HostUnreachable) as caught:
        ask_host(stand_in(tmp_path, script), "far", REQUEST)
    assert str(caught.value).startswith("far: ")
    assert said in str(caught.value)


def test_a_missing_ssh_is_told() -> None:
    with pytest.raises(HostUnreachable, match=r"far: /no/such/ssh \(env.ssh.command\) cannot be run: No such file"):
        ask_host(session(env__ssh__command="/no/such/ssh"), "far", REQUEST)
