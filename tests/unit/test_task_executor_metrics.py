"""The metrics of a TaskExecutor, read from the real protocol in a main loop that this test turns."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from eventflink.events.effects import DeploymentEnvelope, DeploymentPayload, RegistrationAccepted, TaskDeployment, TaskInput
from eventflink.metrics import registry as registry_module
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.configuration import build_configuration
from eventflink.model.statuses import ShipStrategy, TaskType
from eventflink.processes.file_lock import open_lock, try_lock
from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.metrics import TaskExecutorView, task_executor_registry
from eventflink.taskexecutor.process_events import (
    Failed,
    Finished,
    ForkServerDied,
    Outcome,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.protocol import ProtocolSettings, SendHeartbeat, TaskExecutorProtocol
from eventflink.taskexecutor.spark_server import SERVER_FILE
from tests.support.scrapes import Scrape, scrape_registry

TM = "eventflink_taskmanager_"
SETTINGS = ProtocolSettings(
    task_manager_id="tm-1",
    host="host",
    process_id=1,
    slot_count=3,
    heartbeat_interval_ms=1000,
    self_fence_timeout_ms=3500,
    kill_timeout_ms=1000,
)


class MainLoop:
    """The protocol with its inbox; times are set, processes are told of, nothing is started."""

    def __init__(self, directory: Path, **configuration: object) -> None:
        self.inbox = Inbox(capacity=4)
        self.protocol = TaskExecutorProtocol(SETTINGS)
        self.now_ms = 10_000
        self.directory = directory
        keys = {"taskmanager.id": "tm-1", "taskmanager.numberOfTaskSlots": 3, "data.directory": str(directory), **configuration}
        self.configuration = build_configuration(keys, "test")
        self.instances = 0
        self.begin()

    def begin(self) -> None:
        self.instances += 1
        self.protocol.start(self.now_ms, f"instance-{self.instances}", 1_800_000_000_000)
        self.effect(RegistrationAccepted("blob:1", 1))

    def effect(self, payload: DeploymentPayload, epoch: int = 7) -> None:
        envelope = DeploymentEnvelope(epoch=epoch, task_manager_id="tm-1", instance_id=self.protocol.instance_id, payload=payload)
        self.protocol.on_deployment(envelope, self.now_ms)

    def deploy(self, subtask: int, slot: int, process_id: int, inputs: tuple[TaskInput, ...] = ()) -> AttemptId:
        attempt = AttemptId("job-1", "numbers", subtask, 1)
        deployment = TaskDeployment(
            *attempt,
            allocation_id=f"allocation-{subtask}",
            slot_index=slot,
            job_name="a job",
            task_type=TaskType.PYTHON,
            task="m:f",
            parallelism=2,
            max_parallelism=128,
            parameters_json="{}",
            inputs=inputs,
            outputs=(),
            code_archives=(),
        )
        self.effect(deployment)
        if process_id:
            self.protocol.on_process_event(TaskLaunched(attempt, process_id), self.now_ms)
        return attempt

    def look(self, now_ms: int) -> TaskExecutorView:
        return TaskExecutorView(self.protocol, len(self.inbox), 5, now_ms)

    @contextmanager
    def turning(self) -> Iterator[None]:
        """Empty the inbox in another thread, as the main loop does."""
        ended = threading.Event()

        def turn() -> None:
            while not ended.is_set():
                for item in self.inbox.take_inputs(0.01, 16):
                    item(self.now_ms)

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def scrape(self) -> Scrape:
        with self.turning():
            return scrape_registry(task_executor_registry(self.configuration, self.directory, self.inbox, self.look))


def test_slots_and_running_tasks_by_state(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    running, _ = loop.deploy(0, 0, os.getpid()), loop.deploy(1, 1, 0)
    loop.protocol.on_process_event(TaskInitialized(running), loop.now_ms)
    scrape = loop.scrape()
    assert (scrape.one(f"{TM}task_slots", tm_id="tm-1", cluster_id="eventflink"), scrape.one(f"{TM}task_slots_free")) == (3, 1)
    assert scrape.by("state", f"{TM}tasks") == {"RUNNING": 1, "DEPLOYING": 1}
    assert scrape.one(f"{TM}task_starts_total") == 1
    assert scrape.by("phase", f"{TM}phase") == {"REGISTERED": 1}
    assert scrape.one(f"{TM}epoch") == 7
    assert scrape.one(f"{TM}task_processes") == 5
    assert scrape.one(f"{TM}fork_server_up") == 1
    assert scrape.one(f"{TM}fork_server_starts_total") == 1


def test_a_running_task_has_the_numbers_of_its_process(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    loop.deploy(0, 0, os.getpid())
    loop.now_ms += 2_500
    scrape = loop.scrape()
    task = {"job_id": "job-1", "task_id": "numbers", "subtask_index": "0", "task_attempt_num": "1"}
    assert scrape.one(f"{TM}task_age_seconds", **task) == 2.5
    memory = psutil.Process().memory_info().rss
    assert scrape.one(f"{TM}task_resident_memory_bytes", **task) == pytest.approx(memory, rel=0.5)
    assert 0 < scrape.one(f"{TM}task_cpu_seconds_total", **task) <= time.process_time() + 1


def test_a_task_whose_process_is_gone_has_its_age_only(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    loop.deploy(0, 0, 2**22 + 1)  # Above the largest process id that Linux gives.
    scrape = loop.scrape()
    assert scrape.one(f"{TM}task_age_seconds") == 0
    assert scrape.values(f"{TM}task_cpu_seconds_total") == []
    assert scrape.by("collector", "eventflink_metrics_collector_failures_total") == {}


def test_starts_ends_and_refusals_are_counted_over_all_instances(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    protocol = loop.protocol
    outcomes: list[Outcome] = [Finished(()), Failed(FailureCause("ValueError", "no")), Finished(())]
    for subtask, outcome in enumerate(outcomes):
        attempt = loop.deploy(subtask, subtask, 77)
        protocol.on_process_event(TaskProcessEnded(attempt, outcome), loop.now_ms)
    loop.deploy(3, 0, 77)
    loop.deploy(4, 0, 0)  # The slot is taken.
    unknown = TaskInput("in", ShipStrategy.HASH, ("k",), (), locations_id="never told")
    loop.deploy(4, 1, 0, inputs=(unknown,))
    protocol.on_effects_lost("a hole", 0, loop.now_ms)
    protocol.on_process_event(TaskProcessEnded(AttemptId("job-1", "numbers", 3, 1), Failed(FailureCause("Killed", ""))), loop.now_ms)
    loop.begin()
    scrape = loop.scrape()
    assert scrape.one(f"{TM}task_starts_total") == 4
    assert scrape.one(f"{TM}task_refusals_total") == 1
    assert scrape.one(f"{TM}incomplete_deployments_total") == 1
    assert scrape.by("state", f"{TM}task_ends_total") == {"FINISHED": 2, "FAILED": 2}
    assert scrape.one(f"{TM}instances_total") == 2
    assert scrape.one(f"{TM}self_fences_total") == 1
    assert scrape.one(f"{TM}task_slots_free") == 3


def test_a_fork_server_that_died_is_told(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    loop.protocol.on_process_event(ForkServerDied("killed"), loop.now_ms)
    assert loop.scrape().one(f"{TM}fork_server_up") == 0
    loop.protocol.on_tick(loop.now_ms + 1_000)
    scrape = loop.scrape()
    assert (scrape.one(f"{TM}fork_server_up"), scrape.one(f"{TM}fork_server_starts_total")) == (1, 2)


def test_heartbeats_are_counted_and_the_last_acknowledged_one_ages(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    sent = []
    for _ in range(3):
        loop.now_ms += 1_000
        sent += [a.sent_at_ms for a in loop.protocol.on_tick(loop.now_ms) if isinstance(a, SendHeartbeat)]
    loop.protocol.on_heartbeat_acknowledged(sent[1], loop.now_ms)
    loop.now_ms += 400
    scrape = loop.scrape()
    assert scrape.one(f"{TM}heartbeats_sent_total") == len(sent) == 3
    assert scrape.one(f"{TM}heartbeats_acknowledged_total") == 1
    assert scrape.one(f"{TM}acknowledged_heartbeat_age_seconds") == (loop.now_ms - sent[1]) / 1000


def test_spark_is_up_while_its_supervisor_holds_its_lock(tmp_path: Path) -> None:
    loop = MainLoop(tmp_path)
    assert loop.scrape().one(f"{TM}spark_server_up") == 0
    descriptor = open_lock(tmp_path / SERVER_FILE)
    try:
        assert try_lock(descriptor, fcntl.LOCK_EX)
        assert loop.scrape().one(f"{TM}spark_server_up") == 1
    finally:
        os.close(descriptor)
    elsewhere = MainLoop(tmp_path, **{"spark.remote": "sc://spark:15002"})
    assert elsewhere.scrape().values(f"{TM}spark_server_up") == []


def test_a_main_loop_that_does_not_turn_or_is_full_costs_its_own_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = MainLoop(tmp_path)
    registry = task_executor_registry(loop.configuration, loop.directory, loop.inbox, loop.look)
    failures = "eventflink_metrics_collector_failures_total"
    began = time.monotonic()
    scrape = scrape_registry(registry)
    assert time.monotonic() - began > 0.9
    assert scrape.by("collector", failures) == {"main-loop": 1}
    assert scrape.one("eventflink_process_threads") >= 1
    time.sleep(0.3)
    scrape_registry(registry)
    assert len(loop.inbox) == 1  # It is not asked again before it has answered.
    while loop.inbox.try_put_input(lambda _: []):
        pass
    monkeypatch.setattr(registry_module, "ASK_TIMEOUT_S", 60)
    other = task_executor_registry(loop.configuration, loop.directory, loop.inbox, loop.look)
    began = time.monotonic()
    assert scrape_registry(other).by("collector", failures) == {"main-loop": 1}
    assert time.monotonic() - began < 30, "what is full is not waited for"
