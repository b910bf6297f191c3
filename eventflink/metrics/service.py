"""How a process begins to have metrics: its registry, with what every process tells of itself, and the server, as the configuration says.

Metrics are nobody's reason to fail: what cannot be served is told in the log, and the process runs without it.
"""

import logging
from collections.abc import Mapping

from eventflink.metrics.registry import MetricRegistry, ask_directly
from eventflink.metrics.server import MetricsServer, ServerSettings
from eventflink.metrics.system import system_collectors
from eventflink.model.configuration import Configuration
from eventflink.model.metric_settings import MetricScope, read_ports

_logger = logging.getLogger(__name__)


def new_registry(configuration: Configuration, own_scope: MetricScope, variables: Mapping[str, str]) -> MetricRegistry:
    """Return the registry of this process; `variables` are those of its own scope that name it, such as `tm_id`."""
    common = {"cluster_id": configuration.cluster_id, "host": configuration.host}
    registry = MetricRegistry(own_scope, {**common, **variables}, configuration.metric_labels)
    registry.add("system", ask_directly, system_collectors(configuration.data_path, host=configuration.metrics_system_resource))
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
