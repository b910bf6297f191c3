"""Mains as authors of applications write them; masters in application mode run them in a process of their own."""

import os
import signal
import time
from pathlib import Path

from eventflink.gateways.application import ApplicationGateway

_IDLE = "eventflink.testing.tasks:idle"


def _graph(name: str, run_time_ms: int) -> dict[str, object]:
    vertex = {"id": "idle", "python": _IDLE, "parameters": {"run_time_ms": run_time_ms}}
    return {"name": name, "vertices": [vertex], "restart_strategy": {"type": "none"}}


def two_jobs(application: ApplicationGateway, journal: str) -> None:
    """Run one job after the other; the second is submitted once `JOURNAL.go` exists. Each run of this leaves a line in the journal."""
    with Path(journal).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    first = application.submit_job(_graph("first", 1))
    application.request_job_result(first)
    while not Path(f"{journal}.go").exists():
        time.sleep(0.02)
    application.submit_job(_graph("second", 1))


def raise_an_error(_application: ApplicationGateway, message: str) -> None:
    """Fail, with a job that would run for ever."""
    _application.submit_job(_graph("endless", 86_400_000))
    raise LookupError(message)


def die(_application: ApplicationGateway) -> None:
    """End as an out-of-memory killer ends a process."""
    os.kill(os.getpid(), signal.SIGKILL)
