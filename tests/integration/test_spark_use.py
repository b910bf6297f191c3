"""Real tasks, from the two real fork servers of a TaskExecutor, with a real Spark: which of them find its client loaded."""

import json
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import build_configuration
from eventflink.model.statuses import TaskFile, TaskType
from eventflink.processes.file_lock import FileLock
from eventflink.taskexecutor.fork_server import ForkServer
from eventflink.taskexecutor.guardian_link import GuardianLink
from eventflink.taskexecutor.kafka_links import Inbox
from eventflink.taskexecutor.process_events import LaunchTask
from eventflink.taskexecutor.process_link import ProcessLink
from eventflink.taskexecutor.protocol import MainLoop, TaskExecutorProtocol
from eventflink.taskexecutor.task_files import output_place, task_file_path
from tests.support.hand import NOWHERE
from tests.support.task_host import Archives
from tests.unit.test_taskexecutor_protocol import SETTINGS

CODE = """
import sys

FOUND = sorted({"grpc", "pandas", "pyarrow", "pyspark"} & set(sys.modules))

def say(context): print(*FOUND, flush=True)

def imports(context):
    say(context)
    import pandas

def works(context):
    say(context)
    return context.spark.range(context.parameters["count"]) if context.parameters else None
"""
CLIENT = "grpc pandas pyarrow pyspark\n"


class Executor:
    """A TaskExecutor's link to its processes, and nothing else of it."""

    def __init__(self, directory: Path, spark: str, **further: str) -> None:
        self.directory = directory
        self.archives = Archives()
        self.inbox = Inbox()
        settings = {"taskmanager.id": "tm", "data.directory": str(directory), "spark.remote": spark} | further
        configuration = build_configuration(settings, "test")
        self.working_place = configuration.working_place
        guardian = GuardianLink(access_to(NOWHERE, "nowhere"), "tm", directory / "guardian.log", FileLock(directory / "lock", 15.0))
        protocol: TaskExecutorProtocol = MainLoop(SETTINGS, lambda: "i1").protocol
        self.link = ProcessLink(
            configuration, access_to("127.0.0.1:9", "test"), directory, directory / "run", self.inbox, protocol, guardian
        )
        self.link.start()

    def wait_until_ready(self, *servers: ForkServer) -> None:
        """Wait for these fork servers, or for all; show the log of one that is not ready in time."""
        for server in servers or self.link._servers:
            assert server.wait_until_ready(120), (server.is_started, server.process_ids(), server._log_tail(), self.heard())

    def heard(self) -> list[Any]:
        """Return what the fork servers have told that nobody has looked at."""
        return [each.args[-1] for each in self.inbox.take_inputs(0, 16) if isinstance(each, partial)]

    def run(self, task: str, code: str = CODE, task_type: TaskType = TaskType.PYTHON, **parameters: Any) -> AttemptId:
        """Run it to its end, and return which attempt it was."""
        attempt = AttemptId(uuid.uuid4().hex, "vertex", 0, 1)
        archives = (self.archives.add(code=code),) if task_type is TaskType.PYTHON else ()
        ids = (*attempt, "allocation", 0, "job")
        deployment = TaskDeployment(*ids, task_type, task, 1, 128, json.dumps(parameters), inputs=(), outputs=(), code_archives=archives)
        self.link.send_order(LaunchTask(deployment, str(uuid.uuid4()), self.archives.address))
        deadline = time.monotonic() + 120
        while attempt in self.link._launched:
            assert time.monotonic() < deadline
            for on_input in self.inbox.take_inputs(0.05, 16):
                on_input(0)
        return attempt

    def found(self, task: str, code: str = CODE, **parameters: Any) -> str:
        """Run it, and return which packages of Spark's client it found in its process."""
        attempt = self.run(f"code:{task}", code, **parameters)
        return task_file_path(self.directory, attempt, TaskFile.STDOUT).read_text("utf-8")

    def count(self, attempt: AttemptId) -> int:
        return int(pq.read_table(output_place(self.working_place, attempt, "default").path).num_rows)


@pytest.fixture
def executor(spark: str, tmp_path: Path) -> Iterator[Executor]:
    executor = Executor(tmp_path, spark)
    yield executor
    executor.link.close()
    assert not executor.link.process_ids()


@pytest.fixture
def late(spark: str, tmp_path: Path) -> Iterator[Executor]:
    """One that does not start what tasks need of Spark before one needs it."""
    executor = Executor(tmp_path, spark, **{"spark.start-early": "false"})
    yield executor
    executor.link.close()
    assert not executor.link.process_ids()


def test_code_that_did_not_use_spark_is_run_without_its_client(executor: Executor) -> None:
    executor.wait_until_ready()
    assert executor.found("say") == CLIENT
    assert executor.found("say") == "\n"
    assert executor.found("say") == "\n"
    assert executor.found("say", f"{CODE}\n# of another job") == CLIENT


def test_code_that_loads_part_of_the_client_gets_it_from_the_third_time_on(executor: Executor) -> None:
    executor.wait_until_ready()
    assert [executor.found("imports") for _ in range(4)] == [CLIENT, "\n", CLIENT, CLIENT]


def test_code_that_uses_spark_unexpectedly_does_so_and_is_expected_to_from_then_on(executor: Executor) -> None:
    executor.wait_until_ready()
    assert executor.found("works") == CLIENT
    assert executor.found("works") == "\n"
    attempt = executor.run("code:works", count=7)
    assert task_file_path(executor.directory, attempt, TaskFile.STDOUT).read_text("utf-8") == "\n"
    assert executor.count(attempt) == 7
    assert executor.found("works") == CLIENT


def test_code_that_is_not_known_does_not_wait_for_a_client_that_is_still_loaded(executor: Executor) -> None:
    loading = psutil.Process(executor.link._servers[1].process_ids()[0])
    loading.suspend()
    assert executor.found("say") == "\n"
    loading.resume()
    attempt = executor.run("SELECT 1 AS one", task_type=TaskType.SQL)
    assert executor.count(attempt) == 1


def test_the_client_of_spark_is_loaded_for_the_first_task_that_is_expected_to_use_it(late: Executor) -> None:
    plain, with_spark = late.link._servers
    late.wait_until_ready(plain)
    assert [late.found("say") for _ in range(2)] == ["\n", "\n"]
    assert not with_spark.is_started
    assert late.count(late.run("SELECT 1 AS one", task_type=TaskType.SQL)) == 1
    assert with_spark.is_ready
    assert late.found("say", f"{CODE}\n# of another job") == CLIENT


def test_after_a_task_that_used_spark_unexpectedly_its_client_is_loaded_for_others(late: Executor) -> None:
    plain, with_spark = late.link._servers
    late.wait_until_ready(plain)
    attempt = late.run("code:works", count=7)
    assert (task_file_path(late.directory, attempt, TaskFile.STDOUT).read_text("utf-8"), late.count(attempt)) == ("\n", 7)
    late.wait_until_ready(with_spark)
    assert late.found("say", f"{CODE}\n# of another job") == CLIENT
