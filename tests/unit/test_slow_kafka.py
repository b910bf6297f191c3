"""On a busy machine a broker that has just started answers late: nobody who started it gives up for that."""

from pathlib import Path
from typing import Any

import pytest

from eventflink.cli import local_cluster
from eventflink.cli.local_cluster import LocalCluster
from eventflink.cli.session import Session
from eventflink.events.effects import LeaderHeartbeat
from eventflink.gateways import leader
from eventflink.gateways.errors import ClusterUnreachable, NoLeader
from eventflink.gateways.leader import LeaderWatch, listen_for_leader
from eventflink.gateways.steps import ListenForLeader
from eventflink.model.cluster_access import access_to

HEARTBEAT = LeaderHeartbeat(1, "leader-1", "master", "blobs:1", 0)


def test_a_local_cluster_waits_for_its_leader_though_kafka_does_not_answer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster(Session(None, {"data.directory": str(tmp_path)}, verbose=False), 0, lambda _: None)
    answers: list[Any] = [ClusterUnreachable("no answer"), NoLeader("nobody"), HEARTBEAT] * 2

    def find(*_: object, **__: object) -> LeaderHeartbeat:
        answer: LeaderHeartbeat | Exception = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(local_cluster, "find_leader", find)
    monkeypatch.setattr(cluster._children, "start", lambda *_: None)
    cluster._start_master()
    assert cluster.leader is HEARTBEAT
    cluster.leader = None
    assert cluster.await_leader(HEARTBEAT.master_id) is HEARTBEAT


def test_a_look_for_the_leader_has_as_long_for_the_end_of_the_topic_as_for_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    class Reader:
        """A reader of a Kafka that took all the time of the look to connect."""

        def __init__(self, *_: object, connect_timeout_s: float) -> None:
            asked.append((connect_timeout_s,))

        def offsets(self, *arguments: object) -> tuple[int, int]:
            asked.append(arguments)
            return 0, 0

        def seek(self, *_: object) -> None:
            pass

        def read(self, _timeout_s: float) -> list[object]:
            return []

        def close(self) -> None:
            pass

    monkeypatch.setattr(leader, "PartitionReader", Reader)
    assert listen_for_leader(access_to("kafka:1", "c"), ListenForLeader(0.01, LeaderWatch())) is None
    assert asked == [(0.01,), (0,)]
