"""`eventflink broker`: only the embedded Kafka broker, until it is stopped."""

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import StopAsked, stop_on_signals, wait_while_healthy
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.processes import announced_address
from eventflink.processes.announced_address import Announced


@click.command()
@pass_session
def broker(session: Session) -> int:
    """Start only the embedded Kafka broker, on broker.port.

    Prints its address on standard output once it answers. Its data are kept in <data.directory>/broker.
    """
    configuration = session.configuration
    data_path = configuration.data_path
    embedded = EmbeddedBroker(
        data_path / "broker",
        configuration.broker_port,
        progress=lambda line: session.err.print(line, markup=False),
        start_timeout_s=configuration.broker_start_timeout_ms / 1000,
    )

    def check() -> None:
        if not embedded.is_running:
            raise CommandFailed(ExitCode.ENVIRONMENT, f"the broker ended by itself; its log is {embedded.log_path}")

    try:
        with stop_on_signals(), embedded, announced_address.announced(data_path, Announced.BROKER, embedded.bootstrap_servers):
            echo(embedded.bootstrap_servers)
            wait_while_healthy(check)
    except StopAsked:
        session.err.print("stopped")
    return ExitCode.OK
