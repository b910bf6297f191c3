"""Which blobs a clean-up takes away, and that none goes that somebody refers to or has just uploaded."""

import io
import os
from pathlib import Path

import pytest

from eventflink.blob import BlobNotFound
from eventflink.blob.cleaning import ABANDONED_AFTER_MS, CleaningAction, CleaningRules, CleaningStep, carry_out, plan_cleaning
from eventflink.blob.keys import BlobKind, blob_key
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.store import BlobEntry, BlobPlace, BlobStore

RULES = CleaningRules(grace_period_ms=1000, transient_lifetime_ms=500)
NOW = 10_000_000
A, B, C = (blob_key(name) for name in (b"a", b"b", b"c"))
TRANSIENT = f"t-{A}-{'0' * 16}"
OLD = NOW - 1000


def entry(key: str, place: BlobPlace, age_ms: int | None) -> BlobEntry:
    return BlobEntry(key, place, None if age_ms is None else NOW - age_ms)


@pytest.mark.parametrize(
    ("place", "age_ms", "action"),
    [
        (BlobPlace.PERMANENT, 999, None),
        (BlobPlace.PERMANENT, 1000, CleaningAction.CONDEMN),
        (BlobPlace.PERMANENT, -5000, None),
        (BlobPlace.PERMANENT, None, None),
        (BlobPlace.CONDEMNED, 999, None),
        (BlobPlace.CONDEMNED, 1000, CleaningAction.DELETE),
        (BlobPlace.CONDEMNED, None, None),
        (BlobPlace.TRANSIENT, 499, None),
        (BlobPlace.TRANSIENT, 500, CleaningAction.DELETE),
        (BlobPlace.INCOMING, ABANDONED_AFTER_MS - 1, None),
        (BlobPlace.INCOMING, ABANDONED_AFTER_MS, CleaningAction.DELETE),
    ],
)
def test_what_nobody_refers_to_goes_after_its_time(place: BlobPlace, age_ms: int | None, action: CleaningAction | None) -> None:
    found = entry({BlobPlace.TRANSIENT: TRANSIENT, BlobPlace.INCOMING: "blob-x"}.get(place, A), place, age_ms)
    assert plan_cleaning([found], {B}, NOW, RULES) == ([] if action is None else [CleaningStep(action, found)])


def test_what_a_job_refers_to_stays_however_old_and_comes_back_if_it_was_condemned() -> None:
    entries = [entry(A, BlobPlace.PERMANENT, NOW), entry(B, BlobPlace.CONDEMNED, NOW), entry(C, BlobPlace.CONDEMNED, 0)]
    restored = [CleaningStep(CleaningAction.RESTORE, found) for found in entries[1:]]
    assert plan_cleaning(entries, {A, B, C}, NOW, RULES) == restored


def test_a_condemned_copy_of_a_blob_that_is_at_its_place_is_left_alone_while_a_job_refers_to_it() -> None:
    copies = [entry(A, BlobPlace.CONDEMNED, NOW), entry(A, BlobPlace.PERMANENT, NOW)]
    assert plan_cleaning(copies, {A}, NOW, RULES) == []
    assert [step.action for step in plan_cleaning(copies, (), NOW, RULES)] == [CleaningAction.DELETE, CleaningAction.CONDEMN]


def test_a_transient_blob_is_no_job_s_even_if_its_bytes_are() -> None:
    found = entry(TRANSIENT, BlobPlace.TRANSIENT, 500)
    assert plan_cleaning([found], {A}, NOW, RULES) == [CleaningStep(CleaningAction.DELETE, found)]


def test_that_a_blob_was_a_job_s_is_forgotten_once_it_is_gone_and_not_before() -> None:
    owners = [entry(f"{key}~job", BlobPlace.OWNER, ABANDONED_AFTER_MS) for key in (A, B, TRANSIENT, C)]
    owners += [entry(f"{C}~young", BlobPlace.OWNER, ABANDONED_AFTER_MS - 1), entry(f"{C}~undated", BlobPlace.OWNER, None)]
    blobs = [entry(A, BlobPlace.PERMANENT, 0), entry(B, BlobPlace.CONDEMNED, 0), entry(TRANSIENT, BlobPlace.TRANSIENT, 0)]
    assert plan_cleaning([*owners, *blobs], (), NOW, RULES) == [CleaningStep(CleaningAction.DELETE, owners[3])]


def test_a_run_is_bounded_and_brings_back_first() -> None:
    entries = [entry(blob_key(bytes([n])), BlobPlace.PERMANENT, 5000) for n in range(20)] + [entry(A, BlobPlace.CONDEMNED, 5000)]
    plan = plan_cleaning(entries, {A}, NOW, RULES, max_steps=5)
    assert [step.action for step in plan] == [CleaningAction.RESTORE] + [CleaningAction.CONDEMN] * 4


# -- carried out on a directory ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(LocalStorage(tmp_path / "blobs"))


def upload(store: BlobStore, data: bytes = b"a", kind: BlobKind = BlobKind.PERMANENT) -> str:
    return store.put(io.BytesIO(data), 100, kind).key


def grow_old(store: BlobStore, age_ms: int = 5000) -> None:
    """Make all files older."""
    for name, modified_ms, _ in store.storage.list():
        assert modified_ms is not None
        time_ns = (modified_ms - age_ms) * 1_000_000
        os.utime(Path(store.storage.location) / name, ns=(time_ns, time_ns))


def plan(store: BlobStore, *referred: str) -> list[CleaningStep]:
    now_ms = store.storage.now_ms()
    assert now_ms is not None
    return plan_cleaning(store.entries(), referred, now_ms, RULES)


def run(store: BlobStore, *referred: str) -> list[str]:
    return [step.action for step in plan(store, *referred) if carry_out(store, step)]


def test_a_blob_goes_in_two_runs_and_a_third_finds_nothing(store: BlobStore) -> None:
    key = upload(store)
    assert run(store) == []
    grow_old(store)
    assert run(store, key) == []
    assert run(store) == ["condemn"]
    assert store.get(key) == b"a"
    assert run(store) == ["delete"]
    with pytest.raises(BlobNotFound):
        store.get(key)
    assert run(store) == []


def test_nothing_is_left_of_a_blob_that_was_a_job_s(store: BlobStore) -> None:
    store.note_owner(upload(store), "job")
    grow_old(store, ABANDONED_AFTER_MS)
    assert [run(store) for _ in range(4)] == [["condemn"], ["delete"], ["delete"], []]
    assert list(store.storage.list()) == []


def test_a_submission_between_the_two_runs_brings_the_blob_back(store: BlobStore) -> None:
    key = upload(store)
    grow_old(store)
    assert run(store) == ["condemn"]
    assert run(store, key) == ["restore"]
    assert run(store, key) == []
    assert [e.place for e in store.entries()] == [BlobPlace.PERMANENT]


def test_an_upload_after_the_plan_keeps_the_blob_where_it_is(store: BlobStore) -> None:
    upload(store)
    grow_old(store)
    (step,) = plan(store)
    key = upload(store)
    assert not carry_out(store, step)
    assert [e.place for e in store.entries()] == [BlobPlace.PERMANENT]
    assert store.get(key) == b"a"


@pytest.mark.rule("L5")
def test_an_upload_in_the_very_moment_of_the_condemnation_lives_for_a_whole_grace_period(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last look and the renaming the blob is uploaded again: what is moved aside is the new file, and is as young."""
    upload(store)
    grow_old(store)
    (step,) = plan(store)
    condemn = store.condemn

    def upload_and_condemn(key: str) -> bool:
        upload(store)
        return condemn(key)

    monkeypatch.setattr(store, "condemn", upload_and_condemn)
    assert carry_out(store, step)
    assert store.get(blob_key(b"a")) == b"a"
    assert run(store) == []  # Nobody refers to it yet: its submission is on the way.
    assert run(store, blob_key(b"a")) == ["restore"]


@pytest.mark.rule("L5")
def test_an_upload_in_the_very_moment_of_the_deletion_is_not_touched(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    key = upload(store)
    grow_old(store)
    run(store)
    (step,) = plan(store)
    delete = store.delete

    def upload_and_delete(key: str, place: BlobPlace | None = None) -> bool:
        upload(store)
        return delete(key, place)

    monkeypatch.setattr(store, "delete", upload_and_delete)
    assert carry_out(store, step)
    assert [(e.key, e.place) for e in store.entries()] == [(key, BlobPlace.PERMANENT)]


def test_a_step_that_another_master_did_before_does_nothing(store: BlobStore) -> None:
    upload(store)
    upload(store, b"t", BlobKind.TRANSIENT)
    grow_old(store)
    steps = plan(store)
    assert [carry_out(store, step) for step in steps] == [True, True]
    assert [carry_out(store, step) for step in steps] == [False, False]


def test_abandoned_uploads_go_and_recent_ones_stay(store: BlobStore) -> None:
    incoming = Path(store.storage.location) / "incoming"
    old, new = incoming / "blob-old", incoming / "blob-new"
    old.write_bytes(b"half")
    grow_old(store, ABANDONED_AFTER_MS)
    new.write_bytes(b"half")
    assert run(store) == ["delete"]
    assert list(incoming.iterdir()) == [new]
