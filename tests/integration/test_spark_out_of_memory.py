"""A Spark whose heap is full ends, also where a query is planned: Spark by itself ends only where tasks run out of heap."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from eventflink.taskexecutor.spark_server import ADDRESS_FILE, LOG_FILE, SparkLease, SparkServerSettings, ensure_server
from tests.support.running_cluster import wait_until

pytestmark = pytest.mark.slow
SPARK_TIMEOUT_S = 360


def test_a_spark_out_of_heap_ends(tmp_path: Path) -> None:
    with SparkLease(tmp_path):
        session = SparkSession.builder.remote(ensure_server(tmp_path, SparkServerSettings("local[1]", "512m"))).create()
        session.client.set_retry_policies([])
        with pytest.raises(PySparkException):
            session.sql("SELECT size(sequence(1L, 200000000L))").collect()
        wait_until(lambda: not (tmp_path / ADDRESS_FILE).exists(), "Spark has ended", SPARK_TIMEOUT_S)
    assert "OutOfMemoryError" in (tmp_path / LOG_FILE).read_text(encoding="utf-8")
