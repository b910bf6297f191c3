"""What a Spark Connect server has to be for the tasks of a cluster: its version, and settings that a Spark of a host is started with.

A Spark elsewhere (`spark.remote`, `spark.engines`) was started by somebody else, so it is asked. What a session may set, the session of a
task sets; what only the server can be started with is compared, and what differs is told, with what follows from it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from eventflink.model.secret_values import without_secrets
from eventflink.streams.client_watch import SESSION_TIMEOUT_S
from eventflink.taskexecutor.spark_versions import find_too_old, refuse_newer_parts, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_SETTINGS: Final = {
    # Rows keep their times whoever reads the files: Spark's default is a type that others have given up.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With adaptive execution, stages are submitted by other threads than the one that is interrupted: a query that is interrupted while it
    # is planned leaves a stage behind that runs to its end, however long that is, though the operation counts as cancelled.
    "spark.sql.adaptive.enabled": "false",
    # Spark 4.2 hands the columns of Parquet files to Python functions as they are, and the worker takes other bytes for their length: it
    # waits forever, and so does the task that applies such a function to one of its inputs.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}
"""What each session of a task has, wherever its Spark runs; the settings of a job may have it otherwise."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A time that a server is started with, and that is not to be longer."""

    key: str
    most_s: int
    default_s: int
    """Spark's own."""
    why: str
    """What follows from a longer one."""


TIME_LIMITS: Final = (
    # A client that dies is not noticed while its query produces nothing: the stream of answers has to end and not be taken up again. A
    # client that lives may leave a stream alone for the detached timeout (a slow `toLocalIterator`). Together they are how long an
    # operation runs on that nobody released.
    TimeLimit(
        "spark.connect.execute.reattachable.senderMaxStreamDuration", 30, 120, "the query of a client that died is noticed this late"
    ),
    TimeLimit("spark.connect.execute.manager.detachedTimeout", 120, 300, "the query of a client that died runs on for as long"),
    TimeLimit("spark.connect.execute.manager.maintenanceInterval", 5, 30, "what is over is looked for this rarely"),
    # A session whose client is gone, and that nobody released, ends by itself, and its streams with it (P15); a task that lives renews it
    # in time (`task_spark.py`).
    TimeLimit(
        "spark.connect.session.manager.defaultSessionTimeout",
        SESSION_TIMEOUT_S,
        3_600,
        "what a lost host has left computes on for as long, where no next attempt ends it",
    ),
    TimeLimit("spark.connect.session.manager.maintenanceInterval", 5, 30, "sessions that are over are looked for this rarely"),
)
"""What decides how long a Spark computes for nobody."""

SERVER_SETTINGS: Final = {limit.key: f"{limit.most_s}s" for limit in TIME_LIMITS}
"""What a server is started with."""

_ANSI: Final = "spark.sql.ansi.enabled"
_IS_ANSI: Final = "true"
_ZONE: Final = "spark.sql.session.timeZone"
_BY_SETTING: Final = "start that Spark with the one that is meant, or name it in the settings of its engine"

_UNITS_S: Final = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_TIME: Final = re.compile(r"(\d+)\s*([a-z]*)")


class SparkUnfit(Exception):
    """No task can run on a Spark elsewhere; the message says why, and what to do."""


def hold_to_contract(session: "SparkSession", settings: Mapping[str, str]) -> list[str]:
    """Set what the session of a task has, and return a sentence for each setting of its server that is not as tasks need it.

    Args:
        session: on a Spark elsewhere.
        settings: what the configuration says of sessions there; it comes before what all sessions have.

    Raises:
        SparkUnfit: its server is too old, or does not take a setting.

    """
    version = session.version
    if fault := find_too_old(version):
        raise SparkUnfit(fault)
    refuse_newer_parts(session, version)
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    for key, value in {**SESSION_SETTINGS, **settings_of(version), **settings}.items():
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            said, setting = str(error).partition("\n")[0], f"{key}={without_secrets(key, value)}"
            raise SparkUnfit(f"its Spark does not take {setting} for a session: {said}; start it with that, or leave it out") from error
    found = find_differences(session.conf.getAll)
    return found + find_other_meaning({key: session.conf.get(key) for key in (_ANSI, _ZONE) if key not in settings})


def find_other_meaning(settings: Mapping[str, str], host_zone: tzinfo | None = None) -> list[str]:
    """Return a sentence for each setting by which the same query means something else than in a Spark of this host.

    Args:
        settings: of sessions, by key; those that are missing are as they are to be.
        host_zone: the time zone of this host; None: ask the system.

    """
    found = []
    if (ansi := settings.get(_ANSI, _IS_ANSI)) != _IS_ANSI:
        found.append(f"{_ANSI} is '{ansi}': a cast that fails is null there, and an error in a Spark of a host; {_BY_SETTING}")
    if (zone := settings.get(_ZONE)) is not None:
        try:
            is_other = _offsets_of(ZoneInfo(zone)) != _offsets_of(host_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # Spark knows zones that Python does not, such as +01:00.
            is_other = False
        if is_other:
            found.append(f"{_ZONE} is '{zone}', which is not as on this host: timestamps have other dates there; {_BY_SETTING}")
    return found


def _offsets_of(zone: tzinfo | None) -> list[timedelta | None]:
    """Return how far a time zone is from UTC in winter and in summer; None: that of this host."""
    return [datetime(2026, month, 1, tzinfo=UTC).astimezone(zone).utcoffset() for month in (1, 7)]


def find_differences(settings: Mapping[str, str]) -> list[str]:
    """Return a sentence for each setting of a server that is not as tasks need it.

    Args:
        settings: those that it was started with, by key; of what is missing it has Spark's own.

    """
    return [sentence for limit in TIME_LIMITS if (sentence := _find_difference(limit, settings.get(limit.key)))]


def _find_difference(limit: TimeLimit, text: str | None) -> str:
    found_s = limit.default_s if text is None else _seconds(text)
    if found_s is not None and 0 < found_s <= limit.most_s:  # To Spark, 0 is no limit.
        return ""
    found = f"not set, so {limit.default_s}s" if text is None else f"'{text}'"
    return f"{limit.key} is {found}: {limit.why}; start that Spark with {limit.most_s}s"


def _seconds(text: str) -> float | None:
    """Return the seconds of a time as Spark writes it, without a unit in milliseconds; None: it is no time."""
    found = _TIME.fullmatch(text.strip().lower())
    unit = _UNITS_S.get(found[2] or "ms") if found else None
    return int(found[1]) * unit if found and unit is not None else None
