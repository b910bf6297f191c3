"""What a savepoint is: a directory with a manifest, and for each subtask of a stream a copy of its checkpoint with a manifest of its own.

    savepoint-JOB-ID-TIME/
      manifest.json              the job, and which streams with how many subtasks there have to be
      VERTEX/SUBTASK/
        subtask.json             batch, offsets, operators, sizes: written last, so that a part with it is whole
        SHA256SUMS               of the files below checkpoint/ (`savepoint_sums.py`)
        checkpoint/              Spark's own files, up to that batch

The directory is a path, or any URL that fsspec has a file system for. Nothing in it says where it was written or where the job ran, so it
can be moved. Here it is described, read and removed; `savepoint_copy.py` copies checkpoints into one and out of it.
"""

import json
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventflink.jobs.stored_files import say_refused
from eventflink.model.document_faults import describe_fault
from eventflink.model.document_fields import Name
from eventflink.model.places import Place, parse_place
from eventflink.model.statuses import SavepointMode, StreamConnector
from eventflink.streams.failures import StreamUnusable

MANIFEST: Final = "manifest.json"
SUBTASK_MANIFEST: Final = "subtask.json"
CHECKPOINT: Final = "checkpoint"
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
MAX_PARALLELISM: Final = 10_000
UNKNOWN: Final = -1


class SavepointUnusable(StreamUnusable):
    """There is no savepoint, it is not whole, or it does not fit the job."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SavepointStreamDocument(_Document):
    """A stream that has a part for each subtask."""

    vertex_id: Name
    """A directory of this name is read, and removed: what a manifest says is not believed further than a name goes."""
    parallelism: int = Field(ge=1, le=MAX_PARALLELISM)


class SavepointManifest(_Document):
    """What the savepoint as a whole is."""

    format_version: Literal[1] = 1
    cluster_id: str
    job_id: str
    job_name: str
    savepoint_id: int
    """Its number among the checkpoints of the job."""
    mode: SavepointMode
    triggered_at_ms: int
    streams: tuple[SavepointStreamDocument, ...]


class SourcePosition(_Document):
    """Where a source is read next."""

    name: str
    connector: StreamConnector
    location: str
    """The topic, the directory, the rows per second, or `module:function`."""


class SinkPlace(_Document):
    """Where an output goes."""

    name: str
    """Empty: it is the only one, or the default."""
    connector: StreamConnector
    location: str
    """The topic, the directory, or `module:function`."""


class StateOperator(_Document):
    """A stateful operator of the query, as Spark numbers and names them."""

    operator_id: int
    name: str
    partitions: int
    rows: int = UNKNOWN
    """Keys, of most operators; -1: the query had no batch to say it."""
    memory_bytes: int = UNKNOWN


class SubtaskManifest(_Document):
    """One part: what a subtask had done."""

    vertex_id: str
    subtask_index: int
    attempt: int
    batch_id: int
    """The last committed batch; -1: none."""
    next_sink_batch_id: int
    """The batch that the sink has not got yet; of a query that was stopped in a batch it may be one more than the next to be computed."""
    sources: tuple[SourcePosition, ...]
    """In the graph's order."""
    sinks: tuple[SinkPlace, ...]
    """For each of them Spark reads the sources once."""
    offsets: tuple[str, ...]
    """After the batch, as Spark writes them, in the order of its plan; of Kafka the next offset by topic and partition."""
    settings: dict[str, str]
    """Those of Spark that the state was written with, and that it takes from here whatever the session says."""
    watermark_ms: int
    operators: tuple[StateOperator, ...]
    files: int
    """Below `checkpoint/`."""
    bytes: int
    sums_sha256: str
    """The SHA-256 of the file SHA256SUMS."""
    copy_ms: int


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint that is whole."""

    path: str
    manifest: SavepointManifest
    parts: tuple[SubtaskManifest, ...]

    def part(self, vertex_id: str, subtask_index: int) -> SubtaskManifest:
        """Return the part of a subtask that it has."""
        return next(each for each in self.parts if (each.vertex_id, each.subtask_index) == (vertex_id, subtask_index))

    def parallelism_of(self, vertex_id: str) -> int:
        """Return how many parts a stream has; 0: the savepoint does not have it."""
        return next((stream.parallelism for stream in self.manifest.streams if stream.vertex_id == vertex_id), 0)


def part_path(path: str, vertex_id: str, subtask_index: int) -> str:
    """Return the directory of one part."""
    return f"{path.rstrip('/')}/{vertex_id}/{subtask_index}"


def open_path(path: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a savepoint, and what its directory is called there.

    Raises:
        SavepointUnusable: fsspec does not know the scheme, or the package for it is missing.

    """
    try:
        files, root = url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise SavepointUnusable(f"'{path}' cannot be used: {error}") from error
    return files, str(root).rstrip("/")


def say_unwritable(path: str, error: PermissionError) -> str:
    """Return what is told of a place where a savepoint was not to be written."""
    try:
        place = parse_place(path)
    except ValueError:  # Of a store that only fsspec knows.
        place = Place(path)
    return say_refused(place, "written", f"{type(error).__name__}: {error}", "execution.checkpointing.savepoint-dir")


def write_document(files: AbstractFileSystem, path: str, document: BaseModel) -> None:
    """Write a manifest; readers see all of it or nothing, where the file system renames."""
    text = json.dumps(document.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    fresh = f"{path}.{uuid.uuid4().hex}"  # All subtasks write the manifest of the whole.
    files.pipe_file(fresh, text.encode())
    files.mv(fresh, path)


def read_savepoint(path: str) -> Savepoint:
    """Read the manifests of a savepoint.

    Raises:
        SavepointUnusable: it is none, or a part is missing; the message says which.

    """
    files, root = open_path(path)
    manifest = read_manifest(files, root, path)
    parts = []
    for stream in manifest.streams:
        for index in range(stream.parallelism):
            part = part_path(root, stream.vertex_id, index)
            missing = f"the savepoint '{path}' is not complete: it has no part of {stream.vertex_id}[{index}]"
            parts.append(_read(files, f"{part}/{SUBTASK_MANIFEST}", SubtaskManifest, missing))
    return Savepoint(path, manifest, tuple(parts))


def read_manifest(files: AbstractFileSystem, root: str, path: str) -> SavepointManifest:
    """Read what a savepoint is as a whole; its parts may be missing.

    Raises:
        SavepointUnusable: it is none.

    """
    return _read(files, f"{root}/{MANIFEST}", SavepointManifest, f"invalid savepoint '{path}': it has no {MANIFEST}")


_M = TypeVar("_M", bound=BaseModel)


def read_file(files: AbstractFileSystem, path: str, max_bytes: int, missing: str) -> bytes:
    """Return the content of a file of a savepoint, up to a length.

    Raises:
        SavepointUnusable: the file does not exist (the message is `missing`), or it cannot be read.

    """
    try:
        with files.open(path, "rb") as file:
            content: bytes = file.read(max_bytes)
    except FileNotFoundError as error:
        raise SavepointUnusable(missing) from error
    except Exception as error:  # each file system has errors of its own
        raise SavepointUnusable(f"'{path}' cannot be read: {type(error).__name__}: {error}") from error
    return content


def _read(files: AbstractFileSystem, path: str, model: type[_M], missing: str) -> _M:
    content = read_file(files, path, MAX_MANIFEST_BYTES + 1, missing)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}." for part in first["loc"])[:-1] + ": " if first["loc"] else ""
        raise SavepointUnusable(f"'{path}' is not what a savepoint has there: {place}{describe_fault(first)}") from error


def check_streams(savepoint: Savepoint, vertex_ids: Collection[str], *, allow_non_restored_state: bool) -> None:
    """Check that no state is left behind which nobody allowed to leave.

    Raises:
        SavepointUnusable: it has streams that the job does not have.

    """
    left = [stream.vertex_id for stream in savepoint.manifest.streams if stream.vertex_id not in vertex_ids]
    if left and not allow_non_restored_state:
        raise SavepointUnusable(
            f"the savepoint '{savepoint.path}' has the streams {', '.join(map(repr, left))}, which no stream of the job goes on with: "
            f"one goes on with that of the same vertex id; the job has {', '.join(map(repr, vertex_ids))}. With "
            "allow_non_restored_state they are left behind"
        )


def dispose_savepoint(path: str) -> SavepointManifest:
    """Remove a savepoint, whole or not, and return what it was.

    Only what a savepoint has is removed, and the directory if nothing else is in it.

    Raises:
        SavepointUnusable: it is none, or cannot be removed.

    """
    files, root = open_path(path)
    manifest = read_manifest(files, root, path)
    try:
        for stream in manifest.streams:
            if files.exists(f"{root}/{stream.vertex_id}"):
                files.rm(f"{root}/{stream.vertex_id}", recursive=True)
        files.rm_file(f"{root}/{MANIFEST}")  # The last: until then it can be tried again.
        files.invalidate_cache()
        if files.exists(root) and not files.ls(root, detail=False):
            files.rmdir(root)
    except Exception as error:  # each file system has errors of its own
        raise SavepointUnusable(f"the savepoint '{path}' was not removed: {type(error).__name__}: {error}") from error
    return manifest
