"""Notifications on a real cluster: receivers that are away, a process that is killed, a bound that is reached cost none of them."""

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from benchmarks.graphs import idle_graph
from eventflink.audit.filters import LogPlace, Range
from eventflink.events.topics import Topic, topic_name
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.group_offset import GroupOffset
from eventflink.log.pulled_partition import PulledPartition
from eventflink.log.replay import read_to
from eventflink.model.statuses import JobStatus
from eventflink.notify import courier, notifier
from eventflink.notify.document import HappeningType, NotificationDocument
from eventflink.notify.notification import Notification
from eventflink.notify.notifier import ReceiverAway, _begin, _follow_from, group_of, notifications_of, send_again
from eventflink.snapshots.loading import find_oldest_snapshot
from tests.support.openlineage import read_run_event
from tests.support.ports import find_free_ports
from tests.support.running_cluster import TIMEOUT_S, RunningCluster, running_cluster, wait_until

JOBS = 6


class Receiver(ThreadingHTTPServer):
    """Keeps the keys of what it was sent, and the documents by key; it is slow, so that one who is killed has something left."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        self.keys: list[str] = []
        self.documents: dict[str, Any] = {}
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        key = self.headers["Idempotency-Key"]
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.server.documents.setdefault(key, document) == document
        self.server.keys.append(key)
        threading.Event().wait(0.05)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def key_of(document: dict[str, Any]) -> str:
    """Return the key of an alert, or of a run event."""
    return str(document["run"]["facets"]["eventflinkRun"]["key"] if "run" in document else document["key"])


@contextmanager
def receiving(port: int) -> Iterator[Receiver]:
    server = Receiver(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster that takes a snapshot every few records."""
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **{"snapshots.interval-records": 10}) as running:
        running.start_master()
        running.start_host("host")
        yield running


def test_each_is_sent_at_least_once_with_the_same_key_though_the_receiver_was_away_and_the_process_killed(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    [port] = find_free_ports(1)
    document, near = tmp_path / "notify.yaml", tmp_path / "near"
    receivers = {"web": {"type": "http", "url": f"http://127.0.0.1:{port}/"}, "near": {"type": "file", "path": str(near)}}
    rule = {"events": ["job-finished"], "receivers": ["web", "near"]}
    document.write_text(json.dumps({"receivers": receivers, "lineage": {"receivers": ["web", "near"]}, "rules": {"ended": rule}}))
    cluster.start("first", "notify", str(document))
    progress = GroupOffset(cluster.access, group_of(cluster.cluster_id, "web"))
    wait_until(lambda: progress.read() is not None, "the receiver has a place")

    for number in range(JOBS):
        cluster.submit(idle_graph(0), f"job-{number}")
    expected = JOBS * 5  # An alert, and two run events of the job and two of its vertex.
    wait_until(lambda: near.is_file() and len(near.read_text().splitlines()) == expected, "the one that is there gets all")

    with receiving(port) as receiver:
        wait_until(lambda: len(receiver.keys) >= 3, "the one that was away gets some")
        cluster.kill("first")
        assert len(receiver.documents) < expected
        cluster.start("second", "notify", str(document))
        wait_until(lambda: len(receiver.documents) == expected, "it gets all")
        end = cluster.state().last_offset + 1
        wait_until(lambda: (progress.read() or 0) >= end, "its place is committed")
    progress.close()
    assert cluster.stop("second") == 0
    runs = [each for each in receiver.documents.values() if "eventType" in each]
    assert len([read_run_event(each) for each in runs]) == JOBS * 4
    assert {key_of(json.loads(line)) for line in near.open()} == receiver.documents.keys()

    printed = cluster.start("dry run", "notify", str(document), "--dry-run", "--from", "0", "--job", "job-3")
    assert printed.wait(TIMEOUT_S) == 0
    lines = [json.loads(line) for line in cluster.output("dry run").splitlines() if line.startswith("{")]
    of_one = {key: each for key, each in receiver.documents.items() if "job-3" in json.dumps(each)}
    assert {each["key"]: each["document"] for each in lines} == of_one


def is_past(place: GroupOffset, offset: int) -> bool:
    """Tell whether a receiver has taken what the record at an offset says."""
    return (place.read() or 0) > offset


def test_a_new_receiver_is_told_what_was_so_before_it_came_and_once_though_the_process_starts_again(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    document, told = tmp_path / "notify.yaml", tmp_path / "told"
    rule = {"events": ["job-finished"], "receivers": ["late"], "more_than": 1, "within": "1d"}
    document.write_text(json.dumps({"receivers": {"late": {"type": "file", "path": str(told)}}, "rules": {"many": rule}}))
    for number in range(3):
        cluster.submit(idle_graph(0), f"before-{number}")
        cluster.wait_for_status(f"before-{number}", JobStatus.FINISHED)
    with closing(GroupOffset(cluster.access, group_of(cluster.cluster_id, "late"))) as place:
        for name in ("new", "again"):
            cluster.start(name, "notify", str(document))
            wait_until(lambda: place.read() is not None, "the receiver has a place")
            cluster.submit(idle_graph(0), name)
            cluster.wait_for_status(name, JobStatus.FINISHED)
            wait_until(partial(is_past, place, cluster.state().last_offset), "its place is committed")
            assert cluster.stop(name) == 0
            assert [json.loads(line)["job"]["job_id"] for line in told.open()] == ["new"]


def test_the_first_place_of_a_receiver_stays_beside_its_place(cluster: RunningCluster) -> None:
    group = group_of(cluster.cluster_id, "placed")
    for expected in ((None, None), (3, 3), (5, 3)):
        with closing(GroupOffset(cluster.access, group)) as place:
            assert (place.read(), place.first_offset) == expected
            if place.first_offset is None:
                place.begin(3)
            else:
                place.commit(5)


@pytest.fixture
def everything(tmp_path: Path, cluster: RunningCluster) -> NotificationDocument:
    """A document that has a topic and a file told everything."""
    topic = f"{cluster.cluster_id}.alerts"
    receivers = {"topic": {"type": "kafka", "topic": topic}, "file": {"type": "file", "path": str(tmp_path / "file")}}
    names = list(receivers)
    rule = {"events": [str(each) for each in HappeningType], "receivers": names, "repeat_after": "0s"}
    return NotificationDocument.model_validate({"receivers": receivers, "lineage": {"receivers": names}, "rules": {"all": rule}})


def test_a_part_of_the_log_is_sent_again_to_a_topic_and_a_file_with_the_same_keys_in_order(
    cluster: RunningCluster, everything: NotificationDocument, tmp_path: Path
) -> None:
    end = cluster.state().last_offset
    part = Range(LogPlace(offset=end // 2), LogPlace(offset=end))
    AdminConnection(cluster.access.kafka).create_topics([NewTopic(f"{cluster.cluster_id}.alerts", 1, 1)])
    expected = [each.key for each in notifications_of(cluster.access, everything, part)]
    assert expected
    assert send_again(cluster.access, everything, part) == len(expected)
    assert [key_of(json.loads(line)) for line in (tmp_path / "file").open()] == expected
    with PulledPartition(cluster.access.kafka, f"{cluster.cluster_id}.alerts") as topic:
        topic.seek(0)
        records = list(read_to(topic, topic.bounds(10)[1]))
    assert [(record.key() or b"").decode() for record in records] == expected
    assert [key_of(json.loads(record.value() or b"")) for record in records] == expected
    whole = notifications_of(cluster.access, everything, Range())
    assert [each.key for each in whole if end // 2 <= each.log_offset <= end] == expected


@pytest.mark.parametrize("most_waiting", [1, 10_000])
def test_a_receiver_that_stays_away_ends_the_sending_which_says_where_to_go_on(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch, most_waiting: int
) -> None:
    monkeypatch.setattr(notifier, "AWAY_LIMIT_S", 0.5)
    monkeypatch.setattr(courier, "MOST_WAITING", most_waiting)
    [port] = find_free_ports(1)
    receivers = {"web": {"type": "http", "url": f"http://127.0.0.1:{port}/"}}
    rule = {"events": ["leader-changed", "job-finished"], "receivers": ["web"]}
    document = NotificationDocument.model_validate({"receivers": receivers, "rules": {"all": rule}})
    first, *_ = notifications_of(cluster.access, document, Range())
    with pytest.raises(ReceiverAway, match=rf"'web' has taken nothing for 0.5 s: .*--from {first.log_offset}$"):
        send_again(cluster.access, document, Range())


def test_a_translation_begins_at_the_newest_snapshot_that_is_so_far_back_as_rules_look(
    cluster: RunningCluster, everything: NotificationDocument
) -> None:
    end = cluster.wait_for(lambda fold: fold.master.upkeep.snapshots and fold.last_offset, "a snapshot")
    near, far = (_begin(cluster.access, document, LogPlace(offset=end)) for document in (everything, looking_back(everything)))
    assert 0 <= near.fold.last_offset < end
    assert far.fold.last_offset == -1


def looking_back(document: NotificationDocument) -> NotificationDocument:
    """Return the document with rules that look back for a day."""
    return document.model_copy(update={"rules": {"all": document.rules["all"].model_copy(update={"repeat_after": 86_400_000})}})


def test_what_there_was_no_room_for_is_read_from_the_log_again(
    cluster: RunningCluster, everything: NotificationDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "MOST_WAITING", 2)
    expected = [each.key for each in notifications_of(cluster.access, everything, Range())]
    taken: list[str] = []
    is_open = threading.Event()

    def send(each: Notification) -> None:
        is_open.wait(TIMEOUT_S)
        taken.append(each.key)

    carrying = courier.Courier("file", send, 0)
    carrying.start()
    rounds = itertools.count()

    class Done(Exception):
        """All was taken."""

    def check() -> None:
        if carrying.is_behind:
            is_open.set()
        if len(taken) >= len(expected) and carrying.is_idle:
            raise Done

    try:
        while next(rounds) < len(expected):
            _follow_from(cluster.access, everything, [carrying], check)
    except Done:
        pass
    finally:
        carrying.end()
    assert taken[: len(expected)] == expected  # On loaded cores another leader may be told of meanwhile.
    assert next(rounds) > 1


def test_of_a_log_that_was_trimmed_is_told_what_is_left(cluster: RunningCluster, everything: NotificationDocument) -> None:
    cluster.state()  # Whoever has read the log follows it further.
    oldest = find_oldest_snapshot(cluster.access)
    assert oldest is not None
    kept_from = oldest.manifest.log_offset + 1
    AdminConnection(cluster.access.kafka).delete_records(topic_name(cluster.cluster_id, Topic.LOG), 0, kept_from)
    assert _begin(cluster.access, looking_back(everything), LogPlace(offset=1)).fold.last_offset == oldest.manifest.log_offset
    cluster.submit(idle_graph(0), "later")
    cluster.wait_for_status("later", JobStatus.FINISHED)
    told = list(notifications_of(cluster.access, looking_back(everything), Range()))
    assert [each.document.get("eventType", each.document.get("event")) for each in told if each.job_id == "later"] == [
        "START",
        "START",
        "COMPLETE",
        "COMPLETE",
        "job-finished",
    ]
    assert min(each.log_offset for each in told) >= kept_from
