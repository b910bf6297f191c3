"""What a shell offers when somebody presses the tab key: ids of jobs that are there now, vertices, TaskManagers, contexts.

The rule: an answer within a second and a half, or none, and never a word on standard error; what cannot be asked is not offered. The parts
of the shells are click's (`eventflink completion`).
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from eventflink.model.texts import printable

if TYPE_CHECKING:
    from eventflink.cli.session import Session

_TIMEOUT_S: Final = 1.5
_MAX_OFFERED: Final = 200
_MAX_NAMES: Final = 100
"""The most names of jobs that are asked for: the answer to each has a summary of all its runs."""


def complete_jobs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of jobs that begin so, the newest first, each with its name and status."""

    def ask(session: "Session") -> list[CompletionItem]:
        from eventflink.cli.state import ask_jobs  # noqa: PLC0415 - the shell asks for other things as well

        rows = reversed(ask_jobs(session, (), 1_000).jobs)
        fitting = [row for row in rows if row.job_id.startswith(incomplete)]
        return [CompletionItem(row.job_id, help=_one_line(f"{row.name} {row.status}")) for row in fitting[:_MAX_OFFERED]]

    return _ask_quietly(context, ask)


def complete_task_managers(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of the registered TaskManagers."""

    def ask(session: "Session") -> list[CompletionItem]:
        from eventflink.cli.state import ask_cluster  # noqa: PLC0415 - the shell asks for other things as well

        rows = [row for row in ask_cluster(session).task_managers if row.task_manager_id.startswith(incomplete)]
        return [CompletionItem(row.task_manager_id, help=_one_line(f"on {row.host}")) for row in rows[:_MAX_OFFERED]]

    return _ask_quietly(context, ask)


def complete_schedules(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of the schedules."""

    def ask(session: "Session") -> list[CompletionItem]:
        from eventflink.cli.state import ask_schedules  # noqa: PLC0415 - the shell asks for other things as well

        rows = [row for row in ask_schedules(session)[0].schedules if row.schedule_id.startswith(incomplete)]
        return [CompletionItem(row.schedule_id, help=_one_line(row.when)) for row in rows[:_MAX_OFFERED]]

    return _ask_quietly(context, ask)


def complete_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the names of jobs, with how the newest run stands."""

    def ask(session: "Session") -> list[CompletionItem]:
        from eventflink.cli.state import ask_names  # noqa: PLC0415 - the shell asks for other things as well

        page, _ = ask_names(session, 0, _MAX_NAMES, incomplete)
        rows = [row for row in page.names if row.name.startswith(incomplete) and row.name.isprintable()]
        return [CompletionItem(row.name, help=f"{row.runs} runs, the newest {row.newest.status}") for row in rows]

    return _ask_quietly(context, ask)


def complete_vertices(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the vertices of the job that the command line names before."""
    # A rerun gives its `job_id` to the new job. Behind an option that has no value yet, click has given no argument its name.
    job_id = context.params.get("rerun_of") or context.params.get("job_id") or next(iter(context.args), None)

    def ask(session: "Session") -> list[CompletionItem]:
        from eventflink.cli.state import ask_job  # noqa: PLC0415 - the shell asks for other things as well

        names = [vertex.vertex_id for vertex in ask_job(session, str(job_id)).vertices]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_MAX_OFFERED]

    return _ask_quietly(context, ask) if job_id else []


def complete_contexts(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the names of the contexts."""
    from eventflink.session.contexts import contexts_file, load_contexts  # noqa: PLC0415 - the shell asks for other things as well

    with contextlib.suppress(Exception):
        return [CompletionItem(name) for name in sorted(load_contexts(contexts_file(os.environ)).contexts) if name.startswith(incomplete)]
    return []


def _ask_quietly(context: click.Context, ask: Callable[["Session"], list[CompletionItem]]) -> list[CompletionItem]:
    """Return what `ask` answers in time; nothing where it fails or takes longer."""
    from eventflink.cli.session import session_of  # noqa: PLC0415 - the shell asks for other things as well

    found: list[CompletionItem] = []

    def run() -> None:
        with contextlib.suppress(BaseException):
            found.extend(ask(session_of(context.find_root().params)))

    with _silent_stderr():
        asking = threading.Thread(target=run, name="completion", daemon=True)
        asking.start()
        asking.join(_TIMEOUT_S)
        return list(found)


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Let nothing reach standard error, neither from here nor from a library: it would be written into the line that somebody types."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _one_line(text: str) -> str:
    return printable(text.replace("\n", " "))[:80]
