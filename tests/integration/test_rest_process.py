"""The REST process on a real cluster: it follows the log through the loss of the leader, and ends in order."""

import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from eventflink.cli.job_waiting import wait_for_end_after
from eventflink.cli.session import Session
from eventflink.events.log_events import JobCancellationRequested, RequestRepeated
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.log.administration import trim_log
from eventflink.model.statuses import JobStatus
from eventflink.rest.access.guard import NOBODY
from eventflink.rest.access.identity import AccessRole
from eventflink.snapshots.snapshotter import take
from eventflink.snapshots.topic import list_snapshots
from tests.support.rest_tokens import tokens_of_three
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.tls_files import Certificates

NO_SLOT = {"id": "only", "sql": "SELECT 1"}


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path) as running:
        running.start_master("master-1")
        yield running


@pytest.fixture(scope="module")
def unharmed(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster for tests that kill nothing and leave its log whole."""
    with running_cluster(bootstrap, tmp_path_factory.mktemp("unharmed")) as running:
        running.start_master("master-1")
        yield running


def get(url: str, min_offset: int = -1, tls: ssl.SSLContext | None = None, **headers: str) -> tuple[int, int, Any]:
    """Return status, offset and document of an answer."""
    request = urllib.request.Request(url, headers={"X-Eventflink-Min-Offset": str(min_offset), **headers})
    try:
        with urllib.request.urlopen(request, timeout=120, context=tls) as answer:
            return answer.status, int(answer.headers.get("X-Eventflink-Offset", "-1")), json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, -1, json.load(error)


def next_frame(changes: Any) -> Any:
    """Return the data of the next event of a stream of changes."""
    return json.loads(next(line for line in changes if line.startswith(b"data: ")).removeprefix(b"data: "))


def test_what_was_accepted_is_read_at_its_offset_and_through_the_loss_of_the_leader(cluster: RunningCluster) -> None:
    url = cluster.start_rest()
    first = cluster.submit(cluster.graph(NO_SLOT))
    end = cluster.state().last_offset
    status, offset, answer = get(f"{url}/jobs", end)
    assert (status, offset >= end) == (200, True)
    assert answer == {"jobs": [{"id": first, "status": JobStatus.RUNNING}]}
    cluster.start_standby("master-2")
    wait_until(
        lambda: sorted(each["ready"] for each in get(f"{url}/eventflink/v1/masters/present")[2]["masters"]) == [False, True], "a standby"
    )
    cluster.kill("master-1")
    assert get(f"{url}/v1/jobs")[2] == answer
    with urllib.request.urlopen(f"{url}/eventflink/v1/changes", timeout=120) as changes:
        stands_at = next_frame(changes)
        second = cluster.submit(cluster.graph(NO_SLOT))
        seen = stands_at
        while second not in seen["jobs"]:
            seen = next_frame(changes)
        assert (seen["epoch"] > 1, seen["master_id"], seen["offset"] > offset) == (True, "master-2", True)
    _, _, overview = get(f"{url}/jobs/overview", cluster.state().last_offset)
    assert [(row["jid"], row["state"]) for row in overview["jobs"]] == [(first, "RUNNING"), (second, "RUNNING")]
    assert cluster.stop("rest") == 0


def history_of(rest: subprocess.Popen[bytes]) -> psutil.Process | None:
    """Return the process that holds the past of a REST process."""
    children = psutil.Process(rest.pid).children()
    return next((each for each in children if "eventflink.reader.past.worker" in each.cmdline()), None)


def page_of(url: str, offset: int) -> Any:
    """Return the page of the cluster at an offset, once the past is known up to there."""

    def ask() -> Any:
        status, _, document = get(f"{url}/eventflink/v1/cluster?at={offset}")
        assert status in (200, 503), document
        return document if status == HTTPStatus.OK else None

    return wait_until(ask, f"the page at {offset}")


def known_until(url: str, offset: int) -> Any:
    """Return the bounds of the log if the past is known up to an offset."""
    bounds = get(f"{url}/eventflink/v1/log/bounds")[2]["body"]
    return bounds if (bounds["indexed_to"] or 0) >= offset else None


def test_the_past_is_answered_by_a_process_that_is_replaced_when_it_dies_and_dies_with_its_parent(cluster: RunningCluster) -> None:
    url = cluster.start_rest()
    before = cluster.state().last_offset
    job_id = cluster.submit(cluster.graph(NO_SLOT))
    cluster.submit(cluster.graph(NO_SLOT))
    end = cluster.state().last_offset
    assert get(f"{url}/eventflink/v1/cluster", end)[2]["body"]["jobs"] == {"RUNNING": 2}
    assert history_of(cluster.processes["rest"]) is None, "nobody has asked about the past"
    assert page_of(url, before)["body"]["jobs"] == {}
    wait_until(lambda: known_until(url, end), "the index")
    event = get(f"{url}/eventflink/v1/log/events?type=JobSubmitted&order=oldest")[2]["body"]["events"][0]
    past, submitted = page_of(url, before), page_of(url, event["offset"])
    assert (past["offset"], past["body"]["jobs"], submitted["body"]["jobs"]) == (before, {}, {"RUNNING": 1})
    assert event["job_id"] == job_id
    history = history_of(cluster.processes["rest"])
    assert history is not None
    assert history.nice() > psutil.Process(cluster.processes["rest"].pid).nice()
    history.kill()
    assert get(f"{url}/eventflink/v1/cluster", end)[2]["body"]["jobs"] == {"RUNNING": 2}
    assert page_of(url, before) == past
    bounds = get(f"{url}/eventflink/v1/log/bounds")[2]["body"]
    assert (bounds["history"]["answers"], bounds["history"]["restarts"]) == (True, 1)
    assert bounds["topic_id"]
    second = history_of(cluster.processes["rest"])
    assert second is not None
    cluster.kill("rest")
    wait_until(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE, "the end of the history")


def test_of_a_trimmed_log_all_is_answered_that_is_left_of_it(cluster: RunningCluster) -> None:
    first = cluster.submit(cluster.graph(NO_SLOT))
    assert take(cluster.access, "master-1", 16) is not None
    [snapshot] = list_snapshots(cluster.access)
    assert snapshot.manifest is not None
    states_from, first_offset = snapshot.manifest.log_offset, snapshot.manifest.log_offset - 1
    assert cluster.state().last_offset >= states_from
    trim_log(cluster.access, first_offset)
    cluster.submit(cluster.graph(NO_SLOT))
    url, end = cluster.start_rest(), cluster.state().last_offset
    assert get(f"{url}/eventflink/v1/cluster", end)[2]["body"]["jobs"] == {"RUNNING": 2}
    assert page_of(url, states_from)["body"]["jobs"] == {"RUNNING": 1}
    bounds = wait_until(lambda: known_until(url, end), "the index")
    assert (bounds["first_offset"], bounds["states_from"]) == (first_offset, states_from)
    assert get(f"{url}/eventflink/v1/log/{first_offset}")[2]["body"]["offset"] == first_offset
    for gone, begins in ((f"cluster?at={first_offset}", states_from), ("cluster?at=0", first_offset), ("log/0", first_offset)):
        assert get(f"{url}/eventflink/v1/{gone}")[::2] == (410, {"errors": [f"history begins at offset {begins}"]})
    events = get(f"{url}/eventflink/v1/log/events?from=0&order=oldest")[2]["body"]["events"]
    assert events[0]["offset"] == first_offset
    # What is trimmed while the process runs it has read, and goes on knowing.
    trim_log(cluster.access, states_from + 1)
    cluster.submit(cluster.graph(NO_SLOT))
    assert get(f"{url}/eventflink/v1/cluster", cluster.state().last_offset)[2]["body"]["jobs"] == {"RUNNING": 3}
    assert get(f"{url}/eventflink/v1/log/{first_offset}")[0] == 200
    # Whoever submits the same job again is told how it ended, though the log has its beginning no more.
    with DispatcherGateway(cluster.access) as gateway:
        accepted = gateway.submit_job(cluster.graph(NO_SLOT), first)
        gateway.cancel_job(first)
    session = Session(None, {"bootstrap.servers": cluster.bootstrap, "cluster.id": cluster.cluster_id}, verbose=False)
    ended = wait_for_end_after(session, accepted, timeout_s=60, began_s=time.monotonic(), quiet=True)
    assert ended.status is JobStatus.CANCELED


def test_a_port_that_is_taken_is_passed_over_or_named(unharmed: RunningCluster) -> None:
    port = int(unharmed.start_rest().rpartition(":")[2])
    process = unharmed.start("other", "rest", **{"rest.bind-port": str(port)})
    assert process.wait(120) == 4
    del unharmed.processes["other"]
    assert unharmed.output("other").strip().splitlines()[-1].endswith(f"rest.bind-port: no port of {port} is free on 127.0.0.1")
    several = unharmed.start("other", "rest", **{"rest.bind-port": f"{port}-{port + 20}"})
    wait_until(lambda: "RestServerStarted" in unharmed.output("other"), "the other REST process")
    assert several.poll() is None


def write_again(cluster: RunningCluster, topic: Topic) -> None:
    """Write the last record of a topic once more, as whoever may read and write it can."""
    name, settings = topic_name(cluster.cluster_id, topic), {"bootstrap.servers": cluster.bootstrap}
    consumer = Consumer({**settings, "group.id": "nobody", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(name, 0))
    consumer.assign([TopicPartition(name, 0, end - 1)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    producer = Producer(settings)
    producer.produce(name, message.value(), message.key())
    assert not producer.flush(30)


@pytest.mark.rule("L6")
def test_off_loopback_who_has_a_token_is_let_in_over_tls_and_stands_in_the_log(unharmed: RunningCluster, tmp_path: Path) -> None:
    tokens, certificates = tokens_of_three(tmp_path), Certificates(tmp_path / "tls")
    protected: dict[str, Any] = {
        "rest.bind-address": "0.0.0.0",
        "rest.address": "localhost",
        "rest.tokens-file": tokens.file,
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.certificate": certificates.server.certificate,
        "security.ssl.rest.key": certificates.server.key,
    }
    url = unharmed.start_rest("protected", **protected)
    assert url.startswith("https://localhost:")
    tls = ssl.create_default_context(cafile=str(certificates.ca))
    job_id = unharmed.submit(unharmed.graph(NO_SLOT))
    end = unharmed.state().last_offset
    assert get(f"{url}/jobs", tls=tls)[::2] == (401, {"errors": [NOBODY]})
    assert get(f"{url}/jobs", end, tls, **tokens.headers(AccessRole.VIEWER))[2] == {"jobs": [{"id": job_id, "status": JobStatus.RUNNING}]}
    cancel = f"{url}/jobs/{job_id}/yarn-cancel"
    says = {"errors": ["this needs the role operator, and vera is viewer"]}
    assert get(cancel, end, tls, **tokens.headers(AccessRole.VIEWER))[::2] == (403, says)
    assert get(cancel, end, tls, **tokens.headers(AccessRole.OPERATOR))[::2] == (202, {})
    [cancelled] = [event for event in unharmed.events_of(job_id) if isinstance(event, JobCancellationRequested)]
    assert cancelled.actor == "oscar", "its token has proven the name, and the secret of the cluster says so to the master"
    write_again(unharmed, Topic.COMMANDS)
    again = unharmed.wait_for(
        lambda _: [decision for _, decision in unharmed.decisions() if any(isinstance(e, RequestRepeated) for e in decision.events)],
        "the copy answered",
    )
    assert [len(decision.events) for decision in again] == [1], "a copy of what is proven changes nothing"
    submission = json.dumps({"document": {"name": "by oscar", "vertices": [NO_SLOT]}}).encode()
    headers = {"Content-Type": "application/json", **tokens.headers(AccessRole.OPERATOR)}
    submit = urllib.request.Request(f"{url}/eventflink/v1/jobs", submission, headers)
    with urllib.request.urlopen(submit, timeout=120, context=tls) as answer:
        assert unharmed.job(json.load(answer)["job_id"]).actor == "oscar"
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        get(f"{url}/jobs", tls=ssl.create_default_context())
    with pytest.raises(ConnectionError), urllib.request.urlopen(url.replace("https", "http"), timeout=120):
        pass
    tokens.file.chmod(0o644)
    assert get(f"{url}/jobs", end, tls, **tokens.headers(AccessRole.ADMIN))[0] == 503
    assert unharmed.stop("protected") == 0
