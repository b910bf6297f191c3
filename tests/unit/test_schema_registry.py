"""The schemas of inbound records: what a registry says decides, and while it says nothing an input waits and is never refused."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from http import HTTPStatus

import pytest

from eventflink.entrypoint import schema_registry
from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.events.codec import UndecodableRecord
from eventflink.model.bounded_schema import MAX_SCHEMA_BYTES
from eventflink.streams.avro_registry import ask_registry
from eventflink.streams.failures import RegistryUnavailable
from tests.support.schema_registry import Registry, running_registry

SCHEMA = json.dumps({"type": "record", "name": "Any", "fields": []})
NOWHERE = "http://127.0.0.1:9"


def record(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def fetch(client: SchemaRegistryClient, schema_id: int) -> None:
    asyncio.run(asyncio.wait_for(client.fetch(schema_id), 60))


def after(failures: int, registry: Registry, status: HTTPStatus) -> Callable[[str, bytes], tuple[HTTPStatus, dict[str, object]]]:
    """Let a registry answer so often with a fault, at length."""
    answer, left = registry.answer, iter(range(failures))
    return lambda path, body: (status, {"message": "x" * MAX_SCHEMA_BYTES}) if next(left, None) is not None else answer(path, body)


@pytest.mark.parametrize("status", [HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.TOO_MANY_REQUESTS])
def test_a_registry_that_has_a_fault_is_asked_again(status: HTTPStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as registry:
        schema_id = registry.register("s", SCHEMA)
        monkeypatch.setattr(registry, "answer", after(3, registry, status))
        client = SchemaRegistryClient(registry.url, retry_s=0)
        fetch(client, schema_id)
        assert client.schema(schema_id)["name"] == "Any"
        assert client.needs(record(schema_id)) is None


def test_while_nobody_answers_an_input_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as registry:
        schema_id = registry.register("s", SCHEMA)
        client = SchemaRegistryClient(NOWHERE, retry_s=0)
        tries: list[float] = []

        async def sleep(seconds: float) -> None:
            tries.append(seconds)
            if len(tries) > schema_registry.MAX_FAULTS:  # The registry is there again.
                client._url = registry.url

        monkeypatch.setattr("eventflink.entrypoint.schema_registry.asyncio.sleep", sleep)
        fetch(client, schema_id)
        assert client.schema(schema_id)["name"] == "Any"


def test_what_the_registry_does_not_know_is_refused_and_asked_for_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as registry:
        client = SchemaRegistryClient(registry.url)
        fetch(client, 1)
        with pytest.raises(UndecodableRecord, match=r"id 1: .*404"):
            client.schema(1)
        assert client.needs(record(1)) is None
        registry.register("s", SCHEMA)
        monkeypatch.setattr(schema_registry, "REMEMBER_FAILURE_S", 0.0)
        assert client.needs(record(1)) == 1
        fetch(client, 1)
        assert client.schema(1)["name"] == "Any"


def test_a_schema_that_the_registry_breaks_at_is_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as registry:
        monkeypatch.setattr(registry, "answer", lambda *_: (HTTPStatus.INTERNAL_SERVER_ERROR, {}))
        monkeypatch.setattr(schema_registry, "MAX_FAULTS", 3)
        client = SchemaRegistryClient(registry.url, retry_s=0)
        fetch(client, 1)
        with pytest.raises(UndecodableRecord, match="answers /schemas/ids/1 with 500"):
            client.schema(1)


def test_of_many_schemas_those_stay_that_were_needed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that waits to be decided needs its schema still."""
    monkeypatch.setattr(schema_registry, "MAX_SCHEMAS", 2)
    with running_registry() as registry:
        for number in range(3):
            registry.register("s", json.dumps({"type": "record", "name": f"N{number}", "fields": []}))
        client = SchemaRegistryClient(registry.url)
        fetch(client, 1)
        fetch(client, 2)
        assert client.needs(record(1)) is None
        fetch(client, 3)
        assert [client.needs(record(number)) for number in (1, 2, 3)] == [None, 2, None]


@pytest.mark.parametrize("status", [HTTPStatus.UNAUTHORIZED, HTTPStatus.BAD_REQUEST])
def test_a_registry_that_refuses_is_not_asked_on_and_on(status: HTTPStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as registry:
        monkeypatch.setattr(registry, "answer", lambda *_: (status, {}))
        client = SchemaRegistryClient(registry.url)
        fetch(client, 1)
        with pytest.raises(UndecodableRecord, match=f"with {status}"):
            client.schema(1)


def test_an_answer_that_drips_is_no_answer() -> None:
    """Each of its bytes comes in time, and the whole of it never."""

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)

    async def ask() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            await ask_registry(f"http://127.0.0.1:{port}", "/schemas/ids/1", timeout_s=0.3)
        finally:
            server.close()

    with pytest.raises(RegistryUnavailable, match="does not answer"):
        asyncio.run(asyncio.wait_for(ask(), 30))
