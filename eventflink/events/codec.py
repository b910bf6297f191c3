"""Bytes to events and back: Avro single-object encoding of each topic's envelope.

The classes of this room mirror the schemas; here is the one place that turns an instance into what fastavro writes and
back. A record is decoded with the schema of its writer, found by fingerprint, and then upgraded: a field that the writer did
not know takes the class's default. (Resolution by a reader's schema does the same at a quarter of the speed.)
"""

import dataclasses
import io
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import fastavro

from eventflink.events import decision, effects, inputs, log_events, snapshot_records
from eventflink.events.decision import Cause, Decision
from eventflink.events.log_events import LogEvent
from eventflink.events.oldest_release import PAYLOAD, writing_of
from eventflink.events.schemas import MARKER, NAMESPACE, Schema, SchemaRegistry, branches_of, fingerprint_of, part_of, registry_of
from eventflink.events.seal import Seal
from eventflink.model import attempts, job_graph, resources, statuses, stream_progress
from eventflink.model.features import FEATURE_LEVEL

HEADER_LENGTH: Final = len(MARKER) + 8
_SEVEN_BITS: Final = 0x7F
_LONG_BITS: Final = 64

AvroFields = dict[str, Any]
_Convert = Callable[[Any], Any]


class UndecodableRecord(Exception):
    """Bytes that are not what their topic holds; the message says what is wrong."""


class _Plan(NamedTuple):
    """How one class is written and read."""

    cls: type[Any]
    tag: str
    names: tuple[str, ...]
    getter: Callable[[Any], tuple[Any, ...]]
    writers: tuple[tuple[str, _Convert], ...]
    readers: tuple[tuple[str, _Convert], ...]


_plans: dict[type[Any], _Plan] = {}
_readers_by_tag: dict[str, tuple[type[Any], tuple[tuple[str, _Convert], ...]]] = {}


def _is_record(annotation: Any) -> bool:
    return dataclasses.is_dataclass(annotation)


def _write_record(value: Any) -> AvroFields:
    plan = _plans[type(value)]
    fields = dict(zip(plan.names, plan.getter(value), strict=True))
    for name, write in plan.writers:
        fields[name] = write(fields[name])
    return fields


def _tagged(value: Any) -> tuple[str, AvroFields]:
    return _plans[type(value)].tag, _write_record(value)


def _read_record(plan: _Plan, fields: AvroFields) -> Any:
    for name, read in plan.readers:
        if name in fields:
            fields[name] = read(fields[name])
    return plan.cls(**fields)


def _read_tagged(pair: tuple[str, AvroFields]) -> Any:
    tag, fields = pair
    cls, readers = _readers_by_tag[tag]
    for name, read in readers:  # As `_read_record`, without its call: most of a replay goes through here.
        if name in fields:
            fields[name] = read(fields[name])
    return cls(**fields)


def _codec_of(annotation: Any) -> tuple[_Convert | None, _Convert | None]:
    """Return what turns a field of this type into what fastavro takes, and what turns it back; None where they are the same."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple:
        write, read = _codec_of(arguments[0])
        return write and (lambda values: [write(v) for v in values]), (lambda values: tuple([read(v) for v in values])) if read else tuple
    if origin in (typing.Union, types.UnionType):
        members = [a for a in arguments if a is not type(None)]
        if len(members) > 1:
            return _tagged, _read_tagged
        if _is_record(members[0]):  # A union with null: fastavro names the branch of a record.
            return lambda value: None if value is None else _tagged(value), lambda pair: None if pair is None else _read_tagged(pair)
    elif _is_record(annotation):
        return _write_record, lambda fields: _read_record(_plans[annotation], fields)
    elif isinstance(annotation, type) and issubclass(annotation, statuses.UpperStrEnum):
        return None, dict(annotation.__members__).__getitem__
    return None, None


def _register(cls: type[Any]) -> None:
    hints = typing.get_type_hints(cls)
    names = tuple(f.name for f in dataclasses.fields(cls))
    getter = attrgetter(*names) if len(names) > 1 else (lambda value: tuple(getattr(value, n) for n in names))
    codecs = {name: _codec_of(hints[name]) for name in names}
    plan = _Plan(
        cls=cls,
        tag=f"{NAMESPACE}.{cls.__name__}",
        names=names,
        getter=getter,
        writers=tuple((name, write) for name, (write, _) in codecs.items() if write is not None),
        readers=tuple((name, read) for name, (_, read) in codecs.items() if read is not None),
    )
    _plans[cls] = plan
    _readers_by_tag[plan.tag] = (plan.cls, plan.readers)


def record_classes() -> list[type[Any]]:
    """Return every class that mirrors a schema; the base classes of several of them do not."""
    modules = (attempts, job_graph, resources, stream_progress, log_events, decision, inputs, effects, snapshot_records)
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type) and dataclasses.is_dataclass(value)}
    return sorted((cls for cls in found if not cls.__subclasses__()), key=lambda cls: cls.__name__)


for _cls in record_classes():
    _register(_cls)


SEAL: Final = "seal"


class EnvelopeCodec:
    """Encodes and decodes the records of one topic."""

    def __init__(self, name: str, registry: SchemaRegistry | None = None, seal: Seal | None = None) -> None:
        """Load the schemas of the envelope `name`, unless a `registry` has them; with a `seal`, records get it, and need it."""
        self.registry = registry or registry_of(name)
        self.seal = seal
        self._header = MARKER + self.registry.current_fingerprint
        self._current = self.registry.by_fingerprint[self.registry.current_fingerprint]

    def decode_fields(self, value: bytes) -> AvroFields:
        """Decode a record with its writer's schema; unions come as (name, fields).

        Raises:
            UndecodableRecord: the bytes are no such record; the message says what is wrong and where.

        """
        if self.seal is not None and not self.seal.is_genuine(value):
            raise UndecodableRecord(f"the record is no {self.registry.name} of this cluster: it has no valid seal")
        schema = self.registry.by_fingerprint.get(value[len(MARKER) : HEADER_LENGTH])
        if schema is None or value[: len(MARKER)] != MARKER:
            raise self._unknown_header(value)
        return decode_body(schema, value, HEADER_LENGTH, self.registry.name)

    def _sealed(self, value: bytes) -> bytes:
        return value if self.seal is None else self.seal.sealed(value)

    def _unknown_header(self, value: bytes) -> UndecodableRecord:
        if (marker := value[: len(MARKER)]) != MARKER:
            start = marker.hex(" ") or "nothing"
            return UndecodableRecord(f"the record does not start with the marker C3 01 of Avro's single-object encoding but with {start}")
        fingerprint = value[len(MARKER) : HEADER_LENGTH].hex()
        return UndecodableRecord(f"no schema of {self.registry.name} has the fingerprint {fingerprint}")


def decode_body(schema: Schema, value: bytes, start: int, name: str) -> AvroFields:
    """Decode the Avro body that starts at `start`; it must end where the bytes end."""
    return _read_body(lambda stream: _read_avro(stream, schema, None, return_record_name=True), value, start, name)


_read_avro: Final = fastavro.schemaless_reader


def _read_body(read: Callable[[io.BytesIO], AvroFields], value: bytes, start: int, name: str) -> AvroFields:
    stream = io.BytesIO(value)
    stream.seek(start)
    try:
        fields = read(stream)
    except (EOFError, IndexError, ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError, MemoryError) as error:
        reason = str(error).partition(f" from {stream!r}")[0]  # Where the stream is in memory differs from reader to reader.
        at = f"decoding stopped at byte {stream.tell()} of {len(value)} ({type(error).__name__}: {reason})"
        raise UndecodableRecord(f"the record is not a whole {name}: {at}") from error
    if stream.tell() != len(value):
        message = f"the record has {len(value) - stream.tell()} bytes after the end of its {name}"
        raise UndecodableRecord(message)
    return fields


class PayloadCodec(EnvelopeCodec):
    """The codec of an envelope whose `payload` is one record out of a union.

    A record is written with the oldest release that says it in the same way, so readers of that version understand it.
    """

    def encode(self, payload: Any, **envelope: Any) -> bytes:
        """Encode the payload with the envelope's other fields."""
        envelope[PAYLOAD] = tagged = _tagged(payload)
        writing = writing_of(self.registry, tagged[0])
        stream = io.BytesIO()
        stream.write(writing.header)
        fastavro.schemaless_writer(stream, writing.schema, envelope)
        return self._sealed(stream.getvalue())

    def decode(self, value: bytes) -> tuple[Any, AvroFields]:
        """Return the payload and the envelope's other fields but the seal."""
        fields = self.decode_fields(value)
        fields.pop(SEAL, None)
        payload = read_payload(fields.pop(PAYLOAD))
        return payload, fields


def read_payload(pair: tuple[str, AvroFields]) -> Any:
    """Turn a decoded (name, fields) into its class.

    Raises:
        UndecodableRecord: the record has no such class, or lacks a field that has no default.

    """
    try:
        return _read_tagged(pair)
    except (LookupError, TypeError, ValueError) as error:
        message = f"the payload {pair[0] if isinstance(pair, tuple) else f'is a {type(pair).__name__}, and'} cannot be read: {error}"
        raise UndecodableRecord(message) from error


class ReportsCodec(EnvelopeCodec):
    """The codec of `taskmanagers`: what an instance says at once, in order."""

    def encode(self, reports: Iterable[Any]) -> bytes:
        """Encode the reports."""
        stream = io.BytesIO()
        stream.write(self._header)
        fastavro.schemaless_writer(stream, self._current, {"reports": [_tagged(r) for r in reports]})
        return self._sealed(stream.getvalue())

    def decode(self, value: bytes) -> tuple[Any, ...]:
        """Return the reports, in order."""
        return tuple(read_payload(pair) for pair in self.decode_fields(value)["reports"])


class _DecisionSchema(NamedTuple):
    """What a Decision is written and read with: its events one by one, because fastavro is slower with a union of so many records."""

    header: bytes
    head: Schema
    """All fields but the events and the seal."""
    writers: dict[str, tuple[bytes, Schema]]
    """By an event's tag: the number of its branch in the union as Avro writes it, and its schema."""
    readers: tuple[tuple[Schema, str], ...]
    """The schema of each branch, and its tag."""

    def read(self, stream: io.BytesIO) -> AvroFields:
        """Read a whole Decision but for its header."""
        fields: AvroFields = _read_avro(stream, self.head, None, return_record_name=True)
        events: list[LogEvent] = []
        while count := _read_long(stream):
            self.read_block(stream, count, events)
        if _read_long(stream):
            length = _read_long(stream)
            if len(stream.read(length)) < length:
                raise EOFError("the seal is cut off")
        return fields | {"causes": tuple([_read_tagged(pair) for pair in fields["causes"]]), "events": tuple(events)}

    def read_block(self, stream: io.BytesIO, count: int, events: list[LogEvent]) -> None:
        """Read the events of one block of the array."""
        for _ in range(count):
            schema, tag = self.readers[_read_long(stream)]
            events.append(_read_tagged((tag, _read_avro(stream, schema, None, return_record_name=True))))


def _decision_schema(header: bytes, schema: Schema) -> _DecisionSchema:
    *head, events, _ = schema["fields"]
    branches = branches_of(events["type"]["items"])
    writers = {branch["name"]: (_long(number), branch) for number, branch in enumerate(branches)}
    return _DecisionSchema(header, part_of(schema, 0, len(head)), writers, tuple((branch, branch["name"]) for branch in branches))


@cache
def _decision_schemas(registry: SchemaRegistry) -> dict[bytes, _DecisionSchema]:
    """Return what each version wrote the log with, by fingerprint."""
    return {fingerprint: _decision_schema(MARKER + fingerprint, schema) for fingerprint, schema in registry.by_fingerprint.items()}


@cache
def _schema_at_level(registry: SchemaRegistry, level: int) -> _DecisionSchema:
    """Return what the log is written with at a feature level: no older master meets a schema that it does not have (P19)."""
    schema = registry.current if level == len(registry.releases) else registry.releases[level - 1]
    return _decision_schemas(registry)[fingerprint_of(schema)]


def _long(number: int) -> bytes:
    """Write a number that is not negative as Avro does."""
    rest, written = number << 1, bytearray()
    while rest > _SEVEN_BITS:
        written.append(rest & _SEVEN_BITS | _SEVEN_BITS + 1)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _read_long(stream: io.BytesIO) -> int:
    """Read what `_long` wrote.

    Raises:
        IndexError: the stream is at its end.
        ValueError: it is no number of Avro's, or a negative one.

    """
    number = stream.read(1)[0]
    if number > _SEVEN_BITS:
        number, shift, byte = number & _SEVEN_BITS, 7, _SEVEN_BITS + 1
        while byte > _SEVEN_BITS:
            if shift >= _LONG_BITS:
                raise ValueError("a number is longer than 64 bits")
            byte = stream.read(1)[0]
            number |= (byte & _SEVEN_BITS) << shift
            shift += 7
    if number & 1:
        raise ValueError("a number is negative")
    return number >> 1


class DecisionCodec(EnvelopeCodec):
    """The codec of `log`.

    A leader encodes the events of a decision step by step, before it applies them (P10), and puts them into one record at
    the end. That works because only the seal comes behind `events`, and an Avro array may consist of several blocks. What is written
    goes by the cluster's feature level (P19); whatever was ever released is read.
    """

    def __init__(self, registry: SchemaRegistry | None = None, seal: Seal | None = None, sealed_from_offset: int = 0) -> None:
        """Load the schemas of the Decision, unless a `registry` has them; with a `seal`, decisions get it.

        Records of the log before `sealed_from_offset` count without one: the cluster had no secret then.
        """
        super().__init__("Decision", registry, seal)
        self._sealed_from_offset = sealed_from_offset
        self._schemas = _decision_schemas(self.registry)

    @property
    def feature_level(self) -> int:
        """The newest level that this codec reads and writes: the Decision is released once a level."""
        return len(self.registry.releases)

    def is_foreign(self, offset: int, value: bytes) -> bool:
        """Tell whether a record of the log is nobody's who has the cluster secret (P3a), or was never written by a master (P3b).

        An offset at which Kafka has no record, such as that of a transaction's end, has no bytes, and is foreign too.
        """
        if not value.startswith(MARKER):
            return True
        return self.seal is not None and offset >= self._sealed_from_offset and not self.seal.is_genuine(value)

    def encode_events(self, events: Iterable[LogEvent], level: int = FEATURE_LEVEL) -> bytes:
        """Encode events as one or no block of the array, without its end.

        Raises:
            ValueError: the schema of this feature level does not have one of the events.

        """
        writers, stream, count = _schema_at_level(self.registry, level).writers, io.BytesIO(), 0
        for event in events:
            count += 1
            tag = _plans[type(event)].tag
            if tag not in writers:
                raise ValueError(f"the schema of feature level {level} has no {tag}")
            number, schema = writers[tag]
            stream.write(number)
            fastavro.schemaless_writer(stream, schema, _write_record(event))
        return _long(count) + stream.getvalue() if count else b""

    def decode_events(self, block: bytes, level: int = FEATURE_LEVEL) -> tuple[LogEvent, ...]:
        """Decode what `encode_events` wrote.

        Raises:
            ValueError: the block does not end with its last event.

        """
        if not block:
            return ()
        stream, events = io.BytesIO(block), list[LogEvent]()
        _schema_at_level(self.registry, level).read_block(stream, _read_long(stream), events)
        if stream.tell() != len(block):
            raise ValueError(f"a block of {len(block)} bytes ends at byte {stream.tell()}")
        return tuple(events)

    def join(
        self,
        *,
        epoch: int,
        sequence: int,
        leader_id: str,
        decided_at_ms: int,
        previous_hash: bytes,
        causes: Iterable[Cause],
        actor: str,
        blocks: Iterable[bytes],
        level: int = FEATURE_LEVEL,
    ) -> bytes:
        """Return the record of a decision whose events were encoded before, at the same level, block by block."""
        schema = _schema_at_level(self.registry, level)
        stream = io.BytesIO()
        stream.write(schema.header)
        head = {
            "epoch": epoch,
            "sequence": sequence,
            "leader_id": leader_id,
            "decided_at_ms": decided_at_ms,
            "previous_hash": previous_hash,
            "causes": [_tagged(c) for c in causes],
            "actor": actor,
        }
        fastavro.schemaless_writer(stream, schema.head, head)
        for block in blocks:
            stream.write(block)
        stream.write(b"\0\0")  # The end of the events, and no seal yet.
        return self._sealed(stream.getvalue())

    def encode(self, value: Decision, level: int = FEATURE_LEVEL) -> bytes:
        """Encode a whole decision."""
        return self.join(
            epoch=value.epoch,
            sequence=value.sequence,
            leader_id=value.leader_id,
            decided_at_ms=value.decided_at_ms,
            previous_hash=value.previous_hash,
            causes=value.causes,
            actor=value.actor,
            blocks=[self.encode_events(value.events, level)],
            level=level,
        )

    def decode(self, value: bytes) -> Decision:
        """Decode a record of the log, whoever wrote it: whether it counts is the fold's to say (P1, P3a).

        Raises:
            UndecodableRecord: the bytes are no decision. In the log that is fatal: no record of it is ever skipped.

        """
        schema = self._schemas.get(value[len(MARKER) : HEADER_LENGTH])
        if schema is None or value[: len(MARKER)] != MARKER:
            raise self._unknown_header(value)
        return Decision(**_read_body(schema.read, value, HEADER_LENGTH, self.registry.name))
