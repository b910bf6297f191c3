"""The drill on a running cluster: its leader is made to crash, freeze or step down, and what that costs is measured from outside.

Everything that is measured is seen in the log, in an answer to a client, or asked of the masters over HTTP. Nothing is done before
it is known who leads and that there is a standby.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from eventflink.drills import DrillFailed, DrillRefused
from eventflink.drills.digests import DigestCheck, check_digests
from eventflink.drills.disturbance import Disturbance, disturbance, live_attempts
from eventflink.drills.log_watch import DrillWatch, Grant, Seen, ms_between
from eventflink.drills.orders import CommandOrder, LeadershipEnd, Order, SignalOrder, check_process
from eventflink.drills.probe import ACTOR, Probe
from eventflink.events.log_events import TaskManagerDisconnected, TaskManagerLost, TaskManagerReportReconciled
from eventflink.gateways.follow import LoggedDecision
from eventflink.gateways.leader import find_leader
from eventflink.gateways.reads import KnownMaster, listen_for_masters
from eventflink.log.replay import replay
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import DrillStepType, Role
from eventflink.snapshots.loading import read_state

SETTLE_S: Final = 20.0
"""How long the TaskManagers' reports to the new leader are waited for."""

RETURN_S: Final = 30.0
"""How long a leader that was frozen is waited for after it was continued."""

_LEASES_LISTENED: Final = 2
_MIN_LISTEN_S: Final = 1.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """What is to be done to which cluster; durations in seconds but for the freeze."""

    access: ClusterAccess
    drill_id: str
    step: DrillStepType
    freeze_ms: int
    process_id: int | None = None
    """The leader's process on this host; None: the leader is asked by a command."""
    without_standby: bool = False
    lease_timeout_ms: int = 1000
    timeout_s: float = 60.0

    @property
    def listen_s(self) -> float:
        """How long to listen for masters: each of them speaks several times meanwhile."""
        return max(_MIN_LISTEN_S, _LEASES_LISTENED * self.lease_timeout_ms / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Who was there before."""

    leader: KnownMaster
    standbys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReport:
    """What the drill found."""

    drill_id: str
    cluster_id: str
    method: str
    old_leader: str
    old_epoch: int
    standbys: list[str]
    new_leader: str
    new_epoch: int
    granted_ms: float
    """From the crash to the new grant in the log, or to the first answer if it came first; 0 where one fetch brought order and grant."""
    granted_by_kafka_ms: int | None
    """The same by Kafka's timestamps of the order and the grant; None where a signal was the order."""
    answered_ms: float
    """From the crash to the first command that the new leader answered."""
    tasks: Disturbance
    reported: int
    """How many TaskManagers the new leader had a full report of when the tasks were compared."""
    task_managers: int
    digests: DigestCheck
    returned: bool | None
    """Whether a frozen leader came back as a standby; None where nobody was frozen."""

    @property
    def faults(self) -> list[str]:
        """What is not as it must be; nothing: the drill passed."""
        faults = [f"task {task}" for task in self.tasks.disturbed]
        if self.reported < self.task_managers:
            faults.append(f"{self.task_managers - self.reported} of {self.task_managers} TaskManagers did not report to the new leader")
        if self.returned is False:
            faults.append(f"{self.old_leader} was let go and did not come back as a standby")
        return faults + self.digests.faults


def look_around(options: FailoverOptions) -> Situation:
    """Return the leader and the standbys, before anything is done.

    Raises:
        DrillRefused: there is no standby, or the process that is to crash is not the leader's.
        NoLeader, ClusterUnreachable, ClusterNotFound: there is nothing to drill.

    """
    if options.step is DrillStepType.FREEZE and options.freeze_ms <= options.lease_timeout_ms:
        raise DrillRefused(
            f"a freeze of {options.freeze_ms} ms is no longer than the lease ({options.lease_timeout_ms} ms): nobody would take over"
        )
    heartbeat = find_leader(options.access)
    masters = {m.master_id: m for m in listen_for_masters(options.access, listen_s=options.listen_s)}
    leader = masters.get(heartbeat.master_id)
    if leader is None:
        raise DrillRefused(f"{heartbeat.master_id} sends heartbeats as the leader, but no presence")
    if options.process_id is not None:
        check_process(options.process_id, leader)
    standbys = sorted(m for m in masters if m != heartbeat.master_id)
    if not standbys and not options.without_standby:
        raise DrillRefused(f"there is no standby: when {heartbeat.master_id} crashes, nobody leads. Start one, or give --without-standby")
    return Situation(leader=leader, standbys=standbys)


def run_failover(options: FailoverOptions, situation: Situation, say: Callable[[str], None]) -> FailoverReport:
    """End the leadership and measure what follows.

    Raises:
        DrillRefused: the leader was not ended.
        DrillFailed: nobody led, or answered, in time.
        LogUnusable, LogDiverged, LogNotDense, GatewayError, KafkaException, AdministrationError: the log cannot be read.

    """
    access, leader = options.access, situation.leader
    fold = read_state(access)
    epoch = fold.acceptance.epoch
    with (
        DrillWatch(access, fold) as watch,
        Probe(access, options.drill_id) as probe,
        _order(options, leader.master_id) as order,
    ):
        say(f"{options.step} of {leader.master_id}, the leader of epoch {epoch}")
        ended = order.give(watch)
        _logger.warning("DrillStepGiven drill=%s step=%s master=%s", options.drill_id, options.step, leader.master_id)
        probe.start()
        grant = watch.wait_for_grant(epoch, options.timeout_s)
        answer = probe.wait_for_answer(grant.offset, options.timeout_s)
        say(f"{grant.found.master_id} leads epoch {grant.found.epoch} and answers")
        replay(access, fold, grant.offset)  # Up to the end of the old leader's term.
        before, wanted = live_attempts(fold), set(fold.master.resource_manager.task_managers)
        reported = _wait_for_reports(watch, grant.found, wanted)
        returned = _wait_for_return(options, leader.master_id) if options.step is DrillStepType.FREEZE else None
    say("comparing digests")
    replay(access, fold)
    living = listen_for_masters(access, listen_s=options.listen_s)
    return FailoverReport(
        drill_id=options.drill_id,
        cluster_id=access.cluster_id,
        method=f"{options.step} by {'a command' if options.process_id is None else f'a signal to process {options.process_id}'}",
        old_leader=leader.master_id,
        old_epoch=epoch,
        standbys=situation.standbys,
        new_leader=grant.found.master_id,
        new_epoch=grant.found.epoch,
        granted_ms=ms_between(ended.at_s, grant.no_later_than(answer.came_s).seen_s),
        granted_by_kafka_ms=_ms_by_kafka(ended, grant),
        answered_ms=ms_between(ended.at_s, answer.came_s),
        tasks=disturbance(before, fold),
        reported=len(reported),
        task_managers=len(wanted),
        digests=check_digests(access, living),
        returned=returned,
    )


def _order(options: FailoverOptions, master_id: str) -> Order:
    if options.process_id is not None:
        return SignalOrder(options.process_id, options.step, options.freeze_ms)
    duration_ms = options.freeze_ms if options.step is DrillStepType.FREEZE else 0
    return CommandOrder(options.access, options.drill_id, options.step, master_id, duration_ms, ACTOR)


def _ms_by_kafka(ended: LeadershipEnd, grant: Seen[Grant]) -> int | None:
    return None if ended.timestamp_ms is None else grant.timestamp_ms - ended.timestamp_ms


def _wait_for_reports(watch: DrillWatch, grant: Grant, wanted: set[str]) -> set[str]:
    """Wait until every TaskManager has reported to the new leader, or is gone; return those that have."""
    reported: set[str] = set()
    gone: set[str] = set()

    def find(logged: LoggedDecision) -> bool | None:
        if logged.decision.epoch < grant.epoch:
            return None
        for event in logged.decision.events:
            if isinstance(event, TaskManagerReportReconciled):
                reported.add(event.task_manager_id)
            elif isinstance(event, TaskManagerLost | TaskManagerDisconnected):
                gone.add(event.task_manager_id)
        return True if wanted <= reported | gone else None

    if wanted:
        try:
            watch.wait_for(find, "the TaskManagers' reports", SETTLE_S)
        except DrillFailed as error:
            _logger.warning("ReportsMissing %s", error)
    return reported & wanted


def _wait_for_return(options: FailoverOptions, master_id: str) -> bool:
    """Wait until a master that was frozen speaks again."""
    deadline = time.monotonic() + options.freeze_ms / 1000 + RETURN_S
    while time.monotonic() < deadline:
        living = listen_for_masters(options.access, listen_s=options.listen_s)
        if any(m.master_id == master_id and m.presence.role is Role.STANDBY for m in living):
            return True
    return False
