"""`eventflink plan`: what the submission of a document would change of the job of its name; nothing is submitted, and nothing uploaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from eventflink.blob.keys import blob_key
from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_document, ask_runs
from eventflink.cli.submission import name_of_source, packed, param_option, read_job_of
from eventflink.documents.plain import plain
from eventflink.documents.plan import ChangedKey, JobPlan, PlannedChange
from eventflink.jobs.job_files import with_archives
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import bind_parameters
from eventflink.model.plain_values import json_text
from eventflink.views.plan import job_plan

CHANGES: Final = 2
"""The exit code of `--detailed-exitcode` where something would change; `cli/main.py` gives it to no error then."""
_MAX_VALUE: Final = 200
_SIGNS: Final = {PlannedChange.NEW: ("+", "green"), PlannedChange.GONE: ("-", "red"), PlannedChange.CHANGED: ("~", "yellow")}


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--code", type=click.Path(path_type=Path), multiple=True, help="A file or directory with the job's Python code; repeatable.")
@param_option
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    help="End with 0 if the newest run is of this version, and with 2 if not; what is wrong in a document or an option is 1 then.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def plan(
    session: Session, file: Path, code: tuple[Path, ...], parameters: dict[str, str], *, detailed_exitcode: bool, as_json: bool
) -> int:
    """Show what the job that FILE (JSON, YAML or Python; - for standard input) describes would change of the job of its name.

    The document is compared with that of the newest run of the name, with defaults written out. Values of parameters are shown and make no
    version. A secret is never shown: that one differs is said.
    """
    source = name_of_source(file)
    graph = _graph(session, file, code, parameters)
    runs, log_offset = ask_runs(session, graph.name, 0, 1)
    newest = ask_document(session, runs.runs[0].job_id) if runs.runs else None
    found = job_plan(graph, runs, newest, source)
    if as_json:
        session.print_json({**plain(found), "has_changes": found.has_changes, "log_offset": log_offset})
    else:
        for line in _lines(found):
            session.out.print(line, soft_wrap=True)
        if runs.unread:
            session.err.print(f"{runs.unread} jobs that have left the memory were not looked at: some may be runs of this name")
    return CHANGES if detailed_exitcode and found.has_changes else ExitCode.OK


def _graph(session: Session, file: Path, code: tuple[Path, ...], parameters: dict[str, str]) -> JobGraph:
    """Return the graph as it would be submitted: its archive of code has the key that an upload would give it."""
    job = read_job_of(file, session)
    graph = bind_parameters(job.graph, parameters) if parameters else job.graph
    return with_archives(graph, packed(session, job, code, file), blob_key)


def _lines(found: JobPlan) -> Iterator[Text]:
    if found.newest_job_id is None:
        yield Text(f"{found.name}: no run of this name is known; all of it is new")
        yield Text("it would be version 1")
        return
    newest = f"{found.newest_job_id} ({found.newest_status}, submitted {found.newest_submitted_at})"
    if not found.has_changes:
        yield Text(f"{found.name}: no changes since {newest}")
        yield from _values(found)
        yield Text(f"it would be version {found.version}, as that run is")
        return
    yield Text(f"{found.name}: changes since version {found.newest_version}, {newest}")
    for part in found.parts:
        sign, style = _SIGNS[part.change]
        yield Text(f"{sign} {part.part} {part.name}", style=style)
        for key in part.keys:
            yield from _key(key, "    ")
    for key in found.settings:
        yield from _key(key, "~ ")
    yield from (Text(f"+ code {digest}", style="green") for digest in found.code_added)
    yield from (Text(f"- code {digest}", style="red") for digest in found.code_removed)
    if found.hidden:
        yield Text("~ a secret has another value", style="yellow")
    yield from _values(found)
    known = "a new version" if found.is_new_version else "a version with earlier runs"
    yield Text(f"it would be version {found.version}, {known}")


def _values(found: JobPlan) -> Iterator[Text]:
    """Yield what this run would be given, which makes no version."""
    for key in found.values:
        yield Text(f"  given: {key.key}: {_value(key.before)} → {_value(key.after)}", style="dim")


def _key(key: ChangedKey, indent: str) -> Iterator[Text]:
    if not key.text_difference:
        yield Text(f"{indent}{key.key}: {_value(key.before)} → {_value(key.after)}", style="yellow")
        return
    yield Text(f"{indent}{key.key}:", style="yellow")
    for line in key.text_difference:
        yield Text(f"      {line}", style={"+": "green", "-": "red"}.get(line[:1], ""))


def _value(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json_text(value)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
