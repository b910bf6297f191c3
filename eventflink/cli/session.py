"""What every command has at hand: the configuration after all overrides, the address of Kafka, who asks, and how to print.

Nothing is read from the network here, so that a wrong key is told before anything starts. What only some commands need is imported when
it is asked for: `--help` waits for none of it.
"""
# ruff: noqa: PLC0415

import getpass
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.model.cluster_secret import use_secret
from eventflink.model.configuration_files import USUAL_DIRECTORY
from eventflink.model.kafka_settings import KafkaRole, settings_of_role, use_role, use_settings
from eventflink.model.plain_values import json_text
from eventflink.model.secret_values import DEFAULT_KEYS, use_keys

if TYPE_CHECKING:
    from rich.console import Console

    from eventflink.cli.working import Working
    from eventflink.gateways.request_channel import Accepted
    from eventflink.model.configuration import Configuration

_UNABRIDGED_WIDTH: Final = 400
"""Into a file or a pipe tables go unabridged, however wide."""

_BROKER_POLL_S: Final = 0.1

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"

CONFIGURATION_FILE: Final = "eventflink.yaml"
DIRECTORY_VARIABLE: Final = "EVENTFLINK_CONF_DIR"


def find_configuration(named: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file, which need not exist where it was named; None: there is none, all defaults hold.

    `named` (`-c`, EVENTFLINK_CONFIG) is a file or a directory, EVENTFLINK_CONF_DIR a directory, as FLINK_CONF_DIR is. Without them it is
    conf/eventflink.yaml of the working directory or of the nearest directory above that has one, as git looks for a repository. Files
    of other users are passed over there: a configuration says where secrets are read and which modules are loaded.
    """
    if named is not None:
        return named / CONFIGURATION_FILE if named.is_dir() else named
    if directory := environment.get(DIRECTORY_VARIABLE):
        return Path(directory) / CONFIGURATION_FILE
    usual = Path(USUAL_DIRECTORY) / CONFIGURATION_FILE
    if usual.is_file():
        return usual
    above = (directory / usual for directory in Path.cwd().parents)
    return next((file for file in above if _is_ours(file)), None)


def _is_ours(file: Path) -> bool:
    """Tell whether there is a file that this user or root owns."""
    try:
        return file.is_file() and file.stat().st_uid in (os.getuid(), 0)
    except OSError:  # A directory that this user may not look into.
        return False


def directory_of(config: Path | None) -> Path | None:
    """Return the configuration directory to which this file belongs, with its `masters`, `workers` and `logging.yaml`.

    None for a file that stands alone: it is not called eventflink.yaml.
    """
    return config.parent if config is not None and config.name == CONFIGURATION_FILE else None


def _use_secret(configuration: "Configuration") -> None:
    use_secret(configuration.cluster_id, configuration.secret_reference, configuration.sealed_from_offset)


def _not_written(path: Path, error: OSError | UnicodeDecodeError) -> CommandFailed:
    """Return what to say of a cluster secret that cannot be kept: the disk is the machine's matter, the place the configuration's."""
    from eventflink.processes.disk import FAULTS

    is_disk = isinstance(error, OSError) and error.errno in FAULTS
    why = error.strerror if isinstance(error, OSError) else error
    return CommandFailed(ExitCode.ENVIRONMENT if is_disk else ExitCode.USAGE, f"the cluster secret cannot be written to {path}: {why}")


def actor_name() -> str:
    """Return who asks, for the audit: user and host."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # A user id without a name, as in some containers.
        return socket.gethostname()


@dataclass(frozen=True)
class Session:
    """One run of the command line."""

    config: Path | None
    overrides: Mapping[str, str]
    verbose: bool
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where an override comes from, by key; one that is missing here comes from `-D`."""
    role: KafkaRole = KafkaRole.CLIENT
    """As whom this process connects to Kafka."""

    @cached_property
    def configuration(self) -> "Configuration":
        """The configuration with `-D`, `--bootstrap` and `--cluster-id` laid over it; Kafka's clients of this process follow it.

        Raises:
            ConfigurationError: it is not usable.

        """
        from eventflink.model.configuration import load_configuration

        configuration = load_configuration(self.config, self.overrides)
        use_role(self.role)
        if configuration.kafka:
            use_settings(configuration.bootstrap_servers, settings_of_role(configuration.kafka, self.role))
        _use_secret(configuration)
        if configuration.redaction_keys != DEFAULT_KEYS:
            use_keys(configuration.redaction_keys)
        return configuration

    def have_secret(self) -> None:
        """Make a cluster secret below data.directory, unless there is one or the configuration says otherwise.

        Raises:
            CommandFailed: it cannot be written.

        """
        from eventflink.model.cluster_secret import mint_secret, secret_path

        configuration = self.configuration
        if configuration.cluster_secret:
            return
        path = secret_path(configuration.data_path, configuration.cluster_id)
        try:
            mint_secret(path)
        except OSError as error:
            raise _not_written(path, error) from error
        _use_secret(configuration)

    def read_secret(self) -> str:
        """Return what the file of the cluster secret below data.directory holds.

        Raises:
            CommandFailed: it cannot be read.

        """
        from eventflink.model.cluster_secret import secret_path

        path = secret_path(self.configuration.data_path, self.configuration.cluster_id)
        try:
            return path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(ExitCode.USAGE, f"the cluster secret {path} cannot be read: {error}") from error

    def share_secret(self, copy_id: str) -> None:
        """Give the cluster secret to another cluster id on this host as well: its log is a copy of what was sealed with it.

        Raises:
            CommandFailed: that id has another secret here, or it cannot be written.

        """
        from eventflink.model.cluster_secret import mint_secret, secret_path, share_secret

        configuration = self.configuration
        share_secret(configuration.cluster_id, copy_id)
        if configuration.cluster_secret or not configuration.secret_reference:
            return
        path, secret = secret_path(configuration.data_path, copy_id), self.read_secret()
        try:
            if not mint_secret(path, secret) and path.read_text(encoding="ascii") != secret:
                raise CommandFailed(ExitCode.USAGE, f"{path} holds another secret than the cluster that is to be brought back")
        except (OSError, UnicodeDecodeError) as error:
            raise _not_written(path, error) from error

    def take_secret(self, secret: str) -> None:
        """Keep the cluster secret that the host has from which `cluster start` was called; one that is here already has to be the same.

        Raises:
            CommandFailed: another one is here, or it cannot be written.

        """
        from eventflink.model.cluster_secret import mint_secret, secret_path

        path = secret_path(self.configuration.data_path, self.configuration.cluster_id)
        try:
            mint_secret(path, secret)
        except OSError as error:
            raise _not_written(path, error) from error
        if self.read_secret() != secret:
            raise CommandFailed(ExitCode.USAGE, f"{path} holds another secret of this cluster than the host from which it is started")
        _use_secret(self.configuration)

    @property
    def configuration_directory(self) -> Path | None:
        """The directory with `masters`, `workers` and `logging.yaml`; None where there is no configuration, or its file stands alone."""
        return directory_of(self.config)

    @cached_property
    def key_sources(self) -> dict[str, str]:
        """Where each key that is not left at its default comes from.

        Raises:
            ConfigurationError: the file cannot be read.

        """
        from eventflink.model.configuration import read_values

        in_file = dict.fromkeys(read_values(self.config) if self.config is not None else (), f"file {self.config}")
        return in_file | {key: self.sources.get(key, "-D") for key in self.overrides}

    def _find_bootstrap(self) -> str:
        """Return where Kafka is said to be, which is not asked; empty: nowhere."""
        from eventflink.cli.announced_address import Announced, read

        return self.configuration.bootstrap_servers or read(self.configuration.data_path, Announced.BROKER) or ""

    @property
    def _described_file(self) -> str:
        """Which file the configuration is."""
        if self.config is not None:
            return str(self.config)
        return f"{USUAL_DIRECTORY}/{CONFIGURATION_FILE} was not found in {Path.cwd()} or above"

    @cached_property
    def bootstrap(self) -> str:
        """The Kafka cluster: the configured one, or else the embedded broker that runs on this data directory.

        Raises:
            CommandFailed: there is neither, or it takes no connection with the configured settings.
            ConfigurationError: no client can be made with the configured settings.

        """
        found = self._find_bootstrap()
        if not found:
            raise CommandFailed(
                ExitCode.UNREACHABLE,
                f"Kafka cluster not found: give --bootstrap HOST:PORT, or bootstrap.servers in the configuration ({self._described_file}), "
                f"or start one: 'eventflink up' (no broker runs with data.directory {self.configuration.data_path})",
            )
        if self.configuration.kafka:
            from eventflink.log.refusals import find_fault, find_refusal
            from eventflink.model.configuration import ConfigurationError

            if fault := find_fault(found):
                raise ConfigurationError(fault)
            # Asked first: a command that is refused would wait for its time to run out.
            if refusal := find_refusal(found):
                raise CommandFailed(ExitCode.UNREACHABLE, refusal)
        return found

    def await_bootstrap(self) -> str:
        """Return `bootstrap`; where there is none yet, wait for an embedded broker that somebody is just starting.

        Raises:
            CommandFailed, ConfigurationError: as `bootstrap` does; no broker was started within `broker.start-timeout`.

        """
        timeout_s = self.configuration.broker_start_timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        if not self._find_bootstrap():
            where = self.configuration.data_path
            self.err.print(f"no broker runs on {where}, and bootstrap.servers is empty: waiting {timeout_s:g} s for a broker", markup=False)
        while not self._find_bootstrap() and time.monotonic() < deadline:
            time.sleep(_BROKER_POLL_S)
        return self.bootstrap

    @property
    def cluster_id(self) -> str:
        """The id of the cell."""
        return self.configuration.cluster_id

    @cached_property
    def out(self) -> "Console":
        """Where results go: standard output."""
        if sys.stdout.isatty():
            from eventflink.cli.consoles import SafeConsole

            return SafeConsole(highlight=False)
        from eventflink.cli.consoles import PlainConsole

        return PlainConsole(highlight=False)

    @cached_property
    def err(self) -> "Console":
        """Where progress and remarks go: standard error."""
        from eventflink.cli.consoles import SafeConsole

        is_terminal = sys.stderr.isatty()
        return SafeConsole(stderr=True, highlight=False, soft_wrap=not is_terminal, width=None if is_terminal else _UNABRIDGED_WIDTH)

    def working(self, text: str) -> "Working":
        """Return a context in which a person is told what is done, should it take longer than a second."""
        from eventflink.cli.working import Working

        return Working(self.err, text)

    def print_json(self, value: Any) -> None:
        """Print one JSON document on one line."""
        echo(json_text(value))

    def print_accepted(self, accepted: "Accepted", said: str, *, as_json: bool, **fields: Any) -> int:
        """Print what an accepted request leads to, or these fields as JSON, with its place in the log; return the exit code."""
        if as_json:
            self.print_json({**fields, "request_id": accepted.request_id, "log_offset": accepted.log_offset})
        else:
            echo(f"{said} (log offset {accepted.log_offset})")
        return ExitCode.OK

    @property
    def program(self) -> list[str]:
        """The command line of this very `eventflink`, without any argument."""
        return [sys.executable, "-m", "eventflink.cli"]

    def global_options(self, overrides: Mapping[str, str]) -> list[str]:
        """Return the options before a command that make the same configuration, with these overrides."""
        config = [] if self.config is None else ["-c", str(self.config.absolute())]
        values = [part for key, value in {**self.overrides, **overrides}.items() for part in ("-D", f"{key}={value}")]
        return [*config, *values, *(["-v"] if self.verbose else [])]

    def program_arguments(self, overrides: Mapping[str, str]) -> list[str]:
        """Return the command line of an `eventflink` with the same configuration, up to its command."""
        return [*self.program, *self.global_options(overrides)]

    def child_arguments(self, bootstrap: str, overrides: Mapping[str, str]) -> list[str]:
        """Return the command line of a part of the same cluster, up to its command; its Kafka is at `bootstrap`."""
        return self.program_arguments({**overrides, "bootstrap.servers": bootstrap})

    def log_to_stderr(self, daemon_id: str) -> None:
        """Let the log of a long-running role go to standard error, or where `logging.yaml` of the configuration directory says.

        Raises:
            ConfigurationError: that file is not usable.

        """
        from eventflink.cli.logging_file import FILE_NAME, apply_logging_file
        from eventflink.leadership.log_lines import OneLineRecord

        logging.setLogRecordFactory(OneLineRecord)
        logging.getLogger().setLevel(logging.INFO)
        logging.getLogger("eventflink").setLevel(logging.INFO)
        logging.getLogger("mode").setLevel(logging.WARNING)
        logging.getLogger("faust").setLevel(logging.WARNING)
        if self.configuration_directory is not None and (path := self.configuration_directory / FILE_NAME).is_file():
            apply_logging_file(path, {"daemon": daemon_id, "env.log.dir": str(self.configuration.log_path)})
        if self.verbose:
            logging.getLogger("eventflink").setLevel(logging.DEBUG)


pass_session = click.make_pass_decorator(Session)
