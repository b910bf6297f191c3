"""Runs the task of a stream: opens its sources, starts its query, and answers checkpoints until the query ends.

What a query is and how it writes is the room `streams`. The rule it keeps: the main thread waits for the query, one other thread answers
orders; both may speak to the TaskExecutor, one line at a time.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import StreamDefinition, StreamSource
from eventflink.model.statuses import StreamConnector
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.query import RunningQuery, start_query
from eventflink.streams.sinks import write_to_sinks
from eventflink.streams.sources import SubtaskShare, read_source
from eventflink.taskexecutor.failure_causes import OutputUnusable, bounded, text_of
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.process_events import CheckpointDeclined, CheckpointTaken, StreamEvent, StreamStarted, TakeCheckpoint
from eventflink.taskexecutor.spark_jars import PROBLEM_SETTING
from eventflink.taskexecutor.task_code import resolve_function
from eventflink.taskexecutor.task_files import checkpoint_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_REASON_LIMIT = 500


class StreamTask:
    """One attempt of a subtask of a stream."""

    def __init__(
        self,
        deployment: TaskDeployment,
        stream: StreamDefinition,
        attempt: AttemptId,
        settings: ForkServerSettings,
        archives: Sequence[Path],
        tell: Callable[[StreamEvent], None],
    ) -> None:
        """Take what to run, where its TaskExecutor keeps things and the job's code, and what takes what is to be told of it."""
        self._archives = archives
        self._deployment = deployment
        self._stream = stream
        self._attempt = attempt
        self._settings = settings
        self._tell = tell
        self.sources = stream.sources
        self._location = checkpoint_path(settings.working_path, attempt)
        self._query: RunningQuery | None = None

    def prepare(self, spark: "SparkSession") -> None:
        """Give the session what the graph says of it, before the task's function sees it.

        Raises:
            StreamUnusable: the server cannot read Kafka.

        """
        for key, value in json.loads(self._stream.settings_json).items():
            spark.conf.set(key, str(value).lower() if isinstance(value, bool) else str(value))
        problem = spark.conf.get(PROBLEM_SETTING, "")
        if problem and any(source.connector is StreamConnector.KAFKA for source in self._stream.sources):
            raise StreamUnusable(f"Spark cannot read Kafka: {problem}")

    def read(self, source: StreamSource, spark: "SparkSession") -> "DataFrame":
        """Return this subtask's share of a source."""
        share = SubtaskShare(self._deployment.subtask_index, self._deployment.parallelism)
        return read_source(spark, source, share, self._settings.bootstrap_servers, resolve_function)

    def run(self, returned: object, orders: Iterable[TakeCheckpoint]) -> None:
        """Run the query until it ends, which a bounded one does.

        Args:
            returned: what the task's function returned.
            orders: what the TaskExecutor asks for meanwhile; waits for the next one, and ends with the connection.

        Raises:
            OutputUnusable: it is not what its sinks need.
            StreamUnusable: the sink cannot be used as it is declared.
            StreamingQueryException: the query failed.

        """
        query = self._start(_outputs_of(returned, [sink.name for sink in self._stream.sinks]))
        self._query = query
        self._tell(StreamStarted(self._attempt, query.query_id, query.run_id, str(self._location), query.restored_batch_id))
        threading.Thread(target=self._answer, args=(orders,), name="stream-orders", daemon=True).start()
        query.await_end()

    def _start(self, outputs: "dict[str, DataFrame]") -> RunningQuery:
        attempt, sinks, settings = self._attempt, self._stream.sinks, self._settings
        if (sink := sinks[0]).connector is StreamConnector.PYTHON:
            resolve_function(sink.location)
            _ship_by_value(self._archives)
        # No id has a slash in it.
        writer_id = f"{settings.cluster_id}/{attempt.job_id}/{attempt.vertex_id}/{attempt.subtask_index}"
        writer = write_to_sinks(outputs, sinks, writer_id, attempt.attempt, self._location, settings.bootstrap_servers, resolve_function)
        self._location.parent.mkdir(parents=True, exist_ok=True)
        return start_query(writer, self._stream, self._location, str(attempt))

    def _answer(self, orders: Iterable[TakeCheckpoint]) -> None:
        for order in orders:
            self._tell(self._take_checkpoint(order.checkpoint_id))

    def _take_checkpoint(self, checkpoint_id: int) -> CheckpointTaken | CheckpointDeclined:
        assert self._query is not None  # noqa: S101 - orders are answered from its start on
        try:
            return CheckpointTaken(self._attempt, checkpoint_id, self._query.progress())
        except Exception as error:  # noqa: BLE001 - Spark raises what it likes, and the query may go on
            logger.warning("CheckpointDeclined checkpoint=%d error=%s", checkpoint_id, error)
            return CheckpointDeclined(self._attempt, checkpoint_id, bounded(f"{type(error).__name__}: {text_of(error)}", _REASON_LIMIT))


def _outputs_of(returned: object, names: list[str]) -> "dict[str, DataFrame]":
    """Return the rows for each sink, by its name."""
    if names == [""]:
        return {"": _check_rows(returned)}
    wanted = f"a mapping of {', '.join(names)} to streaming DataFrames, one for each of its sinks"
    if not isinstance(returned, Mapping):
        raise OutputUnusable(f"it returned {type(returned).__name__}: this stream returns {wanted}")
    if different := sorted(set(map(str, returned)) ^ set(names)):
        raise OutputUnusable(f"it returned {', '.join(map(str, returned)) or 'nothing'}: not {wanted} ({', '.join(different)})")
    return {name: _check_rows(returned[name]) for name in names}


def _check_rows(rows: object) -> "DataFrame":
    from pyspark.sql import DataFrame  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if not isinstance(rows, DataFrame):
        kind = f"{type(rows).__module__}.{type(rows).__qualname__}".removeprefix("builtins.")
        raise OutputUnusable(f"it returned {kind}: a stream returns one streaming DataFrame, which goes to its sink")
    if not rows.isStreaming:
        raise OutputUnusable("it returned a DataFrame that reads no stream: a stream returns what it made of its sources")
    return rows


def _ship_by_value(archives: Sequence[Path]) -> None:
    """Have the modules of the job travel with a function of it: where Spark calls that, the job's archives are not."""
    from pyspark import cloudpickle  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").startswith(tuple(map(str, archives))):
            cloudpickle.register_pickle_by_value(module)
