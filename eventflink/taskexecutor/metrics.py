"""The metrics of a running TaskExecutor: its collectors, and how the thread that serves scrapes asks the main loop.

The main loop only says what it knows (`look`), as one more item of its inbox; what has to be asked of the system (the processor time of a
task's process, whether Spark's server lives) is asked in the thread that serves the scrape.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil

from eventflink.metrics import metric_catalogue as c
from eventflink.metrics.registry import Collect, MetricRegistry, Samples, ask_directly
from eventflink.metrics.service import new_registry
from eventflink.model.configuration import Configuration
from eventflink.model.metric_settings import MetricScope
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState
from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.protocol import Action, Phase, TaskExecutorProtocol
from eventflink.taskexecutor.protocol.attempts import KnownAttempt
from eventflink.taskexecutor.spark_server import is_server_alive

R = TypeVar("R")


class MainLoopBusy(Exception):
    """The main loop's inbox is full, or closed."""


@dataclass(frozen=True, slots=True)
class TaskExecutorView:
    """What the main loop has to say; it is read in the main loop."""

    protocol: TaskExecutorProtocol
    inbox_length: int
    process_count: int
    now_ms: int


def task_executor_registry(
    configuration: Configuration, runtime_directory: Path, inbox: Inbox, look: Callable[[int], TaskExecutorView]
) -> MetricRegistry:
    """Return the registry of a TaskExecutor; `look` is only called in the main loop that empties `inbox`."""
    registry = new_registry(configuration, MetricScope.TASKMANAGER, {"tm_id": configuration.task_manager_id})
    registry.add_source("main-loop", partial(_ask_main_loop, inbox, look), main_loop_collectors(configuration.slots))
    if not configuration.spark_remote:
        registry.add_source("spark", ask_directly, {"spark-server": partial(_collect_spark, runtime_directory)})
    return registry


def _ask_main_loop(inbox: Inbox, look: Callable[[int], TaskExecutorView], work: Callable[[TaskExecutorView], R]) -> "Future[R]":
    """Put the question among the things that happened.

    Raises:
        MainLoopBusy: there is no room.

    """
    future: Future[R] = Future()

    def answer(now_ms: int) -> list[Action]:
        try:
            future.set_result(work(look(now_ms)))
        except Exception as error:  # noqa: BLE001 - reported to the caller; the main loop continues
            future.set_exception(error)
        return []

    if not inbox.try_put_input(answer):
        raise MainLoopBusy(f"{len(inbox)} things wait for the main loop")
    return future


def main_loop_collectors(slots: int) -> dict[str, Collect[TaskExecutorView]]:
    """Return the collectors of what the main loop knows."""
    return {
        "instance": _collect_instance,
        "slots": partial(_collect_slots, slots),
        "tasks": _collect_tasks,
        "processes": _collect_processes,
    }


def _collect_instance(view: TaskExecutorView, samples: Samples) -> None:
    protocol, counters = view.protocol, view.protocol.counters
    samples.add_one_of(c.PHASE, protocol.phase.name, [phase.name for phase in Phase])
    samples.add(c.TM_EPOCH, protocol.newest_epoch)
    samples.add(c.INSTANCES, counters.instances)
    samples.add(c.FENCES, counters.fences)
    samples.add(c.SPARK_ENDS, counters.spark_ends)
    samples.add(c.HEARTBEATS_SENT, counters.heartbeats_sent)
    samples.add(c.HEARTBEATS_ACKNOWLEDGED, counters.heartbeats_acknowledged)
    if protocol.acknowledged_ms is not None:
        samples.add(c.ACKNOWLEDGED_HEARTBEAT_AGE, max(0, view.now_ms - protocol.acknowledged_ms) / 1000)
    samples.add(c.TM_UPLOADS, protocol.upload_count)
    samples.add(c.TM_INBOX, view.inbox_length)


def _collect_slots(slots: int, view: TaskExecutorView, samples: Samples) -> None:
    samples.add(c.TM_SLOTS, slots)
    samples.add(c.TM_FREE_SLOTS, view.protocol.free_slots)


def _collect_processes(view: TaskExecutorView, samples: Samples) -> None:
    samples.add(c.TASK_PROCESSES, view.process_count)
    samples.add(c.FORK_SERVER_UP, float(view.protocol.has_fork_server))
    samples.add(c.FORK_SERVER_STARTS, view.protocol.counters.fork_server_starts)


def _collect_tasks(view: TaskExecutorView, samples: Samples) -> None:
    counters, attempts = view.protocol.counters, view.protocol.live_attempts()
    states = Counter(known.state for known in attempts)
    for state in ExecutionState:
        if state not in TERMINAL_EXECUTION_STATES:
            samples.add(c.TM_TASKS, states[state], state)
    samples.add(c.TASK_STARTS, counters.tasks_started)
    samples.add(c.TASK_REFUSALS, counters.tasks_refused)
    samples.add(c.INCOMPLETE_DEPLOYMENTS, counters.deployments_incomplete)
    for state in sorted(TERMINAL_EXECUTION_STATES):
        samples.add(c.TASK_ENDS, counters.tasks_ended[state], state)
    samples.later.extend(
        partial(_collect_task, known.process_id, _scope_of(known), view.now_ms - known.deployed_at_ms) for known in attempts
    )


def _scope_of(known: KnownAttempt) -> Mapping[str, str]:
    attempt = known.attempt
    return {
        "job_id": attempt.job_id,
        "job_name": known.job_name,
        "task_id": attempt.vertex_id,
        "subtask_index": str(attempt.subtask_index),
        "task_attempt_num": str(attempt.attempt),
    }


def _collect_task(process_id: int, scope: Mapping[str, str], age_ms: int, samples: Samples) -> None:
    samples.add(c.TASK_AGE, age_ms / 1000, scope=scope)
    if not process_id:
        return
    try:
        process = psutil.Process(process_id)
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
    except psutil.Error:  # It has just ended.
        return
    samples.add(c.TASK_CPU, times.user + times.system, scope=scope)
    samples.add(c.TASK_MEMORY, memory.rss, scope=scope)


def _collect_spark(runtime_directory: Path, _context: None, samples: Samples) -> None:
    samples.add(c.SPARK_UP, float(is_server_alive(runtime_directory)))
