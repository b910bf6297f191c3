"""What the TaskExecutor is told of a fork server that cannot be started, and of one that it ends; real ones, but no Kafka."""

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from eventflink.events.effects import DeploymentEnvelope, RegistrationAccepted, TaskInput
from eventflink.model.attempts import OutputLocation
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import build_configuration
from eventflink.model.statuses import ShipStrategy, TaskType
from eventflink.processes.file_lock import FileLock
from eventflink.taskexecutor.guardian_link import GuardianLink
from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.location_files import read_locations
from eventflink.taskexecutor.process_events import (
    EndTask,
    Failed,
    Killed,
    LaunchTask,
    ProcessEvent,
    ReleaseSpark,
    SparkOpened,
    SparkReleased,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.process_link import ProcessLink
from eventflink.taskexecutor.protocol import Action, MainLoop, StartForkServer
from tests.support.hand import NOWHERE
from tests.unit.test_taskexecutor_protocol import SETTINGS, A, deployment


class Executor:
    """A main loop with its inbox and the link to processes; nothing else is started."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.inbox = Inbox()
        self.loop = MainLoop(SETTINGS, lambda: "i1")
        guardian = GuardianLink(access_to(NOWHERE, "nowhere"), "tm", directory / "guardian.log", FileLock(directory / "lock", 15.0))
        configuration = build_configuration({"taskmanager.id": "tm", "data.directory": str(directory)} | settings, "test")
        self.link = ProcessLink(
            configuration, access_to("127.0.0.1:9", "test"), directory, directory / "run", self.inbox, self.loop.protocol, guardian
        )
        self.loop.turn(0, 0, [partial(self.loop.protocol.on_positioned, 0)])

    def turn_until(self, is_so: Callable[[], bool], now_ms: int) -> None:
        deadline = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < deadline
            for on_input in self.inbox.take_inputs(0.05, 16):
                on_input(now_ms)

    def turn(self, now_ms: int) -> list[type]:
        return [type(action) for action in self.loop.turn(now_ms, now_ms, self.inbox.take_inputs(0, 16))]


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[Executor]:
    executor = Executor(tmp_path)
    yield executor
    executor.link.close()


@pytest.fixture
def late(tmp_path: Path) -> Iterator[Executor]:
    """One whose fork server with Spark's client starts when a task is expected to use Spark."""
    executor = Executor(tmp_path, **{"spark.start-early": "false"})
    executor.link.start()
    yield executor
    executor.link.close()
    assert not executor.link.process_ids()


def launch(executor: Executor) -> None:
    """Launch a task that is expected to use Spark."""
    order = LaunchTask(replace(deployment(), task_type=TaskType.SQL, task="SELECT 1"), str(uuid.uuid4()), "")
    executor.link.send_order(order)


def told_to(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> list[ProcessEvent]:
    """Return what the protocol is told from now on."""
    told: list[ProcessEvent] = []

    def take(event: ProcessEvent, _now_ms: int) -> list[Action]:
        told.append(event)
        return []

    monkeypatch.setattr(executor.loop.protocol, "on_process_event", take)
    return told


def test_a_fork_server_that_cannot_be_started_is_started_again_later(executor: Executor, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("no directory")
    executor.link.start()
    assert not executor.link.process_ids()
    executor.turn_until(lambda: not executor.loop.protocol.has_fork_server, 10)
    assert StartForkServer in executor.turn(1_000)
    assert executor.loop.protocol.has_fork_server


def test_a_fork_server_that_was_ended_is_dead_once(executor: Executor) -> None:
    executor.link.end("it was told to launch a task and did not")
    executor.link.end("it was ended already")
    executor.turn_until(lambda: not executor.loop.protocol.has_fork_server, 10)
    assert StartForkServer in executor.turn(110)  # After a second death it would take twice as long.
    assert executor.loop.protocol.counters.fork_server_starts == 2


def test_while_a_fork_server_is_being_ended_the_loop_continues(executor: Executor) -> None:
    """One that is stuck is only gone after the kill timeout; as long as it is there, its tasks may be."""
    executor.link.start()
    stuck, *_ = executor.link.process_ids()
    assert executor.link._servers[0].wait_until_ready(60)
    os.kill(stuck, signal.SIGSTOP)
    executor.link.end("it was told to launch a task and did not")
    assert stuck in executor.link.process_ids()
    assert executor.turn(5) == []
    assert executor.loop.protocol.has_fork_server
    os.kill(stuck, signal.SIGCONT)
    executor.turn_until(lambda: not executor.loop.protocol.has_fork_server, 10)
    assert not executor.link.process_ids()


@pytest.mark.rule("P15")
def test_what_dead_fork_servers_left_is_released_while_the_client_of_spark_is_still_loaded(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_to(executor, monkeypatch)
    executor.link.start()
    loading = executor.link._servers[1].process_ids()[0]
    os.kill(loading, signal.SIGSTOP)
    try:
        executor.link.send_order(ReleaseSpark(A, str(uuid.uuid4()), "sc://localhost:1"))
        executor.turn_until(lambda: SparkReleased(A) in told, 10)
    finally:
        os.kill(loading, signal.SIGCONT)


def test_what_the_processes_had_told_before_their_fork_server_was_ended_counts_before_its_end(executor: Executor) -> None:
    """However much waits: of an attempt that had opened a Spark session, the end is reported only when that is released (P15)."""
    protocol = executor.loop.protocol
    for payload in (RegistrationAccepted("blob:1", 1), deployment()):
        effect = DeploymentEnvelope(epoch=1, task_manager_id="tm", instance_id="i1", payload=payload)
        executor.loop.turn(0, 0, [partial(protocol.on_deployment, effect)])
    assert [known.attempt for known in protocol.live_attempts()] == [A]
    for _ in range(20):
        executor.inbox.put_input(lambda _now_ms: [])
    executor.link._put_event(0, SparkOpened(A, "a session", "sc://nowhere"))
    executor.link.end("it was told to end another task and did not")
    executor.turn_until(lambda: not protocol.has_fork_server, 10)
    assert [known.attempt for known in protocol.live_attempts()] == [A]


def test_a_task_that_is_ended_while_the_client_of_spark_is_loaded_for_it_does_not_begin(
    late: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_to(late, monkeypatch)
    launch(late)
    loading = late.link._servers[1].process_ids()[0]
    os.kill(loading, signal.SIGSTOP)
    late.link.send_order(EndTask(A, 500))
    os.kill(loading, signal.SIGCONT)
    late.turn_until(lambda: any(isinstance(event, TaskProcessEnded) for event in told), 10)
    assert TaskProcessEnded(A, Killed(signal.SIGTERM)) in told


def test_a_fork_server_that_dies_while_it_loads_the_client_of_spark_ends_the_other_one_too(late: Executor) -> None:
    plain = late.link.process_ids()[0]
    launch(late)
    os.kill(late.link._servers[1].process_ids()[0], signal.SIGKILL)
    late.turn_until(lambda: not late.loop.protocol.has_fork_server, 10)
    assert not Path(f"/proc/{plain}").exists()
    late.link.start()
    assert late.link._servers[0].wait_until_ready(60)
    assert not late.link._servers[1].is_started


def test_a_task_executor_stops_while_the_client_of_spark_is_loaded(late: Executor) -> None:
    launch(late)
    loading = late.link._servers[1].process_ids()[0]
    os.kill(loading, signal.SIGSTOP)
    late.link.close()
    assert not Path(f"/proc/{loading}").exists()


def test_where_the_fork_server_with_the_client_of_spark_cannot_start_the_other_one_launches(
    late: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_to(late, monkeypatch)
    (tmp_path / "spark-fork-server.log").mkdir()
    launch(late)
    assert not late.link._servers[1].is_started
    late.turn_until(lambda: any(isinstance(event, TaskLaunched) and event.attempt == A for event in told), 10)


def test_a_task_reads_its_long_list_from_a_file_that_goes_when_it_has_ended(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tasks fail: one without its file, one later, since there is no module `m`."""
    told = told_to(executor, monkeypatch)
    executor.link.start()
    where = tuple([OutputLocation("out", f"/nowhere/{n}", 1, 1, 1, "digest") for n in range(300)])
    task_input = TaskInput("in", ShipStrategy.REBALANCE, (), where, locations_id="list")
    directory = tmp_path / "run" / "input-locations" / "tm"
    causes: list[str] = []
    for number in (1, 2):
        server, *_ = executor.link.process_ids()
        os.kill(server, signal.SIGSTOP)
        executor.link.send_order(LaunchTask(replace(deployment(), attempt=number, inputs=(task_input,)), str(uuid.uuid4()), ""))
        [path] = directory.iterdir()
        if number == 1:
            path.unlink()
        os.kill(server, signal.SIGCONT)
        executor.turn_until(lambda: any(isinstance(each, TaskProcessEnded) for each in told), 10)
        assert not list(directory.iterdir())
        [outcome] = [each.outcome for each in told if isinstance(each, TaskProcessEnded)]
        assert isinstance(outcome, Failed)
        causes.append(outcome.cause.failure_type)
        told.clear()
    assert causes == ["FileNotFoundError", "UnknownFunction"]


def test_task_executors_of_one_data_directory_put_lists_into_directories_of_their_own(tmp_path: Path) -> None:
    """The end of one's last task, or of its fork servers, takes no list from the tasks of another."""
    first, second = (Executor(tmp_path, **{"taskmanager.id": name}).link for name in ("tm-1", "tm-2"))
    task_input = TaskInput("in", ShipStrategy.REBALANCE, (), (OutputLocation("out", "/nowhere", 1, 1, 1, "digest"),), locations_id="list")
    order = LaunchTask(replace(deployment(), inputs=(task_input,)), str(uuid.uuid4()), "")
    told = [link._locations.put(order) for link in (first, second)]
    first._locations.release(order.attempt)
    first._locations.clear()
    assert read_locations(second._settings[0].locations_directory, told[1]) == order
