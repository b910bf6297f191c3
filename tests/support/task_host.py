"""A host for task processes: a real fork server with its Spark, a server of code archives, and the code of tasks."""

import hashlib
import http.server
import io
import json
import os
import queue
import threading
import time
import uuid
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psutil

from eventflink.events.effects import TaskDeployment, TaskInput
from eventflink.jobs.result import read_result
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import Place
from eventflink.model.spark_engines import SparkEngine
from eventflink.model.statuses import ShipStrategy, TaskType
from eventflink.taskexecutor.fork_server import ForkServer, ForkServerSettings
from eventflink.taskexecutor.process_events import (
    Failed,
    Finished,
    Killed,
    LaunchTask,
    ProcessEvent,
    TaskProcessEnded,
)
from eventflink.taskexecutor.spark_server import SparkLease, SparkServerSettings
from eventflink.taskexecutor.task_secrets import SecretSettings

E = TypeVar("E", bound=ProcessEvent)

CODE = """
import os, subprocess, sys, time
from pathlib import Path
from pyspark.sql import functions as F

def noop(context): pass

def answer(context): return 42

def answer_named(context): return {"default": context.spark.range(1), "second": 7}

def show_environment(context):
    import json, os
    print(json.dumps(dict(os.environ)))

def talk(context):
    print("on stdout"); print("on stderr", file=sys.stderr); context.logger.info("in the log %s", context.parameters["word"])

def fail(context): raise ArithmeticError("seven is not eight")

def fail_with_secret(context):
    context.logger.info("the password is %s", context.parameters["password"])
    assert len(context.parameters["password"]) == context.parameters["length"]
    try: raise KeyError(context.parameters["password"])
    except KeyError as error: raise ValueError("no " + context.parameters["password"]) from error

def leave(context): sys.exit("no more of this")

def vanish(context): os._exit(7)

def sleep(context): time.sleep(3600)

def stubborn(context):
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(context.parameters["file"]).touch()
    time.sleep(3600)

def sleep_with_child(context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(context.parameters["file"]).write_text(str(child.pid))
    time.sleep(3600)

def chatter(context):
    for number in range(3, 64):
        try:
            os.write(number, b"this is no event\\n")
        except OSError:
            pass
    time.sleep(3600)

def numbers(context):
    rows = context.spark.range(0, context.parameters["count"], 1, 3)
    return context.share(rows.select("id", (F.col("id") % 11).cast("int").alias("k"), F.col("id").cast("string").alias("s")))

def told(context):
    [day, text] = [context.parameters["day"], str(sorted(context.parameters.items()))]
    return context.spark.createDataFrame([(day, text)], "day DATE, text STRING")

def two_outputs(context):
    rows = context.spark.range(10)
    return {"even": rows.filter("id % 2 = 0"), "none": rows.filter("id < 0")}

def same(context): return context.inputs["rows"]

def count(context):
    n = context.inputs["rows"].count()
    context.accumulator("rows").add(n)
    return context.spark.createDataFrame([(n,)], "n bigint")

def lose_and_count(context):
    rows = context.inputs["rows"]
    Path(context.parameters["file"]).unlink()
    return context.spark.createDataFrame([(rows.count(),)], "n bigint")

def written_elsewhere(context):
    place = Path(context.parameters["place"])
    def lose(batches):
        for batch in batches:
            if 600 in batch.column("id").to_pylist():  # The other two partitions were begun before, and one of them has been written.
                next(place.glob("_temporary/*/task_*/part-*")).unlink()
            yield batch
    return context.spark.range(0, 900, 1, 3).mapInArrow(lose, "id bigint")

def busy(context):
    frame = context.spark.range(0, 1 << 60, 1, 2).selectExpr("sum(hash(id, id))")
    Path(context.parameters["file"]).touch()
    frame.collect()

def with_function(context):
    import helper
    return context.spark.range(3).select(F.udf(helper.double, "bigint")("id").alias("d"))

def input_with_function(context):
    import helper
    return context.inputs["a"].select(F.udf(helper.double, "bigint")("id").alias("d"))

def failing_function(context):
    import helper
    return context.spark.range(3).select(F.udf(helper.fail, "bigint")("id").alias("d"))

def divide_by_zero(context):
    from pyspark.errors import ArithmeticException
    try: context.spark.range(1).select(F.lit(1) / F.lit(0)).collect()
    except ArithmeticException as error: raise ValueError(f"{error.getQueryContext()[0].callSite()}; IPython: {'IPython' in sys.modules}")
"""
SQL = {"task_type": TaskType.SQL, "code_archives": ()}
HELPER = 'def double(x): return 2 * x\ndef fail(x): raise KeyError("inside Spark")\n'


class Archives:
    """Serves archives as a blob server does: GET /blobs/<sha256>."""

    def __init__(self) -> None:
        blobs: dict[str, bytes] = {}
        self.blobs, self.requests = blobs, (requests := list[str]())

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self.path)
                data = blobs.get(self.path.removeprefix("/blobs/"))
                self.send_response(404 if data is None else 200)
                self.end_headers()
                self.wfile.write(data or b"there is no such blob")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, **modules: str) -> str:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, code in modules.items():
                archive.writestr(zipfile.ZipInfo(f"{name}.py"), code)  # Without the time of day: equal code has one key.
        return self.add_bytes(stream.getvalue())

    def add_bytes(self, data: bytes) -> str:
        key = hashlib.sha256(data).hexdigest()
        self.blobs[key] = data
        return key


class Host:
    """One fork server with what it tells; and orders for it."""

    def __init__(self, directory: Path, spark_remote: str = "") -> None:
        self.directory = directory
        self.archives = Archives()
        self.code = self.archives.add(tasks=CODE, helper=HELPER)
        self.settings = ForkServerSettings(
            cluster_id="test",
            kafka=KafkaAccess("127.0.0.1:9"),
            replication_factor=1,
            working_place=Place(str(directory / "jobs")),
            log_directory=directory / "logs",
            runtime_directory=directory / "run",
            locations_directory=directory / "locations",
            engines=(SparkEngine("", spark_remote),),
            spark_server=SparkServerSettings("local[2]", "1g"),
            kill_timeout_ms=500,
            with_spark=True,
            warm_processes=2,
            environment=("NAMED_*",),
            secrets=SecretSettings("tm-1", os.getpid(), str(directory)),
        )
        self.lease = SparkLease(self.settings.runtime_directory)
        self.lease.acquire()
        self.inbox: queue.Queue[ProcessEvent] = queue.Queue()
        self.events: list[ProcessEvent] = []
        self.server = self.start()

    def start(self) -> ForkServer:
        server = ForkServer(self.settings, self.inbox.put)
        server.start()
        assert server.wait_until_ready(60)
        return server

    def order(self, task: str, **fields: Any) -> LaunchTask:
        defaults: dict[str, Any] = {
            "job_id": uuid.uuid4().hex,
            "vertex_id": "vertex",
            "subtask_index": 0,
            "attempt": 1,
            "allocation_id": "allocation",
            "slot_index": 0,
            "job_name": "test",
            "task_type": TaskType.PYTHON,
            "task": task if ":" in task or "task_type" in fields else f"tasks:{task}",
            "parallelism": 1,
            "max_parallelism": 128,
            "parameters_json": json.dumps(fields.pop("parameters", {})),
            "inputs": (),
            "outputs": (),
            "code_archives": (self.code,),
        }
        return LaunchTask(TaskDeployment(**(defaults | fields)), str(uuid.uuid4()), self.archives.address)

    def launch(self, task: str, **fields: Any) -> tuple[AttemptId, LaunchTask]:
        order = self.order(task, **fields)
        self.server.send(order)
        deployment = order.deployment
        return AttemptId(deployment.job_id, deployment.vertex_id, deployment.subtask_index, deployment.attempt), order

    def wait_for(self, kind: type[E], attempt: AttemptId | None = None, timeout_s: float = 120) -> E:
        def is_it(event: ProcessEvent) -> bool:
            return isinstance(event, kind) and (attempt is None or getattr(event, "attempt", None) == attempt)

        deadline = time.monotonic() + timeout_s
        while not (found := [e for e in self.events if is_it(e)]):
            self.events.append(self.inbox.get(timeout=max(0.001, deadline - time.monotonic())))
        assert isinstance(found[0], kind)
        return found[0]

    def run(self, task: str, **fields: Any) -> Finished | Failed | Killed:
        attempt, _ = self.launch(task, **fields)
        return self.wait_for(TaskProcessEnded, attempt).outcome

    def finish(self, task: str, **fields: Any) -> tuple[OutputLocation, ...]:
        outcome = self.run(task, **fields)
        assert isinstance(outcome, Finished), outcome
        return outcome.outputs

    def fail(self, task: str, **fields: Any) -> tuple[str, str, str]:
        outcome = self.run(task, **fields)
        assert isinstance(outcome, Failed), outcome
        return outcome.cause.failure_type, outcome.cause.message, outcome.cause.stack_trace or ""

    def make_numbers(self, count: int, parallelism: int) -> tuple[OutputLocation, ...]:
        """Return the numbers below `count`, written by so many subtasks."""
        job = uuid.uuid4().hex
        locations: list[OutputLocation] = []
        for index in range(parallelism):
            shape = {"job_id": job, "subtask_index": index, "parallelism": parallelism}
            locations += self.finish("numbers", parameters={"count": count}, **shape)
        return tuple(locations)

    def shares(self, task_input: TaskInput, parallelism: int) -> list[list[dict[str, Any]]]:
        """Return the rows that each subtask sees of the input."""
        shares = []
        for index in range(parallelism):
            told = forwarded(task_input, index) if task_input.ship is ShipStrategy.FORWARD else task_input
            outputs = self.finish("same", inputs=(told,), subtask_index=index, parallelism=parallelism)
            shares.append(read_result([outputs[0]], 1_000_000).to_pylist())
        return shares


def forwarded(task_input: TaskInput, subtask_index: int) -> TaskInput:
    """Return what a master tells a subtask of a forward edge of which all is given."""
    return replace(task_input, locations=task_input.locations[subtask_index : subtask_index + 1])


def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.02)


def is_running(process_id: int) -> bool:
    try:
        return bool(psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
