"""`eventflink rest-token`: who may ask the REST process."""

import click

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo
from eventflink.cli.session import Session, pass_session
from eventflink.processes.file_lock import LockBusy
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.tokens import TokensUnusable, mint_token


@click.command("rest-token")
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(list(AccessRole), case_sensitive=False), help="What it may do.")
@click.option("--replace", is_flag=True, help="Make the token void that NAME has now, and its sessions with it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@pass_session
def rest_token(session: Session, name: str, role: str, *, replace: bool, as_json: bool) -> int:
    """Give NAME a token for the REST process.

    It is printed on standard output, once: rest.tokens-file gets its SHA-256 only. REST processes that read this file know it at once. To
    make a token void, delete its line.

    A viewer reads; an operator also submits, cancels, saves, stops and rescales jobs, and reads logs; an admin also sees how processes are
    configured, removes savepoints, and ends the cluster.
    """
    path = session.configuration.rest_tokens_file
    if path is None:
        raise CommandFailed(
            ExitCode.USAGE, "rest.tokens-file is not set: name a file in the configuration, or with -D rest.tokens-file=FILE"
        )
    try:
        token = mint_token(path.expanduser(), name, AccessRole(role), replace=replace)
    except (ValueError, LockBusy) as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error
    except TokensUnusable as error:
        raise CommandFailed(ExitCode.ENVIRONMENT, str(error)) from error
    if as_json:
        session.print_json({"name": name, "role": AccessRole(role), "token": token})
    else:
        echo(token)
    return ExitCode.OK
