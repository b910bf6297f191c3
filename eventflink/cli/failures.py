"""What an exit code of `eventflink` means, and how a command ends with one. Which error leads to which is `exit_codes.py`."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The outcome of a command. Scripts depend on these numbers: they are never given another meaning."""

    OK = 0
    """It was done."""

    NEGATIVE = 1
    """It worked, and the outcome is a no: the job failed or was cancelled, the request was refused, a check failed."""

    USAGE = 2
    """The command line, the configuration or a document is wrong; nothing was asked of the cluster."""

    UNREACHABLE = 3
    """The cluster did not answer: no Kafka, no leader, no answer in time."""

    ENVIRONMENT = 4
    """This machine lacks something, or a master cannot use the topics as they are."""

    INTERNAL = 5
    """A fault of eventflink itself; -v shows where."""

    INTERRUPTED = 130
    """Ctrl-C, as shells report it."""


class CommandFailed(Exception):
    """A command ends here, with this message and this exit code."""

    def __init__(self, exit_code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
