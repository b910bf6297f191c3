"""How a process begins to have metrics: its registry, with what every process tells of itself, and the server, as the configuration says.

Metrics are nobody's reason to fail: what cannot be served is told in the log, and the process runs without it.
"""

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from eventflink.metrics import metric_catalogue as c
from eventflink.metrics.registry import Collect, MetricRegistry, Samples, ask_directly
from eventflink.metrics.server import MetricsServer, ServerSettings
from eventflink.model.configuration import Configuration
from eventflink.model.metric_settings import MetricScope, read_ports

LOAD_MINUTES: Final = ("1", "5", "15")
_logger = logging.getLogger(__name__)


def new_registry(configuration: Configuration, own_scope: MetricScope, variables: Mapping[str, str]) -> MetricRegistry:
    """Return the registry of this process; `variables` are those of its own scope that name it, such as `tm_id`."""
    common = {"cluster_id": configuration.cluster_id, "host": configuration.host}
    registry = MetricRegistry(own_scope, {**common, **variables}, configuration.metric_labels)
    registry.add_source("system", ask_directly, system_collectors(configuration.data_path, host=configuration.metrics_system_resource))
    return registry


def serve_metrics(registry: MetricRegistry, configuration: Configuration) -> MetricsServer | None:
    """Serve the metrics where the configuration says; return None where that cannot be."""
    settings = ServerSettings(
        configuration.metrics_bind_host,
        read_ports(configuration.metrics_ports),
        configuration.thread_dump_enabled,
        configuration.profiler_enabled,
        configuration.profiler_max_duration_ms / 1000,
    )
    server = MetricsServer(registry, settings)
    try:
        server.start()
    except Exception as error:  # noqa: BLE001 - whatever it is: a process without metrics is better than none
        _logger.error("MetricsNotServed reason=%s", error)  # noqa: TRY400 - the message says all
        return None
    return server


# -- the process and its host, read at each scrape in the thread that serves it -------------------------------------


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
