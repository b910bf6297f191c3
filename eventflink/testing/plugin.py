"""The pytest plugin for authors of jobs: its options, and fixtures for a broker, a cluster, Spark, and a simulated cluster.

It is loaded by every pytest run of an environment that eventflink is installed in. So it imports nothing but pytest, and what a fixture
needs is imported when the fixture is used. What cannot be had is one sentence, without a traceback.
"""
# ruff: noqa: PLC0415

import os
import re
from typing import TYPE_CHECKING, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from eventflink.local.embedded_broker import EmbeddedBroker
    from eventflink.testing.mini_cluster import MiniCluster
    from eventflink.testing.settings import MiniClusterSettings
    from eventflink.testing.simulated_cluster import SimulatedCluster

BOOTSTRAP_VARIABLE: Final = "EVENTFLINK_TEST_BOOTSTRAP"
_BOOTSTRAP: Final = re.compile(r"[^,:\s]+:\d{1,5}(,[^,:\s]+:\d{1,5})*")
_CONNECT_TIMEOUT_S: Final = 10.0
_NUMBERS: Final = {
    "eventflink_masters": "masters of the cluster of eventflink's fixtures (default: 1); with 2 there is a standby",
    "eventflink_task_executors": "TaskExecutors of that cluster (default: 1)",
    "eventflink_slots": "slots of each TaskExecutor (default: 4)",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    what = "Kafka or Redpanda to test against, instead of an embedded broker that is started"
    group = parser.getgroup("eventflink", "jobs on eventflink")
    group.addoption("--eventflink-bootstrap", metavar="HOST:PORT", help=f"{what} (or ini eventflink_bootstrap, or ${BOOTSTRAP_VARIABLE})")
    parser.addini("eventflink_bootstrap", f"HOST:PORT of a {what}")
    for name, meaning in _NUMBERS.items():
        parser.addini(name, meaning)


def _bootstrap_of(config: pytest.Config) -> str:
    """Return the configured bootstrap servers, the option before the environment before the ini file; empty: none."""
    configured = config.getoption("--eventflink-bootstrap") or os.environ.get(BOOTSTRAP_VARIABLE) or config.getini("eventflink_bootstrap")
    return str(configured or "").strip()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse at once what no test could use."""
    bootstrap = _bootstrap_of(config)
    if bootstrap and not _BOOTSTRAP.fullmatch(bootstrap):
        raise pytest.UsageError(f"eventflink: '{bootstrap}' is not host:port of a Kafka broker (several are separated by commas)")
    for name in _NUMBERS:
        if (text := str(config.getini(name) or "")) and not text.isdecimal():
            raise pytest.UsageError(f"{name} is '{text}', and is to be a whole number")


def _give_up(error: object) -> NoReturn:
    """End a fixture with a sentence."""
    pytest.fail(f"eventflink: {error}", pytrace=False)


@pytest.fixture(scope="session")
def eventflink_embedded_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[EmbeddedBroker | None]":
    """Return the broker that this session has started; None: a Kafka was named that is there already."""
    if _bootstrap_of(request.config):
        yield None
        return
    from eventflink.local.embedded_broker import BrokerUnavailable, EmbeddedBroker
    from eventflink.local.java import JavaMissing
    from eventflink.testing.fast_java import fast_java

    broker = EmbeddedBroker(tmp_path_factory.mktemp("broker"), progress=print)
    try:
        with fast_java():
            broker.start()
    except (BrokerUnavailable, JavaMissing) as error:
        _give_up(error)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def eventflink_broker(request: pytest.FixtureRequest, eventflink_embedded_broker: "EmbeddedBroker | None") -> str:
    """Return the bootstrap servers of a real Kafka: the one that was named, or the embedded broker of this session."""
    if eventflink_embedded_broker is not None:
        return eventflink_embedded_broker.bootstrap_servers
    from eventflink.log.admin_connection import AdminConnection, AdministrationError
    from eventflink.model.kafka_settings import KafkaAccess

    bootstrap = _bootstrap_of(request.config)
    try:
        AdminConnection(KafkaAccess(bootstrap), _CONNECT_TIMEOUT_S).count_brokers()
    except AdministrationError as error:
        _give_up(f"{error}; without --eventflink-bootstrap a broker is started for the tests")
    return bootstrap


@pytest.fixture(scope="session")
def eventflink_settings(request: pytest.FixtureRequest) -> "MiniClusterSettings":
    """How the shared cluster is; override it in the top-level conftest.py for more than the ini options say."""
    from eventflink.testing.settings import MiniClusterSettings

    given = {name.removeprefix("eventflink_"): request.config.getini(name) for name in _NUMBERS}
    try:
        return MiniClusterSettings(**{name: int(text) for name, text in given.items() if text})  # type: ignore[arg-type]  # no mapping is among them
    except ValueError as error:
        _give_up(error)


@pytest.fixture(scope="session")
def eventflink_cluster(
    eventflink_broker: str,
    eventflink_embedded_broker: "EmbeddedBroker | None",
    eventflink_settings: "MiniClusterSettings",
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[MiniCluster]":
    """Start a cluster, shared by the tests of a session (with pytest-xdist: of each worker)."""
    from eventflink.local.java import JavaMissing, find_java
    from eventflink.log.administration import AdministrationError
    from eventflink.model.configuration import ConfigurationError
    from eventflink.testing.failures import ClusterNotStarted
    from eventflink.testing.mini_cluster import MiniCluster

    directory = tmp_path_factory.mktemp("eventflink")
    try:
        find_java()
        cluster = MiniCluster(eventflink_broker, directory, eventflink_settings, broker=eventflink_embedded_broker)
        cluster.__enter__()
    except (AdministrationError, ClusterNotStarted, ConfigurationError, JavaMissing) as error:
        _give_up(error)
    yield cluster
    cluster.close()


@pytest.fixture
def eventflink_spark(eventflink_cluster: "MiniCluster") -> "Iterator[SparkSession]":
    """Open a Spark Connect session of this test's own, on the server that the cluster's tasks use."""
    from eventflink.taskexecutor.spark_server import SparkUnavailable

    try:
        context = eventflink_cluster.spark_session()
        session = context.__enter__()
    except SparkUnavailable as error:
        _give_up(error)
    yield session
    context.__exit__(None, None, None)


@pytest.fixture
def eventflink_simulated_cluster() -> "SimulatedCluster":
    """Start a cluster of this test's own in virtual time: two masters, two TaskExecutors of two slots; it needs no Kafka and no Java."""
    from eventflink.testing.simulated_cluster import SimulatedCluster

    return SimulatedCluster()
