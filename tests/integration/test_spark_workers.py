"""The Python processes that Spark starts: where their modules come from decides how long they take to start."""

import pyspark
import pytest
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import StringType

pytestmark = pytest.mark.slow


def test_python_workers_take_the_installed_pyspark_and_not_a_zip_of_its_sources(spark: str) -> None:
    session = SparkSession.builder.remote(spark).create()

    def place(_number: int) -> str:
        import pyspark  # noqa: PLC0415 - where Spark runs it

        return str(pyspark.__file__)

    try:
        [row] = session.range(1).select(udf(place, StringType())("id").alias("place")).collect()
        assert row.place == pyspark.__file__
    finally:
        session.stop()
