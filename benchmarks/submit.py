"""How fast the cluster takes and finishes jobs: through Kafka, as any client, each job unique, every one must finish.

One at a time: the time from submitting to the accepted reply, and to the accepted decision that the job has FINISHED. Then
many clients at once, each of which submits its next job when the last one is accepted: accepted and finished jobs a second.
"""

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Self

from benchmarks.graphs import noop_graph
from benchmarks.report import Distribution
from eventflink.events.inputs import JobSubmission
from eventflink.events.log_events import JobResultStored
from eventflink.gateways.follow import LogFollower
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.leadership.acceptance import Acceptance
from eventflink.model.cluster_access import access_to
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import JobStatus

TIMEOUT_S: Final = 120.0
WARM_UP_JOBS: Final = 300
"""Until the broker's and the cluster's code has been compiled: what is measured is a cluster that runs."""

_POLL_S: Final = 0.05


class JobDidNotFinish(Exception):
    """A job of the benchmark failed, or did not end in time: its figures would mean nothing."""


class Ends:
    """Watches the log in a thread of its own and notes when each job ended."""

    def __init__(self, bootstrap: str, cluster_id: str, first_offset: int, acceptance: Acceptance) -> None:
        self._follower = LogFollower(access_to(bootstrap, cluster_id), first_offset, acceptance=acceptance)
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
                    now = time.monotonic()
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
        """Return when the job was seen FINISHED, by `time.monotonic`.

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
class SubmittedJob:
    """What became of one job; times by `time.monotonic`."""

    job_id: str
    sent_s: float
    accepted_s: float
    finished_s: float | None = None
    """When it was seen FINISHED; None where nobody looked."""

    @property
    def accepted_ms(self) -> float:
        """From the submission to the accepted reply."""
        return (self.accepted_s - self.sent_s) * 1000

    @property
    def finished_ms(self) -> float:
        """From the submission to the accepted decision that it has FINISHED."""
        return ((self.finished_s or self.sent_s) - self.sent_s) * 1000


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
    with Ends(bootstrap, cluster_id, first_offset, acceptance) as ends, PipelinedClient(access_to(bootstrap, cluster_id)) as client:
        submit_one_at_a_time(client, ends, WARM_UP_JOBS)
        say(f"{jobs} jobs, one at a time")
        alone = submit_one_at_a_time(client, ends, jobs)
        say(f"{concurrent_jobs} jobs from {clients} clients")
        together = submit_concurrently(client, ends, clients, concurrent_jobs)
    return SubmitFigures(
        Distribution.of([job.accepted_ms for job in alone]),
        Distribution.of([job.finished_ms for job in alone]),
        clients,
        concurrent_jobs,
        Distribution.of([job.accepted_ms for job in together]),
        accepted_per_s(together),
        finished_per_s(together),
    )


def submit_one_at_a_time(client: PipelinedClient, ends: Ends | None, jobs: int) -> list[SubmittedJob]:
    """Submit no-op jobs, each when the last one has FINISHED; without `ends`, when it is accepted.

    Raises:
        JobDidNotFinish, GatewayError: the cluster did not do its work.

    """
    graph, done = noop_graph(), []
    for _ in range(jobs):
        job = _submit(client, graph)
        done.append(job if ends is None else replace(job, finished_s=ends.wait_for(job.job_id)))
    return done


def submit_concurrently(client: PipelinedClient, ends: Ends | None, clients: int, jobs: int) -> list[SubmittedJob]:
    """Submit no-op jobs from many clients, of which each submits its next one when the last one is accepted; raises as the other does."""
    graph = noop_graph()
    shares = [jobs // clients + (n < jobs % clients) for n in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        done = [job for share in pool.map(lambda count: [_submit(client, graph) for _ in range(count)], shares) for job in share]
    return done if ends is None else [replace(job, finished_s=ends.wait_for(job.job_id)) for job in done]


def _submit(client: PipelinedClient, graph: JobGraph) -> SubmittedJob:
    submission = JobSubmission(job_id=f"bench-{uuid.uuid4().hex}", actor="benchmark", job_graph=graph)
    sent_s = time.monotonic()
    client.send(submission).result(TIMEOUT_S)
    return SubmittedJob(submission.job_id, sent_s, time.monotonic())


def accepted_per_s(jobs: Sequence[SubmittedJob]) -> float:
    """Return how many were accepted a second, from the first submission on."""
    return _per_s(jobs, max(job.accepted_s for job in jobs))


def finished_per_s(jobs: Sequence[SubmittedJob]) -> float:
    """Return how many were seen FINISHED a second, from the first submission on."""
    return _per_s(jobs, max(job.finished_s or job.accepted_s for job in jobs))


def _per_s(jobs: Sequence[SubmittedJob], end_s: float) -> float:
    return round(len(jobs) / (end_s - min(job.sent_s for job in jobs)), 1)
