"""Runs the task of a stream: opens its sources, starts its query, and answers checkpoints until the query ends.

What a query is and how it writes is the room `streams`. The rule it keeps: the main thread waits for the query, one other thread answers
orders; both may speak to the TaskExecutor, one line at a time. A query that was stopped for a savepoint is waited for no longer, but for
what the master decides then.
"""

import dataclasses
import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eventflink.events.effects import SavepointOrder, TaskDeployment
from eventflink.jobs.stored_files import StoreFailed
from eventflink.log.admin_connection import AdministrationError
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import DEFAULT_OUTPUT, ChainedOperator, StreamDefinition, StreamSource
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.places import S3, Place
from eventflink.model.statuses import SavepointMode, StreamConnector, StreamTrigger
from eventflink.model.stream_document import sink_document, source_document
from eventflink.streams.edges import (
    Edge,
    UnreadRecords,
    check_columns,
    check_keys,
    create_edges,
    discard_read,
    edges_of,
    has_ended,
    note_end,
    read_edge,
    wait_for_writers,
)
from eventflink.streams.failures import StreamUnusable, WorkingDirectoryUnfit
from eventflink.streams.kafka_topics import find_missing_topic
from eventflink.streams.query import RunningQuery, start_query
from eventflink.streams.savepoint import SavepointManifest, SavepointStreamDocument
from eventflink.streams.savepoint_restore import RestoringSubtask, restore_checkpoint, setting_text
from eventflink.streams.savepoint_taking import open_part, take_part
from eventflink.streams.sinks import SinkWriter, write_to_sinks
from eventflink.streams.sources import SubtaskShare, check_cores, read_source
from eventflink.streams.topic_watch import TopicWatch, WatchedTopic
from eventflink.streams.watermarks import POLICY, POLICY_SETTING, InputRows, check_watermarks, with_watermark
from eventflink.taskexecutor.failure_causes import OutputUnusable, bounded, refusals_told, text_of
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.process_events import (
    CheckpointDeclined,
    CheckpointTaken,
    FinishQuery,
    QueryStarted,
    ResumeQuery,
    StreamEvent,
    StreamOrder,
    TakeCheckpoint,
)
from eventflink.taskexecutor.spark_file_system import CHECKPOINT_FILES_SETTING, FILE_MANAGER_SETTING
from eventflink.taskexecutor.spark_jars import PROBLEM_SETTING
from eventflink.taskexecutor.task_code import resolve_function
from eventflink.taskexecutor.task_files import checkpoint_place
from eventflink.taskexecutor.task_secrets import TaskSecrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

_REASON_LIMIT = 500
_POLL_S = 0.2


def read_to_end(query: RunningQuery, unread: UnreadRecords, timeout_s: float) -> None:
    """Wait until a query has read what is there, and stop it.

    The time counts from here by this host's monotonic clock: when the savepoint was triggered, the master's clock says (P20).

    Raises:
        StreamUnusable: it has not read it in time.
        StreamingQueryException: it failed.

    """
    deadline_s = time.monotonic() + timeout_s
    while not query.has_ended and (count := unread.count()):
        if time.monotonic() >= deadline_s:
            query.stop()
            raise StreamUnusable(f"its inputs within the job have {count} more records after {timeout_s:.0f} s")
        time.sleep(_POLL_S)
    if query.has_ended:
        query.await_end()
    else:
        query.stop()


class StreamTask:
    """One attempt of a subtask of a stream."""

    def __init__(
        self,
        deployment: TaskDeployment,
        stream: StreamDefinition,
        attempt: AttemptId,
        settings: ForkServerSettings,
        archives: Sequence[Path],
        secrets: TaskSecrets,
        tell: Callable[[StreamEvent], None],
    ) -> None:
        """Take what to run, where its TaskExecutor keeps things, the job's code and secrets, and what takes what is to be told of it."""
        self._secrets = secrets
        self._archives = archives
        self._deployment = deployment
        self._stream = stream
        self._attempt = attempt
        self._settings = settings
        self._tell = tell
        self.sources = stream.sources
        self._edges_in = edges_of(stream.sources, settings.cluster_id, attempt.job_id)
        self._edges_out = edges_of(stream.sinks, settings.cluster_id, attempt.job_id)
        self._location = checkpoint_place(settings.working_place, attempt)
        self._first_batch_id = 0
        self._outputs: dict[str, DataFrame] = {}
        self._late_rows: dict[str, DataFrame] = {}
        """By the outputs that they go to."""
        self._query: RunningQuery | None = None
        self._restarting = threading.Lock()
        """Held by who stops the query or starts it: there are two threads."""
        self._writers = 0
        self._decisions: queue.SimpleQueue[_Resumed | _Finish | Exception] = queue.SimpleQueue()
        """What becomes of a query that was stopped for a savepoint."""
        self._stopped_for = 0
        self._resumed_for = 0

    def prepare(self, spark: "SparkSession") -> None:
        """Give the session what the graph says of it before the task's function sees it, and put a savepoint where the query begins.

        Raises:
            StreamUnusable: the server cannot read Kafka, or not in real time, or writes no checkpoints where they are to be.
            SavepointUnusable: there is no such savepoint, or it does not fit.

        """
        spark.conf.set(POLICY_SETTING, POLICY)
        for key, value in self._secrets.put_into(json.loads(self._stream.settings_json)).items():
            spark.conf.set(key, setting_text(value))
        self._choose_checkpoint_files(spark)
        problem = spark.conf.get(PROBLEM_SETTING, "")
        if problem and any(source.connector in (StreamConnector.KAFKA, StreamConnector.EDGE) for source in self._stream.sources):
            raise StreamUnusable(f"Spark cannot read Kafka: {problem}")
        create_edges((*self._edges_in.values(), *self._edges_out.values()), self._settings.kafka, self._settings.replication_factor)
        if self._is_real_time:
            check_cores(spark, self._stream.sources, self._share, self._settings.kafka)
        if (restore := self._deployment.restore) is not None:
            place = (self._attempt.vertex_id, self._attempt.subtask_index, self._deployment.parallelism)
            self._first_batch_id = restore_checkpoint(
                restore.path,
                RestoringSubtask(*place, self._stream, self._edges_in),
                restore.vertices,
                self._location,
                allow_non_restored_state=restore.allow_non_restored_state,
            )

    def _choose_checkpoint_files(self, spark: "SparkSession") -> None:
        """Have Spark write the files of checkpoints in S3 so that each is written once."""
        if self._location.scheme != S3:
            return
        if not (by_class := spark.conf.get(CHECKPOINT_FILES_SETTING, "")):
            raise WorkingDirectoryUnfit(
                f"checkpoints of streams cannot be in {self._location}: this Spark has no {CHECKPOINT_FILES_SETTING}, by which it would "
                "write there (docs/operating.md, Your store)"
            )
        spark.conf.set(FILE_MANAGER_SETTING, by_class)

    def ship_code(self) -> None:
        """Have the job's modules travel by value with their functions that Spark runs, and with a `StatefulProcessor`.

        Spark runs a batch, and calls `init` beside the driver, in processes where the session's archives are not.
        """
        _ship_by_value(self._archives)

    def read(self, source: StreamSource, spark: "SparkSession") -> "DataFrame":
        """Return this subtask's share of a source, without the late rows that go to an output of their own."""
        found = self._read(source, spark)
        self._late_rows |= found.late
        return found.rows

    def _read(self, source: StreamSource, spark: "SparkSession") -> InputRows:
        kafka = self._settings.kafka
        if source.connector is StreamConnector.EDGE:
            edge = self._edges_in[source.location]
            check_keys(spark, self._edges_in.values())
            return read_edge(spark, edge, self._share_of(edge), kafka, self._location)
        return read_source(spark, source, self._share, kafka, resolve_function, self._location, is_real_time=self._is_real_time)

    def _share_of(self, edge: Edge) -> list[int]:
        return edge.share_of(self._deployment.subtask_index, self._deployment.parallelism)

    @property
    def _shares(self) -> list[tuple[Edge, list[int]]]:
        return [(edge, self._share_of(edge)) for edge in self._edges_in.values()]

    @property
    def _is_bounded(self) -> bool:
        return self._stream.trigger is StreamTrigger.AVAILABLE_NOW

    @property
    def _is_real_time(self) -> bool:
        return self._stream.trigger is StreamTrigger.REAL_TIME

    @property
    def _share(self) -> SubtaskShare:
        return SubtaskShare(self._deployment.subtask_index, self._deployment.parallelism)

    @property
    def chained(self) -> tuple[ChainedOperator, ...]:
        """What is done with the rows of the task, one after the other."""
        return self._stream.chained

    def hand_over(self, returned: object, operator: ChainedOperator) -> "DataFrame":
        """Return what the next operator of the chain reads.

        Raises:
            OutputUnusable: what was returned is no stream.
            StreamUnusable: its columns are not those that the edge declares.

        """
        rows = _check_rows(returned)
        columns = check_columns(rows, operator.row_schema)
        rows = rows.select(*[f"`{name.replace('`', '``')}`" for name in columns])
        return with_watermark(rows, operator.event_time, operator.watermark_delay_ms) if operator.event_time else rows

    def run(self, compute: Callable[[], object], orders: Iterable[StreamOrder]) -> None:
        """Run the query until it ends, which a bounded one does, and any with a savepoint with which its job stops.

        Args:
            compute: reads the sources and returns what the task's functions return; called again when a source has more partitions.
            orders: what the TaskExecutor asks for meanwhile; waits for the next one, and ends with the connection.

        Raises:
            OutputUnusable: it is not what its sinks need.
            StreamUnusable: a source or the sink cannot be used as it is declared.
            StoreFailed: the store refuses, or does not take, what belongs to the checkpoint directory.
            StreamingQueryException: the query failed.

        """
        with refusals_told(self._location):
            self._run(compute, orders)

    def _run(self, compute: Callable[[], object], orders: Iterable[StreamOrder]) -> None:
        watch = self._watch()
        watch.begin()
        self._compute(compute)
        kafka, index = self._settings.kafka, self._attempt.subtask_index
        if self._is_bounded:
            if has_ended(self._edges_out.values(), index, kafka):
                return  # An earlier attempt wrote all; what came since is beyond what the readers have taken for the end.
            wait_for_writers(self._shares, kafka)
        self._begin()
        threading.Thread(target=self._obey, args=(orders,), name="stream-orders", daemon=True).start()
        while True:
            query = self._running
            if not self._await_end(query, watch):
                self._read_more(query, watch, compute)
                continue
            if not query.was_stopped:
                note_end(self._edges_out.values(), index, kafka)
                return
            decision = self._decisions.get()
            if isinstance(decision, Exception):
                raise decision
            if isinstance(decision, _Finish):
                return

    def _await_end(self, query: RunningQuery, watch: TopicWatch) -> bool:
        """Wait until the query ends, and return true; or until there is more to read than it reads, and return false."""
        try:
            return query.await_end(watch.has_grown)
        except StreamUnusable:
            raise
        except Exception as error:
            # Spark says of a topic that is gone what it noticed, and not which one it is.
            if missing := find_missing_topic(self._topics()):
                raise StreamUnusable(missing) from error
            watch.check_ids()
            raise

    def _compute(self, compute: Callable[[], object]) -> None:
        returned, names = compute(), [sink.name for sink in self._stream.sinks]
        own = _outputs_of(returned, [name for name in names if name not in self._late_rows])
        check_watermarks(own)
        self._outputs = own | self._late_rows

    def _read_more(self, query: RunningQuery, watch: TopicWatch, compute: Callable[[], object]) -> None:
        """Go on with a query that reads the partitions which were added as well, unless this one was stopped for a savepoint meanwhile."""
        with self._restarting:
            if query.was_stopped:
                return
            logger.info("PartitionsAdded attempt=%s", self._attempt)
            query.stop()
            watch.begin()
            self._compute(compute)
            self._begin()

    def _watch(self) -> TopicWatch:
        """Return what looks at the topics of the sources; what a bounded stream reads it has found when it begins."""
        own, topics = self._settings.kafka, []
        for source in self._stream.sources:
            if self._is_bounded or source.connector is not StreamConnector.KAFKA:
                continue
            if (kafka := source_document(source).kafka) is not None:
                topics += [WatchedTopic(own.at(kafka.bootstrap_servers), kafka.topic, source.name, kafka.fail_on_data_loss)]
        return TopicWatch(topics, Place(f"{self._location}.topics"), is_assigned=self._share.parallelism > 1)

    def _topics(self) -> Iterator[tuple[KafkaAccess, str, str]]:
        """Yield the Kafka, the topic and the name for people of each source and sink that is a topic."""
        own = self._settings.kafka
        for source in self._stream.sources:
            if source.connector is StreamConnector.KAFKA and (kafka := source_document(source).kafka) is not None:
                yield own.at(kafka.bootstrap_servers), kafka.topic, f"source '{source.name}'"
        for sink in self._stream.sinks:
            if sink.connector is StreamConnector.KAFKA and (to := sink_document(sink).kafka) is not None:
                yield own.at(to.bootstrap_servers), to.topic, f"sink '{sink.name}'" if sink.name else "the sink"
        for edge in (*self._edges_in.values(), *self._edges_out.values()):
            yield own, edge.topic, "an edge between streams"

    @property
    def rows_read(self) -> int:
        """How many rows its queries have read; -1: it is not known."""
        return self._query.seen.rows_read if self._query is not None else 0

    @property
    def _running(self) -> RunningQuery:
        assert self._query is not None  # noqa: S101 - orders are obeyed from its start on
        return self._query

    def _next_writer(self) -> SinkWriter:
        """Return who writes from now on, and nobody before it any more."""
        settings = self._settings
        self._writers += 1
        place = (self._location, settings.kafka, self._first_batch_id, settings.catalogs)
        return SinkWriter(settings.cluster_id, self._attempt, self._writers, *place)

    def _begin(self) -> None:
        """Start the query, and tell of it."""
        self._query = query = self._start(self._stream)
        self._tell(QueryStarted(self._attempt, query.query_id, query.run_id, str(self._location), query.restored_batch_id))

    def _start(self, stream: StreamDefinition) -> RunningQuery:
        if (sink := stream.sinks[0]).connector is StreamConnector.PYTHON:
            resolve_function(sink.location)
            _ship_by_value(self._archives)
        is_counted = self._settings.counts_written_rows and stream.trigger is not StreamTrigger.REAL_TIME  # Which takes no such operator.
        writer = write_to_sinks(self._outputs, stream.sinks, self._next_writer(), resolve_function, is_counted=is_counted)
        before = self._query.seen if self._query is not None else None
        return start_query(writer, stream, self._location, str(self._attempt), before, is_counted=is_counted)

    # -- orders ----------------------------------------------------------------------------------------------------

    def _obey(self, orders: Iterable[StreamOrder]) -> None:
        for order in orders:
            with self._restarting:
                self._carry_out(order)

    def _carry_out(self, order: StreamOrder) -> None:
        match order:
            case TakeCheckpoint():
                self._tell(self._take_checkpoint(order))
                if order.savepoint is None:
                    self._discard_read()
            case ResumeQuery(checkpoint_id=checkpoint_id) if checkpoint_id > self._resumed_for:
                self._resume(checkpoint_id)
            case FinishQuery(checkpoint_id=checkpoint_id) if checkpoint_id == self._stopped_for:
                self._decisions.put(_Finish())
            case _:
                logger.info("StreamOrderRepeated order=%s", order)

    def _take_checkpoint(self, order: TakeCheckpoint) -> CheckpointTaken | CheckpointDeclined:
        try:
            if order.savepoint is not None:
                self._take_savepoint(order.checkpoint_id, order.savepoint)
            return CheckpointTaken(self._attempt, order.checkpoint_id, self._running.progress())
        except Exception as error:  # noqa: BLE001 - Spark raises what it likes, and the query may go on
            logger.warning("CheckpointDeclined checkpoint=%d error=%s", order.checkpoint_id, error)
            reason = bounded(f"{type(error).__name__}: {text_of(error)}", _REASON_LIMIT)
            return CheckpointDeclined(self._attempt, order.checkpoint_id, reason)

    def _take_savepoint(self, checkpoint_id: int, order: SavepointOrder) -> None:
        """Write this subtask's part; unless the job goes on, nothing is read after it."""
        part = open_part(order.path, self._manifest(checkpoint_id, order), self._attempt.vertex_id, self._attempt.subtask_index)
        operators = self._running.operator_progress()
        if order.stops_stream:
            self._stopped_for = checkpoint_id
            self._running.stop()
        if order.mode is SavepointMode.DRAIN:
            self._query = self._start(dataclasses.replace(self._stream, trigger=StreamTrigger.AVAILABLE_NOW))
            self._query.await_end()
        else:
            self._read_edges(order)
        operators = self._running.operator_progress() or operators
        spark = next(iter(self._outputs.values())).sparkSession
        take_part(part, self._stream, self._next_writer(), operators, resolve_function, spark, is_stopped=order.stops_stream)

    def _read_edges(self, order: SavepointOrder) -> None:
        """Read all that the writers of this stream's edges, which have stopped, have written: the savepoint has nothing else of it.

        By a query of its own: the next batch of the stream's may be far away. What it does not read it never reads.

        Raises:
            StreamUnusable: it has not within the timeout of the savepoint.
            StreamingQueryException: it failed.

        """
        if not self._edges_in:
            return
        unread = UnreadRecords(self._shares, self._location, self._settings.kafka)
        if not unread.count():
            return
        self._query = self._start(dataclasses.replace(self._stream, trigger=StreamTrigger.AVAILABLE_NOW))
        read_to_end(self._query, unread, order.timeout_ms / 1000)

    def _discard_read(self) -> None:
        """Remove from edges what all their readers have read; what cannot be removed now can be after the next checkpoint."""
        attempt, parallelism = self._attempt, self._deployment.parallelism
        reader = (f"{self._settings.cluster_id}/{attempt.job_id}/{attempt.vertex_id}", attempt.subtask_index, parallelism)
        try:
            discard_read(self._edges_in.values(), self._location, self._settings.kafka, reader)
        except (AdministrationError, StreamUnusable, StoreFailed, OSError) as error:
            logger.warning("EdgesNotTrimmed attempt=%s error=%s", attempt, error)

    def _manifest(self, checkpoint_id: int, order: SavepointOrder) -> SavepointManifest:
        return SavepointManifest(
            cluster_id=self._settings.cluster_id,
            job_id=self._attempt.job_id,
            job_name=self._deployment.job_name,
            savepoint_id=checkpoint_id,
            mode=order.mode,
            triggered_at_ms=order.triggered_at_ms,
            streams=tuple([SavepointStreamDocument(vertex_id=s.vertex_id, parallelism=s.parallelism) for s in order.streams]),
        )

    def _resume(self, checkpoint_id: int) -> None:
        """Start the query again; also one that was not stopped, so that its new run says that it was told."""
        self._resumed_for = checkpoint_id
        decision: _Resumed | Exception = _Resumed()
        try:
            self._running.stop()
            self._begin()
        except Exception as error:  # noqa: BLE001 - it fails the attempt
            decision = error
        self._decisions.put(decision)


class _Resumed:
    """The query runs again."""


class _Finish:
    """The job stops with the savepoint."""


def _outputs_of(returned: object, names: list[str]) -> "dict[str, DataFrame]":
    """Return the rows for each sink, by its name; several sinks may have the same."""
    if set(names) == {""} or (set(names) == {DEFAULT_OUTPUT} and not isinstance(returned, Mapping)):
        return {names[0]: _check_rows(returned)}
    if "" in names:
        names = [name or DEFAULT_OUTPUT for name in names]
        found = _outputs_of(returned, names)
        return {"" if name == DEFAULT_OUTPUT else name: rows for name, rows in found.items()}
    wanted = f"a mapping of {', '.join(dict.fromkeys(names))} to streaming DataFrames, one for each of its outputs"
    if not isinstance(returned, Mapping):
        raise OutputUnusable(f"it returned {type(returned).__name__}: this stream returns {wanted}")
    have = dict.fromkeys(map(str, returned))
    if missing := [name for name in dict.fromkeys(names) if name not in have]:
        raise OutputUnusable(f"it returned {', '.join(have) or 'nothing'}, without {', '.join(missing)}: this stream returns {wanted}")
    if more := [name for name in have if name not in names]:
        raise OutputUnusable(f"it returned {', '.join(more)} as well, which goes nowhere: this stream returns {wanted}")
    return {name: _check_rows(returned[name]) for name in dict.fromkeys(names)}


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
