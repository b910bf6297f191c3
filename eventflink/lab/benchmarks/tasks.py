"""The tasks of the benchmarks' jobs: importable wherever eventflink is installed, so that no code has to be carried."""

import os
import time
from pathlib import Path
from typing import Final

from eventflink.jobs.context import TaskContext


def noop(_context: TaskContext) -> None:
    """Do nothing: what is left is the cost of the cluster."""


DIRECTORY_PARAMETER: Final = "directory"
_STAY_S: Final = 3_600.0


def stay(context: TaskContext) -> None:
    """Leave a file that is named by the process's id in the directory that the parameter says, and run until cancelled."""
    Path(context.parameters[DIRECTORY_PARAMETER], str(os.getpid())).touch()
    time.sleep(_STAY_S)
