"""How fast the cluster takes and finishes jobs: through Kafka, as any client, each job unique, every one must finish.

One at a time: the time from submitting to the accepted reply, and to the accepted decision that the job has FINISHED. Then
many clients at once, each of which submits its next job when the last one is accepted: accepted and finished jobs a second.
"""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Self

from eventflink.events.inputs import JobSubmission
from eventflink.events.log_events import JobResultStored
from eventflink.gateways.follow import LogFollower
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.lab.benchmarks.report import Distribution
from eventflink.leadership.acceptance import Acceptance
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import JobStatus

TIMEOUT_S: Final = 120.0
WARM_UP_JOBS: Final = 300
"""Until the broker's and the cluster's code has been compiled: what is measured is a cluster that runs."""

_POLL_S: Final = 0.05


class JobDidNotFinish(Exception):
    """A job of the benchmark failed, or did not end in time: its figures would mean nothing."""


def noop_graph() -> JobGraph:
    """Return a job of one vertex that does nothing."""
    vertex = {"id": "noop", "python": "eventflink.lab.benchmarks.tasks:noop"}
    return parse_job_graph({"name": "benchmark", "vertices": [vertex]}, "benchmark")


class Ends:
    """Watches the log in a thread of its own and notes when each job ended."""

    def __init__(self, bootstrap: str, cluster_id: str, first_offset: int, acceptance: Acceptance) -> None:
        """Follow the log from `first_offset` on."""
        self._follower = LogFollower(bootstrap, cluster_id, first_offset, acceptance=acceptance)
        self._ended: dict[str, tuple[float, JobStatus]] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="benchmark-ends", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            while not self._stopping.is_set():
                for logged in self._follower.poll(_POLL_S):
                    now = time.perf_counter()
                    ends = [e for e in logged.decision.events if isinstance(e, JobResultStored)] if logged.accepted else []
                    if ends:
                        with self._changed:
                            self._ended.update({e.job_id: (now, e.status) for e in ends})
                            self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody waits
            self._failure = error
            with self._changed:
                self._changed.notify_all()

    def wait_for(self, job_id: str) -> float:
        """Return when the job was seen FINISHED, by `time.perf_counter`.

        Raises:
            JobDidNotFinish: it ended otherwise, or not within two minutes.

        """
        with self._changed:
            self._changed.wait_for(lambda: job_id in self._ended or self._failure is not None, TIMEOUT_S)
            if self._failure is not None:
                raise self._failure
            if job_id not in self._ended:
                raise JobDidNotFinish(f"job {job_id} did not end within {TIMEOUT_S:.0f} s")
            at, status = self._ended[job_id]
        if status is not JobStatus.FINISHED:
            raise JobDidNotFinish(f"job {job_id} is {status}")
        return at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        self._follower.close()


@dataclass(frozen=True, slots=True)
class SubmitFigures:
    """What was measured."""

    accepted_ms: Distribution
    finished_ms: Distribution
    clients: int
    concurrent_jobs: int
    concurrent_accepted_ms: Distribution
    accepted_per_s: float
    finished_per_s: float


def _submission(graph: JobGraph) -> JobSubmission:
    return JobSubmission(job_id=f"bench-{uuid.uuid4().hex}", actor="benchmark", job_graph=graph)


def measure_submit(  # noqa: D417 - the address of the cluster
    bootstrap: str,
    cluster_id: str,
    first_offset: int,
    acceptance: Acceptance,
    *,
    jobs: int,
    clients: int,
    concurrent_jobs: int,
    say: Callable[[str], None],
) -> SubmitFigures:
    """Measure on a running cluster with free slots.

    Args:
        first_offset: where to follow the log from, with the `acceptance` in force there.
        jobs: how many to submit one at a time.
        clients: how many to submit at once in the second part, `concurrent_jobs` in all.

    Raises:
        JobDidNotFinish, GatewayError: the cluster did not do its work.

    """
    graph = noop_graph()
    with Ends(bootstrap, cluster_id, first_offset, acceptance) as ends, PipelinedClient(bootstrap, cluster_id) as client:
        for _ in range(WARM_UP_JOBS):
            ends.wait_for(client.send(_submission(graph)).result(TIMEOUT_S).job_id)
        say(f"{jobs} jobs, one at a time")
        accepted_ms, finished_ms = [], []
        for _ in range(jobs):
            submission = _submission(graph)
            started = time.perf_counter()
            client.send(submission).result(TIMEOUT_S)
            accepted_ms.append((time.perf_counter() - started) * 1000)
            finished_ms.append((ends.wait_for(submission.job_id) - started) * 1000)
        say(f"{concurrent_jobs} jobs from {clients} clients")
        waits, accepted_per_s, finished_per_s = _measure_concurrent(client, ends, graph, clients, concurrent_jobs)
    return SubmitFigures(
        Distribution.of(accepted_ms),
        Distribution.of(finished_ms),
        clients,
        concurrent_jobs,
        Distribution.of(waits),
        accepted_per_s,
        finished_per_s,
    )


def _measure_concurrent(client: PipelinedClient, ends: Ends, graph: JobGraph, clients: int, jobs: int) -> tuple[list[float], float, float]:
    """Return the waits for acceptance in milliseconds, accepted jobs a second and finished jobs a second."""
    shares = [jobs // clients + (n < jobs % clients) for n in range(clients)]

    def submit_share(count: int) -> list[tuple[str, float, float]]:
        done = []
        for _ in range(count):
            submission = _submission(graph)
            started = time.perf_counter()
            client.send(submission).result(TIMEOUT_S)
            now = time.perf_counter()
            done.append((submission.job_id, (now - started) * 1000, now))
        return done

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        results = [row for share in pool.map(submit_share, shares) for row in share]
    accepted_s = max(at for _, _, at in results) - started
    finished_s = max(ends.wait_for(job_id) for job_id, _, _ in results) - started
    return [wait for _, wait, _ in results], round(jobs / accepted_s, 1), round(jobs / finished_s, 1)
