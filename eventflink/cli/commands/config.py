"""`eventflink config`: every key with its type, default, present value and where that comes from."""

from typing import Any

import click
from rich.table import Table
from rich.text import Text

from eventflink.cli.failures import ExitCode
from eventflink.cli.session import Session, pass_session
from eventflink.model.configuration import KEYS, ConfigurationError, explain_unknown, field_of, is_key
from eventflink.model.described_keys import describe_keys, plain_value
from eventflink.model.secret_values import without_secrets

_DEFAULT = "default"


@click.command()
@click.argument("key", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array; with KEY one object.")
@pass_session
def config(session: Session, key: str | None, *, as_json: bool) -> int:
    """Show every key of the configuration, or only KEY: type, default, present value, where that comes from, meaning.

    Passwords, tokens and other secrets are shown as ******.
    """
    if key is not None and key not in KEYS and not is_key(key):
        raise ConfigurationError(explain_unknown(key))
    key = key and field_of(key)
    rows = [row for row in _rows(session) if key in (None, row["key"])]
    if as_json:
        session.print_json(rows if key is None else rows[0])
    elif key is not None:
        _print_key(session, rows[0])
    else:
        _print_table(session, rows)
    return ExitCode.OK


def _rows(session: Session) -> list[dict[str, Any]]:
    configuration = session.configuration
    sources = {field_of(key): source for key, source in session.key_sources.items()}
    return [
        {
            "key": described.key,
            "type": described.type_name,
            "bounds": described.bounds,
            "default": plain_value(described.default),
            "value": without_secrets(described.key, plain_value(getattr(configuration, KEYS[described.key]))),
            "source": sources.get(described.key, _DEFAULT),
            "meaning": described.meaning,
        }
        for described in describe_keys()
    ]


def _shown(value: Any) -> str:
    if value is None or value in ("", {}):
        return "empty"
    if isinstance(value, dict):
        return ", ".join(f"{name}={inner}" for name, inner in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _print_key(session: Session, row: dict[str, Any]) -> None:
    session.out.print(f"{row['key']}: {_shown(row['value'])}", markup=False)
    bounds = f", {row['bounds']}" if row["bounds"] else ""
    session.out.print(f"from {row['source']}; {row['type']}{bounds}, default {_shown(row['default'])}", markup=False)
    session.out.print(row["meaning"], markup=False)


def _print_table(session: Session, rows: list[dict[str, Any]]) -> None:
    table = Table()
    for heading in ("key", "type", "default", "value", "from", "meaning"):
        table.add_column(heading, no_wrap=heading == "key", overflow="fold")
    for row in rows:
        style = "" if row["source"] == _DEFAULT else "bold"
        table.add_row(
            Text(row["key"], style=style),
            row["type"],
            Text(_shown(row["default"])),
            Text(_shown(row["value"]), style=style),
            Text(row["source"]),
            Text(row["meaning"]),
        )
    session.out.print(table)
