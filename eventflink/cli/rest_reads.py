"""Reads from a REST process, for commands that people type often: the configured one, or that of this cluster on this machine.

The rule: it is a short cut. Where there is no such process, or it does not give the whole answer at once, the masters are asked as ever.
What it answers is as new as the log is when it is asked, as with a master.
"""

import http.client
import json
import logging
import os
import urllib.parse
from typing import TYPE_CHECKING, Final

from eventflink.session.announced_address import Announced, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventflink.cli.session import Session
    from eventflink.model.configuration import Configuration
    from eventflink.views.plain import View

IDENTITY_VARIABLE: Final = "EVENTFLINK_REST_TOKEN"
"""In the environment: the token that says who we are. It never goes over the network in the clear."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_PREFIX: Final = "/eventflink/v1"
_TIMEOUT_S: Final = 2.0
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_logger = logging.getLogger(__name__)


def read_page(session: "Session", path: str, parameters: "dict[str, str | int | Sequence[str]]") -> "View | None":
    """Return a page of our own API as it is now: its `body`, and the `offset` that it reflects; None: nobody gives it."""
    url = _url_of(session)
    where = urllib.parse.urlsplit(url or "")
    if url is None or where.scheme not in ("http", "https") or where.hostname is None:
        return None
    token = os.environ.get(IDENTITY_VARIABLE) if where.scheme == "https" or where.hostname in _LOOPBACK else None
    headers = {"Connection": "close", "X-Eventflink-Min-Offset": "latest"} | ({"Authorization": f"Bearer {token}"} if token else {})
    connection = _connection(session.configuration, where.scheme, where.hostname, where.port)
    try:
        connection.request("GET", f"{_PREFIX}{path}?{urllib.parse.urlencode(parameters, doseq=True)}", headers=headers)
        response = connection.getresponse()
        data = response.read(_MAX_ANSWER_BYTES)
        page: View = json.loads(data) if response.status == http.client.OK else {}
    except (OSError, http.client.HTTPException, ValueError) as error:
        _logger.info("RestSilent url=%s reason=%s", url, error)
        return None
    finally:
        connection.close()
    if "body" not in page or not isinstance(page.get("offset"), int):
        _logger.info("RestRefused url=%s status=%d", url, response.status)
        return None
    _logger.info("RestAnswered url=%s offset=%d", url, page["offset"])
    return page


def _url_of(session: "Session") -> str | None:
    """Return where to ask: what the configuration names, or else the process on this machine that serves this very cluster."""
    configuration = session.configuration
    if configuration.rest_port and configuration.rest_names:
        name = configuration.rest_names[0]
        scheme = "https" if configuration.rest_tls_enabled else "http"
        return f"{scheme}://{f'[{name}]' if ':' in name else name}:{configuration.rest_port}"
    return read(configuration.data_path, Announced.REST, of_cluster=cluster_name(session.bootstrap, session.cluster_id))


def _connection(configuration: "Configuration", scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    from eventflink.blob.tls import client_context, rest_client_files  # noqa: PLC0415 - few speak TLS to their own machine

    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=client_context(rest_client_files(configuration)))


def cluster_name(bootstrap: str, cluster_id: str) -> str:
    """Return what tells apart the clusters whose REST processes may use one data directory in turn."""
    return f"{cluster_id} at {bootstrap}"
