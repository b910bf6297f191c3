"""Pages of docs/ that repeat the code are generated from it: this is the command line that their generators share."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_page(render: Callable[[], str], program: str, arguments: Sequence[str] | None = None) -> int:
    """Print the page, or write it where `--write FILE` says; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description="Print a page of docs/ that is generated from the code.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there instead of printing it")
    options = parser.parse_args(arguments)
    if options.write is None:
        sys.stdout.write(render())
    else:
        options.write.write_text(render(), encoding="utf-8")
    return 0
