"""Spark's client, as Python modules: what to load before tasks are forked that use it, and whether a process has any of it.

A task that finds them loaded saves a second or so; one that needs none of them is forked in half the time where they are not.
"""

import importlib
import inspect
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MODULES: Final = (
    "grpc",
    "pandas",
    "pyarrow",
    "pyarrow.parquet",
    "pyspark.sql",
    "pyspark.sql.functions",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.proto.base_pb2_grpc",
)
_NOISY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They print every error of Spark as a page of JSON on stderr; the task's failure says it already."""

_PACKAGES: Final = frozenset(name.partition(".")[0] for name in _MODULES)


def load_client() -> None:
    """Load what a task that uses Spark needs; processes that are forked afterwards draw random numbers of their own."""
    with without_notebooks():
        for module in _MODULES:
            importlib.import_module(module)
    # Spark names in its errors the line that called it; what it has for that loads IPython where that is installed, in each task anew.
    vars(importlib.import_module("pyspark.errors.utils"))["_capture_call_site"] = call_sites
    # Python does this for its own; that of numpy, which pandas loads, would go on in each process where it stood in this one.
    os.register_at_fork(after_in_child=importlib.import_module("numpy").random.seed)


def prepare_tasks() -> None:
    """Let what tasks load of pyspark in this process, or after a fork, be its client, which leaves errors to who catches them."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark.sql.functions of a task is Connect's, before a session is opened as well.
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def call_sites(depth: int) -> str:
    """Return the innermost lines that run and are not pyspark's own, at most `depth`, as `FILE:LINE`: those that pyspark would name."""
    own = str(Path(sys.modules["pyspark"].__file__ or "").parent)
    frame, found = inspect.currentframe(), list[str]()
    while (frame := frame and frame.f_back) is not None and len(found) < depth:
        if own not in frame.f_code.co_filename:
            found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
    return "\n".join(found)


@contextmanager
def without_notebooks() -> Iterator[None]:
    """Let pyspark be loaded in the block without IPython, which it takes where that is installed, for progress that no task shows."""
    is_here = "IPython" in sys.modules
    if not is_here:
        sys.modules["IPython"] = None  # type: ignore[assignment]  # whoever imports it is told that there is none
    try:
        yield
    finally:
        if not is_here:
            del sys.modules["IPython"]


def is_client_loaded() -> bool:
    """Tell whether this process has loaded any of it."""
    # Not by `isdisjoint`: it would touch the name of every module, and so copy a hundred pages of a process that was just forked.
    return any(package in sys.modules for package in _PACKAGES)
