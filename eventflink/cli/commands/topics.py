"""`eventflink topics`: the topics of the cluster as they are, and who needs which rights on them."""

import dataclasses
from typing import Any, Final

import click
from rich.table import Table

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.gateways.errors import ClusterNotFound
from eventflink.log.access_rights import Grantee, Right, rights_of
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import describe_topics

_TIMEOUT_S: Final = 10.0
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000


def _read_principals(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[Grantee, str], ...]:
    found = []
    for text in values:
        role, _, principal = text.partition("=")
        kind, _, name = principal.partition(":")
        if role not in list(Grantee) or not kind or not name:
            raise click.BadParameter(f"'{text}' is not of the form ROLE=User:NAME; a role is {', '.join(Grantee)}")
        found.append((Grantee(role), principal))
    return tuple(found)


@click.command()
@click.option("--acls", is_flag=True, help="Show instead what each role needs of a Kafka with an authorizer.")
@click.option(
    "--principal",
    "principals",
    metavar="ROLE=User:NAME",
    multiple=True,
    callback=_read_principals,
    help="Only what this role needs, for this principal; repeatable.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Grant that; whoever asks needs Alter on the Kafka cluster.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@pass_session
def topics(session: Session, *, acls: bool, principals: tuple[tuple[Grantee, str], ...], is_applied: bool, as_json: bool) -> int:
    """Show the cluster's topics, or with --acls who needs which rights on them."""
    if (principals or is_applied) and not acls:
        raise CommandFailed(ExitCode.USAGE, "--principal and --apply belong to --acls")
    if is_applied and not principals:
        raise CommandFailed(ExitCode.USAGE, "--apply: to whom? Name it: --principal client=User:NAME")
    if acls:
        return _show_rights(session, principals, is_applied=is_applied, as_json=as_json)
    with session.working("asking Kafka"):
        rows = describe_topics(session.access, timeout_s=_TIMEOUT_S)
    if not rows:
        raise ClusterNotFound(
            f"cluster not found: '{session.cluster_id}'; Kafka at {session.bootstrap} has no topics of it that these settings may Describe"
        )
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


def _show_rights(session: Session, principals: tuple[tuple[Grantee, str], ...], *, is_applied: bool, as_json: bool) -> int:
    trims_log = session.configuration.snapshot_trim_log
    wanted = [
        (role, principal, rights_of(role, session.cluster_id, trims_log=trims_log))
        for role, principal in (principals or tuple((role, "") for role in Grantee))
    ]
    if is_applied:
        connection = AdminConnection(session.access.kafka, _TIMEOUT_S)
        with session.working("granting rights"):
            for _, principal, rights in wanted:
                connection.grant(rights, principal)
    rows = [_row(role, principal, right) for role, principal, rights in wanted for right in rights]
    if as_json:
        session.print_json(rows)
        return ExitCode.OK
    table = Table()
    for heading in ("role", "principal", "resource", "name", "operations"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        name = f"{row['name']}*" if row["pattern"] == "Prefixed" else row["name"]
        table.add_row(row["role"], row["principal"] or "-", row["resource"], name, ", ".join(row["operations"]))
    session.out.print(table)
    if is_applied:
        echo(f"granted: {sum(len(row['operations']) for row in rows)} rights")
    return ExitCode.OK


def _row(role: Grantee, principal: str, right: Right) -> dict[str, Any]:
    pattern = "Prefixed" if right.is_prefix else "Literal"
    resource = {"resource": str(right.kind), "name": right.name, "pattern": pattern, "operations": list(right.operations)}
    return {"role": str(role), "principal": principal, **resource}


def _describe(retention_ms: int) -> str:
    if retention_ms < 0:
        return "ever"
    if retention_ms % _DAY_MS == 0:
        return f"{retention_ms // _DAY_MS} d"
    return f"{retention_ms / _HOUR_MS:g} h"
