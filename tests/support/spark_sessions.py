"""Sessions of a Spark that tests share."""

import contextlib
import uuid
from typing import TYPE_CHECKING

from eventflink.taskexecutor.task_spark import open_session, session_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextlib.contextmanager
def own_session(spark: str) -> "Iterator[SparkSession]":
    """Yield a new session of the Spark with this address, and stop the session behind it."""
    session = open_session(session_address(spark, str(uuid.uuid4())), None)
    try:
        yield session
    finally:
        session.stop()
