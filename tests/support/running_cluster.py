"""A real cluster for tests: masters and TaskExecutors as processes of their own, on a real broker, to be killed and paused for real.

Its state is read as anyone may read it: by folding the log.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from benchmarks.simulated_task_executors import host_settings
from eventflink.blob.client import put_blob
from eventflink.events.codec import PayloadCodec
from eventflink.events.decision import Decision
from eventflink.events.effects import DeadLetter
from eventflink.events.log_events import LogEvent
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.folding import Folding
from eventflink.gateways.following import Following, wait_until_it_follows
from eventflink.gateways.leader import find_leader
from eventflink.gateways.state_reads import NO_SOURCES
from eventflink.gateways.steps import FoldLog
from eventflink.jobs.archive import build_archive
from eventflink.leadership.fold import Fold
from eventflink.log.administration import delete_topics, ensure_topics
from eventflink.log.clients import consumer_settings
from eventflink.log.replay import EndOffset, log_bounds, new_fold, read_log, replay
from eventflink.master.job_master import JobMaster
from eventflink.model.cluster_access import ClusterAccess, access_to
from eventflink.model.cluster_secret import mint_secret, secret_path
from eventflink.model.configuration import load_configuration
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.processes.announced_address import Announced
from eventflink.processes.announced_address import read as read_announced
from eventflink.snapshots.loading import load_fold
from tests.support import zygote

USER_TASKS = Path(__file__).parent / "user_tasks.py"
TIMEOUT_S = 360.0
PROGRAM = [sys.executable, "-m", "eventflink.cli", "-v"]


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = TIMEOUT_S, interval_s: float = 0.05) -> Any:
    """Return the first truthy value of the condition, which is asked again after each interval."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(interval_s)


PATIENT: Final = {"heartbeat.missed-beats": 30, "taskmanager.self-fence-timeout": 20_000}
"""A busy host may let any process stand still for seconds; one that dies is noticed at once all the same."""

EAGER: Final = {"heartbeat.missed-beats": 10, "taskmanager.self-fence-timeout": 8_000}
"""For tests in which a TaskExecutor falls silent and is to be lost."""


class RunningCluster:
    """The processes of one cluster, and what its log says."""

    def __init__(self, bootstrap: str, cluster_id: str, directory: Path, **overrides: Any) -> None:
        self.bootstrap = bootstrap
        self.cluster_id = cluster_id
        self.directory = directory
        self.overrides = {
            "data.directory": directory / "data",
            "bootstrap.servers": bootstrap,
            "cluster.id": cluster_id,
            "spark.start-early": "false",
            # Ten a second are for a leader's death to be noticed in a lease, which four are for as well; broker and masters hear each.
            "high-availability.heartbeat-interval": 250,
            **PATIENT,
            **overrides,
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.masters: set[str] = set()
        self.popen: type[subprocess.Popen[Any]] = zygote.Popen
        """How a process is started: by fork, and by `subprocess.Popen` where a test is about what an interpreter begins with."""
        self.program: list[str] = PROGRAM
        """What is started as `eventflink`."""
        self.surroundings: dict[str, Any] = {}
        """Where that is started: `cwd` and `env`, as a subprocess takes them."""
        self.journal = directory / "tasks.journal"
        self.access = self._have_secret()
        """How a test reaches it: as a client without settings, that has the secret."""
        self.fold = new_fold(self.access)
        self._decisions: list[tuple[int, Decision]] = []
        self._end = EndOffset(self.access)
        ensure_topics(self.access)

    def _have_secret(self) -> ClusterAccess:
        """Have a cluster secret, as `up` has, where the processes and this one look for it."""
        configuration = load_configuration(None, {key: str(value) for key, value in self.overrides.items()})
        if not configuration.cluster_secret:
            mint_secret(secret_path(configuration.data_path, self.cluster_id))
        return ClusterAccess(KafkaAccess(self.bootstrap), self.cluster_id, configuration.secret_reference, configuration.sealed_from_offset)

    # -- processes ------------------------------------------------------------------------------------------------

    def start(self, name: str, *command: str, **overrides: Any) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.txt").open("ab") as output:
            process = self.popen(self._command_line(command, overrides), stdout=output, stderr=output, **self.surroundings)
        self.processes[name] = process
        return process

    def _command_line(self, command: Sequence[str], overrides: dict[str, Any]) -> list[str]:
        options = [f"-D{key}={value}" for key, value in {**self.overrides, **overrides}.items()]
        return [*self.program, *options, *command]

    def start_master(self, name: str = "master") -> subprocess.Popen[bytes]:
        """Start a master and wait until there is a new leader."""
        epoch = self.state().acceptance.epoch
        process = self._start_master(name)
        self.wait_for(
            lambda fold: (fold.acceptance.epoch > epoch and fold.acceptance.sequence > 0) or process.poll() is not None, "a leader"
        )
        assert process.poll() is None, self.output(name)
        return process

    def start_standby(self, name: str, **overrides: Any) -> subprocess.Popen[bytes]:
        """Start a master beside others and wait until it follows the log."""
        following = Following(self.access)
        process = self._start_master(name, **overrides)
        following.wait(name, partial(self._check_runs, name, process))
        return process

    def start_together(self, *masters: str, host: str) -> None:
        """Start masters and a host of simulated TaskExecutors at once, and wait until one leads and all are ready."""
        processes = {name: self._start_master(name) for name in masters}
        self.start_host(host)
        for name, process in processes.items():
            wait_until_it_follows(self.access, name, partial(self._check_runs, name, process))

    def _check_runs(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.poll() is None, self.output(name)

    def _start_master(self, name: str, **overrides: Any) -> subprocess.Popen[bytes]:
        self.masters.add(name)
        return self.start(name, "master", **{"jobmanager.id": name}, **overrides)

    def start_host(self, name: str, task_executors: int = 2, slots: int = 16) -> subprocess.Popen[bytes]:
        """Start simulated TaskExecutors in one process, whose tasks leave a line in `journal`, and wait until they are registered."""
        configuration = load_configuration(None, {key: str(value) for key, value in self.overrides.items()})
        settings = host_settings(configuration, self.bootstrap, name, task_executors, slots, self.journal)
        with (self.directory / f"{name}.txt").open("ab") as output:
            process = self.processes[name] = self.popen(settings.command(), stdout=output, stderr=output)
        wanted = set(settings.task_manager_ids)
        self.wait_for(lambda fold: wanted <= fold.master.resource_manager.task_managers.keys(), f"{name} registered")
        return process

    def start_task_executor(self, name: str = "tm", slots: int = 2, **overrides: Any) -> subprocess.Popen[bytes]:
        process = self.start(name, "taskexecutor", **{"taskmanager.id": name, "taskmanager.numberOfTaskSlots": slots, **overrides})
        self.wait_for(lambda fold: name in fold.master.resource_manager.task_managers, f"{name} registered")
        return process

    def start_rest(self, name: str = "rest", **overrides: Any) -> str:
        """Start a REST process and return its URL, once it answers."""
        process = self.start(name, "rest", **{"rest.bind-port": 0, **overrides})

        def url() -> str | None:
            assert process.poll() is None, self.output(name)
            return read_announced(self.directory / "data", Announced.REST, process.pid)

        found: str = wait_until(url, "the REST process")
        return found

    def output(self, name: str) -> str:
        """Return the end of what a process has written."""
        return (self.directory / f"{name}.txt").read_text(errors="replace")[-6000:]

    def document(self, *command: str) -> Any:
        """Run a command that prints a JSON document, and return the document."""
        done = zygote.run(self._command_line(command, {}), capture_output=True, timeout=TIMEOUT_S, **self.surroundings)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(TIMEOUT_S)

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(TIMEOUT_S)

    def pause(self, name: str) -> None:
        """Freeze a process: it runs no further, and does not know it."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a frozen process run on."""
        self.processes[name].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop everything; the state must hold every invariant, and a second replay must end in the same one."""
        codes = {name: self.stop(name) for name in [n for n in self.processes if n not in self.masters]}
        masters = [name for name in self.processes if name in self.masters]
        for name in masters:
            self.processes[name].terminate()
        # Not told a second time: a process that is just ending would die of that.
        codes |= {name: self.processes.pop(name).wait(TIMEOUT_S) for name in masters}
        try:
            assert set(codes.values()) <= {0}, (codes, {name: self.output(name) for name, code in codes.items() if code})
            self.check_log()
        finally:
            for process in self.processes.values():
                process.kill()
            self._end.close()

    def check_log(self) -> None:
        """Check the state that the log leads to: it holds every invariant, and a second replay ends in the same one."""
        fold = self.state()
        fold.master.validate()
        begin = new_fold(self.access) if log_bounds(self.access)[0] == 0 else load_fold(self.access)
        assert fold.master.digest() == replay(self.access, begin).master.digest()

    def spark_processes(self, word: str = "", data: Path | None = None) -> list[psutil.Process]:
        """Return the processes of the cluster's own Spark whose command line has a word; the task that started it may be gone.

        `data` is the data directory of its TaskExecutor, if that has another one than the cluster.
        """
        run = (data or self.directory / "data") / "run"
        own = [
            p
            for p in psutil.process_iter(["cmdline"])
            if {"eventflink.taskexecutor.spark_supervisor", str(run)} <= set(p.info["cmdline"] or ())
        ]
        tree = [process for supervisor in own for process in (supervisor, *supervisor.children(recursive=True))]
        return [process for process in tree if word in " ".join(_command_line(process))]

    # -- what the log says ----------------------------------------------------------------------------------------

    def state(self) -> Fold:
        """Return the fold of the log up to its present end."""
        if self._end_of_log() > self.fold.last_offset + 1:
            replay(self.access, self.fold)
        return self.fold

    def _end_of_log(self) -> int:
        """Return the offset of the next record; whoever waits asks again and again, and connects once."""
        try:
            return self._end.fetch()
        except KafkaException:  # Of a broker that was there and is another one now.
            self._end.close()
            return log_bounds(self.access)[1]

    def wait_for(self, condition: Callable[[Fold], Any], what: str, timeout_s: float = TIMEOUT_S) -> Any:
        return wait_until(lambda: condition(self.state()), what, timeout_s)

    def decisions(self) -> list[tuple[int, Decision]]:
        """Return every decision in the log, also the rejected ones; no foreign records."""
        codec = self.fold.codec
        first = self._decisions[-1][0] + 1 if self._decisions else 0
        records = read_log(self.access, first, self._end_of_log())
        self._decisions += [(offset, codec.decode(value)) for offset, _, value in records if not codec.is_foreign(offset, value)]
        return list(self._decisions)

    def events_of(self, job_id: str) -> list[LogEvent]:
        """Return what happened to a job."""
        return [e for _, d in self.decisions() for e in d.events if job_id in (getattr(e, "job_id", None), getattr(e, "subject", None))]

    def dead_letters(self) -> list[DeadLetter]:
        codec = PayloadCodec("DeadLetterEnvelope")
        consumer = Consumer(consumer_settings(self.access.kafka))
        try:
            partition = TopicPartition(topic_name(self.cluster_id, Topic.DEAD_LETTERS), 0, OFFSET_BEGINNING)
            _, end = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
            if not end:
                return []
            consumer.assign([partition])
            letters: list[DeadLetter] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(letters) < end and time.monotonic() < deadline:
                for message in consumer.consume(end - len(letters), timeout=1):
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    letters.append(codec.decode(message.value())[0])
            return letters
        finally:
            consumer.close()

    # -- jobs -----------------------------------------------------------------------------------------------------

    def user_code(self, *files: Path) -> str:
        """Upload modules of user code (default: user_tasks.py) and return the archive's key."""
        return self.upload(build_archive(files or (USER_TASKS,)))

    def upload(self, archive: bytes) -> str:
        """Put an archive into the blob store and return its key."""
        return put_blob(find_leader(self.access, timeout_s=60).blob_address, archive)

    def graph(self, *vertices: dict[str, Any], **more: Any) -> JobGraph:
        """Return a graph whose Python vertices may name functions of user_tasks."""
        return parse_job_graph({"name": "test", "vertices": list(vertices), "code_archives": [self.user_code()], **more}, "test")

    def submit(self, graph: JobGraph, job_id: str | None = None) -> str:
        with DispatcherGateway(self.access) as gateway:
            return gateway.submit_job(graph, job_id, actor="test").job_id

    def run_task(self, function: str, *, parallelism: int = 1, restarts: int = 0, **parameters: Any) -> str:
        """Submit a job of one vertex, a function of user_tasks."""
        vertex = {"id": "task", "python": f"user_tasks:{function}", "parallelism": parallelism, "parameters": parameters}
        strategy = {"type": "fixed-delay", "attempts": restarts, "delay_ms": 100} if restarts else {"type": "none"}
        return self.submit(self.graph(vertex, restart_strategy=strategy))

    def job(self, job_id: str) -> JobMaster:
        return self.state().master.dispatcher.jobs[job_id]

    def wait_for_status(self, job_id: str, status: JobStatus, timeout_s: float = TIMEOUT_S) -> JobMaster:
        def reached(fold: Fold) -> JobMaster | None:
            job = fold.master.dispatcher.jobs.get(job_id)
            if job is not None and job_id in fold.master.dispatcher.ended and job.status is not status:
                raise AssertionError(f"{job_id} is {job.status}: {job.cause}")
            return job if job is not None and job.status is status else None

        job: JobMaster = self.wait_for(reached, f"{job_id} {status}", timeout_s)
        return job

    def exceptions_of(self, job_id: str) -> dict[str, Any]:
        """Return what is told of the failures of a job, as of the log's end."""
        folding = Folding(self.access, NO_SOURCES)
        try:
            return folding.answer(FoldLog(f"/jobs/{job_id}/exceptions", {}, TIMEOUT_S, 0.0))
        finally:
            folding.close()

    def wait_for_running(self, job_id: str, attempt: int = 1) -> None:
        def running(fold: Fold) -> bool:
            job = fold.master.dispatcher.jobs.get(job_id)
            return job is not None and all(
                s.state is ExecutionState.RUNNING and s.attempt >= attempt for s in job.execution_graph.subtasks()
            )

        self.wait_for(running, f"{job_id} runs")

    def wait_for_task_process(self, job_id: str, vertex_id: str = "stream", subtask_index: int = 0) -> psutil.Process:
        """Return the process of the current attempt of a task, whichever TaskExecutor runs it; it has the log of that attempt open."""

        def find() -> psutil.Process | None:
            subtask = self.job(job_id).execution_graph.subtask(vertex_id, subtask_index)
            log = f"{job_id}/{vertex_id}-{subtask_index}-{subtask.attempt}.log" if subtask is not None else "none"
            running = [process for process in self.processes.values() if process.poll() is None]
            return next((p for process in running for p in descendants(process) if has_open(p, log)), None)

        process: psutil.Process = wait_until(find, f"the process of {vertex_id}[{subtask_index}] of {job_id}")
        return process


@contextlib.contextmanager
def running_cluster(bootstrap: str, directory: Path, **settings: Any) -> Iterator[RunningCluster]:
    """Give a cluster of a new name, none of whose processes runs yet; what was started is stopped, checked, and its topics removed."""
    running = RunningCluster(bootstrap, f"test-{uuid.uuid4().hex[:12]}", directory, **settings)
    try:
        yield running
        running.close()
    finally:
        for process in running.processes.values():  # Of a cluster that could not be started as a whole.
            process.kill()
        delete_topics(access_to(bootstrap, running.cluster_id))


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return all processes below one, now."""
    return list(psutil.Process(process.pid).children(recursive=True))


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # It has just ended.
        return []


def has_open(process: psutil.Process, path: str) -> bool:
    """Tell whether a process has a file open whose path has this in it; one that has just ended has none."""
    try:
        return any(path in file.path for file in process.open_files())
    except psutil.Error:
        return False


def is_alive(process_id: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return bool(psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_9(process_id: int) -> None:
    """Kill a process as the kernel does when memory ends."""
    os.kill(process_id, signal.SIGKILL)
