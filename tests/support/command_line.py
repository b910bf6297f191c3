"""The command line as a tree, for tests of what holds for all of its commands."""

from collections.abc import Iterator

import click


def commands_of(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command that is no group, with its whole name behind `eventflink`."""
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield from commands_of(command, f"{name}{each} ") if isinstance(command, click.Group) else [(f"{name}{each}", command)]
