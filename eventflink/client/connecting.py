"""Finding a cluster as the command line does: what is given, the context in use, the environment, the configuration, `eventflink up`.

What an event loop needs, and what the command line needs, is loaded by those who connect.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventflink.client.cluster import Cluster
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.gateway import DEFAULT_REQUEST_TIMEOUT_S

if TYPE_CHECKING:
    from eventflink.client.asynchronous import AsyncCluster

_VARIABLES: Final = {"config": "EVENTFLINK_CONFIG", "bootstrap": "EVENTFLINK_BOOTSTRAP", "context_name": "EVENTFLINK_CONTEXT"}


class ClusterNotNamed(GatewayError):
    """Neither the call nor what the command line looks at says which cluster is meant, or a file of it is not usable."""


def connect(
    bootstrap: str = "", cluster_id: str = "", *, configuration: Path | str = "", request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
) -> Cluster:
    """Return a cluster; nothing is asked of it yet.

    Args:
        bootstrap: Kafka, as host:port.
        cluster_id: the cell.
        configuration: a configuration directory, or its eventflink.yaml.
        request_timeout_s: how long each request waits for its answer.

    What is not given is found as the command line finds it.

    Raises:
        ClusterNotNamed: nothing says which cluster is meant, or what says it is not usable.

    Examples:
        >>> with eventflink.connect("localhost:9092", "production") as cluster:
        ...     print(cluster.overview().slots)

    """
    return Cluster(request_timeout_s=request_timeout_s, **_find(bootstrap, cluster_id, configuration))


def connect_async(
    bootstrap: str = "", cluster_id: str = "", *, configuration: Path | str = "", request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
) -> "AsyncCluster":
    """Return a cluster whose methods are awaited, as `connect` does; call it inside the running loop.

    Examples:
        >>> async def main():
        ...     async with eventflink.connect_async() as cluster:
        ...         job = await cluster.submit("nightly.yaml")
        ...         print(await job.wait(timeout_s=60))

    """
    from eventflink.client.asynchronous import AsyncCluster  # noqa: PLC0415 - an HTTP client for event loops is loaded by those who have one

    return AsyncCluster(request_timeout_s=request_timeout_s, **_find(bootstrap, cluster_id, configuration))


def _find(bootstrap: str, cluster_id: str, configuration: Path | str) -> dict[str, Any]:
    import os  # noqa: PLC0415

    from eventflink.blob.tls import tls_files  # noqa: PLC0415
    from eventflink.gateways.state_reads import sources_of  # noqa: PLC0415
    from eventflink.model.configuration import ConfigurationError  # noqa: PLC0415
    from eventflink.session.cluster_session import actor_name  # noqa: PLC0415
    from eventflink.session.errors import SessionError  # noqa: PLC0415
    from eventflink.session.finding import find_session  # noqa: PLC0415

    given = {"config": str(configuration), "bootstrap": bootstrap, "cluster_id": cluster_id}
    options: dict[str, Any] = {name: given.get(name) or os.environ.get(variable) for name, variable in _VARIABLES.items()}
    options |= {"cluster_id": cluster_id, "config": Path(options["config"]) if options["config"] else None}
    try:
        session = find_session(options)
        sources = sources_of(session.configuration, lambda: session.bootstrap, session.cluster_id)
        return {"access": session.access, "actor": actor_name(), "tls": tls_files(session.configuration), "sources": sources}
    except (SessionError, ConfigurationError) as error:
        raise ClusterNotNamed(str(error)) from error
