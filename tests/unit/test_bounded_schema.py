"""A registry's schema is used only where a record of a few bytes cannot say a billion items, or nest without end (P10)."""

import asyncio
import json
from typing import Any

import fastavro
import pytest

from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.events.codec import UndecodableRecord, decode_body
from eventflink.events.schemas import registry_of
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


def _nulls(count: int, *types: Any, name: str = "N") -> dict[str, Any]:
    """A record of so many nulls behind fields of other types."""
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate((*types, *["null"] * count))]
    return {"type": "record", "name": name, "fields": fields}


def _using_each_other(levels: int, times: int) -> dict[str, Any]:
    """A record whose only values are records: each but the first uses the one before it so many times."""
    made = {**EMPTY, "name": "L0"}
    for level in range(1, levels):
        made = _nulls(0, made, *[f"L{level - 1}"] * (times - 1), name=f"L{level}")
    return made


def _chain(length: int, *first: Any) -> list[Any]:
    """Types side by side, each of which holds the one before it, and something else before that."""
    return [{**EMPTY, "name": "C0"}, *(_nulls(0, *first, f"C{number}", name=f"C{number + 1}") for number in range(length))]


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
    "many nulls for a byte": (_array(_nulls(900, "boolean")), "payload: an array of items that have no bytes, or more than"),
    "one null too many for a byte": (_array(_nulls(1, "boolean")), "or more than 2 values for a byte, has no bound"),
    "in a map for a byte": ({"type": "map", "values": _nulls(3)}, "or more than 2 values for a byte, has no bound"),
    "behind a union": (_array([_nulls(2)]), "or more than 2 values for a byte, has no bound"),
    "many nulls": (_nulls(1_000), "payload: N has more than 1000 values that no byte pays for"),
    "many nulls before a byte": (_nulls(0, *["null"] * 1_000, *["int"] * 2_000), "payload: N has more than 1000 values"),
    "many nulls in a union": ([_nulls(1_002)], "payload: N has more than 1000 values"),
    "records that use each other": (_using_each_other(7, 10), "L3 has more than 1000 values that no byte pays for"),
    "records that use each other endlessly": (_using_each_other(30, 100), "L2 has more than 1000 values that no byte pays for"),
    "too deep by names": (_chain(MAX_DEPTH, "int"), f"f1: types nest more than {MAX_DEPTH} deep"),
    "no such name": (_array("Nothing"), "payload[]: unknown type: Nothing"),
    "a name twice": ([EMPTY, {**EMPTY, "fields": [{"name": "x", "type": "null"}]}], "payload: Empty is there twice"),
    "another of that name": (
        _nulls(0, {**EMPTY, "namespace": ""}, _record("int", "Empty"), {**_record(_array("Empty"), "S"), "namespace": ""}, name="a.R"),
        "payload.f2.payload: an array of items that have no bytes",
    ),
    "no type": (5, "payload: int is not a type"),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_a_schema_without_a_bound_is_refused_by_its_place(case: str) -> None:
    payload, says = UNBOUNDED[case]
    with pytest.raises(ValueError, match=says.replace("[", r"\[")):
        bounded_schema(_record(payload))


@pytest.mark.parametrize("name", ["SubmissionEnvelope", "CommandEnvelope"])
def test_the_schemas_of_our_envelopes_are_used_as_they_are(name: str) -> None:
    schema = registry_of(name).current
    assert fastavro.parse_schema(bounded_schema(schema), named_schemas={}) == schema
    assert len(json.dumps(schema)) < MAX_SCHEMA_BYTES // 2


def test_what_has_a_bound_is_used_without_what_it_means() -> None:
    """A decimal of a quarter of a MiB takes a second to compute."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert bounded_schema(_record([decimal, _array("int"), {"type": "map", "values": "null"}])) == _record(
        [{"type": "bytes", "precision": 4, "scale": 2}, _array("int"), {"type": "map", "values": "null"}]
    )


def test_bytes_pay_for_values_wherever_they_stand() -> None:
    """The envelopes of others are as ours, and may have fields that ours have not."""
    bounded = _record([_nulls(999), _nulls(2_000, *["int"] * 1_001, name="I"), _array(_nulls(2, *["int"] * 3, name="P")), "I"])
    assert bounded_schema(bounded) == bounded


def test_types_that_use_each_other_are_looked_at_once() -> None:
    """Written out this schema has more types than there are atoms; its bytes pay for all values."""
    levels = [_nulls(0, *["int"] * 3, name="L0"), *(_nulls(0, *[f"L{n}"] * 10, name=f"L{n + 1}") for n in range(MAX_DEPTH - 3))]
    assert bounded_schema(_record(levels)) == _record(levels)


def test_what_fastavro_notes_in_a_schema_is_not_believed() -> None:
    """By its own notes it would decode other types than those that were looked at."""
    other = {"Item": {**EMPTY, "name": "Item"}}
    noted = _record([_record("int", "Item"), _array("Item")]) | {"__fastavro_parsed": True, "__named_schemas": other}
    assert bounded_schema(noted) == _record([_record("int", "Item"), _array("Item")])


def _says(registry: Registry, schema: str) -> str:
    """Return why a record of a schema is refused."""
    client = SchemaRegistryClient(registry.url)
    schema_id = registry.register("submissions-value", schema)
    asyncio.run(client.fetch(schema_id))
    with pytest.raises(UndecodableRecord) as refused:
        decode_body(client.schema(schema_id), b"\0\0\0\0\1\x80\x89\x7a\0", CONFLUENT_HEADER_LENGTH, "SubmissionEnvelope")
    return str(refused.value)


@pytest.mark.rule("P10")
def test_ten_bytes_of_a_registry_s_schema_stop_no_master() -> None:
    """They say a million nulls here, and could say more than any memory holds; the schema is refused before they are decoded."""
    with running_registry() as registry:
        assert "an array of items that have no bytes, or" in _says(registry, json.dumps(_record(_array("null"))))
        assert "RecursionError" in _says(registry, "[" * 100_000)
        assert "L3 has more than 1000 values that no byte pays for" in _says(registry, json.dumps(_using_each_other(7, 10)))
        assert f"more than {MAX_SCHEMA_BYTES} bytes" in _says(registry, json.dumps({**EMPTY, "doc": "x" * MAX_SCHEMA_BYTES}))
        assert "AttributeError" in _says(registry, "[1]") or "ValueError" in _says(registry, "[1]")
