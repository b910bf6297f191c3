"""What every command has at hand: the configuration after all overrides, the address of Kafka, and how to print.

Nothing is read from the network here, so that a wrong key is told before anything starts.
"""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eventflink.cli import broker_address
from eventflink.cli.exit_codes import ExitCode
from eventflink.cli.failures import CommandFailed
from eventflink.model.configuration import Configuration, load_configuration

_UNABRIDGED_WIDTH = 400
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


@dataclass(frozen=True)
class Session:
    """One run of the command line."""

    config: Path | None
    overrides: Mapping[str, str]
    verbose: bool

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration with `-D`, `--bootstrap` and `--cluster-id` laid over it.

        Raises:
            ConfigurationError: it is not usable.

        """
        return load_configuration(self.config, self.overrides)

    @cached_property
    def bootstrap(self) -> str:
        """The Kafka cluster: the configured one, or else the embedded broker that runs on this data directory.

        Raises:
            CommandFailed: there is neither.

        """
        found = self.configuration.bootstrap_servers or broker_address.read(self.configuration.data_path)
        if not found:
            raise CommandFailed(
                ExitCode.UNREACHABLE,
                "which Kafka cluster? Give --bootstrap HOST:PORT or bootstrap.servers in the configuration, or start one: 'eventflink up'",
            )
        return found

    @property
    def cluster_id(self) -> str:
        """The id of the cell."""
        return self.configuration.cluster_id

    @cached_property
    def out(self) -> Console:
        """Where results go: standard output."""
        # Into a file or a pipe tables go unabridged, however wide.
        return Console(highlight=False, width=None if sys.stdout.isatty() else _UNABRIDGED_WIDTH)

    @cached_property
    def err(self) -> Console:
        """Where progress and remarks go: standard error."""
        return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _UNABRIDGED_WIDTH)

    def print_json(self, value: Any) -> None:
        """Print one JSON document on one line."""
        click.echo(json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str))

    def child_arguments(self, bootstrap: str, overrides: Mapping[str, str]) -> list[str]:
        """Return the command line of an `eventflink` with the same configuration, up to its command."""
        arguments = [sys.executable, "-m", "eventflink.cli"]
        if self.config is not None:
            arguments += ["-c", str(self.config.absolute())]
        merged = {**self.overrides, **overrides, "bootstrap.servers": bootstrap}
        for key, value in merged.items():
            arguments += ["-D", f"{key}={value}"]
        return [*arguments, "-v"] if self.verbose else arguments

    def log_to_stderr(self) -> None:
        """Let the log of a long-running role go to standard error."""
        logging.getLogger().setLevel(logging.INFO)
        logging.getLogger("eventflink").setLevel(logging.DEBUG if self.verbose else logging.INFO)
        logging.getLogger("mode").setLevel(logging.WARNING)
        logging.getLogger("faust").setLevel(logging.WARNING)
        # It tells every failed attempt to connect, many a second; what matters of that ends a term, and is told as that.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


pass_session = click.make_pass_decorator(Session)
