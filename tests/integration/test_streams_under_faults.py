"""Ten streams of different kinds for as long as a soak takes, while everything below them is killed and frozen, against known answers.

The faults come at random from `SOAK_SEED`, for `SOAK_SECONDS`. Each record counts once in each stream, and nothing else is written.
What was done and what came of it is printed.
"""

import os
import random
import signal
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from eventflink.jobs.result import read_result
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.master.execution_graph import Subtask
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from tests.support import stream_tasks
from tests.support.running_cluster import EAGER, RunningCluster, descendants, has_open, wait_until
from tests.support.spark_work import sink_workers
from tests.support.topics import CommittedReader, create_topic, feed

SOAK_SEED = int(os.environ.get("SOAK_SEED", "0"))
SOAK_SECONDS = int(os.environ.get("SOAK_SECONDS", "60"))
END_TIMEOUT_S: Final = 1_200
"""For how long after the last fault the streams may take until they have written everything."""

KEYS, BAD_EACH, RECORDS_PER_S, PARTITIONS = 7, 10, 40, 3
FIRST_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
PER_RECORD: Final = timedelta(milliseconds=100)
WINDOW_S: Final = 10
LAST: Final = {"key": "end", "number": -1, "at": "2030-01-01T00:00:00Z"}
"""The record behind all others, whose time ends all windows; no answer has it."""

SCHEMA: Final = "key STRING, number BIGINT, at TIMESTAMP"
SETTINGS: Final = {"spark.sql.shuffle.partitions": 2}
TRIGGER: Final = {"processing_time_ms": 2_000}

pytestmark = [
    pytest.mark.soak("eventflink.streams", "eventflink.taskexecutor.task_stream"),
    pytest.mark.timeout(SOAK_SECONDS + END_TIMEOUT_S + 900),
]

Row = tuple[tuple[str, Any], ...]


def record(number: int) -> dict[str, Any]:
    return {"key": f"k{number % KEYS}", "number": number, "at": (FIRST_AT + number * PER_RECORD).isoformat()}


def row(**values: Any) -> Row:
    """Return a row as it is compared: what is null is not in its JSON."""
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


def rows_of(answer: list[dict[str, Any]]) -> Counter[Row]:
    return Counter(row(**each) for each in answer if each.get("key") != "end" and each.get("number") != -1)


Check = Callable[[Counter[Row], int], str]
"""Says what is wrong with the rows of a stream that has had so many records; "": nothing, "…": rows are missing, and may come yet."""

MISSING = "rows are missing"


def exactly(expected: Callable[[int], Counter[Row]]) -> Check:
    """Each row is there as often as it should be."""

    def check(rows: Counter[Row], fed: int) -> str:
        wanted = expected(fed)
        if foreign := rows - wanted:
            return f"{foreign.total()} rows are wrong or there twice: {list(foreign)[:3]}"
        missing = wanted - rows
        return f"{MISSING}: {missing.total()} of {wanted.total()}, as {list(missing)[:3]}" if missing else ""

    return check


def counted(rows: Counter[Row], fed: int) -> str:
    """Each count of a key was written once, none is beyond the last one, and that is right."""
    wanted = Counter(record(number)["key"] for number in range(fed))
    if twice := {each: times for each, times in rows.items() if times > 1}:
        return f"{len(twice)} counts are there twice: {list(twice)[:3]}"
    if beyond := [each for each in map(dict, rows) if each["count"] > wanted[each["key"]]]:
        return f"{len(beyond)} counts are too high: {beyond[:3]}"
    last: Counter[str] = Counter()
    for each in map(dict, rows):
        last[each["key"]] = max(last[each["key"]], each["count"])
    return "" if last == wanted else f"{MISSING}: {wanted - last}"


def windows(fed: int) -> Counter[Row]:
    starts = Counter(int((FIRST_AT + number * PER_RECORD).timestamp()) // WINDOW_S * WINDOW_S for number in range(fed))
    return Counter(row(start=start, count=count) for start, count in starts.items())


def each_number(made: Callable[[int], Row], of: Callable[[int], bool] = lambda _: True) -> Check:
    return exactly(lambda fed: Counter(made(number) for number in range(fed) if of(number)))


@dataclass(slots=True)
class Stream:
    """A job, where its rows are, and what they should be."""

    name: str
    vertices: list[dict[str, Any]]
    checks: dict[str, Check]
    """By the topic that it writes."""

    edges: list[dict[str, Any]] = field(default_factory=list)
    job_id: str = ""
    readers: dict[str, CommittedReader] = field(default_factory=dict)


def streams_of(bootstrap: str, orders: str, mixed: str) -> Iterator[Stream]:
    """Yield the streams, each of which writes topics of its own."""

    def kafka(topic: str, **more: Any) -> dict[str, Any]:
        return {"kafka": {"topic": topic, **more}, "format": "json"}

    def source(**more: Any) -> dict[str, Any]:
        return {**kafka(orders), "schema": SCHEMA, **more}

    def vertex(code: dict[str, str], **stream: Any) -> dict[str, Any]:
        stream = {"sources": {"source": source()}, "settings": SETTINGS, "trigger": TRIGGER, **stream}
        return {"id": "stream", **code, "stream": stream}

    def target() -> str:
        return create_topic(bootstrap, PARTITIONS)

    whole, number = each_number(lambda n: row(key=record(n)["key"], number=n)), each_number(lambda n: row(number=n))
    timed = {"event_time": "at", "watermark_delay_ms": 60_000}

    copied = target()
    copy = vertex({"sql": "SELECT key, number FROM source"}, sink=kafka(copied))
    yield Stream("copy", [copy | {"parallelism": 2}], {copied: whole})

    counts = target()
    yield Stream("count", [vertex({"python": "stream_tasks:count_by_key"}, sink=kafka(counts), output_mode="update")], {counts: counted})

    windowed = target()
    of_windows = "SELECT unix_timestamp(window.start) AS start, count(*) AS count FROM source GROUP BY window(at, '10 seconds')"
    yield Stream(
        "windows", [vertex({"sql": of_windows}, sources={"source": source(**timed)}, sink=kafka(windowed))], {windowed: exactly(windows)}
    )

    joined = target()
    outer = (
        "SELECT l.number, r.number AS third FROM l LEFT JOIN (SELECT * FROM r WHERE number % 3 = 0) r "
        "ON l.number = r.number AND r.at BETWEEN l.at - INTERVAL 1 SECOND AND l.at + INTERVAL 1 SECOND"
    )
    sides = {"l": source(**timed), "r": source(**timed)}
    thirds = each_number(lambda n: row(number=n, third=n if n % 3 == 0 else None))
    yield Stream("outer join", [vertex({"sql": outer}, sources=sides, sink=kafka(joined))], {joined: thirds})

    first = target()
    once = each_number(lambda n: row(third=n // 3), lambda n: n % 3 == 0)
    yield Stream("first of three", [vertex({"python": "stream_tasks:first_of_three"}, sink=kafka(first))], {first: once})

    even, odd = target(), target()
    halves = {
        even: each_number(lambda n: row(**record(n) | {"at": None}), lambda n: n % 2 == 0),
        odd: each_number(lambda n: row(number=n), lambda n: n % 2 == 1),
    }
    two = vertex({"python": "stream_tasks:split"}, sinks={"even": kafka(even), "odd": kafka(odd)})
    two["stream"]["sources"]["source"] |= {"schema": "key STRING, number BIGINT"}
    yield Stream("two outputs", [two], halves)

    good, bad = target(), target()
    sorted_out = {good: number, bad: exactly(lambda fed: Counter(row(value=f"no {n}") for n in range(0, fed, BAD_EACH)))}
    mixed_source = {**kafka(mixed, bad_records="column"), "schema": "number BIGINT"}
    sinks = {"good": kafka(good), "bad": kafka(bad)}
    yield Stream(
        "bad records", [vertex({"python": "stream_tasks:good_and_bad"}, sources={"source": mixed_source}, sinks=sinks)], sorted_out
    )

    over_edge = target()
    edge = {"from": "parse", "to": "stream", "schema": SCHEMA, "ship": "hash", "keys": ["key"], "partitions": 3}
    parse = vertex({"python": "stream_tasks:parse"}) | {"id": "parse"}
    reads = vertex({"python": "stream_tasks:count_numbers"}, sources={}, sink=kafka(over_edge), output_mode="update")
    once_each = each_number(lambda n: row(key=record(n)["key"], number=n, count=1))
    yield Stream("over an edge", [parse, reads | {"parallelism": 2}], {over_edge: once_each}, [edge])

    named = target()
    table = {"id": "names", "python": "stream_tasks:names"}
    with_names = vertex({"python": "stream_tasks:with_names"}, sink=kafka(named))
    with_names["stream"]["sources"]["source"] |= {"schema": "key STRING, number BIGINT"}
    names = each_number(lambda n: row(key=record(n)["key"], number=n, name=f"name-{n % KEYS}"))
    yield Stream("with a table", [table, with_names], {named: names}, [{"from": "names", "to": "stream"}])


class World:
    """A broker, a cluster whose streams run, who feeds them, and what is done to them."""

    def __init__(self, broker: EmbeddedBroker, directory: Path) -> None:
        self.broker, self.directory, self.random = broker, directory, random.Random(SOAK_SEED)
        settings = {**EAGER, "spark.local.memory": "2g", "taskmanager.numberOfTaskSlots": 20}
        self.cluster = RunningCluster(broker.bootstrap_servers, f"test-{uuid.uuid4().hex[:12]}", directory, **settings)
        self.orders, self.mixed = (create_topic(broker.bootstrap_servers, PARTITIONS) for _ in range(2))
        self.streams = list(streams_of(broker.bootstrap_servers, self.orders, self.mixed))
        self.files = directory / "out"
        self.done: Counter[str] = Counter()
        self.fed = 0
        self._stop, self._feeder = threading.Event(), threading.Thread(target=self._feed)

    def start(self) -> None:
        """Start the cluster, submit the streams, one of which writes files, and begin to feed them."""
        self.cluster.start_master("master-1")
        self.cluster.start_standby("master-2")
        self.cluster.start_task_executor(slots=20)
        archive = self.cluster.user_code(Path(stream_tasks.__file__))
        source = {"kafka": {"topic": self.orders}, "format": "json", "schema": SCHEMA}
        sink = {"files": {"path": str(self.files)}, "format": "parquet"}
        of_files = {"sources": {"source": source}, "sink": sink, "trigger": TRIGGER, "settings": SETTINGS}
        self.streams.append(Stream("files", [{"id": "stream", "sql": "SELECT key, number FROM source", "stream": of_files}], {}))
        for stream in self.streams:
            graph = self.cluster.graph(
                *stream.vertices,
                name=stream.name,
                edges=stream.edges,
                code_archives=[archive],
                restart_strategy={"type": "fixed-delay", "attempts": 10_000, "delay_ms": 500},
                checkpointing={"interval_ms": 3_000},
            )
            stream.job_id = self.cluster.submit(graph)
            stream.readers = {topic: CommittedReader(self.broker.bootstrap_servers, topic, PARTITIONS) for topic in stream.checks}
        self._feeder.start()
        for stream in self.streams:
            self._wait_until_it_runs(stream)

    def _wait_until_it_runs(self, stream: Stream) -> None:
        def runs() -> bool:
            job = self.cluster.job(stream.job_id)
            assert job.status not in TERMINAL_JOB_STATUSES, f"{stream.name}: {job.status}: {job.cause}"
            reads = [subtask for subtask in job.execution_graph.subtasks() if subtask.vertex_id != "names"]
            return all(subtask.state is ExecutionState.RUNNING for subtask in reads)

        wait_until(runs, f"{stream.name} runs", END_TIMEOUT_S)

    def _feed(self) -> None:
        while not self._stop.wait(1):
            numbers = range(self.fed, self.fed + RECORDS_PER_S)
            feed(self.broker.bootstrap_servers, self.orders, map(record, numbers))
            mixed: list[dict[str, Any] | bytes] = [{"number": number} for number in numbers]
            mixed += [f"no {number}".encode() for number in numbers if number % BAD_EACH == 0]
            feed(self.broker.bootstrap_servers, self.mixed, mixed)
            self.fed += RECORDS_PER_S

    # -- faults ---------------------------------------------------------------------------------------------------

    def faults(self) -> list[Callable[[], bool]]:
        """Return what may be done; each says whether it found something to do it to."""
        return [
            self.kill_a_task,
            self.kill_a_task,
            self.kill_a_sink,
            self.kill_spark,
            self.kill_a_master,
            self.kill_the_task_executor,
            self.freeze_spark,
            self.freeze_a_master,
            self.freeze_the_task_executor,
            self.kill_the_broker,
        ]

    def disturb(self) -> None:
        """Do something to something until the time is over, and first what surely ends an attempt."""
        deadline, fault = time.monotonic() + SOAK_SECONDS, self.kill_a_task
        while time.monotonic() < deadline:
            print(f"{datetime.now(UTC):%H:%M:%S} {self.fed} records, {fault.__name__}", flush=True)
            self.done[fault.__name__] += fault()
            assert self._feeder.is_alive()
            time.sleep(self.random.uniform(3, 15))
            fault = self.random.choice(self.faults())

    def kill_a_task(self) -> bool:
        subtasks = [
            (stream.job_id, subtask)
            for stream in self.streams
            for subtask in self.cluster.job(stream.job_id).execution_graph.subtasks()
            if subtask.state is ExecutionState.RUNNING
        ]
        if not subtasks:
            return False
        job_id, subtask = self.random.choice(subtasks)
        log = f"{job_id}/{subtask.vertex_id}-{subtask.subtask_index}-{subtask.attempt}.log"
        return _kill([process for process in descendants(self.cluster.processes["tm"]) if has_open(process, log)])

    def kill_a_sink(self) -> bool:
        workers = sink_workers(self.cluster.spark_processes())
        return bool(workers) and _kill([self.random.choice(workers)])

    def kill_spark(self) -> bool:
        return _kill(self.cluster.spark_processes("SparkConnectServer"))

    def kill_a_master(self) -> bool:
        name = self.random.choice(sorted(self.cluster.masters))
        self.cluster.kill(name)
        self.cluster.start_standby(name)
        return True

    def kill_the_task_executor(self) -> bool:
        self.cluster.kill("tm")
        self.cluster.start_task_executor(slots=20)
        return True

    def kill_the_broker(self) -> bool:
        process_id = self.broker.process_id
        assert process_id is not None
        os.kill(process_id, signal.SIGKILL)
        self.broker.stop()
        self.broker.start()
        return True

    def freeze_spark(self) -> bool:
        return self._freeze(self.cluster.spark_processes("SparkConnectServer"))

    def freeze_a_master(self) -> bool:
        return self._freeze([psutil.Process(self.cluster.processes[self.random.choice(sorted(self.cluster.masters))].pid)])

    def freeze_the_task_executor(self) -> bool:
        """Freeze it with its tasks, as a host whose network is gone; its Spark goes on."""
        spark = self.cluster.spark_processes()
        tree = [psutil.Process(self.cluster.processes["tm"].pid), *descendants(self.cluster.processes["tm"])]
        return self._freeze([process for process in tree if process not in spark])

    def _freeze(self, processes: list[psutil.Process]) -> bool:
        frozen = 0
        for process in processes:
            with suppress(psutil.Error):
                process.suspend()
                frozen += 1
        time.sleep(self.random.uniform(3, 25))
        for process in processes:
            with suppress(psutil.Error):
                process.resume()
        return frozen > 0

    # -- answers --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Wait until each stream has written what it should, and see that it wrote nothing else."""
        self._stop.set()
        self._feeder.join()
        feed(self.broker.bootstrap_servers, self.orders, [LAST])
        deadline = time.monotonic() + END_TIMEOUT_S
        for stream in self.streams:
            for topic, reader in stream.readers.items():
                while (wrong := stream.checks[topic](rows_of(reader.rows), self.fed)).startswith(MISSING):
                    assert time.monotonic() < deadline, f"{stream.name}: {wrong}"
                    reader.read(2)
                reader.read(2)
                wrong = wrong or stream.checks[topic](rows_of(reader.rows), self.fed)
                assert not wrong, f"{stream.name}: {wrong}"
        wait_until(lambda: self._rows_in_files() >= self.fed, "all records are in files", END_TIMEOUT_S)
        assert self._rows_in_files(distinct=True) == self._rows_in_files() == self.fed

    def _rows_in_files(self, *, distinct: bool = False) -> int:
        what = "DISTINCT number" if distinct else "number"
        sql = f"SELECT count({what}) AS rows FROM parquet.`{self.files}` WHERE number >= 0"
        counting = self.cluster.submit(self.cluster.graph({"id": "count", "sql": sql}))
        [subtask] = self.cluster.wait_for_status(counting, JobStatus.FINISHED).execution_graph.subtasks()
        [answer] = read_result(subtask.outputs, 10).to_pylist()
        return int(answer["rows"])

    def subtasks_of(self, stream: Stream) -> list[Subtask]:
        """Return the subtasks of a stream's job as they stand."""
        return list(self.cluster.job(stream.job_id).execution_graph.subtasks())

    def close(self) -> None:
        """Stop everything."""
        self._stop.set()
        if self._feeder.is_alive():
            self._feeder.join()
        for stream in self.streams:
            for reader in stream.readers.values():
                reader.close()
        self.cluster.close()


def _kill(processes: list[psutil.Process]) -> bool:
    """Kill processes, some of which may have ended; tell whether one had not."""
    killed = 0
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            killed += 1
    return killed > 0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with EmbeddedBroker(tmp_path / "broker", port) as broker:
        made = World(broker, tmp_path)
        yield made
        made.close()


def test_ten_streams_write_what_they_should_and_nothing_else_whatever_is_killed(world: World) -> None:
    world.start()
    world.disturb()
    world.check()
    again = {stream.name: sum(subtask.attempt - 1 for subtask in world.subtasks_of(stream)) for stream in world.streams}
    print(f"{world.fed} records for each of {len(world.streams)} streams; faults: {dict(world.done)}; attempts again: {again}")
    assert world.done.total() > 0
    assert sum(again.values()) > 0, "no fault ended an attempt"
