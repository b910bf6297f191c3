"""The laws that every resource driver keeps. A test module derives from `DriverLaws` and says how a driver is made.

`make` returns a new driver on the same provider, as the next master has it; `registered_after` tells whether a worker really runs.
"""

import abc
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker

ONE, TWO = RequestWorker("worker-1", 1, None), RequestWorker("worker-2", 1, None)
TIMEOUT_S = 120.0


class Heard:
    """A handler that keeps what it is told."""

    def __init__(self) -> None:
        self.told: queue.Queue[tuple[str, str]] = queue.Queue()

    def on_worker_terminated(self, worker_id: str, diagnostics: str) -> None:
        self.told.put((worker_id, diagnostics))


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {TIMEOUT_S} s"
        time.sleep(0.05)
    return value


class Provider(abc.ABC):
    """What the laws need to know of what stands behind a driver."""

    @abc.abstractmethod
    def make(self) -> ResourceDriver:
        """Return a driver of one more master."""

    @abc.abstractmethod
    def kill(self, worker_id: str) -> None:
        """Have a worker end as by a failure."""

    @abc.abstractmethod
    def running(self) -> set[str]:
        """Return the workers that run, as the provider itself shows them."""


def listed(driver: ResourceDriver) -> dict[str, ListedWorker]:
    return {worker.worker_id: worker for worker in driver.list_workers()}


class DriverLaws:
    """The laws; `provider` is a fixture of the module that derives from it."""

    @pytest.fixture
    def driver(self, provider: Provider) -> Iterator[ResourceDriver]:
        made = provider.make()
        yield made
        made.deregister_application("SUCCEEDED", "the test is over")
        made.close()

    @pytest.fixture
    def heard(self, driver: ResourceDriver) -> Heard:
        handler = Heard()
        driver.lead(1, handler)
        return handler

    def test_a_worker_that_is_asked_for_is_in_the_list_at_once_and_comes(
        self, provider: Provider, driver: ResourceDriver, heard: Heard
    ) -> None:
        driver.request_worker(ONE)
        assert listed(driver)["worker-1"].is_running
        wait_for(lambda: provider.running() == {"worker-1"}, "worker-1 runs")
        assert heard.told.empty()

    def test_a_worker_that_is_asked_for_twice_comes_once(self, provider: Provider, driver: ResourceDriver, heard: Heard) -> None:
        for _ in range(3):
            driver.request_worker(ONE)
        wait_for(lambda: provider.running() == {"worker-1"}, "worker-1 runs")
        driver.request_worker(ONE)
        assert list(listed(driver)) == ["worker-1"]
        assert heard.told.empty()

    def test_a_worker_that_is_stopped_ends_and_is_in_the_list_no_more(
        self, provider: Provider, driver: ResourceDriver, heard: Heard
    ) -> None:
        driver.request_worker(ONE)
        driver.request_worker(TWO)
        wait_for(lambda: provider.running() == {"worker-1", "worker-2"}, "both run")
        driver.stop_worker("worker-1")
        wait_for(lambda: list(listed(driver)) == ["worker-2"], "worker-1 is gone")
        assert provider.running() == {"worker-2"}
        assert heard.told.empty(), "who has it stopped knows"

    def test_a_worker_that_is_stopped_while_it_is_started_ends(self, provider: Provider, driver: ResourceDriver, heard: Heard) -> None:
        driver.request_worker(ONE)
        driver.stop_worker("worker-1")
        wait_for(lambda: not listed(driver), "worker-1 is gone")
        assert not provider.running()
        assert heard.told.empty()

    def test_stopping_what_is_not_there_does_nothing(self, driver: ResourceDriver, heard: Heard) -> None:
        driver.stop_worker("worker-9")
        assert not listed(driver)
        assert heard.told.empty()

    def test_a_worker_that_ends_by_itself_is_told_and_stays_in_the_list_until_it_is_stopped(
        self, provider: Provider, driver: ResourceDriver, heard: Heard
    ) -> None:
        driver.request_worker(ONE)
        wait_for(lambda: provider.running() == {"worker-1"}, "worker-1 runs")
        provider.kill("worker-1")
        worker_id, diagnostics = heard.told.get(timeout=TIMEOUT_S)
        assert worker_id == "worker-1"
        assert diagnostics
        assert not listed(driver)["worker-1"].is_running
        driver.stop_worker("worker-1")
        wait_for(lambda: not listed(driver), "worker-1 is gone")

    def test_the_next_master_finds_the_workers_that_run_and_those_that_ended(
        self, provider: Provider, driver: ResourceDriver, heard: Heard
    ) -> None:
        driver.request_worker(ONE)
        driver.request_worker(TWO)
        wait_for(lambda: provider.running() == {"worker-1", "worker-2"}, "both run")
        driver.close()
        provider.kill("worker-1")
        following = provider.make()
        following.lead(2, heard)
        found = listed(following)
        assert {worker_id: worker.is_running for worker_id, worker in found.items()} == {"worker-1": False, "worker-2": True}
        for worker_id in found:
            following.stop_worker(worker_id)
        wait_for(lambda: not listed(following), "all are gone")
        following.close()

    def test_closing_a_driver_leaves_its_workers_alone(self, provider: Provider, driver: ResourceDriver, heard: Heard) -> None:
        driver.request_worker(ONE)
        wait_for(lambda: provider.running() == {"worker-1"}, "worker-1 runs")
        driver.close()
        assert provider.running() == {"worker-1"}
        assert heard.told.empty()

    def test_a_leader_that_another_one_followed_starts_nothing(self, provider: Provider, driver: ResourceDriver, heard: Heard) -> None:
        following = provider.make()
        following.lead(2, Heard())
        driver.request_worker(ONE)
        worker_id, _ = heard.told.get(timeout=TIMEOUT_S)
        assert worker_id == "worker-1"
        assert not provider.running()
        following.close()

    def test_after_the_application_is_deregistered_no_worker_runs_and_none_is_started(
        self, provider: Provider, driver: ResourceDriver, heard: Heard
    ) -> None:
        driver.request_worker(ONE)
        wait_for(lambda: provider.running() == {"worker-1"}, "worker-1 runs")
        driver.request_worker(TWO)
        driver.deregister_application("FAILED", "a job failed")
        assert not provider.running()
        with pytest.raises(Exception, match="the cluster is shut down"):
            driver.request_worker(RequestWorker("worker-3", 1, None))
        time.sleep(1.0)  # Whatever was just being started had the time to come.
        assert not provider.running()
        assert heard.told is not None

    def test_who_does_not_lead_starts_nothing(self, driver: ResourceDriver) -> None:
        with pytest.raises(Exception, match="nobody leads"):
            driver.request_worker(ONE)
