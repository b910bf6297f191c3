"""Pipelined edges as the master has them: their ends run at the same time, and in a savepoint the reader comes after the writer."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from eventflink.events import log_events as e
from eventflink.events.effects import CheckpointOrder, FinishStream, ResumeStream, TaskDeployment
from eventflink.master.effects import CleanUp, Deployment, Effect, unacknowledged
from eventflink.model import job_graph_document
from eventflink.model.job_graph_document import EdgeDocument, InvalidJobGraph, JobGraphDocument, parse_job_graph, to_document
from eventflink.model.pipelined_edges import edge_location, edge_topic, pipelined_edges_of, stream_with_edges
from eventflink.model.statuses import ExecutionState, JobStatus, SavepointMode, StreamConnector
from eventflink.model.stream_document import MAX_CHAINED
from tests.support.cluster import ScriptedCluster, decline, deployments, graph, orders, stream, vertex

SCHEMA = "id BIGINT, at TIMESTAMP"


def document(**more: Any) -> dict[str, Any]:
    """A stream `b`, whose two subtasks read what `a` writes, and `c` after it."""
    without_sink = {"sources": stream("a")["stream"]["sources"]}
    without_source = {"sink": stream("c")["stream"]["sink"]}
    kafka = {"kafka": {"topic": "out"}, "format": "json"}
    vertices = [
        vertex("a") | {"stream": without_sink},
        vertex("b", 2) | {"stream": {"sink": kafka}},
        vertex("c") | {"stream": without_source},
    ]
    edges = [
        {"from": "a", "to": "b", "ship": "hash", "keys": ["id"], "schema": SCHEMA, "event_time": "at", "watermark_delay_ms": 5},
        {"from": "b", "to": "c", "output": "late", "name": "rows", "schema": SCHEMA, "partitions": 3},
    ]
    return graph(*vertices) | {"edges": edges} | more


def run_streams(cluster: ScriptedCluster) -> dict[tuple[str, int], Deployment]:
    cluster.register(slots=8)
    deployed = deployments(cluster.submit(document()))
    for deployment in deployed:
        cluster.start_stream(deployment)
    return {_key(deployment): deployment for deployment in deployed}


def _key(deployment: Deployment) -> tuple[str, int]:
    payload = deployment.payload
    assert isinstance(payload, TaskDeployment | CheckpointOrder | ResumeStream | FinishStream)
    return payload.vertex_id, payload.subtask_index


def told(effects: list[Effect], kind: type[CheckpointOrder | ResumeStream | FinishStream]) -> set[tuple[str, int]]:
    return {_key(effect) for effect in effects if isinstance(effect, Deployment) and isinstance(effect.payload, kind)}


def trigger(cluster: ScriptedCluster, mode: SavepointMode = SavepointMode.STOP) -> list[Deployment]:
    return orders(cluster.command(type="TriggerSavepoint", job_id="job", target_directory="/savepoints", mode=mode))


def test_both_ends_of_an_edge_are_deployed_at_once_and_know_its_topic(cluster: ScriptedCluster) -> None:
    deployed = run_streams(cluster)
    assert deployed.keys() == {("a", 0), ("b", 0), ("b", 1), ("c", 0)}
    ends = {key: d.payload.stream for key, d in deployed.items() if isinstance(d.payload, TaskDeployment)}
    writer, reader, last = ends["a", 0], ends["b", 1], ends["c", 0]
    assert writer is not None
    assert reader is not None
    assert last is not None
    assert [(sink.name, sink.connector, sink.location) for sink in writer.sinks] == [("", StreamConnector.EDGE, "b.a")]
    assert [(s.name, s.connector, s.location, s.row_schema) for s in reader.sources] == [("a", StreamConnector.EDGE, "b.a", SCHEMA)]
    assert [(sink.name, sink.location) for sink in reader.sinks] == [("", "out"), ("late", "c.rows")]
    assert [source.name for source in last.sources] == ["rows"]
    assert writer.sinks[0].options_json == reader.sources[0].options_json
    assert all(not d.payload.inputs and not d.payload.outputs for d in deployed.values() if isinstance(d.payload, TaskDeployment))


@pytest.mark.rule("S3")
@pytest.mark.parametrize(
    ("mode", "follows"), [(SavepointMode.STOP, FinishStream), (SavepointMode.CONTINUE, ResumeStream), (SavepointMode.DRAIN, FinishStream)]
)
def test_in_a_savepoint_readers_are_asked_when_all_their_writers_have_answered(
    cluster: ScriptedCluster, mode: SavepointMode, follows: type[FinishStream | ResumeStream]
) -> None:
    run_streams(cluster)
    [first] = trigger(cluster, mode)
    assert _key(first) == ("a", 0)
    assert isinstance(first.payload, CheckpointOrder)
    assert first.payload.savepoint is not None
    assert first.payload.savepoint.stops_stream
    second = orders(cluster.acknowledge(first))
    assert [_key(order) for order in second] == [("b", 0), ("b", 1)]
    assert orders(cluster.acknowledge(second[0])) == []
    assert told(list(unacknowledged(cluster.master)), CheckpointOrder) == {("b", 1)}
    [last] = orders(cluster.acknowledge(second[1]))
    assert _key(last) == ("c", 0)
    effects = cluster.acknowledge(last)
    assert told(effects, follows) == {("a", 0), ("b", 0), ("b", 1), ("c", 0)}
    assert cluster.events(e.CheckpointCompleted)


def test_a_checkpoint_asks_all_at_once(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    assert len(orders(cluster.command(type="TriggerCheckpoint", job_id="job"))) == 4


@pytest.mark.rule("S3")
def test_when_it_fails_only_those_resume_that_were_asked(cluster: ScriptedCluster) -> None:
    run_streams(cluster)
    [first] = trigger(cluster)
    reader, _ = orders(cluster.acknowledge(first))
    effects = cluster.say(decline(reader, "the disk is full"))
    assert told(effects, ResumeStream) == {("a", 0), ("b", 0), ("b", 1)}


def test_the_topics_of_edges_are_removed_when_the_job_has_ended(cluster: ScriptedCluster) -> None:
    deployed = run_streams(cluster)
    cluster.command(type="CancelJob", job_id="job")
    effects = [effect for deployment in deployed.values() for effect in cluster.report(deployment, ExecutionState.CANCELED)]
    assert cluster.job("job").status is JobStatus.CANCELED
    [clean_up] = [effect for effect in effects if isinstance(effect, CleanUp)]
    assert clean_up.edges == ("b.a", "c.rows")


def test_a_topic_of_an_edge_has_a_name_that_kafka_takes() -> None:
    assert edge_topic("mine", "job", "b.a") == "mine.edge.job.b.a"
    long = [edge_topic("c" * 128, "j" * 128, f"{'t' * 64}.{'n' * 63}{last}") for last in "ab"]
    assert [len(topic) <= 249 for topic in long] == [True, True]
    assert long[0] != long[1]
    alike = [edge_topic("mine", *names) for names in (("j.1", "a.b"), ("j_1", "a.b"), ("j.1", "a_a.b"), ("j.1", "a.a_b"))]
    assert len({topic.replace(".", "_") for topic in alike}) == 4


def test_the_edges_of_a_stream_are_known_and_not_searched_for(cluster: ScriptedCluster) -> None:
    """Each deployment needs them, and a graph may have ten thousand; a snapshot makes them again."""
    run_streams(cluster)
    known = cluster.job("job").execution_graph.pipelined_edges
    assert {name: [(edge_location(edge), writers) for edge, writers in edges] for name, edges in known.items()} == {
        "a": [("b.a", 1)],
        "b": [("b.a", 1), ("c.rows", 2)],
        "c": [("c.rows", 2)],
    }


# -- the document -----------------------------------------------------------------------------------------------------


def test_an_edge_says_the_same_as_a_document_and_as_a_record() -> None:
    parsed = parse_job_graph(document(), "f")
    first, second = parsed.edges
    assert first.pipeline is not None
    assert second.pipeline is not None
    assert (first.pipeline.partitions, first.pipeline.event_time, first.pipeline.watermark_delay_ms) == (2, "at", 5)
    assert (second.pipeline.partitions, second.pipeline.event_time) == (3, "")
    assert parse_job_graph(to_document(parsed), "f") == parsed
    assert stream_with_edges(parsed.vertices[0], pipelined_edges_of(parsed)) != parsed.vertices[0].stream


def _changed(**changes: Any) -> dict[str, Any]:
    """The document with changes of its first edge (`edge`), and of the streams `a`, `b` and `c`, where None leaves a key out."""
    made = document()
    for name, change in changes.items():
        target = made["edges"][0] if name == "edge" else next(v for v in made["vertices"] if v["id"] == name)["stream"]
        target.update(change)
        for key in [key for key, value in target.items() if value is None]:
            del target[key]
    return made


NOW = {"available_now": True}
LAX = {"kafka": {"topic": "out", "guarantee": "at_least_once"}, "format": "json"}
FILES = {"files": {"path": "/x"}, "format": "csv"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (_changed(edge={"schema": None}), "edges[0]: between streams it needs a 'schema', the columns of 'a'"),
        (_changed(edge={"event_time": None}), "edges[0]: 'event_time' and 'watermark_delay_ms' go together"),
        (_changed(edge={"partitions": 1}), "edges[0].partitions: 'b' has 2 subtasks, and 1 partitions would leave some without rows"),
        (_changed(edge={"partitions": 1_001}), "edges[0].partitions: must be at most 1000, not 1001"),
        (_changed(b={"trigger": NOW}), "edges[0]: 'b' has trigger available_now, and ends when its inputs do; 'a' never does"),
        (
            _changed(c={"trigger": {"real_time_ms": 5_000}, "output_mode": "update", "sink": LAX}),
            "edges[1]: 'c' has trigger real_time_ms, and the rows of 'b' come batch by batch",
        ),
        (_changed(a={"sink": FILES}), "edges[0]: 'a' has a sink that is not written in transactions of Kafka, as the edge is"),
        (
            _changed(a={"sink": {"kafka": {"topic": "t", "bootstrap_servers": "other:9"}, "format": "json"}}),
            "edges[0]: 'a' has a sink in a Kafka of its own, and a transaction is within one",
        ),
        (
            _changed(a={"sinks": {"x": {"kafka": {"topic": "t", "bootstrap_servers": "other:9"}, "format": "json"}}}),
            "edges[0]: 'a' has a sinks.x in a Kafka of its own",
        ),
        (_changed(a={"sources": None}), "vertices[0].stream.sources: the stream needs a source, or an edge from another stream"),
        (_changed(c={"sink": None}), "vertices[2].stream: neither 'sink' nor 'sinks' says where the rows go, nor an edge"),
        (_changed(b={"sources": {"a": {"rate": {"rows_per_second": 1}}}}), "edges[0]: the stream 'b' has a source of that name already"),
    ],
)
def test_an_edge_that_cannot_be_is_refused_with_its_place(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph) as refused:
        parse_job_graph(wrong, "f")
    assert f"f: {says}" in str(refused.value)


def test_what_only_pipelined_edges_have_is_refused_of_others() -> None:
    edge = {"from": "a", "to": "b", "schema": SCHEMA}
    with pytest.raises(InvalidJobGraph, match=r"edges\[0\].schema: it is for edges from a stream to a stream; this one is blocking"):
        parse_job_graph(graph(vertex("a"), vertex("b")) | {"edges": [edge]}, "f")
    with pytest.raises(InvalidJobGraph, match=r"edges\[0\]: 'a' is a stream and 'b' is not: only another stream can read its rows"):
        parse_job_graph(graph(stream("a"), vertex("b")) | {"edges": [edge]}, "f")


def test_the_sql_of_a_stream_is_one_statement() -> None:
    """More would run again in a session that has their views already, when a source has more partitions."""
    scripted = document()
    del scripted["vertices"][0]["python"]
    scripted["vertices"][0]["sql"] = "CREATE TEMPORARY VIEW v AS SELECT ';' AS mark; SELECT * FROM v;"
    with pytest.raises(InvalidJobGraph, match=r"vertices\[0\]: sql: a stream is one statement, and here are 2: name what"):
        parse_job_graph(scripted, "f")
    scripted["vertices"][0]["sql"] = "SELECT ';' AS mark FROM source;"
    parse_job_graph(scripted, "f")


def test_a_forward_edge_has_a_partition_for_each_subtask_and_a_statement_one_output() -> None:
    forward = document()
    forward["vertices"][0]["parallelism"] = 2
    forward["edges"][0] |= {"ship": "forward", "keys": [], "partitions": 3}
    with pytest.raises(InvalidJobGraph, match="with ship: forward the topic has one for each of the 2 subtasks, not 3"):
        parse_job_graph(forward, "f")
    statement = document()
    statement["vertices"][1] = {"id": "b", "sql": "SELECT * FROM a", "parallelism": 2, "stream": statement["vertices"][1]["stream"]}
    with pytest.raises(InvalidJobGraph, match=r"vertices\[1\]: a statement has one output, 'default', and none called 'late'"):
        parse_job_graph(statement, "f")


def test_the_late_rows_of_an_edge_are_an_output_of_its_reader() -> None:
    written = document()
    written["edges"][0]["late_rows"] = {"output": "behind", "session_gap_ms": 5}
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\].late_rows: output 'behind' goes nowhere; name a topic for it"):
        parse_job_graph(written, "f")
    written["edges"].append({"from": "b", "to": "c", "output": "behind", "schema": SCHEMA})
    parsed = parse_job_graph(written, "f")
    assert to_document(parsed)["edges"][0]["late_rows"] == {"output": "behind", "session_gap_ms": 5}
    assert parse_job_graph(to_document(parsed), "f") == parsed
    with_edges = stream_with_edges(parsed.vertices[1], pipelined_edges_of(parsed))
    assert with_edges is not None
    [read] = with_edges.sources
    assert json.loads(read.options_json)["late_rows"] == {
        "output": "behind",
        "window_ms": 0,
        "slide_ms": 0,
        "start_ms": 0,
        "session_gap_ms": 5,
    }
    whole = json.loads(json.dumps(written))
    whole["vertices"][1]["stream"]["output_mode"] = "complete"
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\].late_rows: with output_mode complete Spark drops no row"):
        parse_job_graph(whole, "f")
    del written["edges"][0]["event_time"], written["edges"][0]["watermark_delay_ms"]
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\]: 'late_rows' needs 'event_time' and 'watermark_delay_ms'"):
        parse_job_graph(written, "f")


class _Counted(list[EdgeDocument]):
    """Edges that know how often they were walked."""

    walks = 0

    def __iter__(self) -> Iterator[EdgeDocument]:
        self.walks += 1
        return super().__iter__()


def test_the_edges_are_walked_as_often_whatever_the_vertices_are() -> None:
    walks = []
    for length in (3, 60):
        parsed = JobGraphDocument.model_validate(_row_of(length))
        parsed.edges = edges = _Counted(parsed.edges)
        job_graph_document._check_graph(parsed)
        walks.append(edges.walks)
    assert walks[0] == walks[1] > 0


# -- chaining ---------------------------------------------------------------------------------------------------------


def chain(**changes: Any) -> dict[str, Any]:
    """Three streams in a row, joined by forward edges; changes are by id of a vertex, or `edge` for the first edge."""
    source, sink = stream("a")["stream"]["sources"], {"kafka": {"topic": "out"}, "format": "json"}
    vertices: list[dict[str, Any]] = [
        vertex("a", 2) | {"stream": {"sources": source}},
        {"id": "b", "sql": "SELECT * FROM rows", "parallelism": 2, "parameters": {"x": 1}, "stream": {}},
        vertex("c", 2) | {"stream": {"sink": sink}},
    ]
    edges: list[dict[str, Any]] = [
        {"from": "a", "to": "b", "ship": "forward", "name": "rows", "schema": SCHEMA, "event_time": "at", "watermark_delay_ms": 5},
        {"from": "b", "to": "c", "ship": "forward", "schema": SCHEMA},
    ]
    for name, change in changes.items():
        target: dict[str, Any] = edges[0] if name == "edge" else next(v for v in vertices if v["id"] == name)
        more = change.pop("stream", {}) if name != "edge" else {}
        target |= change
        if more:
            target["stream"] = target["stream"] | more
    return graph(*vertices) | {"edges": edges}


def chains_of(written: dict[str, Any]) -> list[str]:
    parsed = parse_job_graph(written, "f")
    assert parse_job_graph(to_document(parsed), "f") == parsed
    streams = [(v.vertex_id, v.stream) for v in parsed.vertices]
    return [" -> ".join([name, *(o.operator_id for o in s.chained)]) for name, s in streams if s is not None]


def test_streams_that_forward_edges_join_are_one_vertex() -> None:
    assert chains_of(chain()) == ["a -> b -> c"]
    parsed = parse_job_graph(chain(), "f")
    [only] = parsed.vertices
    assert only.stream is not None
    assert (parsed.edges, only.parallelism, [sink.location for sink in only.stream.sinks]) == ((), 2, ["out"])
    first, second = only.stream.chained
    assert (first.task, first.input_name, first.parameters_json, first.event_time) == ("SELECT * FROM rows", "rows", '{"x":1}', "at")
    assert (second.input_name, second.event_time) == ("b", "")


def test_edges_of_what_is_chained_lead_from_its_head() -> None:
    written = chain()
    written["vertices"].append(vertex("d") | {"stream": {"sink": {"kafka": {"topic": "late"}, "format": "json"}}})
    written["edges"].append({"from": "c", "to": "d", "output": "late", "schema": SCHEMA})
    assert chains_of(written) == ["a -> b -> c", "d"]
    [edge] = parse_job_graph(written, "f").edges
    assert (edge.source, edge.input_name) == ("a", "c")


@pytest.mark.parametrize(
    ("written", "chains"),
    [
        (chain(edge={"chain": False}), ["a", "b -> c"]),
        (chain(edge={"ship": "rebalance"}), ["a", "b -> c"]),
        (chain(c={"stream": {"output_mode": "update"}}), ["a -> b", "c"]),
        (chain(b={"stream": {"trigger": {"processing_time_ms": 9}}}), ["a", "b", "c"]),
        (chain(a={"slot_sharing_group": "g"}), ["a", "b -> c"]),
        (chain(a={"resources": {"cpu_cores": 1}}), ["a", "b -> c"]),
        (chain(b={"stream": {"sinks": {"x": {"kafka": {"topic": "t"}, "format": "json"}}}, "sql": None, "python": "m:f"}), ["a -> b", "c"]),
        (chain(c={"stream": {"output_mode": "update"}}, edge={"chain": True}), ["a -> b", "c"]),
        (chain(c={"engine": "lake"}), ["a -> b", "c"]),
    ],
)
def test_what_might_not_run_as_one_query_is_not_chained(written: dict[str, Any], chains: list[str]) -> None:
    assert chains_of(written) == chains


def test_an_edge_whose_late_rows_go_elsewhere_is_not_chained() -> None:
    topic = {"kafka": {"topic": "t"}, "format": "json"}
    edge = {"late_rows": "late", "event_time": "id", "watermark_delay_ms": 5}
    written = chain(b={"stream": {"sinks": {"late": topic}}}, edge=edge)
    assert chains_of(written) == ["a", "b", "c"]
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\].chain: 'b' gets the late rows of its input apart from the others"):
        parse_job_graph(chain(b={"stream": {"sinks": {"late": topic}}}, edge=edge | {"chain": True}), "f")


def test_an_edge_that_asks_for_it_is_chained_or_refused_with_the_reason() -> None:
    asked = chain(a={"stream": {"output_mode": "update"}}, edge={"chain": True})
    assert chains_of(asked) == ["a -> b -> c"]
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\].chain: 'a' and 'b' ask for different slots"):
        parse_job_graph(chain(a={"slot_sharing_group": "g"}, edge={"chain": True}), "f")
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\].chain: 'a' and 'b' name different engines"):
        parse_job_graph(chain(a={"engine": "lake"}, edge={"chain": True}), "f")
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\].chain: only streams that a forward edge joins are chained"):
        parse_job_graph(chain(edge={"chain": True, "ship": "rebalance"}), "f")


def _row_of(length: int, wishes: Sequence[bool | None] = (), *, reverse: bool = False) -> dict[str, Any]:
    """So many streams in a row, joined by forward edges; each wish is of an edge, from the first."""
    vertices: list[dict[str, Any]] = [vertex(f"v{number}") | {"stream": {}} for number in range(length)]
    vertices[0]["stream"] = {"sources": stream("a")["stream"]["sources"]}
    vertices[-1]["stream"] = {"sink": stream("a")["stream"]["sink"]}
    edges: list[dict[str, Any]] = [{"from": f"v{n}", "to": f"v{n + 1}", "ship": "forward", "schema": SCHEMA} for n in range(length - 1)]
    for edge, wish in zip(edges, wishes, strict=False):
        edge |= {"chain": wish}
    return graph(*vertices) | {"edges": edges[::-1] if reverse else edges}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_chain_is_as_long_as_its_record_may_say_and_another_follows(reverse: bool) -> None:  # noqa: FBT001
    lengths = [text.count("->") + 1 for text in chains_of(_row_of(2 * MAX_CHAINED, reverse=reverse))]
    assert lengths == ([MAX_CHAINED - 1, MAX_CHAINED + 1] if reverse else [MAX_CHAINED + 1, MAX_CHAINED - 1])


def test_an_edge_that_asks_for_too_long_a_chain_is_refused_with_its_place() -> None:
    longest = _row_of(MAX_CHAINED + 1, [True] * MAX_CHAINED)
    assert len(chains_of(longest)) == 1
    with pytest.raises(InvalidJobGraph, match=rf"f: edges\[{MAX_CHAINED}\].chain: 'v0' would have more than {MAX_CHAINED} streams chained"):
        parse_job_graph(_row_of(MAX_CHAINED + 2, [True] * (MAX_CHAINED + 1)), "f")


@pytest.mark.parametrize(("modes", "chains"), [("append update append", ["v0 -> v1 -> v2"]), ("append append update", ["v0", "v1 -> v2"])])
def test_what_a_stream_appends_is_what_the_end_of_its_chain_does(modes: str, chains: list[str]) -> None:
    """The second edge asks for it, and stands first or makes the first one possible."""
    written = _row_of(3, (None, True), reverse=modes.endswith("update"))
    for number, mode in enumerate(modes.split()):
        written["vertices"][number]["stream"] |= {"output_mode": mode}
    assert chains_of(written) == chains


def test_a_graph_of_ten_thousand_forward_edges_is_looked_at_once() -> None:
    """Where each chain began the search again, and each edge counted all others, this took hours."""
    source, sink = stream("a")["stream"]["sources"], stream("a")["stream"]["sink"]
    writers = [vertex(f"w{number}") | {"stream": {"sources": source}} for number in range(120)]
    readers = [vertex(f"r{number}") | {"stream": {"sink": sink}} for number in range(80)]
    written = _row_of(390)
    pairs = [(writer["id"], reader["id"]) for writer in writers for reader in readers]
    between = [{"from": writer, "to": reader, "ship": "forward", "schema": SCHEMA} for writer, reader in pairs]
    written = graph(*writers, *readers, *written["vertices"]) | {"edges": [*between, *written["edges"]]}
    assert [text.count("->") for text in chains_of(written)] == [0] * 200 + [MAX_CHAINED] * 6
