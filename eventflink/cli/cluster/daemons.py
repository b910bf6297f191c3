"""What there is to start, and what is told about it: the values that travel between a command and the hosts of its cluster.

They are JSON documents on the wire between two `eventflink`s, so they are pydantic models. Nothing is done here.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from eventflink.processes.pid_files import DaemonKind


class DaemonState(StrEnum):
    """How a daemon was found, or what became of it."""

    STARTED = "started"
    RUNNING = "running"
    NOT_JOINED = "not joined"
    """It lives, and the cluster has not heard of it."""
    DIED = "died"
    DOWN = "down"
    STOPPED = "stopped"
    KILLED = "killed"
    """It did not end in time when it was asked to."""


class Action(StrEnum):
    """What a host is asked to do."""

    START = "start"
    STOP = "stop"
    STATUS = "status"


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Daemon(_Document):
    """One process that the configuration names."""

    kind: DaemonKind
    daemon_id: str
    host: str
    """As the configuration writes it."""
    query_port: int = 0
    """A master's, where its line names one."""
    broker_port: int | None = None
    """A broker's, where it must be this one."""


class HostRequest(_Document):
    """What one host is to do."""

    action: Action
    host: str
    daemons: tuple[Daemon, ...] = ()
    """Which ones to start, or to look at besides all that run."""
    kinds: tuple[DaemonKind, ...] = ()
    """Which kinds to stop."""
    spared: tuple[str, ...] = ()
    """The ids that are not to be stopped yet."""
    cluster_secret: str = Field(default="", repr=False, max_length=4096)
    """What the file of the cluster secret is to hold on this host; empty: the configuration says where it is."""


class DaemonReport(_Document):
    """How one daemon is."""

    kind: DaemonKind
    daemon_id: str
    host: str
    state: DaemonState
    process_id: int | None = None
    up_since: str | None = None
    log_path: str
    detail: str = ""
    """What is to be said about it; of one that died the end of its log."""
    is_named: bool = True
    """Whether the configuration names it; a daemon of an earlier one may still run."""


class HostReport(_Document):
    """What a host answers."""

    daemons: tuple[DaemonReport, ...]
