"""`eventflink up`: a whole cluster on this machine, until it is stopped."""

import click

from eventflink.cli.failures import ExitCode
from eventflink.cli.local_cluster import ClusterEnded, LocalCluster
from eventflink.cli.session import Session, pass_session
from eventflink.cli.waiting import StopAsked, stop_on_signals, wait_while_healthy


@click.command()
@click.option("--taskexecutors", type=click.IntRange(0, 64), default=1, show_default=True, help="How many TaskExecutors to start.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when it is up: where everything is.")
@pass_session
def up(session: Session, taskexecutors: int, *, as_json: bool) -> int:
    """Start a whole cluster on this machine.

    Starts Kafka (unless bootstrap.servers names one), a master and TaskExecutors; Ctrl-C stops them in order. What ends by itself is
    started again. Their logs are in <data.directory>/logs. A cluster that is shut down ends 'up' as well, with its exit code.
    """
    say = session.err.print
    cluster = LocalCluster(session, taskexecutors, lambda line: say(line, markup=False))
    try:
        with stop_on_signals(), cluster:
            say(f"the cluster '{session.cluster_id}' is up; Ctrl-C stops it", markup=False)
            if as_json:
                session.print_json(
                    {
                        "cluster_id": session.cluster_id,
                        "bootstrap": cluster.bootstrap,
                        "rest_url": cluster.rest_url,
                        "data_directory": str(session.configuration.data_path.absolute()),
                    }
                )
            wait_while_healthy(cluster.check)
    except StopAsked:
        say("stopped")
    except ClusterEnded as end:
        say(str(end), markup=False)
        return end.exit_code
    return ExitCode.OK
