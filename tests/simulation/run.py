"""One run, a cluster from a seed, a time of faults, and a time in which everything must come to rest; and many runs, shared out."""

import gc
import logging
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from eventflink.events.effects import INLINE_LOCATIONS
from eventflink.events.topics import Topic
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus
from eventflink.testing.simulation.scheduler import MILLISECOND, Call
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Faults
from tests.simulation.truncation import truncate
from tests.simulation.variations import Resources

_CLIENT_INTERVAL_MS: Final = 350
_READ_INTERVAL_MS: Final = 300
_LOOK_INTERVAL_MS: Final = 250
_RERUNS_MS: Final = 5_000
"""For so long jobs are run again when the faults have ended: many end late."""
_STREAM_FAULTS_MS: Final = 10_000
"""For so long streams alone have faults, and savepoints, when the other ones have ended: many streams begin late."""

_SEEDS_AT_A_TIME: Final = 8
_GC_THRESHOLD: Final = 100_000
"""A run makes garbage cycles when its cluster is dropped, and few before: to look for them often is a waste."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run."""

    seed: int
    invariant: str
    """The one that was broken; empty: none."""
    message: str
    transcript_digest: str
    simulated_ms: int
    log_records: int
    leaderships: int
    jobs: int
    excused_overlaps: int
    transcript: tuple[str, ...] = ()


def draw_settings(rng: Random, seed: int) -> SimulationSettings:
    """Return the settings of one run: clusters differ in size, and runs in length and density."""
    is_outgrown = seed % 2 == 1
    return SimulationSettings(
        seed=seed,
        deployment_partitions=1 if is_outgrown else 4,
        task_managers_per_partition=1 if is_outgrown else 64,
        inline_locations=0 if seed % 3 else INLINE_LOCATIONS,
        masters=rng.choice((2, 3, 3)),
        task_executors=rng.choice((2, 3)),
        slots=rng.choice((1, 2, 2)),
        jobs=rng.choice((6, 10, 14)),
        window_size=rng.choice((4, 32, 256)),
        inbox_size=rng.choice((6, 24, 256)),
        active_ms=rng.choice((6_000, 9_000, 14_000)),
        fault_interval_ms=rng.choice((200, 500, 1_200)),
        snapshot_interval_ms=rng.choice((0, 0, 0, 7_000)),
    )


def simulate(seed: int, *, with_transcript: bool = False) -> RunResult:
    """Run a seed from its start to its rest, or to the first violation."""
    rng = Random(seed)
    drawn = draw_settings(rng, seed)
    cluster = Cluster(drawn, rng, Resources(seed, drawn.task_executors))
    invariant, message = "", ""
    try:
        _run(cluster, Faults(cluster, rng))
    except ViolationFound as violation:
        invariant, message = violation.invariant.name, violation.message
        cluster.transcript.note("violation", str(violation))
    observer = cluster.observer
    return RunResult(
        seed=seed,
        invariant=invariant,
        message=message,
        transcript_digest=cluster.transcript.digest(),
        simulated_ms=cluster.scheduler.now_us // MILLISECOND,
        log_records=observer.fold.last_offset + 1,
        leaderships=observer.grants,
        jobs=len(observer.ledger.submitted),
        excused_overlaps=cluster.attempts_check.excused,
        transcript=tuple(cluster.transcript.lines()) if with_transcript else (),
    )


def simulate_many(seeds: Iterable[int], workers: int) -> Iterator[RunResult]:
    """Yield the result of each seed, in order; `workers` processes share the work, and one works without any."""
    if workers <= 1:
        _prepare()
        yield from map(simulate, seeds)
        return
    # Spawned, not forked: a worker has nothing of its parent but the seeds.
    with multiprocessing.get_context("spawn").Pool(workers, _prepare) as pool:
        yield from pool.imap(simulate, seeds, chunksize=_SEEDS_AT_A_TIME)


def _prepare() -> None:
    """Keep what the real code logs out of the way: a run has a transcript."""
    logging.disable(logging.CRITICAL)
    gc.set_threshold(_GC_THRESHOLD)


def _run(cluster: Cluster, faults: Faults) -> None:
    settings, scheduler, rng = cluster.settings, cluster.scheduler, cluster.rng
    active_us = settings.active_ms * MILLISECOND

    def read() -> None:
        host = rng.choice(cluster.seats).host
        if host is not None:
            cluster.observer.read(host, cluster.broker.partition(Topic.LOG).end_offset)

    def again(mean_ms: float, call: Call) -> Callable[[], None]:
        def happen() -> None:
            if scheduler.now_us < active_us:
                call()
                scheduler.after(int(2 * mean_ms * rng.random() * MILLISECOND), happen)

        return happen

    _let_people_act(cluster)
    scheduler.after(200 * MILLISECOND, again(_CLIENT_INTERVAL_MS, cluster.clients.act))
    scheduler.after(300 * MILLISECOND, again(_READ_INTERVAL_MS, read))
    scheduler.after(1_500 * MILLISECOND, again(settings.fault_interval_ms, faults.strike))
    while scheduler.step(active_us):
        pass
    cluster.transcript.note("simulation", "the faults end")
    faults.end()
    cluster.defects.is_mended = True
    _rest(cluster, faults)


def _order_again(cluster: Cluster, next_in_ms: Callable[[], float], order: Call, lasting_ms: int = 0) -> None:
    """Have operators do something again and again while the run is active, and for `lasting_ms` more."""
    scheduler = cluster.scheduler

    def happen() -> None:
        if scheduler.now_us < (cluster.settings.active_ms + lasting_ms) * MILLISECOND:
            order()
            scheduler.after(int(next_in_ms() * MILLISECOND), happen)

    scheduler.after(int(next_in_ms() * MILLISECOND), happen)


def _resume_suspended(cluster: Cluster) -> None:
    """Resume what operators have suspended: a run ends when all its jobs have ended."""
    if cluster.lifecycles.has_orders:
        statuses = cluster.observer.ledger.job_statuses
        cluster.clients.resume([job_id for job_id, status in statuses.items() if status is JobStatus.SUSPENDED])


def _end_complete(cluster: Cluster) -> None:
    """Have somebody cancel the streams that do not end by themselves, once what they had to do is done."""
    statuses = cluster.observer.ledger.job_statuses
    ended, stopped = (JobStatus.CANCELLING, *TERMINAL_JOB_STATUSES), cluster.observer.ledger.stopped
    complete = [job_id for job_id in cluster.storage.complete_jobs() if job_id not in stopped]  # What has stopped ends by itself.
    cluster.clients.end([job_id for job_id in complete if statuses[job_id] not in ended])


def _take_savepoints(cluster: Cluster) -> None:
    """Have somebody take a savepoint of streams that run, and go on from those with which jobs have stopped."""
    jobs = cluster.observer.fold.master.dispatcher.jobs.values()
    running = [job.job_id for job in jobs if job.checkpoints is not None and job.checkpoints.attempts_to_ask(job.execution_graph)]
    cluster.clients.want_savepoint(running, cluster.savepoints)


def _run_again(cluster: Cluster) -> None:
    """Have somebody run a job again that has ended."""
    statuses = cluster.observer.ledger.job_statuses
    cluster.clients.rerun({job_id: status for job_id, status in statuses.items() if status in TERMINAL_JOB_STATUSES})


def _run_scheduled_again(cluster: Cluster) -> None:
    """Have somebody run a job again that a schedule has started, and that has ended."""
    jobs = cluster.observer.fold.master.dispatcher.jobs.values()
    ended = [job.job_id for job in jobs if job.scheduled is not None and job.status in TERMINAL_JOB_STATUSES]
    cluster.clients.run_scheduled_again(ended, cluster.schedule_owners)


def _let_people_act(cluster: Cluster) -> None:
    """Have operators and users give orders, in the runs that have such people."""
    names = [host.name for host in cluster.task_executors]
    if cluster.lifecycles.has_orders:
        _order_again(cluster, cluster.lifecycles.next_order_in_ms, lambda: cluster.clients.direct(cluster.lifecycles))
    if cluster.resources.is_mixed:
        _order_again(cluster, cluster.resources.next_order_in_ms, lambda: cluster.clients.operate(names))
    if cluster.streams.are_there:
        _order_again(cluster, cluster.streams.next_order_in_ms, cluster.clients.want_checkpoint)
        _order_again(cluster, cluster.streams.next_order_in_ms, lambda: _end_complete(cluster))
        if cluster.savepoints.are_there:
            _order_again(cluster, cluster.savepoints.next_order_in_ms, lambda: _take_savepoints(cluster), _STREAM_FAULTS_MS)
        _order_again(cluster, cluster.stream_faults.next_in_ms, cluster.stream_faults.strike, _STREAM_FAULTS_MS)
    if cluster.broker_clocks.are_wrong:
        _order_again(cluster, cluster.broker_clocks.next_jump_in_ms, cluster.broker_clocks.jump)
    if cluster.disks.are_small:
        _order_again(cluster, cluster.disks.next_fault_in_ms, cluster.fill_disk)
    if cluster.clients.reruns.are_there:
        _order_again(cluster, cluster.clients.reruns.next_order_in_ms, lambda: _run_again(cluster), _RERUNS_MS)
    if cluster.schedulers.is_mixed:
        _order_again(cluster, cluster.schedulers.next_rescale_in_ms, cluster.clients.rescale)
    if cluster.schedule_owners.are_there:
        owners = cluster.schedule_owners
        _order_again(cluster, owners.next_order_in_ms, lambda: cluster.clients.keep_schedules(owners))
        _order_again(cluster, owners.next_rerun_in_ms, lambda: _run_scheduled_again(cluster))
    _let_strangers_act(cluster)


def _let_strangers_act(cluster: Cluster) -> None:
    """Have others forge what they can, and add partitions, in the runs that have such people."""
    if cluster.forged_epochs.are_there:
        forged, fold = cluster.forged_epochs, cluster.observer.fold
        _order_again(cluster, forged.next_in_ms, lambda: forged.forge(fold.acceptance.epoch))
    if cluster.foreign_records.are_there:
        _order_again(cluster, cluster.foreign_records.next_in_ms, cluster.foreign_records.write)
    if cluster.forgers.are_there:
        _order_again(cluster, cluster.forgers.next_in_ms, lambda: cluster.forgers.forge(cluster.observer.fold))
    if cluster.topic_growth.is_there:
        _order_again(cluster, cluster.topic_growth.next_in_ms, cluster.topic_growth.grow)
    if cluster.guardians.are_forged:
        _order_again(cluster, cluster.guardians.next_forgery_in_ms, cluster.forge_death)


def _rest(cluster: Cluster, faults: Faults) -> None:
    """Let time pass until nothing waits any more."""
    scheduler = cluster.scheduler
    # A leader that hangs is away for ten seconds, and there are several inputs at which some do. One whose connection stays broken leads
    # between the others, decides nothing, and passes on nothing of what a guardian has said to it.
    factor = (4 if faults.lasting else 2) if cluster.defects.are_deadly else 1
    rest_ms = cluster.settings.rest_ms * factor
    end_us = scheduler.now_us + rest_ms * MILLISECOND
    unrest = "nothing has happened yet"
    while unrest and scheduler.now_us < end_us:
        look_us = scheduler.now_us + _LOOK_INTERVAL_MS * MILLISECOND
        while scheduler.step(look_us):
            pass
        _resume_suspended(cluster)
        _end_complete(cluster)
        cluster.clients.remove_schedules(list(cluster.observer.fold.master.schedules.schedules))
        cluster.clients.release([parked.parked_id for parked in cluster.observer.fold.master.follow_ups.parked.values()])
        unrest = cluster.unrest(faults.lasting)
    if unrest:
        raise ViolationFound(Invariant.COMES_TO_REST, f"{rest_ms} ms after the last fault {unrest}")
    cluster.check_end(faults.lasting)
    truncate(cluster, faults.lasting)
