"""A process that runs a loop is asked to end: once, again while it ends, and once more when its loop is closed."""

import subprocess
import sys

import pytest

ASKED = """
import asyncio, os, signal, sys
from eventflink.processes.ending import ending_on_signals

number = signal.Signals[sys.argv[1]]

async def run():
    ending = ending_on_signals()
    for _ in range(2):
        os.kill(os.getpid(), number)
        await asyncio.wait_for(ending.wait(), 60)

asyncio.run(run())
os.kill(os.getpid(), number)
print("in order")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_one_that_is_asked_again_when_its_loop_is_closed_ends_in_order(name: str) -> None:
    run = subprocess.run([sys.executable, "-c", ASKED, name], capture_output=True, text=True, check=False, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "in order\n", "")
