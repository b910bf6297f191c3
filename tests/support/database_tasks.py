"""A stream into a database as a user writes it; tests pack this file into an archive and never import it."""

import os
from typing import Any

import psycopg

from eventflink.streams.database_sink import DatabaseSink

CONNINFO = os.environ.get("LEDGER_CONNINFO", "")


def copy(context: Any) -> Any:
    """Return the only source as it is."""
    return context.inputs["source"]


def connect() -> Any:
    """Connect to the database that the task's environment names."""
    return psycopg.connect(CONNINFO)


def append(connection: Any, batch: Any) -> None:
    """Append the rows of a batch, which a repetition would double."""
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO ledger VALUES (%s, %s)", [(row.key, row.number) for row in batch.collect()])


ledger = DatabaseSink(connect, append)
