"""The room that blobs have in all, and those of each job: counted now and then, taken before it is used, and given back."""

from collections import Counter

import pytest

from eventflink.blob import BlobsFull
from eventflink.blob.quota import FULL_RECOUNT_S, RECOUNT_S, Quota
from eventflink.blob.store import Usage


class Place:
    """What is in a storage, and what time it is."""

    def __init__(self) -> None:
        self.present_bytes = 60
        self.by_job: dict[str, int] = {}
        self.now_s = 0.0
        self.counts = 0

    def count(self) -> Usage:
        self.counts += 1
        return Usage(self.present_bytes, Counter(self.by_job))

    def quota(self, per_job: int = 100) -> Quota:
        return Quota(100, per_job, self.count, lambda: self.now_s)


def test_what_is_there_and_what_comes_in_is_bounded_together() -> None:
    quota = Place().quota()
    quota.take(30)
    quota.take(10)
    with pytest.raises(BlobsFull, match=r"the blobs have 100 bytes; 100 are taken in all \(blob.storage.max-size\)"):
        quota.take(1)
    quota.give_back(10)
    quota.take(10)


def test_it_is_counted_again_when_the_count_is_old_and_sooner_where_it_is_too_much() -> None:
    place = Place()
    quota = place.quota()
    quota.take(30)
    place.present_bytes = 0
    for _ in range(2):
        with pytest.raises(BlobsFull):
            quota.take(20)
    assert place.counts == 1
    place.now_s += FULL_RECOUNT_S
    quota.take(20)
    assert place.counts == 2
    place.now_s += RECOUNT_S
    place.present_bytes = 100  # Of another master.
    with pytest.raises(BlobsFull):
        quota.take(1)


def test_a_job_that_has_its_room_leaves_that_of_others() -> None:
    place = Place()
    place.by_job = {"greedy": 20, "": 30}
    quota = place.quota(per_job=30)
    quota.take(4, "greedy")  # Under way.
    quota.take(6, "greedy")
    quota.store(6, "greedy")
    refusal = r"the blobs of job 'greedy' have 30 bytes; 30 are taken for each job \(blob.job.max-size\)"
    with pytest.raises(BlobsFull, match=refusal):
        quota.take(1, "greedy")
    with pytest.raises(BlobsFull, match=r"the blobs without a job have 30 bytes; 30 are taken for each job"):
        quota.take(1)
    quota.take(30, "other")
    quota.give_back(4, "greedy")
    quota.take(4, "greedy")


def test_what_is_under_way_for_a_job_is_not_forgotten_by_a_count() -> None:
    place = Place()
    quota = place.quota(per_job=30)
    quota.take(20, "job")
    place.now_s += RECOUNT_S
    with pytest.raises(BlobsFull, match=r"job 'job' have 20 bytes"):
        quota.take(11, "job")
    assert place.counts == 2


def test_a_job_has_room_again_once_its_blobs_are_gone() -> None:
    place = Place()
    place.by_job = {"job": 30}
    quota = place.quota(per_job=30)
    with pytest.raises(BlobsFull):
        quota.take(1, "job")
    place.by_job = {}
    place.now_s += FULL_RECOUNT_S
    quota.take(30, "job")
