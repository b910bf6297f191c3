"""The cluster of the benchmarks of streams: a leader, a standby and real TaskExecutors, whose Spark runs the streams.

Streams are SQL, so that no code has to be carried. The rule it keeps: what is measured of a stream is read from outside, at its topics, in
its checkpoint directory, in the log, and in /proc.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.failover_cluster import Command, FailoverCluster
from benchmarks.stream_traffic import SCHEMA, StreamTopics
from eventflink.gateways.dispatcher_gateway import DispatcherGateway, new_job_id
from eventflink.log.administration import ensure_topics
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import JobStatus, TaskFile
from eventflink.taskexecutor.task_files import checkpoint_place, task_file_path

SQL: Final = "SELECT number, fed_ns, upper(text) AS text FROM source WHERE number % 1000 >= 0"
"""A filter, which keeps all records so that each can be missed, and a projection."""

START_TIMEOUT_S: Final = 240.0
"""For a first stream: Spark starts with it, and may fetch its connector."""

_END_TIMEOUT_S: Final = 60.0
_RESTARTS: Final = 1_000
_RESTART_DELAY_MS: Final = 100
_VERTEX: Final = "stream"
_STARTED: Final = re.compile(r"StreamStarted .*restored_batch=(-?\d+) begun_batch=(-?\d+)")


def stream_graph(topics: StreamTopics, trigger: Mapping[str, Any], max_offsets_per_trigger: int | None = None) -> JobGraph:
    """Return a job that copies a topic by `SQL`, and goes on after every failure; in real time at least once, else exactly once."""
    kafka: dict[str, Any] = {"topic": topics.source}
    if max_offsets_per_trigger is not None:
        kafka["max_offsets_per_trigger"] = max_offsets_per_trigger
    in_real_time = "real_time_ms" in trigger
    stream = {
        "sources": {"source": {"kafka": kafka, "format": "json", "schema": SCHEMA}},
        "sink": {"kafka": {"topic": topics.target} | ({"guarantee": "at_least_once"} if in_real_time else {}), "format": "json"},
        "trigger": dict(trigger),
        "output_mode": "update" if in_real_time else "append",
    }
    strategy = {"type": "fixed-delay", "attempts": _RESTARTS, "delay_ms": _RESTART_DELAY_MS}
    document = {"name": "stream", "vertices": [{"id": _VERTEX, "sql": SQL, "stream": stream}], "restart_strategy": strategy}
    return parse_job_graph(document, "stream")


class StreamCluster(FailoverCluster):
    """A `FailoverCluster` that runs streams."""

    def __init__(self, configuration: Configuration, bootstrap: str, command: Command) -> None:
        """Make the cluster's topics; nothing is started yet."""
        ensure_topics(access_to(bootstrap, configuration.cluster_id), configuration.replication_factor)
        super().__init__(configuration, bootstrap, command)
        self.runtime_directory = configuration.data_path / "run"

    def start(self, task_executors: int) -> None:
        """Start a leader, a standby and so many TaskExecutors; raises as `start_master` and `start_task_executor` do."""
        for _ in range(2):
            self.start_master()
        for _ in range(task_executors):
            self.start_task_executor(1)

    @contextmanager
    def running(self, graph: JobGraph) -> Iterator["StreamJob"]:
        """Submit a job, and cancel it at last if it has not ended; raises GatewayError."""
        with DispatcherGateway(self.access) as gateway:
            job = StreamJob(self, new_job_id())
            gateway.submit_job(graph, job.job_id, actor="benchmark")
            try:
                yield job
            finally:
                if job.status() is None:
                    gateway.cancel_job(job.job_id, actor="benchmark")
                    self.watch.wait_for(job.status, f"end of {job.job_id}", _END_TIMEOUT_S)


class StreamJob:
    """One job of one subtask, as it is seen from outside."""

    def __init__(self, cluster: StreamCluster, job_id: str) -> None:
        """Name it; nothing is asked yet."""
        self.job_id = job_id
        self._cluster = cluster
        self._subtask = SubtaskId(job_id, _VERTEX, 0)

    @property
    def checkpoint_directory(self) -> Path:
        """Where Spark notes its batches; it goes with the job."""
        return checkpoint_place(self._cluster.configuration.working_place, self._attempt_id(1)).path

    def status(self) -> JobStatus | None:
        """Return how it ended; None while it has not."""
        return self._cluster.watch.ended.get(self.job_id)

    def attempt(self) -> int:
        """Return the number of the newest attempt that was seen running; 0: none was."""
        run = self._cluster.watch.runs.get(self._subtask)
        return 0 if run is None else run.attempt

    def place(self) -> tuple[str, int]:
        """Return the TaskExecutor of the running attempt, by its id and its process."""
        watch = self._cluster.watch

        def found() -> str | None:
            job = watch.fold.master.dispatcher.jobs.get(self.job_id)
            execution = None if job is None else job.execution_graph.execution_of(self._attempt_id(self.attempt()))
            return None if execution is None else execution.task_manager_id

        name = watch.wait_for(found, f"the place of {self.job_id}")
        return name, self._cluster.hosts[name].process.pid

    def log_path(self, task_manager_id: str) -> Path:
        """Return what the running attempt logs to, which it holds open."""
        return task_file_path(
            self._cluster.configuration.data_path / "logs" / task_manager_id, self._attempt_id(self.attempt()), TaskFile.LOG
        )

    def starts(self) -> list[tuple[int, int]]:
        """Return, of each attempt whose query started, the last batch that was committed then, and the last one that had been begun."""
        logs = self._cluster.configuration.data_path / "logs"
        pattern = task_file_path(Path("*"), self._attempt_id(1), TaskFile.LOG).parent / f"{_VERTEX}-0-*.{TaskFile.LOG.value.lower()}"
        said = [path.read_text(encoding="utf-8", errors="replace") for path in logs.glob(str(pattern))]
        return sorted((int(committed), int(begun)) for text in said for committed, begun in _STARTED.findall(text))

    def _attempt_id(self, attempt: int) -> AttemptId:
        return AttemptId(self.job_id, _VERTEX, 0, attempt)
