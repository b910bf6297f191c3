"""The API reference has an example of each name, and the examples are true: those that need neither Spark nor a cluster are run here.

Those that need Spark are run by tests/integration/test_dev.py; of those that need a cluster the names are looked up.
"""

import inspect

import pytest

import eventflink
from eventflink.client.asynchronous import AsyncCluster
from eventflink.client.cluster import Cluster, Job
from eventflink.testing.job_handle import JobHandle
from eventflink.testing.mini_cluster import MiniCluster
from tests.support.reference import NAMES, NEED_CLUSTER, NEED_SPARK, missing_names, named, run_example


@pytest.mark.parametrize("path", NAMES)
def test_what_the_reference_shows_has_an_example(path: str) -> None:
    assert "\nExamples:\n    >>> " in (inspect.getdoc(named(path)) or "")


@pytest.mark.parametrize("path", [path for path in NAMES if path not in NEED_SPARK | NEED_CLUSTER])
def test_an_example_that_needs_nothing_runs(path: str) -> None:
    results = run_example(path, {})
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("path", sorted(NEED_CLUSTER))
def test_what_an_example_asks_of_a_cluster_is_there(path: str) -> None:
    of_tests = path.startswith("eventflink.testing.")
    cluster = AsyncCluster if path.endswith("connect_async") else Cluster
    types = {"eventflink": eventflink, "cluster": cluster, "eventflink_cluster": MiniCluster, "job": JobHandle if of_tests else Job}
    assert missing_names(path, types) == []
