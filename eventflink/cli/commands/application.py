"""`eventflink application`: a master that runs an application's entry point, and ends the cluster when its jobs have ended."""

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.flink_archiving import flink_render
from eventflink.cli.id_type import JOB_ID
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import ending_in_order
from eventflink.entrypoint.application_main import Application
from eventflink.entrypoint.master_process import MasterFailed, run_master


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--application-id", type=JOB_ID, default="application", show_default=True, help="Names the application: its jobs' ids follow from it."
)
@click.argument("main")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@pass_session
def application(session: Session, application_id: str, main: str, arguments: tuple[str, ...]) -> int:
    """Start a master that runs MAIN (module:function) with ARGUMENTS while it leads.

    MAIN is called with an ApplicationGateway and the arguments. When it has returned and its jobs have ended, the cluster is shut down,
    and the exit code is that of how they ended. Several masters may be started: the one that leads runs MAIN.
    """
    return run_application_master(session, application_id, main=main, arguments=arguments)


def run_application_master(
    session: Session,
    application_id: str,
    *,
    main: str = "",
    arguments: tuple[str, ...] = (),
    graph: str = "",
    code: tuple[str, ...] = (),
    job_id: str = "",
) -> int:
    """Run a master that runs an application while it leads, for `standalone-job` as well; return the exit code of its end.

    Raises:
        CommandFailed: the name of the entry point is not valid, or the master cannot run.

    """
    if not graph and not all(main.partition(":")):
        raise CommandFailed(ExitCode.USAGE, f"invalid main: '{main}'; give module:function")
    configuration = session.configuration.with_ids()
    session.log_to_stderr(configuration.master_id)
    application = Application(
        application_id=application_id,
        main=main,
        arguments=arguments,
        graph=graph,
        code=code,
        job_id=job_id,
        config=str(session.config.absolute()) if session.config is not None else "",
        overrides=dict(session.overrides),
    )
    try:
        with ending_in_order():
            access = session.await_access()
            program = session.child_arguments(access.bootstrap, {})
            return run_master(configuration, access, program=program, application=application, render_flink=flink_render(configuration))
    except MasterFailed as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error
