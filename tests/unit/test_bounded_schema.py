"""A registry's schema is used only where a record of a few bytes cannot say a billion items, or nest without end (P10)."""

import asyncio
import json
from typing import Any

import pytest

from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.events.codec import UndecodableRecord, decode_body
from eventflink.events.schemas import load_envelope
from eventflink.model.avro_schema import CONFLUENT_HEADER_LENGTH
from eventflink.model.bounded_schema import MAX_DEPTH, MAX_SCHEMA_BYTES, bounded_schema
from tests.support.schema_registry import Registry, running_registry

EMPTY = {"type": "record", "name": "Empty", "fields": []}


def _record(payload: Any, name: str = "E") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "payload", "type": payload}]}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _nested(depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = _array(schema)
    return schema


UNBOUNDED = {
    "nulls": (_array("null"), "payload: an array of items that have no bytes"),
    "null as a type": (_array({"type": "null"}), "an array of items that have no bytes"),
    "empty records": (_array(EMPTY), "an array of items that have no bytes"),
    "records of nulls": (_array(_record("null", "N")), "an array of items that have no bytes"),
    "an empty record by its name": ([EMPTY, _array("Empty")], "an array of items that have no bytes"),
    "in a namespace": ([{**EMPTY, "namespace": "a.b"}, _array("a.b.Empty")], "an array of items that have no bytes"),
    "nothing fixed": (_array({"type": "fixed", "name": "F", "size": 0}), "an array of items that have no bytes"),
    "deep in an array": (_array(_array(_array("null"))), "payload[][]: an array of items that have no bytes"),
    "in a map": ({"type": "map", "values": _array("null")}, "payload[]: an array of items that have no bytes"),
    "a list": (["null", "E"], "payload: E holds itself"),
    "a tree": (_array("E"), "payload[]: E holds itself"),
    "too deep": (_nested(MAX_DEPTH), f"types nest more than {MAX_DEPTH} deep"),
    "no type": (5, "payload: int is no type"),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_a_schema_without_a_bound_is_refused_by_its_place(case: str) -> None:
    payload, says = UNBOUNDED[case]
    with pytest.raises(ValueError, match=says.replace("[", r"\[")):
        bounded_schema(_record(payload))


@pytest.mark.parametrize("name", ["SubmissionEnvelope", "CommandEnvelope"])
def test_the_schemas_of_our_envelopes_are_used_as_they_are(name: str) -> None:
    schema = load_envelope(name)
    assert bounded_schema(schema) == schema
    assert len(json.dumps(schema)) < MAX_SCHEMA_BYTES // 2


def test_what_has_a_bound_is_used_without_what_it_means() -> None:
    """A decimal of a quarter of a MiB takes a second to compute."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert bounded_schema(_record([decimal, _array("int"), {"type": "map", "values": "null"}])) == _record(
        [{"type": "bytes", "precision": 4, "scale": 2}, _array("int"), {"type": "map", "values": "null"}]
    )


def _says(registry: Registry, schema: str) -> str:
    """Return why a record of a schema is refused."""
    client = SchemaRegistryClient(registry.url)
    schema_id = registry.register("submissions-value", schema)
    asyncio.run(client.fetch(schema_id))
    with pytest.raises(UndecodableRecord) as refused:
        decode_body(client.schema(schema_id), b"\0\0\0\0\1\x80\x89\x7a\0", CONFLUENT_HEADER_LENGTH, "SubmissionEnvelope")
    return str(refused.value)


def test_ten_bytes_of_a_registry_s_schema_stop_no_master() -> None:
    """They say a million nulls here, and could say more than any memory holds; the schema is refused before they are decoded."""
    with running_registry() as registry:
        assert "an array of items that have no bytes has no bound" in _says(registry, json.dumps(_record(_array("null"))))
        assert "RecursionError" in _says(registry, "[" * 100_000)
        assert f"more than {MAX_SCHEMA_BYTES} bytes" in _says(registry, json.dumps({**EMPTY, "doc": "x" * MAX_SCHEMA_BYTES}))
        assert "AttributeError" in _says(registry, "[1]") or "ValueError" in _says(registry, "[1]")
