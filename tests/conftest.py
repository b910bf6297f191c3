"""What tests of every kind share: a real Kafka broker, a cluster id of their own, and a real Chromium.

EVENTFLINK_TEST_BOOTSTRAP=host:port names a running Kafka cluster to test against. Without it the processes of a run share a broker, which
is started when the first test asks for it.
"""

import contextlib
import gc
import logging
import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest

from eventflink.log.administration import AdministrationError, delete_topics
from eventflink.model.cluster_access import access_to
from eventflink.taskexecutor.spark_server import ADDRESS_FILE, LOG_FILE, SparkLease, SparkServerSettings, ensure_server
from eventflink.taskexecutor.spark_watch import last_end
from eventflink.testing.fast_java import JAVA_OPTIONS
from eventflink.testing.plugin import _bootstrap_of

if TYPE_CHECKING:
    from tests.support.browser import Chromium, Tabs

_SPARK_OPTIONS: Final = (
    # A stream whose source has nothing new asks Kafka for more every 10 ms otherwise. That costs a third of a core, of Spark and of the
    # broker, for each stream that waits for its test; and batches that have records follow one another as before.
    "-Dspark.sql.streaming.pollingDelay=100ms",
    # To generate, compile and load Java for each query costs more than to interpret a query over the few rows of a test. The demo's test
    # runs with generated Java, as users do.
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
)
os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join((JAVA_OPTIONS, *_SPARK_OPTIONS)))

# How long an example takes says how loaded the host is.
hypothesis.settings.register_profile("eventflink", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("eventflink")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files in which something is slow: none of them may be left to one worker at the end."""
    slow = {item.path: marker for item in items if (marker := item.get_closest_marker("slow"))}
    items.sort(key=lambda item: 1 + bool(slow[item.path].kwargs.get("first")) if item.path in slow else 0, reverse=True)


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what was imported and collected, and come less often: it took a tenth of the unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Take away what a test put on the root logger: it writes to the standard error of that test, which is closed behind it."""
    before = list(logging.root.handlers)
    result = yield
    logging.root.handlers[:] = [handler for handler in logging.root.handlers if handler in before]
    return result


@pytest.fixture(scope="session")
def shared_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that all processes of this run have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, shared_directory: Path) -> Iterator[str]:
    """Bootstrap servers of a real Kafka cluster, which other tests use at the same time: a test that disturbs it starts its own."""
    if _bootstrap_of(request.config):
        yield request.getfixturevalue("eventflink_broker")
        return
    from tests.support.shared_broker import shared_broker  # noqa: PLC0415 - most processes of a run of unit tests need none

    with shared_broker(shared_directory / "shared-broker") as servers:
        yield servers


@pytest.fixture(scope="session")
def spark_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runtime directory of a Spark Connect server, for the tests that are not about how one is started, shared, ended and found ill."""
    directory = tmp_path_factory.mktemp("spark")
    with SparkLease(directory):
        # A host that stands still for minutes under a whole run of tests makes no Spark ill.
        ensure_server(directory, SparkServerSettings("local[2]", "1g", answer_timeout_ms=3_600_000))
        _shared_sparks.append(directory)
        yield directory
        _shared_sparks.remove(directory)


@pytest.fixture(scope="session")
def spark(spark_directory: Path) -> str:
    """The address of that server."""
    return (spark_directory / ADDRESS_FILE).read_text(encoding="utf-8").strip()


@pytest.fixture(scope="session")
def delta_spark(shared_directory: Path) -> Iterator[str]:
    """The address of a Spark that has Delta's tables: one for all processes of a run, since until it is warm it costs most.

    A test in each of them may have code wait in one of its threads, and there is another one for what is to go on meanwhile.
    """
    directory = shared_directory / "shared-delta-spark"
    directory.mkdir(exist_ok=True)
    with SparkLease(directory):
        yield ensure_server(directory, SparkServerSettings("local[4]", "2g", answer_timeout_ms=3_600_000, tables="delta"))


_shared_sparks: list[Path] = []
"""The directory of the server that tests of this process share, as long as it is to run."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say at once why their Spark has ended, where it has: a client would try to reach it for ten minutes, in each test."""
    for directory in _shared_sparks:
        if "spark" in getattr(item, "fixturenames", ()) and not (directory / ADDRESS_FILE).exists():
            log = (directory / LOG_FILE).read_text(encoding="utf-8", errors="replace")
            pytest.fail(f"the Spark that tests share has ended: {last_end(directory)}\n{log[-8_000:]}", pytrace=False)


@pytest.fixture
def cluster_id(bootstrap: str) -> Iterator[str]:
    """Name a cluster that no other test has; its topics are deleted afterwards."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    with contextlib.suppress(AdministrationError):
        delete_topics(access_to(bootstrap, name))


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Chromium]":
    """Chromium, for tests that want more than one profile of it; one is started for each process of the run."""
    from tests.support import browser  # noqa: PLC0415 - few processes of a run need it, and it takes its time

    executable = browser.find_chromium()
    if executable is None:
        pytest.skip(browser.MISSING)
    with browser.chromium(executable) as started:
        yield started


@pytest.fixture
def browser(chromium: "Chromium", tmp_path: Path) -> "Iterator[Tabs]":
    """A fresh profile; at the end of the test it is checked that nothing went wrong in its pages."""
    with chromium.tabs(Path(os.environ.get("EVENTFLINK_TEST_SCREENSHOTS", tmp_path))) as tabs:
        yield tabs
