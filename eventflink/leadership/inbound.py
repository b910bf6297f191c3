"""From the bytes of an inbound record to inputs of the master: every encoding that a client may use, and every refusal.

`submissions` and `commands` take Avro single-object encoding, plain JSON, and the Confluent wire format when a schema
registry is configured; `taskmanagers` takes only Avro. What cannot be read becomes an `UnreadableInput`, which the master
answers with a rejection and a dead letter. Sizes are limited before anything is decoded (P10). Pure: the registry's schemas
are handed in.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventflink.events.codec import PayloadCodec, ReportsCodec, UndecodableRecord, decode_body, read_payload
from eventflink.events.inputs import (
    NO_REPLY,
    BlockTaskManager,
    CancelJob,
    Command,
    DrillStep,
    JobSubmission,
    Request,
    RequestFileUpload,
    RequestTaskManagerFileUpload,
    RescaleJob,
    ResumeJob,
    ShutDownCluster,
    SuspendJob,
    UnblockTaskManager,
)
from eventflink.events.topics import MAX_INBOUND_BYTES, Topic
from eventflink.leadership.inbox import InboundRecord
from eventflink.master.inputs import InputTooOld, MasterInput, PoisonedInput, UnreadableInput
from eventflink.model.configuration import ID_PATTERN
from eventflink.model.job_graph_document import InvalidJobGraph, describe_errors, is_valid_job_id, parse_job_graph, to_document
from eventflink.model.statuses import ApplicationStatus, DrillStepType, TaskFile, TaskManagerFile

CONFLUENT_MAGIC: Final = 0
CONFLUENT_HEADER_LENGTH: Final = 5
MAX_REPLY_PARTITION: Final = 1_000
_JSON_STARTS: Final = b'{[ \t\r\n"'

RegistrySchema = Callable[[int], Any]
"""Returns the parsed schema of an id of the schema registry, or raises UndecodableRecord."""


def no_registry(schema_id: int) -> Any:
    """Refuse the Confluent wire format."""
    raise UndecodableRecord(
        f"the record is in the Confluent wire format (schema id {schema_id}), but schema.registry.url is not configured"
    )


class RequestDocument(BaseModel):
    """What all JSON requests have."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request_id: str = Field("", max_length=128)
    reply_partition: int = Field(NO_REPLY, ge=NO_REPLY, le=MAX_REPLY_PARTITION)
    actor: str = Field("", max_length=256)


class SubmissionDocument(RequestDocument):
    """A JSON record of `submissions`; a bare job graph is one as well."""

    job_id: str = ""
    job_graph: dict[str, Any]


class CancelJobDocument(RequestDocument):
    """A JSON record of `commands` that ends a job."""

    type: Literal["CancelJob"]
    job_id: str
    leader_id: str = ""
    job_master_id: str = ""


class RequestFileUploadDocument(RequestDocument):
    """A JSON record of `commands` that asks for a file of a task attempt."""

    type: Literal["RequestFileUpload"]
    job_id: str
    vertex_id: str
    subtask_index: int = 0
    attempt: int = 1
    file: Literal["LOG", "STDOUT", "STDERR"] = "LOG"
    leader_id: str = ""


class DrillStepDocument(RequestDocument):
    """A JSON record of `commands` that asks the leader to fall."""

    type: Literal["DrillStep"]
    drill_id: str = Field(max_length=128)
    step: Literal["STOP", "FREEZE", "KILL"]
    master_id: str
    duration_ms: int = 0


class BlockTaskManagerDocument(RequestDocument):
    """A JSON record of `commands` that keeps new tasks away from a TaskManager."""

    type: Literal["BlockTaskManager"]
    task_manager_id: str
    reason: str = ""
    duration_ms: int = 0
    leader_id: str = ""


class UnblockTaskManagerDocument(RequestDocument):
    """A JSON record of `commands` that gives slots of a TaskManager away again."""

    type: Literal["UnblockTaskManager"]
    task_manager_id: str
    leader_id: str = ""


class SuspendJobDocument(RequestDocument):
    """A JSON record of `commands` that stops a job without ending it."""

    type: Literal["SuspendJob"]
    job_id: str
    reason: str = ""
    leader_id: str = ""
    job_master_id: str = ""


class ResumeJobDocument(RequestDocument):
    """A JSON record of `commands` that lets a suspended job go on."""

    type: Literal["ResumeJob"]
    job_id: str
    leader_id: str = ""


class RequestTaskManagerFileUploadDocument(RequestDocument):
    """A JSON record of `commands` that asks for something of a TaskExecutor itself."""

    type: Literal["RequestTaskManagerFileUpload"]
    task_manager_id: str
    file: Literal["LOG", "STDOUT", "NAMED", "LOG_LIST", "THREAD_DUMP"] = "LOG"
    name: str = ""
    leader_id: str = ""


class ShutDownClusterDocument(RequestDocument):
    """A JSON record of `commands` that ends the whole cluster."""

    type: Literal["ShutDownCluster"]
    application_status: Literal["SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"] = "SUCCEEDED"
    diagnostics: str = ""
    cancel_jobs: bool = False
    leader_id: str = ""


class RescaleJobDocument(RequestDocument):
    """A JSON record of `commands` that gives a vertex another parallelism."""

    type: Literal["RescaleJob"]
    job_id: str
    vertex_id: str
    parallelism: int
    leader_id: str = ""
    job_master_id: str = ""


@dataclass(slots=True)
class Inbound:
    """What a record says, and who said it."""

    inputs: tuple[MasterInput, ...]
    actor: str = ""


class InvalidRequest(Exception):
    """A record that can be read, but asks for something impossible; the message says what is wrong and where."""


class InboundDecoder:
    """Decodes the records of all inbound topics."""

    def __init__(self, request_horizon_ms: int, registry_schema: RegistrySchema = no_registry) -> None:
        """Load the envelopes' schemas."""
        self._codecs = {Topic.SUBMISSIONS: PayloadCodec("SubmissionEnvelope"), Topic.COMMANDS: PayloadCodec("CommandEnvelope")}
        self._reports = ReportsCodec("TaskManagerEnvelope")
        self._horizon_ms = request_horizon_ms
        self._registry_schema = registry_schema

    def decode(self, record: InboundRecord, now_ms: int) -> Inbound:
        """Return the inputs of a record; a record that cannot be read is an input as well."""
        topic = Topic(record.topic)
        try:
            value = _checked_value(record)
            if topic is Topic.TASKMANAGERS:
                return Inbound(self._reports.decode(value))
            payload = self._request(topic, value)
        except UndecodableRecord as error:
            return Inbound((self._unreadable(record, "UndecodableRecord", str(error)),))
        except InvalidRequest as error:
            return Inbound((self._unreadable(record, "InvalidRequest", str(error)),))
        return self._checked_request(record, payload, now_ms)

    def poisoned(self, record: InboundRecord, error: str, now_ms: int) -> Inbound:
        """Return the refusal of an input that cannot be decided; whoever asked is answered if that can still be read from it."""
        request_id, partition, subject = "", NO_REPLY, ""
        try:
            inputs = self.decode(record, now_ms).inputs
        except Exception:  # noqa: BLE001 - it may be the decoder that it ends leaderships in
            inputs = ()
        for value in inputs:
            if isinstance(value, Request):
                request_id, partition, subject = value.request_id, value.reply_partition, value.subject
        return Inbound((PoisonedInput(record.topic, record.offset, error, request_id, partition, subject),))

    def _request(self, topic: Topic, value: bytes) -> Request:
        if value[:1] and value[0] in _JSON_STARTS:
            return _submission_from_json(value) if topic is Topic.SUBMISSIONS else _command_from_json(value)
        codec = self._codecs[topic]
        payload: Any
        if value[:1] == bytes([CONFLUENT_MAGIC]) and len(value) >= CONFLUENT_HEADER_LENGTH:
            schema = self._registry_schema(int.from_bytes(value[1:CONFLUENT_HEADER_LENGTH], "big"))
            fields = decode_body(schema, value, CONFLUENT_HEADER_LENGTH, codec.registry.name)
            if not isinstance(fields, dict) or "payload" not in fields:
                raise UndecodableRecord(f"the registry's schema is not a {codec.registry.name}: it has no field 'payload'")
            payload = _as_ours(codec, read_payload(fields["payload"]))
        else:
            payload, _ = codec.decode(value)
        if not isinstance(payload, Request):
            raise UndecodableRecord(f"a {type(payload).__name__} is nothing for {topic}")
        return payload

    def _checked_request(self, record: InboundRecord, payload: Request, now_ms: int) -> Inbound:
        """Fill in the ids that were left out and check those that were not."""
        derived = f"{record.topic}-0-{record.offset}"
        payload.request_id = payload.request_id or derived
        if not NO_REPLY <= payload.reply_partition <= MAX_REPLY_PARTITION:
            payload.reply_partition = NO_REPLY
            return Inbound((_refusal_of(payload, f"reply_partition is not between {NO_REPLY} and {MAX_REPLY_PARTITION}"),))
        if len(payload.request_id) > 128:  # noqa: PLR2004 - as in the documents above
            return Inbound((_refusal_of(payload, "request_id is longer than 128 characters"),))
        if isinstance(payload, JobSubmission):
            payload.job_id = payload.job_id or _id_of_key(record.key) or derived
            try:  # A graph that came as an Avro record meets the same checks as a document.
                payload.job_graph = parse_job_graph(to_document(payload.job_graph), "job_graph")
            except InvalidJobGraph as error:
                return Inbound((_refusal_of(payload, f"{record.topic}@{record.offset}: {error}"),), payload.actor)
        subject = payload.subject
        if not is_valid_job_id(subject):
            rule = "may hold only letters, digits, '.', '_' and '-', at most 128, beginning with a letter or digit"
            return Inbound((_refusal_of(payload, f"{payload.subject_field} '{subject[:200]}' {rule}"),))
        payload.actor = payload.actor[:256]
        age_ms = now_ms - record.timestamp_ms
        if record.timestamp_ms > 0 and age_ms > self._horizon_ms:
            return Inbound((InputTooOld(payload.request_id, payload.reply_partition, subject, age_ms),), payload.actor)
        return Inbound((payload,), payload.actor)

    def _unreadable(self, record: InboundRecord, code: str, message: str) -> UnreadableInput:
        """Return the refusal; the record's key, where it is an id, names whom it concerns."""
        subject = _id_of_key(record.key)
        request = _request_hints(record.value)
        request_id = request.get("request_id") or subject
        partition = request.get("reply_partition", -1)
        where = f"{record.topic}@{record.offset}: {message}"
        return UnreadableInput(code, where, request.get("job_id") or subject, request_id, partition)


def _as_ours(codec: PayloadCodec, payload: Any) -> Any:
    """Return what a registry's schema gave as our schema has it: the registry may hold any types under our names."""
    try:
        return codec.decode(codec.encode(payload))[0]
    except Exception as error:
        raise UndecodableRecord(f"the record does not fit {codec.registry.name}: {error!r}") from error


def _checked_value(record: InboundRecord) -> bytes:
    if record.value is None:
        raise UndecodableRecord("the record has no value")
    if len(record.value) > MAX_INBOUND_BYTES:
        raise UndecodableRecord(f"the record has {len(record.value)} bytes; at most {MAX_INBOUND_BYTES} are read")
    return record.value


def _id_of_key(key: bytes | None) -> str:
    if not key:
        return ""
    text = key.decode("utf-8", "replace")
    return text if ID_PATTERN.fullmatch(text) else ""


def _request_hints(value: bytes | None) -> dict[str, Any]:
    """Return what can still be told of a refused JSON request, so that its sender gets an answer."""
    if not value or len(value) > MAX_INBOUND_BYTES or value[0] not in _JSON_STARTS:
        return {}
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, Mapping):
        return {}
    hints: dict[str, Any] = {}
    for name in ("request_id", "job_id"):
        text = document.get(name)
        if isinstance(text, str) and ID_PATTERN.fullmatch(text):
            hints[name] = text
    partition = document.get("reply_partition")
    if isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition <= MAX_REPLY_PARTITION:
        hints["reply_partition"] = partition
    return hints


def _parsed_json(value: bytes) -> dict[str, Any]:
    try:
        text = value.decode(json.detect_encoding(value))
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UndecodableRecord(f"the record begins like JSON but is none: {error or 'nested too deeply'}") from error
    if half := _find_half_of_a_pair(text, document):
        raise InvalidRequest(f"the record holds {half}, half of a surrogate pair: no character, and nothing that could be written")
    if not isinstance(document, dict):
        raise InvalidRequest(f"a request is a JSON object, not {type(document).__name__}")
    return document


def _find_half_of_a_pair(text: str, document: Any) -> str:
    r"""Return the first half of a surrogate pair without its other half, as JSON escapes it (`\ud800`); empty if there is none."""
    if "\\ud" not in text.lower():  # Only an escape can say it: in UTF-8 itself it was refused.
        return ""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return json.dumps(error.object[error.start]).strip('"')
    except RecursionError as error:
        raise UndecodableRecord("the record begins like JSON but is none: nested too deeply") from error
    return ""


def _submission_from_json(value: bytes) -> JobSubmission:
    document = _parsed_json(value)
    if "vertices" in document:  # A bare job graph.
        document = {"job_graph": document}
    try:
        submission = SubmissionDocument.model_validate(document)
        graph = parse_job_graph(submission.job_graph, "job_graph")
    except ValidationError as error:
        raise InvalidRequest(describe_errors(error)) from error
    except InvalidJobGraph as error:
        raise InvalidRequest(str(error)) from error
    return JobSubmission(
        job_id=submission.job_id,
        request_id=submission.request_id,
        reply_partition=submission.reply_partition,
        actor=submission.actor,
        job_graph=graph,
    )


def _command_from_json(value: bytes) -> Command:
    document = _parsed_json(value)
    kinds: dict[object, type[RequestDocument]] = {
        "CancelJob": CancelJobDocument,
        "RequestFileUpload": RequestFileUploadDocument,
        "DrillStep": DrillStepDocument,
        "BlockTaskManager": BlockTaskManagerDocument,
        "UnblockTaskManager": UnblockTaskManagerDocument,
        "SuspendJob": SuspendJobDocument,
        "ResumeJob": ResumeJobDocument,
        "RequestTaskManagerFileUpload": RequestTaskManagerFileUploadDocument,
        "ShutDownCluster": ShutDownClusterDocument,
        "RescaleJob": RescaleJobDocument,
    }
    kind = document.get("type")
    model = kinds.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise InvalidRequest(f"type: {json.dumps(kind)[:100]} is not a command; there are {', '.join(str(k) for k in kinds)}")
    try:
        command = model.model_validate(document)
    except ValidationError as error:
        raise InvalidRequest(describe_errors(error)) from error
    fields = command.model_dump(exclude={"type"})
    if isinstance(command, DrillStepDocument):
        return DrillStep(**{**fields, "step": DrillStepType(fields["step"])})
    if isinstance(command, RequestFileUploadDocument):
        return RequestFileUpload(**{**fields, "file": TaskFile(fields["file"])})
    if isinstance(command, RequestTaskManagerFileUploadDocument):
        return RequestTaskManagerFileUpload(**{**fields, "file": TaskManagerFile(fields["file"])})
    if isinstance(command, ShutDownClusterDocument):
        return ShutDownCluster(**{**fields, "application_status": ApplicationStatus(fields["application_status"])})
    return _COMMANDS[type(command)](**fields)


_COMMANDS: Final[Mapping[type[RequestDocument], Callable[..., Command]]] = {
    CancelJobDocument: CancelJob,
    BlockTaskManagerDocument: BlockTaskManager,
    UnblockTaskManagerDocument: UnblockTaskManager,
    SuspendJobDocument: SuspendJob,
    ResumeJobDocument: ResumeJob,
    RescaleJobDocument: RescaleJob,
}
"""What the documents mean that say it in the same fields."""


def _refusal_of(payload: Request, message: str) -> UnreadableInput:
    return UnreadableInput("InvalidRequest", message, payload.subject[:128], payload.request_id[:128], payload.reply_partition)
