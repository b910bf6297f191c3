"""The metrics of a running master: its registry, and how the thread that serves scrapes asks the loop that decides.

The loop is asked by one call that it makes when it comes to it; nothing in it waits, and a scrape gives up waiting for it after a
second.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from eventflink.entrypoint.leadership_metrics import LeadershipMetrics
from eventflink.entrypoint.master_collectors import MasterView, StateView, state_collectors, work_collectors
from eventflink.leadership.fold import Fold
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.metrics.registry import MetricRegistry
from eventflink.metrics.service import new_registry
from eventflink.model.configuration import Configuration
from eventflink.model.metric_settings import MetricScope

R = TypeVar("R")


class StateNotRead(Exception):
    """The accepted state cannot be read now; the message says why."""


def master_registry(
    configuration: Configuration, work: LeadershipMetrics, loop: asyncio.AbstractEventLoop, look: Callable[[], MasterView]
) -> MetricRegistry:
    """Return the registry of a master whose loop is `loop`; `look` is only called there."""
    registry = new_registry(configuration, MetricScope.JOBMANAGER, {"jm_id": configuration.master_id})
    registry.add("work", partial(_ask_loop, loop, look), work_collectors(work))
    registry.add("state", partial(_ask_state, loop, look), state_collectors(configuration.metrics_max_jobs))
    return registry


def _ask_loop(loop: asyncio.AbstractEventLoop, look: Callable[[], MasterView], work: Callable[[MasterView], R]) -> "Future[R]":
    """Have the loop look, between two of its turns."""
    future: Future[R] = Future()

    def answer() -> None:
        try:
            future.set_result(work(look()))
        except Exception as error:  # noqa: BLE001 - reported to the caller; the loop continues
            future.set_exception(error)

    loop.call_soon_threadsafe(answer)
    return future


def _ask_state(loop: asyncio.AbstractEventLoop, look: Callable[[], MasterView], work: Callable[[StateView], R]) -> "Future[R]":
    """Have the present participant answer a read, as the query server does: once what it reflects was accepted."""
    future: Future[R] = Future()

    def ask() -> None:
        view = look()
        participant = view.participant
        if participant is None:
            future.set_exception(StateNotRead("this master builds its state from the log"))
            return

        def compute(fold: Fold) -> Any:
            clock = participant.clock
            leads = clock is not None and participant.leader is not None
            now_ms = clock.read(view.now_ms, view.wall_ms) if clock is not None and leads else fold.last_decided_at_ms
            return work(StateView(fold, now_ms))

        def deliver(answered: Answered | ReadRefused) -> None:
            if isinstance(answered, ReadRefused):
                future.set_exception(StateNotRead(str(answered)))
            else:
                future.set_result(answered.value)

        participant.reads.ask(Read(-1, compute, deliver))

    loop.call_soon_threadsafe(ask)
    return future
