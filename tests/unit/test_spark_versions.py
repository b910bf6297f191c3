"""What a Spark that is older than pyspark here is given, and what it is not asked for (docs/job-graph.md, Spark's versions)."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2, types_pb2

from eventflink.taskexecutor import spark_versions
from eventflink.taskexecutor.spark_server import SparkUnavailable
from eventflink.taskexecutor.spark_versions import find_too_old, refuse_newer_parts, settings_of, version_of

Plan, Relation, Command = base_pb2.Plan, relations_pb2.Relation, commands_pb2.Command


class Stub:
    """What a client calls Spark by; it answers with the request."""

    def ExecutePlan(self, request: Any, *, timeout: float = 0.0) -> Any:  # noqa: N802 - Spark's name
        return request, timeout

    AnalyzePlan = Config = ExecutePlan


def client_of(server: str) -> Any:
    """Return the client of a session on a server of that version."""
    client = SimpleNamespace(_stub=Stub())
    client.clone = lambda: SimpleNamespace(_stub=Stub(), clone=None)
    refuse_newer_parts(SimpleNamespace(client=client), server)
    return client


def streamed(**trigger: Any) -> Any:
    start = commands_pb2.WriteStreamOperationStart(format="noop", **trigger)
    return base_pb2.ExecutePlanRequest(plan=Plan(command=Command(write_stream_operation_start=start)))


IN_REAL_TIME = streamed(real_time_batch_duration="5 minutes")


@pytest.mark.parametrize(("server", "version"), [("4.1.4", (4, 1)), ("4.2.0-preview3", (4, 2)), ("5", (5, 0)), ("3.5.1-amzn-0", (3, 5))])
def test_a_version_is_its_first_two_numbers(server: str, version: tuple[int, int]) -> None:
    assert version_of(server) == version


def test_a_server_of_before_4_0_is_too_old_and_what_to_do_is_said() -> None:
    assert find_too_old("3.5.6") == (
        "its Spark is 3.5.6, and tasks need 4.0 or a newer one: start such a Spark there, or name another engine"
    )
    assert [find_too_old(server) for server in ("4.0.0", "4.1.4", "4.2.0", "5.0.0-preview1")] == [""] * 4


def test_what_a_client_reads_as_a_number_is_one_on_servers_that_say_it_otherwise_or_lack_it() -> None:
    assert settings_of("4.2.0") == {}
    for server in ("4.0.5", "4.1.4"):
        assert all(int(value) for value in settings_of(server).values())
    assert settings_of("4.1.4").items() >= {"spark.sql.session.localRelationSizeLimit": "3221225472"}.items()


@pytest.mark.parametrize("server", ["4.0.5", "4.1.4"])
def test_a_request_that_the_server_would_pass_over_in_part_is_refused_with_the_version_that_it_needs(server: str) -> None:
    client = client_of(server)
    said = rf"^a trigger in real time \(real_time_ms, realTime\) needs Spark 4\.2, and this one is {server}, which would pass over it"
    with pytest.raises(SparkUnavailable, match=said):
        client._stub.ExecutePlan(IN_REAL_TIME, timeout=1.0)
    with pytest.raises(SparkUnavailable, match=said):
        client.clone()._stub.ExecutePlan(IN_REAL_TIME)
    assert client._stub.ExecutePlan(streamed(processing_time_interval="1 second"), timeout=1.0)[1] == 1.0
    assert client._stub.Config(IN_REAL_TIME)[0] is IN_REAL_TIME


def test_a_server_that_is_no_older_is_asked_for_everything() -> None:
    client = client_of("4.2.0")
    assert isinstance(client._stub, Stub)
    assert client._stub.ExecutePlan(IN_REAL_TIME)[0] is IN_REAL_TIME


def test_a_part_is_found_at_any_depth_of_a_plan() -> None:
    """Below a relation, in a list, and in the values of a map."""
    time = types_pb2.DataType(time=types_pb2.DataType.Time(precision=6))
    cast = expressions_pb2.Expression(cast=expressions_pb2.Expression.Cast(type=time))
    project = Relation(project=relations_pb2.Project(input=Relation(sql=relations_pb2.SQL(query="SELECT 1")), expressions=[cast]))
    deep = project
    for _ in range(20):
        deep = Relation(limit=relations_pb2.Limit(input=deep, limit=1))
    sql = relations_pb2.SQL(query="SELECT :x", named_arguments={"x": cast})
    schema = base_pb2.AnalyzePlanRequest.Schema(plan=Plan(root=deep))
    old, new = client_of("4.0.5"), client_of("4.1.4")
    for request in (
        base_pb2.AnalyzePlanRequest(schema=schema),
        base_pb2.ExecutePlanRequest(plan=Plan(root=Relation(sql=sql))),
    ):
        with pytest.raises(SparkUnavailable, match=r"the type TIME needs Spark 4\.1, and this one is 4\.0\.5"):
            old._stub.AnalyzePlan(request)
        assert new._stub.AnalyzePlan(request)[0] is request


def test_every_part_that_is_named_is_a_part_of_pysparks_messages() -> None:
    there = set[str]()
    left = [
        message
        for module in (base_pb2, relations_pb2, commands_pb2, expressions_pb2, types_pb2)
        for message in module.DESCRIPTOR.message_types_by_name.values()
    ]
    while left:
        message = left.pop()
        there |= {field.full_name for field in message.fields}
        left.extend(message.nested_types)
    named = {f"spark.connect.{part}" for parts in spark_versions._NEWER.values() for part in parts}
    assert named <= there
