"""Kafka itself goes away and comes back: restarted, or frozen for longer than the lease. Nothing accepted is lost or done twice."""

import json
import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.log.group_offset import GroupOffset
from eventflink.notify.notifier import group_of
from tests.support.burst import Burst
from tests.support.running_cluster import RunningCluster, wait_until

pytestmark = pytest.mark.slow
LEASE_S = 2.0

# Tasks are to survive what is tested here, however long a broker takes to start on a busy machine; and one that has just started is slow.
PATIENT = {
    "heartbeat.missed-beats": 120,
    "taskmanager.self-fence-timeout": 100_000,
    "high-availability.lease-timeout": round(LEASE_S * 1000),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that no other test uses, and that keeps its port when it is started again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with EmbeddedBroker(tmp_path / "broker", port) as running:
        yield running


@pytest.fixture
def cluster(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[RunningCluster]:
    running = RunningCluster(broker.bootstrap_servers, f"test-{uuid.uuid4().hex[:12]}", tmp_path, **PATIENT)
    running.start_together("first", "second", host="host")
    yield running
    running.close()


def test_a_restarted_broker_finds_its_cluster_as_it_was(cluster: RunningCluster, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The same data directory, the same port; masters, TaskExecutors, clients and who tells others stay, and find it again."""
    document, told = tmp_path / "notify.yaml", tmp_path / "told"
    rule = {"events": ["job-finished"], "receivers": ["file"]}
    document.write_text(json.dumps({"receivers": {"file": {"type": "file", "path": str(told)}}, "rules": {"finished": rule}}))
    cluster.start("notify", "notify", str(document))
    with closing(GroupOffset(cluster.access, group_of(cluster.cluster_id, "file"))) as place:
        wait_until(lambda: place.read() is not None, "it has a place in the log")
    with Burst(cluster) as burst:
        broker.stop()
        broker.start()
        burst.wait_for_jobs(40)
    ended = set(cluster.state().master.dispatcher.ended)
    wait_until(lambda: ended <= {json.loads(line)["job"]["job_id"] for line in told.open()}, "all ends are told")
    for name in ("first", "second", "notify"):
        assert cluster.processes[name].poll() is None, cluster.output(name)


def test_a_broker_that_is_unreachable_for_longer_than_the_lease_loses_nothing(cluster: RunningCluster, broker: EmbeddedBroker) -> None:
    """Nobody can be leader meanwhile, and somebody is afterwards."""
    process_id = broker.process_id
    assert process_id is not None
    with Burst(cluster) as burst:
        for _ in range(2):
            os.kill(process_id, signal.SIGSTOP)
            time.sleep(2.5 * LEASE_S)
            os.kill(process_id, signal.SIGCONT)
            burst.wait_for_jobs(40)
    for name in ("first", "second"):
        assert cluster.processes[name].poll() is None, cluster.output(name)
