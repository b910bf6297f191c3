"""How a master crashes when a drill orders it to: for real, by the signals that a fault would be.

A process that is stopped cannot wake itself, so a child does that, which outlives it if it has to.
"""

import os
import signal
import subprocess
import sys
from typing import Final

from eventflink.master.effects import DrillOrder
from eventflink.model.statuses import DrillStepType

_FREEZE: Final = (
    "import os, signal, sys, time; process = int(sys.argv[1]); os.kill(process, signal.SIGSTOP); "
    "time.sleep(int(sys.argv[2]) / 1000); os.kill(process, signal.SIGCONT)"
)


def obey(order: DrillOrder) -> None:
    """Die, or freeze for a while."""
    if order.step is DrillStepType.KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif order.step is DrillStepType.FREEZE:
        command = [sys.executable, "-c", _FREEZE, str(os.getpid()), str(order.duration_ms)]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
