"""The commands of `python -m benchmarks`: measured promises. Each takes `--json`; its last line is then one JSON object.

Without a Kafka cluster to use, each starts what it needs in a directory of its own and leaves nothing behind.
"""

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.command_support import command_of, explained, new_cell, own_broker, print_figures, sayer, scratch
from benchmarks.failover_load import measure_under_load
from benchmarks.failover_times import (
    FailoverFigures,
    LeaderLoss,
    TaskExecutorLoss,
    measure_failover,
    measure_real_tasks,
)
from benchmarks.fleet import HOSTS, measure_fleet
from benchmarks.gate import Kind, Verdict, compare
from benchmarks.gate_runs import NotComparable, Repository, RunFailed, Trees, alternate
from benchmarks.gate_table import print_gate
from benchmarks.heartbeats import measure_heartbeats
from benchmarks.replay_rate import measure_replay
from benchmarks.report import Distribution, as_row, machine
from benchmarks.rest_command import bench_rest
from benchmarks.slots import measure_slots
from benchmarks.state_memory import MemoryNotMeasured
from benchmarks.stream_command import bench_stream
from benchmarks.submit import WARM_UP_JOBS, measure_submit
from benchmarks.submit_trace import TraceBench
from benchmarks.submit_trace_tables import print_trace
from benchmarks.subtask_memory import MemoryDisturbed, measure_state, measure_tasks
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.local_cluster import LocalCluster
from eventflink.cli.main import cli, start_session
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.folding import read_fold
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.model.cluster_access import access_to

FAILOVER_JOBS: Final = (1, 100, 1000)
FAILOVER_ROUNDS: Final = 10
UNDER_LOAD_ROUNDS: Final = 50
SLOT_MULTIPLES: Final = (1, 10, 100)


_WORSE: Final = 6
"""The exit code of `gate` where the commit costs more than the one that it is compared with; `ExitCode` has the others."""


@click.group(context_settings=cli.context_settings, params=list(cli.params))
@click.pass_context
def benchmarks(context: click.Context, /, **_options: Any) -> None:
    """Measure the cluster: minimum, median, p99 and maximum, with the machine they were measured on."""
    start_session(context)


benchmarks.add_command(bench_stream)
benchmarks.add_command(bench_rest)


@benchmarks.command("submit")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="How many jobs are submitted one at a time, in the first part.",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="How many clients submit concurrently, in the second part.",
)
@click.option("--concurrent-jobs", type=click.IntRange(min=1), default=1600, show_default=True, help="How many jobs they submit together.")
@click.option("--own-cluster/--running-cluster", default=True, show_default=True, help="Start a cluster, or take the one that runs.")
@click.option("--trace", is_flag=True, help="Say where the time and the processor go, beside the floor: see docs/performance.md.")
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=4, show_default=True, help="With --trace: how often cluster and floor alternate."
)
@click.option("--without-task-executors", is_flag=True, help="With --trace: jobs are accepted only.")
@click.option(
    "--warm-up-jobs", type=click.IntRange(min=1), default=WARM_UP_JOBS, show_default=True, help="With --trace: how many come first."
)
@click.option(
    "--idle-time",
    "idle_s",
    type=click.IntRange(min=1),
    default=15,
    show_default=True,
    help="With --trace: seconds without load that are measured.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_submit(
    session: Session,
    jobs: int,
    clients: int,
    concurrent_jobs: int,
    rounds: int,
    warm_up_jobs: int,
    idle_s: int,
    *,
    own_cluster: bool,
    trace: bool,
    without_task_executors: bool,
    as_json: bool,
) -> int:
    """Measure submit → accepted and submit → FINISHED of one-vertex no-op jobs, through Kafka."""
    if trace:
        if not own_cluster:
            raise click.UsageError(
                "--trace and --running-cluster exclude each other: the processes of the cluster are started with a trace"
            )
        load = {"jobs": jobs, "clients": clients, "concurrent_jobs": concurrent_jobs, "rounds": rounds}
        return _bench_trace(session, load, warm_up_jobs, idle_s, has_task_executor=not without_task_executors, as_json=as_json)
    if without_task_executors:
        raise click.UsageError("--without-task-executors needs --trace")
    say = sayer(session)
    with contextlib.ExitStack() as stack:
        used, bootstrap = session, ""
        if own_cluster:
            used = stack.enter_context(scratch(session))
            bootstrap = stack.enter_context(LocalCluster(used, 1, say)).bootstrap
        bootstrap = bootstrap or session.bootstrap
        fold = read_fold(access_to(bootstrap, used.cluster_id))
        figures = measure_submit(
            bootstrap,
            used.cluster_id,
            fold.last_offset + 1,
            fold.acceptance,
            jobs=jobs,
            clients=clients,
            concurrent_jobs=concurrent_jobs,
            say=say,
        )
    rows = [
        as_row("submit → accepted", "ms", figures.accepted_ms),
        as_row("submit → FINISHED", "ms", figures.finished_ms),
        as_row(f"submit → accepted, {clients} clients", "ms", figures.concurrent_accepted_ms),
    ]
    print_figures(session, rows, {"benchmark": "submit", **asdict(figures)}, as_json=as_json)
    session.err.print(f"{figures.accepted_per_s:,.1f} jobs accepted/s and {figures.finished_per_s:,.1f} finished/s with {clients} clients")
    return ExitCode.OK


def _bench_trace(
    session: Session, load: Mapping[str, int], warm_up_jobs: int, idle_s: int, *, has_task_executor: bool, as_json: bool
) -> int:
    with explained(), own_broker(session) as (used, bootstrap, broker):
        command = partial(command_of, used, bootstrap)
        bench = TraceBench(
            configuration=used.configuration,
            bootstrap=bootstrap,
            command=command,
            broker_process_id=None if broker is None else broker.process_id,
            has_task_executor=has_task_executor,
            say=sayer(session),
            warm_up_jobs=warm_up_jobs,
            idle_s=idle_s,
        )
        figures = bench.measure(**load)
    print_trace(session.err if as_json else session.out, figures)
    if as_json:
        session.print_json({"benchmark": "submit-trace", **asdict(figures), "machine": machine()})
    return ExitCode.OK


@benchmarks.command("replay")
@click.option("--events", type=click.IntRange(min=1000), default=200_000, show_default=True, help="How long the log is.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="Pairs of replay and bare reading.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_replay(session: Session, events: int, rounds: int, *, as_json: bool) -> int:
    """Measure replay from a cold start to a validated state, beside consuming and decoding the same log."""
    say = sayer(session)
    with contextlib.ExitStack() as stack:
        used = stack.enter_context(scratch(session))
        bootstrap = session.configuration.bootstrap_servers
        if not bootstrap:
            bootstrap = stack.enter_context(EmbeddedBroker(used.configuration.data_path / "broker", 0, progress=say)).bootstrap_servers
        figures = measure_replay(bootstrap, used.cluster_id, events=events, rounds=rounds, say=say)
    rows = [
        as_row("replay", "events/s", figures.replay_events_per_s),
        as_row("bare consume and decode", "events/s", figures.bare_events_per_s),
        as_row(f"ready from a snapshot, {figures.tail_records:,} records behind it", "ms", figures.snapshot_ready_ms),
    ]
    print_figures(session, rows, {"benchmark": "replay", **asdict(figures)}, as_json=as_json)
    share = figures.share_of_bare
    session.err.print(f"replay runs at {share.median:.0%} of the bare rate (min {share.min:.0%}, max {share.max:.0%})")
    for name, memory in (("replayed", figures.memory_replayed), ("from the snapshot", figures.memory_from_snapshot)):
        session.err.print(
            f"a process with {figures.retained_jobs:,} ended and {figures.running_jobs:,} running jobs, {name}: "
            f"{memory.after_bytes / 2**20:,.0f} MiB ({memory.before_bytes / 2**20:,.0f} MiB before), {memory.seconds:.2f} s"
        )
    return ExitCode.OK


@benchmarks.command("memory")
@click.option("--tasks", type=click.IntRange(1, 1024), default=8, show_default=True, help="Real task processes that run at once.")
@click.option(
    "--running-jobs", type=click.IntRange(1, 1000), default=1000, show_default=True, help="How many jobs run in the state that is measured."
)
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="How often the state is read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_memory(session: Session, tasks: int, running_jobs: int, rounds: int, *, as_json: bool) -> int:
    """Measure the memory of a running subtask: its process on a TaskExecutor, and its part of a master's state."""
    say = sayer(session)
    slots = Session(session.config, {**session.overrides, "taskmanager.numberOfTaskSlots": str(tasks)}, verbose=session.verbose)
    with contextlib.ExitStack() as stack:
        used = stack.enter_context(scratch(slots))
        cluster = stack.enter_context(LocalCluster(used, 1, say))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eventflink-bench-tasks-")))
        say(f"{tasks} tasks run on a TaskExecutor")
        try:
            weighed = measure_tasks(cluster.bootstrap, used.cluster_id, cluster.master_process_id, directory, tasks=tasks)
            say(f"the state of {running_jobs:,} running jobs is read")
            state = measure_state(cluster.bootstrap, used.cluster_id, running_jobs=running_jobs, rounds=rounds, say=say)
        except (MemoryDisturbed, MemoryNotMeasured) as error:
            raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    rows = [
        as_row("task process, resident", "MiB", _mebibytes(weighed.resident)),
        as_row("task process, its share of what is shared", "MiB", _mebibytes(weighed.proportional)),
        as_row("task process, alone its own", "MiB", _mebibytes(weighed.unique)),
        as_row("state of a master, per running subtask", "bytes", state.bytes_per_running_subtask),
    ]
    print_figures(session, rows, {"benchmark": "memory", "task_processes": asdict(weighed), "state": asdict(state)}, as_json=as_json)
    idle, running, master_idle, master_running = (
        f"{size / 2**20:,.0f} MiB"
        for size in (weighed.idle_host_bytes, weighed.running_host_bytes, weighed.master_idle_bytes, weighed.master_running_bytes)
    )
    session.err.print(
        f"TaskExecutor with all its processes: {idle} idle, {running} with {tasks} tasks; master: {master_idle}, {master_running}"
    )
    return ExitCode.OK


def _mebibytes(size: Distribution) -> Distribution:
    return Distribution(size.count, *(round(value / 2**20, 1) for value in (size.min, size.median, size.p99, size.max)))


@benchmarks.command("slots")
@click.option(
    "--largest",
    type=click.IntRange(1, 100),
    default=100,
    show_default=True,
    help="Size of the largest cluster, in hundreds of TaskManagers: 1, 10 or 100.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_slots(session: Session, largest: int, *, as_json: bool) -> int:
    """Measure what it costs to match slot requests as the cluster grows: the core alone, decide and apply, without Kafka.

    TaskManagers have 8 slots of five kinds, and there are ten requests for each: 100,000 in the largest cluster.
    """
    figures = measure_slots([multiple for multiple in SLOT_MULTIPLES if multiple <= largest], sayer(session))
    rows = []
    for each in figures:
        name = f"{each.task_managers:,} TaskManagers, {'spread' if each.spread else 'packed'}"
        rows += [
            as_row(f"{name}: requests for free slots", "requests/s", each.free_slots_per_s),
            as_row(f"{name}: slots freed one at a time", "requests/s", each.freed_slots_per_s),
            as_row(f"{name}: TaskManagers for waiting requests", "requests/s", each.waiting_requests_per_s),
        ]
    print_figures(session, rows, {"benchmark": "slots", "clusters": [asdict(each) for each in figures]}, as_json=as_json)
    return ExitCode.OK


@benchmarks.command("failover")
@click.option("--jobs", type=click.IntRange(1, 10_000), help="How many jobs run. Default: 1, then 100, then 1,000.")
@click.option("--rounds", type=click.IntRange(1, 1000), help="How often each process is lost. Default: 10; 50 under load.")
@click.option("--under-load", is_flag=True, help="Kill leaders while clients submit; exit code 1 if anything is lost or doubled.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_failover(session: Session, jobs: int | None, rounds: int | None, *, under_load: bool, as_json: bool) -> int:
    """Measure what the loss of a leader or of a TaskExecutor costs while jobs run.

    Jobs are no-op tasks on simulated TaskExecutors that speak the real protocol, and at last on a real one; all else is real.
    """
    say = sayer(session)
    if under_load:
        if jobs:
            raise click.UsageError("--jobs and --under-load exclude each other: under load, jobs come and go")
        return _bench_under_load(session, rounds or UNDER_LOAD_ROUNDS, as_json=as_json)
    count = rounds or FAILOVER_ROUNDS
    figures: list[FailoverFigures] = []
    with explained(), own_broker(session) as (used, bootstrap, _):
        for number in (jobs,) if jobs else FAILOVER_JOBS:
            cell = new_cell(used)
            command = partial(command_of, cell, bootstrap)
            figures.append(measure_failover(cell.configuration, bootstrap, command, jobs=number, rounds=count, say=say))
        cell = new_cell(used)
        real = measure_real_tasks(cell.configuration, bootstrap, partial(command_of, cell, bootstrap), rounds=count, say=say)
    rows = [row for each in figures for row in _failover_rows(each)]
    rows += [
        *_leader_rows("real tasks, leader killed", real.leader_killed),
        *_task_executor_rows("TaskExecutor killed", real.task_executor_killed),
    ]
    document = {"benchmark": "failover", "cells": [asdict(each) for each in figures], "real_tasks": asdict(real)}
    print_figures(session, rows, document, as_json=as_json)
    losses = [loss for each in figures for loss in (each.leader_killed, each.leader_stopped)] + [real.leader_killed]
    session.err.print(f"{sum(loss.tasks_restarted for loss in losses)} tasks were restarted by {count * len(losses)} changes of leader")
    return ExitCode.OK


@benchmarks.command("heartbeats")
@click.option(
    "--task-managers", type=click.IntRange(1, 100_000), default=10_000, show_default=True, help="How many TaskManagers send heartbeats."
)
@click.option("--slots", type=click.IntRange(1, 1024), default=8, show_default=True, help="Slots of each.")
@click.option(
    "--interval", "interval_ms", type=click.IntRange(min=100), default=10_000, show_default=True, help="Time between heartbeats, in ms."
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=10, show_default=True, help="Windows of ten seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_heartbeats(session: Session, task_managers: int, slots: int, interval_ms: int, rounds: int, *, as_json: bool) -> int:
    """Measure the share of one core that the leader needs for the heartbeats of many TaskManagers."""
    faster = Session(session.config, {**session.overrides, "heartbeat.interval": str(interval_ms)}, verbose=session.verbose)
    with explained(), own_broker(faster) as (used, bootstrap, _):
        command = partial(command_of, used, bootstrap)
        figures = measure_heartbeats(
            used.configuration, bootstrap, command, task_managers=task_managers, slots=slots, rounds=rounds, say=sayer(session)
        )
    rows = [
        as_row("leader without TaskManagers", "% of a core", _percent(figures.idle_share)),
        as_row(f"leader with {task_managers:,} TaskManagers", "% of a core", _percent(figures.share)),
    ]
    print_figures(session, rows, {"benchmark": "heartbeats", **asdict(figures)}, as_json=as_json)
    session.err.print(f"{figures.beats:,} heartbeats, no TaskManager lost; all registered within {figures.registered_s:.1f} s")
    return ExitCode.OK


@benchmarks.command("fleet")
@click.option(
    "--task-executors", type=click.IntRange(4, 100_000), default=1_000, show_default=True, help="How many consumers read deployments."
)
@click.option("--waves", type=click.IntRange(1, 1000), default=5, show_default=True, help="How often each gets an order.")
@click.option("--at-once", is_flag=True, help="All come before the topic has grown, and share the partitions that it began with.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@pass_session
def bench_fleet(session: Session, task_executors: int, waves: int, *, at_once: bool, as_json: bool) -> int:
    """Measure what it costs to give each of many TaskExecutors an order."""
    patient = {"heartbeat.interval": "60000", "heartbeat.missed-beats": "100"}  # These readers send none.
    quiet = Session(session.config, {**session.overrides, **patient}, verbose=session.verbose)
    with explained(), own_broker(quiet) as (used, bootstrap, _):
        command = partial(command_of, used, bootstrap)
        sizes = {"task_executors": task_executors // HOSTS * HOSTS, "waves": waves}
        figures = measure_fleet(used.configuration, bootstrap, command, **sizes, at_once=at_once, say=sayer(session))
    rows = [
        as_row("submit → all tasks finished", "s", figures.seconds),
        as_row("records delivered for each order", "", figures.deliveries),
        as_row("bytes delivered for each order", "bytes", figures.delivered_bytes),
    ]
    print_figures(session, rows, {"benchmark": "fleet", **asdict(figures)}, as_json=as_json)
    session.err.print(f"{figures.task_executors:,} TaskExecutors in {figures.partitions:,} partitions, {figures.fullest:,} in the fullest")
    return ExitCode.OK


def _percent(share: Distribution) -> Distribution:
    return Distribution(share.count, *(100 * value for value in (share.min, share.median, share.p99, share.max)))


def _bench_under_load(session: Session, rounds: int, *, as_json: bool) -> int:
    with explained(), own_broker(session) as (used, bootstrap, _):
        command = partial(command_of, used, bootstrap)
        figures = measure_under_load(used.configuration, bootstrap, command, rounds=rounds, say=sayer(session))
    rows = [
        as_row("kill -9 → new leader granted", "ms", figures.granted_ms),
        as_row("kill -9 → first decision", "ms", figures.decided_ms),
        as_row("submit → accepted, over all kills", "ms", figures.answered_ms),
    ]
    print_figures(session, rows, {"benchmark": "failover-under-load", **asdict(figures)}, as_json=as_json)
    session.err.print(
        f"{figures.rounds} times kill -9 in {figures.seconds:,.0f} s: {figures.submitted:,} submitted, {figures.accepted:,} accepted, "
        f"{figures.found:,} found in the fold, {figures.finished:,} finished; {figures.refused} refused, {figures.unanswered} unanswered, "
        f"{figures.restarted} restarted, {figures.launched_twice} launched twice, {len(figures.lost)} lost"
    )
    for job_id in figures.lost[:10]:
        session.err.print(f"accepted, but not finished: {job_id}")
    return ExitCode.OK if figures.is_clean else ExitCode.NEGATIVE


@benchmarks.command("gate", context_settings={"ignore_unknown_options": True})
@click.option("--base", metavar="COMMIT", help="Compare HEAD with this one.  [default: where HEAD left main, on main the commit before]")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="How often both are measured.")
@click.option("--events", type=click.IntRange(min=1000), default=20_000, show_default=True, help="How long the log is that is replayed.")
@click.option("--cpu-tolerance", type=click.FloatRange(min=0), default=10, show_default=True, help="CPU per job or event, in percent.")
@click.option(
    "--idle-tolerance", type=click.FloatRange(min=0), default=15, show_default=True, help="Share of a core when idle, in percent."
)
@click.option("--floor-tolerance", type=click.FloatRange(min=0), default=25, show_default=True, help="Ratio to the floor, in percent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.argument("submit_arguments", metavar="[-- SUBMIT_OPTIONS]", nargs=-1, type=click.UNPROCESSED)
@pass_session
def bench_gate(
    session: Session,
    base: str | None,
    rounds: int,
    events: int,
    cpu_tolerance: float,
    idle_tolerance: float,
    floor_tolerance: float,
    submit_arguments: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Compare what HEAD costs with what another commit costs: exit code 6 if it is more, beyond noise and tolerance.

    Both are run from trees of their own, in alternation: 'submit --trace', with the options after '--', and 'replay'.
    docs/performance.md says what that can see.
    """
    tolerances = {Kind.JOB: cpu_tolerance, Kind.REPLAY: cpu_tolerance, Kind.IDLE: idle_tolerance, Kind.FLOOR: floor_tolerance}
    replay_arguments, say = ["--events", str(events), "--rounds", "3"], sayer(session)
    try:
        repository = Repository(Path.cwd())
        repository.check_clean()
        commits = (repository.commit(base) if base is not None else repository.default_base(), repository.commit("HEAD"))
        with Trees(repository, session.global_options({}), say) as trees:
            one, other = (trees.write(name, commit) for name, commit in zip(("base", "candidate"), commits, strict=True))
            measured = alternate(one, other, rounds, lambda tree: trees.measure(tree, submit_arguments, replay_arguments), say)
    except NotComparable as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error
    except RunFailed as error:
        raise CommandFailed(ExitCode.NEGATIVE, str(error)) from error
    comparisons = compare(*measured, {kind: percent / 100 for kind, percent in tolerances.items()})
    print_gate(session.err if as_json else session.out, *commits, comparisons)
    if as_json:
        names = ("base", "candidate")
        document = {name: asdict(commit) for name, commit in zip(names, commits, strict=True)}
        session.print_json(
            {
                "benchmark": "gate",
                **document,
                "figures": [asdict(each) for each in comparisons],
                "tolerances": tolerances,
                "machine": machine(),
            }
        )
    return _WORSE if any(each.verdict is Verdict.WORSE for each in comparisons) else ExitCode.OK


def _failover_rows(figures: FailoverFigures) -> list[tuple[str, ...]]:
    name = f"{figures.jobs:,} jobs"
    return [
        *_leader_rows(f"{name}, leader killed", figures.leader_killed),
        *_leader_rows(f"{name}, leader stopped", figures.leader_stopped),
        *_task_executor_rows(f"{name}, host killed", figures.hosts_killed),
    ]


def _leader_rows(name: str, loss: LeaderLoss) -> list[tuple[str, ...]]:
    return [
        as_row(f"{name} → new leader granted", "ms", loss.granted_ms),
        as_row(f"{name}: granted → first decision", "ms", loss.promotion_ms),
        as_row(f"{name} → new job accepted", "ms", loss.accepted_ms),
        as_row(f"{name} → all tasks confirmed", "ms", loss.confirmed_ms),
    ]


def _task_executor_rows(name: str, loss: TaskExecutorLoss) -> list[tuple[str, ...]]:
    return [
        as_row(f"{name} ({loss.how}) → lost", "ms", loss.lost_ms),
        as_row(f"{name} → its tasks RUNNING elsewhere", "ms", loss.running_ms),
        as_row(f"{name}: tasks moved", "tasks", loss.tasks_moved),
    ]
