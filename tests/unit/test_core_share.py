"""Of the time in which a process wants cores, the part in which it has them: real processes on one core."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.processes.core_share import LEAST, CoreShare
from tests.support.running_cluster import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system has no /proc")
SPIN = "import os, threading\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint(flush=True)\nwhile True: pass"


@pytest.fixture
def spinning() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Five processes that all want the same core."""
    processes = [subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) for _ in range(5)]
    try:
        for each in processes:
            assert each.stdout is not None
            each.stdout.readline()
        yield processes
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def test_of_five_that_want_one_core_each_has_it_for_a_fifth_or_less(spinning: list[subprocess.Popen[bytes]]) -> None:
    shares = [CoreShare(each.pid) for each in spinning]
    time.sleep(2)
    assert all(LEAST <= share.take() <= 0.6 for share in shares)


def test_who_wants_no_core_has_all_that_it_wants(spinning: list[subprocess.Popen[bytes]]) -> None:
    stopped = spinning[0]
    stopped.send_signal(signal.SIGSTOP)
    share = CoreShare(stopped.pid)
    wait_until(lambda: share.take() == 1.0, "it has stopped")
    stopped.kill()
    stopped.wait()
    assert share.take() == 1.0
