"""Where the files of a task attempt are: what it logs and prints, and the data that it publishes.

Only names are made here. The rule it keeps: no id or output name that came over the network can name a place outside its directory, and
each attempt has places of its own, so that an attempt that was given up cannot touch what its successor left.
"""

import re
from pathlib import Path
from typing import Final

from eventflink.model.attempts import AttemptId
from eventflink.model.places import Place
from eventflink.model.statuses import TaskFile
from eventflink.streams.failures import WorkingDirectoryUnfit

_DIRECTORY_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""Every job id, and every name that a graph may give to a vertex or an output."""


_WITHOUT_CHECKPOINTS: Final = frozenset({"gs"})
"""Stores whose connector for Spark renames by copying over what is there, and which Spark is not told to write to otherwise."""


class UnusableName(Exception):
    """An id or name that cannot be part of a path; the message says which."""


def _checked(kind: str, name: str) -> str:
    if not _DIRECTORY_NAME.fullmatch(name):
        raise UnusableName(
            f"the {kind} {name[:200]!r} cannot name a directory: only letters, digits, '.', '_' and '-', at most 128, "
            "beginning with a letter, a digit or '_'"
        )
    return name


def task_file_path(log_directory: Path, attempt: AttemptId, file: TaskFile) -> Path:
    """Return where the attempt writes its log, its stdout or its stderr.

    Raises:
        UnusableName: the job's or the vertex's id cannot be part of a path.

    """
    job, vertex = _checked("job id", attempt.job_id), _checked("vertex id", attempt.vertex_id)
    return log_directory / job / f"{vertex}-{attempt.subtask_index}-{attempt.attempt}.{file.value.lower()}"


def output_place(working_place: Place, attempt: AttemptId, output: str) -> Place:
    """Return the place of one output of the attempt.

    Raises:
        UnusableName: an id or the output's name cannot be part of a path.

    """
    job, vertex = _checked("job id", attempt.job_id), _checked("vertex id", attempt.vertex_id)
    return working_place / job / vertex / _checked("output name", output) / str(attempt.subtask_index) / f"attempt-{attempt.attempt}"


def checkpoint_place(working_place: Place, attempt: AttemptId) -> Place:
    """Return the directory of the checkpoints of the attempt's subtask: all its attempts have the same.

    Raises:
        UnusableName: an id cannot be part of a path.
        WorkingDirectoryUnfit: it is in a store in which of two writers of a batch both would win.

    """
    if working_place.scheme in _WITHOUT_CHECKPOINTS:
        raise WorkingDirectoryUnfit(
            f"checkpoints of streams cannot be in {working_place}, where a batch could be noted twice: for clusters with streams, "
            "execution.working-directory must be a path that every TaskExecutor and its Spark see, or a prefix of S3"
        )
    job, vertex = _checked("job id", attempt.job_id), _checked("vertex id", attempt.vertex_id)
    return working_place / job / vertex / f"checkpoint.{attempt.subtask_index}"  # No output has a dot in its name.
