"""What holds for every election among several masters: one set of laws for ours, for ZooKeeper's and for a user's.

The masters here do what `leadership/participant.py` does with the port, and nothing else; the log is one number, the epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from eventflink.entrypoint.factories import ElectionService
from eventflink.events.effects import LeaderHeartbeat, MasterPresence, Resignation
from eventflink.leadership.election import Advice, Election, LogElection
from eventflink.model.configuration import Configuration, load_configuration
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.statuses import Role

STEP_MS = 10
WITHIN_MS = 30_000


@dataclass(slots=True)
class SmallMaster:
    """One process with its election; its name is its incarnation."""

    name: str
    service: ElectionService
    sequence: int = 0
    next_presence_ms: int = 0
    next_heartbeat_ms: int = 0
    takes_part: bool = False
    leads: bool = False

    @property
    def election(self) -> Election:
        return self.service.election

    @property
    def role(self) -> Role:
        return Role.LEADER if self.leads else Role.STANDBY


class SmallCluster:
    """Masters that talk at once and lose nothing."""

    def __init__(self, clock: Callable[[], int], wait: Callable[[], None], lease_ms: int) -> None:
        """Take what tells the time in milliseconds, and what lets a step of it pass."""
        self.lease_ms = lease_ms
        self.clock = clock
        self.wait = wait
        self.masters: dict[str, SmallMaster] = {}
        self.epoch = 0
        self.stuck_since_ms: int | None = None
        """Since when an input waits that the leader does not decide."""

    def add(self, name: str, service: ElectionService) -> None:
        """Start a master, which does not take part yet."""
        service.start()
        self.masters[name] = SmallMaster(name, service)

    def begin(self, name: str) -> None:
        master = self.masters[name]
        master.takes_part = True
        master.election.begin(self.clock())

    def end(self, name: str) -> None:
        """End the term of a master, for whatever reason."""
        master = self.masters[name]
        master.takes_part = master.leads = False
        master.election.end()

    def leave(self, name: str) -> None:
        """Stop a leader in order."""
        resignation = Resignation(self.epoch, name)
        self.end(name)
        for other in self.masters.values():
            other.election.heard(resignation, self.clock())
        self.vanish(name)

    def vanish(self, name: str) -> None:
        """Let a process be gone."""
        self.masters.pop(name).service.close()

    def close(self) -> None:
        for name in list(self.masters):
            self.vanish(name)

    @property
    def leaders(self) -> list[str]:
        return [master.name for master in self.masters.values() if master.leads]

    def run(self, leases: int) -> None:
        """Let so many leases pass."""
        deadline_ms = self.clock() + leases * self.lease_ms
        while self.clock() < deadline_ms:
            self._step()

    def run_until_led(self) -> str:
        """Return the name of the one that leads."""
        deadline_ms = self.clock() + WITHIN_MS
        while not self.leaders:
            assert self.clock() < deadline_ms, f"nobody leads within {WITHIN_MS} ms"
            self._step()
        return self.leaders[0]

    def _step(self) -> None:
        for master in list(self.masters.values()):
            if master.takes_part:
                self._tick(master, self.clock())
        self.wait()

    def _tick(self, master: SmallMaster, now_ms: int) -> None:
        if now_ms >= master.next_presence_ms:
            self._say_present(master, now_ms)
        if not master.leads:
            advice = master.election.advise(self.stuck_since_ms, now_ms)
            if advice is Advice.PROBE:
                self._say_present(master, now_ms)
            elif advice is Advice.CAMPAIGN:
                self._grant(master, now_ms)
        elif not master.election.may_lead():
            self._next_term(master)
        elif now_ms >= master.next_heartbeat_ms:
            master.next_heartbeat_ms = now_ms + self.lease_ms // 10
            self._tell(LeaderHeartbeat(self.epoch, master.name, master.name, "", 0), now_ms)

    def _say_present(self, master: SmallMaster, now_ms: int) -> None:
        master.next_presence_ms = now_ms + self.lease_ms // 2
        master.sequence += 1
        master.election.said(master.sequence, now_ms)
        presence = MasterPresence(
            master_id=master.name,
            incarnation=master.name,
            sequence=master.sequence,
            role=master.role,
            epoch=self.epoch,
            log_offset=0,
            feature_level=FEATURE_LEVEL,
        )
        self._tell(presence, now_ms)

    def _tell(self, payload: LeaderHeartbeat | MasterPresence, now_ms: int) -> None:
        for master in self.masters.values():
            if master.takes_part:
                if isinstance(payload, MasterPresence) and isinstance(master.election, LogElection):
                    master.election.peers.hear(payload, now_ms)
                master.election.heard(payload, now_ms)

    def _grant(self, winner: SmallMaster, now_ms: int) -> None:
        """Accept a grant, as the log does: it deposes the leader before."""
        self.epoch += 1
        self.stuck_since_ms = None
        deposed = [master for master in self.masters.values() if master.leads]
        winner.leads = True
        for master in self.masters.values():
            if master.takes_part:
                master.election.granted(self.epoch, now_ms)
        for master in deposed:
            self._next_term(master)

    def _next_term(self, master: SmallMaster) -> None:
        self.end(master.name)
        self.begin(master.name)


def configuration_of(name: str, **overrides: object) -> Configuration:
    """Return the configuration of a master with this id."""
    values = {"jobmanager.id": name, **overrides}
    return load_configuration(None, {key: str(value) for key, value in values.items()})


class ElectionLaws:
    """The laws; a subclass gives the fixture `cluster`, of masters `a` and `b` that do not take part yet."""

    @pytest.fixture
    def led(self, cluster: SmallCluster) -> tuple[str, str]:
        """Let both take part; return who leads, and who stands by."""
        cluster.begin("a")
        cluster.begin("b")
        leader = cluster.run_until_led()
        return leader, "b" if leader == "a" else "a"

    def test_while_one_leads_no_other_is_told_to_campaign(self, cluster: SmallCluster, led: tuple[str, str]) -> None:
        epoch = cluster.epoch
        cluster.run(leases=3)
        assert (cluster.leaders, cluster.epoch) == ([led[0]], epoch)

    def test_a_leader_that_leaves_in_order_is_followed(self, cluster: SmallCluster, led: tuple[str, str]) -> None:
        cluster.leave(led[0])
        assert cluster.run_until_led() == led[1]

    def test_a_leader_that_is_gone_is_followed(self, cluster: SmallCluster, led: tuple[str, str]) -> None:
        cluster.vanish(led[0])
        assert cluster.run_until_led() == led[1]

    def test_a_leader_whose_term_ended_holds_back_nobody(self, cluster: SmallCluster, led: tuple[str, str]) -> None:
        """It lives, and reaches the election service, but not the log."""
        cluster.end(led[0])
        assert cluster.run_until_led() == led[1]
        epoch = cluster.epoch
        cluster.begin(led[0])
        cluster.run(leases=2)
        assert (cluster.leaders, cluster.epoch) == ([led[1]], epoch)

    def test_whoever_lost_a_leadership_can_win_another(self, cluster: SmallCluster, led: tuple[str, str]) -> None:
        cluster.end(led[0])
        cluster.run_until_led()
        cluster.begin(led[0])
        cluster.run(leases=1)
        cluster.vanish(led[1])
        assert cluster.run_until_led() == led[0]

    def test_a_single_master_leads_again_after_its_leadership_ended(self, cluster: SmallCluster) -> None:
        cluster.begin("a")
        cluster.run_until_led()
        cluster.end("a")
        cluster.begin("a")
        assert cluster.run_until_led() == "a"
        assert cluster.epoch >= 2

    def test_a_leader_that_everybody_hears_is_not_taken_the_leadership(self, cluster: SmallCluster, led: tuple[str, str]) -> None:
        cluster.run(leases=2)
        assert cluster.masters[led[0]].election.may_lead()


class StuckLaws:
    """A law of the elections that mind a leader which lives but does not decide."""

    def test_a_leader_that_lets_an_input_wait_is_replaced(self, cluster: SmallCluster) -> None:
        cluster.begin("a")
        cluster.begin("b")
        leader = cluster.run_until_led()
        epoch = cluster.epoch
        cluster.stuck_since_ms = cluster.clock()
        cluster.run(leases=1)
        assert cluster.epoch == epoch  # A short wait is no reason.
        cluster.run(leases=10)
        assert cluster.epoch == epoch + 1
        assert cluster.leaders == ["b" if leader == "a" else "a"]
