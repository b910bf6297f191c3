"""A real TaskExecutor against a real broker, with this test in the master's place; nothing outlives its owner."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from eventflink.blob.client import get_blob, put_blob
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.server import BlobServer, BlobServerSettings
from eventflink.blob.store import BlobStore
from eventflink.events.codec import PayloadCodec, ReportsCodec
from eventflink.events.effects import (
    DeploymentPayload,
    FileUploadOrder,
    InstanceForgotten,
    LeaderChanged,
    RegistrationAccepted,
    TaskCancellation,
    TaskDeployment,
)
from eventflink.events.inputs import (
    Disconnection,
    FileUploadCompleted,
    Heartbeat,
    SlotOffer,
    SlotReport,
    TaskManagerDeath,
    TaskManagerRegistration,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.events.topics import SPECIFICATIONS, Topic, deployment_partition, topic_name
from eventflink.jobs.archive import build_archive
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.log.administration import ensure_topics
from eventflink.model.attempts import AttemptId
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import ExecutionState, TaskFile, TaskType
from eventflink.taskexecutor.spark_server import SparkLease, find_server
from tests.support.spark_work import find_spark, wait_until_it_computes, wait_until_it_rests

pytestmark = pytest.mark.slow
LAUNCHER = """
import json, logging, sys
from eventflink.model.configuration import build_configuration
from eventflink.taskexecutor.executor import run_task_executor
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
configuration = build_configuration(json.loads(sys.argv[1]), "test")
sys.exit(run_task_executor(configuration, configuration.access(sys.argv[2])))
"""
TASKS = "task_executor_tasks"
NOWHERE = "sc://127.0.0.1:9"
T = TypeVar("T", bound=TaskManagerReport)


class Blobs:
    """A blob server in a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = self.call(self.make(directory))
        self.address = f"127.0.0.1:{self.call(self.server.start())}"

    @staticmethod
    async def make(directory: Path) -> BlobServer:
        return BlobServer(BlobStore(LocalStorage(directory)), BlobServerSettings(max_bytes=1 << 24))

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def stop(self) -> None:
        self.call(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(120)


IMPATIENT: Final = {"heartbeat.missed-beats": 50, "taskmanager.self-fence-timeout": 6_000, "taskmanager.kill-timeout": 500}
"""A TaskExecutor that fences itself soon, for what tests the fence."""


class Cell:
    """One TaskExecutor's process, and the master's ends of its topics."""

    def __init__(self, bootstrap: str, cluster_id: str, directory: Path, **further: str | int) -> None:
        ensure_topics(access_to(bootstrap, cluster_id))
        self.bootstrap, self.cluster_id, self.directory = bootstrap, cluster_id, directory
        self.blobs = Blobs(directory / "blobs")
        self.epoch = 1
        self.partitions = SPECIFICATIONS[Topic.DEPLOYMENTS].partitions
        self.reports: list[TaskManagerReport] = []
        self.records: list[tuple[TaskManagerReport, ...]] = []
        self.heartbeats: list[Heartbeat] = []
        self.effects = PayloadCodec("DeploymentEnvelope")
        self.reports_codec = ReportsCodec("TaskManagerEnvelope")
        self.heartbeats_codec = PayloadCodec("HeartbeatEnvelope")
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(topic_name(cluster_id, t), 0, 0) for t in (Topic.TASKMANAGERS, Topic.HEARTBEATS)])
        self.log = (directory / "executor.log").open("wb")
        configuration = {
            "cluster.id": cluster_id,
            "taskmanager.id": "tm",
            "data.directory": str(directory / "data"),
            "heartbeat.interval": 400,
            "spark.start-early": "false",
            # On loaded cores a heartbeat may take seconds: only a test of the fence has tasks end for that.
            "heartbeat.missed-beats": 300,
            "taskmanager.self-fence-timeout": 100_000,
        }
        configuration |= further
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-c", LAUNCHER, json.dumps(configuration), bootstrap]
        self.process = subprocess.Popen(command, stderr=self.log, env=environment, start_new_session=True)

    def poll(self, timeout_s: float) -> None:
        message = self.consumer.poll(timeout_s)
        if message is None or message.error() is not None:
            return
        value = message.value() or b""
        if message.topic() == topic_name(self.cluster_id, Topic.HEARTBEATS):
            heartbeat, _ = self.heartbeats_codec.decode(value)
            self.heartbeats.append(heartbeat)
            return
        assert message.key() == b"tm"
        self.records.append(self.reports_codec.decode(value))
        self.reports.extend(self.records[-1])

    def wait_for(self, what: Callable[[], Any], timeout_s: float = 120) -> Any:
        deadline = time.monotonic() + timeout_s
        while not (found := what()):
            assert time.monotonic() < deadline, f"not in {timeout_s} s; reports: {self.reports}\n{self.read_log()}"
            self.poll(0.02)
        return found

    def wait_for_report(self, kind: type[T], predicate: Callable[[T], bool] = lambda _: True, timeout_s: float = 120) -> T:
        def find() -> list[T]:
            return [r for r in self.reports if isinstance(r, kind) and predicate(r)]

        found: list[T] = self.wait_for(find, timeout_s)
        return found[0]

    def wait_for_state(self, attempt: AttemptId, state: ExecutionState, timeout_s: float = 120) -> TaskStateReport:
        def is_it(report: TaskStateReport) -> bool:
            subject = (report.job_id, report.vertex_id, report.subtask_index, report.attempt)
            return subject == tuple(attempt) and report.execution_state is state

        return self.wait_for_report(TaskStateReport, is_it, timeout_s)

    @property
    def instance_id(self) -> str:
        return [r for r in self.reports if isinstance(r, TaskManagerRegistration)][-1].instance_id

    def effect(self, payload: DeploymentPayload, epoch: int = 0, instance_id: str = "") -> None:
        ids = ("tm", instance_id or self.instance_id) if not isinstance(payload, LeaderChanged) else ("", "")
        self.put_effect(ids[0], self.effects.encode(payload, epoch=epoch or self.epoch, task_manager_id=ids[0], instance_id=ids[1]))

    def put_effect(self, key: str, value: bytes) -> None:
        topic = topic_name(self.cluster_id, Topic.DEPLOYMENTS)
        self.producer.produce(topic, value, key, partition=deployment_partition("tm", self.partitions))
        self.producer.poll(0)

    def register(self, count: int = 1) -> "Cell":
        self.wait_for(lambda: len({r.instance_id for r in self.reports if isinstance(r, TaskManagerRegistration)}) >= count)
        newest = [r for r in self.reports if isinstance(r, TaskManagerRegistration)][-1]
        self.effect(RegistrationAccepted(self.blobs.address, newest.number))
        self.wait_for(lambda: [b for b in self.heartbeats if b.instance_id == self.instance_id])
        return self

    def deploy(self, attempt: AttemptId, function: str, slot_index: int = 0, parameters: dict[str, Any] | None = None) -> None:
        job_id, vertex_id, subtask_index, number = attempt
        where = (job_id, vertex_id, subtask_index, number, f"allocation-{attempt}", slot_index)
        what = ("job", TaskType.PYTHON, f"{TASKS}:{function}", 1, 128, json.dumps(parameters or {}))
        self.effect(TaskDeployment(*where, *what, inputs=(), outputs=(), code_archives=()))

    def run(self, attempt: AttemptId, function: str, slot_index: int = 0, parameters: dict[str, Any] | None = None) -> None:
        self.deploy(attempt, function, slot_index, parameters)
        self.wait_for_state(attempt, ExecutionState.RUNNING, 60)

    def read_log(self) -> str:
        return (self.directory / "executor.log").read_text(encoding="utf-8", errors="replace")[-6000:]

    def family(self) -> list[psutil.Process]:
        """The TaskExecutor's process and everything below it."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children(recursive=True)]

    def find_children(self, module: str) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [p for p in children if not is_gone(p) and module in " ".join(p.cmdline())]

    def child(self, module: str) -> psutil.Process:
        (found,) = self.find_children(module)
        return found

    def fork_servers(self) -> list[psutil.Process]:
        return sorted(self.find_children("fork_server_main"), key=lambda process: process.pid)

    def stop(self) -> None:
        family = self.family() if self.process.poll() is None else []
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(120)
        wait_until_gone(family, 30)
        self.consumer.close()
        self.producer.flush(5)
        self.blobs.stop()
        self.log.close()


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(processes: list[psutil.Process], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while left := [p for p in processes if not is_gone(p)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


@pytest.fixture
def cell(bootstrap: str, cluster_id: str, tmp_path: Path) -> Iterator[Cell]:
    running = Cell(bootstrap, cluster_id, tmp_path)
    yield running
    running.stop()


@pytest.fixture
def impatient_cell(bootstrap: str, cluster_id: str, tmp_path: Path) -> Iterator[Cell]:
    running = Cell(bootstrap, cluster_id, tmp_path, **IMPATIENT)
    yield running
    running.stop()


def attempt(number: int = 1, subtask_index: int = 0) -> AttemptId:
    return AttemptId("job", "v", subtask_index, number)


def test_a_life_from_registration_to_disconnection(cell: Cell) -> None:
    """Registers, sends heartbeats, runs, reports, uploads, cancels, remembers tombstones, answers a new leader, and leaves in order."""
    cell.register()
    registration = cell.wait_for_report(TaskManagerRegistration)
    assert (registration.task_manager_id, registration.slot_count) == ("tm", 2)
    assert registration.process_id == cell.process.pid

    cell.deploy(attempt(1), "talk")
    cell.wait_for_state(attempt(1), ExecutionState.FINISHED, 60)
    kinds = next(kinds for record in cell.records if SlotOffer in (kinds := [type(report) for report in record]))
    assert TaskStateReport in kinds[kinds.index(SlotOffer) + 1 :]  # How far the attempt got by then; a heartbeat may go before both.

    cell.effect(FileUploadOrder("upload-1", *attempt(1), TaskFile.STDOUT))
    upload = cell.wait_for_report(FileUploadCompleted)
    assert upload.error is None
    assert get_blob(cell.blobs.address, str(upload.blob_key)) == b"said on stdout\n"
    cell.effect(FileUploadOrder("upload-2", *attempt(9), TaskFile.LOG))
    assert "has no LOG" in str(cell.wait_for_report(FileUploadCompleted, lambda r: r.request_id == "upload-2").error)

    cell.deploy(attempt(2), "fail")
    cause = cell.wait_for_state(attempt(2), ExecutionState.FAILED).cause
    assert cause is not None
    assert (cause.failure_type, cause.message) == ("ArithmeticError", "seven is not eight")

    cell.run(attempt(3), "sleep")
    cell.effect(TaskCancellation(*attempt(3), "test"))
    cell.wait_for_state(attempt(3), ExecutionState.CANCELED)

    cell.effect(TaskCancellation(*attempt(4), "test"))
    cell.wait_for_state(attempt(4), ExecutionState.CANCELED)
    cell.deploy(attempt(4), "sleep")
    cell.wait_for(lambda: sum(isinstance(r, TaskStateReport) and r.attempt == 4 for r in cell.reports) == 2)

    cell.run(attempt(5), "sleep")
    cell.epoch = 2
    cell.effect(LeaderChanged("m2", cell.blobs.address))
    report = cell.wait_for_report(SlotReport, lambda r: any(each.attempt == 5 for each in r.attempts))
    assert [s.allocation_id for s in report.slots] == [f"allocation-{attempt(5)}", None]
    assert [(a.attempt, a.execution_state) for a in report.attempts] == [(5, ExecutionState.RUNNING)]
    cell.effect(TaskCancellation(*attempt(5), "by a leader of the past"), epoch=1)
    cell.effect(FileUploadOrder("upload-3", *attempt(9), TaskFile.LOG))
    cell.wait_for_report(FileUploadCompleted, lambda r: r.request_id == "upload-3")
    assert "attempt=job/v[0]#5 process_id=" in cell.read_log()
    assert "TaskProcessEnded attempt=job/v[0]#5" not in cell.read_log()

    family = cell.family()
    cell.process.terminate()
    assert cell.process.wait(120) == 0
    wait_until_gone(family, 30)
    disconnection = cell.wait_for_report(Disconnection)
    assert disconnection.instance_id == registration.instance_id
    assert not [r for r in cell.reports if isinstance(r, TaskManagerDeath)]


@pytest.mark.rule("P12")
def test_its_own_partition_alone_is_read_and_what_is_for_others_there_is_not_decoded_though_the_topic_grows(cell: Cell) -> None:
    cell.register()
    for key in ("another", "tm"):
        cell.put_effect(key, b"garbage")
    cell.wait_for(lambda: cell.read_log().count("EffectUndecodable") == 1)
    grown = cell.partitions + 3
    assert deployment_partition("tm", grown) != deployment_partition("tm", cell.partitions)
    cell.run(attempt(1), "sleep")
    topic = topic_name(cell.cluster_id, Topic.DEPLOYMENTS)
    admin = AdminClient({"bootstrap.servers": cell.bootstrap})
    admin.create_partitions([NewPartitions(topic, grown)])[topic].result(120)
    cell.wait_for(lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == grown)
    cell.effect(LeaderChanged("m2", cell.blobs.address))
    report = cell.wait_for_report(SlotReport, lambda r: any(each.attempt == 1 for each in r.attempts))
    assert report.deployment_partition == deployment_partition("tm", cell.partitions)
    cell.run(attempt(2), "sleep", slot_index=1)
    assert cell.read_log().count("EffectUndecodable") == 1
    assert cell.read_log().count("InstanceStarted") == 1


def test_a_task_whose_master_dies_before_it_has_the_code_gets_it_from_the_next_leader(cell: Cell, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("def run(context):\n    print('it came')\n")
    key = put_blob(cell.blobs.address, build_archive([tmp_path / "late.py"]))
    cell.register()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        cell.effect(LeaderChanged("m2", f"127.0.0.1:{nobody.getsockname()[1]}"))
        where = (*attempt(1), "allocation", 0, "job", TaskType.PYTHON, "late:run", 1, 128, "{}")
        cell.effect(TaskDeployment(*where, inputs=(), outputs=(), code_archives=(key,)))
        cell.wait_for_state(attempt(1), ExecutionState.INITIALIZING)
        time.sleep(1)
        cell.epoch = 2
        cell.effect(LeaderChanged("m3", cell.blobs.address))
        cell.wait_for_state(attempt(1), ExecutionState.FINISHED, 40)


def test_a_killed_task_process_fails_its_attempt_only(cell: Cell) -> None:
    cell.register()
    cell.run(attempt(1), "sleep")
    cell.run(attempt(1, subtask_index=1), "sleep", slot_index=1)
    task = find_task(cell, attempt(1))
    os.kill(task, signal.SIGKILL)
    cause = cell.wait_for_state(attempt(1), ExecutionState.FAILED).cause
    assert cause is not None
    assert cause.failure_type == "TaskProcessDied"
    assert cause.message == f"task process {task} was killed by signal 9 (SIGKILL)"
    cell.effect(TaskCancellation(*attempt(1, subtask_index=1), "test"))
    cell.wait_for_state(attempt(1, subtask_index=1), ExecutionState.CANCELED)


def find_task(cell: Cell, subject: AttemptId) -> int:
    """The process that has the attempt's stdout open."""
    name = f"{subject.vertex_id}-{subject.subtask_index}-{subject.attempt}.stdout"

    def has_it_open(process: psutil.Process) -> bool:
        try:
            return any(name in file.path for file in process.open_files())
        except psutil.Error:  # It has just ended.
            return False

    (found,) = [int(p.pid) for p in cell.family() if has_it_open(p)]
    return found


def test_a_killed_task_executor_leaves_nothing_and_its_guardian_tells(cell: Cell, tmp_path: Path) -> None:
    cell.register()
    cell.run(attempt(1), "sleep_with_child", parameters={"file": str(tmp_path / "child")})
    child = tmp_path / "child"
    cell.wait_for(lambda: child.exists() and child.read_text("ascii"))
    family = [*cell.family(), psutil.Process(int(child.read_text("ascii")))]
    instance_id = cell.instance_id
    killed_at = time.monotonic()
    cell.process.kill()
    cell.process.wait(120)
    wait_until_gone(family, 30)
    gone_after_s = time.monotonic() - killed_at
    death = cell.wait_for_report(TaskManagerDeath, timeout_s=120)
    assert death.instance_id == instance_id
    print(f"everything gone after {gone_after_s:.2f} s, told after {time.monotonic() - killed_at:.2f} s")


def test_a_killed_guardian_is_replaced_and_the_new_one_knows_everything(cell: Cell) -> None:
    cell.register()
    cell.run(attempt(1), "sleep")
    first = cell.child("taskexecutor.guardian")
    first.kill()
    cell.wait_for(
        lambda: any("taskexecutor.guardian" in " ".join(p.cmdline()) and p.pid != first.pid for p in cell.family() if not is_gone(p))
    )
    time.sleep(1.5)  # It has to load before it can take notice.
    family = cell.family()
    cell.process.kill()
    cell.process.wait(120)
    wait_until_gone(family, 30)
    assert cell.wait_for_report(TaskManagerDeath, timeout_s=120).instance_id == cell.instance_id


@pytest.fixture
def early(bootstrap: str, cluster_id: str, tmp_path: Path) -> Iterator[Cell]:
    """One that loads Spark's client at once, and no Spark with it."""
    running = Cell(bootstrap, cluster_id, tmp_path, **{"spark.start-early": "true", "spark.remote": NOWHERE})
    yield running
    running.stop()


@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_fork_server_fails_all_attempts_and_is_replaced(early: Cell, which: int) -> None:
    """Whichever of the two it is: the tasks of the other one end as well, and it is ready again when both have loaded."""
    cell = early.register()
    cell.wait_for_report(SlotReport, lambda r: r.ready, 60)
    cell.run(attempt(1), "sleep")
    task = psutil.Process(find_task(cell, attempt(1)))
    cell.fork_servers()[which].kill()
    cause = cell.wait_for_state(attempt(1), ExecutionState.FAILED).cause
    assert cause is not None
    assert cause.failure_type == "ForkServerDied"
    wait_until_gone([task], 30)
    cell.wait_for(lambda: [r.ready for r in cell.reports if isinstance(r, SlotReport)] == [True, False, True], 120)
    cell.deploy(attempt(2), "noop")
    cell.wait_for_state(attempt(2), ExecutionState.FINISHED, 60)


def test_a_forgotten_instance_ends_its_tasks_and_comes_back_as_another(cell: Cell) -> None:
    cell.register()
    cell.run(attempt(1), "sleep")
    task = psutil.Process(find_task(cell, attempt(1)))
    before = cell.instance_id
    cell.effect(InstanceForgotten("test"))
    cell.register(count=2)
    assert cell.instance_id != before
    assert is_gone(task)
    cell.deploy(attempt(2), "noop")
    assert cell.wait_for_state(attempt(2), ExecutionState.FINISHED, 60).instance_id == cell.instance_id


@pytest.mark.rule("P17")
def test_a_frozen_task_executor_fences_itself_when_it_wakes_up(impatient_cell: Cell) -> None:
    """The master has held it for lost meanwhile: its tasks end, and it comes back as a new instance (P14, P17)."""
    impatient_cell.register()
    impatient_cell.run(attempt(1), "sleep")
    task = psutil.Process(find_task(impatient_cell, attempt(1)))
    impatient_cell.process.send_signal(signal.SIGSTOP)
    time.sleep(7.5)
    impatient_cell.process.send_signal(signal.SIGCONT)
    impatient_cell.register(count=2)
    assert is_gone(task)


@pytest.mark.rule("P14")
def test_a_task_executor_that_kafka_does_not_answer_fences_itself_in_time_and_comes_back(cluster_id: str, tmp_path: Path) -> None:
    """A broker of its own is frozen: no heartbeat is acknowledged, so the tasks end before a master could start them elsewhere (P14)."""
    with EmbeddedBroker(tmp_path / "broker") as broker:
        cell = Cell(broker.bootstrap_servers, cluster_id, tmp_path, **IMPATIENT)
        try:
            cell.register()
            cell.run(attempt(1), "sleep")
            task = psutil.Process(find_task(cell, attempt(1)))
            (java,) = [p for p in psutil.Process().children() if p.name() == "java" and any(str(tmp_path) in word for word in p.cmdline())]
            java.suspend()
            wait_until_gone([task], 60)  # How soon is of the protocol, which has its own tests of time; busy cores take what they take.
            java.resume()
            cell.register(count=2)
        finally:
            cell.stop()


def test_one_id_is_one_task_executor(cell: Cell) -> None:
    """A second process under the same id waits, then says so and ends; it does not chase the first one away."""
    cell.register()
    command = cell.process.args
    assert isinstance(command, list)
    second = subprocess.run(command, capture_output=True, timeout=120, check=False, text=True)
    assert second.returncode == 1
    assert "TaskExecutorNotStarted" in second.stderr
    assert cell.process.poll() is None


@pytest.mark.rule("P15")
def test_what_a_dead_task_and_a_dead_task_executor_left_on_spark_is_ended(cell: Cell, tmp_path: Path) -> None:
    """No operation is left on a server that others use, too: this test holds a lease of it, as another TaskExecutor would."""
    with SparkLease(tmp_path / "data" / "run"):
        cell.register()
        cell.run(attempt(1), "query", parameters={"file": str(tmp_path / "begun")})
        cell.wait_for((tmp_path / "begun").exists, 90)
        guardian = cell.child("taskexecutor.guardian")
        spark = find_spark(tmp_path)
        wait_until_it_computes(spark)
        os.kill(find_task(cell, attempt(1)), signal.SIGKILL)
        cell.wait_for_state(attempt(1), ExecutionState.FAILED)
        wait_until_it_rests(spark)  # It is the TaskExecutor that releases what a task of its own has left.
        (tmp_path / "begun").unlink()
        cell.run(attempt(2), "query", parameters={"file": str(tmp_path / "begun")})
        cell.wait_for((tmp_path / "begun").exists, 90)
        wait_until_it_computes(spark)
        family = [psutil.Process(cell.process.pid), *cell.fork_servers()]
        family += [child for server in cell.fork_servers() for child in server.children() if child not in spark.parents()]
        killed_at = time.monotonic()
        cell.process.kill()
        cell.process.wait(120)
        wait_until_gone(family, 30)
        cell.wait_for_report(TaskManagerDeath, timeout_s=120)
        print(f"told after {time.monotonic() - killed_at:.2f} s")
        wait_until_gone([guardian], 30)
        guardian_log = (tmp_path / "data" / "logs" / "tm" / "guardian.log").read_text("utf-8")
        assert "SparkSessionReleased" in guardian_log
        assert find_server(tmp_path / "data" / "run") is not None
        wait_until_it_rests(spark)
    wait_until_gone([spark], 60)
