"""The masters of a cluster: which ones there are, by what they say on `leadership`, and what one of them says of itself over HTTP.

The state of the cluster is asked for elsewhere (`state_reads.py`): a master is asked only for what no other process can know.
"""

import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import MasterPresence
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S, PartitionReader
from eventflink.model.cluster_access import ClusterAccess

DEFAULT_MASTER_TIMEOUT_S: Final = 3.0
"""How long one master is waited for before the next is asked."""

MAX_MASTERS: Final = 8
"""How many are asked at most."""

_TAIL_RECORDS: Final = 1_000
"""How much of `leadership` is read for presences: more than half a minute of them."""

_POLL_S: Final = 0.2
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
_OK: Final = 200

Parameters = Mapping[str, str | int | Sequence[str]]


class MasterSilent(GatewayError):
    """One master gave no answer that can be used: it is gone, hangs, builds its state, or is not a master."""


@dataclass(frozen=True, slots=True)
class KnownMaster:
    """A master, and the offset of its newest presence in `leadership`."""

    presence: MasterPresence
    offset: int

    @property
    def master_id(self) -> str:
        """The id that it keeps over restarts."""
        return self.presence.master_id


class _Presences:
    """The newest presence of each master."""

    def __init__(self, access: ClusterAccess) -> None:
        self._codec = PayloadCodec("LeadershipEnvelope", seal=seals_of(access).of(Topic.LEADERSHIP))
        self.newest: dict[str, KnownMaster] = {}

    def see(self, offset: int, value: bytes) -> None:
        try:
            payload, _ = self._codec.decode(value)
        except UndecodableRecord:
            return  # Bytes that are no presence make no master.
        if isinstance(payload, MasterPresence):
            self.newest[payload.master_id] = KnownMaster(payload, offset)

    def freshest_first(self) -> list[KnownMaster]:
        return sorted(self.newest.values(), key=lambda known: -known.offset)


def find_masters(
    access: ClusterAccess, *, timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S, stop: Callable[[], bool] = lambda: False
) -> list[KnownMaster]:
    """Return the masters that were heard of lately, who spoke last first. Some of them may be gone.

    Raises:
        ClusterUnreachable: Kafka does not answer.
        ClusterNotFound: Kafka holds no such cluster.

    """
    reader = PartitionReader(access, Topic.LEADERSHIP, connect_timeout_s=timeout_s)
    try:
        low, high = reader.offsets(0)
        presences = _Presences(access)
        if low < high:
            _read(reader, max(low, high - _TAIL_RECORDS), high, time.monotonic() + timeout_s, presences, stop)
        return presences.freshest_first()
    finally:
        reader.close()


def listen_for_masters(access: ClusterAccess, *, listen_s: float, expected: Collection[str] = ()) -> list[KnownMaster]:
    """Return the masters that said something within the next `listen_s`: those that live; raises as `find_masters` does.

    A master speaks twice in a lease. Once all that are expected have spoken, nobody is listened for any longer.
    """
    reader = PartitionReader(access, Topic.LEADERSHIP)
    try:
        presences = _Presences(access)
        deadline = time.monotonic() + listen_s
        _read(reader, reader.offsets(0)[1], None, deadline, presences, lambda: bool(expected) and presences.newest.keys() >= set(expected))
        return presences.freshest_first()
    finally:
        reader.close()


def _read(
    reader: PartitionReader,
    first_offset: int,
    end_offset: int | None,
    deadline: float,
    presences: _Presences,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    reader.seek(0, first_offset)
    while (left_s := deadline - time.monotonic()) > 0 and not stop():
        for message in reader.read(min(left_s, _POLL_S)):
            offset = message.offset() or 0
            presences.see(offset, message.value() or b"")
            if end_offset is not None and offset >= end_offset - 1:
                return


def ask_master(
    query_address: str, path: str, parameters: Parameters | None = None, *, timeout_s: float = DEFAULT_MASTER_TIMEOUT_S
) -> dict[str, Any]:
    """Return what the master at `query_address` (host:port) answers to GET `path`.

    Raises:
        MasterSilent: there is no answer, or none that can be used.

    """
    host, port = address_of(query_address)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", target_of(path, parameters, timeout_s), headers={"Connection": "close"})
        response = connection.getresponse()
        status, body = response.status, response.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise MasterSilent(f"{query_address}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return answer_of(query_address, status, body)


def address_of(query_address: str) -> tuple[str, int]:
    """Return host and port; raises `MasterSilent` where it has none."""
    host, separator, port = query_address.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise MasterSilent(f"'{query_address}' is not an address of a master: host:port is expected")
    return host.strip("[]"), int(port)


def target_of(path: str, parameters: Parameters | None, timeout_s: float) -> str:
    """Return what GET asks for. The master gets the deadline too: its own timeout says more than an answer that never comes."""
    query = {"timeout_ms": max(1, round(timeout_s * 800)), **(parameters or {})}
    return f"{path}?{urllib.parse.urlencode(query, doseq=True)}"


def answer_of(query_address: str, status: int, body: bytes) -> dict[str, Any]:
    """Return what a master said; raises `MasterSilent`."""
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise MasterSilent(f"{query_address} does not answer as a master: {body[:80]!r}") from error
    if not isinstance(answer, dict):
        raise MasterSilent(f"{query_address} does not answer as a master: {body[:80]!r}")
    if status == _OK:
        return answer
    raise MasterSilent(f"{query_address}: {status} {answer.get('error')}")
