"""`eventflink topics`: the topics of the cluster, as they are."""

import dataclasses
from typing import Final

import click
from rich.table import Table

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.errors import ClusterNotFound
from eventflink.log.administration import describe_topics

_TIMEOUT_S: Final = 10.0
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@pass_session
def topics(session: Session, *, as_json: bool) -> int:
    """Show the cluster's topics."""
    with session.working("asking Kafka"):
        rows = describe_topics(session.bootstrap, session.cluster_id, timeout_s=_TIMEOUT_S)
    if not rows:
        raise ClusterNotFound(f"Kafka at {session.bootstrap} holds no topic of a cluster '{session.cluster_id}'")
    if as_json:
        session.print_json([dataclasses.asdict(row) for row in rows])
        return ExitCode.OK
    table = Table()
    for heading in ("topic", "partitions", "replicas", "messages", "kept for", "cleanup"):
        table.add_column(heading, justify="right" if heading in ("partitions", "replicas", "messages") else "left")
    for row in rows:
        table.add_row(row.name, str(row.partitions), str(row.replicas), str(row.messages), _describe(row.retention_ms), row.cleanup_policy)
    session.out.print(table)
    return ExitCode.OK


def _describe(retention_ms: int) -> str:
    if retention_ms < 0:
        return "ever"
    if retention_ms % _DAY_MS == 0:
        return f"{retention_ms // _DAY_MS} d"
    return f"{retention_ms / _HOUR_MS:g} h"
