"""Takes one subtask's part of a savepoint: copies its checkpoint, and writes down what that is."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fsspec import AbstractFileSystem

from eventflink.model.job_graph import StreamDefinition
from eventflink.model.places import Place
from eventflink.streams.progress import last_committed_batch
from eventflink.streams.savepoint import (
    CHECKPOINT,
    MANIFEST,
    SUBTASK_MANIFEST,
    UNKNOWN,
    SavepointManifest,
    SavepointUnusable,
    SinkPlace,
    SourcePosition,
    StateOperator,
    SubtaskManifest,
    open_path,
    part_path,
    say_unwritable,
    write_document,
)
from eventflink.streams.savepoint_copy import CopiedFiles, copy_checkpoint, read_batch_note, state_operators
from eventflink.streams.savepoint_sums import write_sums
from eventflink.streams.sinks import SinkWriter, settle_sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StateOperatorProgress

logger = logging.getLogger(__name__)

_TRIES: Final = 3
"""How often a copy begins again because the query went on, and removed what was to be copied."""


@dataclass(frozen=True, slots=True)
class SavepointPart:
    """Where the part of one subtask goes."""

    files: AbstractFileSystem
    path: str
    vertex_id: str
    subtask_index: int


def open_part(path: str, manifest: SavepointManifest, vertex_id: str, subtask_index: int) -> SavepointPart:
    """Make the directory of a part, and the manifest of the whole, which all parts write alike: who cannot write notices it here.

    Raises:
        SavepointUnusable: fsspec does not know the scheme of the path, or nothing may be written there.
        Exception: whatever else its file system raises.

    """
    files, root = open_path(path)
    part = part_path(root, vertex_id, subtask_index)
    try:
        files.makedirs(part, exist_ok=True)
        if not files.exists(f"{root}/{MANIFEST}"):
            write_document(files, f"{root}/{MANIFEST}", manifest)
    except PermissionError as error:
        raise SavepointUnusable(say_unwritable(path, error)) from error
    return SavepointPart(files, part, vertex_id, subtask_index)


def take_part(
    part: SavepointPart,
    stream: StreamDefinition,
    writer: SinkWriter,
    operators: "list[StateOperatorProgress]",
    resolve: Callable[[str], Callable[..., Any]],
    spark: "SparkSession",
    *,
    is_stopped: bool,
) -> SubtaskManifest:
    """Copy the checkpoint of a subtask as it is after its last committed batch, and write what it is.

    Args:
        part: where it goes.
        stream: what the graph declares.
        writer: who writes to the sink, and where its checkpoints are.
        operators: what Spark says of the stateful operators.
        resolve: finds a function of the user's code by `module:function`.
        spark: the session of the query.
        is_stopped: whether the query was stopped, so that the batch that was cut may be in the sink already.

    """
    began_s = time.monotonic()
    batch_id, copied = _copy(part, writer.location, with_next_batch=is_stopped)
    next_sink_batch_id = settle_sinks(stream.sinks, writer, batch_id + 1, resolve, spark) if is_stopped else batch_id + 1
    note = read_batch_note(writer.location, next_sink_batch_id - 1)
    told = dict(enumerate(operators))
    manifest = SubtaskManifest(
        vertex_id=part.vertex_id,
        subtask_index=part.subtask_index,
        attempt=writer.attempt,
        batch_id=batch_id,
        next_sink_batch_id=next_sink_batch_id,
        sources=tuple([SourcePosition(name=s.name, connector=s.connector, location=s.location) for s in stream.sources]),
        sinks=tuple([SinkPlace(name=s.name, connector=s.connector, location=s.location) for s in stream.sinks]),
        offsets=note.offsets,
        settings=note.settings,
        watermark_ms=note.watermark_ms,
        operators=tuple(
            [
                StateOperator(
                    operator_id=number,
                    name=name,
                    partitions=partitions,
                    rows=told[number].numRowsTotal if number in told else UNKNOWN,
                    memory_bytes=told[number].memoryUsedBytes if number in told else UNKNOWN,
                )
                for number, name, partitions in state_operators(writer.location)
            ]
        ),
        files=len(copied.sums),
        bytes=copied.bytes,
        sums_sha256=write_sums(part.files, part.path, copied.sums),
        copy_ms=round((time.monotonic() - began_s) * 1000),
    )
    write_document(part.files, f"{part.path}/{SUBTASK_MANIFEST}", manifest)
    logger.info("SavepointTaken path=%s batch=%d files=%d bytes=%d", part.path, batch_id, len(copied.sums), copied.bytes)
    return manifest


def _copy(part: SavepointPart, location: Place, *, with_next_batch: bool) -> tuple[int, CopiedFiles]:
    target = f"{part.path}/{CHECKPOINT}"
    for remaining in reversed(range(_TRIES)):
        batch_id = last_committed_batch(location)
        try:
            return batch_id, copy_checkpoint(location, batch_id, part.files, target, with_next_batch=with_next_batch)
        except FileNotFoundError:
            if not remaining:
                raise
            if part.files.exists(target):
                part.files.rm(target, recursive=True)
    raise AssertionError("the last try returns or raises")
