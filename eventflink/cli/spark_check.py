"""The check of `doctor` of a Spark elsewhere: whether it is as tasks need it, and all who read and write data sets see the same.

A Spark that only answers proves little: its driver or its executors can see another directory, lack this package, or be started with
settings under which a lost task computes on for an hour. So it is given one short job. What is written for it is removed again.
"""

import io
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from eventflink.cli.finding import Finding, Verdict, check_of
from eventflink.jobs.published import MUST_BE_SHARED
from eventflink.jobs.shipping import read_parquet
from eventflink.jobs.stored_files import count_rows, find_files, remove_folder, write_whole
from eventflink.model.places import Place
from eventflink.model.spark_engines import SparkEngine, shown
from eventflink.taskexecutor.spark_contract import SparkUnfit, hold_to_contract
from eventflink.taskexecutor.spark_engines import full_address, key_of, session_settings
from eventflink.taskexecutor.spark_release import ReleaseFailed, release_session
from eventflink.taskexecutor.spark_server import SparkUnavailable
from eventflink.taskexecutor.task_spark import open_session, session_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S: Final = 120.0
_ENDING_S: Final = 10.0
_ROWS: Final = 64
_PARTITIONS: Final = 8
_CONNECTOR_MISSING: Final = "Failed to find data source"
_FIRST_LINE: Final = 300
_NO_TLS: Final = "WRONG_VERSION_NUMBER"


def check_spark(engine: SparkEngine, place: Place, version: str) -> Finding:
    """Open a session of a Spark elsewhere, compare what it is with what tasks need, and have it read and write where data sets lie."""
    name, key = check_of(engine), key_of(engine)
    try:
        remote = full_address(engine)
    except SparkUnavailable as error:
        return Finding(name, Verdict.FAILED, f"pyspark {version}; {error}")
    found: list[Finding] = []
    address = session_address(remote, session_id := str(uuid.uuid4()))

    def ask() -> None:
        try:
            session = open_session(address, None)
            found.append(_ask(session, f"pyspark {version}; Spark {session.version} at {shown(remote)}", place, engine))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what `doctor` was asked for
            found.append(Finding(name, Verdict.FAILED, f"pyspark {version}; {shown(remote)} ({key}) fails: {_first_line(error)}"))

    thread = threading.Thread(target=ask, name="doctor-spark", daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    if not found:
        why = f"has not run a short job in {_PATIENCE_S:g} s: it may have no free cores, or it does not answer"
        found.append(Finding(name, Verdict.FAILED, f"pyspark {version}; {shown(remote)} ({key}) {why}"))
    try:
        release_session(remote, session_id)  # With it ends what still runs, and the thread removes what it has written.
    except ReleaseFailed as error:
        if found[0].verdict is not Verdict.FAILED:
            return Finding(name, Verdict.FAILED, f"{found[0].detail}; {error}")
    thread.join(_ENDING_S)
    return found[0]


def _ask(session: "SparkSession", who: str, place: Place, engine: SparkEngine) -> Finding:
    name = check_of(engine)
    try:
        warnings = hold_to_contract(session, session_settings(engine))
    except (SparkUnfit, SparkUnavailable) as error:
        return Finding(name, Verdict.FAILED, f"{who}: {error}")
    with _probe_folder(place) as folder:
        for look in (_look_at_what_was_written_here, _look_at_what_spark_writes):
            if fault := look(session, folder):
                return Finding(name, Verdict.FAILED, f"{who}: {fault}: {MUST_BE_SHARED}")
    warnings += [fault for look in (_look_for_package, _look_for_connector) if (fault := look(session))]
    if warnings:
        return Finding(name, Verdict.WARNING, f"{who} reads and writes {place}; but {'; '.join(warnings)}")
    return Finding(name, Verdict.OK, f"{who} reads and writes {place}, and is as tasks need it")


def _look_at_what_was_written_here(session: "SparkSession", folder: Place) -> str:
    """Have its driver list a file of this process, and its executors read it."""
    import pyarrow as pa  # noqa: PLC0415 - most commands need none of it
    import pyarrow.parquet as pq  # noqa: PLC0415 - likewise

    content = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(_ROWS))}), content)
    _make_folder(folder / "of-host")
    write_whole(folder / "of-host" / "part-0.parquet", content.getvalue())
    try:
        seen = read_parquet(session, [str(folder / "of-host")], columns="id BIGINT").count()
    except PySparkException as error:
        return f"it does not read what this process writes to {folder} ({_first_line(error)})"
    return "" if seen == _ROWS else f"it reads {seen} of {_ROWS} rows that this process has written to {folder}"


def _look_at_what_spark_writes(session: "SparkSession", folder: Place) -> str:
    """Have its executors write files, and look for their rows here."""
    written = folder / "of-spark"
    try:
        session.range(0, _ROWS, 1, _PARTITIONS).write.parquet(str(written))
    except PySparkException as error:
        return f"it cannot write to {folder} ({_first_line(error)})"
    try:
        seen = count_rows([written / name for name in find_files(written)])
    except (OSError, ValueError) as error:
        return f"what it has written to {folder} is not here ({_first_line(error)})"
    return "" if seen == _ROWS else f"{seen} of {_ROWS} rows that it has written to {folder} are here"


def _look_for_package(session: "SparkSession") -> str:
    """Have its executors load this package, as the sinks of streams do."""
    from eventflink.cli.package_probe import package_version, versions_there  # noqa: PLC0415 - it wants Spark's client

    rows = session.range(0, _PARTITIONS, 1, _PARTITIONS)
    try:
        versions = {str(row[0]) for row in rows.mapInArrow(versions_there, "version string").distinct().collect()}
    except PySparkException as error:
        return f"its executors do not load this package ({_first_line(error)}), so sinks of streams that are in Python fail there"
    others = sorted(versions - {package_version()})
    return f"its executors have eventflink {', '.join(others)}, and here is {package_version()}" if others else ""


def _look_for_connector(session: "SparkSession") -> str:
    """Have it plan a read of Kafka, which asks no broker."""
    options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "doctor"}
    try:
        _ = session.read.format("kafka").options(**options).load().schema
    except PySparkException as error:
        if _CONNECTOR_MISSING not in str(error):
            return f"its connector to Kafka fails ({_first_line(error)})"
        return "its connector to Kafka is missing, so streams that read or write topics fail there"
    return ""


@contextmanager
def _probe_folder(place: Place) -> Iterator[Place]:
    name = f"doctor-{uuid.uuid4()}"
    _make_folder(place / name)
    try:
        yield place / name
    finally:
        remove_folder(place, name, ())


def _make_folder(place: Place) -> None:
    """Make a directory; stores have none."""
    if not place.scheme:
        place.path.mkdir(parents=True, exist_ok=True)


def _first_line(error: BaseException) -> str:
    """Return what an error says; of one of gRPC what the server or the connection said, and not how it ended."""
    details = getattr(error, "details", None)
    text = str(details() if callable(details) else error).strip()
    if _NO_TLS in text:
        return "it does not speak TLS, with which clients send a token to any host but localhost: have a proxy in front of it end TLS"
    return text.partition("\n")[0][:_FIRST_LINE] or type(error).__name__
