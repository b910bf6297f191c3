"""`eventflink runs`: the names of jobs, or the runs of one of them, each with its vertices."""

from collections import Counter
from typing import Final

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_names
from eventflink.cli.drawing import seconds_until_now, styled
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_names, ask_runs
from eventflink.documents.plain import plain
from eventflink.documents.runs import (
    DEFAULT_NAMES,
    DEFAULT_RUNS,
    MAX_FIRST,
    MAX_NAMES,
    MAX_RUNS,
    JobName,
    JobNamesPage,
    RunOfJob,
    RunsPage,
    VertexOfRun,
)

_MAX_COLUMNS: Final = 6
"""A run with more vertices shows how many of them are in each state."""
_MAX_SHOWN: Final = 40
_TREND: Final = 10
_GLYPHS: Final = {"FAILED": "✖", "FAILING": "✖", "FINISHED": "✔", "CANCELED": "⊘", "CANCELING": "⊘", "CANCELLING": "⊘", "RUNNING": "▶"}


@click.command()
@click.argument("name", required=False, shell_complete=complete_names)
@click.option(
    "--limit", type=click.IntRange(1, MAX_NAMES), help=f"Show only so many.  [default: {DEFAULT_RUNS} runs, {DEFAULT_NAMES} names]"
)
@click.option("--first", type=click.IntRange(0, MAX_FIRST), default=0, help="Leave out so many of the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def runs(session: Session, name: str | None, limit: int | None, first: int, *, as_json: bool) -> int:
    """Show the runs of the job NAME, the newest first, with what became of each vertex; without NAME, the names of all jobs.

    Runs are of one version if they have the same graph and code, whatever the values of their parameters.
    """
    if name is None:
        names, log_offset = ask_names(session, first, limit or DEFAULT_NAMES)
        if as_json:
            session.print_json({**plain(names), "log_offset": log_offset})
        else:
            _print_names(session, names, first)
        return ExitCode.OK
    if (limit or DEFAULT_RUNS) > MAX_RUNS:
        raise click.BadParameter(f"at most {MAX_RUNS} runs are shown at once; --first shows older ones", param_hint="'--limit'")
    page, log_offset = ask_runs(session, name, first, limit or DEFAULT_RUNS)
    if not page.total:
        unread = f", and {page.unread} jobs that have left the memory could not be looked at" if page.unread else ""
        raise CommandFailed(
            ExitCode.NEGATIVE, f"job not found: no run of '{name[:128]}' is known{unread}; 'eventflink runs' shows the names that are"
        )
    if as_json:
        session.print_json({**plain(page), "log_offset": log_offset})
    else:
        _print_runs(session, page, first)
    return ExitCode.OK


def _print_names(session: Session, page: JobNamesPage, first: int) -> None:
    if not page.total:
        session.out.print("no job was submitted yet; 'eventflink submit' does it")
    else:
        table = Table()
        for heading in ("name", "runs", "versions", "newest", "submitted", "last success", "seconds", "trend"):
            table.add_column(heading, justify="right" if heading in ("runs", "versions", "seconds") else "left")
        for row in page.names:
            table.add_row(
                Text(row.name),
                str(row.runs),
                str(row.versions),
                styled(row.newest.status),
                row.newest.submitted_at,
                row.last_success_at or "never",
                f"{row.typical_ms / 1000:.3f}" if row.typical_ms is not None else "",
                Text(_trend(row)),
            )
        session.out.print(table)
    _print_rest(session, page.total - first - len(page.names), "names", page.unread)


def _trend(row: JobName) -> str:
    return "".join(_GLYPHS.get(mark.status, "◌") for mark in row.trend[-_TREND:])


def _print_runs(session: Session, page: RunsPage, first: int) -> None:
    typical = f", typically {page.typical_ms / 1000:.3f} s" if page.typical_ms is not None else ""
    known = f"{page.total} run{'s' if page.total != 1 else ''} of {page.versions_total} version{'s' if page.versions_total != 1 else ''}"
    session.out.print(Text(f"{page.name}: {known}{typical}"))
    columns = page.vertices if len(page.vertices) <= _MAX_COLUMNS else []
    table = Table()
    for heading in ("run", "version", "status", "submitted", "seconds"):
        table.add_column(heading, justify="right" if heading in ("version", "seconds") else "left", no_wrap=heading == "run")
    for vertex_id in columns:
        table.add_column(Text(vertex_id))
    if not columns:
        table.add_column("vertices")
    for heading in ("parameters", "why it ran"):
        table.add_column(heading)
    for row in page.runs:
        vertices = {vertex.vertex_id: vertex for vertex in row.vertices}
        cells = [Text(_cell(vertices[name]) if name in vertices else "") for name in columns] or [Text(_counted(row))]
        table.add_row(
            Text(row.job_id),
            str(row.version),
            styled(row.status),
            row.submitted_at,
            f"{seconds_until_now(row.duration_ms, row.submitted_at, row.ended_at):.3f}",
            *cells,
            Text(", ".join(_parameter(key, value) for key, value in row.parameters.items())),
            Text(_reason(row)),
        )
    session.out.print(table)
    _print_rest(session, page.total - first - len(page.runs), "runs", page.unread)


def _parameter(name: str, value: object) -> str:
    text = str(value) if not isinstance(value, bool) else str(value).lower()
    return f"{name}={text if len(text) <= _MAX_SHOWN else f'{text[: _MAX_SHOWN - 1]}…'}"


def _cell(vertex: VertexOfRun) -> str:
    if vertex.is_reused:
        return "↺ reused"
    if vertex.skipped:
        return "↷ skipped"
    took = f" {vertex.duration_ms / 1000:.3f} s" if vertex.duration_ms is not None else ""
    return f"{_GLYPHS.get(vertex.state, '◌')} {vertex.state.lower()}{took}"


def _counted(row: RunOfJob) -> str:
    states = Counter("reused" if each.is_reused else "skipped" if each.skipped else each.state.lower() for each in row.vertices)
    failed = [vertex.vertex_id for vertex in row.vertices if vertex.state == "FAILED"]
    more = row.vertices_total - len(row.vertices)
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{counted}{f' ({failed[0]})' if failed else ''}{f', and {more} more' if more else ''}"


def _reason(row: RunOfJob) -> str:
    said = [f"{row.schedule_id} for {row.instant}"] if row.schedule_id else []
    said += [f"runs {row.rerun_of} again"] if row.rerun_of else []
    return ", ".join(said) or (f"submitted by {row.actor}" if row.actor else "submitted")


def _print_rest(session: Session, older: int, what: str, unread: int) -> None:
    if older > 0:
        session.err.print(f"{older} more {what} are not shown (--first, --limit)")
    if unread:
        session.err.print(f"{unread} older jobs are not counted: their archives do not exist or could not be read")
