"""Runs a graph in this process: each subtask of its vertices, one after the other, through the entry of a task's process.

What a task is, how it reads, computes and publishes, is not known here (`taskexecutor/task_run.py`). The rule it keeps: what a task finds
is what it finds on a cluster, its own modules fresh, a Spark session of its own, the outputs of those before it; and nothing but the
outputs, and what the caller allows, is written by Spark.
"""

import atexit
import hashlib
import shutil
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from eventflink.gateways.errors import ResultNotNamed, ResultNotThere
from eventflink.jobs.archive import build_archive, find_members
from eventflink.jobs.jars import pack_jars
from eventflink.jobs.result import JobOutput
from eventflink.jobs.sql_files import pack_sql_files
from eventflink.model.attempts import AttemptId, FailureCause, OutputLocation
from eventflink.model.closing import GraphOutcome, runs_after
from eventflink.model.conditions import conditions_of, find_skip
from eventflink.model.failure_types import TOO_MANY_ROWS
from eventflink.model.job_graph import DEFAULT_OUTPUT, JobGraph, JobVertex
from eventflink.model.job_graph_document import MAX_PARALLELISM
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.mapped_vertices import describe_too_many_rows, mapping_edges_of, rows_in
from eventflink.model.places import Place
from eventflink.model.statuses import JobStatus, TaskType
from eventflink.taskexecutor.archive_cache import DIRECTORY, hold_archive
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.lost_inputs import OpenedInputs, failure_of
from eventflink.taskexecutor.process_events import Finished, LaunchTask
from eventflink.taskexecutor.spark_server import SparkServerSettings, SparkUnavailable
from eventflink.taskexecutor.spark_use import code_of
from eventflink.taskexecutor.task_run import run_task
from eventflink.taskexecutor.task_secrets import SecretSettings
from eventflink.workbench.own_spark import OwnSpark, own_spark
from eventflink.workbench.selection import deployment_of, select_vertices, with_parallelism
from eventflink.workbench.user_frames import describe_raised
from eventflink.workbench.withheld_writes import SinksNeeded, WithheldWrites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventflink.model.configuration import Configuration

_LOADED: Final = sys.stdlib_module_names | {"eventflink"}
"""What every process of a task has loaded before it comes to the archive, or would find before it."""
_HERE: Final = "eventflink dev"
"""What is told in the place of a TaskManager."""


class Ended(SystemExit):
    """Somebody told this process to end while it runs a graph; no failure of the task, as a `SystemExit` is that a task raises."""


class VertexFailed(Exception):
    """A task of a vertex failed; the message says which one, where in its own code, and why.

    Examples:
        >>> from eventflink.workbench.graph_run import VertexFailed
        >>> try:
        ...     eventflink.dev({"name": "none", "vertices": [{"id": "orders", "sql": "SELECT raise_error('none')"}]})
        ... except VertexFailed as failed:
        ...     print(failed.vertex_id, failed.subtask_index)
        orders 0

    """

    def __init__(self, vertex_id: str, subtask_index: int, cause: FailureCause, told: str, withheld: tuple[str, ...]) -> None:
        """Take whose task it was, why it failed for programs and for people, and what the vertex has not written."""
        super().__init__(told)
        self.vertex_id = vertex_id
        self.subtask_index = subtask_index
        self.cause = cause
        self.withheld = withheld


@dataclass(frozen=True, slots=True)
class VertexRun:
    """A vertex that was run here, or skipped.

    Examples:
        >>> vertex = {"id": "numbers", "sql": "SELECT id FROM range(3)"}
        >>> run = eventflink.dev({"name": "numbers", "vertices": [vertex]})
        >>> [(each.vertex_id, each.parallelism, each.rows) for each in run.vertices]
        [('numbers', 1, 3)]

    """

    vertex_id: str
    parallelism: int
    run_time_ms: int
    """From the start of its first subtask to the end of its last, Spark's start included where it waited for that."""
    outputs: tuple[JobOutput, ...]
    """What it left, by name."""
    withheld: tuple[str, ...]
    """What its tasks would have had Spark write elsewhere, and was not written."""
    skipped: str = ""
    """Why it was skipped; empty: it was not."""
    sink: str = ""
    """Where its rows went; empty: its outputs have them."""

    @property
    def rows(self) -> int:
        """How many rows its outputs have together."""
        return sum(each.rows for output in self.outputs for each in output.locations)


@dataclass(slots=True)
class GraphRun:
    """A graph that was run here. Its rows can be read until this process ends, or as long as they are kept.

    Examples:
        >>> vertex = {"id": "numbers", "sql": "SELECT id FROM range(3)"}
        >>> run = eventflink.dev({"name": "numbers", "vertices": [vertex]})
        >>> run.results
        ('numbers',)
        >>> run.result("numbers").to_pandas()["id"].tolist()
        [0, 1, 2]

    """

    job_id: str
    """What its tasks were told to be of; a new one for each run."""
    directory: Path
    """Where its outputs are, one directory for each vertex."""
    vertices: tuple[VertexRun, ...] = ()
    """Those that were run, in that order."""
    results: tuple[str, ...] = ()
    """The vertices of them that no other one reads or names in a condition, without closing ones and those that were skipped."""
    closing_failures: tuple[VertexFailed, ...] = ()
    """Failures of closing vertices, which change nothing of how the graph came out."""

    def result(self, vertex_id: str | None = None, output: str = DEFAULT_OUTPUT) -> JobOutput:
        """Return an output of a vertex that was run; None: of the only one that no other one reads.

        Raises:
            ResultNotThere: the vertex left no such output.
            ResultNotNamed: which vertex is meant is not clear.

        """
        if vertex_id is None:
            if not self.results:
                raise ResultNotThere("the run has no result that is not read: all that would have one was skipped; choose the vertex")
            if len(self.results) != 1:
                raise ResultNotNamed(f"the run has several results; choose the vertex: {', '.join(self.results)}")
            vertex_id = self.results[0]
        run = next((each for each in self.vertices if each.vertex_id == vertex_id), None)
        if run is None:
            raise ResultNotNamed(f"vertex not found: '{vertex_id}'; it ran {', '.join(each.vertex_id for each in self.vertices)}")
        found = next((each for each in run.outputs if each.output == output), None)
        if found is None and run.sink:
            raise ResultNotThere(f"vertex '{vertex_id}' has no outputs: its rows went to {run.sink}")
        if found is None:
            left = ", ".join(each.output for each in run.outputs) or "none"
            raise ResultNotThere(f"output not found: '{output}' of vertex '{vertex_id}'; it has {left}")
        return found

    @property
    def withheld(self) -> tuple[str, ...]:
        """What was not written elsewhere, by vertex."""
        return tuple(f"vertex '{run.vertex_id}': {each}" for run in self.vertices for each in run.withheld)


def run_graph(
    graph: JobGraph,
    code: Iterable[Path],
    configuration: "Configuration",
    *,
    jars: Sequence[Path] = (),
    sql_files: Mapping[str, str] = MappingProxyType({}),
    vertices: Collection[str] = (),
    parallelism: int | None = None,
    sinks: bool = False,
    keep: Path | None = None,
    spark_stays_ms: int = 0,
    on_spark_start: Callable[[], None] = lambda: None,
    on_vertex: Callable[[VertexRun], None] = lambda _: None,
    on_closing_failure: Callable[[VertexFailed], None] = lambda _: None,
) -> GraphRun:
    """Run a graph whose parameters are bound.

    Args:
        graph: what is run.
        code: files and directories of its Python code.
        configuration: of the TaskExecutors that it is to run on: how Spark is started, and where secrets are.
        jars: what its Spark sessions have besides Spark's own.
        sql_files: the texts of the files that its vertices name, by their paths.
        vertices: run these and what they need; none: all.
        parallelism: run at most so many subtasks of each vertex; None: as many as the graph says.
        sinks: let Spark write elsewhere than to the outputs.
        keep: the directory where the outputs stay; None: they go with this process.
        spark_stays_ms: for how long Spark stays after this process, for the next one that would start the same.
        on_spark_start: called when Spark is started, which takes some seconds.
        on_vertex: called with each vertex when it has finished.
        on_closing_failure: called with the failure of each closing vertex that fails.

    Raises:
        InvalidJobGraph: no such vertices can be run here.
        ArchiveError: the code or a jar cannot be packed.
        VertexFailed: a task failed.
        SparkUnavailable: no Spark could be started here.

    """
    if parallelism is not None:
        graph = with_parallelism(graph, parallelism)
    chosen = select_vertices(graph, vertices)
    code = tuple(code)
    members = find_members(code) if code else {}
    archives = [build_archive(code)] if code else []
    archives += [pack_jars(jars)] if jars else []
    archives += [pack_sql_files(sql_files)] if sql_files else []
    root = Path(tempfile.mkdtemp(prefix="eventflink-dev-run-")) if keep is None else keep.absolute()
    job_id = f"dev-{uuid.uuid4().hex[:8]}"
    run = GraphRun(job_id, root / job_id)
    if keep is None:
        atexit.register(shutil.rmtree, root, ignore_errors=True)
    run_here = {each.vertex_id for each in chosen}
    read = {edge.source for edge in graph.edges if edge.target in run_here}
    read |= {condition.source for vertex_id, condition in conditions_of(graph) if vertex_id in run_here}
    run.results = tuple(each.vertex_id for each in chosen if each.vertex_id not in read and not each.is_closing)
    spark = own_spark(SparkServerSettings.of(configuration), spark_stays_ms)
    bench = _Bench(graph, run, archives, members, configuration, spark, sinks=sinks)
    if bench.uses_spark(chosen) and not spark.is_alive():
        on_spark_start()
        spark.start()
    bench.run_all(chosen, vertices, on_vertex, on_closing_failure)
    return run


class _Bench:
    """What the tasks of one run share."""

    def __init__(
        self,
        graph: JobGraph,
        run: GraphRun,
        archives: Iterable[bytes],
        members: Mapping[str, Path],
        configuration: "Configuration",
        spark: OwnSpark,
        *,
        sinks: bool,
    ) -> None:
        self._graph = graph
        self._run = run
        self._spark = spark
        self._members = members
        held = {hashlib.sha256(archive).hexdigest(): archive for archive in archives}
        for key in held:
            hold_archive(self._spark.directory / DIRECTORY, key, partial(held.__getitem__, key))
        self._archives = tuple(held)
        self._settings = ForkServerSettings(
            cluster_id=configuration.cluster_id,
            kafka=KafkaAccess(""),
            replication_factor=1,
            working_place=Place(str(run.directory.parent)),
            log_directory=self._spark.directory,
            runtime_directory=self._spark.directory,
            locations_directory=self._spark.directory,
            spark_server=self._spark.settings,
            kill_timeout_ms=configuration.kill_timeout_ms,
            with_spark=True,
            warm_processes=0,
            secrets=replace(SecretSettings.of(configuration), task_manager_id=_HERE),
            catalogs=configuration.catalogs,
        )
        self._written: dict[tuple[str, str], list[OutputLocation]] = {}
        self._skipped: set[str] = set()
        self._withheld = None if sinks else WithheldWrites(Place(str(run.directory)))
        self._session: SparkSession | None = None

    def uses_spark(self, chosen: Collection[JobVertex]) -> bool:
        """Tell whether a task is expected to use Spark."""
        deployments = [deployment_of(self._graph, each, AttemptId("", each.vertex_id, 0, 1), defaultdict(list), ()) for each in chosen]
        return any(code_of(each) is None for each in deployments)

    def run_all(
        self,
        chosen: Collection[JobVertex],
        named: Collection[str],
        on_vertex: Callable[[VertexRun], None],
        on_closing_failure: Callable[[VertexFailed], None],
    ) -> None:
        """Run vertices, and then the closing ones that are for how these came out, or are named.

        Raises:
            VertexFailed: one of the vertices failed that run in their turn.

        """
        failure, outcome = None, GraphOutcome(JobStatus.FINISHED)
        try:
            for vertex in chosen:
                if not vertex.is_closing:
                    self._note(self._skip(vertex) or self.run(vertex, None), on_vertex)
        except VertexFailed as failed:
            failure, cause = failed, failed.cause
            outcome = GraphOutcome(JobStatus.FAILED, failed.vertex_id, failed.subtask_index, 1, cause.failure_type, cause.message)
        for vertex in chosen:
            if vertex.is_closing and (runs_after(vertex.runs, outcome.status) or vertex.vertex_id in named):
                try:
                    self._note(self.run(vertex, outcome), on_vertex)
                except VertexFailed as failed:
                    self._run.closing_failures += (failed,)
                    on_closing_failure(failed)
        if failure is not None:
            raise failure

    def _note(self, done: VertexRun, on_vertex: Callable[[VertexRun], None]) -> None:
        self._run.vertices += (done,)
        on_vertex(done)

    def _skip(self, vertex: JobVertex) -> VertexRun | None:
        """Skip a vertex that is not to run; None: it is to."""
        read = (edge.source for edge in self._graph.edges if edge.target == vertex.vertex_id and not edge.reads_skipped)
        skip = find_skip(vertex.condition, read, self._skipped.__contains__, lambda *output: rows_in(self._written.get(output, ())))
        if skip is None:
            return None
        self._skipped.add(vertex.vertex_id)
        self._run.results = tuple(each for each in self._run.results if each != vertex.vertex_id)
        return VertexRun(vertex.vertex_id, vertex.parallelism, 0, (), (), skip.in_words())

    def run(self, vertex: JobVertex, outcome: GraphOutcome | None) -> VertexRun:
        """Run a vertex; `outcome`: of a closing one, how the others came out."""
        began_s = time.monotonic()
        vertex = self._mapped(vertex)
        left: dict[str, list[OutputLocation]] = {}
        for index in range(vertex.parallelism):
            for output in self._run_subtask(vertex, index, outcome).outputs:
                left.setdefault(output.output, []).append(output)
        self._written |= {(vertex.vertex_id, name): locations for name, locations in left.items()}
        outputs = tuple(JobOutput(self._run.job_id, vertex.vertex_id, name, tuple(locations)) for name, locations in left.items())
        run_time_ms = int((time.monotonic() - began_s) * 1000)
        sink = vertex.sink.in_words() if vertex.sink is not None and self._withheld is None else ""
        return VertexRun(vertex.vertex_id, vertex.parallelism, run_time_ms, outputs, self._take_withheld(), sink=sink)

    def _mapped(self, vertex: JobVertex) -> JobVertex:
        """Return a mapped vertex with a subtask for each row, or with one if there are none; any other as it is."""
        if (edge := mapping_edges_of(self._graph).get(vertex.vertex_id)) is None:
            return vertex
        rows, highest = rows_in(self._written.get((edge.source, edge.output), ())), min(vertex.max_parallelism, MAX_PARALLELISM)
        if rows > highest:
            cause = FailureCause(TOO_MANY_ROWS, describe_too_many_rows(edge, rows, highest))
            raise VertexFailed(vertex.vertex_id, 0, cause, f"{cause.failure_type}: {cause.message}", self._take_withheld())
        return replace(vertex, parallelism=max(1, rows))

    def _take_withheld(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._withheld.take_told())) if self._withheld is not None else ()

    def _run_subtask(self, vertex: JobVertex, index: int, outcome: GraphOutcome | None) -> Finished:
        attempt = AttemptId(self._run.job_id, vertex.vertex_id, index, 1)
        told = deployment_of(self._graph, vertex, attempt, self._written, self._archives)
        told.outcome = outcome
        if self._withheld is not None and (sink := told.sink) is not None:  # Its rows are kept, as those of any other vertex are.
            told.sink = None
            self._withheld.tell(f"sink {sink.stream_format.lower()} to {sink.location}")
        order = LaunchTask(told, str(uuid.uuid4()), "")
        opened = OpenedInputs()
        try:
            with _own_modules(self._members):
                return run_task(order, self._settings, lambda _event: None, opened, (), self._on_session, on_catalog=self._on_catalog)
        except (KeyboardInterrupt, Ended, SparkUnavailable):
            raise
        except BaseException as error:  # user code may raise anything
            raise self._failed(error, vertex, index, opened) from error
        finally:
            if self._session is not None:
                self._session.stop()
                self._session = None

    def _on_session(self, session: "SparkSession") -> None:
        self._session = session
        if self._withheld is not None:
            self._withheld.watch(session.client)

    def _on_catalog(self, name: str) -> None:
        if self._withheld is not None:
            raise SinksNeeded(f"context.iceberg_catalog('{name}') may change tables")

    def _failed(self, error: BaseException, vertex: JobVertex, index: int, opened: OpenedInputs) -> VertexFailed:
        cause, _ = failure_of(error, vertex.vertex_id, opened)
        which = f"vertex '{vertex.vertex_id}'" + (f", subtask {index} of {vertex.parallelism}" if vertex.parallelism > 1 else "")
        said = cause.message.removeprefix(f"vertex '{vertex.vertex_id}': ")
        told = f"{which} failed: {cause.failure_type}: {said}"
        if cause.stack_trace and vertex.task_type is TaskType.PYTHON:
            told += describe_raised(error, self._archives[0] if self._members else "", self._members)
        return VertexFailed(vertex.vertex_id, index, cause, told, self._take_withheld())


@contextmanager
def _own_modules(members: Mapping[str, Path]) -> Iterator[None]:
    """Let the modules of the archive be loaded anew in the block, as in a process of its own; afterwards all are as they were."""
    tops = {name.partition("/")[0].removesuffix(".py") for name in members} - _LOADED
    path, hidden = list(sys.path), {}
    for name in [each for each in sys.modules if each.partition(".")[0] in tops]:
        hidden[name] = sys.modules.pop(name)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in [each for each in sys.modules if each.partition(".")[0] in tops]:
            del sys.modules[name]
        sys.modules.update(hidden)
