"""One use of a cluster: its configuration after all overrides, its secret, the address of Kafka, and who asks.

What finds these values is `finding.py`; what prints is the command line's. Nothing but `bootstrap` asks the network, so that a wrong key is
told before anything starts. What only some uses need is imported when it is asked for: `eventflink --help` waits for none of it.
"""
# ruff: noqa: PLC0415

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventflink.model.configuration_files import USUAL_DIRECTORY
from eventflink.model.kafka_settings import KafkaRole
from eventflink.model.secret_values import DEFAULT_KEYS, use_keys
from eventflink.session.errors import KafkaNotFound, SecretNotWritten, SessionError, SessionInvalid

if TYPE_CHECKING:
    from eventflink.model.cluster_access import ClusterAccess
    from eventflink.model.configuration import Configuration

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


def _not_written(path: Path, error: OSError | UnicodeDecodeError) -> SessionError:
    """Return the error for a cluster secret that cannot be kept: the disk is the machine's matter, the place the configuration's."""
    from eventflink.processes.disk import FAULTS

    is_disk = isinstance(error, OSError) and error.errno in FAULTS
    why = error.strerror if isinstance(error, OSError) else error
    return (SecretNotWritten if is_disk else SessionInvalid)(f"the cluster secret cannot be written to {path}: {why}")


def actor_name() -> str:
    """Return who asks, for the audit: user and host."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # A user id without a name, as in some containers.
        return socket.gethostname()


@dataclass(frozen=True)
class ClusterSession:
    """One use of a cluster by this process."""

    config: Path | None
    overrides: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where an override comes from, by key; one that is missing here comes from `-D`."""
    role: KafkaRole = KafkaRole.CLIENT
    """As whom this process connects to Kafka."""

    @cached_property
    def configuration(self) -> "Configuration":
        """The configuration with `-D`, `--bootstrap` and `--cluster-id` laid over it.

        Raises:
            ConfigurationError: it is not usable.

        """
        from eventflink.model.configuration import load_configuration

        configuration = load_configuration(self.config, self.overrides)
        if configuration.redaction_keys != DEFAULT_KEYS:
            use_keys(configuration.redaction_keys)
        return configuration

    def have_secret(self) -> None:
        """Make a cluster secret below data.directory, unless there is one or the configuration says otherwise.

        Raises:
            SessionError: it cannot be written.

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

    def read_secret(self) -> str:
        """Return what the file of the cluster secret below data.directory holds.

        Raises:
            SessionInvalid: it cannot be read.

        """
        from eventflink.model.cluster_secret import secret_path

        path = secret_path(self.configuration.data_path, self.configuration.cluster_id)
        try:
            return path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise SessionInvalid(f"the cluster secret {path} cannot be read: {error}") from error

    def share_secret(self, copy_id: str) -> None:
        """Give the cluster secret to another cluster id on this host as well: its log is a copy of what was sealed with it.

        Raises:
            SessionError: that id has another secret here, or it cannot be written.

        """
        from eventflink.model.cluster_secret import mint_secret, secret_path

        configuration = self.configuration
        if configuration.cluster_secret or not configuration.secret_reference:
            return
        path, secret = secret_path(configuration.data_path, copy_id), self.read_secret()
        try:
            if not mint_secret(path, secret) and path.read_text(encoding="ascii") != secret:
                raise SessionInvalid(f"{path} holds another secret than the cluster that is to be brought back")
        except (OSError, UnicodeDecodeError) as error:
            raise _not_written(path, error) from error

    def take_secret(self, secret: str) -> None:
        """Keep the cluster secret that the host has from which `cluster start` was called; one that is here already has to be the same.

        Raises:
            SessionError: another one is here, or it cannot be written.

        """
        from eventflink.model.cluster_secret import mint_secret, secret_path

        path = secret_path(self.configuration.data_path, self.configuration.cluster_id)
        try:
            mint_secret(path, secret)
        except OSError as error:
            raise _not_written(path, error) from error
        if self.read_secret() != secret:
            raise SessionInvalid(f"{path} holds another secret of this cluster than the host from which it is started")

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

    def find_bootstrap(self) -> str:
        """Return where Kafka is said to be, which is not asked; empty: nowhere."""
        from eventflink.processes.announced_address import Announced, read

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
            KafkaNotFound: there is neither, or it takes no connection with the configured settings.
            ConfigurationError: no client can be made with the configured settings.

        """
        found = self.find_bootstrap()
        if not found:
            raise KafkaNotFound(
                "Kafka cluster not found: give --bootstrap HOST:PORT, or bootstrap.servers in the configuration "
                f"({self._described_file}), "
                f"or start one: 'eventflink up' (no broker runs with data.directory {self.configuration.data_path})",
            )
        if self.configuration.kafka:
            from eventflink.log.refusals import find_fault, find_refusal
            from eventflink.model.configuration import ConfigurationError

            kafka = self.configuration.access(found, self.role).kafka
            if fault := find_fault(kafka):
                raise ConfigurationError(fault)
            # Asked first: a command that is refused would wait for its time to run out.
            if refusal := find_refusal(kafka):
                raise KafkaNotFound(refusal)
        return found

    @property
    def access(self) -> "ClusterAccess":
        """How this process reaches the cluster; raises as `bootstrap` does."""
        return self.configuration.access(self.bootstrap, self.role)

    @property
    def cluster_id(self) -> str:
        """The id of the cell."""
        return self.configuration.cluster_id
