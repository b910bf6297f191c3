"""`eventflink history-server`: a process that reads archives of ended jobs and serves Flink's REST API about them, in the foreground."""

from contextlib import ExitStack

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import ending_in_order
from eventflink.rest.archived.server import run_history_server
from eventflink.rest.serving import RestFailed


@click.command("history-server")
@pass_session
def history_server(session: Session) -> int:
    """Start a history server.

    It shows the jobs that have archives in the directories that historyserver.archive.fs.dir names, of one or more clusters, and needs
    neither Kafka nor a cluster that runs. It serves the part of Flink's REST API that is about jobs, prints its URL on standard output,
    and runs until it is stopped (Ctrl-C, SIGTERM).
    """
    session.log_to_stderr("history-server")

    def announce(url: str) -> ExitStack:
        echo(url)
        return ExitStack()

    try:
        with ending_in_order():
            run_history_server(session.configuration, announce)
    except RestFailed as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error
    return ExitCode.OK
