"""A cluster over its hosts: the daemons that the configuration names are started, stopped and looked at in the order that suits them.

Each host does its own part (`host_agent.py`), this one in this process, others by ssh, all at once; a host that fails stops none of the
others. Started: the broker where there is no other Kafka, then masters, TaskExecutors, REST processes. Stopped: the other way round, the
leader after the standbys.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from eventflink.cli.cluster import own_hosts
from eventflink.cli.cluster.daemons import Action, Daemon, DaemonReport, DaemonState, HostReport, HostRequest
from eventflink.cli.cluster.host_agent import HostAgent
from eventflink.cli.cluster.host_files import read_masters, read_workers
from eventflink.cli.cluster.joining import SILENCE, ClusterLook, look
from eventflink.cli.cluster.plan import BROKER_ID, check_ids, plan_masters, plan_rests, plan_workers
from eventflink.cli.cluster.ssh import HostUnreachable, ask_host, check_command
from eventflink.cli.exit_codes import explain
from eventflink.cli.failures import CommandFailed
from eventflink.cli.session import Session
from eventflink.model.configuration import ConfigurationError
from eventflink.processes import announced_address
from eventflink.processes.announced_address import Announced
from eventflink.processes.pid_files import DaemonKind
from eventflink.session.cluster_session import DIRECTORY_VARIABLE
from eventflink.session.errors import SessionError

HERE: Final = "localhost"
MAX_AT_ONCE: Final = 32
_UP: Final = frozenset({DaemonState.STARTED, DaemonState.RUNNING})
_ENDED: Final = frozenset({DaemonState.STOPPED, DaemonState.DOWN})


@dataclass(slots=True)
class Outcome:
    """What became of a command for the whole cluster."""

    reports: list[DaemonReport] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What failed beside single daemons: hosts that were not reached, steps that were left out."""


class Coordinator:
    """One command's view of the cluster; `say` takes a report as soon as it is there."""

    def __init__(self, session: Session, say: Callable[[DaemonReport], None]) -> None:
        """Read `masters` and `workers`.

        Raises:
            ConfigurationError: there is no configuration directory, or what it says is not usable.

        """
        self._session = session
        self._say = say
        self._agent = HostAgent(session)
        configuration = session.configuration
        directory = _directory(session)
        self.masters = plan_masters(read_masters(directory), configuration, own_hosts.own_name)
        self.workers = plan_workers(read_workers(directory), configuration, own_hosts.own_name)
        self.rests = plan_rests(self.masters, own_hosts.own_name)
        check_ids([*self.masters, *self.workers, *self.rests])
        self.hosts = list(dict.fromkeys(daemon.host for daemon in [*self.masters, *self.workers]))
        self._others = [host for host in self.hosts if not own_hosts.is_here(host)]
        for host in self._others:
            check_command(session, host)
        self.outcome = Outcome()

    @property
    def wants_broker(self) -> bool:
        """Whether the embedded broker belongs to this cluster: the configuration names no Kafka."""
        return not self._session.configuration.bootstrap_servers

    def remarks(self) -> list[str]:
        """Return what is likely to be a mistake, though it may be meant."""
        closed = [key for key in self._session.configuration.keys_for_one_host if key.endswith(".bind-host")]
        if not self._others or not closed:
            return []
        return [f"{' and '.join(closed)} let only the master's own host in, but the cluster has {len(self.hosts)} hosts"]

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self) -> Outcome:
        """Start what does not run, and wait until all have joined.

        Raises:
            ConfigurationError: hosts other than this one would have to reach the embedded broker.
            CommandFailed, OSError: this host cannot do its part.

        """
        self._session.have_secret()
        if self.wants_broker and not self._start_broker():
            self.outcome.failures.append("masters and TaskExecutors were not started, because no Kafka cluster was found")
            return self.outcome
        masters = self._start(self.masters)
        if not any(report.state in _UP for report in masters):
            if self.workers:
                self.outcome.failures.append("the TaskExecutors were not started: no master runs")
            return self.outcome
        self._start(self.workers)
        self._start(self.rests)
        return self.outcome

    def _start_broker(self) -> bool:
        """Start the broker of this host, unless one runs; tell whether there is one."""
        if self._others:
            raise ConfigurationError(
                f"bootstrap.servers is empty, and {self._others[0]} could not reach a broker of this host's own: name a Kafka cluster"
            )
        running = self._agent.running()
        ours = any(file.kind is DaemonKind.BROKER for file in running)
        if not ours and announced_address.read(self._session.configuration.data_path, Announced.BROKER):
            return True  # It is another command's: `eventflink broker` or `up` stops it.
        # Daemons that outlived their broker know one address of it, whatever port was free then.
        ports = {file.bootstrap.rpartition(":")[2] for file in running if file.bootstrap}
        port = int(next(iter(ports))) if len(ports) == 1 else None
        broker = Daemon(kind=DaemonKind.BROKER, daemon_id=BROKER_ID, host=HERE, broker_port=port)
        return all(report.state in _UP for report in self._start([broker]))

    def _start(self, daemons: Sequence[Daemon]) -> list[DaemonReport]:
        requests = [
            HostRequest(
                action=Action.START,
                host=host,
                daemons=tuple(d for d in daemons if d.host == host),
                cluster_secret="" if self._session.configuration.cluster_secret else self._session.read_secret(),
            )
            for host in dict.fromkeys(daemon.host for daemon in daemons)
        ]
        return self._ask(requests)

    # -- stop ------------------------------------------------------------------------------------------------------

    def stop(self) -> Outcome:
        """Stop every daemon of the cluster on the hosts that the configuration names, and on this one.

        Raises:
            CommandFailed, OSError: this host cannot do its part.

        """
        leader = self._find_leader()
        self._stop([DaemonKind.REST])
        self._stop([DaemonKind.TASK_EXECUTOR])
        if leader:
            self._stop([DaemonKind.MASTER], spared=(leader,))
        self._stop([DaemonKind.MASTER])
        self._stop([DaemonKind.WORKER])  # Only now: a master would have others started in their place.
        self._stop([DaemonKind.BROKER])
        return self.outcome

    def _find_leader(self) -> str:
        """Return the leader's id if that makes a difference and can be found out; "" else."""
        if len(self.masters) < 2:  # noqa: PLR2004 - one master is the last one to stop in any case
            return ""
        return self.look([master.daemon_id for master in self.masters], workers=False).leader_id

    def _stop(self, kinds: Sequence[DaemonKind], spared: tuple[str, ...] = ()) -> None:
        hosts = [HERE] if kinds == [DaemonKind.BROKER] else [HERE, *self._others]
        self._ask([HostRequest(action=Action.STOP, host=host, kinds=tuple(kinds), spared=spared) for host in hosts])

    # -- status ----------------------------------------------------------------------------------------------------

    def status(self) -> tuple[Outcome, ClusterLook]:
        """Return how every daemon is, and what the cluster says of itself.

        Raises:
            CommandFailed, OSError: this host cannot do its part.

        """
        broker = [Daemon(kind=DaemonKind.BROKER, daemon_id=BROKER_ID, host=HERE)] if self._has_own_broker() else []
        by_host: dict[str, list[Daemon]] = {HERE: broker} | {host: [] for host in self._others}
        for daemon in [*self.masters, *self.workers, *self.rests]:
            by_host[daemon.host if daemon.host in self._others else HERE].append(daemon)
        self._ask([HostRequest(action=Action.STATUS, host=host, daemons=tuple(daemons)) for host, daemons in by_host.items()])
        running = [report for report in self.outcome.reports if report.state is DaemonState.RUNNING]
        return self.outcome, self.look([report.daemon_id for report in running if report.kind is DaemonKind.MASTER])

    def _has_own_broker(self) -> bool:
        """Whether the broker is to be one of our daemons: it is, or nobody else's runs."""
        if not self.wants_broker:
            return False
        ours = any(file.kind is DaemonKind.BROKER for file in self._agent.running())
        return ours or not announced_address.read(self._session.configuration.data_path, Announced.BROKER)

    def look(self, masters: Collection[str], *, workers: bool = True) -> ClusterLook:
        """Return what the cluster says of itself now, and which of these masters speak."""
        configuration = self._session.configuration
        bootstrap = configuration.bootstrap_servers or announced_address.read(configuration.data_path, Announced.BROKER)
        if not bootstrap:
            return ClusterLook(problem="the embedded broker does not run")
        return look(configuration.access(bootstrap, self._session.role), configuration.lease_timeout_ms, masters, workers=workers)

    # -- hosts -----------------------------------------------------------------------------------------------------

    def _ask(self, requests: Iterable[HostRequest]) -> list[DaemonReport]:
        """Let all hosts do their part at once; return the reports of those that answered."""
        here = [request for request in requests if own_hosts.is_here(request.host)]
        others = [request for request in requests if not own_hosts.is_here(request.host)]
        got: list[DaemonReport] = []
        with ThreadPoolExecutor(max_workers=MAX_AT_ONCE, thread_name_prefix="ssh") as threads:
            asked = [threads.submit(self._ask_other, request) for request in others]
            for request in _merged(here):
                got += self._take(self._serve(request))
            for answer in asked:
                if (report := answer.result()) is not None:
                    got += self._take(report)
        return got

    def _serve(self, request: HostRequest) -> HostReport:
        """Do this host's part; where there are other hosts, it is one that may fail like them."""
        try:
            return self._agent.serve(request)
        except (CommandFailed, SessionError, OSError) as error:
            if not self._others:
                raise
            self.outcome.failures.append(f"{request.host}: {explain(error)[1]}")
            return HostReport(daemons=())

    def _ask_other(self, request: HostRequest) -> HostReport | None:
        try:
            return ask_host(self._session, request.host, request)
        except HostUnreachable as error:
            self.outcome.failures.append(str(error))
            return None

    def _take(self, report: HostReport) -> list[DaemonReport]:
        for daemon in report.daemons:
            self.outcome.reports.append(daemon)
            self._say(daemon)
        return list(report.daemons)


def _merged(requests: list[HostRequest]) -> list[HostRequest]:
    """Make one of the requests to this host, under whatever names, so that its daemons are waited for together."""
    if not requests:
        return []
    daemons = tuple(daemon for request in requests for daemon in request.daemons)
    return [requests[0].model_copy(update={"daemons": daemons})]


def _directory(session: Session) -> Path:
    directory = session.configuration_directory
    if directory is None:
        named = f"{session.config} stands alone: it is not called eventflink.yaml" if session.config else "none was found"
        raise ConfigurationError(
            f"which configuration directory? It holds eventflink.yaml, masters and workers; {named}. "
            f"Give -c DIRECTORY or {DIRECTORY_VARIABLE}, or call this where ./conf is one"
        )
    return directory


def all_up(outcome: Outcome) -> bool:
    """Tell whether a start was successful."""
    return not outcome.failures and all(report.state in _UP for report in outcome.reports)


def all_ended(outcome: Outcome) -> bool:
    """Tell whether a stop was successful: what had to be killed did end, but not in order."""
    return not outcome.failures and all(report.state in _ENDED for report in outcome.reports)


def with_look(outcome: Outcome, seen: ClusterLook) -> list[DaemonReport]:
    """Return the reports of a status, in which what lives but has not joined is told from what runs."""
    return [
        report
        if report.state is not DaemonState.RUNNING
        or report.kind in (DaemonKind.BROKER, DaemonKind.REST)
        or seen.is_joined(report.kind, report.daemon_id, report.process_id)
        else report.model_copy(update={"state": DaemonState.NOT_JOINED, "detail": seen.problem or SILENCE[report.kind]})
        for report in outcome.reports
    ]
