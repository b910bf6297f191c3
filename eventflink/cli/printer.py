"""Lines and files that commands print without a console: most print a line or two, and a console takes longer to load than they run.

The rule is that of `consoles.py`: no text is obeyed by a terminal; and what its encoding does not have ends no output.
"""

import sys

import click

from eventflink.model.texts import printable


def replace_what_cannot_be_encoded() -> None:
    """Let standard output and error write characters that their encoding does not have as escapes, in place of an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # In a test it may be anything.
            stream.reconfigure(errors="backslashreplace")


def echo(text: str, *, err: bool = False) -> None:
    """Print lines."""
    click.echo("\n".join(map(printable, text.split("\n"))), err=err)


def write_file(data: bytes) -> None:
    """Print a file that a task or a process wrote: on a terminal as lines of text, elsewhere as it is."""
    if sys.stdout.isatty():
        echo(data.decode(errors="replace").expandtabs().removesuffix("\n"))
    else:
        out = click.get_binary_stream("stdout")
        out.write(data)
        out.flush()
