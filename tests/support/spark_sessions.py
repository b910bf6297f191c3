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


def is_closed(address: str) -> bool:
    """Tell whether the session that this address names is closed on its Spark."""
    from pyspark.errors.exceptions.connect import SparkConnectException  # noqa: PLC0415 - Spark and gRPC are loaded by tests that use them
    from pyspark.sql import SparkSession  # noqa: PLC0415 - likewise

    session = SparkSession.builder.remote(address).create()
    try:
        session.range(1).collect()
    except SparkConnectException as error:  # It is cancelled while the session is closed, and refused from then on.
        return "INVALID_HANDLE.SESSION_CLOSED" in str(error)
    else:
        return False
    finally:
        session.stop()  # Else pyspark asks it for settings, whichever session a later test has.
