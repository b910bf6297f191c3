"""What the host of a TaskExecutor has, read once when it starts. Nothing is decided by it: it is there to be looked at."""

import os

import psutil

from eventflink.model.resources import Hardware


def host_hardware() -> Hardware:
    """Return the processors that this process may run on, and the memory of its host."""
    memory = psutil.virtual_memory()
    return Hardware(len(os.sched_getaffinity(0)), memory.total, memory.available)
