"""The REST process of a cluster, as a client finds and asks it: the configured one, or that of this cluster on this machine.

The rule: it is asked for what is as new as the log is when it is asked. Who it is that asks is said by a token, and never in the clear to
another machine. A process that gives no answer which can be used is silent; what is done then is the business of who asks.
"""

import http.client
import json
import logging
import os
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from eventflink.gateways.errors import ArchiveUnusable, GatewayError
from eventflink.model.loopback import LOOPBACK
from eventflink.processes.announced_address import Announced, read

if TYPE_CHECKING:
    from eventflink.blob.tls import TlsFiles
    from eventflink.model.configuration import Configuration

IDENTITY_VARIABLE: Final = "EVENTFLINK_REST_TOKEN"
"""In the environment: the token that says who we are. It never goes over the network in the clear."""
TIMEOUT_S: Final = 3.0
"""How long a process is waited for, beyond what a question waits for itself."""
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024

_PREFIX: Final = "/eventflink/v1"
OFFSET_HEADER: Final = "X-Eventflink-Offset"
_logger = logging.getLogger(__name__)

Parameters = Mapping[str, str | int | Sequence[str]]


class NothingThere(GatewayError):
    """What was asked for does not exist."""


class QuestionInvalid(GatewayError):
    """The question itself is wrong; the message says where."""


class RestSilent(GatewayError):
    """There is no REST process, or it gave no answer that can be used."""


@dataclass(frozen=True, slots=True)
class RestProcess:
    """Where a REST process answers."""

    url: str
    tls: "TlsFiles | None" = None
    token: str = field(default="", repr=False)

    def target_of(self, path: str, parameters: Parameters) -> str:
        """Return what GET asks for."""
        return f"{_PREFIX}{urllib.parse.quote(path)}?{urllib.parse.urlencode(parameters, doseq=True)}"

    @property
    def headers(self) -> dict[str, str]:
        """What every request says."""
        return {"X-Eventflink-Min-Offset": "latest"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


def rest_process_of(configuration: "Configuration", bootstrap: Callable[[], str], cluster_id: str) -> RestProcess | None:
    """Return the process that the configuration names, or else the one on this machine that serves this very cluster; None: neither.

    Where the configuration names one, Kafka need not be known: `bootstrap` is not asked for.
    """
    if configuration.rest_port and configuration.rest_names:
        name = configuration.rest_names[0]
        scheme = "https" if configuration.rest_tls_enabled else "http"
        url: str | None = f"{scheme}://{f'[{name}]' if ':' in name else name}:{configuration.rest_port}"
    else:
        url = read(configuration.data_path, Announced.REST, of_cluster=cluster_name(bootstrap(), cluster_id))
    where = urllib.parse.urlsplit(url or "")
    if url is None or where.scheme not in ("http", "https") or where.hostname is None:
        return None
    token = os.environ.get(IDENTITY_VARIABLE, "") if where.scheme == "https" or where.hostname in LOOPBACK else ""
    if where.scheme == "http":
        return RestProcess(url, token=token)
    from eventflink.blob.tls import rest_client_files  # noqa: PLC0415 - few speak TLS to their own machine

    return RestProcess(url, rest_client_files(configuration), token)


def cluster_name(bootstrap: str, cluster_id: str) -> str:
    """Return what tells apart the clusters whose REST processes may use one data directory in turn."""
    return f"{cluster_id} at {bootstrap}"


def ask_rest(rest: RestProcess, path: str, parameters: Parameters, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return what a process answers to GET `path` of our own API.

    Raises:
        NothingThere: what was asked for does not exist.
        QuestionInvalid: the path does not take these parameters.
        ArchiveUnusable: the job has left the memory, and its archive is damaged or gone.
        RestSilent: there is no answer, or none that can be used.

    """
    where = urllib.parse.urlsplit(rest.url)
    connection = _connection(rest, where.hostname or "", where.port, timeout_s)
    try:
        connection.request("GET", rest.target_of(path, parameters), headers={"Connection": "close", **rest.headers})
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise silent(rest, f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return answer_in(rest, response.status, response.getheader(OFFSET_HEADER), body)


def answer_in(rest: RestProcess, status: int, log_offset: str | None, body: bytes) -> dict[str, Any]:
    """Return what a process said; raises as `ask_rest` does. Only one that looked into its state names an offset with a 404."""
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise silent(rest, f"{body[:80]!r}") from error
    if status == http.client.OK and isinstance(answer, dict):
        _logger.info("RestAnswered url=%s offset=%s", rest.url, log_offset)
        return answer
    said = "; ".join(str(each) for each in answer.get("errors", ())) if isinstance(answer, dict) else ""
    if status == http.client.NOT_FOUND and log_offset is not None:
        raise NothingThere(said)
    if status == http.client.GONE:
        raise ArchiveUnusable(said)
    if status == http.client.BAD_REQUEST:
        raise QuestionInvalid(said)
    raise silent(rest, f"{status} {said}")


def silent(rest: RestProcess, reason: str) -> RestSilent:
    """Return the error for a process that gives no answer."""
    _logger.info("RestSilent url=%s reason=%s", rest.url, reason)
    return RestSilent(f"{rest.url}: {reason}")


def read_page(rest: RestProcess | None, path: str, parameters: Parameters) -> dict[str, Any] | None:
    """Return a page of our own API as it is now: its `body`, and the `offset` that it reflects; None: nobody gives it."""
    try:
        page = ask_rest(rest, path, parameters) if rest is not None else {}
    except (NothingThere, QuestionInvalid, ArchiveUnusable, RestSilent):
        return None
    return page if "body" in page and isinstance(page.get("offset"), int) else None


def _connection(rest: RestProcess, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if rest.tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    from eventflink.blob.tls import client_context  # noqa: PLC0415 - see above

    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=client_context(rest.tls))
