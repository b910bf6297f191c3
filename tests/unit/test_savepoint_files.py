"""A savepoint on disk: what is copied of a checkpoint, what is refused of a savepoint, and what a copy says of itself."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from eventflink.jobs.stored_files import names_below, read_whole, remove_folder, write_whole
from eventflink.model.job_graph import JobGraph, StreamDefinition, StreamSink, StreamSource
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.places import Place
from eventflink.model.statuses import SavepointMode, StreamConnector, StreamTrigger
from eventflink.streams.edges import Edge, edges_of
from eventflink.streams.progress import last_begun_batch, last_committed_batch
from eventflink.streams.savepoint import (
    CHECKPOINT,
    MANIFEST,
    SUBTASK_MANIFEST,
    SavepointManifest,
    SavepointStreamDocument,
    SavepointUnusable,
    SinkPlace,
    SourcePosition,
    StateOperator,
    SubtaskManifest,
    check_streams,
    dispose_savepoint,
    open_path,
    read_savepoint,
    write_document,
)
from eventflink.streams.savepoint_copy import (
    BatchNote,
    copy_checkpoint,
    install_checkpoint,
    read_batch_note,
    redistribute,
    select_files,
    state_operators,
)
from eventflink.streams.savepoint_restore import RESTORED, RestoringSubtask, begin_in_savepoint, restore_checkpoint
from eventflink.streams.savepoint_sums import SUMS, sum_of, write_sums

SCHEMA_FILE = "0_1b2c"


def put(directory: Path, **files: str) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def checkpoint(location: Path, committed: int, begun: int) -> Path:
    """Make a checkpoint directory like Spark's, with the state stores that it has."""
    header = json.dumps({"batchWatermarkMs": 70, "batchTimestampMs": 5, "conf": {"spark.sql.shuffle.partitions": "2"}})
    put(location, metadata=json.dumps({"id": "query-of-the-first"}))
    for batch in range(begun + 1):
        put(location, **{f"offsets/{batch}": f'v1\n{header}\n{{"t":{{"0":{batch},"1":10}}}}', f"offsets/.{batch}.crc": "checksum"})
    for batch in range(committed + 1):
        put(location, **{f"commits/{batch}": 'v1\n{"nextBatchWatermarkMs":0}'})
    put(location, **{"sources/0/0": "v1\nfirst"})
    for version in range(1, begun + 2):
        put(location, **{f"state/0/0/{version}.delta": "d", f"state/0/1/left-keyToNumValues/{version}.delta": "d"})
    put(location, **{"state/0/0/2.snapshot": "s", "state/0/0/SSTs/000008-a.sst": "r", "state/0/0/.3.delta.tmp": "half"})
    schema = f"file:{location}/state/0/_stateSchema/default/{SCHEMA_FILE}"
    operator = {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"}
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [schema]}]
    put(location, **{"state/0/_metadata/v2/0": f"v2\n{json.dumps({'operatorInfo': operator, 'stateStoreInfo': stores})}"})
    put(location, **{f"state/0/_stateSchema/default/{SCHEMA_FILE}": "schema"})
    return location


def names(location: Path, batch_id: int, *, with_next_batch: bool = False) -> set[str]:
    return set(select_files(names_below(Place(str(location))), batch_id, with_next_batch=with_next_batch))


def test_a_copy_has_what_is_needed_after_a_batch_and_nothing_of_later_ones(tmp_path: Path) -> None:
    location = checkpoint(tmp_path, committed=4, begun=5)
    assert names(location, 3) == {
        *("metadata", "offsets/2", "offsets/3", "commits/2", "commits/3", "sources/0/0"),
        *("state/0/0/2.snapshot", "state/0/0/2.delta", "state/0/0/3.delta", "state/0/0/4.delta", "state/0/0/SSTs/000008-a.sst"),
        *(f"state/0/1/left-keyToNumValues/{version}.delta" for version in (1, 2, 3, 4)),
        *("state/0/_metadata/v2/0", f"state/0/_stateSchema/default/{SCHEMA_FILE}"),
    }


@pytest.mark.rule("S3")
def test_a_batch_that_was_cut_keeps_its_range_of_offsets(tmp_path: Path) -> None:
    location = checkpoint(tmp_path / "own", committed=4, begun=5)
    copy_checkpoint(Place(str(location)), 4, LocalFileSystem(), str(tmp_path / "copy"), with_next_batch=True)
    assert read_batch_note(Place(str(tmp_path / "copy")), 5).offsets == ('{"t":{"0":5,"1":10}}',)
    assert not (tmp_path / "copy" / "commits" / "5").exists()


def test_before_the_first_batch_there_is_nothing_but_the_query(tmp_path: Path) -> None:
    put(tmp_path, metadata="{}")
    assert names(tmp_path, -1, with_next_batch=True) == {"metadata"}
    assert read_batch_note(Place(str(tmp_path)), -1) == BatchNote({}, 0, ())
    with pytest.raises(FileNotFoundError):  # No savepoint is taken of a batch that is done where what it reads was lost.
        read_batch_note(Place(str(tmp_path)), 0)
    assert list(state_operators(Place(str(tmp_path)))) == []


def test_a_copy_that_is_installed_is_another_query_and_names_its_own_files(tmp_path: Path) -> None:
    location = checkpoint(tmp_path / "own", committed=4, begun=4)
    files = LocalFileSystem()
    copied = copy_checkpoint(Place(str(location)), 4, files, str(tmp_path / "part" / CHECKPOINT), with_next_batch=False)
    assert {name.removeprefix(f"{CHECKPOINT}/") for name in copied.sums} == names(location, 4)
    place = tmp_path / "jobs" / "stream" / "checkpoint.0"
    place.parent.mkdir(parents=True)
    manifest = written(files, tmp_path / "part", part(0))
    install_checkpoint(files, str(tmp_path / "part"), manifest, Place(str(place)), {"more.json": "{}"})
    assert json.loads((place / "metadata").read_text())["id"] != "query-of-the-first"
    [store] = json.loads((place / "state/0/_metadata/v2/0").read_text().splitlines()[1])["stateStoreInfo"]
    [schema] = store["stateSchemaFilePaths"]
    assert schema == f"file:{place}/state/0/_stateSchema/default/{SCHEMA_FILE}"
    assert Path(schema.removeprefix("file:")).is_file()
    assert list(state_operators(Place(str(place)))) == [(0, "transformWithStateInPandasExec", 2)]


def test_no_name_in_a_savepoint_leads_out_of_the_directory_where_it_is_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFileSystem()
    monkeypatch.setattr(files, "store", {})
    files.store[f"/part/{CHECKPOINT}/../../../evil"] = MemoryFile(files, "/evil", b"evil")  # As an object store takes it.
    place = tmp_path / "a" / "b" / "checkpoint.0"
    with pytest.raises(SavepointUnusable, match="leads out of it"):
        install_checkpoint(
            files, "/part", part(0).model_copy(update={"files": 0, "sums_sha256": write_sums(files, "/part", {})}), Place(str(place)), {}
        )
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# -- whole savepoints -------------------------------------------------------------------------------------------------


def stream(topic: str = "t", settings: dict[str, Any] | None = None) -> StreamDefinition:
    source = StreamSource(name="source", connector=StreamConnector.KAFKA, location=topic)
    sink = StreamSink(connector=StreamConnector.KAFKA, location="out")
    return StreamDefinition(
        sources=(source,), sinks=(sink,), trigger=StreamTrigger.PROCESSING_TIME, settings_json=json.dumps(settings or {})
    )


def part(index: int, *operators: StateOperator, offsets: tuple[str, ...] = ('{"t":{"0":3,"1":4,"2":5}}',)) -> SubtaskManifest:
    return SubtaskManifest(
        vertex_id="s",
        subtask_index=index,
        attempt=1,
        batch_id=4,
        next_sink_batch_id=6,
        sources=(SourcePosition(name="source", connector=StreamConnector.KAFKA, location="t"),),
        sinks=(SinkPlace(name="", connector=StreamConnector.KAFKA, location="out"),),
        offsets=offsets,
        settings={"spark.sql.shuffle.partitions": "2"},
        watermark_ms=0,
        operators=operators,
        files=1,
        bytes=2,
        sums_sha256="",
        copy_ms=3,
    )


def written(files: AbstractFileSystem, directory: Path, manifest: SubtaskManifest) -> SubtaskManifest:
    """Write the sums of the files that a part has, and return its manifest with what they are."""
    paths = [path for path in (directory / CHECKPOINT).rglob("*") if path.is_file()]
    sums = {path.relative_to(directory).as_posix(): sum_of(path) for path in paths}
    digest = write_sums(files, str(directory), sums)
    update = {"files": len(sums), "bytes": sum(path.stat().st_size for path in paths), "sums_sha256": digest}
    return manifest.model_copy(update=update)


def seal(directory: Path, manifest: SubtaskManifest) -> None:
    """Write what a part is, as its files are now."""
    files = LocalFileSystem()
    write_document(files, str(directory / SUBTASK_MANIFEST), written(files, directory, manifest))


def savepoint(path: Path, *parts: SubtaskManifest) -> Path:
    """Make a savepoint of one stream, with a checkpoint in each part."""
    files, root = open_path(str(path))
    manifest = SavepointManifest(
        cluster_id="c",
        job_id="j",
        job_name="n",
        savepoint_id=1,
        mode=SavepointMode.STOP,
        triggered_at_ms=1,
        streams=(SavepointStreamDocument(vertex_id="s", parallelism=len(parts)),),
    )
    files.makedirs(root)
    write_document(files, f"{root}/{MANIFEST}", manifest)
    for each in parts:
        directory = path / "s" / str(each.subtask_index)
        checkpoint(directory / CHECKPOINT, committed=4, begun=5)
        seal(directory, each)
    return path


def restore(path: Path, location: Path, *, parallelism: int = 1, definition: StreamDefinition | None = None) -> int:
    subtask = RestoringSubtask("s", 0, parallelism, definition or stream())
    return restore_checkpoint(str(path), subtask, ("s",), Place(str(location)), allow_non_restored_state=False)


AGGREGATE = StateOperator(operator_id=0, name="stateStoreSave", partitions=2, rows=7)


def test_a_savepoint_is_restored_once_and_every_later_attempt_knows_what_the_sink_has(tmp_path: Path) -> None:
    path, location = savepoint(tmp_path / "one", part(0, AGGREGATE)), tmp_path / "jobs" / "checkpoint.0"
    assert restore(path, location) == 6
    (location / "commits" / "5").write_text("v1\n{}")
    dispose_savepoint(str(path))
    assert restore(path, location) == 6
    assert (location / "commits" / "5").is_file()


def test_a_stream_that_the_savepoint_does_not_have_begins_where_its_sources_say(tmp_path: Path) -> None:
    path = savepoint(tmp_path / "one", part(0))
    subtask = RestoringSubtask("new", 0, 1, stream())
    location = Place(str(tmp_path / "own"))
    assert restore_checkpoint(str(path), subtask, ("new", "s"), location, allow_non_restored_state=False) == 0
    assert names_below(location) == [RESTORED]
    dispose_savepoint(str(path))
    assert restore_checkpoint(str(path), subtask, ("new", "s"), location, allow_non_restored_state=False) == 0


def objects_of(location: Place) -> dict[str, bytes]:
    return {name: read_whole(location / name) for name in names_below(location)}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_all_attempts_that_begin_in_a_place_of_a_store_write_the_same_and_begin_once_all_is_there(tmp_path: Path, parallelism: int) -> None:
    """One that was given up goes on meanwhile: a store does not rename a whole directory at once."""
    path, location = savepoint(tmp_path / "one", part(0, *([AGGREGATE] if parallelism == 1 else []))), Place(f"memory://{tmp_path.name}/0")
    subtask = RestoringSubtask("s", 0, parallelism, stream())

    def begin() -> int:
        return restore_checkpoint(str(path), subtask, ("s",), location, allow_non_restored_state=False)

    next_batch_id = begin()
    whole = objects_of(location)
    remove_folder(location, "offsets", ())
    write_whole(location / "commits" / "9", b"of the query that runs")
    assert begin() == next_batch_id
    assert "offsets/0" not in objects_of(location)
    remove_folder(Place(f"memory://{tmp_path.name}"), "0", ())
    write_whole(location / "metadata", whole["metadata"])
    assert begin() == next_batch_id
    assert objects_of(location) == whole
    if parallelism == 1:
        [store] = json.loads(whole["state/0/_metadata/v2/0"].splitlines()[1])["stateStoreInfo"]
        assert store["stateSchemaFilePaths"] == [f"{location}/state/0/_stateSchema/default/{SCHEMA_FILE}"]


def test_a_checkpoint_in_a_store_is_copied_as_one_in_a_directory(tmp_path: Path) -> None:
    own, files, stored = checkpoint(tmp_path / "own", committed=4, begun=5), LocalFileSystem(), Place(f"memory://{tmp_path.name}/own")
    for name, data in objects_of(Place(str(own))).items():
        write_whole(stored / name, data)
    copies = [
        copy_checkpoint(place, 4, files, str(tmp_path / f"part-{number}" / CHECKPOINT), with_next_batch=True)
        for number, place in enumerate([Place(str(own)), stored])
    ]
    assert copies[0] == copies[1]
    assert objects_of(Place(str(tmp_path / "part-0"))) == objects_of(Place(str(tmp_path / "part-1")))
    assert list(state_operators(stored)) == [(0, "transformWithStateInPandasExec", 2)]
    assert (last_begun_batch(stored), last_committed_batch(stored)) == (5, 4)


def edge(partitions: int) -> tuple[StreamDefinition, dict[str, Edge]]:
    """Return a stream that reads an edge besides a topic, and that edge."""
    options = {"writer": "w", "writers": 1, "ship": "HASH", "keys": ["k"], "partitions": partitions}
    source = StreamSource(name="rows", connector=StreamConnector.EDGE, location="s.rows", options_json=json.dumps(options))
    definition = stream()
    definition.sources = (*definition.sources, source)
    return definition, edges_of(definition.sources, "c", "new")


def part_with_edge(*operators: StateOperator) -> SubtaskManifest:
    """Return a part of two subtasks, whose edge had four partitions."""
    taken = part(0, *operators, offsets=('{"t":{"0":3,"2":5}}', f'{{"{OLD_TOPIC}":{{"0":30,"2":50}}}}'))
    return taken.model_copy(
        update={"sources": (*taken.sources, SourcePosition(name="rows", connector=StreamConnector.EDGE, location="s.rows"))}
    )


OLD_TOPIC = "c.edge.j.s.rows"
NEW_TOPIC = "c.edge.new.s.rows"


def restore_with_edge(tmp_path: Path, partitions: int, *operators: StateOperator, parallelism: int = 2) -> list[str]:
    """Return the offsets of the source and the edge with which the first subtask begins."""
    one = part_with_edge(*operators)
    path = savepoint(tmp_path / "one", one, one.model_copy(update={"subtask_index": 1}))
    note = tmp_path / "one" / "s" / "0" / "checkpoint" / "offsets" / "5"
    note.write_text("\n".join([*note.read_text().splitlines()[:2], *one.offsets]))
    seal(tmp_path / "one" / "s" / "0", one)
    definition, edges = edge(partitions)
    location = tmp_path / "jobs" / "checkpoint.0"
    subtask = RestoringSubtask("s", 0, parallelism, definition, edges)
    restore_checkpoint(str(path), subtask, ("s",), Place(str(location)), allow_non_restored_state=False)
    begun = Place(str(location))
    return list(read_batch_note(begun, last_begun_batch(begun)).offsets)


def test_an_edge_begins_at_the_start_of_the_topic_of_the_new_job(tmp_path: Path) -> None:
    source, rows = restore_with_edge(tmp_path, 4, AGGREGATE)
    assert json.loads(source) == {"t": {"0": 3, "2": 5}}
    assert json.loads(rows) == {NEW_TOPIC: {"0": 0, "2": 0}}


def test_the_first_batch_on_an_edge_begins_anew_on_the_topic_of_the_new_job(tmp_path: Path) -> None:
    """Spark reads on from where a source began, which it notes once, until a batch is done."""
    path = savepoint(tmp_path / "one", part_with_edge())
    for number, topic in enumerate(("t", OLD_TOPIC)):
        put(tmp_path / "one" / "s" / "0" / CHECKPOINT / "sources" / str(number), **{"0": f'\0v1\n{{"{topic}":{{"0":7}}}}'})
    seal(tmp_path / "one" / "s" / "0", part_with_edge())
    definition, edges = edge(2)
    location = tmp_path / "checkpoint.0"
    subtask = RestoringSubtask("s", 0, 1, definition, edges)
    restore_checkpoint(str(path), subtask, ("s",), Place(str(location)), allow_non_restored_state=False)
    assert [path.parent.name for path in location.glob("sources/*/0")] == ["0"]


def test_an_edge_is_shared_out_anew_where_there_is_no_state(tmp_path: Path) -> None:
    _, rows = restore_with_edge(tmp_path, 5, parallelism=1)
    assert json.loads(rows) == {NEW_TOPIC: {str(number): 0 for number in range(5)}}


def graph_with_edge(partitions: int, *, readers: int = 2, **more: Any) -> JobGraph:
    """Return a graph whose stream `s` reads an edge besides a topic."""
    kafka = {"kafka": {"topic": "t"}, "format": "json", "schema": "k STRING"}
    sink = {"kafka": {"topic": "out"}, "format": "json"}
    edges = [{"from": "w", "to": "s", "name": "rows", "schema": "k STRING", "partitions": partitions, "ship": "hash", "keys": ["k"]}]
    vertices = [
        {"id": "w", "python": "m:f", "stream": {"sources": {"source": kafka}}},
        {"id": "s", "python": "m:f", "parallelism": readers, "stream": {"sources": {"source": kafka}, "sink": sink} | more},
    ]
    return parse_job_graph({"name": "n", "vertices": vertices, "edges": edges}, "f")


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (graph_with_edge(5), "its state is of the partitions [0, 2] of an edge, and it is to read [0, 2, 4]"),
        (graph_with_edge(4, readers=1), "has 2 subtasks of s, and the job 1: the state of stateStoreSave belongs to the subtask"),
        (
            graph_with_edge(4, sink=None, sinks={name: {"kafka": {"topic": name}, "format": "json"} for name in ("x", "y")}),
            "was taken with the outputs 'default' (out), and the stream has 'x' (x), 'y' (y): Spark reads the sources once for each",
        ),
    ],
)
def test_what_does_not_fit_is_said_before_the_job_runs(tmp_path: Path, graph: JobGraph, says: str) -> None:
    one = part_with_edge(AGGREGATE)
    other = {"subtask_index": 1, "offsets": ('{"t":{"1":4}}', f'{{"{OLD_TOPIC}":{{"1":40,"3":60}}}}')}
    path = savepoint(tmp_path / "one", one, one.model_copy(update=other))
    with pytest.raises(SavepointUnusable) as refused:
        begin_in_savepoint(graph, path, allow_non_restored_state=False)
    assert says in str(refused.value)
    assert begin_in_savepoint(graph_with_edge(4), path, allow_non_restored_state=False).restore is not None


def test_other_partitions_of_an_edge_are_refused_where_there_is_state(tmp_path: Path) -> None:
    says = r"its state is of the partitions \[0, 2\] of an edge, and it is to read \[0, 2, 4\]: give the edge the same 'partitions'"
    with pytest.raises(SavepointUnusable, match=says):
        restore_with_edge(tmp_path, 5, AGGREGATE)


@pytest.mark.parametrize(
    ("definition", "parallelism", "reason"),
    [
        (stream(topic="u"), 1, "was taken of the source 'source' (kafka t), which the stream does not have"),
        (
            stream(settings={"spark.sql.shuffle.partitions": 3}),
            1,
            "with spark.sql.shuffle.partitions=2, and the graph has 3; Spark would keep 2",
        ),
        (stream(), 2, "has 1 subtasks of s, and the job 2: the state of stateStoreSave belongs to the subtask"),
    ],
)
def test_what_spark_would_ignore_is_refused_with_the_reason(
    tmp_path: Path, definition: StreamDefinition, parallelism: int, reason: str
) -> None:
    path = savepoint(tmp_path / "one", part(0, AGGREGATE))
    with pytest.raises(SavepointUnusable) as refused:
        restore(path, tmp_path / "own", parallelism=parallelism, definition=definition)
    assert reason in str(refused.value)
    assert not (tmp_path / "own").exists()


def test_the_partitions_of_a_stream_without_state_are_shared_out_anew(tmp_path: Path) -> None:
    parts = part(0, offsets=('{"t":{"0":3,"2":5}}',)), part(1, offsets=('{"t":{"1":4,"3":6}}',))
    path, location = savepoint(tmp_path / "one", *parts), tmp_path / "own"
    assert restore(path, location) == 1
    assert read_batch_note(Place(str(location)), 0) == BatchNote(
        {"spark.sql.shuffle.partitions": "2"}, 0, ('{"t": {"0": 3, "1": 4, "2": 5, "3": 6}}',)
    )
    assert (location / "commits" / "0").is_file()
    assert (location / RESTORED).is_file()
    notes = [BatchNote({}, 0, each.offsets) for each in parts]
    assert [redistribute(notes, index, 3).offsets for index in range(3)] == [
        ('{"t": {"0": 3, "3": 6}}',),
        ('{"t": {"1": 4}}',),
        ('{"t": {"2": 5}}',),
    ]


def test_what_cannot_be_shared_out_anew_says_why(tmp_path: Path) -> None:
    with pytest.raises(SavepointUnusable, match="a subtask had not read anything yet"):
        restore(savepoint(tmp_path / "one", part(0, offsets=())), tmp_path / "own", parallelism=2)
    with pytest.raises(SavepointUnusable, match="invalid offset of Kafka"):
        restore(savepoint(tmp_path / "two", part(0, offsets=("7",))), tmp_path / "own", parallelism=2)


def test_state_that_no_stream_takes_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    found = read_savepoint(str(savepoint(tmp_path / "one", part(0))))
    with pytest.raises(SavepointUnusable, match=r"has the streams 's', which no stream of the job goes on with: .* the job has 'a', 'b'"):
        check_streams(found, ("a", "b"), allow_non_restored_state=False)
    check_streams(found, ("a", "b"), allow_non_restored_state=True)


def without_manifest(path: Path) -> None:
    (path / MANIFEST).unlink()


def without_part(path: Path) -> None:
    (path / "s" / "1" / SUBTASK_MANIFEST).unlink()


def with_another_manifest(path: Path) -> None:
    (path / MANIFEST).write_text('{"format_version": 7}')


def with_a_path_for_a_name(path: Path) -> None:
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["streams"][0]["vertex_id"] = "../../elsewhere"
    (path / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (without_manifest, "invalid savepoint '.*': it has no manifest.json"),
        (without_part, r"is not complete: it has no part of s\[1\]"),
        (with_another_manifest, "is not what a savepoint has there: format_version: must be 1"),
        (with_a_path_for_a_name, "is not what a savepoint has there: streams.0.vertex_id: must match"),
    ],
)
def test_what_is_no_whole_savepoint_says_what_is_missing(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    path = savepoint(tmp_path / "one", part(0), part(1))
    spoil(path)
    with pytest.raises(SavepointUnusable, match=reason):
        read_savepoint(str(path))


# -- damage -----------------------------------------------------------------------------------------------------------

NOTE = "checkpoint/offsets/4"
COPY_AGAIN = "Copy it again from where it is whole, or begin in another savepoint"


def without_a_file(directory: Path) -> None:
    (directory / NOTE).unlink()


def with_a_file_more(directory: Path) -> None:
    (directory / "checkpoint" / "offsets" / "17").write_text("v1")


def with_a_file_cut(directory: Path) -> None:
    (directory / NOTE).write_bytes((directory / NOTE).read_bytes()[:-1])


def with_a_byte_turned(directory: Path) -> None:
    (directory / NOTE).write_bytes((directory / NOTE).read_bytes()[:-1] + b"?")


def with_two_files_exchanged(directory: Path) -> None:
    one, other = directory / "checkpoint/state/0/0/4.delta", directory / NOTE
    texts = one.read_bytes(), other.read_bytes()
    other.write_bytes(texts[0])
    one.write_bytes(texts[1])


def without_sums(directory: Path) -> None:
    (directory / SUMS).unlink()


def with_sums_of_another_part(directory: Path) -> None:
    (directory / SUMS).write_text((directory / SUMS).read_text().replace("offsets/4", "offsets/9"))


BEFORE_SUBMIT = [
    (without_a_file, rf"of its \d+ files {NOTE} is missing"),
    (with_a_file_more, r"beside its \d+ files checkpoint/offsets/17 is there that nobody wrote with it"),
    (with_a_file_cut, r"its \d+ files have [\d,]+ bytes, and [\d,]+ were written"),
    (without_sums, f"it has no {SUMS}"),
    (with_sums_of_another_part, f"{SUMS} is not what was written"),
]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        *(each for each in BEFORE_SUBMIT if each[0] is not with_a_file_cut),
        (with_a_file_cut, rf"of its \d+ files {NOTE} is not as written"),
        (with_a_byte_turned, rf"of its \d+ files {NOTE} is not as written"),
        (with_two_files_exchanged, rf"{NOTE}, checkpoint/state/0/0/4\.delta are not as written"),
    ],
)
def test_nothing_begins_in_a_part_that_is_damaged(tmp_path: Path, damage: Callable[[Path], None], says: str) -> None:
    path = savepoint(tmp_path / "one", part(0, AGGREGATE))
    damage(path / "s" / "0")
    with pytest.raises(SavepointUnusable, match=rf"invalid savepoint: its part '.*one/s/0' is damaged: .*{says}.*\. {COPY_AGAIN}"):
        restore(path, tmp_path / "own")
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(("damage", "says"), BEFORE_SUBMIT)
def test_what_can_be_known_of_damage_without_reading_all_is_said_before_the_job_runs(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    path = savepoint(tmp_path / "one", part(0, AGGREGATE))
    kafka = {"kafka": {"topic": "t"}, "format": "json", "schema": "k STRING"}
    definition = {"sources": {"source": kafka}, "sink": {"kafka": {"topic": "out"}, "format": "json"}}
    graph = parse_job_graph({"name": "n", "vertices": [{"id": "s", "python": "m:f", "stream": definition}]}, "f")
    assert begin_in_savepoint(graph, path, allow_non_restored_state=False).restore is not None
    damage(path / "s" / "0")
    with pytest.raises(SavepointUnusable, match=says):
        begin_in_savepoint(graph, path, allow_non_restored_state=False)


def test_a_savepoint_is_checked_by_sha256sum_as_well(tmp_path: Path) -> None:
    directory = savepoint(tmp_path / "one", part(0, AGGREGATE)) / "s" / "0"
    check = ["sha256sum", "--check", "--quiet", SUMS]
    assert subprocess.run(check, cwd=directory, check=False).returncode == 0
    with_a_byte_turned(directory)
    assert subprocess.run(check, cwd=directory, check=False, capture_output=True).returncode == 1


def test_a_savepoint_that_was_moved_is_whole(tmp_path: Path) -> None:
    path = savepoint(tmp_path / "one", part(0, AGGREGATE)).rename(tmp_path / "moved")
    assert restore(path, tmp_path / "own") == 6


def test_a_manifest_that_names_other_directories_removes_none(tmp_path: Path) -> None:
    path = savepoint(tmp_path / "one" / "two", part(0))
    put(tmp_path / "elsewhere", file="mine")
    with_a_path_for_a_name(path)
    with pytest.raises(SavepointUnusable, match=r"streams\.0\.vertex_id"):
        dispose_savepoint(str(path))
    assert (tmp_path / "elsewhere" / "file").is_file()


def test_a_path_that_fsspec_does_not_know_is_refused_by_its_scheme() -> None:
    with pytest.raises(SavepointUnusable, match="'nowhere://x' cannot be used: Protocol not known: nowhere"):
        read_savepoint("nowhere://x")


def test_a_savepoint_is_removed_with_what_it_has_and_nothing_else(tmp_path: Path) -> None:
    path = savepoint(tmp_path / "one", part(0), part(1))
    without_part(path)
    put(path, **{"notes.txt": "mine", "other/file": "mine"})
    assert dispose_savepoint(str(path)).job_id == "j"
    assert sorted(each.name for each in path.iterdir()) == ["notes.txt", "other"]
    with pytest.raises(SavepointUnusable, match="invalid savepoint"):
        dispose_savepoint(str(path))
    dispose_savepoint(str(savepoint(tmp_path / "two", part(0))))
    assert not (tmp_path / "two").exists()


def test_a_savepoint_may_be_where_any_file_system_is(tmp_path: Path) -> None:
    files, root = open_path("memory://savepoints/one")
    path = savepoint(tmp_path / "one", part(0))
    files.put(f"{path}/", f"{root}/", recursive=True)
    location = tmp_path / "jobs" / "checkpoint.0"
    subtask = RestoringSubtask("s", 0, 1, stream())
    assert restore_checkpoint("memory://savepoints/one", subtask, ("s",), Place(str(location)), allow_non_restored_state=False) == 6
    assert (location / "offsets" / "5").is_file()
    dispose_savepoint("memory://savepoints/one")
    assert not files.exists(root)
