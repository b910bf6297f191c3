"""Parameters of jobs: what a document declares, what a submission binds them to, and that tasks are given just that, in every run."""

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventflink.documents.plain import plain
from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import JobSubmission, RerunJob
from eventflink.events.log_events import JobSubmitted, RequestRejected
from eventflink.events.topics import Topic
from eventflink.master.default_scheduler import find_fault_of_deployment
from eventflink.master.effects import Effect
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph import JobGraph, JobParameter, ParameterValue
from eventflink.model.job_graph_document import (
    InvalidJobGraph,
    bind_parameters,
    check_job_graph,
    graph_digest,
    parse_job_graph,
    to_document,
)
from eventflink.model.job_parameters import (
    MAX_PARAMETERS,
    MAX_VALUE_LENGTH,
    MAX_VALUES_BYTES,
    bound_text,
    json_value,
    read_value,
    text_of,
    type_name,
    values_of,
)
from eventflink.model.statuses import ExecutionState, ParameterType
from eventflink.views.job_document import shown
from eventflink.views.jobs_and_cluster import job_view
from tests.support.cluster import ScriptedCluster, deployments, graph, replies, tasks, vertex

T = ParameterType

VALID: list[tuple[ParameterType, str, Any, str]] = [
    (T.STRING, "", "", ""),
    (T.STRING, "Österreich; DROP TABLE", "Österreich; DROP TABLE", "Österreich; DROP TABLE"),
    (T.STRING, "2026-11-25", "2026-11-25", "2026-11-25"),
    (T.INTEGER, "5", 5, "5"),
    (T.INTEGER, "-9223372036854775808", -(2**63), "-9223372036854775808"),
    (T.INTEGER, "007", 7, "7"),
    (T.NUMBER, "5", 5.0, "5.0"),
    (T.NUMBER, "-0.5e-3", -0.0005, "-0.0005"),
    (T.BOOLEAN, "true", True, "true"),
    (T.BOOLEAN, "false", False, "false"),
    (T.DATE, "2026-11-25", dt.date(2026, 11, 25), "2026-11-25"),
    (T.DATE, "0001-01-01", dt.date(1, 1, 1), "0001-01-01"),
    (T.TIMESTAMP, "2026-11-25T02:30:00", dt.datetime(2026, 11, 25, 2, 30, tzinfo=dt.UTC), "2026-11-25T02:30:00+00:00"),
    (T.TIMESTAMP, "2026-11-25 02:30Z", dt.datetime(2026, 11, 25, 2, 30, tzinfo=dt.UTC), "2026-11-25T02:30:00+00:00"),
    (T.TIMESTAMP, "2026-11-25T02:30:00.5+02:00", dt.datetime(2026, 11, 25, 0, 30, 0, 500_000, dt.UTC), "2026-11-25T00:30:00.500000+00:00"),
]
"""A type, a text, the value that it says, and the one text of that."""

INVALID: list[tuple[ParameterType, str]] = [
    *[(T.INTEGER, text) for text in ("", "5.0", "1e3", "five", "0x10", "1_000", " 5", "+5", "٣", "9223372036854775808", "9" * 5_000)],
    *[(T.NUMBER, text) for text in ("", "NaN", "Infinity", "-inf", "1e400", "1_0", ".5", "5.", "0,5")],
    *[(T.BOOLEAN, text) for text in ("", "True", "yes", "1", "on")],
    *[
        (T.DATE, text)
        for text in ("", "2026-11-31", "2026-02-29", "20261125", "2026-W48-3", "25.11.2026", "0000-01-01", "2026-11-25T00:00")
    ],
    *[(T.TIMESTAMP, text) for text in ("", "2026-11-25", "2026-11-25T24:00", "2026-11-25T02:60", "2026-11-25T02:30+25:00", "1764037800")],
    (T.TIMESTAMP, "0001-01-01T00:00+14:00"),
    (T.STRING, "\ud800"),
    (T.STRING, "x" * (MAX_VALUE_LENGTH + 1)),
]

WRONG_JSON: list[tuple[ParameterType, Any]] = [
    *[(kind, value) for kind in T for value in ([], {}, [1], {"secret": "x"})],
    *[(T.STRING, value) for value in (5, 5.5, True)],
    *[(T.INTEGER, value) for value in ("5", 5.0, True)],
    *[(T.NUMBER, value) for value in ("5", True, 10**400)],
    *[(T.BOOLEAN, value) for value in ("true", 1, 0)],
    *[(T.DATE, value) for value in (20261125, True)],
    *[(T.TIMESTAMP, value) for value in (1764037800, 1764037800.5)],
]


def declaring(**parameters: Any) -> dict[str, Any]:
    return graph(vertex("a"), parameters=parameters)


def bound(document: dict[str, Any], **values: object) -> JobGraph:
    return bind_parameters(check_job_graph(document), values)


@pytest.mark.parametrize(("kind", "text", "value", "canonical"), VALID)
def test_a_text_says_one_value_and_a_value_has_one_text(kind: ParameterType, text: str, value: Any, canonical: str) -> None:
    read = read_value(kind, text)
    assert (type(read), read) == (type(value), value)
    assert bound_text(kind, text) == bound_text(kind, value) == text_of(read) == canonical
    assert read_value(kind, canonical) == value
    written = json_value(kind, canonical)
    assert json.loads(json.dumps(written)) == written
    for name in ("default", "value"):
        made = check_job_graph(declaring(p={"type": type_name(kind), name: written}))
        assert made.parameters[0].value == canonical
        assert check_job_graph(to_document(made)) == made, "what a record says is what a file says"


@pytest.mark.parametrize(("kind", "text"), INVALID)
def test_a_text_that_says_no_such_value_is_refused_wherever_it_comes_from(kind: ParameterType, text: str) -> None:
    with pytest.raises(ValueError, match=r"^(must be an? |a value has at most)"):
        read_value(kind, text)
    with pytest.raises(InvalidJobGraph, match=r"^parameter 'p': .*; the job declares p \("):
        bound(declaring(p={"type": type_name(kind)}), p=text)
    record = bound(declaring(p={"type": type_name(kind)}), p=next(canonical for other, *_, canonical in VALID if other is kind))
    for name, said in (
        ("value", JobParameter(name="p", parameter_type=kind, value=text)),
        ("default", JobParameter(name="p", parameter_type=kind, default=text)),
    ):
        record.parameters = (said,)
        with pytest.raises(InvalidJobGraph, match=rf"^parameters: p\.{name}: "):
            to_document(record)
    if text.isascii() and kind in (T.STRING, T.DATE, T.TIMESTAMP):
        with pytest.raises(InvalidJobGraph, match=r"^parameters\.p: default: "):
            check_job_graph(declaring(p={"type": type_name(kind), "default": text}))


@pytest.mark.parametrize(("kind", "value"), WRONG_JSON)
def test_a_value_of_another_kind_is_refused_with_its_place(kind: ParameterType, value: Any) -> None:
    for name in ("default", "value"):
        with pytest.raises(InvalidJobGraph, match=rf"^parameters\.p: {name}: must be an? {type_name(kind)}, not "):
            check_job_graph(declaring(p={"type": type_name(kind), name: value}))
    if not isinstance(value, str):
        with pytest.raises(InvalidJobGraph, match=rf"^parameter 'p': must be an? {type_name(kind)}, not "):
            bound(declaring(p={"type": type_name(kind)}), p=value)


VALUES: dict[ParameterType, st.SearchStrategy[Any]] = {
    T.STRING: st.text(st.characters(codec="utf-8"), max_size=100),
    T.INTEGER: st.integers(-(2**63), 2**63 - 1),
    T.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
    T.BOOLEAN: st.booleans(),
    T.DATE: st.dates(),
    T.TIMESTAMP: st.datetimes(timezones=st.just(dt.UTC)),
}
TYPED = st.sampled_from(ParameterType).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))
SUBMISSIONS = PayloadCodec("SubmissionEnvelope")


@settings(max_examples=50)
@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True).map("p_{}".format), TYPED, max_size=5))
@example({"p_day": (T.DATE, dt.date(2026, 11, 25)), "p_limit": (T.INTEGER, 5)})
def test_what_is_bound_at_submit_is_what_the_code_of_tasks_sees(typed: dict[str, tuple[ParameterType, Any]]) -> None:
    document = declaring(**{name: {"type": type_name(kind)} for name, (kind, _) in typed.items()})
    made = bind_parameters(check_job_graph(document), {name: value for name, (_, value) in typed.items()})
    as_texts = bind_parameters(check_job_graph(document), {name: text_of(value) for name, (_, value) in typed.items()})
    assert as_texts == made, "a value and the text of it are the same run"
    cluster = ScriptedCluster()
    cluster.register()
    cluster.put(Topic.SUBMISSIONS, SUBMISSIONS.encode(JobSubmission(job_id="avro", job_graph=made), sent_at_ms=0))
    [of_avro] = tasks(cluster.settle())
    [of_json] = tasks(cluster.submit(json.loads(json.dumps(to_document(made))), job_id="json"))
    for task in (of_avro, of_json):
        seen = values_of(task.job_parameters)
        assert {name: (type(value), value) for name, value in seen.items()} == {n: (type(v), v) for n, (_, v) in typed.items()}
    first, second = cluster.events(JobSubmitted)
    assert first.graph_digest == second.graph_digest == graph_digest(made)
    cluster.check()


# -- the document -------------------------------------------------------------------------------------------------------


def test_a_document_declares_parameters_with_types_defaults_and_words() -> None:
    text = """
name: daily
parameters:
  region: {type: string, affects_results: false}
  day: {type: date, default: 2026-11-25, description: "whose orders are counted"}
vertices: [{id: a, sql: "SELECT :day"}]
"""
    made = parse_job_graph(text, "f")
    assert made.parameters == (
        JobParameter(name="day", parameter_type=T.DATE, value="2026-11-25", default="2026-11-25", description="whose orders are counted"),
        JobParameter(name="region", parameter_type=T.STRING, affects_results=False),
    )
    assert bind_parameters(made, {"region": "AT"}).parameters[0] == made.parameters[0], "a default stands where nobody says otherwise"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"day": {"type": "day"}},
            "parameters.day.type: must be 'string', 'integer', 'number', 'boolean', 'date' or 'timestamp', not 'day'",
        ),
        ({"day": {}}, "parameters.day.type: it is missing"),
        ({"day": "2026-11-25"}, "parameters.day: must be a mapping, not '2026-11-25'"),
        ({"day": {"type": "date", "defualt": 1}}, "parameters.day.defualt: unknown key (did you mean 'default'?)"),
        ({"a-b": {"type": "date"}}, "parameters.a-b: must match ^"),
        ({"x" * 65: {"type": "date"}}, f"parameters.{'x' * 65}: must match ^"),
        ({"parallelism": {"type": "integer"}}, "parameters: parallelism: a statement has ':parallelism' already"),
        ({"subtask_index": {"type": "integer"}}, "parameters: subtask_index: a statement has ':subtask_index' already"),
        ({f"p{number}": {"type": "date"} for number in range(MAX_PARAMETERS + 1)}, f"parameters: must have at most {MAX_PARAMETERS} items"),
        ({"day": {"type": "date", "description": "x" * 1_025}}, "parameters.day.description: must have at most 1024 characters"),
    ],
)
def test_a_declaration_that_is_none_is_refused_with_its_place(parameters: Any, message: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(message)):
        check_job_graph(graph(vertex("a"), parameters=parameters))


def test_a_default_of_another_type_is_named_with_its_line() -> None:
    text = 'name: g\nparameters:\n  day: {type: date, default: 2026-13-01}\nvertices: [{id: a, sql: "SELECT 1"}]\n'
    with pytest.raises(InvalidJobGraph, match=r"must be a date, not '2026-13-01': there is no such day \(line 3, column 21\)"):
        parse_job_graph(text, "f")


def test_a_vertex_has_no_parameter_of_the_name_of_one_of_the_job() -> None:
    document = graph(vertex("a"), vertex("b"), parameters={"day": {"type": "date"}})
    document["vertices"][1]["parameters"] = {"day": 1, "mine": 2}
    with pytest.raises(InvalidJobGraph, match=r"vertices\[1\]\.parameters\.day: the job declares a parameter of this name"):
        check_job_graph(document)


def test_the_order_in_which_parameters_are_declared_makes_no_other_job() -> None:
    one = bound(declaring(a={"type": "date", "default": "2026-11-25"}, b={"type": "integer"}), b=1)
    other = bound(declaring(b={"type": "integer"}, a={"type": "date", "default": "2026-11-25"}), b="1")
    assert graph_digest(one) == graph_digest(other)
    assert graph_digest(one) != graph_digest(bind_parameters(one, {"b": 2}))
    assert "parameters" not in to_document(check_job_graph(graph(vertex("a")))), "a job without any is what it was"


def test_what_is_given_is_what_is_declared() -> None:
    document = declaring(
        day={"type": "date", "default": "2026-11-25"}, limit={"type": "integer", "default": 100}, region={"type": "string"}
    )
    declared = "the job declares day (date), limit (integer), region (string)"
    for values, message in (
        ({"regoin": "AT"}, f"unknown parameter: 'regoin' (did you mean 'region'?); {declared}"),
        ({}, f"parameter 'region': it has neither a default nor a value: give it one; {declared}"),
        ({"region": None}, f"parameter 'region': must be a string, not null; {declared}"),
        (
            {"region": "AT", "limit": "many"},
            f"parameter 'limit': must be an integer, not 'many': it is no whole number of 64 bits; {declared}",
        ),
        (
            {"region": "AT", "day": dt.datetime(2026, 11, 25, tzinfo=dt.UTC)},
            "parameter 'day': must be a date, not a value of the type datetime",
        ),
    ):
        with pytest.raises(InvalidJobGraph, match=re.escape(message)):
            bound(document, **values)
    with pytest.raises(InvalidJobGraph, match="unknown parameter: 'day'; the job declares none"):
        bound(graph(vertex("a")), day="2026-11-25")


def test_all_values_together_are_bounded() -> None:
    document = declaring(**{f"p{number}": {"type": "string", "default": ""} for number in range(MAX_PARAMETERS)})
    with pytest.raises(InvalidJobGraph, match=f"together they may have at most {MAX_VALUES_BYTES}"):
        bound(document, **{f"p{number}": "x" * MAX_VALUE_LENGTH for number in range(MAX_PARAMETERS)})


@pytest.mark.parametrize("name", ["password", "db_password", "apiKey", "token"])
@pytest.mark.parametrize("kind", ["string", "integer", "date", "secret"])
def test_a_parameter_is_no_place_for_a_secret_and_what_stands_there_is_not_repeated(name: str, kind: str) -> None:
    with pytest.raises(InvalidJobGraph, match=rf"parameters: {name}: .* name a secret in the 'parameters' of a vertex instead") as caught:
        check_job_graph(declaring(**{name: {"type": kind, "default": "hunter2"}}))
    assert "hunter2" not in str(caught.value)
    check_job_graph(declaring(max_tokens={"type": "integer"}, tokenizer={"type": "string"}, password_column={"type": "string"}))


def test_what_sounds_like_a_secret_and_what_is_in_an_address_is_shown_nowhere() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    hidden = {"token_source": "x-hunter2", "place": "jdbc:x://me:hunter2@h/db"}
    document = declaring(**{name: {"type": "string", "default": "d-hunter2" if name != "place" else None} for name in hidden})
    cluster.submit(to_document(bound(document, **hidden)))
    [submitted] = cluster.events(JobSubmitted)
    listed = [
        {"name": p.name, "value": p.value, "default": p.default, "parameter_type": p.parameter_type} for p in submitted.job_graph.parameters
    ]
    for view in (job_view(cluster.fold, "job"), shown(to_document(submitted.job_graph)), shown({"job_graph": {"parameters": listed}})):
        assert "hunter2" not in json.dumps(plain(view))
    assert job_view(cluster.fold, "job").parameters == {"place": "jdbc:x://******@h/db", "token_source": "******"}


# -- submissions and reruns -----------------------------------------------------------------------------------------------

DAILY = graph(
    vertex("a"),
    restart_strategy={"type": "none"},
    parameters={
        "day": {"type": "date", "value": "2026-11-25"},
        "limit": {"type": "integer", "default": 100},
        "ratio": {"type": "number", "default": 0.5},
    },
)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """A cluster in which the run 'job' of 2026-11-25 has failed; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register()
    [task] = deployments(scripted.submit(DAILY))
    scripted.report(task, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", None))
    yield scripted
    scripted.check()


def answer(effects: list[Effect]) -> str:
    """Return the refusal of the only reply; "" for what was accepted."""
    [reply] = replies(effects)
    return f"{reply.payload.code}: {reply.payload.message}" if isinstance(reply.payload, RequestRejected) else ""


def rerun(cluster: ScriptedCluster, **more: Any) -> list[Effect]:
    return cluster.command(type="RerunJob", rerun_of="job", **more)


def parameters_in(effects: list[Effect]) -> dict[str, Any]:
    [task] = tasks(effects)
    return values_of(task.job_parameters)


def test_the_values_are_in_the_log_and_stay_over_restarts_and_failovers(cluster: ScriptedCluster) -> None:
    document = DAILY | {"restart_strategy": {"type": "fixed-delay", "attempts": 1, "delay_ms": 500}}
    [task] = deployments(cluster.submit(document, job_id="again"))
    cluster.fail_over()
    cluster.report(task, ExecutionState.FAILED, cause=FailureCause("KeyError", "no 'x'", None))
    assert parameters_in(cluster.pass_time(1_000)) == {"day": dt.date(2026, 11, 25), "limit": 100, "ratio": 0.5}
    assert job_view(cluster.fold, "again").parameters == {"day": "2026-11-25", "limit": 100, "ratio": 0.5}


def test_a_submission_without_a_value_is_refused_whoever_sends_it(cluster: ScriptedCluster) -> None:
    lacking = DAILY | {"parameters": {"day": {"type": "date"}}}
    expected = "job_graph: parameter 'day': it has neither a default nor a value: give it one; the job declares day (date)"
    refusal = answer(cluster.submit(lacking, job_id="new"))
    assert refusal.startswith("InvalidRequest: submissions@")
    assert expected in refusal
    made = check_job_graph(lacking)
    cluster.put(Topic.SUBMISSIONS, SUBMISSIONS.encode(JobSubmission(job_id="new", job_graph=made, reply_partition=0), sent_at_ms=0))
    assert expected in answer(cluster.settle())
    for wrong in (
        (JobParameter(name="day", parameter_type=T.DATE, value="soon"),),
        (JobParameter(name="day", parameter_type=T.DATE, value="2026-11-25"),) * 2,
        (JobParameter(name="no name", parameter_type=T.DATE, value="2026-11-25"),),
        (JobParameter(name="password", parameter_type=T.STRING, value="hunter2"),),
    ):
        made.parameters = wrong
        cluster.put(Topic.SUBMISSIONS, SUBMISSIONS.encode(JobSubmission(job_id="new", job_graph=made, reply_partition=0), sent_at_ms=0))
        refusal = answer(cluster.settle())
        assert refusal.startswith("InvalidRequest: ")
        assert "job_graph: parameters" in refusal
        assert "hunter2" not in refusal
    assert set(cluster.master.dispatcher.jobs) == {"job"}


def test_an_ended_job_runs_again_with_other_values_and_keeps_those_that_nobody_names(cluster: ScriptedCluster) -> None:
    effects = rerun(cluster, job_id="job-2", parameters={"day": "2026-11-24", "ratio": 1})
    assert answer(effects) == ""
    assert parameters_in(effects) == {"day": dt.date(2026, 11, 24), "limit": 100, "ratio": 1.0}
    first, again = cluster.events(JobSubmitted)
    assert (again.rerun_of, again.graph_digest != first.graph_digest) == ("job", True)
    [before] = {each.value for each in cluster.job("job").execution_graph.graph.parameters if each.name == "day"}
    assert before == "2026-11-25", "the ended job stays as it is"
    assert parameters_in(rerun(cluster, job_id="job-3")) == {"day": dt.date(2026, 11, 25), "limit": 100, "ratio": 0.5}


def test_a_rerun_in_avro_says_its_values_as_texts(cluster: ScriptedCluster) -> None:
    effects = cluster.send(RerunJob(job_id="job-2", rerun_of="job", parameters=(ParameterValue("limit", "5"),), reply_partition=0))
    assert parameters_in(effects)["limit"] == 5
    twice = (ParameterValue("limit", "5"), ParameterValue("limit", "6"))
    refusal = answer(cluster.send(RerunJob(job_id="job-3", rerun_of="job", parameters=twice, reply_partition=0)))
    assert "parameters: a name is there twice" in refusal


def test_a_rerun_with_values_that_are_none_is_refused_with_a_reason(cluster: ScriptedCluster) -> None:
    declared = "the job declares day (date), limit (integer), ratio (number)"
    before = "InvalidParameters: job 'job' cannot be run again with these values: "
    for values, message in (
        ({"dya": "2026-11-24"}, f"unknown parameter: 'dya' (did you mean 'day'?); {declared}"),
        ({"day": "yesterday"}, f"parameter 'day': must be a date, not 'yesterday': it is not of the form 2026-11-25; {declared}"),
        ({"limit": 5.5}, f"parameter 'limit': must be an integer, not '5.5': it is no whole number of 64 bits; {declared}"),
        ({"limit": True}, f"parameter 'limit': must be an integer, not 'true': it is no whole number of 64 bits; {declared}"),
    ):
        assert answer(rerun(cluster, job_id="new", parameters=values)) == before + message
    for wrong, message in (
        ({"day": None}, "parameters: day: a parameter is a text, a number, true or false, a date or a time, not null"),
        ({"day": ["2026-11-24"]}, "parameters: day: a parameter is a text"),
        (["day"], "parameters: must be a mapping of values by name, not a list"),
        ({"day": "x" * (MAX_VALUE_LENGTH + 1)}, f"parameters: day: a value has at most {MAX_VALUE_LENGTH} characters"),
        ({"x" * 65: "y"}, "parameters: the name of a parameter has at most 64 characters, not 65"),
        ({f"p{number}": 1 for number in range(MAX_PARAMETERS + 1)}, f"parameters: {MAX_PARAMETERS + 1} values are given"),
    ):
        refusal = answer(rerun(cluster, job_id="new", parameters=wrong))
        assert refusal.startswith("InvalidRequest: ")
        assert message in refusal
    assert set(cluster.master.dispatcher.jobs) == {"job"}


def test_who_repeats_a_rerun_gets_the_same_job_and_with_other_values_none(cluster: ScriptedCluster) -> None:
    for request_id in ("one", "other"):
        assert answer(rerun(cluster, job_id="job-2", request_id=request_id, parameters={"ratio": "1", "day": "2026-11-24"})) == ""
    assert len(cluster.events(JobSubmitted)) == 2
    refusal = answer(rerun(cluster, job_id="job-2", parameters={"day": "2026-11-23"}))
    assert refusal.startswith("DuplicateJobSubmission: job 'job-2' was submitted before: with another graph")


def test_values_are_weighed_before_a_task_is_deployed(cluster: ScriptedCluster) -> None:
    cluster.submit(DAILY, job_id="new")
    execution = cluster.job("new").execution_graph
    assert find_fault_of_deployment(execution, "a") is None
    execution.graph.parameters = (JobParameter(name="p", parameter_type=T.STRING, value="x" * 1_000_000),)
    fault = find_fault_of_deployment(execution, "a")
    execution.graph.parameters = check_job_graph(DAILY).parameters
    assert fault is not None
    assert fault.failure_type == "DeploymentTooLarge"
