"""What a Spark elsewhere of an older version than pyspark here is given, and what it is not asked for.

Spark's clients are made for servers of their version and newer ones. Here is what stands between pyspark 4.2 and a server of 4.0 or 4.1:
settings that the client wants to read, and parts of requests that such a server does not know. It would pass over these in silence, as all
that speak protobuf do, and so write without what was asked for, or run a stream by another trigger. The rule it keeps: a request that has
such a part is refused before it is sent, and the error names the part and the version that it needs. The parts are those in which the
messages of pyspark 4.0.5, 4.1.4 and 4.2.0 differ, without those that change nothing where they are passed over.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from eventflink.jobs.connect_messages import messages_in
from eventflink.taskexecutor.spark_server import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Version = tuple[int, int]

OLDEST: Final[Version] = (4, 0)
"""The oldest Spark on which tasks run."""

_LOCAL_RELATION: Final = "spark.sql.session.localRelation"
_LARGEST_INT: Final = str(2**31 - 1)

_SETTINGS: Final[dict[Version, dict[str, str]]] = {
    (4, 1): {
        # Spark 4.1 says it with a unit, and `createDataFrame` of pyspark 4.2 takes a number. It is Spark's default.
        f"{_LOCAL_RELATION}SizeLimit": "3221225472",
        # What is compressed cannot be looked into before it is sent.
        "spark.connect.session.planCompression.threshold": "-1",
    },
    (4, 0): {
        # Spark 4.0 has none of them, and `createDataFrame` reads all.
        f"{_LOCAL_RELATION}SizeLimit": "3221225472",
        f"{_LOCAL_RELATION}ChunkSizeRows": "10000",
        f"{_LOCAL_RELATION}ChunkSizeBytes": "16777216",
        f"{_LOCAL_RELATION}BatchOfChunksSizeBytes": "1073741824",
        # Rows in chunks it does not know, so they are part of the query, whose size has a limit (spark.connect.grpc.maxInboundMessageSize).
        f"{_LOCAL_RELATION}CacheThreshold": _LARGEST_INT,
    },
}
"""What sessions of a version are given, so that the client finds what it reads."""

_NEWER: Final[dict[Version, dict[str, str]]] = {
    (4, 2): {
        "WriteStreamOperationStart.real_time_batch_duration": "a trigger in real time (real_time_ms, realTime)",
        "WriteOperation.with_schema_evolution": "a write with schema evolution",
        "WriteOperationV2.with_schema_evolution": "a write with schema evolution",
        "Read.DataSource.source_name": "a name of a streaming source",
        "Relation.nearest_by_join": "a nearest-by join",
        "Relation.relation_changes": "the changes of a table",
    },
    (4, 1): {
        "Relation.chunked_cached_local_relation": "createDataFrame of so many rows",
        "GroupMap.transform_with_state_info": "transformWithState",
        "Command.pipeline_command": "a declarative pipeline",
        "DataType.time": "the type TIME",
        "Expression.Literal.time": "the type TIME",
        "DataType.geometry": "the type GEOMETRY",
        "DataType.geography": "the type GEOGRAPHY",
        "Expression.direct_shuffle_partition_id": "repartitionById",
        "SubqueryExpression.in_subquery_values": "isin of a query",
    },
}
"""Parts of requests, by the version that they need, with what a person calls them."""

_PACKAGE: Final = "spark.connect."


def version_of(text: str) -> Version:
    """Return the first two numbers of a version as Spark says it."""
    major, minor, *_ = [*re.findall(r"\d+", text), "0", "0"]
    return int(major), int(minor)


def find_too_old(server: str) -> str:
    """Return what is wrong with a server's version; empty: nothing is."""
    if version_of(server) >= OLDEST:
        return ""
    oldest = ".".join(map(str, OLDEST))
    return f"its Spark is {server}, and tasks need {oldest} or a newer one: start such a Spark there, or name another engine"


def settings_of(server: str) -> dict[str, str]:
    """Return what a session of a server of that version is given besides what all sessions have."""
    return _SETTINGS.get(version_of(server), {})


def refuse_newer_parts(session: "SparkSession", server: str) -> None:
    """Have the client of a session refuse requests with parts that a server of that version would pass over.

    Such a request raises `SparkUnavailable`.
    """
    newer = {
        f"{_PACKAGE}{part}": (said, needs) for needs, parts in _NEWER.items() if needs > version_of(server) for part, said in parts.items()
    }
    if newer:
        _watch(session.client, lambda message: _refuse(message, newer, server))


def _watch(client: Any, check: Callable[[Any], None]) -> None:
    """Have a client, and those that are cloned of it, check each request that has a plan."""
    clone: Callable[..., Any] = client.clone

    def clone_watched(*arguments: Any, **named: Any) -> Any:
        cloned = clone(*arguments, **named)
        _watch(cloned, check)
        return cloned

    client._stub = _CheckedStub(client._stub, check)  # noqa: SLF001 - the one place that all requests pass
    client.clone = clone_watched


class _CheckedStub:
    """The stub of a client, with a look at what has a plan."""

    def __init__(self, stub: Any, check: Callable[[Any], None]) -> None:
        self._stub = stub
        self._check = check

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._stub, name)
        if name not in ("ExecutePlan", "AnalyzePlan"):
            return call

        def checked(request: Any, **options: Any) -> Any:
            self._check(request)
            return call(request, **options)

        return checked


def _refuse(request: Any, newer: dict[str, tuple[str, Version]], server: str) -> None:
    for message in messages_in(request):
        for field, _ in message.ListFields():
            if field.full_name in newer:
                said, needs = newer[field.full_name]
                version = ".".join(map(str, needs))
                raise SparkUnavailable(
                    f"{said} needs Spark {version}, and this one is {server}, which would pass over it: name an engine with Spark {version}"
                )
