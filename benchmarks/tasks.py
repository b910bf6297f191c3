"""The task of the benchmark of memory; those that others submit as well are in `eventflink/testing/tasks.py`."""

import os
from pathlib import Path
from typing import Final

from eventflink.jobs.context import TaskContext
from eventflink.testing.tasks import idle

DIRECTORY_PARAMETER: Final = "directory"


def stay(context: TaskContext) -> None:
    """Leave a file that is named by the process's id in the directory that the parameter says, and run until cancelled."""
    Path(context.parameters[DIRECTORY_PARAMETER], str(os.getpid())).touch()
    idle(context)
