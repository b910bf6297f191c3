"""`eventflink parked`: what could not be decided and waits for an operator, who tries it again or drops it (P10).

`list` asks for the state; `retry` and `drop` are commands, which the leader decides.
"""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.cli.state import ask_cluster
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.session.cluster_session import actor_name

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def parked() -> None:
    """Show what could not be decided and waits for an operator; try it again, or drop it."""


@parked.command("list")
@_AS_JSON
@pass_session
def list_parked(session: Session, *, as_json: bool) -> int:
    """List what is parked, the oldest first."""
    view = ask_cluster(session)
    if as_json:
        session.print_json({"parked": view.parked, "log_offset": view.log_offset})
        return ExitCode.OK
    if not view.parked:
        session.out.print("nothing is parked")
        return ExitCode.OK
    table = Table()
    for heading in ("id", "what", "about", "job", "since", "to be done", "reason"):
        table.add_column(heading)
    for row in view.parked:
        cells = (row.parked_id, row.input_type, row.subject, row.job_id or "", row.parked_at or "")
        table.add_row(*map(Text, (*cells, "yes" if row.wanted else "no", row.reason)))
    session.out.print(table)
    return ExitCode.OK


@parked.command("retry")
@click.argument("parked_id")
@_AS_JSON
@pass_session
def retry(session: Session, parked_id: str, *, as_json: bool) -> int:
    """Try PARKED_ID again."""
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.retry_parked_input(parked_id, actor=actor_name())
    return session.print_accepted(accepted, f"{parked_id} is tried again", as_json=as_json, parked_id=parked_id)


@parked.command("drop")
@click.argument("parked_id")
@_AS_JSON
@pass_session
def drop(session: Session, parked_id: str, *, as_json: bool) -> int:
    """Forget PARKED_ID; refused while it is still to be done."""
    with DispatcherGateway(session.access) as gateway:
        accepted = gateway.drop_parked_input(parked_id, actor=actor_name())
    return session.print_accepted(accepted, f"{parked_id} is forgotten", as_json=as_json, parked_id=parked_id)
