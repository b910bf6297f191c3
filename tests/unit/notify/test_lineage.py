"""The runs of jobs and vertices as OpenLineage has them: valid, each with one begin and one end, the same from the same log."""

import itertools
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.log_events import JobResultStored
from eventflink.jobs.pipelines.refresh import PIPELINE, REFRESH
from eventflink.master.effects import Effect
from eventflink.master.inputs import RecordsSeen, VersionsSeen
from eventflink.model.attempts import FailureCause, IOMetrics, SourceSnapshot
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.schedules import FollowedTable, OffsetRange, TableVersion
from eventflink.model.statuses import ExecutionState
from eventflink.model.stream_progress import StreamSourceProgress
from eventflink.notify.datasets import DatasetNames
from tests.support import golden
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, replay, state_report, vertex
from tests.support.notifying import BOOTSTRAP, CLUSTER, notification_document, notifications_of, run_events, translation_of
from tests.support.openlineage import read_run_event
from tests.support.scenarios import eventful_cluster, put_schedule

LINEAGE = notification_document(lineage={"receivers": ["all"]})
TERMINAL = {"COMPLETE", "FAIL", "ABORT"}


@pytest.fixture(scope="module")
def eventful() -> ScriptedCluster:
    return eventful_cluster()


@pytest.fixture
def cluster() -> ScriptedCluster:
    scripted = ScriptedCluster()
    scripted.register(slots=50)
    return scripted


def ends_of(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the last event of each run, by the name of its job."""
    return {event["job"]["name"]: event for event in events}


def test_each_event_is_one_of_openlineage_and_has_a_key_of_its_own(eventful: ScriptedCluster) -> None:
    events = run_events(eventful)
    assert {event["eventType"] for event in events} == {"START", *TERMINAL}
    for event in events:
        read_run_event(event)
    keys = [event["run"]["facets"]["eventflinkRun"]["key"] for event in events]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("path", sorted(golden.FOLDER.glob("log-*.jsonl")), ids=lambda path: str(path.stem))
def test_each_event_of_a_log_that_a_release_wrote_is_one_of_openlineage(path: Path) -> None:
    translation = translation_of(LINEAGE)
    records = golden.read(path).records
    told = [each for offset, value in enumerate(records) for each in translation.take((offset, 0, value))[1]]
    assert {str(each.document["eventType"]) for each in told if read_run_event(each.document)} == {"START", *TERMINAL}


def test_each_run_begins_once_and_before_all_else_and_that_of_an_ended_job_ends(eventful: ScriptedCluster) -> None:
    runs = defaultdict(list)
    for event in run_events(eventful):
        runs[event["run"]["runId"]].append(event["eventType"])
    for types in runs.values():
        assert types[0] == "START"
        assert types.count("START") == 1
        assert set(types[1:]) <= {"RUNNING", *TERMINAL}
        assert "COMPLETE" not in types or set(types[1:]) == {"COMPLETE"}  # What is written again is complete again.
    ended = {event.job_id for event in eventful.events(JobResultStored)}
    open_jobs = {
        event["run"]["facets"]["eventflinkRun"]["job_id"] for event in run_events(eventful) if len(runs[event["run"]["runId"]]) == 1
    }
    assert not ended & open_jobs


def test_who_begins_anywhere_in_the_log_tells_the_rest_as_who_has_read_it_all(eventful: ScriptedCluster) -> None:
    whole = notifications_of(eventful, LINEAGE)
    for offset in range(0, len(eventful.log), 60):
        rest = notifications_of(eventful, LINEAGE, replay(eventful.log[:offset], timestamps=eventful.timestamps))
        assert rest == [each for each in whole if each.log_offset >= offset]


def test_what_a_deposed_leader_wrote_is_told_to_nobody(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")))
    deposed = cluster.log[-1]
    cluster.fail_over()
    before = notifications_of(cluster)
    cluster.log.append(deposed)
    cluster.timestamps.append(cluster.wall_ms)
    assert notifications_of(cluster) == before


def test_a_vertex_has_its_job_as_parent_and_says_its_query_what_it_reads_and_writes_and_how_much(cluster: ScriptedCluster) -> None:
    sql = {"id": "b", "sql": "SELECT * FROM a"}
    about = {"owner": "finance", "labels": {"tier": "1"}, "description": "The revenue."}
    cluster.run(cluster.submit(graph(vertex("a", 2), sql, edges=[("a", "b", "hash")], name="revenue", **about)))
    events = run_events(cluster)
    assert [(event["eventType"], event["job"]["name"]) for event in events] == [
        ("START", "revenue"),
        ("START", "revenue.a"),
        ("COMPLETE", "revenue.a"),
        ("START", "revenue.b"),
        ("COMPLETE", "revenue.b"),
        ("COMPLETE", "revenue"),
    ]
    of_job, of_a, of_b = events[0], events[2], events[4]
    assert of_job["job"]["facets"]["ownership"]["owners"] == [{"name": "finance", "type": "OWNER"}]
    assert of_job["job"]["facets"]["tags"]["tags"] == [{"key": "tier", "value": "1", "source": "EVENTFLINK"}]
    assert of_job["job"]["facets"]["documentation"]["description"] == "The revenue."
    parent = of_b["run"]["facets"]["parent"]
    assert parent["run"]["runId"] == parent["root"]["run"]["runId"] == of_job["run"]["runId"]
    assert of_b["job"]["facets"]["sql"]["query"] == "SELECT * FROM a"
    [written], [read] = of_a["outputs"], of_b["inputs"]
    assert (written["namespace"], written["name"]) == (read["namespace"], read["name"]) == ("eventflink://cell", "revenue.a.default")
    assert len(written["outputFacets"]["eventflinkPlaces"]["locations"]) == 2


def test_ids_of_runs_follow_from_the_ids_of_cluster_job_and_vertex(cluster: ScriptedCluster) -> None:
    cluster.run(cluster.submit(graph(vertex("a")), job_id="one"))
    expected = {str(uuid.uuid5(uuid.NAMESPACE_URL, f"eventflink:{parts}")) for parts in ('["cell", "one"]', '["cell", "one", "a"]')}
    assert {event["run"]["runId"] for event in run_events(cluster)} == expected


def test_a_failure_is_that_of_the_job_and_of_the_vertex_whose_it_is_and_the_others_are_aborted(cluster: ScriptedCluster) -> None:
    first, *_ = deployments(cluster.submit(graph(vertex("bad"), vertex("good"), restart_strategy={"type": "none"})))
    cause = FailureCause("ValueError", "no rows at https://me:hunter2@host/", "Traceback …")
    cluster.run(cluster.report(first, ExecutionState.FAILED, cause=cause))
    ends = ends_of(run_events(cluster))
    assert {name: event["eventType"] for name, event in ends.items()} == {
        "test job": "FAIL",
        "test job.bad": "FAIL",
        "test job.good": "ABORT",
    }
    said = ends["test job.bad"]["run"]["facets"]["errorMessage"]
    assert (said["message"], said["stackTrace"]) == ("ValueError: no rows at https://******@host/", "Traceback …")
    assert "errorMessage" not in ends["test job.good"]["run"]["facets"]


def test_a_job_that_is_cancelled_is_aborted(cluster: ScriptedCluster) -> None:
    cluster.submit(graph(vertex("a")))
    cluster.run(cluster.cancel())
    assert {event["eventType"] for event in ends_of(run_events(cluster)).values()} == {"ABORT"}


def test_a_vertex_begins_once_however_often_it_is_tried(cluster: ScriptedCluster) -> None:
    strategy = {"type": "fixed-delay", "attempts": 3, "delay_ms": 1}
    [deployment] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=strategy)))
    cluster.report(deployment, ExecutionState.FAILED)
    cluster.fail_over()
    cluster.run(cluster.pass_time(10))
    assert [event["eventType"] for event in run_events(cluster)] == ["START", "START", "COMPLETE", "COMPLETE"]


def test_without_vertices_the_runs_of_jobs_are_told_alone_in_the_namespace_that_is_wanted(cluster: ScriptedCluster) -> None:
    cluster.run(cluster.submit(graph(vertex("a"))))
    events = run_events(cluster, vertices=False, namespace="prod")
    assert [(event["eventType"], event["job"]["namespace"]) for event in events] == [("START", "prod"), ("COMPLETE", "prod")]


def test_a_run_of_a_schedule_has_its_instant_as_nominal_time(cluster: ScriptedCluster) -> None:
    put_schedule(cluster, "nightly", interval="60s")
    cluster.run(cluster.pass_time(60_000))
    start, *_ = run_events(cluster)
    assert start["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2027-01-15T08:01:00.000+00:00"
    assert start["job"]["facets"]["eventflinkJob"]["schedule_id"] == "nightly"


def test_a_run_that_is_started_for_records_reads_them_with_their_offsets(cluster: ScriptedCluster) -> None:
    put_schedule(cluster, "load", records={"topic": "orders", "begin": "earliest"})
    for end_offset in (5, 8):
        cluster.timer(RecordsSeen("load", "orders", "id", (OffsetRange(0, 5, end_offset),)))
    [start] = [event for event in run_events(cluster, vertices=False) if event["eventType"] == "START"]
    [read] = start["inputs"]
    assert (read["namespace"], read["name"]) == ("kafka://kafka-1:9092", "orders")
    assert read["inputFacets"]["eventflinkOffsets"]["partitions"] == [{"partition": 0, "first_offset": 5, "end_offset": 8}]


def test_a_run_that_is_started_for_versions_of_a_table_reads_them(cluster: ScriptedCluster) -> None:
    put_schedule(cluster, "load", versions={"table": {"path": "s3a://lake/sales"}, "format": "delta", "begin": "earliest"})
    for cursor in (None, TableVersion(-1)):
        cluster.timer(VersionsSeen("load", FollowedTable("s3a://lake/sales"), cursor, "id", TableVersion(-1), TableVersion(4)))
    start, *_ = run_events(cluster, vertices=False)
    [read] = start["inputs"]
    assert (read["namespace"], read["name"]) == ("s3://lake", "sales")
    assert read["inputFacets"]["eventflinkVersions"]["last"] == {"number": 4, "snapshot_id": 0}


def acknowledge(cluster: ScriptedCluster, effects: list[Effect], end_offset: int) -> None:
    """Have each subtask of a stream say up to where it has read its partition of 'orders'."""
    for partition, order in enumerate(orders(effects)):
        offsets = f'{{"orders": {{"{partition}": {partition + end_offset}}}}}'
        cluster.acknowledge(order, sources=(StreamSourceProgress(name="orders", end_offset=offsets, records_behind=0),))


def test_a_job_with_streams_says_from_time_to_time_how_far_these_have_read(cluster: ScriptedCluster) -> None:
    ends = {"sources": {"orders": {"kafka": {"topic": "orders"}, "format": "text"}}, "sink": {"files": {"path": "/out"}, "format": "json"}}
    document = graph(vertex("s") | {"stream": ends}, checkpointing={"interval_ms": 60_000})
    for deployment in deployments(cluster.submit(document)):
        cluster.start_stream(deployment)
    for minute in range(30):
        acknowledge(cluster, cluster.pass_time(60_000), minute)
    told = run_events(cluster, running_every="10m")
    running = [event for event in told if event["eventType"] == "RUNNING"]
    assert [event["job"]["name"] for event in running] == ["test job", "test job.s"] * 3
    for event in running:
        read_run_event(event)
    minutes = [event["inputs"][0]["inputFacets"]["eventflinkOffsets"]["partitions"][0]["end_offset"] for event in running[::2]]
    assert [later - earlier for earlier, later in itertools.pairwise(minutes)] == [10, 10]
    assert len(run_events(cluster, running_every="31d")) == len(told) - len(running)


def test_a_stream_that_ends_says_up_to_where_it_has_read_its_topics(cluster: ScriptedCluster) -> None:
    ends = {
        "sources": {"orders": {"kafka": {"topic": "orders"}, "format": "text"}},
        "sink": {"table": {"path": "/tables/orders"}, "format": "delta"},
    }
    document = graph(vertex("s", 2) | {"stream": ends}, checkpointing={"interval_ms": 100})
    for deployment in deployments(cluster.submit(document)):
        cluster.start_stream(deployment)
    acknowledge(cluster, cluster.pass_time(100), 7)
    cluster.run(cluster.cancel())
    end = ends_of(run_events(cluster))["test job.s"]
    [read], [written] = end["inputs"], end["outputs"]
    assert read["name"] == "orders"
    assert [(p["partition"], p["end_offset"]) for p in read["inputFacets"]["eventflinkOffsets"]["partitions"]] == [(0, 7), (1, 8)]
    assert (written["namespace"], written["name"]) == ("file", "/tables/orders")
    assert end["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ({"kafka": {"topic": "out"}, "format": "json"}, ("kafka://kafka-1:9092", "out")),
        ({"kafka": {"topic": "out", "bootstrap_servers": "other:9092"}, "format": "json"}, ("kafka://other:9092", "out")),
        ({"files": {"path": "/data/out"}, "format": "json"}, ("file", "/data/out")),
        ({"table": {"path": "s3a://lake/sales/daily"}, "format": "delta"}, ("s3://lake", "sales/daily")),
        ({"table": {"path": "hdfs://name-node:8020/sales"}, "format": "delta"}, ("hdfs://name-node:8020", "/sales")),
        (
            {"table": {"path": "abfss://box@store.dfs.core.windows.net/sales"}, "format": "delta"},
            ("abfss://box@store.dfs.core.windows.net", "sales"),
        ),
        ({"table": {"name": "shop.sales"}, "format": "delta"}, ("spark://local", "shop.sales")),
        ({"python": "jobs:write"}, None),
    ],
)
def test_data_sets_are_named_by_the_convention(sink: dict[str, Any], expected: tuple[str, str] | None) -> None:
    stream = {"sources": {"numbers": {"rate": {"rows_per_second": 10}}}, "sink": sink}
    job_graph = parse_job_graph(graph(vertex("s") | {"stream": stream}), "test")
    names = DatasetNames(CLUSTER, BOOTSTRAP)
    assert names.outer_outputs(job_graph, job_graph.vertices[0]) == ([expected] if expected is not None else [])


def test_a_table_of_iceberg_is_named_by_its_catalogue_whose_place_only_taskexecutors_know() -> None:
    sink = {"table": {"catalog": "lake", "name": "shop.sales"}, "format": "iceberg"}
    job_graph = parse_job_graph(graph(vertex("write") | {"sink": sink}), "test")
    assert DatasetNames(CLUSTER, BOOTSTRAP).outer_outputs(job_graph, job_graph.vertices[0]) == [("iceberg://lake", "shop.sales")]
    stream = {"sources": {"numbers": {"rate": {"rows_per_second": 10}}}, "sink": sink}
    job_graph = parse_job_graph(graph(vertex("s") | {"stream": stream}), "test")
    assert DatasetNames(CLUSTER, BOOTSTRAP).outer_outputs(job_graph, job_graph.vertices[0]) == [("iceberg://lake", "shop.sales")]
    job_graph = parse_job_graph(graph(vertex("a") | {"sources": {"sales": sink}}), "f")
    assert list(DatasetNames(CLUSTER, BOOTSTRAP).outer_inputs(job_graph, job_graph.vertices[0])) == [
        ("sales", ("iceberg://lake", "shop.sales"))
    ]


def test_a_data_set_of_a_pipeline_is_the_table_that_it_keeps_and_reads_those_before_it() -> None:
    def kept(vertex_id: str, name: str) -> dict[str, Any]:
        task = {"spec_file": "spark-pipeline.yml", "data_set": name, "views": [], "above": [], "definition": "0"}
        return {"id": vertex_id, "python": REFRESH, "parameters": {PIPELINE: task}}

    vertices = [kept("orders", "spark_catalog.sales.orders"), kept("totals", "lake.sales.totals") | {"engine": "other"}, kept("out", "out")]
    edges = [{"from": "orders", "to": "totals", "ship": "broadcast"}, {"from": "orders", "to": "out", "ship": "broadcast"}]
    job_graph = parse_job_graph({"name": "sales", "engine": "lake", "vertices": vertices, "edges": edges}, "test")
    names = DatasetNames(CLUSTER, BOOTSTRAP)
    orders, totals, out = job_graph.vertices
    of_orders = ("spark://lake", "spark_catalog.sales.orders")
    assert (names.outer_outputs(job_graph, orders), names.outputs(job_graph, orders)) == ([of_orders], {})
    assert names.inputs(job_graph, totals) == [of_orders]
    assert names.outer_outputs(job_graph, totals) == [("spark://other", "lake.sales.totals")]
    assert (names.inputs(job_graph, out), names.outer_outputs(job_graph, out)) == ([of_orders], []), "what a sink writes to is not known"


@pytest.mark.parametrize("parameters", [{}, {"pipeline": 1}, {"pipeline": {"data_set": "a.b.c"}}])
def test_a_graph_that_only_names_the_function_of_pipelines_has_no_table(parameters: dict[str, Any]) -> None:
    job_graph = parse_job_graph(graph({"id": "a", "python": REFRESH, "parameters": parameters}), "test")
    assert DatasetNames(CLUSTER, BOOTSTRAP).outer_outputs(job_graph, job_graph.vertices[0]) == []


def test_a_batch_vertex_that_has_read_a_table_says_which_snapshots_at_its_end(cluster: ScriptedCluster) -> None:
    place: dict[str, Any] = {"catalog": "lake", "name": "shop.sales"}
    tables = {"new": place, "old": place | {"snapshot": 4}, "unread": place}
    sources = {name: {"table": table, "format": "iceberg"} for name, table in tables.items()}
    [deployment] = deployments(cluster.submit(graph(vertex("a") | {"sources": sources})))
    report = state_report(deployment, ExecutionState.FINISHED)
    report.io = IOMetrics(snapshots=(SourceSnapshot("new", 7), SourceSnapshot("old", 4), SourceSnapshot("unread", -1)))
    cluster.say(report)
    cluster.run([])
    job_start, start, *ends = run_events(cluster)
    assert [[dataset["inputFacets"] for dataset in event["inputs"]] for event in (job_start, start)] == [[{}], [{}]]
    assert [event["eventType"] for event in ends] == ["COMPLETE", "COMPLETE"]
    for event in ends:
        [dataset] = event["inputs"]
        assert (dataset["namespace"], dataset["name"]) == ("iceberg://lake", "shop.sales")
        assert dataset["inputFacets"]["eventflinkSnapshots"]["ids"] == ["4", "7"]
    for event in ends:
        read_run_event(event)
