"""A job graph that is wrong is refused with the place and the problem; two spellings of a graph are one job."""

import hashlib
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from eventflink.model.batch_sink_document import batch_table_of
from eventflink.model.batch_source_document import source_table_of
from eventflink.model.document_fields import canonical_json
from eventflink.model.job_about import has_labels
from eventflink.model.job_graph import JobEdge, JobVertex, RestartStrategy, RowCondition
from eventflink.model.job_graph_document import (
    InvalidJobGraph,
    check_job_graph,
    graph_digest,
    is_valid_job_id,
    parse_job_graph,
    to_document,
)
from eventflink.model.spark_pools import SparkPool
from eventflink.model.statuses import RestartStrategyType, ShipStrategy, StreamConnector, StreamFormat, StreamTrigger, TaskType
from eventflink.model.stream_document import sink_document


def _vertex(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": name, "sql": "select 1", **more}


def _graph(**more: Any) -> dict[str, Any]:
    return {"name": "g", "vertices": [_vertex()], **more}


def _edges(*pairs: tuple[str, str], **more: Any) -> list[dict[str, Any]]:
    return [{"from": a, "to": b, **more} for a, b in pairs]


def _abc(edges: list[dict[str, Any]]) -> dict[str, Any]:
    return _graph(vertices=[_vertex("a"), _vertex("b"), _vertex("c", parallelism=2)], edges=edges)


def _deep(levels: int, innermost: Any = None, key: str = "") -> Any:
    """Return lists in each other, so many of them; with a `key`, mappings that have it alone."""
    value = [] if innermost is None else innermost
    for _ in range(levels - 1):
        value = {key: value} if key else [value]
    return value


WRONG: list[tuple[Any, str]] = [
    ("{", "f: not valid JSON: expecting property name"),
    ("a: [", "f: not valid YAML: "),
    ("", "f: a job graph is a mapping with 'name' and 'vertices', not null"),
    ("[]", "f: a job graph is a mapping with 'name' and 'vertices', not a list"),
    ("text", "f: a job graph is a mapping with 'name' and 'vertices', not 'text'"),
    ("!!python/object:os.system {}", "f: the tag !!python/object:os.system is not read here (line 1, column 1)"),
    ({}, "f: name: it is missing; vertices: it is missing"),
    (_graph(colour="red"), "f: colour: unknown key"),
    (_graph(name=""), "f: name: must have at least 1 character"),
    (_graph(name="x" * 257), "f: name: must have at most 256 characters"),
    (_graph(name=None), "f: name: must be a text"),
    (_graph(vertices=[]), "f: vertices: must have at least 1 item"),
    (_graph(vertices={}), "f: vertices: must be a list"),
    (_graph(vertices=[5]), "f: vertices[0]: must be a mapping"),
    (_graph(vertices=[_vertex(f"v{n}") for n in range(5001)]), "f: vertices: must have at most 5000 items"),
    (_graph(vertices=[_vertex("1a")]), "f: vertices[0].id: must match"),
    (_graph(vertices=[_vertex("a/../b")]), "f: vertices[0].id: must match"),
    (_graph(vertices=[_vertex("x" * 65)]), "f: vertices[0].id: must match"),
    (_graph(vertices=[_vertex(), _vertex()]), "f: two vertices have the id 'a'"),
    (_graph(vertices=[{"id": "a"}]), "f: vertices[0]: exactly one of 'python', 'sql' and 'sql_file' says what it runs"),
    (_graph(vertices=[_vertex(python="m:f")]), "f: vertices[0]: exactly one of 'python', 'sql' and 'sql_file'"),
    (_graph(vertices=[{"id": "a", "python": "m"}]), "f: vertices[0]: python: 'm' is not of the form module:function"),
    (_graph(vertices=[{"id": "a", "python": "m:f()"}]), "f: vertices[0]: python: 'm:f()' is not of the form module:function"),
    (_graph(vertices=[{"id": "a", "python": "m:f\n"}]), "is not of the form module:function"),
    (
        _graph(vertices=[{"id": "a", "python": "m" * 511 + ":f"}]),
        "f: vertices[0].python: must have at most 512 characters, not 513",
    ),
    (_graph(vertices=[_vertex("a\n")]), "f: vertices[0].id: must match"),
    *[(_graph(vertices=[_vertex(sql=sql)]), "f: vertices[0]: sql: the query is empty") for sql in ("  ", ";", "-- nothing", "/* x */ ;")],
    *[
        (_graph(vertices=[_vertex(parameters={name: 7})]), f"f: vertices[0]: parameters.{name}: the name is taken: :{name} is that")
        for name in ("subtask_index", "parallelism")
    ],
    *[
        (
            _graph(vertices=[_vertex(parameters={"x": x})]),
            "f: vertices[0]: parameters.x: a number is beyond the 64 bits of a BIGINT; give it as",
        )
        for x in (2**63, -(2**63) - 1, [1, 2**63], {"y": [{"z": 2**63}]})
    ],
    (
        _graph(vertices=[_vertex("a"), _vertex("b")], edges=_edges(("a", "b"), output="large")),
        "f: edges[0].output: a statement has one output, 'default', and 'a' none called 'large'",
    ),
    *[(_graph(priority=value), "f: priority: must be a whole number") for value in ("1_0", "1", True)],
    *[
        (
            _graph(restore={"savepoint": "/s", "allow_non_restored_state": flag}),
            "f: restore.allow_non_restored_state: must be true or false",
        )
        for flag in ("on", "no", 0, 1.0)
    ],
    (_graph(vertices=[_vertex(sql="x" * 65_537)]), "f: vertices[0].sql: must have at most 65536 characters"),
    (_graph(vertices=[_vertex(parallelism=0)]), "f: vertices[0].parallelism: must be at least 1"),
    (_graph(vertices=[_vertex(parallelism=4097)]), "f: vertices[0].parallelism: must be at most 4096"),
    (
        _graph(vertices=[_vertex(parallelism=10**5_000)]),
        "f: vertices[0].parallelism: must be at most 4096, not a long int",
    ),
    (_graph(vertices=[_vertex(parallelism=129)]), "f: vertices[0]: parallelism 129 is above max_parallelism 128"),
    (_graph(vertices=[_vertex(max_parallelism=32_769)]), "f: vertices[0].max_parallelism: must be at most 32768"),
    (_graph(vertices=[_vertex(paralellism=2)]), "f: vertices[0].paralellism: unknown key"),
    (_graph(vertices=[_vertex(parameters=[])]), "f: vertices[0].parameters: must be a mapping"),
    (
        _graph(vertices=[_vertex(parameters={"p": [{"k" * 257: 1}]})]),
        "f: vertices[0]: parameters.p[0]: a key has 257 characters; at most 256 may be",
    ),
    (_graph(vertices=[_vertex(parameters={"p": _deep(100)})]), "f: vertices[0]: parameters: nested more than 100 levels deep"),
    (_graph(vertices=[_vertex(parameters={"p": {1, 2}})]), "f: vertices[0]: parameters.p: a value of the type set is not a value of JSON"),
    (_graph(vertices=[_vertex(parallelism="2")]), "f: vertices[0].parallelism: must be a whole number, not '2' (vertex 'a')"),
    (_graph(vertices=[_vertex(parallelism=True)]), "f: vertices[0].parallelism: must be a whole number, not true (vertex 'a')"),
    (_graph(spark={"pool": "job", "cores": True}), "f: spark.cores: must be a whole number, not true"),
    (
        _graph(restart_strategy={"type": "exponential-delay", "multiplier": True}),
        "f: restart_strategy.multiplier: must be a number, not true",
    ),
    (_graph(vertices=[_vertex(parameters={"p": [{1: "a"}]})]), "f: vertices[0]: parameters.p[0]: a key is a text, not 1 (vertex 'a')"),
    (_graph(vertices=[_vertex(parameters={"p": {True: 1, None: 2}})]), "f: vertices[0]: parameters.p: a key is a text, not true"),
    (_graph(vertices=[_vertex(parameters={"p": float("nan")})]), "f: vertices[0]: parameters.p: nan is not a value of JSON"),
    (_graph(vertices=[_vertex(parameters={"p": "\ud800"})]), "f: parameters must be JSON values"),
    (
        _graph(vertices=[_vertex(f"v{n}", parallelism=4_096, max_parallelism=4_096) for n in range(25)]),
        "f: 102400 subtasks are more than the 100000 that one job may have",
    ),
    (_abc(_edges(("a", "x"))), "f: edges[0].to: vertex not found: 'x'"),
    (_abc(_edges(("a", "b"), ("x", "b"))), "f: edges[1].from: vertex not found: 'x'"),
    (
        _graph(vertices=[_vertex("a"), _vertex("A"), {"id": "b", "sql": "SELECT 1"}], edges=_edges(("a", "b"), ("A", "b"))),
        "f: edges[1]: vertex 'b' has two inputs named 'A', for upper and lower case are one in SQL; give one a 'name'",
    ),
    (_abc(_edges(("a", "b"), ("a", "b"))), "f: edges[1]: vertex 'b' has two inputs named 'a'; give one a 'name'"),
    (_abc(_edges(("a", "c"), ship="forward")), "f: edges[0]: ship: forward needs equal parallelism of 'a' and 'c'"),
    (_abc(_edges(("a", "b"), ship="hash")), "f: edges[0]: ship: hash needs 'keys'"),
    (
        _abc([*_edges(("a", "c"), ship="hash", keys=["k"]), *_edges(("b", "c"), ship="hash", keys=["k", "l"])]),
        "f: edges[1].keys: there are 2, and 1 of edges[0], which is shipped by hash to 'c' as well: rows with equal keys would not meet",
    ),
    (_abc(_edges(("a", "b"), keys=["k"])), "f: edges[0]: 'keys' go with ship: hash, not with rebalance"),
    (_abc(_edges(("a", "b" * 65))), "f: edges[0].to: must have at most 64 characters, not 65"),
    (_abc(_edges(("a" * 65, "b"))), "f: edges[0].from: must have at most 64 characters, not 65"),
    (_abc(_edges(("a", "b"), ship="hash", keys=["k" * 257])), "f: edges[0].keys[0]: must have at most 256 characters, not 257"),
    (_abc(_edges(("a", "b"), ship="random")), "f: edges[0].ship: must be 'forward', 'hash', 'rebalance', 'broadcast' or 'each'"),
    (_abc(_edges(("a", "b"), output="no way")), "f: edges[0].output: must match"),
    (_abc([{"from": "a"}]), "f: edges[0].to: it is missing"),
    (_abc(_edges(("a", "a"))), "f: edges[0]: the graph has a cycle: a -> a"),
    (_abc(_edges(("a", "b"), ("b", "a"))), "f: edges[1]: the graph has a cycle: a -> b -> a"),
    (_abc(_edges(("a", "b"), ("b", "c"), ("c", "b"))), "f: edges[2]: the graph has a cycle: "),
    (
        _graph(restart_strategy={"type": "always"}),
        "f: restart_strategy.type: must be 'cluster-default', 'none', 'fixed-delay', 'exponential-delay' or 'failure-rate'",
    ),
    (_graph(restart_strategy={"type": "fixed-delay", "attempts": -1}), "f: restart_strategy.attempts: must be at least"),
    (_graph(code_archives=["short"]), "f: code_archives[0]: must match"),
    (_graph(vertices=[_vertex(a=1, b=2, c=3, d=4, e=5)]), "; and 2 more"),
    (
        _graph(vertices=[_vertex(), _vertex(a=1, b=2, c=3, d=4), *[_vertex(a=1, b=2)] * 998]),
        "f: vertices[1].a: unknown key",
    ),
    (_graph(vertices=[_vertex(), _vertex(a=1, b=2, c=3, d=4), *[_vertex(a=1, b=2)] * 998]), "; and 1 more"),
]


@pytest.mark.parametrize(("document", "says"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named_with_its_place(document: Any, says: str) -> None:
    with pytest.raises(InvalidJobGraph) as caught:
        parse_job_graph(document, "f")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("edges", [_edges(("a", "b"), ("b", "c"), ("c", "a")), _edges(("a", "b"), ("b", "c"), ("c", "b"))])
def test_a_cycle_is_named_along_its_edges(edges: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidJobGraph) as caught:
        parse_job_graph(_abc(edges), "f")
    cycle = str(caught.value).split("cycle: ")[1].split(" -> ")
    assert cycle[0] == cycle[-1]
    pairs = {(e["from"], e["to"]) for e in edges}
    assert all(pair in pairs for pair in itertools.pairwise(cycle))


def test_aliases_that_stand_for_more_than_fits_are_refused_before_they_are_written_out() -> None:
    many = "".join(f"    - &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 40))
    bomb = f"name: g\nvertices:\n- id: a\n  python: m:f\n  parameters:\n    p:\n    - &l0 x\n{many}"
    long = f"name: g\nvertices:\n- id: a\n  python: m:f\n  parameters:\n    p: &p {'x' * 100_000}\n    q: [{', '.join(['*p'] * 20)}]\n"
    for document in (bomb, long):
        with pytest.raises(InvalidJobGraph, match="its aliases stand for more than 1048576 characters"):
            parse_job_graph(document, "it")
    for endless in ("&p {q: *p}", "{q: *nothing}"):
        with pytest.raises(InvalidJobGraph, match="stands for nothing, or for what it is in"):
            parse_job_graph(f"name: g\nvertices:\n- {{id: a, python: 'm:f', parameters: {endless}}}\n", "it")


def test_a_tuple_is_a_list_and_what_is_in_it_is_looked_at() -> None:
    [vertex] = parse_job_graph(_graph(vertices=[_vertex(parameters={"p": (1, (2, 3))})]), "it").vertices
    assert json.loads(vertex.parameters_json) == {"p": [1, [2, 3]]}
    with pytest.raises(InvalidJobGraph, match=r"parameters.p\[0\].password: a secret is named here, not written"):
        parse_job_graph(_graph(vertices=[_vertex(parameters={"p": ({"password": "x"},)})]), "it")


def test_an_alias_is_what_it_stands_for() -> None:
    document = "name: g\nvertices:\n- &a {id: a, python: 'm:f', parameters: &p {q: [1]}}\n- {<<: *a, id: b, parameters: *p}\n"
    first, second = parse_job_graph(document, "it").vertices
    assert (first.parameters_json, second.parameters_json, second.vertex_id) == ('{"q":[1]}', '{"q":[1]}', "b")


def test_deep_nesting_is_refused_before_it_can_hurt() -> None:
    for depth in (101, 5_000, 100_000):
        for text in ("[" * depth, "a: " + "{b: " * depth, '{"vertices": ' * depth):
            with pytest.raises(InvalidJobGraph):
                parse_job_graph(text[:200_000], "f")


def test_what_may_stand_for_a_number_is_no_longer_than_python_reads_one() -> None:
    for text in ("0x" + "f" * 4_300, "1" * 4_301, f"!!int '{'1' * 4_301}'"):
        with pytest.raises(InvalidJobGraph, match="a number of more than 4300 digits"):
            parse_job_graph(f"name: {text}", "f")
    # To the base 60 and 2, which YAML 1.2 has no more, they are texts: it took the square of the length to read the first.
    for text in ("1" + ":1" * 5_000_000, "-0b" + "1" * 4_300, "'1" + ":1" * 2_150 + "'", "1" * 4_301 + "x", "1 " * 4_301):
        with pytest.raises(InvalidJobGraph, match="name: must have at most 256 characters"):
            parse_job_graph(f"name: {text}", "f")


def test_what_a_place_is_called_is_not_written_out_for_each_of_the_values_there() -> None:
    """As texts the places of these values have ten gigabytes."""
    values = _deep(98, [0] * 400_000, "k" * 256)
    [checked] = parse_job_graph(_graph(vertices=[_vertex(parameters={"p": values})]), "f").vertices
    assert json.loads(checked.parameters_json) == {"p": values}
    with pytest.raises(InvalidJobGraph, match="a secret is named here, not written") as caught:
        parse_job_graph(_graph(vertices=[_vertex(parameters={"p": _deep(98, [{"password": "hush"}], "k" * 256)})]), "f")
    assert len(str(caught.value)) < 1_000


def test_a_document_becomes_the_plain_record() -> None:
    text = """
    name: delays
    vertices:
      - {id: flights, python: "my_module:read", parallelism: 2, parameters: {b: 1, a: [x]}}
      - {id: by_carrier, sql: "SELECT 1", max_parallelism: 64}
    edges:
      - {from: flights, to: by_carrier, ship: hash, keys: [carrier], output: raw, name: rows}
    restart_strategy: {type: fixed-delay, attempts: 3, delay_ms: 500}
    """
    graph = parse_job_graph(text, "f")
    assert graph.vertices == (
        JobVertex("flights", TaskType.PYTHON, "my_module:read", 2, 128, '{"a":["x"],"b":1}'),
        JobVertex("by_carrier", TaskType.SQL, "SELECT 1", 1, 64, "{}"),
    )
    edge = JobEdge(source="flights", target="by_carrier", output="raw", input_name="rows", ship=ShipStrategy.HASH, keys=("carrier",))
    assert graph.edges == (edge,)
    assert graph.restart_strategy == RestartStrategy(RestartStrategyType.FIXED_DELAY, 3, 500)


def test_spellings_of_a_graph_have_one_digest_and_other_graphs_another() -> None:
    spelled = _graph(vertices=[_vertex(parameters={"a": 1, "b": 2})])
    other = _graph(edges=[], vertices=[{"parameters": {"b": 2, "a": 1}, "parallelism": 1, "sql": "select 1", "id": "a"}])
    digest = graph_digest(parse_job_graph(spelled, "f"))
    assert digest == graph_digest(parse_job_graph(json.dumps(other), "f"))
    for changed in (_graph(), spelled | {"name": "h"}, spelled | {"restart_strategy": {"type": "none"}}):
        assert graph_digest(parse_job_graph(changed, "f")) != digest


@pytest.mark.parametrize("strategy", [None, {"type": "none"}, {"type": "cluster-default"}, {"type": "fixed-delay", "attempts": 2}])
def test_a_graph_survives_the_way_to_a_document_and_back(strategy: dict[str, Any] | None) -> None:
    document = _abc([{"from": "a", "to": "b", "ship": "broadcast"}, {"from": "b", "to": "c", "ship": "hash", "keys": ["k"]}])
    graph = parse_job_graph(document | {"restart_strategy": strategy, "code_archives": ["0" * 64]}, "f")
    assert parse_job_graph(to_document(graph), "f") == graph


@pytest.mark.parametrize(
    "spark",
    [{"pool": "shared"}, {"pool": "job", "memory": "512m"}, {"pool": "reports", "cores": 2}, {"pool": "a.b", "memory": "4g", "cores": 1}],
)
def test_every_pool_passes_through_its_record_unchanged(spark: dict[str, Any]) -> None:
    graph = parse_job_graph(_graph(spark=spark), "f")
    assert graph.spark == SparkPool(spark["pool"], spark.get("memory", ""), spark.get("cores", 0))
    assert parse_job_graph(to_document(graph), "f") == graph
    assert graph_digest(graph) != graph_digest(parse_job_graph(_graph(), "f"))


@pytest.mark.parametrize(
    ("spark", "says"),
    [
        ({}, "f: spark.pool: "),
        ({"pool": "../other"}, "f: spark.pool: "),
        ({"pool": ""}, "f: spark.pool: "),
        ({"pool": "job", "memory": "4"}, "f: spark.memory: "),
        ({"pool": "job", "memory": "4t"}, "f: spark.memory: "),
        ({"pool": "job", "cores": 0}, "f: spark.cores: "),
        ({"pool": "job", "kernels": 2}, "f: spark.kernels: "),
        ({"pool": "shared", "cores": 2}, "pool: shared has memory and cores of the TaskExecutor's configuration"),
        ("job", "f: spark: "),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_its_place(spark: object, says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(says)):
        parse_job_graph(_graph(spark=spark), "f")


def test_an_engine_of_a_vertex_comes_before_that_of_its_job_and_both_pass_through_their_records() -> None:
    document = _abc([{"from": "a", "to": "b"}, {"from": "b", "to": "c"}])
    document["vertices"][1]["engine"] = "lake"
    plain, graph = parse_job_graph(document, "f"), parse_job_graph(document | {"engine": "local"}, "f")
    assert [plain.engine_of(vertex) for vertex in plain.vertices] == ["", "lake", ""]
    assert [graph.engine_of(vertex) for vertex in graph.vertices] == ["local", "lake", "local"]
    assert parse_job_graph(to_document(graph), "f") == graph
    assert "engine" not in to_document(plain)
    assert graph_digest(graph) != graph_digest(plain)


@pytest.mark.parametrize("name", ["", "Lake", "a.b", "../x", "x" * 64, 5, "-a"])
def test_a_name_that_no_engine_can_have_is_refused_with_its_place(name: object) -> None:
    for document in (_graph(engine=name), _graph() | {"vertices": [{"id": "a", "sql": "SELECT 1", "engine": name}]}):
        with pytest.raises(InvalidJobGraph, match=r"f: (vertices\[0\]\.)?engine: "):
            parse_job_graph(document, "f")


def test_a_pool_of_a_job_without_a_vertex_on_a_host_is_refused() -> None:
    document = _abc([{"from": "a", "to": "b"}]) | {"spark": {"pool": "job"}, "engine": "lake"}
    with pytest.raises(InvalidJobGraph, match=r"f: spark\.pool: 'job' is a Spark of a host, and every vertex runs on an engine elsewhere"):
        parse_job_graph(document, "f")
    document["vertices"][2]["engine"] = "local"
    assert parse_job_graph(document, "f").spark == SparkPool("job")


@pytest.mark.parametrize("parameters", ["{", "[]", "5", "null", ""])
def test_parameters_of_an_avro_graph_must_be_an_object(parameters: str) -> None:
    graph = parse_job_graph(_graph(), "f")
    graph.vertices[0].parameters_json = parameters
    with pytest.raises(InvalidJobGraph, match="parameters"):
        parse_job_graph(to_document(graph), "f")


@pytest.mark.parametrize(
    ("job_id", "valid"),
    [
        ("a", True),
        ("A-1.b_c", True),
        ("x" * 128, True),
        ("", False),
        ("x" * 129, False),
        ("-a", False),
        ("a/b", False),
        ("..", False),
        ("a\n", False),
        ("ä", False),
    ],
)
def test_job_ids_are_safe_as_names_of_folders(job_id: str, valid: bool) -> None:  # noqa: FBT001
    assert is_valid_job_id(job_id) == valid


def test_a_key_that_its_restart_strategy_does_not_have_is_refused() -> None:
    document = {"name": "j", "vertices": [{"id": "a", "sql": "SELECT 1"}], "restart_strategy": {"type": "failure-rate", "multiplier": 2.0}}
    with pytest.raises(
        InvalidJobGraph, match="unknown key of restart_strategy failure-rate: 'multiplier'; known: attempts, interval_ms, delay_ms"
    ):
        parse_job_graph(document, "f")


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ({"type": "failure-rate", "attempts": 0}, "attempts 0 of failure-rate is not between 1 and 10000"),
        ({"type": "failure-rate", "attempts": 10_001}, "attempts 10001 of failure-rate"),
        ({"type": "exponential-delay", "delay_ms": 0}, "delay_ms 0 of exponential-delay is not between 1 and max_delay_ms 300000"),
        (
            {"type": "exponential-delay", "delay_ms": 9, "max_delay_ms": 8},
            "delay_ms 9 of exponential-delay is not between 1 and max_delay_ms 8",
        ),
        ({"type": "exponential-delay", "multiplier": float("nan")}, "multiplier: must be a finite number"),
        ({"type": "exponential-delay", "jitter_factor": 1.1}, "jitter_factor: must be at most"),
        ({"type": "none", "attempts": 1}, "unknown key of restart_strategy none: 'attempts'; known: no keys"),
    ],
)
def test_a_restart_strategy_that_makes_no_sense_is_refused(strategy: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(said)):
        parse_job_graph(_graph(restart_strategy=strategy), "f")


def test_what_a_graph_leaves_at_its_default_is_not_in_its_digest() -> None:
    """A job that a client submits again is the same job, also when a later version knows more fields."""
    fixed = parse_job_graph({"name": "j", "vertices": [{"id": "a", "sql": "SELECT 1"}], "restart_strategy": {"type": "fixed-delay"}}, "f")
    document = {
        "name": "j",
        "vertices": [{"vertex_id": "a", "task_type": "SQL", "task": "SELECT 1"}],
        "edges": [],
        "restart_strategy": {"strategy_type": "FIXED_DELAY", "attempts": 1, "delay_ms": 1_000},
    }
    assert graph_digest(fixed) == hashlib.sha256(canonical_json(document).encode()).hexdigest()


def test_whatever_a_graph_says_is_in_its_digest() -> None:
    strategies = [{"type": "exponential-delay", "multiplier": multiplier} for multiplier in (2.0, 3.0)]
    graphs = [_graph(), _graph(scheduler="adaptive"), *(_graph(restart_strategy=strategy) for strategy in strategies)]
    assert len({graph_digest(parse_job_graph(document, "f")) for document in graphs}) == len(graphs)


@pytest.mark.parametrize("scheduler", ["cluster-default", "default", "adaptive"])
def test_every_scheduler_passes_through_its_record_unchanged(scheduler: str) -> None:
    parsed = parse_job_graph(_graph(scheduler=scheduler), "f")
    assert parsed.scheduler.lower().replace("_", "-") == scheduler
    assert parse_job_graph(to_document(parsed), "f") == parsed


def test_a_scheduler_that_there_is_not_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidJobGraph, match="f: scheduler: must be 'cluster-default', 'default' or 'adaptive'"):
        parse_job_graph(_graph(scheduler="clever"), "f")


@pytest.mark.parametrize("strategy_type", ["none", "fixed-delay", "exponential-delay", "failure-rate", "cluster-default"])
def test_every_restart_strategy_passes_through_its_record_unchanged(strategy_type: str) -> None:
    parsed = parse_job_graph({"name": "j", "vertices": [{"id": "a", "sql": "SELECT 1"}], "restart_strategy": {"type": strategy_type}}, "f")
    assert parse_job_graph(to_document(parsed), "f") == parsed


def _in_groups(*members: tuple[str, str | None, dict[str, Any] | None]) -> dict[str, Any]:
    vertices = []
    for vertex_id, group, resources in members:
        vertex: dict[str, Any] = {"id": vertex_id, "python": "m:f"}
        vertices.append(vertex | ({"slot_sharing_group": group} if group else {}) | ({"resources": resources} if resources else {}))
    return {"name": "j", "vertices": vertices}


def test_a_slot_sharing_group_passes_through_its_record_unchanged_and_is_part_of_the_digest() -> None:
    parsed = parse_job_graph(_in_groups(("a", "g", None), ("b", "g", None), ("c", None, None)), "f")
    assert [vertex.slot_sharing_group for vertex in parsed.vertices] == ["g", "g", None]
    assert parse_job_graph(to_document(parsed), "f") == parsed
    apart = parse_job_graph(_in_groups(("a", "g", None), ("b", "h", None), ("c", None, None)), "f")
    alone = parse_job_graph(_in_groups(("a", None, None), ("b", None, None), ("c", None, None)), "f")
    assert len({graph_digest(each) for each in (parsed, apart, alone)}) == 3


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("", "vertices[0].slot_sharing_group: must match"),
        ("no group", "vertices[0].slot_sharing_group: must match"),
        (7, "vertices[0].slot_sharing_group: must be a text"),
        (["g"], "vertices[0].slot_sharing_group: must be a text"),
        ("g" * 65, "vertices[0].slot_sharing_group: must match"),
    ],
)
def test_what_names_no_slot_sharing_group_is_refused(group: Any, said: str) -> None:
    document = {"name": "j", "vertices": [{"id": "a", "python": "m:f", "slot_sharing_group": group}]}
    with pytest.raises(InvalidJobGraph, match=re.escape(said)):
        parse_job_graph(document, "f")


def test_in_a_slot_sharing_group_either_all_vertices_name_resources_or_none_does() -> None:
    document = _in_groups(("a", "g", {"cpu_cores": 1}), ("x", "other", None), ("b", "g", None))
    said = "slot_sharing_group 'g': vertex 'a' has resources and vertex 'b' has not"
    with pytest.raises(InvalidJobGraph, match=said):
        parse_job_graph(document, "f")
    nothing = _in_groups(("a", "g", {"cpu_cores": 1}), ("b", "g", {"cpu_cores": 0}))
    with pytest.raises(InvalidJobGraph, match=said):
        parse_job_graph(nothing, "f")


def test_a_slot_sharing_group_that_asks_for_more_than_can_be_written_down_is_refused() -> None:
    most = 2**62
    with pytest.raises(InvalidJobGraph, match="slot_sharing_group 'g': what its vertices ask for together cannot be: managed"):
        parse_job_graph(_in_groups(("a", "g", {"managed_memory": most}), ("b", "g", {"managed_memory": 1})), "f")
    named = [{"extended_resources": {f"r{n}": 1 for n in range(first, first + 10)}} for first in (0, 10)]
    with pytest.raises(InvalidJobGraph, match="20 extended resources are more than the 16"):
        parse_job_graph(_in_groups(("a", "g", named[0]), ("b", "g", named[1])), "f")


def test_a_slot_sharing_group_counts_as_one_of_the_different_resources_of_a_job() -> None:
    together = [(f"v{n}", "g", {"cpu_cores": n + 1}) for n in range(40)]
    parse_job_graph(_in_groups(*together), "f")
    with pytest.raises(InvalidJobGraph, match="ask for 17 different resources"):
        parse_job_graph(_in_groups(*together, *[(f"w{n}", None, {"managed_memory": n + 1}) for n in range(16)]), "f")


def _stream(**more: Any) -> dict[str, Any]:
    source = {"kafka": {"topic": "orders"}, "format": "json", "schema": "id BIGINT", "event_time": "at", "watermark_delay_ms": 5}
    more_sources = {
        "ticks": {"rate": {"rows_per_second": 3}},
        "own": {"python": "m:f"},
        "lines": {"files": {"path": "/x"}, "format": "text"},
    }
    stream = {"sources": {"orders": source, **more_sources}, "sink": {"kafka": {"topic": "out", "key": ["id"]}, "format": "json"}}
    return _vertex(stream=stream | more)


@pytest.mark.parametrize("mode", ["append", "update"])
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_stream_merges_into_a_table_by_one_subtask(mode: str, table_format: str) -> None:
    place = ICEBERG if table_format == "iceberg" else DELTA
    sink = {"table": place | {"mode": "merge", "keys": ["id"], "latest_by": "at", "delete_when": "gone"}, "format": table_format}
    vertex = _stream(sink=sink, sources={"ticks": {"rate": {"rows_per_second": 3}}}, output_mode=mode)
    graph = parse_job_graph(_graph(vertices=[vertex]), "f")
    assert to_document(graph)["vertices"][0]["stream"]["sink"] == sink
    with pytest.raises(InvalidJobGraph, match=re.escape("stream.sink.table.mode: 2 subtasks that merge at the same time let each other")):
        parse_job_graph(_graph(vertices=[vertex | {"parallelism": 2}]), "f")


def test_a_stream_says_the_same_as_a_document_and_as_a_record() -> None:
    checkpointing = {"interval_ms": 500, "retention": "retain-on-cancellation"}
    graph = parse_job_graph(_graph(vertices=[_stream(settings={"spark.a": True})], checkpointing=checkpointing), "f")
    assert check_job_graph(to_document(graph)) == graph
    assert graph.vertices[0].stream is not None
    assert [source.location for source in graph.vertices[0].stream.sources] == ["orders", "3", "m:f", "/x"]


@pytest.mark.parametrize(
    ("table", "location"),
    [
        *[({"path": path}, path) for path in ("/data/sales", "s3a://bucket/sales of a day", "file:/data/sales")],
        ({"catalog": "lake", "name": "shop.of_europe.sales"}, "lake.shop.of_europe.sales"),
    ],
)
def test_a_table_that_is_written_says_the_same_as_a_document_and_as_a_record(table: dict[str, Any], location: str) -> None:
    table_format = "iceberg" if "catalog" in table else "delta"
    sink = {"table": {**table, "partition_by": ["day"]}, "format": table_format}
    graph = parse_job_graph(_graph(vertices=[_stream(sink=sink) | {"parallelism": 2}]), "f")
    assert check_job_graph(to_document(graph)) == graph
    assert graph.vertices[0].stream is not None
    [record] = graph.vertices[0].stream.sinks
    stream_format = StreamFormat(table_format.upper())
    assert (record.connector, record.location, record.stream_format) == (StreamConnector.TABLE, location, stream_format)
    assert sink_document(record).model_dump(exclude_defaults=True) == sink


@pytest.mark.parametrize(
    ("parallelism", "table"),
    [
        (4, {}),
        (1, {"mode": "overwrite"}),
        (1, {"mode": "overwrite-partitions", "partition_by": ["day"]}),
        (1, {"mode": "merge", "keys": ["id", "day"]}),
        (4, {"catalog": "lake", "name": "shop.of_europe.sales", "partition_by": ["day"]}),
    ],
)
def test_a_sink_of_a_batch_vertex_says_the_same_as_a_document_and_as_a_record(parallelism: int, table: dict[str, Any]) -> None:
    in_catalog = "catalog" in table
    sink = {"table": table if in_catalog else {"path": "/data/sales", **table}, "format": "iceberg" if in_catalog else "delta"}
    place = "lake.shop.of_europe.sales" if in_catalog else "/data/sales"
    graph = parse_job_graph(_graph(vertices=[_vertex(sink=sink, parallelism=parallelism)]), "f")
    [vertex] = graph.vertices
    assert check_job_graph(to_document(graph)) == graph
    assert to_document(graph)["vertices"][0]["sink"] == sink
    assert vertex.sink is not None
    assert (vertex.sink.connector, vertex.sink.location, vertex.keeps_parallelism) == (StreamConnector.TABLE, place, True)
    assert batch_table_of(vertex.sink).model_dump(exclude_defaults=True) == sink["table"]


ICEBERG = {"catalog": "lake", "name": "shop.sales"}
DELTA = {"path": "/data/sales"}
MERGED = DELTA | {"mode": "merge", "keys": ["id"]}
NAMED_TWICE = [
    (columns, f"column '{columns[-1]}' is there twice, and upper and lower case are the same to Spark")
    for columns in (["k", "k"], ["k", "K"], ["k", "day", "K"])
]


@pytest.mark.parametrize(
    ("sink", "more", "says"),
    [
        ({"kafka": {"topic": "t"}, "format": "json"}, {}, ".sink: kafka: it is for streams; the sink of a batch task is a 'table'"),
        ({"table": {"path": "/x"}}, {}, ".sink.format: it is missing"),
        ({"table": {"path": "x"}, "format": "delta"}, {}, ".sink.table: invalid path: 'x'; give an absolute path or a URL"),
        ({"table": {"path": "/x", "mode": "upsert"}, "format": "delta"}, {}, ".sink.table.mode: must be 'append', 'overwrite', "),
        ({"table": {"path": "/x", "mode": "merge"}, "format": "delta"}, {}, ".sink.table: mode: merge needs 'keys', the columns by"),
        ({"table": {"path": "/x", "keys": ["a"]}, "format": "delta"}, {}, ".sink.table: keys: it goes with mode: merge, not with append"),
        (
            {"table": {"path": "/x", "mode": "overwrite-partitions"}, "format": "delta"},
            {},
            ".sink.table: mode: overwrite-partitions needs 'partition_by'",
        ),
        *[
            ({"table": table | {key: columns, "mode": mode}, "format": table_format}, {}, f".sink.table.{key}: {says}")
            for columns, says in NAMED_TWICE
            for table, table_format, key, mode in (
                ({"path": "/x"}, "delta", "partition_by", "append"),
                ({"path": "/x"}, "delta", "keys", "merge"),
                (ICEBERG, "iceberg", "partition_by", "overwrite-partitions"),
            )
        ],
        (
            {"table": {"path": "/x", "mode": "overwrite"}, "format": "delta"},
            {"parallelism": 2},
            ": sink.table.mode: overwrite is one commit of all rows, and each of 2 subtasks has a part of them: give the vertex ",
        ),
        ({"table": {}, "format": "delta"}, {}, ".sink: table.path: it is missing: a table of format delta has a 'path'"),
        ({"table": {"path": "/x", "catalog": "lake"}, "format": "delta"}, {}, ".sink: table.catalog: a table of format delta has a 'path'"),
        ({"table": {"path": "/x", "name": "a.b"}, "format": "delta"}, {}, ".sink: table.name: a table of format delta has a 'path', or a"),
        (
            {"table": {"catalog": "c", "name": "a.b"}, "format": "delta"},
            {},
            ".sink: table.catalog: a table of format delta has a 'path', or",
        ),
        ({"table": {"name": "sales"}, "format": "delta"}, {}, ".sink.table: invalid name: 'sales'; give a namespace and a table"),
        ({"table": {"catalog": "lake"}, "format": "iceberg"}, {}, ".sink: table.name: it is missing: a table of format iceberg has a 'cat"),
        ({"table": ICEBERG | {"path": "/x"}, "format": "iceberg"}, {}, ".sink: table.path: a table of format iceberg has a 'catalog', and"),
        ({"table": ICEBERG | {"name": "sales"}, "format": "iceberg"}, {}, ".sink.table: invalid name: 'sales'; give a namespace and a tab"),
        ({"table": ICEBERG | {"catalog": "a.b"}, "format": "iceberg"}, {}, ".sink.table.catalog: must match"),
        ({"table": ICEBERG | {"mode": "merge"}, "format": "iceberg"}, {}, ".sink.table: mode: merge needs 'keys'"),
        ({"table": ICEBERG | {"mode": "merge", "keys": ["a"]}, "format": "iceberg"}, {"parallelism": 2}, ": sink.table.mode: merge is one"),
        ({"table": ICEBERG, "format": "hudi"}, {}, ".sink.format: must be 'delta' or 'iceberg'"),
    ],
)
def test_a_sink_of_a_batch_vertex_that_cannot_be_written_is_refused(sink: dict[str, Any], more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(f"f: vertices[0]{says}")):
        parse_job_graph(_graph(vertices=[_vertex(sink=sink, **more)]), "f")


def test_a_sink_of_a_batch_vertex_goes_neither_with_a_stream_nor_with_another_parallelism() -> None:
    sink = {"table": {"path": "/x"}, "format": "delta"}
    with pytest.raises(InvalidJobGraph, match="sink: it is for a batch task, and the vertex is a stream, whose sink stands under 'stream'"):
        parse_job_graph(_graph(vertices=[_stream() | {"sink": sink}]), "f")
    says = "scheduler: adaptive changes the parallelism of vertices, and each subtask of 'a' writes its part to a sink once: take default"
    with pytest.raises(InvalidJobGraph, match=says):
        parse_job_graph(_graph(vertices=[_vertex(sink=sink)], scheduler="adaptive"), "f")


STREAM = "f: vertices[0].stream"
TOPIC = {"kafka": {"topic": "t"}, "format": "json"}
REGISTRY = {"url": "http://registry:8081", "subject": "orders-value"}


def _avro(schema: Any) -> dict[str, Any]:
    return {"kafka": {"topic": "t"}, "format": "avro", "schema": schema}


def _record(kind: Any, *more: str) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name in ("x", *more)]}


def _lax(**kafka: Any) -> dict[str, Any]:
    return {"kafka": {"topic": "t", "guarantee": "at_least_once"} | kafka, "format": "json"}


def _real_time(**more: Any) -> dict[str, Any]:
    sources = {"a": {"kafka": {"topic": "t"}, "format": "text"}}
    return {"sources": sources, "sink": _lax(), "output_mode": "update", "trigger": {"real_time_ms": 5_000}} | more


def test_a_stream_in_real_time_says_the_same_as_a_document_and_as_a_record() -> None:
    graph = parse_job_graph(_graph(vertices=[_stream(**_real_time())]), "f")
    assert check_job_graph(to_document(graph)) == graph
    stream = graph.vertices[0].stream
    assert stream is not None
    assert (stream.trigger, stream.trigger_interval_ms) == (StreamTrigger.REAL_TIME, 5_000)
    stream.sinks[0].options_json = "{}"
    with pytest.raises(InvalidJobGraph, match=r"needs 'guarantee: at_least_once'"):
        check_job_graph(to_document(graph))


def test_a_stream_with_several_sinks_says_the_same_as_a_document_and_as_a_record() -> None:
    vertex = _stream(sink=None, sinks={"large": TOPIC, "small": TOPIC}) | {"sql": None, "python": "m:f"}
    graph = parse_job_graph(_graph(vertices=[vertex]), "f")
    assert check_job_graph(to_document(graph)) == graph
    assert graph.vertices[0].stream is not None
    assert [sink.name for sink in graph.vertices[0].stream.sinks] == ["large", "small"]
    graph.vertices[0].stream.sinks[1].name = "large"
    with pytest.raises(InvalidJobGraph, match="vertex 'a': stream: two sinks have the same name"):
        to_document(graph)


def test_an_avro_schema_stands_in_the_graph_or_in_a_file_beside_it_or_in_a_registry(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(_record("long")))

    def graph(schema: Any) -> str:
        sources = {"a": _avro(schema), "b": {"kafka": {"topic": "t"}, "format": "avro", "registry": REGISTRY}}
        sink = {"kafka": {"topic": "out"}, "format": "avro", "schema": schema, "registry": REGISTRY}
        parameters = {"format": "avro", "schema": "none.avsc"}
        return json.dumps(_graph(vertices=[_stream(sources=sources, sink=sink) | {"parameters": parameters}]))

    inline = parse_job_graph(graph(_record("long")), "f")
    assert check_job_graph(to_document(inline)) == inline
    in_file = parse_job_graph(graph("orders.avsc"), "f", tmp_path)
    assert in_file.vertices[0].stream is not None
    assert [json.loads(source.row_schema or "0") for source in in_file.vertices[0].stream.sources] == [_record("long"), 0]
    assert json.loads(in_file.vertices[0].stream.sinks[0].row_schema) == _record("long")
    assert in_file.vertices[0].parameters_json == inline.vertices[0].parameters_json
    with pytest.raises(InvalidJobGraph, match=r"f: vertices\[0\].stream.sources.a.schema: .*/other.avsc: No such file"):
        parse_job_graph(graph("other.avsc"), "f", tmp_path)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sources": {}}, f"{STREAM}.sources: the stream needs a source, or an edge from another stream"),
        ({"sources": {"a b": {"rate": {"rows_per_second": 1}}}}, f"{STREAM}.sources.a b: must match"),
        (
            {"sources": {"a": {}}},
            f"{STREAM}.sources.a: exactly one of 'kafka', 'files', 'table', 'rate' and 'python' says what a source is",
        ),
        ({"sources": {"a": {"rate": {"rows_per_second": 0}}}}, f"{STREAM}.sources.a.rate.rows_per_second: must be at least"),
        ({"sources": {"a": {"rate": {"rows_per_second": 1}, "format": "json"}}}, f"{STREAM}.sources.a: rate has no 'format'"),
        (
            {"sources": {"a": {"kafka": {"topic": "t"}, "format": "jason", "schema": "x INT"}}},
            f"{STREAM}.sources.a: kafka has an unknown format: 'jason'; known: json, avro, text, bytes (did you mean 'json'?)",
        ),
        ({"sources": {"a": {"kafka": {"topic": "t"}, "format": "json"}}}, f"{STREAM}.sources.a: format json needs a 'schema'"),
        (
            {"sources": {"a": {"kafka": {"topic": "t", "metadata": True}, "format": "json", "schema": "id INT, `Timestamp` TIMESTAMP"}}},
            f"{STREAM}.sources.a: schema: the name is taken: 'Timestamp' is a column that 'metadata: true' adds",
        ),
        (
            {"sources": {"a": {"kafka": {"topic": "t", "bad_records": "column"}, "format": "json", "schema": "_bad_record STRING"}}},
            f"{STREAM}.sources.a: schema: the name is taken: '_bad_record' is a column that 'bad_records: column' adds",
        ),
        (
            {
                "sources": {
                    "a": {
                        "kafka": {"topic": "t", "metadata": True},
                        "format": "avro",
                        "schema": {"type": "record", "name": "r", "fields": [{"name": "key", "type": "string"}]},
                    }
                }
            },
            f"{STREAM}.sources.a: schema: the name is taken: 'key' is a column that 'metadata: true' adds",
        ),
        (
            {"sources": {"a": {"kafka": {"topic": "t"}, "format": "text", "schema": "x INT"}}},
            f"{STREAM}.sources.a: a kafka source of format text has columns of its own, no 'schema'",
        ),
        ({"sources": {"a": {"kafka": {"topic": "a/b"}, "format": "text"}}}, f"{STREAM}.sources.a.kafka.topic: must match"),
        (
            {"sources": {"a": {"rate": {"rows_per_second": 1}, "event_time": "timestamp"}}},
            f"{STREAM}.sources.a: 'event_time' and 'watermark_delay_ms' go together",
        ),
        (
            {"sources": {"a": {"kafka": {"topic": "t"}, "format": "avor"}}},
            f"{STREAM}.sources.a: kafka has an unknown format: 'avor'; known: json, avro, text, bytes (did you mean 'avro'?)",
        ),
        (
            {"sources": {"a": {"kafka": {"topic": "t"}, "format": "avro"}}},
            f"{STREAM}.sources.a: format avro needs a 'schema', an Avro record",
        ),
        ({"sink": {"kafka": {"topic": "t"}, "format": "avro"}}, f"{STREAM}.sink: format avro needs a 'schema', an Avro record"),
        ({"sink": {"kafka": {"topic": "t"}, "format": "json", "schema": "a INT"}}, f"{STREAM}.sink: a sink has the columns of its rows; "),
        ({"sink": {"kafka": {"topic": "t"}, "format": "json", "registry": REGISTRY}}, f"{STREAM}.sink: a 'registry' goes with format avro"),
        (
            {"sink": {"kafka": {"topic": "t"}, "format": "avro", "registry": {"url": "registry:8081", "subject": "s"}}},
            f"{STREAM}.sink.registry.url: must match ^https?://,",
        ),
        (
            {"sink": {"kafka": {"topic": "t"}, "format": "avro", "registry": {"url": "http://r", "subjekt": "s"}}},
            "vertices[0].stream.sink.registry.subjekt: unknown key (did you mean 'subject'?)",
        ),
        ({"sources": {"a": _avro('"string"')}}, f"{STREAM}.sources.a: schema: an Avro record is expected, whose fields are the columns"),
        ({"sources": {"a": _avro("{")}}, f"{STREAM}.sources.a: schema: invalid Avro schema: JSONDecodeError: "),
        ({"sources": {"a": _avro("no.avsc")}}, f"{STREAM}.sources.a: schema: 'no.avsc' is a file, which is read only "),
        ({"sources": {"a": _avro(_record("strng"))}}, f"{STREAM}.sources.a: schema: invalid Avro schema: UnknownType: strng"),
        ({"sources": {"a": _avro(_record(["int", "string"]))}}, "schema: invalid field 'x': a union of int, string cannot be a column"),
        ({"sources": {"a": _avro(_record(["null", "R"]))}}, "schema: field 'x': R has no columns here; supported are boolean, int, long"),
        ({"sources": {"a": _avro(_record("null"))}}, "schema: field 'x': null has no columns here; supported are boolean"),
        (
            {"sources": {"a": _avro(_record({"type": "array", "items": {"type": "long", "logicalType": "time-micros"}}))}},
            "schema: field 'x[]': long time-micros has no columns here; supported are ",
        ),
        (
            {"sources": {"a": _avro(_record({"type": "bytes", "logicalType": "decimal", "precision": 39}))}},
            "schema: field 'x': a decimal has a precision of 1 to 38",
        ),
        (
            {"sources": {"a": _avro(_record("int", "X"))}},
            "schema: field 'X' is there twice, and upper and lower case are the same to Spark",
        ),
        ({"sinks": {"a": TOPIC}}, f"{STREAM}: one of 'sink' and 'sinks' says where the rows go, not both"),
        ({"sink": None}, f"{STREAM}: neither 'sink' nor 'sinks' says where the rows go, nor an edge to another stream"),
        ({"sink": None, "sinks": {}}, f"{STREAM}.sinks: must have at least 1 item"),
        ({"sink": None, "sinkss": {"a": TOPIC}}, f"{STREAM}.sinkss: unknown key (did you mean 'sinks'?)"),
        (
            {"sink": None, "sinks": {"a": TOPIC, "b": {"files": {"path": "/x"}, "format": "csv"}}},
            f"{STREAM}: sinks.b: no topic of Kafka, and only topics are written in one transaction",
        ),
        (
            {"sink": None, "sinks": {"a": TOPIC, "b": {"kafka": {"topic": "u", "bootstrap_servers": "other:9092"}, "format": "json"}}},
            f"{STREAM}: sinks: they name different 'bootstrap_servers', and a transaction is within one Kafka",
        ),
        (
            {"sink": None, "sinks": {"a": TOPIC, "b": TOPIC}},
            "f: vertices[0]: a statement has one output, 'default', and none called 'a'; a 'python' function",
        ),
        ({"sink": {}}, f"{STREAM}.sink: exactly one of 'kafka', 'files', 'table' and 'python' says what a sink is"),
        (
            {"sources": {"a": {"table": ICEBERG, "format": "iceberg"}}},
            f"{STREAM}.sources.a: table has an unknown format: 'iceberg'; known: delta",
        ),
        (
            {"sources": {"a": {"table": ICEBERG, "format": "delta"}}},
            f"{STREAM}.sources.a: table.catalog: a table of format delta has a 'path', or a 'name'",
        ),
        (
            {"sources": {"a": {"table": DELTA | {"version": 1}, "format": "delta"}}},
            f"{STREAM}.sources.a.table.version: unknown key here: another part of a document has it",
        ),
        (
            {
                "sources": {
                    "a": {"table": DELTA | {"max_files_per_trigger": 1}, "format": "delta", "event_time": "t", "watermark_delay_ms": 1}
                }
            },
            f"{STREAM}.sources.a: table.max_files_per_trigger: with 'event_time' the rows that are there are one batch",
        ),
        (
            {"sources": {"a": {"table": DELTA, "format": "delta", "schema": "id BIGINT"}}},
            f"{STREAM}.sources.a: a table source of format delta has columns of its own, no 'schema'",
        ),
        ({"sink": {"table": {"path": "/x"}}}, f"{STREAM}.sink: table needs a 'format': delta, iceberg"),
        ({"sink": {"table": ICEBERG, "format": "hudi"}}, f"{STREAM}.sink: table has an unknown format: 'hudi'; known: delta, iceberg"),
        (
            {"sink": {"table": {"path": "/x"}, "format": "iceberg"}},
            f"{STREAM}.sink: table.catalog: it is missing: a table of format ice",
        ),
        (
            {"sink": {"table": ICEBERG | {"path": "/x"}, "format": "iceberg"}},
            f"{STREAM}.sink: table.path: a table of format iceberg has",
        ),
        (
            {"sink": {"table": ICEBERG | {"mode": "overwrite"}, "format": "iceberg"}},
            f"{STREAM}.sink.table.mode: must be 'append' or 'merge'",
        ),
        (
            {"sink": {"table": DELTA | {"mode": "merge"}, "format": "delta"}},
            f"{STREAM}.sink.table: mode: merge needs 'keys', the columns by which a row replaces the one that is there",
        ),
        *[
            (
                {"sink": {"table": DELTA | {key: value}, "format": "delta"}},
                f"{STREAM}.sink.table: {key}: it goes with mode: merge, not with append",
            )
            for key, value in (("keys", ["id"]), ("latest_by", "at"), ("delete_when", "gone"))
        ],
        *[
            (
                {"sink": {"table": MERGED | {"delete_when": column, **more}, "format": "delta"}},
                f"{STREAM}.sink.table: delete_when: '{column}' stands in '{key}' too, and the table has no such column: name another",
            )
            for column, more, key in (
                ("ID", {}, "keys"),
                ("at", {"latest_by": "At"}, "latest_by"),
                ("day", {"partition_by": ["day"]}, "partition_by"),
            )
        ],
        (
            {"sink": {"table": MERGED | {"latest_by": "ID"}, "format": "delta"}},
            f"{STREAM}.sink.table: latest_by: 'ID' is one of 'keys', in which rows are the same",
        ),
        (
            {"sink": {"table": MERGED, "format": "delta"}, "output_mode": "complete"},
            f"{STREAM}: a table sink that merges can append or update, not complete: it takes what has changed",
        ),
        (
            {"sink": {"table": ICEBERG, "format": "iceberg"}, "output_mode": "complete"},
            f"{STREAM}: a table sink can only append, not complete: its rows would be there in each of their versions",
        ),
        (
            {"sink": {"table": {"path": "/x", "partitioned_by": ["day"]}, "format": "delta"}},
            f"{STREAM}.sink.table.partitioned_by: unknown key (did you mean 'partition_by'?)",
        ),
        *[
            ({"sink": {kind: {"path": "/x", "partition_by": columns}, "format": form}}, f"{STREAM}.sink.{kind}.partition_by: {says}")
            for columns, says in NAMED_TWICE
            for kind, form in (("table", "delta"), ("files", "parquet"))
        ],
        *[
            (
                {"sink": {"table": {"path": path}, "format": "delta"}},
                f"{STREAM}.sink.table: invalid path: '{path}'; give an absolute path or a URL such as s3a://bucket/sales, without ",
            )
            for path in ("sales", "./sales", "/sales/*", "/sa`les", "/sales ", "/", "C:\\sales")
        ],
        (
            {"sink": {"table": {"path": "/x"}, "format": "delta", "schema": "id BIGINT"}},
            f"{STREAM}.sink: a sink has the columns of its rows; 'schema' goes with format avro",
        ),
        (
            {"sink": {"table": {"path": "/x"}, "format": "delta"}, "output_mode": "update"},
            f"{STREAM}: a table sink can only append, not update: its rows would be there in each of their versions",
        ),
        (
            {"sink": None, "sinks": {"a": TOPIC, "b": {"table": {"path": "/x"}, "format": "delta"}}},
            f"{STREAM}: sinks.b: no topic of Kafka, and only topics are written in one transaction",
        ),
        ({"sink": {"kafka": {"topic": "t"}}}, f"{STREAM}.sink: kafka needs a 'format': json, avro, text, bytes"),
        ({"sink": {"python": "no function"}}, f"{STREAM}.sink.python: must match"),
        ({"trigger": {}}, f"{STREAM}.trigger: exactly one of 'processing_time_ms', 'available_now: true' and 'real_time_ms' says when a b"),
        ({"trigger": {"available_now": False}}, f"{STREAM}.trigger.available_now: must be true"),
        ({"output_mode": "upsert"}, f"{STREAM}.output_mode: must be 'append', 'update' or 'complete'"),
        ({"settings": {"x" * 10_000: 1}}, f"{STREAM}: settings: unknown setting of Spark: '{'x' * 40}'; its settings begin with 'spark.'"),
        ({"settings": {f"spark.{'x' * 251}": 1}}, f"{STREAM}: settings: a key has 257 characters; at most 256 may be"),
        ({"settings": {"shuffle": 1}}, f"{STREAM}: settings: unknown setting of Spark: 'shuffle'; its settings begin with 'spark.'"),
        (
            {"settings": {"spark.sql.streaming.checkpointLocation": "/x"}},
            f"{STREAM}: settings: 'spark.sql.streaming.checkpointLocation' cannot be set: ",
        ),
        (
            {"sink": {"files": {"path": "/x"}, "format": "csv"}, "output_mode": "update"},
            f"{STREAM}: a files sink can only append, not update",
        ),
        ({"sink": _lax(transaction_timeout_ms=5_000)}, f"{STREAM}.sink.kafka: 'transaction_timeout_ms' goes with guarantee exactly_once"),
        ({"sink": _lax(guarantee="at_least_onse")}, f"{STREAM}.sink.kafka.guarantee: must be 'exactly_once' or 'at_least_once'"),
        ({"sink": None, "sinks": {"a": TOPIC, "b": _lax()}}, f"{STREAM}: sinks.b.kafka.guarantee: several sinks are written in one trans"),
        ({"trigger": {"real_time_ms": 4_999}}, f"{STREAM}.trigger.real_time_ms: must be at least 5000"),
        (
            {"trigger": {"realtime_ms": 5_000}},
            f"{STREAM}.trigger.realtime_ms: unknown key (did you mean 'real_time_ms'?)",
        ),
        ({"trigger": {"real_time_ms": 5_000, "processing_time_ms": 0}}, f"{STREAM}.trigger: exactly one of 'processing_time_ms', "),
        (_real_time(sink=TOPIC), f"{STREAM}: sink.kafka.guarantee: with trigger real_time_ms Spark writes rows before their batch ends"),
        (_real_time(sink={"python": "m:f"}), f"{STREAM}: sink: with trigger real_time_ms Spark writes rows before their batch ends"),
        (_real_time(sink=None, sinks={"a": TOPIC}), f"{STREAM}: sinks: with trigger real_time_ms Spark writes rows before their"),
        (_real_time(output_mode="append"), f"{STREAM}: output_mode: trigger real_time_ms needs update, not append"),
        (
            _real_time(sink=_lax() | {"format": "avro", "registry": REGISTRY}),
            f"{STREAM}: sink.format: avro is decoded and encoded by Arrow functions, which Spark refuses",
        ),
        (_real_time(sources={"a": _avro(_record("int"))}), f"{STREAM}: sources.a.format: avro is decoded and encoded by Arrow functions"),
        (
            _real_time(sources={"a": {"rate": {"rows_per_second": 1}}}),
            f"{STREAM}: sources.a.rate: trigger real_time_ms reads Kafka, not rate",
        ),
        (
            _real_time(sources={"a": {"files": {"path": "/x"}, "format": "text"}}),
            f"{STREAM}: sources.a.files: trigger real_time_ms reads Kafka, not files",
        ),
        (
            _real_time(sources={"a": {"kafka": {"topic": "t", "max_offsets_per_trigger": 1_000_000}, "format": "text"}}),
            f"{STREAM}: sources.a.kafka.max_offsets_per_trigger: a batch of trigger real_time_ms ends with its time",
        ),
        ({"triger": {}}, f"{STREAM}.triger: unknown key (did you mean 'trigger'?)"),
    ],
)
def test_a_stream_that_cannot_run_is_refused_with_its_place(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(says)):
        parse_job_graph(_graph(vertices=[_stream(**more)]), "f")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"edges": _edges(("a", "b"))}, "f: edges[0]: 'a' is a stream and 'b' is not: only another stream can read its rows"),
        ({"edges": _edges(("b", "a"), name="orders")}, "f: edges[0]: the stream 'a' has a source of that name already"),
        ({"scheduler": "adaptive"}, "f: scheduler: adaptive changes the parallelism of vertices, and a stream such as 'a' keeps state"),
    ],
)
def test_a_stream_among_other_vertices_has_its_rules(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(says)):
        parse_job_graph(_graph(vertices=[_stream(), _vertex("b")], **more), "f")


def _late(written: Any, *, time: bool = True) -> dict[str, Any]:
    source = {"kafka": {"topic": "orders"}, "format": "json", "schema": "id BIGINT, at TIMESTAMP", "late_rows": written}
    return source | ({"event_time": "at", "watermark_delay_ms": 5} if time else {})


def test_late_rows_go_to_an_output_of_any_stream_and_their_document_is_what_it_was() -> None:
    written = {"output": "late", "window_ms": 600_000, "slide_ms": 60_000, "start_ms": 5}
    sinks = {"default": TOPIC, "late": TOPIC, "later": TOPIC}
    sources = {"a": _late("later"), "b": _late(written)}
    in_sql = {**_stream(sources=sources, sink=None, sinks=sinks), "python": None, "sql": "SELECT * FROM a"}
    parsed = parse_job_graph(_graph(vertices=[in_sql]), "f")
    again = to_document(parsed)
    assert again["vertices"][0]["stream"]["sources"]["b"]["late_rows"] == written
    assert again["vertices"][0]["stream"]["sources"]["a"]["late_rows"] == {"output": "later"}
    assert parse_job_graph(again, "f") == parsed


@pytest.mark.parametrize(
    ("written", "more", "says"),
    [
        ("default", {}, f"{STREAM}.sources.a.late_rows: output: 'default' is what the task returns"),
        ({"output": "late", "window_ms": 5, "session_gap_ms": 5}, {}, "late_rows: 'window_ms' and 'session_gap_ms' exclude each other"),
        ({"output": "late", "window_ms": 5, "slide_ms": 6}, {}, "late_rows: 'slide_ms' goes with a 'window_ms' that is not shorter"),
        (
            {"output": "late", "window_ms": 5, "start_ms": 5},
            {},
            "late_rows: 'start_ms' goes with windows that begin further apart than that",
        ),
        ({"output": "late", "start_ms": 5}, {}, "late_rows: 'start_ms' goes with windows that begin further apart than that"),
        ({"output": "late", "slide_ms": 6}, {}, "late_rows: 'slide_ms' goes with a 'window_ms' that is not shorter"),
        ({"output": "late", "window_ms": 0}, {}, "late_rows.window_ms: must be at least 1"),
        ({"window_ms": 5}, {}, "late_rows.output: it is missing"),
        (["late"], {}, "late_rows: must be the name of an output, or a mapping with it, not a list"),
        (
            "late",
            {"sinks": {"default": TOPIC}},
            "sources.a.late_rows: output 'late' goes nowhere; name a topic for it with 'sinks: ",
        ),
        ("late", {"sinks": {"late": TOPIC}}, f"{STREAM}: only late rows go anywhere: name a sink, or an edge, for what the task returns"),
        (
            "late",
            {"sources": {"a": _late("late"), "b": _late("late")}},
            f"sources.b.late_rows: {STREAM[3:]}.sources.a.late_rows has the same output, and their rows may have different columns",
        ),
        (
            "late",
            {"sources": {"a": _late("late", time=False)}},
            "sources.a: 'late_rows' needs 'event_time' and 'watermark_delay_ms'",
        ),
        (
            "late",
            {"output_mode": "complete"},
            "sources.a.late_rows: with output_mode complete Spark drops no row: late ones count like any other",
        ),
    ],
)
def test_late_rows_that_cannot_be_told_or_go_nowhere_are_refused(written: Any, more: dict[str, Any], says: str) -> None:
    stream = {"sources": {"a": _late(written)}, "sink": None, "sinks": {"default": TOPIC, "late": TOPIC}}
    with pytest.raises(InvalidJobGraph, match=re.escape(says)):
        parse_job_graph(_graph(vertices=[_stream(**stream | more)]), "f")


def test_sources_of_a_statement_are_told_apart_whatever_their_case() -> None:
    source = {"rate": {"rows_per_second": 1}}
    in_sql = {**_stream(sources={"a": source, "A": source}), "python": None, "sql": "SELECT * FROM a"}
    with pytest.raises(InvalidJobGraph, match=r"f: vertices\[0\]: stream.sources: two are views of one name in SQL"):
        parse_job_graph(_graph(vertices=[in_sql]), "f")
    alone = {**in_sql, "stream": {**in_sql["stream"], "sources": {"a": source}}}
    with pytest.raises(InvalidJobGraph, match=r"f: edges\[0\]: the stream .* has a source of that name already"):
        parse_job_graph(_graph(vertices=[alone, _vertex("b")], edges=_edges(("b", alone["id"]), name="A")), "f")
    in_python = {**in_sql, "python": "m:f", "sql": None}
    assert len(parse_job_graph(_graph(vertices=[in_python]), "f").vertices) == 1


def test_a_directory_is_written_by_one_subtask() -> None:
    vertex = _stream(sink={"files": {"path": "/x"}, "format": "csv"}) | {"parallelism": 2}
    with pytest.raises(InvalidJobGraph, match=re.escape("f: vertices[0]: a files sink is written by one subtask, not by 2")):
        parse_job_graph(_graph(vertices=[vertex]), "f")


def test_checkpoints_are_for_streams() -> None:
    with pytest.raises(InvalidJobGraph, match="'checkpointing' is for streams, and the graph has no streams"):
        parse_job_graph(_graph(checkpointing={}), "f")


@pytest.mark.parametrize("field", ["settings_json", "options_json"])
def test_a_record_of_a_stream_whose_options_are_no_object_is_refused_by_its_vertex(field: str) -> None:
    graph = parse_job_graph(_graph(vertices=[_stream()]), "f")
    stream = graph.vertices[0].stream
    assert stream is not None
    setattr(stream if field == "settings_json" else stream.sinks[0], field, "[]")
    with pytest.raises(InvalidJobGraph, match=f"vertex 'a': stream: {field} is not a JSON object: "):
        to_document(graph)


ABOUT: dict[str, Any] = {
    "owner": "finance",
    "description": "The revenue of a day.",
    "labels": {"team": "finance", "example.org/tier": "1", "nightly": ""},
    "links": {"runbook": "https://wiki.example.org/revenue?x=1#y", "chat": "http://[::1]:8080/"},
}


def test_what_is_said_about_a_job_is_its_document_and_changes_its_digest() -> None:
    parsed = check_job_graph(_graph(**ABOUT))
    document = to_document(parsed)
    assert {key: document[key] for key in ABOUT} == ABOUT
    assert check_job_graph(document) == parsed
    without = check_job_graph(_graph(owner="", labels={}))
    assert without.about is None
    assert not ABOUT.keys() & to_document(without).keys()
    assert graph_digest(parsed) != graph_digest(without) == graph_digest(check_job_graph(_graph()))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"owner": "x" * 129}, "owner: "),
        ({"owner": ["finance"]}, "owner: must be a text"),
        ({"labels": ["finance"]}, "labels: must be a mapping"),
        ({"labels": {"a b": "c"}}, "labels: invalid name of a label: 'a b'"),
        ({"labels": {"a=b": "c"}}, "labels: invalid name of a label: 'a=b'"),
        ({"labels": {"tier": 1}}, "labels.tier: must be a text"),
        ({"labels": {f"l{number}": "" for number in range(33)}}, "labels: "),
        *[
            ({"links": {"page": url}}, "links.page: must be an address that begins with http:// or https://")
            for url in (
                "javascript:alert(1)",
                "wiki.example.org",
                "//wiki",
                "https://",
                "http://a b/",
                "http://[::1",
                "data:text/html,x",
                "http://a\n/",
            )
        ],
        ({"links": {"": "https://a"}}, "links"),
        *[
            ({"links": {"page": url}}, "links.page: invalid address: it has a user, password, token or key in it, and everybody sees links")
            for url in ("https://u:p4ss@h.org/", "https://h.org/?token=t0k3n", "https://h.org/x?a=1&api_key=k")
        ],
        ({"labels": {"api_token": "t0k3n"}}, "labels: invalid name of a label: 'api_token': it names a secret, and everybody sees labels"),
    ],
)
def test_what_is_said_wrongly_about_a_job_is_refused_with_its_place(said: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobGraph) as raised:
        check_job_graph(_graph(**said))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ((), True),
        (("team",), True),
        (("team=finance", "nightly"), True),
        (("team=",), False),
        (("team=sales",), False),
        (("nightly=",), True),
    ],
)
def test_jobs_are_found_by_their_labels(asked: tuple[str, ...], *, found: bool) -> None:
    assert has_labels(check_job_graph(_graph(**ABOUT)).about, asked) is found
    assert has_labels(None, asked) is not bool(asked)


def _mapped(
    *, load: dict[str, Any] | None = None, edge: dict[str, Any] | None = None, more: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    """Return a graph whose vertex `load` has a subtask for each row of `list`, and which `sum` reads."""
    vertices = [_vertex(id="list"), _vertex(id="rates"), _vertex(id="load") | (load or {}), _vertex(id="sum")]
    edges = [{"from": "list", "to": "load", "ship": "each"}, {"from": "load", "to": "sum"} | (edge or {}), *more]
    return _graph(vertices=vertices, edges=edges)


def test_a_mapped_vertex_says_the_same_as_a_document_and_as_a_record() -> None:
    broadcast = {"from": "rates", "to": "load", "ship": "broadcast"}
    graph = parse_job_graph(_mapped(edge={"schema": "path STRING, bytes BIGINT"}, more=(broadcast,)), "f")
    assert check_job_graph(to_document(graph)) == graph
    assert (graph.edges[0].ship, graph.edges[1].row_schema, graph.edges[1].pipeline) == (
        ShipStrategy.EACH,
        "path STRING, bytes BIGINT",
        None,
    )


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (_mapped(load={"parallelism": 2}), "edges[0].ship: each gives 'load' a subtask for each row, so it has no 'parallelism'"),
        (_mapped(more=({"from": "rates", "to": "load", "ship": "each"},)), "edges[2].ship: 'load' has a subtask for each row of edges[0]"),
        (_mapped(more=({"from": "rates", "to": "load"},)), "edges[2].ship: rebalance would share the rows out over the subtasks of 'load'"),
        (_mapped(edge={"ship": "forward"}), "edges[1].ship: forward needs equal parallelism of both ends, and 'load' has a subtask for"),
        (
            _mapped(load={"sink": {"table": {"path": "/x"}, "format": "delta"}}),
            "edges[0].ship: each may give 'load' another number of subtasks",
        ),
        (_mapped(more=({"from": "rates", "to": "sum", "schema": "a INT"},)), "edges[2].schema: it is for edges from a stream to a stream"),
        (_mapped(load={"stream": _stream()["stream"]}), "edges[0].ship: each is for batch tasks, and 'load' is a stream"),
    ],
)
def test_what_a_mapped_vertex_cannot_be_is_refused(document: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(f"f: {says}")):
        parse_job_graph(document, "f")


def test_a_mapped_vertex_counts_with_as_many_subtasks_as_it_may_have() -> None:
    vertices = [_vertex(id="list"), *[_vertex(id=f"v{n}", max_parallelism=32_768) for n in range(25)]]
    edges = [{"from": "list", "to": f"v{n}", "ship": "each"} for n in range(25)]
    says = (
        "102401 subtasks are more than the 100000 that one job may have, where a vertex with a subtask for each row counts with its 'max_"
    )
    with pytest.raises(InvalidJobGraph, match=says):
        parse_job_graph(_graph(vertices=vertices, edges=edges), "f")
    parse_job_graph(_graph(vertices=vertices[:24], edges=edges[:23]), "f")


def _closed(*closing: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a graph whose vertices `a` and `b` run in their turn, and whose others close it."""
    vertices = [{"id": "a", "sql": "SELECT 1"}, {"id": "b", "sql": "SELECT 1"}, *closing]
    return {"name": "j", "vertices": vertices, "edges": [{"from": "a", "to": "b"}]} | more


def _closing(**more: Any) -> dict[str, Any]:
    return {"id": "end", "sql": "SELECT :job_status", "runs": "always"} | more


@pytest.mark.parametrize("runs", ["on-success", "on-failure", "always"])
def test_a_closing_vertex_says_the_same_as_a_document_and_as_a_record(runs: str) -> None:
    graph = parse_job_graph(_closed(_closing(runs=runs), closing_time_limit="5m"), "f")
    assert parse_job_graph(to_document(graph), "again") == graph
    assert [vertex.is_closing for vertex in graph.vertices] == [False, False, True]
    assert graph.closing_time_limit_ms == 300_000


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (_closed(_closing(runs="at-end")), "vertices[2].runs: must be 'on-success', 'on-failure' or 'always'"),
        (
            _closed(_closing(), edges=[{"from": "a", "to": "end"}]),
            "edges[0]: vertex 'end' runs always, when all others have come to their end, whatever they have left: it has no edges; ",
        ),
        (_closed(_closing(), edges=[{"from": "end", "to": "b"}]), "edges[0]: vertex 'end' runs always, when all others have come to"),
        (_closed(_closing(stream=_stream()["stream"])), "vertices[2]: 'end' is a stream, and a vertex that runs always is a batch task"),
        (
            _closed(_closing(parameters={"failure_type": 1})),
            "vertices[2]: :failure_type is what the statement of 'end' is told of the end of the others: rename the parameter",
        ),
        (
            _closed(_closing(), parameters={"job_status": {"type": "string", "default": "x"}}),
            "vertices[2]: :job_status is what the statement of 'end' is told of the end of the others: rename the parameter",
        ),
        (_closed(closing_time_limit="5m"), "'closing_time_limit' is for closing vertices, and no vertex says when it 'runs': leave it out"),
        (
            _closed(_closing()) | {"vertices": [_closing()], "edges": []},
            "every vertex is a closing vertex: one at least has to run in its turn, without 'runs'",
        ),
    ],
)
def test_what_a_closing_vertex_cannot_be_is_refused(document: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph) as raised:
        parse_job_graph(document, "f")
    assert says in str(raised.value)


def _conditional(when: dict[str, Any], *more: dict[str, Any], edges: tuple[tuple[str, str], ...] = (), **said: Any) -> dict[str, Any]:
    """Return a graph whose vertex `b` has a condition."""
    vertices = [{"id": "a", "python": "m:f"}, {"id": "b", "sql": "SELECT 1", "when": when, **said}, *more]
    return {"name": "j", "vertices": vertices, "edges": [{"from": source, "to": target} for source, target in edges]}


@pytest.mark.parametrize(
    ("when", "condition"),
    [
        ({"rows_of": "a"}, RowCondition(source="a", has_rows=True)),
        ({"no_rows_of": "a.large"}, RowCondition(source="a", output="large", has_rows=False)),
        ({"no_rows_of": "a.default"}, RowCondition(source="a", has_rows=False)),
    ],
)
def test_a_condition_says_the_same_as_a_document_and_as_a_record(when: dict[str, Any], condition: RowCondition) -> None:
    graph = parse_job_graph(_conditional(when), "f")
    assert graph.vertices[1].condition == condition
    assert parse_job_graph(to_document(graph), "again") == graph
    assert graph_digest(graph) != graph_digest(parse_job_graph(_conditional({"rows_of": "a.other"}), "f"))


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (_conditional({"rows_of": "aa"}), "vertices[1].when.rows_of: vertex not found: 'aa' (did you mean 'a'?)"),
        (_conditional({"rows_of": "a b"}), "vertices[1].when.rows_of: must match"),
        (_conditional({}), "vertices[1].when: exactly one of 'rows_of' and 'no_rows_of' says by which output"),
        (_conditional({"rows_of": "a", "no_rows_of": "a"}), "vertices[1].when: exactly one of 'rows_of' and 'no_rows_of' says by which"),
        (_conditional({"rows": "a"}), "vertices[1].when.rows: unknown key (did you mean 'rows_of'?)"),
        (_conditional({"rows_of": "b"}), "vertices[1].when: the graph has a cycle: b -> b"),
        (
            _conditional({"rows_of": "c"}, {"id": "c", "sql": "SELECT 1"}, edges=(("b", "c"),)),
            "vertices[1].when: the graph has a cycle: b -> c -> b",
        ),
        (
            _conditional({"rows_of": "c.large"}, {"id": "c", "sql": "SELECT 1"}),
            "vertices[1].when.rows_of: a statement has one output, 'default', and 'c' none called 'large'",
        ),
        (_conditional({"rows_of": "a"}, stream=_stream()["stream"]), "vertices[1].when: it is for batch tasks, and 'b' is a stream"),
        (
            _conditional({"rows_of": "c"}, _stream() | {"id": "c"}),
            "vertices[1].when.rows_of: 'c' is a stream, whose rows are never complete: name a batch vertex",
        ),
        (
            _conditional({"rows_of": "a"}, {"id": "m", "sql": "SELECT 1"}, _stream() | {"id": "c"}, edges=(("b", "m"), ("m", "c"))),
            "vertices[1].when: 'm' may be skipped, and with it the stream 'c', which always runs: say 'if_skipped' on an edge",
        ),
        (
            _conditional({"rows_of": "a"}, runs="always"),
            "vertices[1].when: vertex 'b' runs always, whatever the others have left: leave one of both out",
        ),
        (
            _conditional({"rows_of": "end"}, {"id": "end", "sql": "SELECT 1", "runs": "always"}),
            "vertices[1].when.rows_of: 'end' runs always, when all others have come to their end: name one that runs before",
        ),
    ],
)
def test_what_a_condition_cannot_be_is_refused(document: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph) as raised:
        parse_job_graph(document, "f")
    assert says in str(raised.value)


def test_an_edge_may_say_what_is_read_when_its_writer_was_skipped() -> None:
    document = _conditional({"rows_of": "a"}, {"id": "c", "sql": "SELECT 1"}) | {"edges": [{"from": "b", "to": "c", "if_skipped": "n INT"}]}
    graph = parse_job_graph(document, "f")
    assert (graph.edges[0].row_schema, graph.edges[0].reads_skipped) == ("n INT", True)
    assert parse_job_graph(to_document(graph), "again") == graph
    stream = document | {"vertices": [*document["vertices"][:2], _stream() | {"id": "c"}]}
    assert parse_job_graph(stream, "f").edges[0].reads_skipped
    for edge, says in (
        ({"schema": "n INT"}, "edges[0]: if_skipped: it says the columns, whether or not there are rows: leave 'schema' out"),
        ({"from": "a"}, "edges[0].if_skipped: 'a' is never skipped, for neither it nor what it reads has a 'when'"),
        ({"if_skipped": ""}, "edges[0].if_skipped: "),
    ):
        with pytest.raises(InvalidJobGraph) as raised:
            parse_job_graph(document | {"edges": [document["edges"][0] | edge]}, "f")
        assert says in str(raised.value)


@pytest.mark.parametrize(
    "version",
    [{}, {"snapshot": 2**63 - 1}, {"as_of": "2026-11-28T00:00:00+00:00"}, {"ref": "audited"}, {"where": "day >= DATE '2026-11-01'"}],
)
def test_a_source_of_a_batch_vertex_says_the_same_as_a_document_and_as_a_record(version: dict[str, Any]) -> None:
    sources = {"sales": {"table": ICEBERG | version, "format": "iceberg"}}
    graph = parse_job_graph(_graph(vertices=[_vertex(sources=sources)]), "f")
    [vertex] = graph.vertices
    assert check_job_graph(to_document(graph)) == graph
    assert to_document(graph)["vertices"][0]["sources"] == sources
    [source] = vertex.sources
    assert (source.name, source.connector, source.location) == ("sales", StreamConnector.TABLE, "lake.shop.sales")
    assert source_table_of(source).model_dump(exclude_defaults=True) == ICEBERG | version
    assert vertex.keeps_parallelism


@pytest.mark.parametrize("version", [{}, {"version": 0}, {"as_of": "2026-11-28T00:00:00+00:00"}, {"where": "day = :day"}])
def test_a_table_of_delta_is_a_source_of_a_batch_vertex(version: dict[str, Any]) -> None:
    sources = {"sales": {"table": DELTA | version, "format": "delta"}}
    replacing = {"sink": {"table": DELTA | {"mode": "overwrite"}, "format": "delta"}} if "version" in version else {}
    graph = parse_job_graph(_graph(vertices=[_vertex(sources=sources) | replacing]), "f")
    [source] = graph.vertices[0].sources
    assert to_document(graph)["vertices"][0]["sources"] == sources
    assert (source.location, source_table_of(source).model_dump(exclude_defaults=True)) == ("/data/sales", DELTA | version)


def test_the_time_as_of_which_a_source_is_read_is_in_utc_where_it_says_no_offset() -> None:
    times = ["2026-11-28 01:00:00+01:00", "2026-11-28T00:00:00"]
    sources = {f"s{n}": {"table": ICEBERG | {"as_of": time}, "format": "iceberg"} for n, time in enumerate(times)}
    read = parse_job_graph(_graph(vertices=[_vertex(sources=sources)]), "f").vertices[0].sources
    assert {source_table_of(source).as_of for source in read} == {"2026-11-28T00:00:00+00:00"}


def test_a_table_of_delta_by_its_name_comes_back_as_it_was_declared() -> None:
    named: dict[str, Any] = {"table": {"name": "shop.sales"}, "format": "delta"}
    stream = _vertex("s", stream={"sources": {"a": named}, "sink": named})
    parsed = parse_job_graph(_graph(vertices=[_vertex("b", sources={"a": named}, sink=named), stream]), "f")
    assert parse_job_graph(to_document(parsed), "f") == parsed
    assert to_document(parsed)["vertices"][0]["sink"]["table"] == {"name": "shop.sales"}
    replaced = {"table": {"name": "spark_catalog.Shop.sales", "mode": "overwrite"}, "format": "delta"}
    with pytest.raises(InvalidJobGraph, match="version"):
        parse_job_graph(_graph(vertices=[_vertex("b", sources={"a": named}, sink=replaced)]), "f")


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        ({"kafka": {"topic": "t"}, "format": "json"}, {}, ".sources.s: kafka: it is for streams; the source of a batch task is a 'table'"),
        ({"table": ICEBERG}, {}, ".sources.s.format: it is missing"),
        ({"table": ICEBERG, "format": "hudi"}, {}, ".sources.s.format: must be 'delta' or 'iceberg'"),
        (
            {"table": {"version": 1}, "format": "delta"},
            {},
            ".sources.s: table.path: it is missing: a table of format delta has a 'path'",
        ),
        (
            {"table": ICEBERG | {"version": 1}, "format": "iceberg"},
            {},
            ".sources.s: table.version: a table of format iceberg is read at snap",
        ),
        (
            {"table": DELTA | {"snapshot": 1}, "format": "delta"},
            {},
            ".sources.s: table.snapshot: a table of format delta is read at version or as",
        ),
        (
            {"table": DELTA | {"version": 1, "as_of": "2026-11-28T00:00:00"}, "format": "delta"},
            {},
            ".sources.s.table: 'version' and 'as_of' exclude each other: a table is read at one of its versions",
        ),
        *[
            (
                {"table": DELTA, "format": "delta"},
                {"sink": {"table": {"path": path, "partition_by": ["day"], "mode": mode}, "format": "delta"}},
                ": sources.s: it is the table that the sink replaces, where rows that others append meanwhile would be lost",
            )
            for mode in ("overwrite", "overwrite-partitions")
            for path in ("/data/sales/", "/data//sales", "/data/./sales", "/data/x/../sales", "file:/data/sales", "file:///data/sales/")
        ],
        ({"table": {"catalog": "lake"}, "format": "iceberg"}, {}, ".sources.s: table.name: it is missing: a table of format iceberg has a"),
        ({"table": ICEBERG | {"partition_by": ["a"]}, "format": "iceberg"}, {}, ".sources.s.table.partition_by: unknown key"),
        (
            {"table": ICEBERG | {"where": " "}, "format": "iceberg"},
            {},
            ".sources.s.table: where: it is empty: give a condition such as day",
        ),
        (
            {"table": ICEBERG | {"snapshot": 2**63}, "format": "iceberg"},
            {},
            ".sources.s.table.snapshot: must be at most 9223372036854775807",
        ),
        ({"table": ICEBERG | {"snapshot": "1"}, "format": "iceberg"}, {}, ".sources.s.table.snapshot: must be a whole number"),
        (
            {"table": ICEBERG | {"as_of": "yesterday"}, "format": "iceberg"},
            {},
            ".sources.s.table.as_of: must be a timestamp, not 'yesterday'",
        ),
        (
            {"table": ICEBERG | {"as_of": "2026-11-28T00:00:00", "ref": "main"}, "format": "iceberg"},
            {},
            ".sources.s.table: 'as_of' and 'ref' exclude each other: a table is read at one of its versions",
        ),
        (
            {"table": ICEBERG, "format": "iceberg"},
            {"parallelism": 2},
            ".sources: each of 2 subtasks reads all rows of a source, and no edge shares other rows out to them: give the vertex parallel",
        ),
    ],
)
def test_a_source_of_a_batch_vertex_that_cannot_be_read_is_refused(source: dict[str, Any], more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(f"f: vertices[0]{says}")):
        parse_job_graph(_graph(vertices=[_vertex(sources={"s": source}, **more)]), "f")


def test_a_source_of_a_batch_vertex_has_a_name_of_its_own() -> None:
    source = {"table": ICEBERG, "format": "iceberg"}
    reader = {"id": "b", "sql": "SELECT * FROM a", "sources": {"A": source}}
    edge = {"from": "a", "to": "b"}
    with pytest.raises(InvalidJobGraph, match=re.escape("edges[0]: vertex 'b' has a source of that name already: give the edge another")):
        parse_job_graph(_graph(vertices=[_vertex(), reader], edges=[edge]), "f")
    assert parse_job_graph(_graph(vertices=[_vertex(), reader], edges=[edge | {"name": "other"}]), "f")
    assert parse_job_graph(_graph(vertices=[_vertex(), reader | {"parallelism": 2}], edges=[edge | {"name": "other"}]), "f")
    says, other = "each of 2 subtasks reads all rows of a source", edge | {"name": "other", "ship": "broadcast"}
    with pytest.raises(InvalidJobGraph, match=says):
        parse_job_graph(_graph(vertices=[_vertex(), reader | {"parallelism": 2}], edges=[other]), "f")
    with pytest.raises(InvalidJobGraph, match="sources: two are views of one name in SQL, where upper and lower case are one"):
        parse_job_graph(_graph(vertices=[{"id": "b", "sql": "SELECT 1", "sources": {"a": source, "A": source}}]), "f")
    with pytest.raises(InvalidJobGraph, match="sources: they are of a batch task, and the vertex is a stream, whose sources stand under"):
        parse_job_graph(_graph(vertices=[_stream() | {"sources": {"s": source}}]), "f")
    with pytest.raises(InvalidJobGraph, match="each subtask of 'a' reads all rows of its sources: take default"):
        parse_job_graph(_graph(vertices=[_vertex(sources={"s": source})], scheduler="adaptive"), "f")
