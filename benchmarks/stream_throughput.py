"""What exactly once and the cluster take of a stream's throughput: the same query as a job, and as plain PySpark on the same warm server.

Both read what a topic holds, as JSON, filter, project and write JSON, and end. They run in alternation. What is measured is between the
commits of the first and of the last batch, as Spark notes them in the checkpoint directory: workers run then, and nothing is submitted.
"""

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from benchmarks.failover_watch import NotSeen
from benchmarks.process_cpu import CLIENT, SPARK, SPARK_PYTHON, TASK_EXECUTOR, TASKS, CpuMeter, CpuNotMeasured, CpuReading
from benchmarks.report import Distribution
from benchmarks.stream_cluster import SQL, StreamCluster, stream_graph
from benchmarks.stream_counts import Counts, SteadyBatches, count_records, steady_batches
from benchmarks.stream_traffic import PARTITIONS, SCHEMA, Feed, StreamTopics, read_numbers, stream_topics
from eventflink.model.statuses import JobStatus
from eventflink.streams.kafka_sink import BATCHING
from eventflink.taskexecutor.spark_server import SparkServerSettings, ensure_server, find_server
from eventflink.taskexecutor.task_spark import open_session
from eventflink.testing.process_search import spark_servers

BATCHES: Final = 6
"""The first of which is not measured."""

_LIKE_THE_JOB: Final = {f"kafka.{name}": str(value) for name, value in BATCHING.items()}
"""Kafka's own producer would neither compress nor wait."""

ALL: Final = "all"

_POLL_S: Final = 0.02
_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Side:
    """One side, over all rounds."""

    rows_per_s: Distribution
    wall_s: Distribution
    """From the submission of the job, or from the opening of the session, to the end."""
    cpu_us_per_row: dict[str, Distribution]
    """By process; `all` is their sum."""


@dataclass(frozen=True, slots=True)
class ThroughputFigures:
    """What was measured. A ratio is the job's figure over plain PySpark's of the same round."""

    rounds: int
    rows: int
    partitions: int
    job: Side
    plain: Side
    time_ratio: Distribution
    cpu_ratio: Distribution
    counts: list[Counts]
    """Of each round's job."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one side."""

    batches: SteadyBatches
    wall_s: float
    cpu_s: dict[str, float]


class CommitWatch:
    """Notes when each batch of a query is committed, and what the processes had used by then; as a context manager."""

    def __init__(self, location: Path, meter: CpuMeter) -> None:
        """Name the checkpoint directory, which need not exist yet."""
        self._commits = location / "commits"
        self._meter = meter
        self._committed_ns: dict[int, int] = {}
        self._readings: dict[int, CpuReading] = {}
        self._failure: CpuNotMeasured | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commits", daemon=True)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_POLL_S):
                self._look()
        except CpuNotMeasured as error:
            self._failure = error

    def _look(self) -> None:
        try:
            found = {int(entry.name): entry.stat().st_mtime_ns for entry in self._commits.iterdir() if entry.name.isdigit()}
        except FileNotFoundError:  # It is not there yet, or went with its job.
            return
        if new := found.keys() - self._committed_ns.keys():
            self._readings[max(new)] = self._meter.read()
            self._committed_ns |= {batch: found[batch] for batch in new}

    def trial(self, wall_s: float) -> Trial:
        """Return what was noted from the first commit to the last one.

        Raises:
            NotSeen: a batch was not seen.
            CpuNotMeasured: a process ended meanwhile.

        """
        if self._failure is not None:
            raise self._failure
        batches = steady_batches(self._committed_ns)
        if batches is None or batches.batches != BATCHES - 1 or not {0, BATCHES - 1} <= self._readings.keys():
            raise NotSeen(f"{BATCHES} batches were expected, and the commits of {sorted(self._committed_ns)} were seen")
        return Trial(batches, wall_s, self._readings[BATCHES - 1].since(self._readings[0]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)


class ThroughputBench:
    """Rounds of both sides, in one cluster. For the main thread."""

    def __init__(self, cluster: StreamCluster, say: Callable[[str], None]) -> None:
        """Take a cluster of which nothing is started yet."""
        self._cluster = cluster
        self._say = say

    def measure(self, *, rounds: int, rows: int) -> ThroughputFigures:
        """Measure, after a round that warms up.

        Args:
            rounds: how often each side runs.
            rows: how many records the topic holds; a multiple of `BATCHES` and the partitions makes all batches equal.

        Raises:
            NotSeen, CpuNotMeasured, ChildDied, GatewayError, TrafficFailed, SparkUnavailable: the cluster did not do its work.

        """
        cluster = self._cluster
        cluster.start(1)
        configuration = cluster.configuration
        spark = SparkServerSettings.of(configuration)
        self._say("Spark is started")
        ensure_server(cluster.runtime_directory, spark)
        job: list[Trial] = []
        plain: list[Trial] = []
        counts: list[Counts] = []
        with stream_topics(cluster.bootstrap) as filled, Feed(cluster.bootstrap, filled.source) as feed:
            self._say(f"{rows:,} records are fed")
            feed.fill(rows)
            for number in range(rounds + 1):
                sides: list[Callable[[], None]] = [
                    lambda: job.append(self._run_job(filled.source, rows, counts)),
                    lambda: plain.append(self._run_plain(filled.source, rows)),
                ]
                for side in sides if number % 2 == 0 else reversed(sides):
                    side()
                what = f"round {number}" if number else "warming up"
                self._say(
                    f"{what}: {_rows_per_s(job[-1], rows):,.0f} rows/s as a job, {_rows_per_s(plain[-1], rows):,.0f} as plain PySpark"
                )
        return summarise(job[1:], plain[1:], rows, counts[1:])

    def _run_job(self, source: str, rows: int, counts: list[Counts]) -> Trial:
        cluster = self._cluster
        with stream_topics(cluster.bootstrap) as own:
            topics = StreamTopics(source, own.target)
            began_s = time.monotonic()
            with (
                cluster.running(stream_graph(topics, {"available_now": True}, -(-rows // BATCHES))) as job,
                CommitWatch(job.checkpoint_directory, self._meter()) as commits,
            ):
                status = cluster.watch.wait_for(job.status, "the job's end", _TIMEOUT_S)
                wall_s = time.monotonic() - began_s
            if status is not JobStatus.FINISHED:
                raise NotSeen(f"the job has not FINISHED, it is {status}")
            counts.append(count_records(rows, read_numbers(cluster.bootstrap, topics.target, committed=True)))
        return commits.trial(wall_s)

    def _meter(self) -> CpuMeter:
        cluster = self._cluster
        [server] = spark_servers(cluster.runtime_directory)
        [executor] = cluster.hosts.values()
        return CpuMeter({SPARK: server.pid, TASK_EXECUTOR: executor.process.pid})

    def _run_plain(self, source: str, rows: int) -> Trial:
        """Run what a user of PySpark would write, with Spark's own Kafka sink: at least once."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

        cluster = self._cluster
        runtime_directory = cluster.runtime_directory
        remote = find_server(runtime_directory)
        if remote is None:
            raise NotSeen("Spark does not run any more")
        location = cluster.configuration.data_path / "plain"
        kafka = {"kafka.bootstrap.servers": cluster.bootstrap}
        reading = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(-(-rows // BATCHES))}
        with stream_topics(cluster.bootstrap) as own, CommitWatch(location, self._meter()) as commits:
            began_s = time.monotonic()
            spark = open_session(remote, runtime_directory)
            try:
                records = spark.readStream.format("kafka").options(**kafka, **reading).load()
                columns = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
                columns.createOrReplaceTempView("source")
                values = spark.sql(SQL).select(f.to_json(f.struct("*")).alias("value"))
                writing = kafka | _LIKE_THE_JOB | {"topic": own.target, "checkpointLocation": str(location)}
                writer = values.writeStream.format("kafka").options(**writing)
                if not writer.trigger(availableNow=True).start().awaitTermination(_TIMEOUT_S):
                    raise NotSeen(f"plain PySpark did not end within {_TIMEOUT_S:.0f} s")
            finally:
                spark.stop()
            wall_s = time.monotonic() - began_s
            time.sleep(2 * _POLL_S)  # The last commit is to be seen.
        shutil.rmtree(location)
        return commits.trial(wall_s)


def _rows_per_s(trial: Trial, rows: int) -> float:
    return rows * trial.batches.batches / BATCHES / trial.batches.seconds


def summarise(job: Sequence[Trial], plain: Sequence[Trial], rows: int, counts: Sequence[Counts]) -> ThroughputFigures:
    """Return the figures of these rounds, which are in the same order on both sides."""
    pairs = list(zip(job, plain, strict=True))
    return ThroughputFigures(
        rounds=len(pairs),
        rows=rows,
        partitions=PARTITIONS,
        job=_side(job, rows, TASKS),
        plain=_side(plain, rows, CLIENT),
        time_ratio=Distribution.of([one.batches.seconds / other.batches.seconds for one, other in pairs]),
        cpu_ratio=Distribution.of([_cpu_s(one, TASKS) / _cpu_s(other, CLIENT) for one, other in pairs]),
        counts=list(counts),
    )


def _side(trials: Sequence[Trial], rows: int, client: str) -> Side:
    measured = rows * (BATCHES - 1) / BATCHES
    parts = {name: [trial.cpu_s[name] * 1e6 / measured for trial in trials] for name in (SPARK, SPARK_PYTHON, client)}
    whole = [_cpu_s(trial, client) * 1e6 / measured for trial in trials]
    return Side(
        rows_per_s=Distribution.of([_rows_per_s(trial, rows) for trial in trials]),
        wall_s=Distribution.of([trial.wall_s for trial in trials]),
        cpu_us_per_row={name: Distribution.of(samples) for name, samples in {**parts, ALL: whole}.items()},
    )


def _cpu_s(trial: Trial, client: str) -> float:
    """Return what Spark, its Python workers and the query's own client used."""
    return sum(trial.cpu_s[name] for name in (SPARK, SPARK_PYTHON, client))
