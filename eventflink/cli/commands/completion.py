"""`eventflink completion`: what a shell has to be told so that it completes our command lines."""

import click
from click.shell_completion import get_completion_class

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.printer import echo

_VARIABLE = "_EVENTFLINK_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that makes SHELL complete commands, options and the ids of jobs.

    \b
    bash: eval "$(eventflink completion bash)"           in ~/.bashrc
    zsh:  eval "$(eventflink completion zsh)"            in ~/.zshrc
    fish: eventflink completion fish | source            in ~/.config/fish/config.fish
    """  # noqa: D301 - click wants the character, not the letters
    from eventflink.cli.main import cli  # noqa: PLC0415 - it imports this module by name

    kind = get_completion_class(shell)
    if kind is None:
        raise CommandFailed(ExitCode.INTERNAL, f"click knows no completion for {shell}")
    # Its source() would first start a bash to ask for its version.
    script = kind(cli, {}, "eventflink", _VARIABLE)
    echo(script.source_template % script.source_vars())
    return ExitCode.OK
