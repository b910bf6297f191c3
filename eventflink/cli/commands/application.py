"""`eventflink application`: a master that runs an application's entry point, and ends the cluster when its jobs have ended."""

import click

from eventflink.cli.application_master import run_application_master
from eventflink.cli.session import Session, pass_session


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--application-id", default="application", show_default=True, help="Names the application: its jobs' ids follow from it.")
@click.argument("main")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@pass_session
def application(session: Session, application_id: str, main: str, arguments: tuple[str, ...]) -> int:
    """Start a master that runs MAIN (module:function) with ARGUMENTS while it leads.

    MAIN is called with an ApplicationGateway and the arguments. When it has returned and its jobs have ended, the cluster is shut down,
    and the exit code is that of how they ended. Several masters may be started: the one that leads runs MAIN.
    """
    return run_application_master(session, application_id, main=main, arguments=arguments)
