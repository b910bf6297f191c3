"""`eventflink rest`: a process that reads the cluster's log and serves Flink's REST API, in the foreground."""

from contextlib import ExitStack

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import ending_in_order
from eventflink.gateways.folding import folding_log
from eventflink.gateways.rest_process import cluster_name
from eventflink.processes.announced_address import Announced, announced
from eventflink.rest.server import run_rest
from eventflink.rest.serving import RestFailed


@click.command()
@pass_session
def rest(session: Session) -> int:
    """Start a REST process.

    It serves Flink's REST API on rest.bind-port of this machine, prints its URL on standard output once it answers, and runs until it is
    stopped (Ctrl-C, SIGTERM). There may be any number of them; none of them costs the leader anything.
    """
    configuration = session.configuration
    name = cluster_name(session.bootstrap, configuration.cluster_id)
    session.log_to_stderr("rest")

    def announce(url: str) -> ExitStack:
        until_the_end = ExitStack()
        until_the_end.enter_context(announced(configuration.data_path, Announced.REST, url, of_cluster=name))
        echo(url)
        return until_the_end

    try:
        with ending_in_order(), folding_log(session.access):
            run_rest(configuration, session.access, announce)
    except RestFailed as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error
    return ExitCode.OK
