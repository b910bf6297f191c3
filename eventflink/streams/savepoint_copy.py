"""Copies of checkpoint directories: into a savepoint up to a committed batch, and out of it to where a query begins.

What Spark has in a checkpoint directory is numbered by batch, and never changed once it is there, so a copy can be made while the query
runs. The rule it keeps: a copy is usable by itself. It has a query id of its own, for a server stops a query when another one of the same
id starts, and its files name no directory but its own.
"""

import dataclasses
import itertools
import json
import re
import shutil
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from fsspec import AbstractFileSystem
from pydantic import TypeAdapter, ValidationError

from eventflink.jobs.stored_files import for_each, names_below, names_in, on_this_host, read_whole, upload_once
from eventflink.model.places import Place
from eventflink.streams.progress import begun_batch_place
from eventflink.streams.savepoint import CHECKPOINT, SavepointUnusable, SubtaskManifest
from eventflink.streams.savepoint_sums import check_copy, read_sums, sum_of

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"
METADATA: Final = "metadata"
_LOG_VERSION: Final = "v1"
_STATE_FILE: Final = re.compile(r"(\d+)(?:_[^.]*)?\.(delta|changelog|snapshot|zip)")
_SNAPSHOTS: Final = ("snapshot", "zip")
_SCHEMA_PATHS: Final = "stateSchemaFilePaths"
_DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """What was copied."""

    bytes: int
    sums: dict[str, str]
    """The SHA-256 of each file, by its name in the part of a savepoint."""


@dataclass(frozen=True, slots=True)
class BatchNote:
    """What a checkpoint directory notes of a batch that has begun."""

    settings: dict[str, str]
    """Of Spark, as the query has them from its first batch on."""
    watermark_ms: int
    offsets: tuple[str, ...]
    """Where each source of the plan is read next."""


def copy_checkpoint(location: Place, batch_id: int, files: AbstractFileSystem, target: str, *, with_next_batch: bool) -> CopiedFiles:
    """Copy a checkpoint directory as it was after a batch.

    Args:
        location: the checkpoint directory.
        batch_id: the batch, which is committed; -1: none is.
        files: where the copy goes.
        target: the directory of the copy there.
        with_next_batch: whether the next batch, if it has begun, keeps its range of offsets; so it is of a query that was stopped.

    Raises:
        FileNotFoundError: the query has removed a file meanwhile, because the batch is too old by now.
        StoreFailed: the store in which the checkpoint directory is does not hand it out.

    """
    names = list(select_files(names_below(location), batch_id, with_next_batch=with_next_batch))

    def copy(name: str) -> tuple[int, str]:
        place = f"{target}/{name}"
        with on_this_host(location / name) as path:
            files.makedirs(place.rpartition("/")[0], exist_ok=True)
            files.put_file(str(path), place)
            return path.stat().st_size, sum_of(path)

    copied = for_each(copy, names, location)
    sums = {f"{CHECKPOINT}/{name}": digest for name, (_, digest) in zip(names, copied, strict=True)}
    return CopiedFiles(sum(size for size, _ in copied), sums)


def select_files(names: Collection[str], batch_id: int, *, with_next_batch: bool) -> Iterator[str]:
    """Yield which of the files of a checkpoint directory say all of a checkpoint as it was after a batch, and nothing of later ones.

    Of offsets and commits the batch and the one before are enough. Of a state store, whose version after batch n is n + 1, the newest
    snapshot that is not newer is enough, with what changed since.
    """
    last = {OFFSETS: batch_id + 1 if with_next_batch else batch_id, COMMITS: batch_id}
    files = sorted(filter(_is_whole, map(PurePosixPath, names)), key=lambda path: (path.parent, path.name))
    for folder, found in itertools.groupby(files, lambda path: path.parent):
        top, paths = folder.parts[:1], list(found)
        if not top:
            yield from (path.name for path in paths if path.name == METADATA)
        elif top[0] in last:
            yield from (str(path) for path in paths if batch_id - 1 <= _number(path) <= last[top[0]])
        else:
            yield from map(str, _needed(paths, batch_id + 1) if top[0] == STATE else paths)


def _needed(paths: list[PurePosixPath], version: int) -> Iterator[PurePosixPath]:
    """Yield the files of one directory of a state store that its version needs."""
    found = {path: _STATE_FILE.fullmatch(path.name) for path in paths}
    snapshots = [int(match[1]) for match in found.values() if match and match[2] in _SNAPSHOTS and int(match[1]) <= version]
    begin = max(snapshots, default=0)
    for path, match in found.items():
        if match is None or begin <= int(match[1]) <= version:
            yield path


def _is_whole(path: PurePosixPath) -> bool:
    """Tell a file from what Hadoop keeps for itself: checksums, and what is being written."""
    return not path.name.startswith(".") and ".tmp" not in path.name


def _number(path: PurePosixPath) -> int:
    return int(path.name) if _DIGITS.fullmatch(path.name) else -2


def read_batch_note(location: Place, batch_id: int) -> BatchNote:
    """Return what a checkpoint directory notes of a batch; nothing of batch -1."""
    if batch_id < 0:
        return BatchNote({}, 0, ())
    version, header, *offsets = read_whole(begun_batch_place(location, batch_id)).decode().splitlines()
    if version != _LOG_VERSION:
        raise SavepointUnusable(f"Spark wrote the offsets of batch {batch_id} in the format {version[:20]}, not {_LOG_VERSION}")
    known = json.loads(header)
    return BatchNote({str(k): str(v) for k, v in known.get("conf", {}).items()}, int(known.get("batchWatermarkMs", 0)), tuple(offsets))


def state_operators(location: Place) -> Iterator[tuple[int, str, int]]:
    """Yield number, name and partitions of each stateful operator that a checkpoint directory has."""
    for number in sorted(filter(_DIGITS.fullmatch, names_in(location / STATE)), key=int):
        notes = location / STATE / number / "_metadata"
        names = [name for name in names_below(notes) if _is_whole(PurePosixPath(name))]
        for name in names[-1:]:
            known = json.loads(read_whole(notes / name).decode().splitlines()[-1])
            stores = known.get("stateStoreInfo") or [{}]
            yield int(number), str(known["operatorInfo"]["operatorName"]), int(stores[0].get("numPartitions", 0))


def install_checkpoint(
    files: AbstractFileSystem,
    source: str,
    manifest: SubtaskManifest,
    location: Place,
    more: Mapping[str, str],
    beginnings: Mapping[str, dict[str, dict[int, int]]] | None = None,
) -> None:
    """Put a copy where a query will begin; in a directory it is there as a whole, or not at all, in a store once it has all of `more`.

    Args:
        files: where the part of a savepoint is.
        source: the directory of the part.
        manifest: what the part is.
        location: the checkpoint directory, which is not there yet.
        more: texts by file name that belong to it, and are written last.
        beginnings: by topic, what stands in its place: the next offset by topic and partition.

    Raises:
        SavepointUnusable: it is not what was written, or a name in it leads out of it, as an object store lets one do.

    """
    sums = read_sums(files, source, manifest)
    with _prepared(location, more) as fresh:
        root = f"{source}/{CHECKPOINT}"
        for path in files.find(root):
            place = fresh / str(path)[len(root) :].lstrip("/")
            if ".." in place.parts:
                raise SavepointUnusable(f"a file of the savepoint has a name that leads out of it: {str(path)[:500]!r}")
            place.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(path, str(place))
        check_copy(source, sums, fresh)
        adopt(fresh, location)
        if beginnings:
            for note in fresh.glob(f"{OFFSETS}/*"):
                lines = note.read_text(encoding="utf-8").splitlines()
                note.write_text("\n".join(_begin_edges(lines, beginnings)), encoding="utf-8")
            for note in fresh.glob(f"{SOURCES}/*/*"):
                text = note.read_text(encoding="utf-8", errors="replace")
                if any(f'"{topic}"' in text for topic in beginnings):
                    note.unlink()  # Where the source began, for a first batch that is repeated: it begins on the other topic.


def adopt(directory: Path, location: Place) -> None:
    """Give a copy a query id of its own, and let it name only files below the place where it will be."""
    if (directory / METADATA).is_file():
        (directory / METADATA).write_text(_metadata(location), encoding="utf-8")
    scheme = "" if location.scheme else "file:"
    for note in directory.glob(f"{STATE}/*/_metadata/v2/*"):
        version, text = note.read_text(encoding="utf-8").splitlines()
        known = json.loads(text)
        for store in known.get("stateStoreInfo", []):
            if _SCHEMA_PATHS in store:
                store[_SCHEMA_PATHS] = [f"{scheme}{location}/{STATE}/{_below_state(path)}" for path in store[_SCHEMA_PATHS]]
        note.write_text(f"{version}\n{json.dumps(known, separators=(',', ':'))}", encoding="utf-8")


def _metadata(location: Place) -> str:
    """Return Spark's note of whose query it is: the same of all attempts that begin in one place, whichever wrote it."""
    return json.dumps({"id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(location)))})


def _below_state(path: str) -> str:
    return path.rpartition(f"/{STATE}/")[2]


# -- another parallelism ----------------------------------------------------------------------------------------------

_KAFKA_OFFSETS: Final = TypeAdapter(dict[str, dict[int, int]])


def begin_edges(note: BatchNote, beginnings: Mapping[str, dict[str, dict[int, int]]]) -> BatchNote:
    """Return a note in whose offsets other topics stand in the place of some."""
    return dataclasses.replace(note, offsets=tuple(_begin_edges(note.offsets, beginnings)))


def _begin_edges(offsets: Iterable[str], beginnings: Mapping[str, dict[str, dict[int, int]]]) -> Iterator[str]:
    for text in offsets:
        [topic] = [topic for topic in beginnings if f'"{topic}"' in text] or [""]
        yield json.dumps(beginnings[topic]) if topic else text


def redistribute(notes: list[BatchNote], subtask_index: int, parallelism: int) -> BatchNote:
    """Return where one of so many subtasks begins, of a stream without state whose sources are Kafka topics.

    Args:
        notes: where each subtask of the savepoint stood.
        subtask_index: which subtask is to begin.
        parallelism: of how many; it reads the partitions whose number is its own modulo this.

    Raises:
        SavepointUnusable: an offset is not one of Kafka.

    """
    offsets = []
    for position in range(max(len(note.offsets) for note in notes)):
        merged: dict[str, dict[int, int]] = {}
        for note in notes:
            if position < len(note.offsets) and note.offsets[position] != "-":
                for topic, partitions in kafka_offset(note.offsets[position]).items():
                    merged.setdefault(topic, {}).update({p: o for p, o in partitions.items() if p % parallelism == subtask_index})
        offsets.append(json.dumps({topic: {str(p): o for p, o in sorted(partitions.items())} for topic, partitions in merged.items()}))
    return BatchNote(notes[0].settings, max(note.watermark_ms for note in notes), tuple(offsets))


def kafka_offset(text: str) -> Mapping[str, dict[int, int]]:
    """Return the next offset by topic and partition.

    Raises:
        SavepointUnusable: the text is none of Kafka.

    """
    try:
        return _KAFKA_OFFSETS.validate_json(text)
    except ValidationError as error:
        raise SavepointUnusable(f"it cannot be rescaled: invalid offset of Kafka: '{text[:100]}'") from error


def write_beginning(location: Place, note: BatchNote, more: Mapping[str, str]) -> None:
    """Make the checkpoint directory of a query that has read up to there, in a batch 0 that is done."""
    with _prepared(location, more) as fresh:
        for directory in (OFFSETS, COMMITS):
            (fresh / directory).mkdir(parents=True)
        header = {"batchWatermarkMs": note.watermark_ms, "batchTimestampMs": 0, "conf": note.settings}
        (fresh / METADATA).write_text(_metadata(location), encoding="utf-8")
        (fresh / OFFSETS / "0").write_text("\n".join([_LOG_VERSION, json.dumps(header), *note.offsets]), encoding="utf-8")
        commit = json.dumps({"nextBatchWatermarkMs": note.watermark_ms})
        (fresh / COMMITS / "0").write_text(f"{_LOG_VERSION}\n{commit}", encoding="utf-8")


@contextmanager
def _prepared(location: Place, more: Mapping[str, str]) -> Iterator[Path]:
    """Yield an empty directory of this host, and put what was written into it where it is to be, `more` last.

    A store renames nothing. So all attempts that begin in one place, also one that was given up and goes on, write the same objects, each
    unless it is there; and none begins before the last of them is.
    """
    if not location.scheme:
        fresh = location.path.with_name(f"{location.path.name}.restoring")
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(parents=True)
        yield fresh
        for name, text in more.items():
            (fresh / name).write_text(text, encoding="utf-8")
        fresh.rename(location.path)
        return
    with tempfile.TemporaryDirectory(prefix="eventflink-restoring-") as directory:
        fresh = Path(directory)
        yield fresh
        for_each(lambda name: upload_once(fresh / name, location / name), names_below(Place(directory)), location)
        for name, text in more.items():
            (fresh / name).write_text(text, encoding="utf-8")
            upload_once(fresh / name, location / name)
