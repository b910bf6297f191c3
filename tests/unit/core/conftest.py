"""Every test of the core that takes `cluster` or `world` has its whole log replayed at the end, to the digests of the live run."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import ScriptedCluster
from tests.support.participants import World


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with a leader and bound inputs, without TaskManagers."""
    scripted = ScriptedCluster()
    yield scripted
    scripted.check()


@pytest.fixture
def world() -> Iterator[World]:
    """A log without masters, and a clock."""
    made = World()
    yield made
    made.check()
