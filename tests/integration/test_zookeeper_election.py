"""The election by ZooKeeper, with a real ZooKeeper: the laws of all elections, and what happens when its server or a master is ill."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from eventflink.entrypoint import zookeeper_election
from eventflink.entrypoint.factories import create_election
from eventflink.entrypoint.zookeeper_election import ZooKeeperElection
from eventflink.leadership.election import Peers
from tests.support.election_laws import STEP_MS, WITHIN_MS, ElectionLaws, SmallCluster, SmallMaster, StuckLaws, configuration_of
from tests.support.running_cluster import wait_until
from tests.support.zookeeper import ZooKeeper

LEASE_MS = 100
SESSION_MS = 60_000
"""Longer than anything is waited for here: what is given back is given back by the master."""

SHORT_SESSION_MS = 1_000


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _service(zookeeper: ZooKeeper, name: str, cluster_id: str, session_ms: int = SESSION_MS) -> ZooKeeperElection:
    overrides = {
        "cluster.id": cluster_id,
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": zookeeper.address,
        "high-availability.zookeeper.session-timeout": session_ms,
        "high-availability.lease-timeout": LEASE_MS,
    }
    service = create_election(configuration_of(name, **overrides), name, Peers(LEASE_MS))
    assert isinstance(service, ZooKeeperElection)
    return service


def _cluster(zookeeper: ZooKeeper, cluster_id: str, session_ms: int = SESSION_MS) -> Iterator[SmallCluster]:
    cluster = SmallCluster(_monotonic_ms, lambda: time.sleep(STEP_MS / 1000), LEASE_MS)
    for name in ("a", "b"):
        cluster.add(name, _service(zookeeper, name, cluster_id, session_ms))
    yield cluster
    cluster.close()


class TestElectionByZooKeeper(ElectionLaws, StuckLaws):
    """`zookeeper`."""

    @pytest.fixture
    def cluster(self, zookeeper: ZooKeeper, request: pytest.FixtureRequest) -> Iterator[SmallCluster]:
        yield from _cluster(zookeeper, request.node.name.replace("_", "-"))

    def test_a_server_that_is_killed_takes_the_leadership_and_gives_it_again(self, cluster: SmallCluster, zookeeper: ZooKeeper) -> None:
        cluster.begin("a")
        cluster.begin("b")
        leader = cluster.masters[cluster.run_until_led()]
        epoch = cluster.epoch
        zookeeper.kill()
        try:
            wait_until(lambda: not leader.election.may_lead(), "the leadership is doubtful")
            cluster.run(leases=5)
            assert (cluster.leaders, cluster.epoch) == ([], epoch)
        finally:
            zookeeper.start()
        cluster.run_until_led()
        cluster.run(leases=5)
        assert len(cluster.leaders) == 1

    def test_a_server_that_takes_connections_and_says_nothing_is_given_up(self, cluster: SmallCluster, zookeeper: ZooKeeper) -> None:
        """A server that starts does that now and then; the session that waits for its answer may own the first node."""
        cluster.begin("a")
        cluster.begin("b")
        cluster.run_until_led()
        zookeeper.kill()
        silent: list[socket.socket] = []
        try:
            with socket.create_server(("127.0.0.1", zookeeper.port)) as listener:
                listener.settimeout(WITHIN_MS / 1000)
                silent += [listener.accept()[0] for _ in range(2)]
            cluster.run(leases=1)
            assert cluster.leaders == []
            zookeeper.start()
            cluster.run_until_led()
        finally:
            for connection in silent:
                connection.close()

    def test_a_leader_whose_node_an_operator_removed_is_followed(self, cluster: SmallCluster, zookeeper: ZooKeeper) -> None:
        cluster.begin("a")
        cluster.run_until_led()
        cluster.begin("b")
        cluster.run(leases=2)
        client = KazooClient(zookeeper.address)
        client.start()
        try:
            path = "/eventflink/test-a-leader-whose-node-an-operator-removed-is-followed/election"
            nodes = sorted(client.get_children(path), key=lambda node: node[-10:])
            assert [client.get(f"{path}/{node}")[0] for node in nodes] == [b"a", b"b"]  # Whoever looks sees who stands where.
            client.delete(f"{path}/{nodes[0]}")
            wait_until(cluster.masters["b"].election.may_lead, "b is the first")
        finally:
            client.stop()
            client.close()
        cluster.run(leases=2)
        assert cluster.leaders == ["b"]

    def test_what_was_held_on_a_connection_that_broke_is_held_no_more(self, cluster: SmallCluster) -> None:
        """The session may be lost at the server already: the nodes have to be read again."""
        cluster.begin("a")
        leader = cluster.masters[cluster.run_until_led()]
        held = _watch_connection(leader)
        _kazoo(leader)._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: len(held) >= 2, "the connection was lost and made again")
        assert held[0] == (KazooState.SUSPENDED, False)
        cluster.run(leases=5)
        cluster.run_until_led()

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_client_that_gave_up_is_replaced(self, cluster: SmallCluster) -> None:
        """What kazoo does not expect ends its thread, and that client never connects again."""
        cluster.begin("a")
        leader = cluster.masters[cluster.run_until_led()]
        held = _watch_connection(leader)
        client = _kazoo(leader)

        def fail(_timeout_s: float) -> None:
            raise RuntimeError("not expected")

        client._connection._read_socket = fail
        client.sync_async("/")  # There will be an answer to read.
        wait_until(lambda: held, "the client gave up")
        assert held == [(KazooState.LOST, False)]
        cluster.run(leases=5)
        cluster.run_until_led()


def _kazoo(master: SmallMaster) -> KazooClient:
    assert isinstance(master.service, ZooKeeperElection)
    return master.service._client


def _watch_connection(master: SmallMaster) -> list[tuple[str, bool]]:
    """Return a list that gets each later state of the connection, with whether the leadership is held once the election knows it."""
    service, client = master.service, _kazoo(master)
    assert isinstance(service, ZooKeeperElection)
    seen: list[tuple[str, bool]] = []

    def note(state: str) -> None:
        service._on_connection(state)
        seen.append((state, service.may_lead()))

    client.remove_listener(service._on_connection)  # Listeners are called in no order.
    client.add_listener(note)
    return seen


def test_a_master_that_hangs_gives_its_place_back_though_its_session_lives(zookeeper: ZooKeeper) -> None:
    """Its threads that speak to ZooKeeper continue; the loop that decides does not."""
    for cluster in _cluster(zookeeper, "hanging", SHORT_SESSION_MS):
        cluster.begin("a")
        cluster.begin("b")
        leader = cluster.masters[cluster.run_until_led()]
        leader.takes_part = leader.leads = False  # Nothing is asked any more, and nobody said that the term is over.
        follower = cluster.run_until_led()
        assert follower != leader.name
        leader.takes_part = leader.leads = True
        cluster.run(leases=5)
        assert cluster.leaders == [follower]


def test_a_zookeeper_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zookeeper_election, "CONNECT_TIMEOUT_S", 0.5)
    nobody = ZooKeeper(tmp_path)  # A port at which nobody listens.
    service = _service(nobody, "a", "unreachable")
    with pytest.raises(TimeoutError, match=f"no ZooKeeper answered at {nobody.address}"):
        service.start()
    service.close()
