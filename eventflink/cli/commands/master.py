"""`eventflink master`: one master, in the foreground."""

import logging
from typing import Final

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.flink_archiving import flink_render
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import ending_in_order
from eventflink.entrypoint.master_process import MasterFailed, run_master
from eventflink.entrypoint.operators_words import OperatorsWords
from eventflink.events.topics import INBOUND

_LOGGER: Final = logging.getLogger(__name__)


@click.command()
@click.option(
    "--rebind",
    type=click.Choice([str(topic) for topic in INBOUND]),
    multiple=True,
    help="An inbound topic that was created again, or truncated: bind its cursor to what is there now. What nobody decided before is lost.",
)
@click.option(
    "--accept-log-end",
    type=click.IntRange(min=1),
    metavar="OFFSET",
    help="Go on from a truncated log that ends at this offset. What it had beyond is lost, and snapshots of that are removed.",
)
@pass_session
def master(session: Session, rebind: tuple[str, ...], accept_log_end: int | None) -> int:
    """Start a master.

    It creates missing topics, leads, or waits while another master does, and runs until it is stopped (Ctrl-C, SIGTERM).
    """
    configuration = session.configuration.with_ids()
    session.log_to_stderr(configuration.master_id)
    try:
        with ending_in_order():
            access = session.await_access()
            if keys := configuration.keys_that_shut_hosts_out(access.bootstrap):
                _LOGGER.warning(
                    "OtherHostsShutOut keys=%s bootstrap=%s advice='a host name, and 0.0.0.0'", ",".join(keys), access.bootstrap
                )
            program = session.child_arguments(access.bootstrap, {})
            words = OperatorsWords(rebind, accept_log_end)
            return run_master(configuration, access, words, program, render_flink=flink_render(configuration))
    except MasterFailed as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error
