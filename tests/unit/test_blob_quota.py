"""The room that blobs have in all: counted now and then, taken before it is used, and given back."""

import pytest

from eventflink.blob import BlobsFull
from eventflink.blob.quota import FULL_RECOUNT_S, RECOUNT_S, Quota


class Place:
    """What is in a storage, and what time it is."""

    def __init__(self) -> None:
        self.present_bytes = 60
        self.now_s = 0.0
        self.counts = 0

    def count(self) -> int:
        self.counts += 1
        return self.present_bytes

    def quota(self) -> Quota:
        return Quota(100, self.count, lambda: self.now_s)


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
