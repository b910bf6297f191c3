"""What a driver is told to do follows from accepted orders and from what it lists, in whatever order they come."""

import itertools

import pytest

from eventflink.leadership import worker_reconciliation
from eventflink.leadership.worker_reconciliation import DriverSteps, ListedWorker, WorkerReconciler
from eventflink.master.effects import RequestWorker, StopWorker, WorkerOrder, WorkersWanted
from eventflink.master.inputs import WorkerTerminated

ONE, TWO = RequestWorker("worker-1", 2, None), RequestWorker("worker-2", 2, None)
NOTHING = DriverSteps((), (), ())
NOBODY = WorkersWanted((), ())


def _after(*orders: WorkerOrder) -> WorkerReconciler:
    made = WorkerReconciler()
    for order in orders:
        made.accept_order(order)
    return made


def _running(*worker_ids: str) -> list[ListedWorker]:
    return [ListedWorker(worker_id, is_running=True) for worker_id in worker_ids]


def test_a_worker_is_asked_of_the_driver_once() -> None:
    reconciler = _after(ONE)
    assert reconciler.compare([]).requests == (ONE,)
    reconciler.accept_order(ONE)
    assert reconciler.compare(_running("worker-1")) == NOTHING


def test_a_worker_that_a_former_leader_started_is_adopted() -> None:
    assert _after(WorkersWanted((ONE,), ("worker-2",))).compare(_running("worker-1", "worker-2")) == NOTHING


def test_what_a_former_leader_wanted_and_did_not_start_is_started() -> None:
    assert _after(WorkersWanted((ONE, TWO), ())).compare(_running("worker-1")).requests == (TWO,)


def test_a_worker_that_nobody_wants_is_an_orphan() -> None:
    assert _after(WorkersWanted((), ("worker-2",))).compare(_running("worker-1", "worker-2")).stops == ("worker-1",)


def test_nothing_is_an_orphan_before_all_that_is_wanted_is_known() -> None:
    assert _after(ONE).compare(_running("worker-1", "worker-7")) == NOTHING


def test_a_worker_that_has_ended_is_reported_once_and_stopped_when_it_is_given_up() -> None:
    reconciler = _after(NOBODY, ONE)
    reconciler.compare([])
    dead = [ListedWorker("worker-1", is_running=False, diagnostics="exit code 1")]
    assert reconciler.compare(dead) == DriverSteps((), (), (WorkerTerminated("worker-1", "exit code 1"),))
    assert reconciler.compare(dead) == NOTHING
    reconciler.accept_order(StopWorker("worker-1"))
    assert reconciler.compare(dead).stops == ("worker-1",)
    assert reconciler.compare([]) == NOTHING


def test_a_worker_that_was_asked_for_and_vanished_is_reported_and_not_asked_for_again() -> None:
    reconciler = _after(NOBODY, ONE)
    reconciler.compare([])
    [terminated] = reconciler.compare([]).terminated
    assert terminated == WorkerTerminated("worker-1", "the resource driver knows of it no more")
    assert reconciler.compare([]) == NOTHING


def test_a_registered_worker_that_the_driver_does_not_know_is_reported_and_never_started() -> None:
    steps = _after(WorkersWanted((), ("worker-1",))).compare([])
    assert (steps.requests, [t.worker_id for t in steps.terminated]) == ((), ["worker-1"])


@pytest.mark.parametrize("orders", list(itertools.permutations([WorkersWanted((ONE,), ("worker-2",)), StopWorker("worker-1"), TWO, ONE])))
def test_what_was_told_to_be_stopped_stays_stopped_in_whatever_order_the_orders_come(orders: tuple[WorkerOrder, ...]) -> None:
    steps = _after(*orders).compare(_running("worker-1", "worker-2"))
    assert (steps.requests, steps.stops) == ((), ("worker-1",))


def test_what_is_remembered_of_stopped_workers_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_reconciliation, "MAX_STOPPED", 3)
    reconciler = _after(*(StopWorker(f"worker-{n}") for n in range(9)))
    assert list(reconciler.stopped) == ["worker-6", "worker-7", "worker-8"]
