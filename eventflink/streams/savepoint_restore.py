"""Where a subtask begins whose job was submitted with a savepoint: in the part that fits it, or with the reason why none does.

What Spark would ignore without a word is refused here: a setting that the state was written with, another topic, a stream that nobody takes
over. What does not fit the state itself Spark refuses, when the query begins. The rule it keeps: a checkpoint directory that is there is
never replaced, so that a savepoint is restored once, by the first attempt.
"""

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from eventflink.jobs.stored_files import read_if_there, write_whole
from eventflink.model.job_graph import DEFAULT_OUTPUT, JobGraph, SavepointRestore, StreamDefinition
from eventflink.model.pipelined_edges import edge_topic, pipelined_edges_of, stream_with_edges
from eventflink.model.places import Place
from eventflink.model.statuses import StreamConnector
from eventflink.streams.edges import Edge, edges_of
from eventflink.streams.savepoint import (
    Savepoint,
    SavepointUnusable,
    SubtaskManifest,
    check_streams,
    open_path,
    part_path,
    read_savepoint,
)
from eventflink.streams.savepoint_copy import BatchNote, begin_edges, install_checkpoint, kafka_offset, redistribute, write_beginning
from eventflink.streams.savepoint_sums import check_names_and_sizes

logger = logging.getLogger(__name__)

RESTORED: Final = "restored.json"
"""In a checkpoint directory: from which savepoint, and from which batch on its sink lacks anything."""


@dataclass(frozen=True, slots=True)
class RestoringSubtask:
    """Who begins in a savepoint."""

    vertex_id: str
    subtask_index: int
    parallelism: int
    stream: StreamDefinition
    edges: Mapping[str, Edge] = field(default_factory=dict)
    """The edges that it reads, by their location."""


def restore_checkpoint(
    path: str, subtask: RestoringSubtask, vertex_ids: tuple[str, ...], location: Place, *, allow_non_restored_state: bool
) -> int:
    """Put a subtask's part of a savepoint where its query will begin, unless an earlier attempt has begun there.

    Args:
        path: the savepoint.
        subtask: who begins.
        vertex_ids: of all streams of the job.
        location: the subtask's checkpoint directory.
        allow_non_restored_state: whether the savepoint may have streams that the job does not have.

    Returns:
        The number of the first batch that the sink has not got yet; 0 of a stream that the savepoint does not have.

    Raises:
        SavepointUnusable: there is none, or it does not fit the job.

    """
    if (restored := read_if_there(location / RESTORED)) is not None:
        return int(json.loads(restored)["next_sink_batch_id"])
    savepoint = read_savepoint(path)
    check_streams(savepoint, vertex_ids, allow_non_restored_state=allow_non_restored_state)
    count = savepoint.parallelism_of(subtask.vertex_id)
    if count == 0:
        logger.info("StreamNotInSavepoint path=%s vertex=%s", path, subtask.vertex_id)
        write_whole(location / RESTORED, _restored(path, 0).encode())
        return 0
    parts = _check_vertex(savepoint, subtask)
    _check_subtask(savepoint, subtask, parts)
    beginnings = _beginnings_of_edges(savepoint, subtask)
    if count != subtask.parallelism:
        notes = [BatchNote(part.settings, part.watermark_ms, part.offsets) for part in parts]
        note = begin_edges(redistribute(notes, subtask.subtask_index, subtask.parallelism), beginnings)
        next_sink_batch_id = 1
        write_beginning(location, note, {RESTORED: _restored(path, next_sink_batch_id)})
    else:
        part = parts[subtask.subtask_index]
        next_sink_batch_id = part.next_sink_batch_id
        files, root = open_path(path)
        source = part_path(root, subtask.vertex_id, subtask.subtask_index)
        install_checkpoint(files, source, part, location, {RESTORED: _restored(path, next_sink_batch_id)}, beginnings)
    logger.info("SavepointRestored path=%s location=%s parts=%d next_sink_batch=%d", path, location, count, next_sink_batch_id)
    return next_sink_batch_id


def _beginnings_of_edges(savepoint: Savepoint, subtask: RestoringSubtask) -> dict[str, dict[str, dict[int, int]]]:
    """Return where each edge begins: all of it had been read, and what is on it comes from the new job.

    The keys are the topics that the edges had in the job of the savepoint.
    """
    manifest, place = savepoint.manifest, (subtask.subtask_index, subtask.parallelism)
    return {
        edge_topic(manifest.cluster_id, manifest.job_id, location): {edge.topic: dict.fromkeys(edge.share_of(*place), 0)}
        for location, edge in subtask.edges.items()
    }


def _check_partitions(savepoint: Savepoint, part: SubtaskManifest, beginnings: Mapping[str, dict[str, dict[int, int]]]) -> None:
    for text in part.offsets if part.operators else ():
        for topic, numbers in kafka_offset(text).items() if any(f'"{topic}"' in text for topic in beginnings) else ():
            [now] = beginnings[topic].values()
            if numbers.keys() != now.keys():
                raise SavepointUnusable(
                    f"the savepoint '{savepoint.path}' of {part.vertex_id}[{part.subtask_index}]: its state is of the partitions "
                    f"{sorted(numbers)} of an edge, and it is to read {sorted(now)}: give the edge the same 'partitions'"
                )


def _restored(path: str, next_sink_batch_id: int) -> str:
    return json.dumps({"savepoint": path, "next_sink_batch_id": next_sink_batch_id})


def begin_in_savepoint(graph: JobGraph, path: Path | str | None, *, allow_non_restored_state: bool) -> JobGraph:
    """Return a graph with the savepoint in which it begins, if that fits: what can be known is said before the job runs.

    Args:
        graph: the job.
        path: the savepoint; None: the one that the graph names.
        allow_non_restored_state: whether the savepoint may have streams that the graph does not have; of the graph's own it says so itself.

    Raises:
        SavepointUnusable: it does not fit.

    """
    restore = graph.restore
    if path is not None:
        text = str(path)
        restore = SavepointRestore(text if "://" in text else str(Path(text).resolve()), allow_non_restored_state)
    if restore is None:
        return graph
    pipelined = pipelined_edges_of(graph)
    found = {vertex.vertex_id: stream_with_edges(vertex, pipelined) for vertex in graph.vertices}
    streams = {vertex_id: stream for vertex_id, stream in found.items() if stream is not None}
    savepoint = read_savepoint(restore.path)
    check_streams(savepoint, streams, allow_non_restored_state=restore.allow_non_restored_state)
    for vertex in graph.vertices:
        if (stream := streams.get(vertex.vertex_id)) is None or not savepoint.parallelism_of(vertex.vertex_id):
            continue
        edges = edges_of(stream.sources, "", "")
        subtasks = [RestoringSubtask(vertex.vertex_id, i, vertex.parallelism, stream, edges) for i in range(vertex.parallelism)]
        parts = _check_vertex(savepoint, subtasks[0])
        for subtask in subtasks:
            _check_subtask(savepoint, subtask, parts)
        if len(parts) == vertex.parallelism:
            files, root = open_path(restore.path)
            for part in parts:
                check_names_and_sizes(files, part_path(root, part.vertex_id, part.subtask_index), part)
    return dataclasses.replace(graph, restore=restore)


def _check_vertex(savepoint: Savepoint, subtask: RestoringSubtask) -> list[SubtaskManifest]:
    """Return the parts of a stream that a savepoint has, which fit it."""
    parts = [savepoint.part(subtask.vertex_id, index) for index in range(savepoint.parallelism_of(subtask.vertex_id))]
    for part in parts:
        check_part(savepoint, part, subtask.stream)
    return parts


def _check_subtask(savepoint: Savepoint, subtask: RestoringSubtask, parts: list[SubtaskManifest]) -> None:
    """Refuse another parallelism, and other partitions of an edge, where there is state: keys would come to who does not have it."""
    if len(parts) == subtask.parallelism:
        _check_partitions(savepoint, parts[subtask.subtask_index], _beginnings_of_edges(savepoint, subtask))
        return
    where = f"the savepoint '{savepoint.path}' has {len(parts)} subtasks of {subtask.vertex_id}, and the job {subtask.parallelism}"
    names = sorted({operator.name for part in parts for operator in part.operators})
    if names:
        raise SavepointUnusable(f"{where}: the state of {', '.join(names)} belongs to the subtask whose partitions it came from")
    if any(source.connector not in (StreamConnector.KAFKA, StreamConnector.EDGE) for source in subtask.stream.sources):
        raise SavepointUnusable(f"{where}: only the partitions of Kafka topics can be shared out anew")
    if any(not part.offsets for part in parts):
        raise SavepointUnusable(f"{where}: a subtask had not read anything yet, so its partitions have no place to begin")


def check_part(savepoint: Savepoint, part: SubtaskManifest, stream: StreamDefinition) -> None:
    """Check that a stream reads what the part was read from, with the settings that its state was written with.

    Raises:
        SavepointUnusable: it does not; the message says what differs.

    """
    where = f"the savepoint '{savepoint.path}' of {part.vertex_id}"
    before = {(source.name, source.connector, source.location) for source in part.sources}
    now = {(source.name, source.connector, source.location) for source in stream.sources}
    for what, sources in (("was taken of", before - now), ("was not taken of", now - before)):
        if sources:
            named = ", ".join(f"'{name}' ({connector.lower()} {location})" for name, connector, location in sorted(sources))
            have = "does not have" if sources <= before else "has"
            raise SavepointUnusable(f"{where} {what} the source {named}, which the stream {have}: its offsets would have no meaning")
    if len(part.sinks) != len(stream.sinks):
        outputs = [
            ", ".join(f"'{sink.name or DEFAULT_OUTPUT}' ({sink.location})" for sink in sinks) for sinks in (part.sinks, stream.sinks)
        ]
        raise SavepointUnusable(
            f"{where} was taken with the outputs {outputs[0]}, and the stream has {outputs[1]}: Spark reads the sources once for each of "
            "them, and keeps an offset for each reading. Read the source by another stream, or begin without the savepoint"
        )
    if not part.operators:
        return
    for key, value in json.loads(stream.settings_json).items():
        written = part.settings.get(key)
        if written is not None and written != setting_text(value):
            raise SavepointUnusable(
                f"{where}: its state was written with {key}={written}, and the graph has {setting_text(value)}; Spark would keep "
                f"{written} without a warning. Leave the setting out, or begin without the savepoint"
            )


def setting_text(value: Any) -> str:
    """Return the value of a setting as Spark takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
