"""What to start, and where: from the lines of `masters` and `workers` to one daemon each, with an id that a later start finds again.

An id is made of the line's host: `master-<host>`, and for further lines of that host `master-<host>-2`, `-3`, …; adding lines or hosts
leaves the ids of the others as they are. Pure, but for the names of this host, which are handed in.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from eventflink.cli.cluster.daemons import Daemon
from eventflink.cli.cluster.host_files import HostLine
from eventflink.model.configuration import Configuration, ConfigurationError
from eventflink.model.port_range import ports_of
from eventflink.processes.pid_files import DaemonKind

BROKER_ID: Final = "broker"
_SECOND: Final = 2
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]+")


def plan_masters(lines: list[HostLine], configuration: Configuration, own_name: Callable[[str], str]) -> list[Daemon]:
    """Return one master for each line; `own_name` names the host of a line.

    Raises:
        ConfigurationError: two of them cannot run as they are configured.

    """
    if configuration.high_availability == "none" and len(lines) > 1:
        raise ConfigurationError(
            f"{lines[1].place}: a second master needs a high-availability.type other than none: the two would depose each other"
        )
    ids = _ids(lines, "master", "jobmanager.id", configuration.master_id, own_name)
    _check_ports(lines, configuration, own_name)
    return [
        Daemon(kind=DaemonKind.MASTER, daemon_id=daemon_id, host=line.host, query_port=line.port)
        for line, daemon_id in zip(lines, ids, strict=True)
    ]


def plan_workers(lines: list[HostLine], configuration: Configuration, own_name: Callable[[str], str]) -> list[Daemon]:
    """Return one TaskExecutor for each line; raises as `plan_masters` does."""
    ids = _ids(lines, "tm", "taskmanager.id", configuration.task_manager_id, own_name)
    return [Daemon(kind=DaemonKind.TASK_EXECUTOR, daemon_id=daemon_id, host=line.host) for line, daemon_id in zip(lines, ids, strict=True)]


def plan_rests(masters: list[Daemon], own_name: Callable[[str], str]) -> list[Daemon]:
    """Return one REST process for each host that has a master: where Flink's users look for it."""
    hosts: dict[str, str] = {}
    for master in masters:
        hosts.setdefault(own_name(master.host), master.host)
    names = {host: f"rest-{_FOREIGN.sub('-', name).strip('-')}"[:120] for name, host in hosts.items()}
    return [Daemon(kind=DaemonKind.REST, daemon_id=name, host=host) for host, name in names.items()]


def check_ids(daemons: Iterable[Daemon]) -> None:
    """See to it that no two daemons of a cluster have one id: their pid files and logs are named by it.

    Raises:
        ConfigurationError: two have; the message names the id.

    """
    counts = Counter(daemon.daemon_id for daemon in daemons)
    counts[BROKER_ID] += 1
    for daemon_id, count in counts.items():
        if count > 1:
            raise ConfigurationError(f"'{daemon_id}' would name {count} daemons; give jobmanager.id and taskmanager.id other values")


def _ids(lines: list[HostLine], prefix: str, key: str, configured: str, own_name: Callable[[str], str]) -> list[str]:
    if configured:
        if len(lines) > 1:
            raise ConfigurationError(
                f"{key} is '{configured}', and {lines[1].place} names a second one: leave {key} out, then they are named after their hosts"
            )
        return [configured] * len(lines)
    seen: Counter[str] = Counter()
    ids = []
    for line in lines:
        base = f"{prefix}-{_FOREIGN.sub('-', own_name(line.host)).strip('-')}"[:120]
        seen[base] += 1
        ids.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return ids


def _check_ports(lines: list[HostLine], configuration: Configuration, own_name: Callable[[str], str]) -> None:
    """Find masters of one host that want the same port; 0 is any free one."""
    taken: dict[tuple[str, int], str] = {}
    hosts: Counter[str] = Counter()
    ports = set(ports_of(configuration.blob_port))
    blob_ports = 0 if 0 in ports else len(ports)
    for line in lines:
        host = own_name(line.host).lower()
        hosts[host] += 1
        if blob_ports and hosts[host] > blob_ports:
            which = "second" if hosts[host] == _SECOND else f"{hosts[host]}th"
            both = "both" if hosts[host] == _SECOND else f"all {hosts[host]}"
            raise ConfigurationError(
                f"{line.place}: a {which} master on {line.host}, but blob.server.port is {configuration.blob_port} for {both}; "
                "make it 0, or a range with a port for each"
            )
        port = line.port or configuration.query_port
        if port and (first := taken.setdefault((host, port), line.place)) != line.place:
            raise ConfigurationError(
                f"{line.place}: the master of {first} answers reads on port {port} of {line.host} already; give them ports (host:port)"
            )
