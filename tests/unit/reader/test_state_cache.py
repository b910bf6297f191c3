"""A page is computed once for each state and for each of its arguments, and only the newest are kept."""

from typing import Any

import pytest

from eventflink.leadership.fold import Fold
from eventflink.reader.state_cache import MAX_BYTES, PAGE_BYTES, StateCache
from eventflink.views.jobs_and_cluster import JobNotFound
from tests.support.cluster import ScriptedCluster, graph, vertex

MAX_PAGES = MAX_BYTES // PAGE_BYTES


class Counted:
    """A page that counts how often it is computed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, fold: Fold, *arguments: Any) -> dict[str, Any]:
        self.count += 1
        return {"jobs": len(fold.master.dispatcher.jobs), "arguments": arguments}


@pytest.fixture
def cluster() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register()
    return cluster


def test_the_same_page_of_the_same_state_is_computed_once(cluster: ScriptedCluster) -> None:
    cache, page = StateCache(), Counted()
    first, again = (cache.page(cluster.fold, page, ("a", 1)) for _ in range(2))
    assert first == again
    assert page.count == 1
    assert cache.page(cluster.fold, page, ("a", 2))["body"]["arguments"] == ("a", 2)
    assert page.count == 2


def test_a_newer_state_has_pages_of_its_own(cluster: ScriptedCluster) -> None:
    cache, page = StateCache(), Counted()
    before = cache.page(cluster.fold, page, ())
    cluster.submit(graph(vertex("a")))
    after = cache.page(cluster.fold, page, ())
    assert (before["body"]["jobs"], after["body"]["jobs"]) == (0, 1)
    assert after["offset"] == cluster.fold.last_offset > before["offset"]


def test_another_log_that_is_as_long_is_another_state(cluster: ScriptedCluster) -> None:
    other = ScriptedCluster()
    other.register("somebody-else")
    assert other.fold.last_offset == cluster.fold.last_offset
    cache, page = StateCache(), Counted()
    cache.page(cluster.fold, page, ())
    cache.page(other.fold, page, ())
    assert page.count == 2


def test_only_the_pages_that_were_asked_for_last_are_kept(cluster: ScriptedCluster) -> None:
    cache, page = StateCache(), Counted()
    for number in range(MAX_PAGES + 1):
        cache.page(cluster.fold, page, (number,))
        cache.page(cluster.fold, page, (0,))
    assert page.count == MAX_PAGES + 1, "the one that is asked again and again stays"
    cache.page(cluster.fold, page, (1,))
    assert page.count == MAX_PAGES + 2, "the one that nobody asks any more has gone"


def test_what_does_not_exist_is_not_remembered(cluster: ScriptedCluster) -> None:
    def missing(_: Fold) -> None:
        raise JobNotFound("there is none")

    cache = StateCache()
    for _ in range(2):
        with pytest.raises(JobNotFound):
            cache.page(cluster.fold, missing, ())


def test_what_is_kept_late_of_an_older_state_drops_nothing_of_a_newer() -> None:
    cache = StateCache()
    cache.keep((7, b"newer"), "page", "new", 1)
    cache.keep((6, b"older"), "page", "old", 1)
    assert (cache.get((7, b"newer"), "page"), cache.get((6, b"older"), "page"), len(cache)) == ("new", None, 1)
