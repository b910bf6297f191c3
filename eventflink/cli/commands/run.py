"""`eventflink run`: what `submit` does, by the name that it has in Flink."""

import click

from eventflink.cli.commands.submit import submit

run = click.Command("run", params=submit.params, callback=submit.callback, help=submit.help)
