"""Every test of the core that takes `cluster` has its whole log replayed at the end: the digests must be those of the live run."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import ScriptedCluster


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster with a leader and bound inputs, without TaskManagers."""
    scripted = ScriptedCluster()
    yield scripted
    scripted.check()
