"""Whether a daemon is up in the sense that a user expects: alive, and heard of in the cluster.

A broker has joined when its address is announced, a REST process when this very process has announced its URL, a master when it says on
`leadership` that it is there, a TaskExecutor when this very process is registered. Every question is bounded; what cannot be found out
now is asked again by the caller that waits.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from eventflink.cli.session import Session
from eventflink.documents.plain import plain
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.folding import read_fold
from eventflink.gateways.reads import listen_for_masters
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes import announced_address
from eventflink.processes.announced_address import Announced
from eventflink.processes.pid_files import DaemonKind, PidFile
from eventflink.views.jobs_and_cluster import cluster_view

SILENCE: Final = {
    DaemonKind.BROKER: "its address was not announced",
    DaemonKind.MASTER: "it said nothing on 'leadership'",
    DaemonKind.TASK_EXECUTOR: "no master has registered it",
    DaemonKind.REST: "its URL was not announced",
}
"""What it means that a daemon has not joined."""

_LEASES_LISTENED: Final = 3.0
"""For so long a master that lives may be silent on a busy machine: it speaks twice in each."""


@dataclass(frozen=True, slots=True)
class MasterFound:
    """A master that spoke just now."""

    role: str
    epoch: int
    query_address: str


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """What Kafka and the masters say of a cluster at one moment."""

    masters: dict[str, MasterFound] = field(default_factory=dict)
    task_managers: dict[str, Any] = field(default_factory=dict)
    """As `cluster_view` shows them, by id."""
    problem: str = ""
    """Why less than everything is known."""

    def is_joined(self, kind: DaemonKind, daemon_id: str, process_id: int | None) -> bool:
        """Tell whether the cluster has heard of this daemon, a broker aside."""
        if kind is DaemonKind.MASTER:
            return daemon_id in self.masters
        found = self.task_managers.get(daemon_id)
        return found is not None and (process_id is None or found["process_id"] == process_id)

    @property
    def leader_id(self) -> str:
        """The master that says it leads, in the newest epoch; "" for none."""
        leaders = [(found.epoch, master_id) for master_id, found in self.masters.items() if found.role == "LEADER"]
        return max(leaders)[1] if leaders else ""


def look(access: ClusterAccess, lease_timeout_ms: int, masters: Collection[str] = (), *, workers: bool = True) -> ClusterLook:
    """Return who is there: of the masters those that speak until all that are expected have spoken, for three leases at most."""
    found: dict[str, MasterFound] = {}
    task_managers: dict[str, Any] = {}
    try:
        if masters:
            for known in listen_for_masters(access, listen_s=_LEASES_LISTENED * lease_timeout_ms / 1000, expected=masters):
                presence = known.presence
                found[known.master_id] = MasterFound(str(presence.role), presence.epoch, presence.query_address)
        if workers:
            task_managers = {each.task_manager_id: plain(each) for each in cluster_view(read_fold(access)).task_managers}
    except GatewayError as error:
        return ClusterLook(found, task_managers, str(error))
    return ClusterLook(found, task_managers)


def rest_url(data_path: Path, file: PidFile) -> str:
    """Return where a REST process of this host answers; "" before it does."""
    return announced_address.read(data_path, Announced.REST, file.process_id) or ""


class JoinWatch:
    """Asks again and again whether daemons of one kind have joined."""

    def __init__(self, session: Session, kind: DaemonKind) -> None:
        self._session = session
        self._kind = kind
        self.problem = ""

    def joined(self, files: list[PidFile]) -> set[str]:
        """Return the ids of those that have joined by now; it takes up to three leases."""
        configuration = self._session.configuration
        if self._kind is DaemonKind.BROKER:
            self.problem = SILENCE[self._kind]
            return {file.daemon_id for file in files} if announced_address.read(configuration.data_path, Announced.BROKER) else set()
        if self._kind is DaemonKind.REST:
            self.problem = SILENCE[self._kind]
            return {file.daemon_id for file in files if rest_url(configuration.data_path, file)}
        seen = look(
            self._session.access,
            configuration.lease_timeout_ms,
            masters=[file.daemon_id for file in files if self._kind is DaemonKind.MASTER],
            workers=self._kind is DaemonKind.TASK_EXECUTOR,
        )
        self.problem = seen.problem or SILENCE[self._kind]
        return {file.daemon_id for file in files if seen.is_joined(file.kind, file.daemon_id, file.process_id)}
