"""A local Spark whose heap is full ends, also where a query is planned; one that does not start in time is refused by its setting."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from eventflink.taskexecutor import spark_server
from eventflink.taskexecutor.spark_server import ADDRESS_FILE, LOG_FILE, SparkLease, SparkServerSettings, SparkUnavailable, ensure_server
from tests.support.running_cluster import wait_until
from tests.support.spark_work import session_of_a_mortal

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360


def test_a_spark_out_of_heap_ends(tmp_path: Path) -> None:
    with SparkLease(tmp_path), session_of_a_mortal(ensure_server(tmp_path, SparkServerSettings("local[1]", "512m"))) as session:
        with pytest.raises(PySparkException):
            session.sql("SELECT size(sequence(1L, 200000000L))").collect()
        wait_until(lambda: not (tmp_path / ADDRESS_FILE).exists(), "Spark has ended", SPARK_TIMEOUT_S)
    assert "OutOfMemoryError" in (tmp_path / LOG_FILE).read_text(encoding="utf-8")


def test_a_spark_that_takes_longer_than_its_setting_says_is_refused_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_server, "has_kafka_connector", lambda: True)  # To fetch it may take longer.
    with SparkLease(tmp_path):
        with pytest.raises(SparkUnavailable, match=r"Spark did not start within 0\.5 s \(spark\.local\.start-timeout\)"):
            ensure_server(tmp_path, SparkServerSettings("local[1]", "512m", timeout_ms=500))
        assert ensure_server(tmp_path, SparkServerSettings("local[1]", "512m", timeout_ms=SPARK_TIMEOUT_S * 1_000))
