"""P18: a snapshot and the records behind it lead to the state that the whole log leads to; what is not whole is never used."""

import copy
import dataclasses
import hashlib
import json
import os
import random
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from eventflink.events.codec import PayloadCodec
from eventflink.events.columns import ColumnsUnreadable
from eventflink.events.log_events import RegionRestarted
from eventflink.events.record_columns import Columns, NotStorable
from eventflink.events.schemas import MARKER
from eventflink.events.snapshot_records import SnapshotChunk, SnapshotManifest
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import RECENT_REPLIES, Fold, LogDiverged
from eventflink.leadership.known_log import LogTruncated
from eventflink.master.canonical import DERIVED, digest_of
from eventflink.master.exception_history import ExceptionHistory
from eventflink.master.inputs import RestartsDue
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.master.state import COMPONENTS, ClusterState
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.statuses import FailoverStrategy
from eventflink.snapshots import snapshot as snapshot_module
from eventflink.snapshots.search import ENVELOPE, MANIFEST, Candidate, SnapshotSearch, record_key
from eventflink.snapshots.snapshot import (
    LogRange,
    SnapshotUnusable,
    check_history,
    check_manifest,
    encode_fold,
    restore_snapshot,
    take_snapshot,
)
from eventflink.snapshots.state_codec import FORMAT_VERSION, StateCodec, document_of, restore_fold
from tests.support.cluster import START_MS, ScriptedCluster, graph, new_fold, replay, vertex
from tests.support.scenarios import busy_cluster, eventful_cluster, restarting_cluster

SCENARIOS: dict[str, Callable[[], ScriptedCluster]] = {
    "busy": busy_cluster,
    "eventful": eventful_cluster,
    "restarting": restarting_cluster,
}
LOG = LogRange("topic-id", 0, 1_000_000)
CODEC = PayloadCodec(ENVELOPE)

Taken = tuple[SnapshotManifest, dict[int, SnapshotChunk]]


@cache
def _log(name: str) -> tuple[bytes, ...]:
    return tuple(SCENARIOS[name]().log)


def _take(fold: Fold, snapshot_id: str = "one") -> Taken:
    manifest, chunks = take_snapshot(fold, snapshot_id, "master-1", LOG.topic_id)
    return manifest, {chunk.chunk_index: chunk for chunk in chunks}


def _load(taken: Taken) -> Fold:
    fold = new_fold(MasterSettings(job_store_capacity=2))
    check_manifest(taken[0], LOG)
    restore_snapshot(*taken, fold, verify=True)
    return fold


def _values(fold: Fold) -> dict[str, Any]:
    """Return everything that a fold is, derived fields included, without its codec and settings."""
    parts = fold.master.components()
    return parts | {f.name: getattr(fold, f.name) for f in dataclasses.fields(fold) if f.name not in ("master", "codec")}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut snapshots into many pieces."""
    monkeypatch.setattr(snapshot_module, "MAX_SNAPSHOT_CHUNK_BYTES", 500)


# -- snapshot + tail == the whole log ------------------------------------------------------------------------------


WHOLE_TAILS = 16
"""Of so many snapshots one is followed to the log's end, and the others by one record: what they restore is the same value by value."""

STRIDE = 5
"""Of so many offsets one is tried, others with each commit; `make soak` tries all."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_snapshot_and_tail_equal_the_full_replay_at_offsets_everywhere(name: str) -> None:
    assert_snapshots_lead_to_the_full_replay(_log(name), int(os.environ.get("FUZZ_SEED", "0")) // 1000 % STRIDE, STRIDE)


@pytest.mark.rule("P18")
@pytest.mark.soak("eventflink.snapshots", "eventflink.master", "eventflink.leadership")
@pytest.mark.parametrize("name", SCENARIOS)
def test_snapshot_and_tail_equal_the_full_replay_at_every_offset(name: str) -> None:
    assert_snapshots_lead_to_the_full_replay(_log(name), 0, 1)


def assert_snapshots_lead_to_the_full_replay(log: tuple[bytes, ...], first: int, stride: int) -> None:
    whole = replay(log)
    fold, restored = new_fold(), new_fold()
    for offset, value in enumerate(log):
        fold.fold_record(offset, START_MS, value)
        restored.fold_record(offset, START_MS, value)
        if offset % stride != first:
            continue
        assert encode_fold(restored) == encode_fold(fold), f"a snapshot before {offset} leads elsewhere"
        restored = _load(_take(fold))
        assert _values(restored) == _values(fold), f"the fold restored at {offset} is another one"
        restored.master.validate()
        if offset % WHOLE_TAILS == 0:
            followed = _load(_take(fold))
            for later in range(offset + 1, len(log)):
                followed.fold_record(later, START_MS, log[later])
            assert followed.master.digest() == whole.master.digest(), f"the snapshot at {offset} leads elsewhere"
            assert encode_fold(followed) == encode_fold(whole)


def test_a_snapshot_of_nothing_is_the_beginning() -> None:
    assert _values(_restored_from(document_of(new_fold()))) == _values(new_fold())


def test_what_is_restored_shares_what_the_parts_share() -> None:
    """A job that ends wants follow-ups of its master, and not of a copy."""
    fold = _load(_take(replay(_log("busy"))))
    master = fold.master
    assert master.dispatcher.jobs
    assert all(job.follow_ups is master.follow_ups for job in master.dispatcher.jobs.values())
    assert all(job.slot_manager is master.slot_manager for job in master.dispatcher.jobs.values())
    assert master.slot_manager.follow_ups is master.follow_ups is master.dispatcher.follow_ups
    assert master.uploads.dispatcher is master.job_store.dispatcher is master.dispatcher
    assert fold.recent_replies.maxlen == RECENT_REPLIES


def test_the_settings_are_the_readers_own() -> None:
    assert _load(_take(replay(_log("busy")))).master.settings.job_store_capacity == 2


def test_a_fold_that_goes_on_does_not_change_its_snapshot() -> None:
    log = _log("busy")
    fold = replay(log[:25])
    before = fold.master.digest()
    manifest, chunks = take_snapshot(fold, "one", "master-1", "")
    for offset in range(25, len(log)):
        fold.fold_record(offset, START_MS, log[offset])
    restored = _load((manifest, {chunk.chunk_index: chunk for chunk in chunks}))
    assert restored.master.digest() == before != fold.master.digest()


def test_the_tail_of_another_log_is_noticed() -> None:
    """Density and the running hash continue from where the snapshot stands."""
    log = _log("busy")
    restored = _load(_take(replay(log[:30])))
    with pytest.raises(LogNotDense):
        restored.fold_record(31, START_MS, log[31])
    other = [*log[:29], log[30]]  # The record at 29 was another one.
    foreign = _load(_take(replay(log[:30])))
    foreign.running_hash = replay(other[:29]).running_hash
    with pytest.raises(LogDiverged):
        foreign.fold_record(30, START_MS, log[30])
    assert restored.fold_record(30, START_MS, log[30]) is not None


@pytest.mark.usefixtures("small_chunks")
def test_the_pieces_are_bounded_and_make_the_whole() -> None:
    fold = replay(_log("eventful"))
    manifest, chunks = _take(fold)
    assert manifest.chunk_count == len(chunks) > 3
    assert {len(chunk.data) for chunk in chunks.values()} - {500} == {manifest.byte_count % 500}
    assert _load((manifest, chunks)).master.digest() == fold.master.digest()
    assert manifest.log_offset == len(_log("eventful")) - 1
    assert (manifest.epoch, manifest.sequence) == (fold.acceptance.epoch, fold.acceptance.sequence)


# -- what is damaged is not used ------------------------------------------------------------------------------------


def _without_a_piece(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    del chunks[1]
    return manifest, chunks


def _with_a_flipped_bit(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    chunks[1].data = chunks[1].data[:9] + bytes([chunks[1].data[9] ^ 1]) + chunks[1].data[10:]
    return manifest, chunks


def _with_a_well_sealed_other_piece(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    data = bytes(len(chunks[1].data))
    chunks[1] = SnapshotChunk(manifest.snapshot_id, 1, data, zlib.crc32(data))
    return manifest, chunks


def _with_swapped_pieces(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    chunks[0], chunks[1] = chunks[1], chunks[0]
    return manifest, chunks


def _with_a_foreign_piece(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    chunks[1] = dataclasses.replace(chunks[1], snapshot_id="two")
    return manifest, chunks


def _with_another_length(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, document_byte_count=manifest.document_byte_count - 1), chunks


def _with_another_sha256(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, sha256=bytes(32)), chunks


def _with_another_digest(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, digest="0" * 64), chunks


def _with_another_place(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, log_offset=manifest.log_offset - 1), chunks


def _of_a_newer_format(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, format_version=FORMAT_VERSION + 1), chunks


def _of_a_newer_feature_level(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, feature_level=FEATURE_LEVEL + 1), chunks


def _of_another_topic(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, log_topic_id="another"), chunks


def _from_beyond_the_end(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, log_offset=LOG.end_offset), chunks


def _from_before_the_beginning(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, log_offset=-2), chunks


def _of_absurd_size(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, byte_count=1 << 50, chunk_count=1 << 31), chunks


def _with_too_few_pieces(manifest: SnapshotManifest, chunks: dict[int, SnapshotChunk]) -> Taken:
    return dataclasses.replace(manifest, chunk_count=manifest.chunk_count - 1), chunks


DAMAGES: list[tuple[Callable[[SnapshotManifest, dict[int, SnapshotChunk]], Taken], str]] = [
    (_without_a_piece, "chunk 1 of .* is missing"),
    (_with_a_flipped_bit, "chunk 1 is damaged"),
    (_with_a_well_sealed_other_piece, "SHA-256"),
    (_with_swapped_pieces, "chunk 0 is damaged"),
    (_with_a_foreign_piece, "chunk 1 is damaged"),
    (_with_another_length, "does not unpack to"),
    (_with_another_sha256, "SHA-256"),
    (_with_another_digest, "has the digest"),
    (_with_another_place, "stands elsewhere"),
    (_of_a_newer_format, "its format is"),
    (_of_a_newer_feature_level, "its feature level is"),
    (_from_before_the_beginning, "before the first record"),
    (_of_absurd_size, "out of bounds"),
    (_with_too_few_pieces, "chunks do not hold"),
]


@pytest.mark.rule("P18")
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[damage.__name__.strip("_") for damage, _ in DAMAGES])
def test_a_damaged_snapshot_is_refused_by_name(damage: Callable[[SnapshotManifest, dict[int, SnapshotChunk]], Taken], reason: str) -> None:
    taken = _take(replay(_log("busy")))
    _load(copy.deepcopy(taken))
    with pytest.raises(SnapshotUnusable, match=reason) as caught:
        _load(damage(*taken))
    assert "snapshot one" in str(caught.value)


@pytest.mark.rule("P5a")
@pytest.mark.parametrize(
    ("differently", "reason"),
    [
        (_of_another_topic, "it is the topic topic-id, created after the topic another, of which the snapshot one was taken"),
        (_from_beyond_the_end, r"it ends at 1000000, and the records? .* missing, of which the snapshot one was taken"),
    ],
)
def test_a_snapshot_of_more_than_the_log_has_shows_that_the_log_was_truncated(differently: Callable[..., Taken], reason: str) -> None:
    with pytest.raises(LogTruncated, match=reason):
        _load(differently(*_take(replay(_log("busy")))))


def test_a_snapshot_behind_which_the_log_was_trimmed_is_refused_only_when_it_does_not_reach() -> None:
    manifest, _ = _take(replay(_log("busy")[:30]))
    check_manifest(manifest, LogRange("topic-id", 30, 100))
    with pytest.raises(SnapshotUnusable, match="begins behind it, at 31"):
        check_manifest(manifest, LogRange("topic-id", 31, 100))


def _seal(document: bytes, manifest: SnapshotManifest, *, claimed: int | None = None) -> Taken:
    """Return a snapshot of any document whose every check sum is right."""
    data = zlib.compress(document)
    sealed = dataclasses.replace(
        manifest,
        byte_count=len(data),
        document_byte_count=len(document) if claimed is None else claimed,
        sha256=hashlib.sha256(data).digest(),
        chunk_count=1,
    )
    return sealed, {0: SnapshotChunk(manifest.snapshot_id, 0, data, zlib.crc32(data))}


def test_what_unpacks_to_more_than_it_says_is_not_unpacked() -> None:
    manifest, _ = _take(replay(_log("busy")))
    with pytest.raises(SnapshotUnusable, match="does not unpack to 1000 bytes"):
        _load(_seal(b" " * 50_000_000, manifest, claimed=1000))


@pytest.mark.parametrize("document", [b"[" * 100_000, b"{", b"null", b"\xff", b"[]", b'{"format": 1}', b"1" * 10_000])
def test_documents_that_are_none_are_refused(document: bytes) -> None:
    manifest, _ = _take(replay(_log("busy")))
    with pytest.raises(SnapshotUnusable):
        _load(_seal(document, manifest))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of everything in a document."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, inner in items:
        yield value, key
        yield from _places(inner)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_stands_in_a_well_sealed_document_it_is_refused_or_read(seed: int) -> None:
    """Nothing but `SnapshotUnusable` ever comes out of it, and no lengths make anything large."""
    dice = random.Random(seed)
    fold = replay(_log("busy"))
    manifest, _ = _take(fold)
    document = json.loads(encode_fold(fold))
    places = list(_places(document))
    refused = 0
    for _ in range(40):
        container, key = dice.choice(places)
        before = container[key]
        container[key] = dice.choice([None, -1, 10**18, 10**40, "x", [], {}, [10**12], True, 0.5, [[]], [None], {"lengths": [10**12]}])
        try:
            _load(_seal(json.dumps(document).encode(), manifest))
        except SnapshotUnusable:
            refused += 1
        container[key] = before
    assert refused > 20


# -- versions --------------------------------------------------------------------------------------------------------


def _restored_from(document: Any) -> Fold:
    fold = new_fold()
    restore_fold(json.loads(json.dumps(document)), fold)
    return fold


def test_a_state_of_an_older_version_takes_the_defaults() -> None:
    fold = replay(_log("busy"))
    document = document_of(fold)
    del document["fold"]["event_count"]
    del document["master"]["leader"]["master_id"]
    del document["master"]["dispatcher"]["jobs"]["values"]["restarts"]
    restored = _restored_from(document)
    assert restored.event_count == 0
    assert restored.master.leader.master_id == ""
    assert restored.master.upkeep.feature_level == fold.master.upkeep.feature_level
    assert {job.restarts.count for job in restored.master.dispatcher.jobs.values()} == {0}
    assert list(restored.master.dispatcher.jobs) == list(fold.master.dispatcher.jobs)


def _drop(document: Any, names: set[str]) -> set[str]:
    """Remove fields wherever they are; return which of them were there."""
    if isinstance(document, list):
        return {name for each in document for name in _drop(each, names)}
    if not isinstance(document, dict):
        return set()
    found = {name for name in names if document.pop(name, None) is not None}
    return found | {name for each in document.values() for name in _drop(each, names)}


def test_a_job_of_an_older_version_restarts_by_region_and_has_no_history() -> None:
    fold = replay(_log("busy"))
    document = document_of(fold)
    newer = {"history", "failover_strategy", "begun", "exceptions", "revoked", "checkpointing", "checkpoints"}
    newer |= {"max_delay_ms", "multiplier", "reset_threshold_ms", "jitter_factor", "interval_ms"}
    assert _drop(document, newer) >= {"history", "exceptions"}
    restored = _restored_from(document)
    restored.master.validate()
    job = restored.master.dispatcher.jobs["restarting"]
    assert (job.restarts.failover_strategy, job.exceptions) == (FailoverStrategy.REGION, ExceptionHistory())
    [restart] = restored.master.decide(RestartsDue("restarting"), 1_900_000_000_000)[:1]
    assert restart == RegionRestarted("restarting", "a", 0, 2)


def test_a_part_that_an_older_version_did_not_have_begins_as_it_does() -> None:
    document = document_of(replay(_log("busy")))
    del document["master"]["upkeep"]
    assert _restored_from(document).master.upkeep == new_fold().master.upkeep


def test_a_state_without_a_field_that_has_no_default_is_refused_by_name() -> None:
    document = document_of(replay(_log("busy")))
    del document["master"]["dispatcher"]["jobs"]["values"]["graph_digest"]
    with pytest.raises(ColumnsUnreadable, match=r"JobMaster\.graph_digest is missing"):
        _restored_from(document)


def test_a_state_with_a_field_that_this_version_does_not_know_is_refused_by_name() -> None:
    document = document_of(replay(_log("busy")))
    document["master"]["requests"]["colour"] = ["red"]
    with pytest.raises(ColumnsUnreadable, match="Requests: unknown fields: colour"):
        _restored_from(document)


def test_everything_that_a_master_is_made_of_is_stored() -> None:
    """Its tables and its settings are not; whatever else is added to it is stored from then on, or this fails."""
    assert set(Master.__slots__) == {"_deciders", "replays", "settings"}
    assert tuple(StateCodec(Master(MasterSettings()))._parts) == ClusterState.__slots__ == COMPONENTS


@dataclasses.dataclass(slots=True)
class Earlier:
    """A record of the state."""

    job_id: str
    attempts: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Later(Earlier):
    """What a later version has in its place."""

    notes: dict[str, int] = dataclasses.field(default_factory=dict)
    colour: str = ""


@pytest.mark.rule("P19")
def test_what_a_later_version_added_is_in_no_digest_and_no_snapshot_before_it_is_used() -> None:
    """Masters of both confirm each other's snapshots and go back to one: where the log is trimmed, there is nothing else."""
    earlier, later = Columns({}).of(Earlier), Columns({}).of(Later)
    plain = earlier.write([Earlier("a"), Earlier("b", [1])])
    assert later.write([Later("a"), Later("b", [1])]) == plain
    assert later.read(plain, 2) == [Later("a"), Later("b", [1])]
    assert digest_of({"part": Later("a")}) == digest_of({"part": Earlier("a")}) == digest_of({"part": Earlier("a"), "new": WithNothing()})
    used = Later("a", colour="red")
    assert digest_of({"part": used}) != digest_of({"part": Earlier("a")})
    with pytest.raises(ColumnsUnreadable, match="Earlier: unknown fields: colour"):
        earlier.read(later.write([used]), 1)


def test_a_part_of_the_state_that_is_not_used_is_not_in_a_snapshot() -> None:
    assert document_of(new_fold())["master"] == {}


@dataclasses.dataclass(slots=True)
class WithNothing:
    """A part of the state that only the later version has, and has not used."""

    rows: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class WithIndex:
    """A state with an index that nobody computes again."""

    rows: list[int]
    index: dict[int, int] = dataclasses.field(metadata=DERIVED)


@dataclasses.dataclass(slots=True)
class WithAnything:
    """A state with something that could be anything."""

    rows: list[Any]


@dataclasses.dataclass(slots=True)
class WithSet:
    """A state whose order is not its own."""

    rows: set[str]


@pytest.mark.parametrize(("cls", "named"), [(WithIndex, "index is derived"), (WithAnything, r"WithAnything\.rows"), (WithSet, "set")])
def test_a_field_that_cannot_be_stored_is_named_before_anything_is(cls: type[Any], named: str) -> None:
    with pytest.raises(NotStorable, match=named):
        Columns({}).of(cls)


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        (int, [1, 10**30, -1]),
        (str, ["", "ä\ud7ff\0", "x" * 10_000]),
        (bytes, [b"", b"\0\xff"]),
        (bool, [True, False]),
        (str | None, [None, "x", None]),
        (tuple[str, int], [("a", 1)]),
        (tuple[str, int], []),
        (tuple[str, ...], [(), ("a",), ("b", "c")]),
        (list[list[int]], [[[]], [[1], []], []]),
        (deque[int], [deque([1, 2]), deque()]),
        (dict[str, None], [{"b": None, "a": None}, {}]),
        (dict[tuple[str, int], dict[int, str]], [{("a", 1): {2: "x"}, ("a", 0): {}}, {}]),
    ],
)
def test_every_kind_of_column_reads_what_it_wrote(annotation: Any, values: list[Any]) -> None:
    column = Columns({}).of(annotation)
    read = column.read(json.loads(json.dumps(column.write(values))), len(values))
    assert read == values
    assert list(map(type, read)) == list(map(type, values))
    assert [list(v) for v in read if isinstance(v, dict)] == [list(v) for v in values if isinstance(v, dict)]


# -- finding the newest in the topic --------------------------------------------------------------------------------


Record = tuple[str, bytes | None]


def _records(snapshot_id: str, length: int) -> list[Record]:
    """Return what is written of a snapshot of the log's first records."""
    manifest, chunks = _take(replay(_log("eventful")[:length]), snapshot_id)
    records: list[Record] = [(record_key(snapshot_id, index), CODEC.encode(chunk)) for index, chunk in chunks.items()]
    return [*records, (record_key(snapshot_id, MANIFEST), CODEC.encode(manifest))]


def _find(records: list[Record], window: int = 1_000_000, log: LogRange = LOG) -> tuple[str | None, list[str]]:
    """Search as a reader of the topic does, some records at a time; return the id that was found, and what was passed over."""
    search = SnapshotSearch(log)
    end = len(records)
    skipped = []
    while end > 0:
        start = max(0, end - window)
        for key, value in reversed(records[start:end]):
            search.read_record(key, value)
        end = start
        candidate: Candidate | None
        while (candidate := search.pop_newest(at_the_beginning=end == 0)) is not None:
            try:
                _load((candidate.manifest, candidate.chunks))
            except SnapshotUnusable as error:
                skipped.append(str(error))
            else:
                return candidate.manifest.snapshot_id, skipped + search.skipped
    return None, skipped + search.skipped


WINDOWS = pytest.mark.parametrize("window", [1, 2, 5, 1000])


@WINDOWS
@pytest.mark.usefixtures("small_chunks")
def test_the_newest_whole_snapshot_is_found(window: int) -> None:
    assert _find([*_records("old", 30), *_records("new", 60)], window) == ("new", [])
    assert _find([], window) == (None, [])


@WINDOWS
@pytest.mark.usefixtures("small_chunks")
def test_a_snapshot_whose_writer_died_is_passed_over_silently(window: int) -> None:
    torn = _records("torn", 60)[:-1]
    for length in range(len(torn) + 1):
        assert _find([*_records("old", 30), *torn[:length]], window) == ("old", [])


@WINDOWS
@pytest.mark.usefixtures("small_chunks")
def test_a_snapshot_that_lacks_a_piece_is_named_and_the_one_before_it_taken(window: int) -> None:
    new = _records("new", 60)
    for missing in range(len(new) - 1):
        found, skipped = _find([*_records("old", 30), *new[:missing], *new[missing + 1 :]], window)
        assert found == "old"
        assert any(f"snapshot new at offset 59: chunk {missing} of {len(new) - 1} is missing" in reason for reason in skipped)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.usefixtures("small_chunks")
def test_snapshots_written_at_the_same_time_do_not_mix(seed: int) -> None:
    dice = random.Random(seed)
    first, second = _records("first", 30), _records("second", 60)
    mixed: list[Record] = []
    while first or second:
        mixed.append((first if first and (not second or dice.random() < 0.5) else second).pop(0))
    newest = mixed[-1][0].partition("/")[0]
    assert _find(mixed, dice.choice([1, 3, 1000])) == (newest, [])


@pytest.mark.usefixtures("small_chunks")
def test_what_has_a_tombstone_is_gone() -> None:
    old, new = _records("old", 30), _records("new", 60)
    assert _find([*old, *new, (record_key("new", MANIFEST), None)]) == ("old", [])
    assert _find([*old, *new, *((key, None) for key, _ in reversed(new))]) == ("old", [])
    found, skipped = _find([*old, *new, (record_key("new", 0), None)])
    assert found == "old"
    assert "chunk 0" in skipped[0]


def test_records_that_are_none_are_named_and_passed_over() -> None:
    old, new = _records("old", 30), _records("new", 60)
    found, skipped = _find([*old, *new[:-1], (record_key("new", MANIFEST), b"garbage"), ("no key of ours", b"\xc3\x01")])
    assert found == "old"
    assert "snapshot new: its record manifest cannot be read" in skipped[0]
    found, skipped = _find([*old, (record_key("new", 0), b"garbage"), new[-1]])
    assert found == "old"
    assert "snapshot new: its record 0 cannot be read" in skipped[0]
    found, skipped = _find([*old, *new[:-1], (record_key("new", MANIFEST), old[-1][1])])
    assert found == "old"
    assert "is a SnapshotManifest of old" in skipped[0]


@pytest.mark.rule("P5a")
def test_a_search_goes_no_further_back_than_a_snapshot_of_what_is_gone() -> None:
    with pytest.raises(LogTruncated, match="it ends at 59, and the record 59 is missing, of which the snapshot new was taken"):
        _find([*_records("old", 30), *_records("new", 60)], log=LogRange("topic-id", 0, 59))


# -- whether it is of this log ---------------------------------------------------------------------------------------


def _histories() -> tuple[ScriptedCluster, ScriptedCluster]:
    """Return a cluster, and what became of it after its log had lost the end: its next leader had not read that."""
    lost = ScriptedCluster()
    lost.register()
    lost.submit(graph(vertex("a")), job_id="lost")
    lost.settle()
    other = ScriptedCluster()
    other.log, other.timestamps = lost.log[:-3], lost.timestamps[:-3]
    other.participant = other.new_participant(replay(other.log, timestamps=other.timestamps))
    other.lead()
    for number in range(4):
        other.submit(graph(vertex("b")), job_id=f"other-{number}")
        other.settle()
    return lost, other


def _held_against(manifest: SnapshotManifest, log: list[bytes], first_offset: int = 0) -> None:
    newest_first = ((offset, log[offset]) for offset in range(manifest.log_offset, first_offset - 1, -1))
    check_history(manifest, LogRange(LOG.topic_id, first_offset, len(log)), newest_first, new_fold().codec)


@pytest.mark.rule("P5a")
@pytest.mark.parametrize("first_offset", [0, 1])
def test_a_snapshot_of_records_that_are_gone_shows_it_however_long_the_log_is_by_now(first_offset: int) -> None:
    lost, other = _histories()
    for length in range(len(lost.log) - 2, len(lost.log) + 1):
        manifest, _ = _take(replay(lost.log[:length], timestamps=lost.timestamps))
        check_manifest(manifest, LogRange(LOG.topic_id, 0, len(other.log)))
        with pytest.raises(LogTruncated, match=f"up to the record {length - 1} it has other records than those of which the snapshot one"):
            _held_against(manifest, other.log, first_offset)


@pytest.mark.rule("P5a")
def test_a_later_leadership_of_which_the_log_lost_all_is_missed_as_well() -> None:
    """Its snapshot has a higher epoch than everything that the log has now."""
    lost, other = _histories()
    for _ in range(2):
        lost.participant = lost.new_participant(replay(lost.log, timestamps=lost.timestamps))
        lost.lead()
        lost.settle()
    manifest, _ = _take(replay(lost.log, timestamps=lost.timestamps))
    assert manifest.epoch > replay(other.log, timestamps=other.timestamps).acceptance.epoch
    assert manifest.log_offset < len(other.log)
    with pytest.raises(LogTruncated, match="it has other records"):
        _held_against(manifest, other.log)


@pytest.mark.rule("P5a")
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_snapshot_of_this_log_is_never_taken_for_one_of_another(name: str) -> None:
    log = list(_log(name))
    fold = new_fold()
    for offset, value in enumerate(log):
        fold.fold_record(offset, START_MS, value)
        manifest, _ = _take(fold)
        for first_offset in (0, offset, offset + 1):
            _held_against(manifest, log, first_offset)


def test_what_nobody_accepts_may_stand_behind_the_decision_of_a_snapshot() -> None:
    lost, other = _histories()
    late = lost.log[-3:]  # Of a leader that is fenced by now.
    log = [*other.log, *late, b"garbage", MARKER + bytes(40)]
    fold = replay(log[:-1], timestamps=[*other.timestamps, *([START_MS] * 4)])
    fold.last_offset += 1
    assert fold.rejected_count >= len(late)
    manifest, _ = _take(fold)
    _held_against(manifest, log)
    _held_against(manifest, log, len(other.log))
