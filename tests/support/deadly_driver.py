"""A resource driver whose master dies or hangs where it decides the submission of a certain job: a defect of ours, in a real process (P10).

The patch is made where the driver is imported, which is in the process of the master alone.
"""

import os
import signal
import time

from eventflink.events.inputs import JobSubmission
from eventflink.events.log_events import LogEvent
from eventflink.master.inputs import MasterInput
from eventflink.master.master import Master
from tests.support.quitting_driver import QuittingDriver

HANG_S = 600


class DeadlyDriver(QuittingDriver):
    """Starts nobody."""


def _decide_or_end(self: Master, value: MasterInput, now_ms: int, leader_id: str = "") -> list[LogEvent]:
    if isinstance(value, JobSubmission) and value.job_id == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(value, JobSubmission) and value.job_id == "hanging":
        time.sleep(HANG_S)
    return _decide(self, value, now_ms, leader_id)


_decide = Master.decide
Master.decide = _decide_or_end  # type: ignore[method-assign]
