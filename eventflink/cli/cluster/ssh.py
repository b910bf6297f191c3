"""Reaching another host: one ssh, which runs the same `eventflink` there, hands it a request and brings back its report.

The command line is made by pure functions; what travels is a JSON document each way, so that nothing but paths and overrides has to
survive the remote shell's quoting. ssh never asks anything (BatchMode), and every call has an end.
"""

import shlex
import subprocess
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from eventflink.cli.cluster.daemons import Action, HostReport, HostRequest
from eventflink.cli.session import Session
from eventflink.model.configuration import Configuration, ConfigurationError

CONNECT_TIMEOUT_S: Final = 10
_MARGIN_S: Final = 30.0
_STATUS_TIMEOUT_S: Final = 30.0
_SHOWN_LINES: Final = 5
# ssh takes the first value that it is given for an option: what the user says comes before these.
_OPTIONS: Final = (
    *("-o", "BatchMode=yes"),
    *("-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}"),
    *("-o", "ServerAliveInterval=5"),
    *("-o", "ServerAliveCountMax=3"),
    "-T",
)


class HostUnreachable(Exception):
    """A host did not do what it was asked; the message says what came from it instead."""


def ssh_command(configuration: Configuration, host: str, remote_command: str) -> list[str]:
    """Return the command line that runs `remote_command` in the login shell of `host`.

    Raises:
        ConfigurationError: env.ssh.command or env.ssh.opts is not a valid part of a command line.

    """
    program = _split("env.ssh.command", configuration.ssh_command)
    return [*program, *_split("env.ssh.opts", configuration.ssh_options), *_OPTIONS, "--", host, remote_command]


def remote_command(session: Session, here: Path) -> str:
    """Return what the remote shell is to run; `here` is the directory from which it is called."""
    configuration = session.configuration
    arguments = session.program_arguments({})
    quoted = shlex.join(arguments)
    if configuration.remote_program:
        _split("env.remote.program", configuration.remote_program)
        quoted = f"{configuration.remote_program} {shlex.join(arguments[len(session.program) :])}".rstrip()
    directory = configuration.remote_directory or str(here)
    return f"cd {shlex.quote(directory)} && exec {quoted} cluster on-host"


def check_command(session: Session, host: str) -> None:
    """See to it that the command line for a host can be made, before anything is started.

    Raises:
        ConfigurationError: it cannot; the message names the key.

    """
    ssh_command(session.configuration, host, remote_command(session, Path("/")))


def ask_host(session: Session, host: str, request: HostRequest) -> HostReport:
    """Let a host do something, and return its report.

    Raises:
        HostUnreachable: it cannot be reached, does not answer in time, or answers with something else.

    """
    configuration = session.configuration
    command = ssh_command(configuration, host, remote_command(session, Path.cwd()))
    # A request is about daemons that are waited for together; what had to be killed gets some time more.
    waited_ms = {Action.START: configuration.start_timeout_ms, Action.STOP: configuration.stop_timeout_ms, Action.STATUS: 0}
    timeout_s = CONNECT_TIMEOUT_S + _STATUS_TIMEOUT_S + (waited_ms[request.action] / 1000 + _MARGIN_S if waited_ms[request.action] else 0)
    try:
        finished = subprocess.run(command, input=request.model_dump_json().encode(), capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise HostUnreachable(f"{host}: no answer within {timeout_s:.0f} s") from None
    except OSError as error:
        raise HostUnreachable(f"{host}: {command[0]} (env.ssh.command) cannot be run: {error.strerror or error}") from error
    said = "; ".join(finished.stderr.decode("utf-8", "replace").strip().splitlines()[-_SHOWN_LINES:])
    if finished.returncode != 0:
        raise HostUnreachable(f"{host}: {said or 'nothing was said'} (exit code {finished.returncode} of {command[0]})")
    # A login shell may say something of its own before.
    answer = finished.stdout.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
    try:
        return HostReport.model_validate_json(answer[0])
    except ValidationError:
        raise HostUnreachable(f"{host}: its answer is not a report: {answer[0][:200]!r}; is it another version of eventflink?") from None


def _split(key: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"{key}: '{text}' is not a valid part of a command line: {error}") from error
