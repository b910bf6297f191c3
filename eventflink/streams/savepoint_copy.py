"""Copies of checkpoint directories: into a savepoint up to a committed batch, and out of it to where a query begins.

What Spark has in a checkpoint directory is numbered by batch, and never changed once it is there, so a copy can be made while the query
runs. The rule it keeps: a copy is usable by itself. It has a query id of its own, for a server stops a query when another one of the same
id starts, and its files name no directory but its own.
"""

import dataclasses
import json
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fsspec import AbstractFileSystem
from pydantic import TypeAdapter, ValidationError

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


def copy_checkpoint(location: Path, batch_id: int, files: AbstractFileSystem, target: str, *, with_next_batch: bool) -> CopiedFiles:
    """Copy a checkpoint directory as it was after a batch.

    Args:
        location: the checkpoint directory.
        batch_id: the batch, which is committed; -1: none is.
        files: where the copy goes.
        target: the directory of the copy there.
        with_next_batch: whether the next batch, if it has begun, keeps its range of offsets; so it is of a query that was stopped.

    Raises:
        FileNotFoundError: the query has removed a file meanwhile, because the batch is too old by now.

    """
    size, sums = 0, {}
    for path in select_files(location, batch_id, with_next_batch=with_next_batch):
        name = path.relative_to(location).as_posix()
        place = f"{target}/{name}"
        files.makedirs(place.rpartition("/")[0], exist_ok=True)
        files.put_file(str(path), place)
        size += path.stat().st_size
        sums[f"{CHECKPOINT}/{name}"] = sum_of(path)
    return CopiedFiles(size, sums)


def select_files(location: Path, batch_id: int, *, with_next_batch: bool) -> Iterator[Path]:
    """Yield the files that say all of a checkpoint as it was after a batch, and nothing of later ones.

    Of offsets and commits the batch and the one before are enough. Of a state store, whose version after batch n is n + 1, the newest
    snapshot that is not newer is enough, with what changed since.
    """
    newest = batch_id + 1 if with_next_batch else batch_id
    for directory, last in ((OFFSETS, newest), (COMMITS, batch_id)):
        if (location / directory).is_dir():
            yield from (path for path in _files_in(location / directory) if batch_id - 1 <= _number(path) <= last)
    yield from (path for path in [location / METADATA] if path.is_file())
    for top in sorted(location.iterdir()):
        if top.is_dir() and top.name not in (OFFSETS, COMMITS):
            for parent in (top, *sorted(path for path in top.rglob("*") if path.is_dir())):
                yield from _needed(list(_files_in(parent)), batch_id + 1) if top.name == STATE else _files_in(parent)


def _needed(paths: list[Path], version: int) -> Iterator[Path]:
    """Yield the files of one directory of a state store that its version needs."""
    found = {path: _STATE_FILE.fullmatch(path.name) for path in paths}
    snapshots = [int(match[1]) for match in found.values() if match and match[2] in _SNAPSHOTS and int(match[1]) <= version]
    begin = max(snapshots, default=0)
    for path, match in found.items():
        if match is None or begin <= int(match[1]) <= version:
            yield path


def _files_in(directory: Path) -> Iterator[Path]:
    """Yield the files of a directory without those that Hadoop keeps for itself: checksums, and what is being written."""
    return (path for path in sorted(directory.iterdir()) if path.is_file() and not path.name.startswith(".") and ".tmp" not in path.name)


def _number(path: Path) -> int:
    return int(path.name) if _DIGITS.fullmatch(path.name) else -2


def read_batch_note(location: Path, batch_id: int) -> BatchNote:
    """Return what a checkpoint directory notes of a batch; nothing of batch -1."""
    if batch_id < 0:
        return BatchNote({}, 0, ())
    version, header, *offsets = (location / OFFSETS / str(batch_id)).read_text(encoding="utf-8").splitlines()
    if version != _LOG_VERSION:
        raise SavepointUnusable(f"Spark wrote the offsets of batch {batch_id} in the format {version[:20]}, not {_LOG_VERSION}")
    known = json.loads(header)
    return BatchNote({str(k): str(v) for k, v in known.get("conf", {}).items()}, int(known.get("batchWatermarkMs", 0)), tuple(offsets))


def state_operators(location: Path) -> Iterator[tuple[int, str, int]]:
    """Yield number, name and partitions of each stateful operator that a checkpoint directory has."""
    if not (location / STATE).is_dir():
        return
    for directory in sorted(location.joinpath(STATE).iterdir(), key=lambda path: path.name.zfill(9)):
        notes = [path for path in directory.joinpath("_metadata").rglob("*") if path.is_file() and not path.name.startswith(".")]
        for note in notes[-1:]:
            known = json.loads(note.read_text(encoding="utf-8").splitlines()[-1])
            stores = known.get("stateStoreInfo") or [{}]
            yield int(directory.name), str(known["operatorInfo"]["operatorName"]), int(stores[0].get("numPartitions", 0))


def install_checkpoint(
    files: AbstractFileSystem,
    source: str,
    manifest: SubtaskManifest,
    location: Path,
    more: Mapping[str, str],
    beginnings: Mapping[str, dict[str, dict[int, int]]] | None = None,
) -> None:
    """Put a copy where a query will begin; it is there as a whole, or not at all.

    Args:
        files: where the part of a savepoint is.
        source: the directory of the part.
        manifest: what the part is.
        location: the checkpoint directory, which is not there yet.
        more: texts by file name that belong to it.
        beginnings: by topic, what stands in its place: the next offset by topic and partition.

    Raises:
        SavepointUnusable: it is not what was written, or a name in it leads out of it, as an object store lets one do.

    """
    sums = read_sums(files, source, manifest)
    fresh = _fresh(location)
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
    _put(fresh, location, more)


def adopt(directory: Path, location: Path) -> None:
    """Give a copy a query id of its own, and let it name only files below the place where it will be."""
    if (directory / METADATA).is_file():
        (directory / METADATA).write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    for note in directory.glob(f"{STATE}/*/_metadata/v2/*"):
        version, text = note.read_text(encoding="utf-8").splitlines()
        known = json.loads(text)
        for store in known.get("stateStoreInfo", []):
            if _SCHEMA_PATHS in store:
                store[_SCHEMA_PATHS] = [f"file:{location}/{STATE}/{_below_state(path)}" for path in store[_SCHEMA_PATHS]]
        note.write_text(f"{version}\n{json.dumps(known, separators=(',', ':'))}", encoding="utf-8")


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


def write_beginning(location: Path, note: BatchNote, more: Mapping[str, str]) -> None:
    """Make the checkpoint directory of a query that has read up to there, in a batch 0 that is done."""
    fresh = _fresh(location)
    for directory in (OFFSETS, COMMITS):
        (fresh / directory).mkdir(parents=True)
    header = {"batchWatermarkMs": note.watermark_ms, "batchTimestampMs": 0, "conf": note.settings}
    (fresh / METADATA).write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    (fresh / OFFSETS / "0").write_text("\n".join([_LOG_VERSION, json.dumps(header), *note.offsets]), encoding="utf-8")
    commit = json.dumps({"nextBatchWatermarkMs": note.watermark_ms})
    (fresh / COMMITS / "0").write_text(f"{_LOG_VERSION}\n{commit}", encoding="utf-8")
    _put(fresh, location, more)


def _fresh(location: Path) -> Path:
    """Return an empty directory beside the one that is to be."""
    fresh = location.with_name(f"{location.name}.restoring")
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(parents=True)
    return fresh


def _put(fresh: Path, location: Path, more: Mapping[str, str]) -> None:
    for name, text in more.items():
        (fresh / name).write_text(text, encoding="utf-8")
    fresh.rename(location)
