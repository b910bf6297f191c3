"""Runs one task: loads its code, gives it its context, publishes what it returns.

Called in the task's own process (`task_process.py`), once. The rule it keeps: outputs go to a place of this attempt's own and are named
to the TaskExecutor only when all of them are whole; whether they count is decided by the log, never here. What goes to a sink counts when
it is committed there (`table_sink.py`), so that is done last.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventflink.events.effects import TaskDeployment, TaskInput
from eventflink.jobs.accumulators import TaskAccumulators
from eventflink.jobs.archive import ArchiveKind
from eventflink.jobs.context import TaskContext
from eventflink.jobs.mapped_rows import bound_columns, find_location, read_row
from eventflink.jobs.parquet_writing import write_parquet
from eventflink.jobs.published import OutputNotWhole, write_file_list
from eventflink.jobs.shipping import HashInput, HashInputs, InputUnusable, Share, read_parquet, read_share
from eventflink.model.attempts import AttemptId, IOMetrics, OutputLocation
from eventflink.model.closing import sql_arguments
from eventflink.model.job_graph import DEFAULT_OUTPUT, ChainedOperator, StreamSink
from eventflink.model.job_parameters import single_values, values_of
from eventflink.model.places import Place
from eventflink.model.sql_script import quoted, statements_of
from eventflink.model.statuses import ShipStrategy, StreamFormat, TaskType
from eventflink.taskexecutor.batch_sources import BatchSources
from eventflink.taskexecutor.failure_causes import OutputUnusable, ParametersUnusable, refusals_told
from eventflink.taskexecutor.fork_server_wire import ForkServerSettings
from eventflink.taskexecutor.io_metrics import TableCommit, io_metrics_of, with_commit, with_reads
from eventflink.taskexecutor.lost_inputs import OpenedInput, OpenedInputs
from eventflink.taskexecutor.process_events import Finished, LaunchTask, StreamOrder, TaskEvent, TaskInitialized, spark_session_of
from eventflink.taskexecutor.seen_by_spark import check_seen_by_spark
from eventflink.taskexecutor.spark_engines import find_engine
from eventflink.taskexecutor.spark_pools import pool_of
from eventflink.taskexecutor.sql_faults import explain
from eventflink.taskexecutor.task_code import fetch_archives, load_archives, resolve_task, with_statements
from eventflink.taskexecutor.task_files import output_place
from eventflink.taskexecutor.task_packages import packages_of
from eventflink.taskexecutor.task_secrets import TaskSecrets
from eventflink.taskexecutor.task_spark import EarlierSession, OnSession, SparkPlace, TaskSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventflink.taskexecutor.task_stream import StreamTask

logger = logging.getLogger(__name__)

_WRITTEN_BYTES: Final = 56
"""What a report says of each output besides: how much was written, and the digest of its files."""
MAX_OUTPUT_NAMES_BYTES: Final = 128 * 1024
"""What a report says of its outputs: with all the rest it has to be half of what a master reads of one record at most."""

Tell = Callable[[TaskEvent], None]


def run_task(
    order: LaunchTask,
    settings: ForkServerSettings,
    tell: Tell,
    opened: OpenedInputs,
    later_orders: Iterable[StreamOrder],
    on_session: OnSession | None = None,
    begin_with: Callable[[Path], None] = lambda _: None,
    on_catalog: Callable[[str], None] = lambda _: None,
) -> Finished:
    """Run the task and return what it published; whatever it raises passes through.

    Args:
        order: what to run.
        settings: where the TaskExecutor keeps things.
        tell: takes what the TaskExecutor has to hear meanwhile.
        opened: called with each input that the task opens.
        later_orders: what the TaskExecutor asks a stream while it runs; waits for the next one.
        on_session: called with the task's Spark session before the task has it.
        begin_with: called with the packages that the job requires before any of its code is loaded; need not return.
        on_catalog: called with the name of each catalogue of Iceberg that the task's code asks for before it has it.

    """
    deployment = order.deployment
    attempt = order.attempt
    if deployment.is_stopped or deployment.has_no_row:
        tell(TaskInitialized(attempt))
        return Finished(())
    engine = find_engine(settings.engines, deployment.engine)
    secrets = TaskSecrets(settings.secrets)
    parameters = _parameters_of(deployment, deployment.parameters_json, secrets)
    if (packages := packages_of(order, settings)) is not None:
        begin_with(packages)
    archives = load_archives(deployment.code_archives, order.blob_address, settings)
    of_sql = fetch_archives(ArchiveKind.SQL, deployment.code_archives, order.blob_address, settings)
    deployment = with_statements(deployment, (*of_sql, *archives))
    earlier = [
        EarlierSession(
            spark_session_of(each.instance_id, attempt._replace(subtask_index=each.subtask_index, attempt=each.attempt)), each.spark_address
        )
        for each in deployment.earlier_attempts
    ]
    place = SparkPlace(engine, pool_of(deployment, settings.spark_pool))
    jars = fetch_archives(ArchiveKind.JARS, deployment.code_archives, order.blob_address, settings)
    spark = TaskSpark(settings, attempt, order.spark_session_id, archives, packages, jars, tell, place, earlier, on_session)
    stream = _make_stream(deployment, attempt, settings, archives, secrets, tell)
    accumulators = TaskAccumulators()
    hash_inputs = _hash_inputs_of(deployment)
    sources = BatchSources(deployment.sources, settings.catalogs, on_catalog)
    context = _make_context(deployment, parameters, spark, opened, stream, accumulators, hash_inputs, sources)
    if stream is not None:
        stream.prepare(context.spark)
    if deployment.task_type is TaskType.SQL:
        has_output = DEFAULT_OUTPUT in deployment.outputs or deployment.sink is not None
        compute: Callable[[], Any] = partial(_run_sql, deployment.task, context, hash_inputs, has_output=has_output)
    else:
        compute = partial(resolve_task(deployment.task), context)
        if stream is not None:
            stream.ship_code()
    tell(TaskInitialized(attempt))
    if stream is not None:
        stream.run(partial(_compute_stream, stream, compute, deployment, context, secrets, accumulators), later_orders)
        outputs, io = tuple[OutputLocation, ...](), IOMetrics(read_records=stream.rows_read)
    else:
        returned = _outputs_of(compute(), deployment)
        outputs = _publish(_published_of(returned, deployment), attempt, settings)
        hash_inputs.check_zone()
        opened.check_again()
        io = with_reads(io_metrics_of(deployment, {each.input_name for each in opened.inputs}, outputs), sources.read)
        if deployment.sink is not None:  # The last of all, since it stays: what fails before it leaves nothing behind.
            io = with_commit(io, _write_to_sink(returned[DEFAULT_OUTPUT], deployment.sink, outputs, attempt, settings, sources))
    spark.close()
    return Finished(outputs, spark.is_used, io, accumulators.report())


def _compute_stream(
    stream: "StreamTask",
    compute: Callable[[], object],
    deployment: TaskDeployment,
    context: TaskContext,
    secrets: TaskSecrets,
    accumulators: TaskAccumulators,
) -> object:
    """Return what the last function of a chain makes of the sources, which are read anew."""
    context.inputs.forget([source.name for source in stream.sources])
    returned = compute()
    for operator in stream.chained:
        returned = _run_chained(operator, stream.hand_over(returned, operator), deployment, context, secrets, accumulators)
    return returned


def _make_stream(
    deployment: TaskDeployment,
    attempt: AttemptId,
    settings: ForkServerSettings,
    archives: Sequence[Path],
    secrets: TaskSecrets,
    tell: Tell,
) -> "StreamTask | None":
    if deployment.stream is None:
        return None
    from eventflink.taskexecutor.task_stream import StreamTask  # noqa: PLC0415 - it loads Kafka's client, which no other task needs

    return StreamTask(deployment, deployment.stream, attempt, settings, archives, secrets, tell)


def _make_context(
    deployment: TaskDeployment,
    parameters: dict[str, Any],
    spark: TaskSpark,
    opened: OpenedInputs,
    stream: "StreamTask | None",
    accumulators: TaskAccumulators,
    hash_inputs: HashInputs,
    sources: BatchSources,
) -> TaskContext:
    share, mapping = _share_of(deployment), deployment.mapping_input
    unopened = [each for each in deployment.inputs if each.ship is ShipStrategy.HASH]

    def open_input(task_input: TaskInput, only: int | None = None) -> None:
        first = share.subtask_index if task_input.ship is ShipStrategy.FORWARD else 0
        read_by_it = {first + i: each for i, each in enumerate(task_input.locations) if only is None or i == only}
        opened.open(read := OpenedInput(task_input.input_name, read_by_it))
        if spark.is_elsewhere:  # The host's own Spark sees what this process sees.
            check_seen_by_spark(context.spark, read)

    def read(task_input: TaskInput) -> "DataFrame":
        name, ship = task_input.input_name, task_input.ship
        if ship is ShipStrategy.EACH:
            position, row_number = find_location(name, task_input.locations, share.subtask_index)
            open_input(task_input, position)
            return read_row(context.spark, task_input.locations[position], row_number)
        if ship is not ShipStrategy.HASH:
            open_input(task_input)
            return read_share(context.spark, name, ship, _places_of(task_input), share, task_input.row_schema)
        while unopened:  # Of all of them the types of the keys are read.
            open_input(unopened.pop())
        return hash_inputs.read(context.spark, name)

    readers: dict[str, Callable[[], DataFrame]] = {each.input_name: partial(read, each) for each in deployment.inputs}
    if stream is not None:
        readers |= {source.name: partial(lambda each: stream.read(each, context.spark), source) for source in stream.sources}
    readers |= sources.readers(lambda: context.spark, parameters)
    context = TaskContext(
        deployment.attempt_id,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        parameters=parameters,
        readers=readers,
        open_spark=spark.open,
        accumulators=accumulators,
        open_catalog=sources.give_catalog,
        row_input=mapping.input_name if mapping is not None else None,
        outcome=deployment.outcome,
    )
    return context


def _share_of(deployment: TaskDeployment) -> Share:
    return Share(subtask_index=deployment.subtask_index, parallelism=deployment.parallelism, max_parallelism=deployment.max_parallelism)


def _hash_inputs_of(deployment: TaskDeployment) -> HashInputs:
    hashed = [each for each in deployment.inputs if each.ship is ShipStrategy.HASH]
    inputs = [HashInput(name=each.input_name, keys=each.keys, locations=_places_of(each), row_schema=each.row_schema) for each in hashed]
    return HashInputs(inputs, _share_of(deployment))


def _places_of(task_input: TaskInput) -> list[str]:
    return [each.location for each in task_input.locations]


def _parameters_of(deployment: TaskDeployment, of_vertex: str, secrets: TaskSecrets) -> dict[str, Any]:
    """Return the parameters of a vertex, with its secrets, and those of the job, each as a value of its type.

    Raises:
        ParametersUnusable: a master has let something pass that is none.
        SecretUnavailable: a secret is missing, or cannot be read.

    """
    try:
        of_job = values_of(deployment.job_parameters)
    except ValueError as error:
        raise ParametersUnusable(f"the parameters of its job: {error}") from error
    return secrets.put_into(_parse_parameters(of_vertex)) | of_job


def _parse_parameters(text: str) -> dict[str, Any]:
    try:
        parameters = json.loads(text)
    except ValueError as error:
        raise ParametersUnusable(f"its parameters are not JSON: {error}") from error
    if not isinstance(parameters, dict):
        raise ParametersUnusable(f"its parameters are not a JSON object but {type(parameters).__name__}")
    return parameters


def _run_chained(
    operator: ChainedOperator,
    rows: "DataFrame",
    deployment: TaskDeployment,
    head: TaskContext,
    secrets: TaskSecrets,
    accumulators: TaskAccumulators,
) -> object:
    """Return what an operator makes of the rows of the one before it, in the same query."""
    context = TaskContext(
        deployment.attempt_id,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        parameters=_parameters_of(deployment, operator.parameters_json, secrets),
        readers={operator.input_name: lambda: rows},
        open_spark=lambda: head.spark,
        accumulators=accumulators,
    )
    if operator.task_type is TaskType.SQL:
        return _run_sql(operator.task, context, has_output=True)
    returned: object = resolve_task(operator.task)(context)
    return returned


def _run_sql(sql: str, context: TaskContext, hash_inputs: HashInputs | None = None, *, has_output: bool) -> "DataFrame | None":
    """Run statements that see the inputs as views, and what is a single value by name (`:parallelism`): of the row, then of the parameters.

    A closing vertex has how the others came out (`:job_status`).

    The rows are those of the last one; what is before it has been done when that is begun.
    """
    for name, rows in context.inputs.items():
        rows.createOrReplaceTempView(quoted(name))
    arguments = single_values(context.parameters)
    of_task = {"subtask_index": context.subtask_index, "parallelism": context.parallelism}
    if context.row_input is not None:
        columns = bound_columns(context.inputs[context.row_input])
        if taken := [name for name in of_task if name in columns and f":{name}" in sql]:
            raise InputUnusable(
                f"input '{context.row_input}' has a column '{taken[0]}', and :{taken[0]} is a number of the task: rename it"
            )
        arguments |= columns
    arguments |= of_task
    if context.outcome is not None:
        arguments |= sql_arguments(context.outcome)
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    returned = None
    for statement in statements_of(sql):
        try:
            rows = context.spark.sql(statement.text, args=arguments)
            # A command, such as CREATE TABLE, is done, and has no rows.
            returned = rows if rows.columns or has_output else None
        except PySparkException as error:
            explain(error, statement, context.inputs, arguments)
            raise
        if hash_inputs is not None:
            hash_inputs.check_zone()
    return returned


def _outputs_of(returned: object, deployment: TaskDeployment) -> dict[str, "DataFrame"]:
    """Return what is to be published by name.

    Raises:
        OutputUnusable: something is no DataFrame, or an output that another vertex reads is missing.

    """
    outputs: dict[str, Any] = {}
    if isinstance(returned, Mapping):
        outputs = dict(returned)
    elif returned is not None:
        outputs = {DEFAULT_OUTPUT: returned}
    for name, rows in outputs.items():
        _check_output(name, rows)
    missing = [name for name in deployment.outputs if name not in outputs]
    if not missing and deployment.sink is not None and DEFAULT_OUTPUT not in outputs:
        told = ", ".join(map(repr, outputs)) or "none"
        raise OutputUnusable(f"it did not return the output '{DEFAULT_OUTPUT}', which goes to its sink; it returned {told}")
    if missing:
        raise OutputUnusable(
            f"it did not return the output{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}, which another vertex reads; "
            f"it returned {', '.join(map(repr, outputs)) or 'none'}"
        )
    return outputs


def _published_of(returned: Mapping[str, "DataFrame"], deployment: TaskDeployment) -> dict[str, "DataFrame"]:
    """Return what of it is published: what goes to a sink is only where another vertex reads it."""
    to_sink = {DEFAULT_OUTPUT} if deployment.sink is not None else set[str]()
    return {name: rows for name, rows in returned.items() if name not in to_sink or name in deployment.outputs}


def _write_to_sink(
    rows: "DataFrame",
    sink: StreamSink,
    outputs: Iterable[OutputLocation],
    attempt: AttemptId,
    settings: ForkServerSettings,
    sources: BatchSources,
) -> TableCommit:
    """Write rows to the sink of a vertex; where they are published, from there: their readers and the table have the same."""
    if published := [each.location for each in outputs if each.output == DEFAULT_OUTPUT]:
        rows = read_parquet(rows.sparkSession, published)
    if sink.stream_format is StreamFormat.ICEBERG:
        from eventflink.taskexecutor.iceberg_sink import write_to_iceberg  # noqa: PLC0415 - it loads the model of documents, as the next one

        return write_to_iceberg(rows, sink, settings.catalogs, settings.cluster_id, attempt, sources.newest)
    from eventflink.taskexecutor.table_sink import write_to_table  # noqa: PLC0415 - which few tasks need

    return write_to_table(rows, sink, settings.cluster_id, attempt, sources.newest_paths)


def _check_output(name: object, rows: object) -> None:
    from pyspark.sql import DataFrame  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    if not isinstance(name, str):
        raise OutputUnusable(f"it returned a mapping with a key that is not an output name: {type(name).__name__}")
    if not isinstance(rows, DataFrame):
        kind = f"{type(rows).__module__}.{type(rows).__qualname__}".removeprefix("builtins.")
        where = "" if name == DEFAULT_OUTPUT else f" as output '{name}'"
        raise OutputUnusable(
            f"it returned {kind}{where}: a task returns a Spark DataFrame, a mapping of output name to Spark DataFrame, or None"
        )
    if not rows.columns:
        raise OutputUnusable(f"output '{name}' has no columns, so it cannot be stored")


def find_places(names: Iterable[str], attempt: AttemptId, working_place: Place) -> dict[str, Place]:
    """Return where each output goes.

    Raises:
        OutputUnusable: there are more than one report can name: the master would never hear that the task has finished.
        UnusableName: an id or the name of an output cannot be part of a path.

    """
    places = {name: output_place(working_place, attempt, name) for name in names}
    size = sum(len(name) + len(str(place).encode()) + _WRITTEN_BYTES for name, place in places.items())
    if size > MAX_OUTPUT_NAMES_BYTES:
        raise OutputUnusable(
            f"it returned {len(places)} outputs, whose names and places have {size} bytes; at most {MAX_OUTPUT_NAMES_BYTES} can be reported"
        )
    return places


def _publish(outputs: Mapping[str, "DataFrame"], attempt: AttemptId, settings: ForkServerSettings) -> tuple[OutputLocation, ...]:
    places = find_places(outputs, attempt, settings.working_place)
    published = []
    for name, rows in outputs.items():
        try:
            with refusals_told(places[name]):
                written_rows = write_parquet(rows, places[name])
            output = write_file_list(name, places[name], written_rows)
        except OutputNotWhole as error:
            raise OutputUnusable(f"output '{name}' cannot be published: {error}") from error
        published.append(output)
        logger.info("OutputWritten output=%s location=%s rows=%d files=%d", name, output.location, output.rows, output.files)
    return tuple(published)
