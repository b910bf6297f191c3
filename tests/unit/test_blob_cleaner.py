"""The leader's cleaner, on a real participant and a real directory: only what was accepted counts, and only while it leads."""

import asyncio
import io
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from eventflink.blob import cleaning
from eventflink.blob.cleaning import CleaningAction
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.store import BlobPlace, BlobStore, blob_key
from eventflink.entrypoint import blob_cleaning
from eventflink.entrypoint.blob_cleaning import BlobCleaner, NotNow
from eventflink.model.configuration import build_configuration
from tests.support.hand import Hand

CONFIGURATION = build_configuration({"blob.service.cleanup.grace-period": 5000, "blob.service.cleanup.interval": 1000}, "test")
CONDEMN, RESTORE, DELETE = CleaningAction.CONDEMN, CleaningAction.RESTORE, CleaningAction.DELETE
USED = blob_key(b"used")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(LocalStorage(tmp_path / "blobs"))


@pytest.fixture
def hand() -> Hand:
    return Hand()


def put_old(store: BlobStore, *blobs: bytes) -> None:
    """Store blobs whose time is over, unless somebody refers to them."""
    for data in blobs:
        key = store.put(io.BytesIO(data), 100).key
        os.utime(Path(store.storage.location) / key[:2] / key, (1, 1))


def places(store: BlobStore) -> dict[str, BlobPlace]:
    return {entry.key: entry.place for entry in store.entries()}


def run(store: BlobStore, hand: Hand | None, test: Callable[[BlobCleaner], Awaitable[None]]) -> None:
    async def body() -> None:
        await test(BlobCleaner(CONFIGURATION, store, lambda: hand.participant if hand else None))

    asyncio.run(body())


async def clean(cleaner: BlobCleaner) -> Counter[CleaningAction]:
    return await asyncio.wait_for(cleaner.clean(), 120)


def test_what_no_job_refers_to_goes_in_two_runs_and_what_one_does_stays(store: BlobStore, hand: Hand) -> None:
    put_old(store, b"used", b"unused")
    hand.lead()
    hand.submit("job", USED)
    hand.settle()

    async def test(cleaner: BlobCleaner) -> None:
        assert await clean(cleaner) == {CONDEMN: 1}
        assert places(store) == {USED: BlobPlace.PERMANENT, blob_key(b"unused"): BlobPlace.CONDEMNED}
        assert await clean(cleaner) == {DELETE: 1}
        assert await clean(cleaner) == {}
        assert places(store) == {USED: BlobPlace.PERMANENT}

    run(store, hand, test)


def test_who_does_not_lead_touches_nothing(store: BlobStore, hand: Hand) -> None:
    put_old(store, b"unused")

    async def test(cleaner: BlobCleaner) -> None:
        with pytest.raises(NotNow, match="does not lead"):
            await clean(cleaner)

    for participant in (None, hand):
        run(store, participant, test)
    assert places(store) == {blob_key(b"unused"): BlobPlace.PERMANENT}


@pytest.mark.parametrize("put", [Hand.submit, Hand.put_schedule])
def test_nothing_goes_while_a_request_waits_that_may_need_it_nor_after_it(
    store: BlobStore, hand: Hand, put: Callable[[Hand, str, str], None]
) -> None:
    put_old(store, b"used")
    hand.lead()
    put(hand, "job", USED)

    async def test(cleaner: BlobCleaner) -> None:
        with pytest.raises(NotNow, match="submissions or commands wait"):
            await clean(cleaner)
        hand.settle()
        assert await clean(cleaner) == {}

    run(store, hand, test)
    assert places(store) == {USED: BlobPlace.PERMANENT}


def test_a_state_that_is_decided_and_not_accepted_is_waited_for(store: BlobStore, hand: Hand) -> None:
    put_old(store, b"unused")
    hand.lead()
    hand.submit("job", USED)
    hand.decide()

    async def test(cleaner: BlobCleaner) -> None:
        cleaning_ = asyncio.create_task(clean(cleaner))
        await asyncio.sleep(0.2)
        assert places(store) == {blob_key(b"unused"): BlobPlace.PERMANENT}
        hand.settle()
        assert await cleaning_ == {CONDEMN: 1}

    run(store, hand, test)


def test_a_leader_that_falls_before_its_state_is_accepted_touches_nothing(store: BlobStore, hand: Hand) -> None:
    put_old(store, b"unused")
    hand.lead()
    hand.submit("job", USED)
    hand.decide()

    async def test(cleaner: BlobCleaner) -> None:
        cleaning_ = asyncio.create_task(clean(cleaner))
        await asyncio.sleep(0.1)
        hand.participant.step_down("the lease is gone")
        with pytest.raises(NotNow):
            await cleaning_

    run(store, hand, test)
    assert places(store) == {blob_key(b"unused"): BlobPlace.PERMANENT}


def test_references_are_read_again_before_each_batch(store: BlobStore, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission that is accepted after the plan was made keeps its blob where it is."""
    blobs = [bytes([n]) for n in range(6)]
    put_old(store, *blobs)
    hand.lead()
    monkeypatch.setattr(blob_cleaning, "BATCH", 2)
    planned = cleaning.plan_cleaning
    keys: list[str] = []

    def plan_and_submit(*arguments: object) -> object:
        steps = planned(*arguments)  # type: ignore[arg-type]
        keys.extend(step.entry.key for step in steps)
        hand.submit("late", keys[3], keys[5])
        hand.settle()
        return steps

    monkeypatch.setattr(blob_cleaning, "plan_cleaning", plan_and_submit)

    async def test(cleaner: BlobCleaner) -> None:
        assert await clean(cleaner) == {CONDEMN: 4}

    run(store, hand, test)
    assert {key for key, place in places(store).items() if place is BlobPlace.PERMANENT} == {keys[3], keys[5]}


def test_who_falls_in_the_middle_of_a_run_stops_there(store: BlobStore, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    put_old(store, *(bytes([n]) for n in range(6)))
    hand.lead()
    monkeypatch.setattr(blob_cleaning, "BATCH", 2)
    done = cleaning.carry_out

    def carry_out_and_fall(*arguments: object) -> bool:
        hand.participant.step_down("the lease is gone")
        return done(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(blob_cleaning, "carry_out", carry_out_and_fall)

    async def test(cleaner: BlobCleaner) -> None:
        with pytest.raises(NotNow):
            await clean(cleaner)

    run(store, hand, test)
    assert Counter(places(store).values()) == {BlobPlace.CONDEMNED: 2, BlobPlace.PERMANENT: 4}


def test_a_new_leader_goes_on_where_the_last_one_was(store: BlobStore, hand: Hand) -> None:
    put_old(store, b"used", b"unused")
    hand.lead()

    async def first(cleaner: BlobCleaner) -> None:
        assert await clean(cleaner) == {CONDEMN: 2}

    run(store, hand, first)
    hand.submit("job", USED)
    hand.settle()

    async def second(cleaner: BlobCleaner) -> None:
        assert await clean(cleaner) == {RESTORE: 1, DELETE: 1}

    run(store, hand, second)
    assert places(store) == {USED: BlobPlace.PERMANENT}


def test_a_storage_without_dates_keeps_everything_and_says_so(
    store: BlobStore, hand: Hand, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_old(store, b"unused")
    hand.lead()
    monkeypatch.setattr(store.storage, "now_ms", lambda: None)

    async def test(cleaner: BlobCleaner) -> None:
        assert await clean(cleaner) == {}

    run(store, hand, test)
    assert "BlobCleaningSkipped" in caplog.text


def test_a_storage_that_fails_is_told_and_tried_again(
    store: BlobStore, hand: Hand, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_old(store, b"unused")
    hand.lead()
    now_ms = store.storage.now_ms
    failures = iter([OSError("the disk is gone")])

    def fail_once() -> int | None:
        for failure in failures:
            raise failure
        return now_ms()

    monkeypatch.setattr(store.storage, "now_ms", fail_once)

    async def test(cleaner: BlobCleaner) -> None:
        task = asyncio.create_task(cleaner.run())
        async with asyncio.timeout(120):
            while places(store):  # noqa: ASYNC110 - the timeout ends it
                await asyncio.sleep(0.05)
        task.cancel()

    run(store, hand, test)
    assert "BlobCleaningFailed error=the disk is gone" in caplog.text
