"""Bytes to events and back: Avro single-object encoding of each topic's envelope.

The classes of this room mirror the schemas; `record_functions.py` makes of a schema what turns an instance into bytes and back. A record is
decoded with the schema of its writer, found by fingerprint, and then upgraded: a field that the writer did not know takes the class's
default. (Resolution by a reader's schema does the same at a quarter of the speed.)
"""

import io
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import fastavro

from eventflink.events.decision import Cause, Decision
from eventflink.events.log_events import LogEvent
from eventflink.events.oldest_release import PAYLOAD, header_of
from eventflink.events.record_functions import (
    LONGS,
    BranchReaders,
    BranchWriters,
    Reader,
    RecordFunctions,
    UnknownBranch,
    Writer,
    read_count,
    read_unsigned,
    tag_of,
)
from eventflink.events.schemas import MARKER, Schema, WriterSchemas, fingerprint_of, registry_of
from eventflink.events.seal import Seal
from eventflink.model.features import FEATURE_LEVEL

HEADER_LENGTH: Final = len(MARKER) + 8

_SEVEN_BITS: Final = 0x7F

AvroFields = dict[str, Any]


class UndecodableRecord(Exception):
    """Bytes that are not what their topic holds; the message says what is wrong."""


class EnvelopeCodec:
    """Encodes and decodes the records of one topic."""

    def __init__(self, name: str, registry: WriterSchemas | None = None, seal: Seal | None = None) -> None:
        """Load the schemas of the envelope `name`, unless a `registry` has them; with a `seal`, records get it, and need it."""
        self.registry = registry or registry_of(name)
        self.seal = seal
        self._header = MARKER + self.registry.current_fingerprint
        self._current = self.registry.by_fingerprint[self.registry.current_fingerprint]

    def decode_fields(self, value: bytes) -> AvroFields:
        """Decode a record with its writer's schema; records are instances of their classes.

        Raises:
            UndecodableRecord: the bytes are no such record; the message says what is wrong and where.

        """
        if self.seal is not None and not self.seal.is_genuine(value):
            raise UndecodableRecord(f"the record is not a {self.registry.name} of this cluster: it has no valid seal")
        read = _fields_readers(self.registry).get(value[:HEADER_LENGTH])
        if read is None:
            raise self._unknown_header(value)
        fields: AvroFields = _read_whole(read, value, self.registry.name)
        return fields

    def _sealed(self, value: bytes) -> bytes:
        return value if self.seal is None else self.seal.sealed(value)

    def _unknown_header(self, value: bytes) -> UndecodableRecord:
        if (marker := value[: len(MARKER)]) != MARKER:
            start = marker.hex(" ") or "nothing"
            return UndecodableRecord(f"the record does not start with the marker C3 01 of Avro's single-object encoding but with {start}")
        fingerprint = value[len(MARKER) : HEADER_LENGTH].hex()
        return UndecodableRecord(f"no schema of {self.registry.name} has the fingerprint {fingerprint}")


@cache
def _fields_readers(registry: WriterSchemas) -> dict[bytes, Reader]:
    """Return what reads the fields of an envelope, by the header of its writer."""
    return {MARKER + key: RecordFunctions().fields_reader(schema) for key, schema in registry.by_fingerprint.items()}


@cache
def _fields_writer(registry: WriterSchemas, header: bytes) -> Writer:
    """Return what writes the fields of an envelope behind a header."""
    return RecordFunctions().fields_writer(registry.by_fingerprint[header[len(MARKER) :]]["fields"])


_NOT_WHOLE: Final = (EOFError, IndexError, ValueError, TypeError, KeyError, OverflowError, MemoryError)
"""What reading raises where the bytes are no such record."""


def _read_whole(read: Reader, value: bytes, name: str) -> Any:
    """Read what stands behind the header; it must end where the bytes end."""
    try:
        read_value, end = read(value, HEADER_LENGTH)
        if end > len(value):
            raise EOFError("its last value is cut off")
    except _NOT_WHOLE as error:
        at = f"decoding stopped at byte {_stopped_at(error, len(value))} of {len(value)} ({type(error).__name__}: {error})"
        raise UndecodableRecord(f"the record is not a whole {name}: {at}") from error
    if end != len(value):
        raise _more_behind(len(value) - end, name)
    return read_value


def _stopped_at(error: BaseException, most: int) -> int:
    """Return where the bytes stopped making sense: each function that reads keeps in `i` where it stands."""
    at, frame = 0, error.__traceback__
    while frame is not None:
        at, frame = frame.tb_frame.f_locals.get("i", at), frame.tb_next
    return min(at, most)


def _more_behind(count: int, name: str) -> UndecodableRecord:
    return UndecodableRecord(f"the record has {count} bytes after the end of its {name}")


def decode_body(schema: Schema, value: bytes, start: int, name: str) -> AvroFields:
    """Decode an Avro body, which starts at `start`, with any schema: of a registry, not of the project. Unions come as (name, fields).

    Raises:
        UndecodableRecord: the bytes are no such record; the message says what is wrong and where.

    """
    stream = io.BytesIO(value)
    stream.seek(start)
    try:
        fields: AvroFields = fastavro.schemaless_reader(stream, schema, None, return_record_name=True)
    except _NOT_WHOLE as error:
        reason = str(error).partition(f" from {stream!r}")[0]  # Where the stream is in memory differs from reader to reader.
        at = f"decoding stopped at byte {stream.tell()} of {len(value)} ({type(error).__name__}: {reason})"
        raise UndecodableRecord(f"the record is not a whole {name}: {at}") from error
    if stream.tell() != len(value):
        raise _more_behind(len(value) - stream.tell(), name)
    return fields


class PayloadCodec(EnvelopeCodec):
    """The codec of an envelope whose `payload` is one record out of a union.

    A record is written with the oldest release that says it in the same way, so readers of that version understand it.
    """

    def encode(self, payload: Any, **envelope: Any) -> bytes:
        """Encode the payload with the envelope's other fields."""
        envelope[PAYLOAD] = payload
        header = header_of(self.registry, tag_of(type(payload)))
        return self._sealed(header + _fields_writer(self.registry, header)(envelope))

    def decode(self, value: bytes) -> tuple[Any, AvroFields]:
        """Return the payload and the envelope's other fields but the seal."""
        fields = self.decode_fields(value)
        return fields.pop(PAYLOAD), fields

    def in_ours(self, fields: AvroFields) -> Any:
        """Return the payload of what a registry's schema gave, which may have any types under our names.

        Raises:
            UndecodableRecord: it does not fit our schema.

        """
        stream = io.BytesIO()
        stream.write(self._header)
        try:
            fastavro.schemaless_writer(stream, self._current, {PAYLOAD: fields[PAYLOAD]}, strict_allow_default=True)
        except Exception as error:
            raise UndecodableRecord(f"the record does not fit {self.registry.name}: {error!r}") from error
        return _read_whole(_fields_readers(self.registry)[self._header], stream.getvalue(), self.registry.name)[PAYLOAD]


class ReportsCodec(EnvelopeCodec):
    """The codec of `taskmanagers`: what an instance says at once, in order."""

    def encode(self, reports: Iterable[Any]) -> bytes:
        """Encode the reports."""
        return self._sealed(self._header + _fields_writer(self.registry, self._header)({"reports": tuple(reports)}))

    def decode(self, value: bytes) -> tuple[Any, ...]:
        """Return the reports, in order."""
        reports: tuple[Any, ...] = self.decode_fields(value)["reports"]
        return reports


class _DecisionSchema:
    """What a Decision is written and read with: its events one by one, because a leader writes them so."""

    def __init__(self, header: bytes, schema: Schema) -> None:
        functions = RecordFunctions()
        *head, events, _ = schema["fields"]
        union = events["type"]["items"]
        self.header = header
        self.write_head = functions.fields_writer(head)
        self.readers, self.writers = BranchReaders(functions, union), BranchWriters(functions, union)
        self.read = functions.record_reader(schema, {"events": self._read_events})

    def _read_events(self, data: bytes, i: int) -> tuple[tuple[LogEvent, ...], int]:
        events: list[LogEvent] = []
        while data[i]:
            i = self.read_block(data, i, events)
        return tuple(events), i + 1

    def read_block(self, data: bytes, i: int, events: list[LogEvent]) -> int:
        """Read the events of one block of the array; return where it ends."""
        readers = self.readers
        count, i = read_count(data, i)
        for _ in range(count):
            branch = data[i]
            if branch > _SEVEN_BITS:
                branch, i = read_unsigned(data, i)
            else:
                i += 1
            event, i = readers[branch](data, i)
            events.append(event)
        return i


@cache
def _decision_schemas(registry: WriterSchemas) -> dict[bytes, _DecisionSchema]:
    """Return what each version wrote the log with, by its header."""
    headers = ((MARKER + fingerprint, schema) for fingerprint, schema in registry.by_fingerprint.items())
    return {header: _DecisionSchema(header, schema) for header, schema in headers}


@cache
def _schema_at_level(registry: WriterSchemas, level: int) -> _DecisionSchema:
    """Return what the log is written with at a feature level: no older master meets a schema that it does not have (P19)."""
    schema = registry.current if level == len(registry.releases) else registry.releases[level - 1]
    return _decision_schemas(registry)[MARKER + fingerprint_of(schema)]


class DecisionCodec(EnvelopeCodec):
    """The codec of `log`.

    A leader encodes the events of a decision step by step, before it applies them (P10), and puts them into one record at
    the end. That works because only the seal comes behind `events`, and an Avro array may consist of several blocks. What is written
    goes by the cluster's feature level (P19); whatever was ever released is read.
    """

    def __init__(self, registry: WriterSchemas | None = None, seal: Seal | None = None, sealed_from_offset: int = 0) -> None:
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
        writers = _schema_at_level(self.registry, level).writers
        try:
            written = [writers[type(event)](event) for event in events]
        except UnknownBranch as error:
            raise ValueError(f"the schema of feature level {level} has no {error}") from error
        return b"".join((LONGS[len(written)], *written)) if written else b""

    def decode_events(self, block: bytes, level: int = FEATURE_LEVEL) -> tuple[LogEvent, ...]:
        """Decode what `encode_events` wrote.

        Raises:
            ValueError: the block does not end with its last event.

        """
        if not block:
            return ()
        events: list[LogEvent] = []
        end = _schema_at_level(self.registry, level).read_block(block, 0, events)
        if end != len(block):
            raise ValueError(f"a block of {len(block)} bytes ends at byte {end}")
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
        head = {
            "epoch": epoch,
            "sequence": sequence,
            "leader_id": leader_id,
            "decided_at_ms": decided_at_ms,
            "previous_hash": previous_hash,
            "causes": tuple(causes),
            "actor": actor,
        }
        # Behind the blocks the end of the events, and no seal yet.
        return self._sealed(b"".join((schema.header, schema.write_head(head), *blocks, b"\0\0")))

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
        schema = self._schemas.get(value[:HEADER_LENGTH])
        if schema is None:
            raise self._unknown_header(value)
        decision: Decision = _read_whole(schema.read, value, self.registry.name)
        return decision
