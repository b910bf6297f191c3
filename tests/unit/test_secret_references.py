"""A job names its secrets, `{secret: NAME}`, at any depth of its parameters; what is no name is refused, and not repeated."""

import json
from typing import Any

import pytest

from eventflink.model.job_graph_document import InvalidJobGraph, check_job_graph, to_document
from eventflink.model.secret_references import MAX_SECRETS, with_secrets
from eventflink.views.job_document import shown

NAMED = {"secret": "db-password"}


def graph_of(**vertex: Any) -> dict[str, Any]:
    return {"name": "test", "vertices": [{"id": "a", "python": "m:f"} | vertex]}


def stream_of(**fields: Any) -> dict[str, Any]:
    source = {"kafka": {"topic": "t"}, "format": "text"}
    return graph_of(stream={"sources": {"s": source}, "sink": {"kafka": {"topic": "u"}, "format": "text"}, **fields})


def test_secrets_are_named_at_any_depth_and_nothing_else_changes() -> None:
    parameters = {"a": NAMED, "b": [1, {"c": [NAMED]}], "oauth": {"secret": {"secret": "id.1"}}, "secret": 7, "d": {"secret": "x", "e": 1}}
    found = with_secrets(parameters, lambda name: f"<{name}>")
    assert found == {
        "a": "<db-password>",
        "b": [1, {"c": ["<db-password>"]}],
        "oauth": {"secret": "<id.1>"},
        "secret": 7,
        "d": {"secret": "x", "e": 1},
    }
    document = graph_of(parameters={"a": NAMED, "b": [NAMED]})
    graph = check_job_graph(document)
    assert json.loads(graph.vertices[0].parameters_json) == {"a": NAMED, "b": [NAMED]}
    assert check_job_graph(to_document(graph)) == graph


@pytest.mark.rule("L8")
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "a b", "ä", "-x", "x" * 129, "a\n"])
def test_what_is_no_name_of_a_secret_is_refused_and_not_repeated(name: str) -> None:
    for document in (graph_of(parameters={"deep": [{"secret": name}]}), stream_of(settings={"spark.my.password": {"secret": name}})):
        with pytest.raises(InvalidJobGraph, match=r"(parameters\.deep\[0\]|settings\.spark\.my\.password): the name of a secret") as caught:
            check_job_graph(document)
        assert len(name) < 3 or name not in str(caught.value)


def test_how_many_secrets_a_vertex_names_is_bounded() -> None:
    many = {f"p{number}": {"secret": f"s{number}"} for number in range(MAX_SECRETS)}
    check_job_graph(graph_of(parameters=many | {"again": {"secret": "s0"}}))
    with pytest.raises(InvalidJobGraph, match=f"at most {MAX_SECRETS}"):
        check_job_graph(graph_of(parameters=many | {"more": {"secret": "s"}}))


def test_a_statement_is_given_no_secret_since_spark_shows_its_arguments() -> None:
    with pytest.raises(InvalidJobGraph, match="a secret is for a 'python' function only"):
        check_job_graph(graph_of(python=None, sql="SELECT :a", parameters={"a": NAMED}))


def test_a_setting_of_a_stream_is_a_secret_where_spark_hides_it() -> None:
    graph = check_job_graph(stream_of(settings={"spark.hadoop.fs.s3a.secret.key": NAMED, "spark.sql.shuffle.partitions": 1}))
    assert check_job_graph(to_document(graph)) == graph
    with pytest.raises(InvalidJobGraph, match=r"'spark\.hadoop\.x' cannot be a secret"):
        check_job_graph(stream_of(settings={"spark.hadoop.x": NAMED}))


def test_the_name_of_a_secret_is_shown_where_a_literal_one_is_not() -> None:
    document = graph_of(parameters={"password": NAMED, "rows": {"token": "hush"}})
    assert shown(document)["vertices"][0]["parameters"] == {"password": NAMED, "rows": {"token": "******"}}
    event = {"vertices": [{"parameters_json": json.dumps({"password": NAMED})}, {"parameters_json": json.dumps({"secret": "hush"})}]}
    first, second = shown(event)["vertices"]
    assert json.loads(first["parameters_json"]) == {"password": NAMED}
    assert "hush" not in second["parameters_json"]
