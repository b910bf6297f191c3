"""From the bytes of an inbound record to inputs of the master: every encoding that a client may use, and every refusal.

`submissions` and `commands` take Avro single-object encoding, plain JSON, and the Confluent wire format when a schema
registry is configured; `taskmanagers` takes only Avro. In whatever encoding a request comes, its fields meet the same checks, which are
derived from its class in `events/inputs.py`. What cannot be read becomes an `UnreadableInput`, which the master answers with a
rejection and a dead letter. Sizes are limited before anything is decoded (P10). Pure: the registry's schemas are handed in.
"""

import codecs
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, PlainValidator, Strict, ValidationError, create_model

from eventflink.events.codec import PayloadCodec, ReportsCodec, UndecodableRecord, decode_body
from eventflink.events.inputs import (
    COMMANDS,
    MASTERS_COMMANDS,
    MAX_ACTOR_LENGTH,
    MAX_ID_LENGTH,
    MAX_REPLY_PARTITION,
    MAX_SCHEDULE_ID_LENGTH,
    NO_REPLY,
    REQUESTS,
    FireSchedule,
    JobSubmission,
    Request,
    RerunJob,
)
from eventflink.events.request_sizes import find_size_fault
from eventflink.events.schemas import MARKER
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import MAX_INBOUND_BYTES, MAX_REQUEST_BYTES, Topic
from eventflink.leadership.intake import InboundRecord
from eventflink.leadership.senders import Sender, sender_of
from eventflink.master.inputs import MasterInput, PoisonedInput, UnreadableInput
from eventflink.model.actors import named
from eventflink.model.avro_schema import CONFLUENT_HEADER_LENGTH, CONFLUENT_MAGIC
from eventflink.model.configuration import ID_PATTERN
from eventflink.model.document_faults import describe_faults, describe_value
from eventflink.model.document_text import InvalidText, read_json
from eventflink.model.job_graph import JobGraph, ParameterValue
from eventflink.model.job_graph_document import InvalidJobGraph, bind_parameters, check_job_graph, to_document
from eventflink.model.job_parameters import read_given
from eventflink.model.schedule_document import InvalidSchedule, check_schedule, schedule_document
from eventflink.model.schedules import ScheduleDefinition
from eventflink.model.texts import did_you_mean

_JSON_STARTS: Final = (*(bytes([byte]) for byte in b'{[ \t\r\n"'), codecs.BOM_UTF8)

RegistrySchema = Callable[[int], Any]
"""Returns the parsed schema of an id of the schema registry, or raises UndecodableRecord."""

Fields = dict[str, Any]
"""What a request says, by the names of its fields: from its JSON document, or from its Avro record."""


def no_registry(schema_id: int) -> Any:
    """Refuse the Confluent wire format."""
    raise UndecodableRecord(
        f"the record is in the Confluent wire format (schema id {schema_id}), but schema.registry.url is not configured"
    )


@dataclass(slots=True)
class Inbound:
    """What a record says, and who said it."""

    inputs: tuple[MasterInput, ...]
    actor: str = ""


class InvalidRequest(Exception):
    """A record that can be read, but asks for something impossible; the message says what is wrong and where."""

    code: ClassVar = "InvalidRequest"

    def __init__(self, message: str, fields: Fields | None = None, subject_field: str = Request.subject_field) -> None:
        """Keep what the request says, as far as it could be read: so its sender gets an answer."""
        super().__init__(message)
        self.fields = fields or {}
        self.subject_field = subject_field


class UnfitRecord(InvalidRequest):
    """A record that can be read by its own schema, and does not fit ours."""

    code: ClassVar = "UndecodableRecord"


class InboundDecoder:
    """Decodes the records of all inbound topics."""

    def __init__(self, registry_schema: RegistrySchema = no_registry, seals: Seals = NO_SEALS) -> None:
        self._codecs = {Topic.SUBMISSIONS: PayloadCodec("SubmissionEnvelope"), Topic.COMMANDS: PayloadCodec("CommandEnvelope")}
        self._reports = ReportsCodec("TaskManagerEnvelope", seal=seals.of(Topic.TASKMANAGERS))
        self._seals = {topic: seals.of(topic) for topic in self._codecs}
        self._registry_schema = registry_schema

    def decode(self, record: InboundRecord) -> Inbound:
        """Return the inputs of a record; a record that cannot be read is an input as well."""
        topic, is_proven = Topic(record.topic), False
        try:
            value = _checked_value(record)
            if topic is Topic.TASKMANAGERS:
                return Inbound(self._reports.decode(value))
            is_proven = self._is_proven(topic, value)
            request = self._request(topic, value, record)
            self._check_speaker(request, is_proven=is_proven)
            request.actor = named(request.actor, is_proven=is_proven)
        except UndecodableRecord as error:
            return _refusal(record, "UndecodableRecord", InvalidRequest(str(error)), is_proven=is_proven)
        except InvalidRequest as error:
            return _refusal(record, error.code, error, is_proven=is_proven)
        return Inbound((request,), request.actor)

    def _is_proven(self, topic: Topic, value: bytes) -> bool:
        """Tell whether one of the cluster's own processes says who asks (L6)."""
        seal = self._seals[topic]
        return seal is not None and seal.is_genuine(value)

    def _check_speaker(self, request: Request, *, is_proven: bool) -> None:
        """Check that a master says what masters alone say (P3a)."""
        if isinstance(request, MASTERS_COMMANDS) and self._seals[request.topic] is not None and not is_proven:
            fields = {"request_id": request.request_id, "reply_partition": request.reply_partition}
            raise InvalidRequest(
                f"{type(request).__name__} is said by masters alone, and the record has no valid seal of this cluster", fields
            )

    @staticmethod
    def poisoned(record: InboundRecord, error: str, value: MasterInput | None = None) -> PoisonedInput:
        """Return the refusal of an input that cannot be decided. It is not decoded for that; `value` is what was decoded of it before."""
        sender = sender_of(record)
        if isinstance(value, Request):
            sender = Sender(value.request_id, value.reply_partition, value.subject)
        return PoisonedInput(record.topic, record.offset, error, *sender)

    def _request(self, topic: Topic, value: bytes, record: InboundRecord) -> Request:
        if value.startswith(_JSON_STARTS):
            document = _parsed_json(value)
            return _checked(*(_submission_of(document) if topic is Topic.SUBMISSIONS else _command_of(document)), record)
        codec = self._codecs[topic]
        payload: Any
        if value[:1] == bytes([CONFLUENT_MAGIC]) and len(value) >= CONFLUENT_HEADER_LENGTH:
            schema = self._registry_schema(int.from_bytes(value[1:CONFLUENT_HEADER_LENGTH], "big"))
            fields = decode_body(schema, value, CONFLUENT_HEADER_LENGTH, codec.registry.name)
            if not isinstance(fields, dict) or "payload" not in fields:
                raise UndecodableRecord(f"the registry's schema is not a {codec.registry.name}: it has no field 'payload'")
            try:
                payload = codec.in_ours(fields)
            except UndecodableRecord as error:
                raise UnfitRecord(str(error), _said_outside(fields["payload"])) from error
        else:
            payload, _ = codec.decode(value)
            if fault := find_size_fault(payload, len(value)):
                raise InvalidRequest(fault, {name: getattr(payload, name) for name in ("request_id", "reply_partition")})
        return _checked(type(payload), {name: getattr(payload, name) for name in _DOCUMENTS[type(payload)].model_fields}, record)


def _checked_value(record: InboundRecord) -> bytes:
    if record.value is None:
        raise UndecodableRecord("the record has no value")
    is_request = record.value.startswith(MARKER) and record.topic != Topic.TASKMANAGERS
    most = MAX_REQUEST_BYTES if is_request else MAX_INBOUND_BYTES
    if len(record.value) > most:
        raise UndecodableRecord(f"the record has {len(record.value)} bytes; at most {most} are read")
    return record.value


# -- JSON -----------------------------------------------------------------------------------------------------------


def _parsed_json(value: bytes) -> Fields:
    try:
        document = read_json(value.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UndecodableRecord(f"the record begins like JSON but is not UTF-8: {error.reason} at byte {error.start}") from error
    except InvalidText as error:
        if not isinstance(error.document, dict):
            raise UndecodableRecord(f"the record begins like JSON, but: {error}") from error
        raise InvalidRequest(str(error), error.document) from error
    if not isinstance(document, dict):
        raise InvalidRequest(f"a request is a JSON object, not {describe_value(document)}")
    return document


def _submission_of(document: Fields) -> tuple[type[Request], Fields]:
    """Return what a submission says; a bare job graph is one as well, with what a submission has besides, or without it."""
    if "vertices" not in document or "job_graph" in document:
        return JobSubmission, document
    beside = {name: document.pop(name) for name in _BESIDE_A_GRAPH if name in document}
    return JobSubmission, {"job_graph": document, **beside}


def _said_outside(payload: Any) -> Fields:
    """Return what a record of another schema says outside of its nested records; a union is a pair of a name and a record."""
    said = payload[1] if isinstance(payload, tuple) else payload
    return said if isinstance(said, dict) else {}


def _command_of(document: Fields) -> tuple[type[Request], Fields]:
    name = document.pop("type", None)
    if not isinstance(name, str) or name not in COMMANDS:
        message = f"unknown type: {json.dumps(name)[:100]}{did_you_mean(name, COMMANDS)}; known: {', '.join(COMMANDS)}"
        raise InvalidRequest(message, document)
    return COMMANDS[name], document


def read_command(value: bytes, request_id: str) -> Request:
    """Return the command that a JSON document says, by the checks of the topic `commands`; `request_id` where it names none.

    Raises:
        UndecodableRecord: it is no JSON.
        InvalidRequest: it says no command, or an impossible one.

    """
    document = _parsed_json(value)
    document["request_id"] = document.get("request_id") or request_id
    return _checked(*_command_of(document), InboundRecord(Topic.COMMANDS, 0, None, None))


# -- checks ---------------------------------------------------------------------------------------------------------


def _read_job_graph(value: object) -> JobGraph:
    """Check a graph, in JSON its document, in Avro the record: once, and by the same rules. Each of its parameters has a value."""
    try:
        return bind_parameters(_checked_graph(value), {})
    except InvalidJobGraph as error:
        raise ValueError(str(error)) from error


def _read_next_graph(value: object) -> JobGraph | None:
    """Check what runs in place of the graph of an ended job, whose values its parameters may have."""
    try:
        return _checked_graph(value) if value is not None else None
    except InvalidJobGraph as error:
        raise ValueError(str(error)) from error


def _checked_graph(value: object) -> JobGraph:
    return check_job_graph(to_document(value) if isinstance(value, JobGraph) else value)


def _read_schedule(value: object) -> ScheduleDefinition:
    """Check a schedule, in JSON its document, in Avro the record."""
    try:
        return check_schedule(schedule_document(value) if isinstance(value, ScheduleDefinition) else value)
    except (InvalidSchedule, InvalidJobGraph) as error:
        raise ValueError(str(error)) from error


def _written_type(annotation: Any) -> Any:
    """Return how a field's type is written in a request: an enumeration by a symbol, parameters as a mapping, others as their documents.

    In JSON a tuple is a list.
    """
    if annotation is JobGraph:
        return Annotated[Any, PlainValidator(_read_job_graph)]
    if annotation == JobGraph | None:
        return Annotated[Any, PlainValidator(_read_next_graph)]
    if annotation is ScheduleDefinition:
        return Annotated[Any, PlainValidator(_read_schedule)]
    if annotation == tuple[ParameterValue, ...]:
        return Annotated[Any, PlainValidator(read_given)]
    said = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    is_loose = get_origin(said) is tuple or (isinstance(said, type) and issubclass(said, Enum))
    return Annotated[annotation, Strict(strict=False)] if is_loose else annotation


def _document_of(cls: type[Request]) -> type[BaseModel]:
    """Derive the checks of a request's fields from its class: names, types, defaults and bounds."""
    hints = get_type_hints(cls, include_extras=True)
    fields: Fields = {
        f.name: (_written_type(hints[f.name]), ... if f.default is dataclasses.MISSING else f.default) for f in dataclasses.fields(cls)
    }
    return create_model(cls.__name__, __config__=ConfigDict(extra="forbid", strict=True), **fields)


_BESIDE_A_GRAPH: Final = tuple(each.name for each in dataclasses.fields(JobSubmission) if each.name != "job_graph")

_DOCUMENTS: Final[Mapping[type, type[BaseModel]]] = {cls: _document_of(cls) for cls in REQUESTS}


def _checked(cls: type[Request], fields: Fields, record: InboundRecord) -> Request:
    """Check what a request says, and return it with the ids that were left out."""
    document, derived = _DOCUMENTS[cls], f"{record.topic}-0-{record.offset}"
    if record.rebound_count:
        derived += f"-{record.rebound_count}"
    try:
        request = cls(**vars(document.model_validate(fields)))
    except ValidationError as error:
        raise InvalidRequest(describe_faults(error, document.model_fields), fields, cls.subject_field) from error
    request.request_id = request.request_id or derived
    ids = {cls.subject_field: request.subject}
    if isinstance(request, JobSubmission):
        ids["job_id"] = request.job_id = request.job_id or _id_of_key(record.key) or derived
    elif isinstance(request, RerunJob):
        ids |= {"job_id": _named_by_request(request), "rerun_of": request.rerun_of}
        request.job_id = ids["job_id"]
    elif isinstance(request, FireSchedule):
        ids |= {"job_id": _named_by_request(request), "schedule_id": request.schedule_id}
        request.job_id = ids["job_id"]
    for name, value in ids.items():
        if name == "schedule_id" and len(value) > MAX_SCHEDULE_ID_LENGTH:
            raise InvalidRequest(f"schedule_id '{value[:200]}' may have at most {MAX_SCHEDULE_ID_LENGTH} characters", fields)
        if not ID_PATTERN.fullmatch(value):
            rule = f"may hold only letters, digits, '.', '_' and '-', at most {MAX_ID_LENGTH}, beginning with a letter or digit"
            raise InvalidRequest(f"{name} '{value[:200]}' {rule}", fields, cls.subject_field)
    return request


def _named_by_request(request: RerunJob | FireSchedule) -> str:
    """Return the id of the new job. Without one it is the id of the request, so that a repeated request means the same job."""
    if request.job_id or ID_PATTERN.fullmatch(request.request_id):
        return request.job_id or request.request_id
    return hashlib.sha256(request.request_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- refusals -------------------------------------------------------------------------------------------------------


def _refusal(record: InboundRecord, code: str, error: InvalidRequest, *, is_proven: bool) -> Inbound:
    """Return the refusal; whom it concerns is taken from what can be read, else from the record's key, where that is an id.

    A request id that is guessed from the key is answered on every partition: such an answer is not remembered (P8).
    """
    key, fields = _id_of_key(record.key), error.fields
    partition = fields.get("reply_partition")
    request_id = _text_of(fields, "request_id", MAX_ID_LENGTH)
    if type(partition) is not int or not 0 <= partition <= MAX_REPLY_PARTITION or (key and not request_id):
        partition = NO_REPLY
    request_id = request_id or key
    subject = _text_of(fields, error.subject_field, MAX_ID_LENGTH) or key
    message = f"{record.topic}@{record.offset}: {error}"
    actor = named(_text_of(fields, "actor", MAX_ACTOR_LENGTH), is_proven=is_proven)
    return Inbound((UnreadableInput(code, message, subject, request_id, partition),), actor)


def _text_of(fields: Fields, name: str, max_length: int) -> str:
    text = fields.get(name)
    return text if isinstance(text, str) and len(text) <= max_length and text.isprintable() else ""


def _id_of_key(key: bytes | None) -> str:
    text = (key or b"").decode("utf-8", "replace")
    return text if ID_PATTERN.fullmatch(text) else ""
