"""The command `eventflink`: its global options, its commands by name, and what becomes of an error.

Each command lives in a module of its own, which is imported only when the command is used. The rule: a user's mistake is
one line on standard error and an exit code (`exit_codes.py`), never a traceback.
"""

import gc
import importlib
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from eventflink.cli.completion import complete_contexts
from eventflink.cli.examples import epilog_of
from eventflink.cli.failures import ExitCode
from eventflink.cli.printer import echo, replace_what_cannot_be_encoded
from eventflink.cli.session import LOG_FORMAT, session_of
from eventflink.model.kafka_settings import KafkaRole
from eventflink.model.packages import needs
from eventflink.session.cluster_session import DIRECTORY_VARIABLE

COMMANDS: Final = {
    "up": "Start a whole cluster on this machine.",
    "cluster": "Start, stop and show the daemons that the configuration names.",
    "broker": "Start only the embedded Kafka broker.",
    "master": "Start a master.",
    "application": "Start a master that runs an application.",
    "standalone-job": "Start a master that runs one job.",
    "taskexecutor": "Start a TaskExecutor.",
    "rest": "Start a process that serves Flink's REST API.",
    "history-server": "Start a process that serves Flink's REST API about the archives of ended jobs.",
    "notify": "Start a process that tells others what happens.",
    "rest-token": "Give somebody a token for the REST process.",
    "submit": "Submit a job and wait for its end.",
    "run": "Submit a job, as Flink spells it.",
    "info": "Show the plan of a job without submitting it.",
    "plan": "Show what a submission would change of a job.",
    "dev": "Run a batch job here, without a cluster.",
    "list": "List the jobs.",
    "runs": "Show the runs of a job, or the names of all jobs.",
    "status": "Show a job, or the whole cluster.",
    "top": "Show the cluster and its jobs live.",
    "exceptions": "Show the failures of a job.",
    "checkpoints": "Show the checkpoints of a job, and where its streams stand.",
    "backpressure": "Show which streams of a job do not keep up.",
    "result": "Show the result of a job.",
    "cancel": "Cancel a job.",
    "suspend": "Suspend a job, to be resumed later.",
    "resume": "Resume a suspended job.",
    "rerun": "Run an ended job again, as another job.",
    "schedule": "Have jobs started at instants, or for past ones.",
    "dismiss": "Dismiss the failure of a job.",
    "shutdown": "Shut down the whole cluster.",
    "checkpoint": "Take a checkpoint of a job now.",
    "savepoint": "Take, inspect or remove a savepoint.",
    "stop": "Stop a job with a savepoint.",
    "rescale": "Change the parallelism of a vertex of a job.",
    "taskmanager": "List the TaskManagers, read their logs, block one.",
    "queues": "Show the queues of jobs, and what they hold.",
    "parked": "Show what could not be decided, and try it again.",
    "logs": "Show the files that tasks wrote, or follow them.",
    "metrics": "Show where masters and TaskManagers serve their metrics.",
    "events": "Show what the log holds.",
    "history": "Tell the life of a job.",
    "diff": "Show what differs between two moments.",
    "why": "Show what led to the state of a job, a task, a slot.",
    "audit": "Query the log in SQL.",
    "replay": "Replay the log into the state, as a starting master does.",
    "drill": "Rehearse the loss of the leader, or cause it.",
    "topics": "Show the cluster's topics.",
    "log": "Check the cluster's log for losses, or repair it.",
    "config": "Show every key of the configuration.",
    "context": "Name clusters, and choose one.",
    "completion": "Let a shell complete command lines.",
    "doctor": "Check this machine and the cluster.",
    "demo": "Run a cluster and a job on real data, and show what happened.",
}
"""The commands in the order of --help; each is the one click command that `eventflink.cli.commands.<name>` defines."""

IN_A_CHECKOUT: Final = {"bench": "python -m benchmarks", "simulate": "python -m tests.simulation"}
"""Tools for developers that may be looked for here, with the command that runs each in a checkout of the sources."""

_ROLES: Final = {
    "master": KafkaRole.JOBMANAGER,
    "application": KafkaRole.JOBMANAGER,
    "standalone-job": KafkaRole.JOBMANAGER,
    "taskexecutor": KafkaRole.TASKMANAGER,
    "rest": KafkaRole.REST,
}
"""As whom a command connects to Kafka; the others do as clients."""

_EXTRAS: Final = {
    "audit": "audit",
    "result": "results",
    "rest": "rest",
    "history-server": "rest",
    **dict.fromkeys(("broker", "master", "application", "standalone-job", "taskexecutor", "dev"), "cluster"),
}
"""The extra that brings what a command needs (`model/packages.py`); all of them for the commands that start whole clusters."""

DETAILED: Final = "--detailed-exitcode"
"""The option with which a command ends with `ExitCode.USAGE` to say something else; what is a matter of usage is `NEGATIVE` then."""

_WITHOUT_CONTEXT: Final = frozenset({"context", "completion"})
"""They ask no cluster, and mend what is wrong with the contexts."""


class _LazyGroup(click.Group):
    """A group that imports a command when it is used, so that a start costs only what it needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        with _needing_extra(cmd_name):
            module = importlib.import_module(f"eventflink.cli.commands.{cmd_name.replace('-', '_')}")
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        command = next(value for value in vars(module).values() if isinstance(value, click.Command) and value.name == cmd_name)
        command.epilog = epilog_of(cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError:
            # A command may import more when it runs; its name is known by now.
            with _needing_extra(ctx.invoked_subcommand or ""):
                raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _needing_extra(command: str) -> AbstractContextManager[None]:
    return needs(_EXTRAS.get(command, "all"), f"'eventflink {command}'")


def _as_we_spell_it(name: str) -> str:
    """Return the name of an option as it is here: Flink's are in camel case (`--savepointPath`)."""
    return re.sub("([a-z])([A-Z])", lambda match: f"{match[1]}-{match[2].lower()}", name)


def _read_overrides(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for text in values:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"'{text}' is not of the form KEY=VALUE")
        overrides[key.strip()] = value.strip()
    return overrides


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "token_normalize_func": _as_we_spell_it},
    epilog="Exit codes: 0 done, 1 job failed or request refused, 2 usage, 3 cluster unreachable, 4 environment, 5 internal.",
)
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    envvar="EVENTFLINK_CONFIG",
    help=f"Configuration directory, or its eventflink.yaml.  [default: ${DIRECTORY_VARIABLE}, or ./conf, or the nearest conf above]",
)
@click.option(
    "-D",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_read_overrides,
    help="Override one key of the configuration; repeatable.",
)
@click.option("--bootstrap", metavar="HOST:PORT", envvar="EVENTFLINK_BOOTSTRAP", help="The Kafka cluster; short for -D bootstrap.servers=…")
@click.option("--cluster-id", metavar="ID", help="The cell; short for -D cluster.id=…")
@click.option(
    "--context",
    "context_name",
    metavar="NAME",
    envvar="EVENTFLINK_CONTEXT",
    shell_complete=complete_contexts,
    help="The cluster of this name; see 'eventflink context'.",
)
@click.option("-v", "--verbose", is_flag=True, help="More of the log; tracebacks of errors.")
@click.version_option(package_name="eventflink", message="%(package)s %(version)s")
@click.pass_context
def cli(context: click.Context, /, **_options: Any) -> None:
    """Run an event-sourced cluster master whose state is a log in Kafka and whose jobs run on Spark."""
    command = context.invoked_subcommand or ""
    start_session(context, _ROLES.get(command, KafkaRole.CLIENT), in_context=command not in _WITHOUT_CONTEXT)


def start_session(context: click.Context, role: KafkaRole = KafkaRole.CLIENT, *, in_context: bool = True) -> None:
    """Set up the log, and give the commands below this one the session that its options, which are those of `cli`, make.

    Raises:
        CommandFailed: there is no such context, or the file of contexts is not usable.

    """
    level = logging.INFO if context.params["verbose"] else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format=LOG_FORMAT)
    is_set = context.get_parameter_source("bootstrap") is ParameterSource.ENVIRONMENT
    source = "environment EVENTFLINK_BOOTSTRAP" if is_set else "--bootstrap"
    context.obj = session_of(context.params, source, in_context=in_context, role=role)


def run(arguments: Sequence[str] | None = None, program: click.Command = cli, name: str = "eventflink") -> int:
    """Run one command line (default: the process's own) of a program and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # Where 2 is an answer no error has it, not even one that keeps the command line from being read.
    usage = ExitCode.NEGATIVE if DETAILED in map(_as_we_spell_it, arguments) else ExitCode.USAGE
    try:
        outcome = program.main(arguments, prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return usage
    except click.ClickException as error:
        return _fail(name, usage, error.format_message() + _hint(error))
    except (KeyboardInterrupt, click.Abort):
        return _fail(name, ExitCode.INTERRUPTED, "interrupted")
    except BrokenPipeError:
        # The reader of our output has closed it. Python would complain once more while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes a line and a code
        from eventflink.cli.exit_codes import explain  # noqa: PLC0415 - it imports half of the package: only what failed pays for that

        if {"-v", "--verbose"} & set(arguments):
            import traceback  # noqa: PLC0415 - only what failed pays for that

            traceback.print_exc()
        exit_code, message = explain(error)
        return _fail(name, usage if exit_code is ExitCode.USAGE else exit_code, message)
    return int(outcome or ExitCode.OK)


def _hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    if not isinstance(context, click.Context):
        return ""
    import difflib  # noqa: PLC0415 - only what failed pays for that

    wrong = re.fullmatch(r"No such command '(.*)'\.", error.format_message())
    if wrong and context.command is cli and wrong[1] in IN_A_CHECKOUT:
        return f" It is run in a checkout of the sources: {IN_A_CHECKOUT[wrong[1]]}"
    known = context.command.list_commands(context) if isinstance(context.command, click.Group) else []
    near = difflib.get_close_matches(wrong[1], known, n=1) if wrong else []
    return (f" Did you mean '{near[0]}'?" if near else "") + f" (see '{context.command_path} --help')"


def _fail(name: str, exit_code: ExitCode, message: str) -> ExitCode:
    echo(f"{name}: {message}", err=True)
    return exit_code


def main() -> None:
    """Be the console command."""
    # Nothing that an import makes is garbage, but each collection walks through all of it: a fifth of the start of a master.
    # So there is none before the command is imported, and none ever walks through what is there by then.
    gc.disable()
    replace_what_cannot_be_encoded()
    # Looking for plugins of pydantic reads the metadata of every package that is installed, and there are none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.exit(run())
