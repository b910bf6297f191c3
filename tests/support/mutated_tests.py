"""Runs named tests, each while a rule is broken: `python -m tests.support.mutated_tests MUTATION=TEST…`.

Each test runs in a process of its own, forked after everything was imported, that applies the mutation before the test's module is
imported. A line each says what pytest ended with: 1 is a test that failed, so the mutation was found; 0 is one that was not.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.named_tests import ROOT, named_tests

AT_ONCE = 2
TEST_TIMEOUT_S = 60


def nodes() -> dict[str, str]:
    """Return the node of every test by its name; the names of tests are laws, and each is said once."""
    return {test.name: test.node for test in named_tests()}


def exit_codes(pairs: Mapping[str, str], **environment: str) -> dict[str, int]:
    """Run each test, the values, while the rule that its key breaks is broken; return what pytest ended with, by mutation."""
    command = [sys.executable, "-m", "tests.support.mutated_tests", *(f"{mutation}={test}" for mutation, test in pairs.items())]
    finished = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | environment, timeout=TEST_TIMEOUT_S * len(pairs)
    )
    print(finished.stdout, finished.stderr)
    return {mutation: int(code) for mutation, code in (line.split() for line in finished.stdout.splitlines())}


def _run(mutation: str, test: str, output: Path) -> int:
    """Fork a process that runs a test while a rule is broken; return its id."""
    from tests.unit.simulation_mutations import MUTATIONS  # noqa: PLC0415 - its importer imports this module

    child = os.fork()
    if child:
        return child
    code = 70
    try:
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        with MUTATIONS[mutation].applied():
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_S}", nodes()[test]]))
    finally:
        os._exit(code)


def main(pairs: list[str]) -> None:
    """Run the pairs, some at once, and print the exit code of each."""
    nodes()
    waiting, running = [pair.split("=") for pair in pairs], dict[int, tuple[str, Path]]()
    with tempfile.TemporaryDirectory() as directory:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                mutation, test = waiting.pop()
                output = Path(directory) / mutation
                running[_run(mutation, test, output)] = mutation, output
            child, status = os.wait()
            mutation, output = running.pop(child)
            code = os.waitstatus_to_exitcode(status)
            print(mutation, code, flush=True)
            if code != 1:
                print(output.read_text(encoding="utf-8"), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
