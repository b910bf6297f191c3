"""`eventflink context`: clusters by name, so that commands need not be told each time where theirs is."""

import os
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.completion import complete_contexts
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.session.contexts import ClusterContext, contexts_file, load_contexts

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def context() -> None:
    """List clusters by name; use, set or remove one."""


@context.command("list")
@_AS_JSON
@pass_session
def list_contexts(session: Session, *, as_json: bool) -> int:
    """List the contexts; the one in use has a star."""
    known = load_contexts(contexts_file(os.environ))
    if as_json:
        listed = {name: each.to_document() for name, each in known.contexts.items()}
        session.print_json({"current": known.current or None, "contexts": listed})
        return ExitCode.OK
    table = Table()
    for heading in ("", "context", "bootstrap", "cluster id", "configuration"):
        table.add_column(heading)
    for name, each in sorted(known.contexts.items()):
        table.add_row("*" if name == known.current else "", *map(Text, (name, each.bootstrap, each.cluster_id, each.config)))
    session.out.print(table)
    return ExitCode.OK


@context.command("use")
@click.argument("name", default="", shell_complete=complete_contexts)
@_AS_JSON
@pass_session
def use(session: Session, name: str, *, as_json: bool) -> int:
    """Use the context NAME for commands that name no cluster; without NAME, none."""
    known = load_contexts(contexts_file(os.environ))
    if name:
        known.find(name)
    known.current = name
    known.save()
    return _say(session, f"commands that name no cluster use {_called(name) if name else 'no context'}", name, as_json=as_json)


@context.command("set")
@click.argument("name", shell_complete=complete_contexts)
@click.option("--bootstrap", metavar="HOST:PORT", help="Its Kafka cluster.")
@click.option("--cluster-id", metavar="ID", help="Its cell.")
@click.option("--config", type=click.Path(), help="Its configuration directory, or the eventflink.yaml there.")
@_AS_JSON
@pass_session
def set_context(session: Session, name: str, bootstrap: str | None, cluster_id: str | None, config: str | None, *, as_json: bool) -> int:
    """Set the context NAME, or those of its values that are given; an empty value takes one away."""
    known = load_contexts(contexts_file(os.environ))
    before = known.contexts.get(name, ClusterContext())
    where = before.config if config is None else str(Path(config).absolute()) if config else ""
    context = ClusterContext(
        before.bootstrap if bootstrap is None else bootstrap, before.cluster_id if cluster_id is None else cluster_id, where
    )
    if not context.to_document():
        raise CommandFailed(ExitCode.USAGE, f"context '{name}' would be empty: give --bootstrap, --cluster-id or --config")
    known.put(name, context)
    known.save()
    return _say(session, f"{_called(name)} is set in {known.path}", name, as_json=as_json)


@context.command("remove")
@click.argument("name", shell_complete=complete_contexts)
@_AS_JSON
@pass_session
def remove(session: Session, name: str, *, as_json: bool) -> int:
    """Remove the context NAME; the cluster itself is left alone."""
    known = load_contexts(contexts_file(os.environ))
    known.remove(name)
    known.save()
    return _say(session, f"{_called(name)} is removed", name, as_json=as_json)


def _called(name: str) -> str:
    return f"the context '{name}'"


def _say(session: Session, said: str, name: str, *, as_json: bool) -> int:
    if as_json:
        session.print_json({"context": name or None})
    else:
        echo(said)
    return ExitCode.OK
