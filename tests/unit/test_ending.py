"""A process is asked to end: once, again while it ends, once more when its loop is closed, and just before it waits."""

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


WAITS = """
import os, signal, sys, threading, time
from eventflink.processes.ending import raised_on_signals

class Asked(Exception):
    pass

def ask():
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # The main thread's system call goes on, as with one that comes before it.

try:
    with raised_on_signals((signal.SIGTERM, signal.SIGHUP), Asked):
        threading.Thread(target=ask, daemon=True).start()
        {waits}
except Asked as error:
    os.kill(os.getpid(), signal.SIGHUP)
    print("asked by", error)
"""


@pytest.mark.parametrize(
    "waits", ["time.sleep(600)", "threading.Event().wait()", "os.read(os.pipe()[0], 1)", "threading.Lock().acquire() and signal.pause()"]
)
def test_one_that_waits_is_asked_whatever_thread_the_signal_came_to(waits: str) -> None:
    run = subprocess.run([sys.executable, "-c", WAITS.replace("{waits}", waits)], capture_output=True, text=True, check=False, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "asked by 15\n", "")


FORKS = """
import os, signal, time
from eventflink.processes.ending import raised_on_signals

handled = []
signal.signal(signal.SIGHUP, lambda *_: handled.append("as before"))
with raised_on_signals((signal.SIGTERM, signal.SIGHUP), SystemExit):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"!")  # What comes before Python has forked is dropped by it.
        time.sleep(600)
    os.read(read, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15
    time.sleep(0.3)
os.kill(os.getpid(), signal.SIGHUP)
print(*handled)
"""


def test_the_end_of_a_forked_child_is_not_that_of_its_parent_and_what_was_before_is_so_again() -> None:
    quiet = ["-W", "ignore:This process"]  # Python 3.12 and later warn of any fork beside a thread.
    run = subprocess.run([sys.executable, *quiet, "-c", FORKS], capture_output=True, text=True, check=False, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "as before\n", "")
