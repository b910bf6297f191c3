"""Notifications on a real cluster: a receiver that is away for a while, and the process killed in the middle, cost none of them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.graphs import idle_graph
from eventflink.log.group_offset import GroupOffset
from eventflink.notify.notifier import group_of
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


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path) as running:
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

    printed = cluster.start("dry run", "notify", str(document), "--dry-run", "--since", "0", "--job", "job-3")
    assert printed.wait(TIMEOUT_S) == 0
    lines = [json.loads(line) for line in cluster.output("dry run").splitlines() if line.startswith("{")]
    of_one = {key: each for key, each in receiver.documents.items() if "job-3" in json.dumps(each)}
    assert {each["key"]: each["document"] for each in lines} == of_one
