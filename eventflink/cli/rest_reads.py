"""Reads from a REST process of this cluster that runs on this machine, for commands that people type often: no Kafka is asked for it.

The rule: it is a short cut. Where there is no such process, or it does not give the whole answer at once, the masters are asked as ever.
What it answers is as new as what it has read of the log, which is milliseconds behind; the answer names the offset.
"""

import http.client
import json
import logging
import urllib.parse
from typing import TYPE_CHECKING, Final

from eventflink.cli.announced_address import Announced, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventflink.cli.session import Session
    from eventflink.views.plain import View

_PREFIX: Final = "/eventflink/v1"
_TIMEOUT_S: Final = 2.0
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_logger = logging.getLogger(__name__)


def read_page(session: "Session", path: str, parameters: "dict[str, str | int | Sequence[str]]") -> "View | None":
    """Return a page of our own API as it is now: its `body`, and the `offset` that it reflects; None: nobody gives it."""
    url = read(session.configuration.data_path, Announced.REST, of_cluster=cluster_name(session.bootstrap, session.cluster_id))
    if url is None:
        return None
    where = urllib.parse.urlsplit(url)
    if where.scheme != "http" or where.hostname is None:
        return None
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"{_PREFIX}{path}?{urllib.parse.urlencode(parameters, doseq=True)}", headers={"Connection": "close"})
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


def cluster_name(bootstrap: str, cluster_id: str) -> str:
    """Return what tells apart the clusters whose REST processes may use one data directory in turn."""
    return f"{cluster_id} at {bootstrap}"
