"""Tasks that the TaskExecutor's tests deploy; they reach the task processes through the module path."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def noop(_context: Any) -> None:
    """Do nothing."""


def talk(_context: Any) -> None:
    """Leave something in the files."""
    print("said on stdout")


def fail(_context: Any) -> None:
    """Fail like a user's code does."""
    raise ArithmeticError("seven is not eight")


def sleep(_context: Any) -> None:
    """Run until it is ended."""
    time.sleep(3600)


def sleep_with_child(context: Any) -> None:
    """Run until it is ended, with a process of its own that says its id."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(str(context.parameters["file"])).write_text(str(child.pid), encoding="ascii")
    time.sleep(3600)


def query(context: Any) -> None:
    """Keep Spark busy until it is ended; a short query first, so that the long one is not planned for seconds."""
    for rows in (1000, 1 << 62):
        context.spark.range(0, rows, 1, 2).selectExpr("sum(hash(id, id))").collect()
        Path(str(context.parameters["file"])).write_text("the long one begins", encoding="ascii")
