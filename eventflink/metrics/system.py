"""The numbers of the process and of its host, read from the system at each scrape, in the thread that serves it."""

import os
from functools import partial
from pathlib import Path

import psutil

from eventflink.metrics import catalogue as c
from eventflink.metrics.registry import Collect, Samples

LOAD_MINUTES = ("1", "5", "15")


def system_collectors(data_directory: Path, *, host: bool) -> dict[str, Collect[None]]:
    """Return the collectors of the process, and with `host` those of the machine; `data_directory` says which disk counts."""
    collectors: dict[str, Collect[None]] = {"threads": _collect_threads}
    if host:
        collectors |= {"host": _collect_host, "disk": partial(_collect_disk, data_directory)}
    return collectors


def _collect_threads(_context: None, samples: Samples) -> None:
    samples.add(c.THREADS, psutil.Process().num_threads())


def _collect_host(_context: None, samples: Samples) -> None:
    samples.add(c.HOST_CPUS, os.cpu_count() or 0)
    for mode, seconds in psutil.cpu_times()._asdict().items():
        samples.add(c.HOST_CPU, seconds, mode)
    for minutes, load in zip(LOAD_MINUTES, psutil.getloadavg(), strict=True):
        samples.add(c.HOST_LOAD, load, minutes)
    memory = psutil.virtual_memory()
    samples.add(c.HOST_MEMORY, memory.total)
    samples.add(c.HOST_MEMORY_AVAILABLE, memory.available)


def _collect_disk(data_directory: Path, _context: None, samples: Samples) -> None:
    present = next(path for path in (data_directory, *data_directory.parents) if path.exists())  # It is made when it is first needed.
    usage = psutil.disk_usage(str(present))
    samples.add(c.DISK, usage.total)
    samples.add(c.DISK_FREE, usage.free)
