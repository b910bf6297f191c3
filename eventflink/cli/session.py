"""What every command has at hand: the session with its cluster, and how to print.

What only some commands need is imported when it is asked for: `--help` waits for none of it.
"""
# ruff: noqa: PLC0415

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import click

from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo
from eventflink.documents.plain import plain
from eventflink.model.kafka_settings import KafkaRole
from eventflink.model.plain_values import json_text
from eventflink.session.cluster_session import ClusterSession
from eventflink.session.finding import find_session

if TYPE_CHECKING:
    from rich.console import Console

    from eventflink.cli.working import Working
    from eventflink.gateways.request_channel import Accepted
    from eventflink.model.cluster_access import ClusterAccess

_UNABRIDGED_WIDTH: Final = 400
"""Into a file or a pipe tables go unabridged, however wide."""

_BROKER_POLL_S: Final = 0.1

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


@dataclass(frozen=True)
class Session(ClusterSession):
    """One run of the command line."""

    verbose: bool = field(default=False, kw_only=True)
    """Whether more of the log is shown, and tracebacks of errors."""

    def await_access(self) -> "ClusterAccess":
        """Return `access`. If no Kafka is known yet, wait for an embedded broker that is being started.

        Raises:
            SessionError, ConfigurationError: as `bootstrap` does; no broker was started within `broker.start-timeout`.

        """
        timeout_s = self.configuration.broker_start_timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        if not self.find_bootstrap():
            where = self.configuration.data_path
            self.err.print(f"no broker runs on {where}, and bootstrap.servers is empty: waiting {timeout_s:g} s for a broker", markup=False)
        while not self.find_bootstrap() and time.monotonic() < deadline:
            time.sleep(_BROKER_POLL_S)
        return self.access

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
        echo(json_text(plain(value)))

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


def session_of(
    options: Mapping[str, Any], bootstrap_source: str = "--bootstrap", *, in_context: bool = True, role: KafkaRole = KafkaRole.CLIENT
) -> Session:
    """Return the session that the global options make; raises as `find_session` does."""
    found = find_session(options, bootstrap_source, in_context=in_context, role=role)
    return Session(found.config, found.overrides, found.sources, found.role, verbose=bool(options.get("verbose")))


pass_session = click.make_pass_decorator(Session)
