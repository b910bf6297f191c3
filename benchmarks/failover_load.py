"""Kills the leader again and again while a client submits, and asks whether an accepted job was lost, left unfinished or run twice.

A submission counts as accepted when its client has the accepted reply. What became of it is read from the log alone, and from the
journals of the simulated TaskExecutors, which say what was really launched.
"""

import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future  # noqa: TC003 - annotations here are evaluated
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.failover_watch import LogWatch
from benchmarks.graphs import idle_graph
from benchmarks.report import Distribution
from benchmarks.simulated_tasks import read_journal
from eventflink.events.inputs import JobSubmission
from eventflink.gateways.errors import GatewayError, RequestRefused
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.gateways.request_channel import Accepted
from eventflink.leadership.fold import Fold
from eventflink.log.administration import ensure_topics
from eventflink.log.replay import new_fold, replay
from eventflink.model.attempts import SubtaskId
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration
from eventflink.model.statuses import JobStatus

JOBS_PER_S: Final = 50
RUN_TIMES_MS: Final = (0, 20, 100, 300, 1000)
"""In turn: so that every kill finds jobs at every point of their lives."""

MAX_UNANSWERED: Final = 200
"""A client that waits for so many answers submits no more: four seconds without a leader."""

TASK_EXECUTORS: Final = 4
SLOTS: Final = 32
REQUEST_TIMEOUT_S: Final = 60.0
SETTLE_TIMEOUT_S: Final = 120.0

_BURST_S: Final = 1.0
_JOIN_TIMEOUT_S: Final = 150.0  # A submission waits for room for as long as a request may take.
_LONGEST_PAUSE_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """What was submitted, and what became of it."""

    rounds: int
    seconds: float
    submitted: int
    accepted: int
    refused: int
    unanswered: int
    found: int
    finished: int
    restarted: int
    launched_twice: int
    lost: tuple[str, ...]
    """Accepted jobs that are not in the fold of the log, or have not finished."""
    rejected_decisions: int
    grants: int
    granted_ms: Distribution
    """From the kill to the next leader's grant."""
    decided_ms: Distribution
    """From the kill to the next leader's first decision."""
    answered_ms: Distribution
    """From a submission to its accepted reply, over all of them."""
    digests_equal: bool
    """Whether the fold that followed the log and a replay of it are in the same state."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, refused or doubled."""
        return self.digests_equal and not (self.lost or self.refused or self.unanswered or self.restarted or self.launched_twice)


class Load:
    """A client that submits jobs at a steady rate, in a thread of its own, while the block runs."""

    def __init__(self, client: PipelinedClient, jobs_per_s: float = JOBS_PER_S) -> None:
        self._client = client
        self._interval_s = 1 / jobs_per_s
        self._futures: dict[str, Future[Accepted]] = {}
        self.waits_ms: list[float] = []
        """How long each answer took."""
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._submit, name="load", daemon=True)

    def _submit(self) -> None:
        graphs = [idle_graph(run_time_ms) for run_time_ms in RUN_TIMES_MS]
        due_s = time.monotonic()
        try:
            while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
                due_s = max(due_s, time.monotonic() - self._interval_s) + self._interval_s
                job_id = f"load-{uuid.uuid4().hex}"
                graph = graphs[len(self._futures) % len(graphs)]
                sent_s = time.monotonic()
                future = self._client.send(JobSubmission(job_id=job_id, actor="benchmark", job_graph=graph))
                future.add_done_callback(partial(self._answered, sent_s))
                self._futures[job_id] = future
        except GatewayError as error:
            self._failure = error

    def _answered(self, sent_s: float, _future: "Future[Accepted]") -> None:
        self.waits_ms.append((time.monotonic() - sent_s) * 1000)

    @property
    def submitted(self) -> int:
        """How many jobs were submitted up to now."""
        return len(self._futures)

    def outcome(self) -> tuple[dict[str, Accepted], list[str], int]:
        """Wait for every answer; return the acceptances by job id, what the refusals say, and how many got no answer.

        Raises:
            GatewayError: the client broke off.

        """
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise GatewayError("the client still waits to submit")
        accepted: dict[str, Accepted] = {}
        refused: list[str] = []
        unanswered = 0
        for job_id, future in self._futures.items():
            try:
                accepted[job_id] = future.result(2 * REQUEST_TIMEOUT_S)
            except RequestRefused as refusal:
                refused.append(str(refusal))
            except (GatewayError, TimeoutError):
                unanswered += 1
        return accepted, refused, unanswered

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join(_JOIN_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the log and the journals say of accepted jobs."""

    found: int
    finished: int
    restarted: int
    launched_twice: int
    lost: tuple[str, ...]


def judge(
    accepted: Collection[str], ended: Mapping[str, JobStatus], repeated: Iterable[SubtaskId], fold: Fold, journals: Iterable[Path]
) -> Verdict:
    """Say what became of accepted jobs.

    `fold` is a replay of the whole log made afterwards: what is found is found there. `ended` and `repeated` are what a watch saw of
    the log (`LogWatch`), the journals what TaskExecutors did.
    """
    jobs, forgotten = fold.master.dispatcher.jobs, fold.master.dispatcher.forgotten
    found = {job_id for job_id in accepted if job_id in jobs or job_id in forgotten}
    finished = {job_id for job_id in found if ended.get(job_id) is JobStatus.FINISHED}
    restarted = sum(subtask.job_id in accepted for subtask in repeated)
    launches = Counter(entry.attempt for path in journals for entry in read_journal(path) if entry.what == "launched")
    twice = sum(count > 1 for attempt, count in launches.items() if attempt.job_id in accepted)
    return Verdict(len(found), len(finished), restarted, twice, tuple(job_id for job_id in accepted if job_id not in finished))


def kill_leader_under_load(cluster: FailoverCluster, pause_s: float) -> tuple[float, float]:
    """Kill the leader, wait until the next one decides, and start a new standby; return milliseconds to its grant and first decision.

    `pause_s` after the start of the round: kills are to come at different moments of a burst.
    """
    time.sleep(pause_s)
    watch = cluster.watch
    epoch, sent_s = cluster.end_leader(signal.SIGKILL)
    leadership = watch.wait_for(
        lambda: now if (now := watch.leadership) is not None and now.epoch > epoch and now.first_decision_s is not None else None,
        "a new leader that decides",
    )
    cluster.reap()
    cluster.start_master()
    cluster.check()
    return (leadership.granted_s - sent_s) * 1000, ((leadership.first_decision_s or 0.0) - sent_s) * 1000


def measure_under_load(
    configuration: Configuration, bootstrap: str, command: Command, *, rounds: int, say: Callable[[str], None]
) -> LoadFigures:
    """Kill the leader `rounds` times under load, in a cluster of its own.

    Raises:
        NotSeen, ChildDied, GatewayError: the cluster did not do its work at all.

    """
    ensure_topics(access_to(bootstrap, configuration.cluster_id), configuration.replication_factor)
    journal = configuration.data_path / f"{configuration.cluster_id}.journal"
    samples = []
    started_s = time.monotonic()
    with FailoverCluster(configuration, bootstrap, command) as cluster:
        for _ in range(2):
            cluster.start_master()
        cluster.start_host(TASK_EXECUTORS, SLOTS, journal)
        with PipelinedClient(
            access_to(bootstrap, configuration.cluster_id), request_timeout_s=REQUEST_TIMEOUT_S, max_pending=MAX_UNANSWERED
        ) as client:
            with Load(client) as load:
                time.sleep(_BURST_S)
                for number in range(1, rounds + 1):
                    samples.append(kill_leader_under_load(cluster, _LONGEST_PAUSE_S * number / rounds))
                    say(f"round {number}: kill -9 → granted {samples[-1][0]:,.0f} ms; {load.submitted} jobs submitted")
                time.sleep(_BURST_S)
            accepted, refused, unanswered = load.outcome()
        ended = _wait_for_ends(cluster.watch, accepted)
        say(f"{len(accepted)} jobs accepted, {ended} ended; replaying the log")
        offset, digest = cluster.watch.ask(lambda: (cluster.watch.fold.last_offset, cluster.watch.fold.master.digest()))
        fold = replay(cluster.access, new_fold(cluster.access), end_offset=offset + 1)
        fold.master.validate()
        verdict = judge(accepted.keys(), cluster.watch.ended, cluster.watch.repeated, fold, [journal])
    return LoadFigures(
        rounds=rounds,
        seconds=round(time.monotonic() - started_s, 1),
        submitted=load.submitted,
        accepted=len(accepted),
        refused=len(refused),
        unanswered=unanswered,
        found=verdict.found,
        finished=verdict.finished,
        restarted=verdict.restarted,
        launched_twice=verdict.launched_twice,
        lost=verdict.lost,
        rejected_decisions=fold.rejected_count,
        grants=fold.acceptance.epoch,
        granted_ms=Distribution.of([granted for granted, _ in samples]),
        decided_ms=Distribution.of([decided for _, decided in samples]),
        answered_ms=Distribution.of(load.waits_ms),
        digests_equal=fold.master.digest() == digest,
    )


def _wait_for_ends(watch: LogWatch, accepted: dict[str, Accepted]) -> int:
    """Wait until all of these jobs have ended, or for as long as is sensible; return how many have."""
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        ended = watch.ask(lambda: len(accepted.keys() & watch.ended.keys()))
        if ended == len(accepted):
            break
        time.sleep(0.1)
    return watch.ask(lambda: len(accepted.keys() & watch.ended.keys()))
