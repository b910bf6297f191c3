"""`eventflink dev`: the graph of a batch job, run in this process on a Spark of its own, without a cluster.

What a document has to pass before it is submitted, it passes here; what its tasks do is what they do on a cluster. Only the printing is
here.
"""

import contextlib
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.text import Text

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.row_table import draw_rows
from eventflink.cli.session import Session, pass_session
from eventflink.cli.submission import param_option, read_job_of
from eventflink.jobs.modules_beside import code_beside
from eventflink.jobs.plain_rows import python_rows
from eventflink.jobs.required_packages import Requirements, find_packages
from eventflink.jobs.result import JobOutput
from eventflink.model.job_graph import DEFAULT_OUTPUT
from eventflink.model.job_graph_document import bind_parameters
from eventflink.model.secret_masks import MaskingFormatter
from eventflink.processes.ending import raised_on_signals
from eventflink.processes.packages_path import environment_with
from eventflink.taskexecutor.failure_causes import UnknownFunction
from eventflink.taskexecutor.task_packages import unpacked
from eventflink.workbench.graph_run import Ended, GraphRun, VertexFailed, VertexRun, run_graph

_WITHOUT_CODE: Final = (UnknownFunction.__name__, ModuleNotFoundError.__name__)
"""Failures of a vertex whose module, or one that it imports, was not found."""
_GLOBAL_OPTIONS: Final = {"config": "-c", "context_name": "--context", "bootstrap": "--bootstrap", "cluster_id": "--cluster-id"}
_BEGUN: Final = "EVENTFLINK_DEV_BEGUN"
"""In the environment of a process that has begun anew: its id."""
_ERRORS_OF_SPARK: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers to which Spark's client writes each error that it raises, as JSON."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--code",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A file or directory with the job's Python code; repeatable. Default: the modules beside FILE that its vertices name.",
)
@param_option
@click.option("--vertex", "vertices", metavar="ID", multiple=True, help="Run only this vertex and those that it needs; repeatable.")
@click.option("--parallelism", type=click.IntRange(min=1), metavar="N", help="Run at most so many subtasks of each vertex.")
@click.option("--rows", type=click.IntRange(min=0), default=10, show_default=True, help="Show so many rows of each output.")
@click.option("--sinks", is_flag=True, help="Let Spark write to files, tables and databases; else it computes the rows and drops them.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Leave the outputs in a directory below DIR.")
@click.option(
    "--spark-stays",
    "spark_stays_min",
    type=click.IntRange(0, 1_440),
    default=0,
    metavar="MINUTES",
    help="Leave Spark running for so long for the next run, which then begins at once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines for people.")
@pass_session
def dev(
    session: Session,
    file: Path,
    code: tuple[Path, ...],
    parameters: dict[str, str],
    vertices: tuple[str, ...],
    parallelism: int | None,
    rows: int,
    keep: Path | None,
    spark_stays_min: int,
    *,
    sinks: bool,
    as_json: bool,
) -> int:
    """Run here, without a cluster, the batch job that FILE (JSON, YAML or Python; - for standard input) describes, and show its rows."""
    is_file = str(file) != "-"
    job = read_job_of(file)
    if job.requirements is not None:
        _begin_with(session, job.requirements, file)
    graph = bind_parameters(job.graph, parameters)
    is_found_by_submit = not code and bool(job.code)
    code = code or job.code or (tuple(code_beside(graph, file.parent)) if is_file else ())
    done: list[dict[str, Any]] = []
    closing_failures: list[dict[str, Any]] = []

    def show(run: VertexRun) -> None:
        if as_json:
            done.append(_document_of(run, rows))
        else:
            _print(session, run, rows)

    def show_closing_failure(failed: VertexFailed) -> None:
        if as_json:
            closing_failures.append(_describe(failed))
        else:
            _print_failure(failed, "")

    named = () if is_found_by_submit else code
    options = [part for each in named for part in ("--code", str(each))]
    options += [part for name, value in parameters.items() for part in ("--param", f"{name}={value}")]
    program = ["eventflink", *_given_options(click.get_current_context().find_root())]
    report: dict[str, Any] = {"name": graph.name, "vertices": done, "failure": None, "closing_failures": closing_failures}
    try:
        with _ended_by_signals(), _on_standard_error() if as_json else contextlib.nullcontext(), _shown_logs():
            run = run_graph(
                graph,
                code,
                session.configuration,
                jars=job.jars,
                sql_files=job.sql_files,
                vertices=vertices,
                parallelism=parallelism,
                sinks=sinks,
                keep=keep,
                spark_stays_ms=spark_stays_min * 60_000,
                on_spark_start=lambda: session.err.print("Spark starts (--spark-stays leaves it for the next run)", markup=False),
                on_vertex=show,
                on_closing_failure=show_closing_failure,
            )
    except VertexFailed as failed:
        report["failure"] = _describe(failed)
        session.print_json(report) if as_json else _print_failure(
            failed, shlex.join([*program, "dev", str(file), *options]) if is_file else ""
        )
        return ExitCode.NEGATIVE
    if as_json:
        session.print_json(report | ({"directory": str(run.directory)} if keep is not None else {}))
    else:
        _print_end(session, run, shlex.join([*program, "submit", str(file), *options]) if is_file else "", kept=keep is not None)
    return ExitCode.OK


def _begin_with(session: Session, requirements: Requirements, file: Path) -> None:
    """Begin this process anew with the packages that the job requires; do nothing if it has begun with them.

    Its id stays when it does. What a directory holds that is one of them may differ by now, and would be begun with again and again.

    Raises:
        ArchiveError: they cannot be installed.
        CodeUnusable: they cannot be unpacked here.

    """
    if os.environ.get(_BEGUN) == str(os.getpid()):
        return
    with session.working("installing packages"):
        packages = unpacked(find_packages(requirements))
    if str(file) == "-":
        raise CommandFailed(ExitCode.USAGE, "requirements: what stands in standard input is read once; give a file")
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment_with(packages) | {_BEGUN: str(os.getpid())})  # noqa: S606 - itself


def _given_options(context: click.Context) -> list[str]:
    """Return the options that were given before the command, and say which configuration and cluster is meant."""
    given = [name for name in _GLOBAL_OPTIONS if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    named = [part for name in given for part in (_GLOBAL_OPTIONS[name], str(context.params[name]))]
    return named + [part for key, value in context.params["overrides"].items() for part in ("-D", f"{key}={value}")]


def _ended_by_signals() -> contextlib.AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP end this process in order, so that it leaves no files behind."""
    return raised_on_signals((signal.SIGTERM, signal.SIGHUP), lambda number: Ended(128 + number))


@contextlib.contextmanager
def _on_standard_error() -> Iterator[None]:
    """Let all that this process and its children print in the block go to standard error, so that a JSON object stands alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def _shown_logs() -> Iterator[None]:
    """Let people see what tasks log, without the values of secrets."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - what is refused before a task runs does not wait for Spark

    for name in _ERRORS_OF_SPARK:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    of_tasks, handler = logging.getLogger("task"), logging.StreamHandler()
    handler.setFormatter(MaskingFormatter("%(name)s: %(levelname)s: %(message)s"))
    of_tasks.setLevel(logging.INFO)
    of_tasks.addHandler(handler)
    of_tasks.propagate = False
    try:
        yield
    finally:
        of_tasks.removeHandler(handler)
        of_tasks.propagate = True


def _document_of(run: VertexRun, rows: int) -> dict[str, Any]:
    outputs = []
    for output in run.outputs:
        table = output.to_arrow(rows)
        outputs.append({"output": output.output, "count": _count(output), "columns": table.column_names, "rows": python_rows(table)})
    named = {"vertex": run.vertex_id, "parallelism": run.parallelism, "run_time_ms": run.run_time_ms}
    return {**named, "outputs": outputs, "not_written": list(run.withheld), "skipped": run.skipped or None}


def _count(output: JobOutput) -> int:
    return sum(each.rows for each in output.locations)


def _print(session: Session, run: VertexRun, rows: int) -> None:
    if run.skipped:
        session.out.print(Text(f"{run.vertex_id}: skipped, for {run.skipped}", style="bold"))
        return
    subtasks = f", {run.parallelism} subtasks" if run.parallelism > 1 else ""
    session.out.print(Text(f"{run.vertex_id}: {run.rows} rows in {run.run_time_ms} ms{subtasks}", style="bold"))
    for output in run.outputs:
        name = "" if output.output == DEFAULT_OUTPUT else f"output '{output.output}': "
        if rows:
            table = output.to_arrow(rows)
            session.out.print(draw_rows(table, f"{name}{table.num_rows} of {_count(output)} rows"))
    for each in run.withheld:
        session.out.print(Text(f"not written: {each}", style="yellow"))


def _print_end(session: Session, run: GraphRun, submit: str, *, kept: bool) -> None:
    if kept:
        session.err.print(f"the outputs are in {run.directory}", markup=False)
    if any(each.withheld for each in run.vertices):
        session.err.print("what was not written is written with --sinks, or on a cluster", markup=False)
    if submit:
        session.err.print(f"on a cluster: {submit}", markup=False)


def _print_failure(failed: VertexFailed, again: str) -> None:
    echo(str(failed), err=True)
    for each in failed.withheld:
        echo(f"not written: {each} (if the task reads this back, use --sinks)", err=True)
    if failed.cause.failure_type in _WITHOUT_CODE:
        echo("next: name the files and directories of its code by --code, as 'eventflink submit' has to be told them", err=True)
        return
    if again:
        echo(f"next: mend it, and run it with what it needs: {again} --vertex {failed.vertex_id}", err=True)


def _describe(failed: VertexFailed) -> dict[str, Any]:
    cause = failed.cause
    named = {"vertex": failed.vertex_id, "subtask_index": failed.subtask_index, "failure_type": cause.failure_type}
    return {**named, "message": cause.message, "described": str(failed), "not_written": list(failed.withheld)}
