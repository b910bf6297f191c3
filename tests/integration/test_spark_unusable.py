"""A local Spark that is ill ends, and says why: its heap is full, or it answers nothing; one that does not start in time is refused.

So is one whose jars cannot be fetched.
"""

import contextlib
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from eventflink.local.jars import IVY_SETTINGS_VARIABLE
from eventflink.taskexecutor import spark_server
from eventflink.taskexecutor.spark_canary import EXECUTE, trivial_query
from eventflink.taskexecutor.spark_release import open_channel
from eventflink.taskexecutor.spark_server import (
    ADDRESS_FILE,
    LAST_LOG_FILE,
    LOG_FILE,
    SparkLease,
    SparkServerSettings,
    SparkUnavailable,
    ensure_server,
    is_server_alive,
)
from eventflink.taskexecutor.spark_watch import last_end
from tests.support.running_cluster import wait_until
from tests.support.spark_work import find_spark, session_of_a_mortal, wait_until_it_computes

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360


SETTINGS = SparkServerSettings("local[1]", "512m", answer_timeout_ms=30_000)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where Spark runs, in most of these tests the same one: each starts it if the one before has ended it."""
    directory = tmp_path_factory.mktemp("spark")
    with SparkLease(directory):
        yield directory


def test_a_spark_that_takes_longer_than_its_setting_says_is_refused_by_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants it next waits for the one that is being started, even while its supervisor does not run yet."""
    monkeypatch.setattr(spark_server, "has_connectors", lambda *_: True)  # To fetch it may take longer.
    assert not is_server_alive(directory)
    with pytest.raises(SparkUnavailable, match=r"Spark did not start within 0\.05 s \(spark\.local\.start-timeout\)"):
        ensure_server(directory, replace(SETTINGS, timeout_ms=50))
    supervisor = _supervisor(directory)
    assert ensure_server(directory, replace(SETTINGS, timeout_ms=SPARK_TIMEOUT_S * 1_000))
    assert _supervisor(directory) == supervisor


def _supervisor(directory: Path) -> psutil.Process:
    (supervisor,) = (
        p
        for p in psutil.process_iter(["cmdline"])
        if "spark_supervisor" in (told := " ".join(p.info["cmdline"] or ())) and str(directory) in told
    )
    return supervisor


def test_a_spark_whose_cores_are_all_taken_answers_the_canary(directory: Path) -> None:
    with session_of_a_mortal(remote := ensure_server(directory, SETTINGS)) as session:
        threading.Thread(target=_compute, args=(session,), daemon=True).start()
        wait_until_it_computes(find_spark(directory))
        channel, metadata = open_channel(remote)
        with channel:
            answers = channel.unary_stream(EXECUTE)(trivial_query(str(uuid.uuid4())), metadata=metadata, timeout=120)
            assert len(list(answers)) > 0
        session.interruptAll()


def _compute(session: SparkSession) -> None:
    with contextlib.suppress(PySparkException):
        session.sql("SELECT sum(sin(a.id) * cos(b.id)) FROM range(1000000000) a CROSS JOIN range(1000) b").collect()


def test_a_spark_that_lives_and_answers_nothing_is_replaced(directory: Path) -> None:
    first = ensure_server(directory, SETTINGS)
    find_spark(directory).suspend()
    wait_until(lambda: not (directory / ADDRESS_FILE).exists(), "Spark has ended", SPARK_TIMEOUT_S)
    assert _reason(directory).startswith("it answered no trivial query for ")
    second = ensure_server(directory, SETTINGS)
    assert second != first
    with session_of_a_mortal(second) as session:
        assert session.range(3).count() == 3
    assert len(list((directory / "spark" / "local").glob("blockmgr-*"))) == 1, "what the first one left is gone"
    assert "SparkEnded reason=it answered no" in (directory / LAST_LOG_FILE).read_text(encoding="utf-8")


def test_a_spark_out_of_heap_ends(directory: Path) -> None:
    with session_of_a_mortal(ensure_server(directory, SETTINGS)) as session:
        with pytest.raises(PySparkException):
            session.sql("SELECT size(sequence(1L, 200000000L))").collect()
        wait_until(lambda: not (directory / ADDRESS_FILE).exists(), "Spark has ended", SPARK_TIMEOUT_S)
    assert "OutOfMemoryError" in (directory / LOG_FILE).read_text(encoding="utf-8")
    assert _reason(directory) == "its heap of 512m was full (spark.local.memory, or the job's spark.memory)"


def _reason(directory: Path) -> str:
    end = last_end(directory)
    assert end is not None
    return end.reason


def test_a_spark_whose_tables_cannot_be_fetched_does_not_start_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="nothing"/><resolvers><filesystem name="nothing">'
        f'<artifact pattern="{tmp_path}/nothing/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(IVY_SETTINGS_VARIABLE, str(settings))
    with pytest.raises(
        SparkUnavailable, match=rf"Delta Lake 4\S* is not in the cache .* and could not be fetched.*{IVY_SETTINGS_VARIABLE}"
    ):
        ensure_server(tmp_path, SparkServerSettings("local[1]", "1g", environment=(IVY_SETTINGS_VARIABLE, "XDG_*"), tables="delta"))
