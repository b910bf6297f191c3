"""The page docs/generated/events.md: every record that can stand on a topic, with its meaning and its fields, as its schema has them.

An event of the log stands with the component in whose module its class is.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from docs.generate.schemas import documents
from eventflink.events import (
    checkpoint_events,
    dispatcher_events,
    job_master_events,
    master_events,
    resource_manager_events,
    schedule_events,
    slot_manager_events,
    upkeep_events,
)
from eventflink.events.envelopes import ENVELOPES
from eventflink.events.log_events import EVENTS
from eventflink.events.schemas import NAMESPACE
from eventflink.events.topics import Topic

_INTRODUCTION: Final = """\
# The catalogue of events

<!-- Generated from the classes of eventflink/events/: do not edit this page, run `python -m docs.generate`. -->

Every record on every topic. The Avro schemas in [schemas/](../../schemas/), which are made of the classes in
`eventflink/events/`, are the contract: one whole envelope a topic and release. Events of the log are told in the past
tense and never changed. Requests may also come as JSON, with the same fields: see [submitting.md](../submitting.md).

"""

COMPONENTS: Final = {
    "Master": master_events,
    "Upkeep": upkeep_events,
    "Dispatcher": dispatcher_events,
    "ResourceManager": resource_manager_events,
    "Schedules": schedule_events,
    "SlotManager": slot_manager_events,
    "JobMaster": job_master_events,
    "CheckpointCoordinator": checkpoint_events,
}
"""The component that decides an event, by the module of its class."""

_Schema = dict[str, Any]


def _own_names(avro_type: Any) -> Iterator[str]:
    """Yield the names of the project's types that a type refers to."""
    if isinstance(avro_type, str):
        if avro_type.startswith(f"{NAMESPACE}."):
            yield avro_type.removeprefix(f"{NAMESPACE}.")
    elif isinstance(avro_type, list):
        for member in avro_type:
            yield from _own_names(member)
    elif isinstance(avro_type, dict):
        yield from _own_names(avro_type.get("items", avro_type.get("values", avro_type.get("type"))))


def _describe(avro_type: Any) -> str:
    """Return a type as the table shows it."""
    if isinstance(avro_type, list):
        return " or ".join(_describe(member) for member in avro_type)
    if isinstance(avro_type, dict):
        inner = avro_type.get("items")
        return f"array of {_describe(inner)}" if inner is not None else _describe(avro_type.get("type"))
    name = str(avro_type).removeprefix(f"{NAMESPACE}.")
    return name if name == avro_type else f"[{name}](#{name.lower()})"


def _describe_union(avro_type: Any) -> str:
    """Return the type of a field of an envelope; a long union is what the sections below list."""
    names = list(_own_names(avro_type))
    many = 3
    return (
        f"{'array of ' if isinstance(avro_type, dict) else ''}{len(names)} kinds of records, below"
        if len(names) > many
        else _describe(avro_type)
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _fields(schema: _Schema) -> Iterator[str]:
    if not schema["fields"]:
        return
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for field in schema["fields"]:
        default = f"`{json.dumps(field['default'])}`" if "default" in field else ""
        yield f"| `{field['name']}` | {_cell(_describe_union(field['type']))} | {default} | {_cell(field.get('doc', ''))} |"
    yield ""


def _section(schema: _Schema, level: int) -> Iterator[str]:
    yield f"{'#' * level} {schema['name']}"
    yield ""
    yield schema.get("doc", "")
    yield ""
    if schema["type"] == "enum":
        yield "Symbols: " + ", ".join(f"`{symbol}`" for symbol in schema["symbols"]) + "."
        yield ""
    else:
        yield from _fields(schema)


def payloads_of(envelope: _Schema) -> list[str]:
    """Return the records that an envelope carries: the members of its last field's union."""
    said = next(field for field in envelope["fields"] if field["name"] in ("payload", "reports", "events"))
    return list(_own_names(said["type"]))


def render() -> str:
    """Return the page."""
    schemas = documents()
    logged = payloads_of(schemas["Decision"])
    lines: list[str] = ["| topic | envelope | records |", "|---|---|---|"]
    for topic, envelope in ENVELOPES.items():
        name = envelope.__name__
        records = f"{len(logged)} events, by component" if topic is Topic.LOG else ", ".join(map(_link, payloads_of(schemas[name])))
        lines.append(f"| `{topic}` | {_link(name)} | {records} |")
    lines += ["", "## The log", "", *_section(schemas["Decision"], 3)]
    shown = {"Decision", *logged}
    for component, module in COMPONENTS.items():
        lines += [f"## Events of the {component}", ""]
        for name, cls in EVENTS.items():
            if cls.__module__ == module.__name__:
                lines += _section(schemas[name], 3)
    for topic, envelope in ENVELOPES.items():
        if topic is not Topic.LOG:
            lines += _topic(topic, envelope.__name__, schemas, shown)
    lines += ["## Parts", "", "Records and words that stand inside the records above.", ""]
    for name in schemas:
        if name not in shown:
            lines += _section(schemas[name], 3)
    return _INTRODUCTION + "\n".join(lines).rstrip() + "\n"


def _topic(topic: Topic, envelope: str, schemas: dict[str, _Schema], shown: set[str]) -> Iterable[str]:
    """Yield the section of a topic; a record that was shown before is only linked."""
    yield f"## The topic {topic}"
    yield ""
    yield from _section(schemas[envelope], 3)
    shown.add(envelope)
    for name in payloads_of(schemas[envelope]):
        if name not in shown:
            shown.add(name)
            yield from _section(schemas[name], 3)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"
