"""`eventflink metrics`: where masters and TaskManagers serve their metrics, for who scrapes them."""

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def metrics(session: Session, *, as_json: bool) -> int:
    """Show where masters and TaskManagers serve their metrics; those that serve none are not shown."""
    with session.working("asking the masters"), DispatcherGateway(session.access) as gateway:
        masters = gateway.request_metric_query_service_addresses()
        task_managers = gateway.request_task_manager_metric_query_service_addresses()
    if as_json:
        session.print_json({"masters": masters, "task_managers": task_managers})
        return ExitCode.OK
    table = Table()
    for heading in ("process", "id", "metrics"):
        table.add_column(heading)
    for kind, addresses in (("master", masters), ("TaskManager", task_managers)):
        for name in sorted(addresses):
            table.add_row(kind, Text(name), Text(f"http://{addresses[name]}/metrics"))
    session.out.print(table)
    return ExitCode.OK
