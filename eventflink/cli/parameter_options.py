"""What the commands that run a job have in common: the values of its parameters, each as `--param NAME=VALUE`."""

from typing import Final

import click

from eventflink.cli.failures import CommandFailed, ExitCode

param_option: Final = click.option(
    "--param",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=lambda _context, _option, words: _values_of(words),
    help="The value of a parameter that the job declares; repeatable.",
)


def _values_of(words: tuple[str, ...]) -> dict[str, str]:
    """Return the values by name, as texts.

    Raises:
        CommandFailed: a word names no parameter, or a parameter has two values.

    """
    values: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise CommandFailed(ExitCode.USAGE, f"invalid --param '{word[:128]}': NAME=VALUE is expected, such as day=2026-11-25")
        if name in values:
            raise CommandFailed(ExitCode.USAGE, f"invalid --param '{word[:128]}': '{name}' has a value already")
        values[name] = value
    return values
