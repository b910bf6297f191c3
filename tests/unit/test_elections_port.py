"""The port of elections, without processes and in virtual time: the laws for the election on the log and for one of a user's own."""

import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.entrypoint.factories import ELECTION_MEMBERS, create_election
from eventflink.leadership.election import Advice, Peers
from eventflink.model.configuration import ConfigurationError
from eventflink.model.packages import PackageMissing
from tests.support.election_laws import STEP_MS, ElectionLaws, SmallCluster, StuckLaws, configuration_of
from tests.support.file_election import FileElection

LEASE_MS = 1000
FACTORY = "tests.support.file_election:FileElection"


class VirtualTime:
    """A clock that a wait moves on."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def read(self) -> int:
        return self.now_ms

    def wait(self) -> None:
        self.now_ms += STEP_MS


def _cluster(**overrides: Any) -> Iterator[SmallCluster]:
    time = VirtualTime()
    cluster = SmallCluster(time.read, time.wait, LEASE_MS)
    for name in ("a", "b"):
        cluster.add(
            name,
            create_election(configuration_of(name, **{"high-availability.lease-timeout": LEASE_MS, **overrides}), name, Peers(LEASE_MS)),
        )
    yield cluster
    cluster.close()


class TestElectionOnTheLog(ElectionLaws, StuckLaws):
    """`kafka`."""

    @pytest.fixture
    def cluster(self) -> Iterator[SmallCluster]:
        yield from _cluster()


class TestElectionOfAFactory(ElectionLaws):
    """`module:Factory`, with the one that the documents show."""

    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Iterator[SmallCluster]:
        yield from _cluster(**{"high-availability.type": FACTORY, "data.directory": tmp_path})

    def test_a_lock_that_another_process_holds_is_waited_for_without_waiting(self, tmp_path: Path) -> None:
        election = FileElection(configuration_of("a", **{"data.directory": tmp_path}), "1")
        election.start()
        with next(tmp_path.glob("*.election")).open("a") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            election.begin(0)
            assert election.advise(None, 100 * LEASE_MS) is Advice.WAIT
            assert not election.may_lead()
        assert election.advise(None, 100 * LEASE_MS) is Advice.CAMPAIGN
        election.close()


def test_a_single_master_is_told_to_campaign_at_once() -> None:
    service = create_election(configuration_of("a", **{"high-availability.type": "none"}), "1", Peers(LEASE_MS))
    service.start()
    service.election.begin(7)
    assert service.election.advise(None, 7) is Advice.CAMPAIGN
    assert service.election.may_lead()
    service.election.end()
    service.election.begin(8)
    assert service.election.advise(None, 8) is Advice.CAMPAIGN
    service.close()


USERS_MODULE = """
raise_at_import = 1 / {divisor}

class Nothing:
    def __init__(self, configuration, incarnation): ...

class WithoutPort(Nothing):
    election = None
    def start(self): ...
    def close(self): ...

class Failing:
    def __init__(self, configuration, incarnation):
        raise LookupError("no such place")
"""


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        ("no_such_module_here:Factory", "cannot be imported: ModuleNotFoundError"),
        ("users_election:Missing", "cannot be imported: AttributeError"),
        ("users_broken_election:Nothing", "cannot be imported: ZeroDivisionError"),
        ("users_election:Nothing", "returned has no election, start, close"),
        (
            "users_election:WithoutPort",
            "as its 'election' returned has no " + ", ".join(ELECTION_MEMBERS),
        ),
        ("users_election:Failing", r"made no election: LookupError\('no such place'\)"),
    ],
)
def test_a_factory_that_is_none_is_named_with_what_is_wrong(
    factory: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_election.py").write_text(USERS_MODULE.format(divisor=1))
    (tmp_path / "users_broken_election.py").write_text(USERS_MODULE.format(divisor=0))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("users_election", "users_broken_election"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigurationError, match=f"high-availability.type: .*{factory}.* {wrong}"):
        create_election(configuration_of("a", **{"high-availability.type": factory}), "1", Peers(LEASE_MS))


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("quorum", "host:port", "'host:port'; give host:port"),
        ("quorum", "one:2181,,two:2181", "; give host:port"),
        ("path.root", "eventflink", "'eventflink'; give a path such as /eventflink"),
        ("path.root", "/event//flink", "'/event//flink'; give a path"),
    ],
)
def test_a_zookeeper_that_cannot_be_is_refused_with_its_key(key: str, value: str, wrong: str) -> None:
    values = {"high-availability.type": "zookeeper", "high-availability.zookeeper.quorum": "localhost:2181"}
    values[f"high-availability.zookeeper.{key}"] = value
    with pytest.raises(ConfigurationError, match=f"high-availability.zookeeper.{key}: .*{wrong}"):
        create_election(configuration_of("a", **values), "1", Peers(LEASE_MS))


def test_without_kazoo_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "kazoo" or name.endswith(".zookeeper_election")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo", None)  # As Python notes a module that is not there.
    values = {"high-availability.type": "zookeeper", "high-availability.zookeeper.quorum": "localhost:2181"}
    with pytest.raises(PackageMissing, match=r"pip install 'eventflink\[zookeeper\]'"):
        create_election(configuration_of("a", **values), "1", Peers(LEASE_MS))


def test_the_example_of_the_documents_is_the_one_that_these_tests_run() -> None:
    root = Path(__file__).parents[2]
    source = (root / "tests" / "support" / "file_election.py").read_text(encoding="utf-8")
    example = source[source.index("import fcntl") :].strip()
    assert f"```python\n{example}\n```" in (root / "docs" / "operating.md").read_text(encoding="utf-8")
