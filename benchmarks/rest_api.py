"""What a REST process costs who asks it: the list of many jobs, the past at any offset, a submission, and how soon a change is told.

The first two are asked of a log that was written beforehand, which nobody leads; the others of a cluster with a leader of its own. Each
client has one connection that stays open, as a browser's does.
"""

import http.client
import json
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.graphs import noop_graph
from benchmarks.replay_rate import produce_log, snapshot_near_end
from benchmarks.report import Distribution
from eventflink.gateways.dispatcher_gateway import DispatcherGateway, new_job_id
from eventflink.log.administration import ensure_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration
from eventflink.model.job_graph_document import to_document
from eventflink.processes.child_processes import ChildProcess, end_children, start_child

START_TIMEOUT_S: Final = 120.0
REQUEST_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
CLIENTS: Final = 8
WARM_UP_REQUESTS: Final = 20
STARTS: Final = 3
LISTS: Final = 3
RUNNING_JOBS: Final = 100

CHANGE_INTERVAL_S: Final = 0.3
"""Between two submissions whose change is awaited: longer than the server takes between two frames."""

_URL: Final = re.compile(r"^http://(?P<host>[^:/]+):(?P<port>\d+)$", re.MULTILINE)
_SEED: Final = 1
_POLL_S: Final = 0.05


class RestDisturbed(Exception):
    """The process did not answer as it should: the figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """What was measured of a long log that nobody leads."""

    events: int
    started_ms: Distribution
    """From the start of the process to its first answer, with a snapshot near the end of the log."""
    indexed_s: float
    """From its start until the past of the whole log can be asked for."""
    past_ms: Distribution
    """The page of the cluster at an offset, each another one."""
    list_ms: Distribution
    """`eventflink list`, from the start of its process to its end, asked of the REST process."""
    list_alone_ms: Distribution
    """The same where nobody runs: it folds the snapshot and what is behind it."""


@dataclass(frozen=True, slots=True)
class ListFigures:
    """What was measured of the list of many jobs, which does not change meanwhile."""

    jobs: int
    overview_bytes: int
    overview_ms: Distribution
    overview_per_s: float
    """With several clients at once."""
    clients: int


@dataclass(frozen=True, slots=True)
class ChangeFigures:
    """What was measured of changes."""

    submitted_ms: Distribution
    """By POST, until it is answered that the leader has accepted the job and the process has read it."""
    kafka_ms: Distribution
    """A submission through Kafka, until the leader's answer has come."""
    told_ms: Distribution
    """From the time of a decision, by the log's clock, until its event has come to a reader of the changes."""


class _Client:
    """One connection that stays open."""

    def __init__(self, process: ChildProcess) -> None:
        self._address = _address_of(process)
        self._connection = http.client.HTTPConnection(*self._address, timeout=REQUEST_TIMEOUT_S)

    def ask(self, path: str, body: Any = None) -> tuple[float, bytes]:
        """Return how many milliseconds an answer took, and the answer.

        Raises:
            RestDisturbed: it is an error.

        """
        started_s = time.perf_counter()
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        document = answer.read()
        taken_ms = (time.perf_counter() - started_s) * 1000
        if answer.status != HTTPStatus.OK:
            raise RestDisturbed(f"{path}: {answer.status} {document[:200].decode(errors='replace')}")
        return taken_ms, document

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def measure_reads(
    configuration: Configuration, bootstrap: str, command: Command, *, events: int, samples: int, say: Callable[[str], None]
) -> ReadFigures:
    """Measure on a log of `events` events.

    Raises:
        RestDisturbed, ChildDied: the process did not do its work.
        TimeoutError: Kafka did not take the log.

    """
    cluster_id = configuration.cluster_id
    ensure_topics(access_to(bootstrap, cluster_id))
    say(f"writing a log of {events:,} events")
    produce_log(bootstrap, cluster_id, events, RUNNING_JOBS)
    snapshot_near_end(bootstrap, cluster_id)
    say(f"{LISTS} times 'eventflink list', with nobody to ask")
    list_alone_ms = [_list(command) for _ in range(LISTS)]
    started: list[float] = []
    for _ in range(STARTS):
        with _rest_process(configuration, command) as process:
            started.append((time.monotonic() - process.started_s) * 1000)
    with _rest_process(configuration, command) as process, closing(_Client(process)) as client:
        end = _await_index(client, process)
        indexed_s = time.monotonic() - process.started_s
        say(f"the cluster at {samples} offsets")
        rng = random.Random(_SEED)  # noqa: S311 - it chooses what is measured
        past = [client.ask(f"/eventflink/v1/cluster?at={rng.randrange(end + 1)}")[0] for _ in range(samples)]
        list_ms = [_list(command) for _ in range(LISTS)]
    return ReadFigures(
        events=events,
        started_ms=Distribution.of(started),
        indexed_s=round(indexed_s, 3),
        past_ms=Distribution.of(past),
        list_ms=Distribution.of(list_ms),
        list_alone_ms=Distribution.of(list_alone_ms),
    )


def _list(command: Command) -> float:
    """Return how many milliseconds `eventflink list` takes.

    Raises:
        RestDisturbed: it fails, or lists nothing.

    """
    started_s = time.perf_counter()
    done = subprocess.run([*command({}, "list"), "--json"], capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
    taken_ms = (time.perf_counter() - started_s) * 1000
    if done.returncode or not json.loads(done.stdout):
        raise RestDisturbed(f"eventflink list: exit code {done.returncode} {done.stderr[:200]}")
    return taken_ms


def measure_list(
    configuration: Configuration, bootstrap: str, command: Command, *, jobs: int, samples: int, say: Callable[[str], None]
) -> ListFigures:
    """Measure on a log in which `jobs` jobs run, and no others were; raises as `measure_reads` does."""
    ensure_topics(access_to(bootstrap, configuration.cluster_id))
    produce_log(bootstrap, configuration.cluster_id, 0, jobs)
    with _rest_process(configuration, command) as process, closing(_Client(process)) as client:
        say(f"{samples} times /jobs/overview of {jobs:,} jobs, then by {CLIENTS} clients at once")
        for _ in range(WARM_UP_REQUESTS):
            _, document = client.ask("/jobs/overview")
        if (listed := len(json.loads(document)["jobs"])) != jobs:
            raise RestDisturbed(f"{listed} jobs are listed, not {jobs}")
        taken_ms = [client.ask("/jobs/overview")[0] for _ in range(samples)]
        per_s = _rate(process, samples)
    return ListFigures(
        jobs=jobs, overview_bytes=len(document), overview_ms=Distribution.of(taken_ms), overview_per_s=round(per_s, 1), clients=CLIENTS
    )


def _await_index(client: _Client, process: ChildProcess) -> int:
    """Wait until the past of the whole log can be asked for; return its last offset."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        bounds = json.loads(client.ask("/eventflink/v1/log/bounds")[1])["body"]
        if bounds["indexed_to"] == bounds["last_offset"]:
            return int(bounds["last_offset"])
        process.check()
        time.sleep(_POLL_S)
    raise RestDisturbed(f"the log was not indexed within {START_TIMEOUT_S:g} s")


def _rate(process: ChildProcess, samples: int) -> float:
    """Return how many lists of jobs several clients get in a second."""
    failures: list[Exception] = []

    def read() -> None:
        client = _Client(process)
        try:
            for _ in range(samples // CLIENTS + 1):
                client.ask("/jobs/overview")
        except (RestDisturbed, OSError, http.client.HTTPException) as error:
            failures.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=read, name=f"client-{number}") for number in range(CLIENTS)]
    started_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RestDisturbed(str(failures[0]))
    return CLIENTS * (samples // CLIENTS + 1) / (time.perf_counter() - started_s)


def measure_changes(
    configuration: Configuration, bootstrap: str, command: Command, *, samples: int, say: Callable[[str], None]
) -> ChangeFigures:
    """Measure on a cluster with a leader; its jobs wait for slots.

    Raises:
        RestDisturbed, ChildDied, NotSeen, GatewayError: the process or the cluster did not do its work.

    """
    ensure_topics(access_to(bootstrap, configuration.cluster_id))
    submitted, kafka, told = [], [], []
    with ExitStack() as stack:
        cluster = stack.enter_context(FailoverCluster(configuration, bootstrap, command))
        cluster.start_master()
        gateway = stack.enter_context(DispatcherGateway(bootstrap, configuration.cluster_id))
        process = stack.enter_context(_rest_process(configuration, command))
        arrivals = stack.enter_context(_changes(process))
        client = stack.enter_context(closing(_Client(process)))
        graph = noop_graph()
        document = to_document(graph)
        say(f"{samples} submissions by POST and as many through Kafka, in turn")
        for number in range(WARM_UP_REQUESTS + samples):
            taken_ms, _ = client.ask("/eventflink/v1/jobs", {"document": document})
            started_s = time.perf_counter()
            gateway.submit_job(graph, new_job_id())
            kafka_ms = (time.perf_counter() - started_s) * 1000
            if number >= WARM_UP_REQUESTS:
                submitted.append(taken_ms)
                kafka.append(kafka_ms)
        say(f"{samples // 4} changes, one at a time")
        for _ in range(samples // 4):
            time.sleep(CHANGE_INTERVAL_S)
            told.append(arrivals.delay_ms(gateway.submit_job(graph, new_job_id()).log_offset))
    return ChangeFigures(Distribution.of(submitted), Distribution.of(kafka), Distribution.of(told))


class _Arrivals:
    """When each frame of the changes came."""

    def __init__(self) -> None:
        self._frames: dict[int, float] = {}
        self._changed = threading.Condition()

    def take(self, document: dict[str, Any]) -> None:
        """Take a frame that has just come."""
        now_ms = time.time() * 1000
        with self._changed:
            self._frames[document["offset"]] = now_ms - _epoch_ms(document["decided_at"])
            self._changed.notify_all()

    def delay_ms(self, log_offset: int) -> float:
        """Return how late the first frame came that reflects an offset.

        Raises:
            RestDisturbed: none came.

        """
        with self._changed:
            if not self._changed.wait_for(lambda: any(offset >= log_offset for offset in self._frames), REQUEST_TIMEOUT_S):
                raise RestDisturbed(f"no change told of offset {log_offset} within {REQUEST_TIMEOUT_S:g} s")
            return self._frames[min(offset for offset in self._frames if offset >= log_offset)]


@contextmanager
def _changes(process: ChildProcess) -> Iterator[_Arrivals]:
    """Read the changes in a thread of its own."""
    connection = http.client.HTTPConnection(*_address_of(process), timeout=REQUEST_TIMEOUT_S)
    connection.request("GET", "/eventflink/v1/changes")
    answer = connection.getresponse()
    arrivals = _Arrivals()

    def read() -> None:
        for line in answer:
            if line.startswith(b"data: "):
                arrivals.take(json.loads(line.removeprefix(b"data: ")))

    thread = threading.Thread(target=read, name="changes", daemon=True)
    thread.start()
    try:
        yield arrivals
    finally:
        if connection.sock is not None:
            connection.sock.shutdown(2)
        thread.join(STOP_TIMEOUT_S)
        connection.close()


@contextmanager
def _rest_process(configuration: Configuration, command: Command) -> Iterator[ChildProcess]:
    """Start a REST process, and give it when it answers."""
    process = start_child(f"rest-{new_job_id()[:8]}", command({"rest.bind-port": "0"}, "rest"), configuration.data_path / "logs")
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while _URL.search(process.log_path.read_text(encoding="utf-8")) is None:
            process.check()
            if time.monotonic() > deadline_s:
                raise RestDisturbed(f"the REST process did not start within {START_TIMEOUT_S:g} s; {process.end_of_log()}")
            time.sleep(0.01)
        yield process
    finally:
        end_children([process], STOP_TIMEOUT_S)


def _address_of(process: ChildProcess) -> tuple[str, int]:
    found = _URL.search(process.log_path.read_text(encoding="utf-8"))
    assert found is not None  # noqa: S101 - it is given away when it has announced itself
    return found["host"], int(found["port"])


def _epoch_ms(time_text: str) -> float:
    return datetime.fromisoformat(time_text).timestamp() * 1000
