"""One contract for every election, with real masters on a real broker: with any of them one leads, any leader is followed, the log fences.

The masters of one election serve all its tests: each begins with a leader and a standby, and leaves them behind.
"""

import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from benchmarks.graphs import idle_graph
from benchmarks.simulated_tasks import read_journal
from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import MasterPresence
from eventflink.events.log_events import LeadershipGranted
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.fold import Fold
from eventflink.log.administration import delete_topics
from eventflink.log.clients import consumer_settings
from eventflink.log.replay import log_bounds, new_fold, read_log
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import ExecutionState, JobStatus, Role
from tests.support.running_cluster import TIMEOUT_S, RunningCluster, wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.slow
SUPPORT = Path(__file__).parents[1] / "support"
FACTORY = "file_election:FileElection"
LEASE_MS = 2_000
SESSION_MS = 3_000
LONG_TASKS = 2


@dataclass(slots=True)
class Elected:
    """A cluster of two masters, a job whose tasks run all the time, and the ZooKeeper that elects, if one does."""

    kind: str
    running: RunningCluster
    long_job: str
    zookeeper: ZooKeeper | None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(3))

    # -- what the log says ----------------------------------------------------------------------------------------

    def leaders(self) -> dict[int, str]:
        """Return the master of each epoch; no accepted decision may be of another one."""
        fold, masters, leader_ids = new_fold(self.running.access), dict[int, str](), dict[int, str]()
        _, end = log_bounds(self.running.access)
        for offset, timestamp_ms, value in read_log(self.running.access, 0, end):
            decision = fold.fold_record(offset, timestamp_ms, value)
            if decision is None:
                continue
            if isinstance(grant := decision.events[0], LeadershipGranted):
                assert decision.epoch not in masters
                masters[decision.epoch] = grant.master_id
            assert leader_ids.setdefault(decision.epoch, decision.leader_id) == decision.leader_id
        assert list(masters) == list(range(1, len(masters) + 1))
        return masters

    def pair(self) -> tuple[int, str, str]:
        """Return the epoch, who leads, and who stands by."""
        epoch, leader = max(self.leaders().items())
        (standby,) = self.running.masters & self.running.processes.keys() - {leader}
        return epoch, leader, standby

    def wait_for_next(self, epoch: int) -> str:
        """Wait until a later epoch decides something, and return who was granted the first one after `epoch`."""

        def decided(fold: Fold) -> bool:
            return fold.acceptance.epoch > epoch and fold.acceptance.sequence > 0

        self.running.wait_for(decided, f"a leader after epoch {epoch}")
        return self.leaders()[epoch + 1]

    # -- what the masters say --------------------------------------------------------------------------------------

    def roles(self) -> dict[str, Role]:
        """Return what each master that lives says of itself from now on."""
        alive = self.running.masters & self.running.processes.keys()
        codec, consumer = PayloadCodec("LeadershipEnvelope"), Consumer(consumer_settings(self.running.access.kafka))
        said: dict[str, Role] = {}
        try:
            consumer.assign([TopicPartition(topic_name(self.running.cluster_id, Topic.LEADERSHIP), 0, OFFSET_END)])
            deadline = time.monotonic() + TIMEOUT_S
            while not alive <= said.keys():
                assert time.monotonic() < deadline, f"only {sorted(said)} of {sorted(alive)} said that they are there"
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    payload, _ = codec.decode(message.value())
                    if isinstance(payload, MasterPresence):
                        said[payload.master_id] = payload.role
        finally:
            consumer.close()
        return {name: said[name] for name in alive}

    def wait_until_one_leads(self) -> str:
        """Wait until one master says that it leads and the other that it stands by, and that is what the log says."""

        def settled() -> str:
            roles = self.roles()
            leading = [name for name, role in roles.items() if role is Role.LEADER]
            followed = [name for name, role in roles.items() if role is Role.STANDBY]
            return leading[0] if len(leading) == 1 == len(followed) and leading[0] == self.pair()[1] else ""

        return str(wait_until(settled, "exactly one leads"))

    # -- what has to be so afterwards -------------------------------------------------------------------------------

    def check_goes_on(self) -> None:
        """A job that is submitted now ends, and the tasks that run all the time noticed nothing."""
        job_id = self.running.submit(idle_graph(run_time_ms=0))
        self.running.wait_for_status(job_id, JobStatus.FINISHED)
        subtasks = list(self.running.job(self.long_job).execution_graph.subtasks())
        assert [(s.state, s.attempt) for s in subtasks] == [(ExecutionState.RUNNING, 1)] * LONG_TASKS
        entries = [entry.what for entry in read_journal(self.running.journal) if entry.attempt.job_id == self.long_job]
        assert entries == ["launched"] * LONG_TASKS

    def start_another(self) -> None:
        """Leave a leader and a standby behind."""
        self.running.start_standby(f"master-{next(self.numbers)}")


@pytest.fixture(scope="module", params=["kafka", "zookeeper", FACTORY])
def elected(request: pytest.FixtureRequest, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elected]:
    kind, directory, name = request.param, tmp_path_factory.mktemp("elected"), f"test-{uuid.uuid4().hex[:12]}"
    overrides = {"high-availability.type": kind, "high-availability.lease-timeout": LEASE_MS}
    zookeeper = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT))
        if kind == "zookeeper":
            zookeeper = ZooKeeper(directory / "zookeeper")
            zookeeper.start()
            overrides["high-availability.zookeeper.quorum"] = zookeeper.address
            overrides["high-availability.zookeeper.session-timeout"] = SESSION_MS
        running = RunningCluster(bootstrap, name, directory, **overrides)
        try:
            running.start_together("master-1", "master-2", host="host")
            long_job = running.submit(idle_graph(parallelism=LONG_TASKS))
            running.wait_for_running(long_job)
            yield Elected(kind, running, long_job, zookeeper)
        finally:
            try:
                running.close()
            finally:
                if zookeeper is not None:
                    zookeeper.stop()
    delete_topics(access_to(bootstrap, name))


def test_exactly_one_leads(elected: Elected) -> None:
    leader = elected.wait_until_one_leads()
    epoch, _, standby = elected.pair()
    time.sleep(2 * LEASE_MS / 1000)
    assert elected.roles() == {leader: Role.LEADER, standby: Role.STANDBY}
    assert elected.running.state().acceptance.epoch == epoch
    elected.check_goes_on()


@pytest.mark.rule("L2")
def test_a_leader_that_is_killed_is_followed_in_the_next_epoch(elected: Elected) -> None:
    epoch, leader, standby = elected.pair()
    elected.running.kill(leader)
    assert elected.wait_for_next(epoch) == standby
    elected.check_goes_on()
    elected.start_another()


def test_a_leader_that_stops_in_order_is_followed_in_the_next_epoch(elected: Elected) -> None:
    epoch, leader, standby = elected.pair()
    assert elected.running.stop(leader) == 0
    assert elected.wait_for_next(epoch) == standby
    elected.check_goes_on()
    elected.start_another()


def test_after_a_leader_was_frozen_for_long_exactly_one_leads(elected: Elected) -> None:
    """An election may keep a frozen leader (the lock of a file does); ours do not, and what it decides late counts for nothing."""
    epoch, leader, standby = elected.pair()
    elected.running.pause(leader)
    if elected.kind == FACTORY:
        time.sleep(2 * SESSION_MS / 1000)
    else:
        assert elected.wait_for_next(epoch) == standby
    elected.running.resume(leader)
    elected.wait_until_one_leads()
    elected.check_goes_on()
    if elected.kind != FACTORY:
        assert elected.leaders()[epoch + 1] == standby


@pytest.mark.parametrize("elected", ["zookeeper"], indirect=True)
def test_without_its_zookeeper_nobody_leads_and_afterwards_one_does(elected: Elected) -> None:
    """Tasks run on meanwhile, and what is submitted waits in Kafka."""
    zookeeper = elected.zookeeper
    assert zookeeper is not None
    elected.wait_until_one_leads()
    epoch, _, _ = elected.pair()
    zookeeper.kill()
    try:
        wait_until(lambda: set(elected.roles().values()) == {Role.STANDBY}, "the leadership ends")
        time.sleep(2 * LEASE_MS / 1000)
        assert max(elected.leaders()) == epoch
    finally:
        zookeeper.start()
    elected.wait_for_next(epoch)
    elected.wait_until_one_leads()
    elected.check_goes_on()


def test_a_single_master_waits_for_no_lease(bootstrap: str, cluster_id: str, tmp_path: Path) -> None:
    """`none`: neither at its first start nor after it was killed; the lease is longer than the test would wait."""
    lease_ms = 600_000
    running = RunningCluster(
        bootstrap, cluster_id, tmp_path, **{"high-availability.type": "none", "high-availability.lease-timeout": lease_ms}
    )
    running.start_master("single")
    running.kill("single")
    running.start("single", "master", **{"jobmanager.id": "single"})
    running.wait_for(lambda fold: fold.acceptance.epoch > 1, "the next epoch")
    running.close()


REFUSING = """
class Refusing:
    election = None
    def __init__(self, configuration, incarnation):
        self.election = self
    def start(self):
        raise ConnectionRefusedError("nobody there")
    def close(self): ...
    heard = granted = never_granted = said = begin = end = advise = may_lead = close
"""


@pytest.mark.parametrize(
    ("factory", "exit_code", "wrong"),
    [
        ("no_such_module_here:Factory", 2, "'no_such_module_here:Factory' cannot be imported"),
        ("refusing_election:Refusing", 4, "high-availability.type refusing_election:Refusing: nobody there"),
    ],
)
def test_a_master_without_an_election_ends_with_one_line_that_says_why(
    bootstrap: str, cluster_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, exit_code: int, wrong: str
) -> None:
    (tmp_path / "refusing_election.py").write_text(REFUSING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    running = RunningCluster(bootstrap, cluster_id, tmp_path, **{"high-availability.type": factory})
    master = running.start("master", "master")
    assert master.wait(TIMEOUT_S) == exit_code
    assert wrong in running.output("master").splitlines()[-1]
