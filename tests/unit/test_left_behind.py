"""What children leave behind is a child of who adopts orphans, and does not stay when it has ended."""

import subprocess
import sys

import pytest

from eventflink.processes import LIBC

PROGRAM = """
import subprocess, time
from eventflink.processes.left_behind import adopt_orphans, children, reap_orphans

adopt_orphans()
own = subprocess.Popen(["sleep", "60"])
subprocess.run(["sh", "-c", "sleep 0.2 &"], check=True)
[orphan] = set(children()) - {own.pid}
deadline = time.monotonic() + 60
while orphan in children() and time.monotonic() < deadline:
    reap_orphans([own.pid])
    time.sleep(0.05)
own.kill()
time.sleep(0.5)
reap_orphans([own.pid])
print(orphan in children(), own.wait())
"""


@pytest.mark.skipif(LIBC is None, reason="Linux alone has what adopts orphans")
def test_an_orphan_that_has_ended_is_reaped_and_a_child_that_is_known_is_left_to_who_waits_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False -9\n"
