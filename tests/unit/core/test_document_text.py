"""A document has one meaning, however it comes; what has none is refused with its place, in plain words."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from eventflink.events.inputs import JobSubmission
from eventflink.events.topics import Topic
from eventflink.leadership.inbound import Inbound, InboundDecoder
from eventflink.leadership.intake import InboundRecord
from eventflink.master.inputs import UnreadableInput
from eventflink.model.document_faults import describe_faults
from eventflink.model.document_fields import canonical_json
from eventflink.model.document_text import MAX_NESTING, InvalidText, find_place, read_document, read_json
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, JobGraphDocument, parse_job_graph, to_document
from eventflink.model.schedule_document import check_schedule, parse_schedule, schedule_document

SAID = [
    ("1e-05", 1e-05),
    ("0.00001", 1e-05),
    ("1e20", 1e20),
    ("1E+2", 100.0),
    ("-0.0", -0.0),
    ("12345678901234567890123", 12345678901234567890123),
    (r'"\ud83d\ude80"', "🚀"),
    ('"\\u0000\x7f"', "\0\x7f"),
    ('"NO"', "NO"),
    ('"12:30:00"', "12:30:00"),
    ('"2024-01-31"', "2024-01-31"),
    ('"<<"', "<<"),
    ('"a: b # c"', "a: b # c"),
    ("null", None),
    ("true", True),
    ('{"on": 1, "no": [], "y": {}}', {"on": 1, "no": [], "y": {}}),
]
"""Values as JSON writes them."""

NOT_SAID = [
    ('{"p": 1, "p": 2}', r"vertices\[0\].parameters.v.p: the key stands twice in its mapping \(line 1, column 104\)"),
    (r'{"p": 1, "\u0070": 2}', r"vertices\[0\].parameters.v.p: the key stands twice"),
    ("[1, NaN]", r"vertices\[0\].parameters.v\[1\]: NaN is not a number of JSON"),
    ("Infinity", r"vertices\[0\].parameters.v: Infinity is not a number of JSON"),
    ("1e400", r"vertices\[0\].parameters.v: 1e400 is too large for a number"),
    ("-1e400", r"vertices\[0\].parameters.v: -1e400 is too large for a number"),
    ("-" + "9" * 4_301, r"vertices\[0\].parameters.v: a number of more than 4300 digits"),
    ("9" * 4_301, r"vertices\[0\].parameters.v: a number of more than 4300 digits"),
    (r'["\ud83d"]', r"vertices\[0\].parameters.v\[0\]: \\ud83d is half of a surrogate pair"),
    (r'{"\ude80": 1}', r"vertices\[0\].parameters.v.\\ude80: \\ude80 is half of a surrogate pair"),
    ("[" * MAX_NESTING + "]" * MAX_NESTING, f"nested more than {MAX_NESTING} levels deep"),
    ("[" * 50_000, f"nested more than {MAX_NESTING} levels deep"),
    ("'single'", r"not valid JSON: expecting value, not \"'\""),
    ("01", "not valid JSON: expecting"),
    ("1,}", "not valid JSON: "),
    ("1} // comment", "not valid JSON: "),
    ("{}}}]} {}", "not valid JSON: "),
    ("1e400x", "not valid JSON: "),
]
"""Values that other readers of JSON read otherwise, or not at all."""


def _text(value: str) -> str:
    return f'{{"name": "n", "vertices": [{{"id": "a", "python": "m:f", "parallelism": 1, "parameters": {{"v": {value}}}}}]}}'


def _as_record(text: str) -> Inbound:
    return InboundDecoder().decode(InboundRecord(str(Topic.SUBMISSIONS), 0, None, text.encode()))


@pytest.mark.parametrize(("written", "value"), SAID)
def test_a_value_of_json_is_the_same_in_a_file_a_record_and_behind_a_byte_order_mark(written: str, value: Any) -> None:
    for mark in ("", "\ufeff"):
        text = mark + _text(written)
        graph = parse_job_graph(text, "job.json")
        assert graph.vertices[0].parameters_json == canonical_json({"v": value})
        [submission] = _as_record(text).inputs
        assert isinstance(submission, JobSubmission)
        assert submission.job_graph == graph


@pytest.mark.parametrize(("written", "says"), NOT_SAID)
def test_what_json_cannot_say_is_refused_with_its_place_in_a_file_and_in_a_record(written: str, says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=f"^job.json: .*{says}") as caught:
        parse_job_graph(_text(written), "job.json")
    [refusal] = _as_record(_text(written)).inputs
    assert isinstance(refusal, UnreadableInput)
    assert str(caught.value).removeprefix("job.json: ") in refusal.message
    refusal.message.encode()


@pytest.mark.parametrize("number", [10**4_300 - 1, 1 - 10**4_300], ids=["above zero", "below zero"])
def test_a_number_has_all_of_its_digits(number: int) -> None:
    assert read_document(f'{{"x": {number}}}') == read_document(f"x: {number}") == {"x": number}


def test_who_sends_a_key_twice_is_answered_by_the_keys_that_stand_once() -> None:
    [refusal] = _as_record('{"request_id": "r", "reply_partition": 1, "job_id": "j", "job_id": "k", "job_graph": {}}').inputs
    assert isinstance(refusal, UnreadableInput)
    assert (refusal.code, refusal.request_id, refusal.reply_partition, refusal.subject) == ("InvalidRequest", "r", 1, "")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("off", "off"),
        ("12:30:00", "12:30:00"),
        ("1:1", "1:1"),
        ("2024-01-31", "2024-01-31"),
        ("2024-01-31T12:30:00Z", "2024-01-31T12:30:00Z"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1e-5", 1e-5),
        ("1e22", 1e22),
        (".5", 0.5),
        ("+1", 1),
        ("1_000", "1_000"),
        ("1.10", 1.1),
        ("~", None),
        ("", None),
        ("Null", None),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1.0),
        ("{<<: {a: 1, b: 1}, a: 2}", {"a": 2, "b": 1}),
    ],
)
def test_yaml_is_read_by_the_core_schema_of_its_version_1_2(written: str, value: Any) -> None:
    read = read_document(f"v: {written}\n")["v"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a' stands twice in its mapping (line 3, column 1)"),
        ("x:\n  - {a: 1, 'a': 2}\n", "'a' stands twice in its mapping (line 2, column 12)"),
        ("1: x\n", "a key is a text, and this is a whole number: quote it (line 1, column 1)"),
        ("x: {true: 1}\n", "a key is a text, and this is a boolean: quote it (line 1, column 5)"),
        ("? [a]\n: 1\n", "a key is a text, and this is a list: quote it (line 1, column 3)"),
        ("x: .nan\n", ".nan is not a finite number (line 1, column 4)"),
        ("x: -.INF\n", "-.INF is not a finite number (line 1, column 4)"),
        ("x: 1e400\n", "1e400 is not a finite number (line 1, column 4)"),
        ("x: !!int one\n", "'one' is not a whole number (line 1, column 4)"),
        ("x: !!bool 1\n", "'1' is not a boolean (line 1, column 4)"),
        ("x: !!timestamp 2024-01-31\n", "the tag !!timestamp is not read here (line 1, column 4)"),
        ("x: !!binary aGk=\n", "the tag !!binary is not read here (line 1, column 4)"),
        ("x: !!set {a}\n", "the tag !!set is not read here (line 1, column 4)"),
        ("x: !mine y\n", "the tag !mine is not read here (line 1, column 4)"),
        ("a: 1\n---\nb: 1\n", "but found another document (line 2, column 1)"),
        ("<<: {a: 1}\nb: 2\n<<: {a: 3}\n", "'<<' stands twice in its mapping (line 3, column 1)"),
        ("x: &p\n  y: *p\n", "the alias 'p' stands for nothing, or for what it is in (line 2, column 6)"),
        (f"x: &p {'y' * 1024 * 1024}\nz: [*p, *p]\n", "its aliases stand for more than 1048576 characters (line 2, column 9)"),
        (f"x: {'[' * 101}{']' * 101}\n", "nested more than 100 levels deep (line 1, column 103)"),
        (f'{{"x":\n{"[" * 99_000}{"]" * 99_000}}}', "nested more than 100 levels deep (line 2, column 100)"),
        ("x: 1\ny: a\x00\n", "not valid YAML: unacceptable character #x0000: control characters are not allowed (line 2, column 5)"),
        ("cron: * * * * *\n", "quote a text that begins with * (line 1, column 8)"),
        ("cron: @daily\n", "found character that cannot start any token: quote a text that begins with @ (line 1, column 7)"),
        ("name: a: b\n", "mapping values are not allowed in this context: quote a text that has ': ' in it (line 1, column 8)"),
        ("x:\n\t- a\n", "found character that cannot start any token: indent with spaces, not with tabs (line 2, column 1)"),
    ],
)
def test_what_yaml_says_and_json_could_not_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidText, match=re.escape(says)):
        read_document(text)


@pytest.mark.parametrize(
    ("written", "is_refused"),
    [
        (">\n    SELECT id -- the id\n    FROM t\n    WHERE id > 5\n", True),
        ("SELECT id -- the id\n    FROM t\n", True),
        ('"SELECT id -- the id\n    FROM t"\n', True),
        ("'SELECT ''a'' -- the id\n    FROM t'\n", True),
        ("|\n    SELECT id -- the id\n    FROM t\n", False),
        (">\n    SELECT id\n    FROM t -- all of it\n", False),
        (">  # -- a comment of YAML\n    SELECT id\n    FROM t -- all of it\n", False),
        (">\n    SELECT id -- the id\n\n    FROM t\n", False),
        (">\n    SELECT '--', /* --\n    */ 2\n    FROM t\n", False),
        ("'SELECT ''--''\n    FROM t'\n", False),
        ('"SELECT id -- the id\\n\\\n    FROM t"\n', False),
        ("SELECT id -- the id\n", False),
    ],
)
def test_a_statement_that_yaml_makes_one_line_of_loses_nothing_to_a_comment(written: str, *, is_refused: bool) -> None:
    text = f"é: 1\nvertices:\n- sql: {written}  id: a\n"
    if is_refused:
        with pytest.raises(InvalidText, match=re.escape("is part of that: write it behind '|' (line 3, column 8)")):
            read_document(text)
    else:
        assert read_document(text)["vertices"][0]["id"] == "a"


YAML = """\
name: nightly
vertices:
  - {id: orders, python: "m:f"}
  - id: totals
    sql: SELECT 1
    parallelism: 0
"""


@pytest.mark.parametrize("text", [YAML, json.dumps(read_document(YAML), indent=2)])
def test_a_fault_names_the_vertex_and_the_line(text: str) -> None:
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "parallelism" in each)
    column = text.splitlines()[line - 1].index("parallelism") + (0 if '"' in text.splitlines()[line - 1] else 1)
    with pytest.raises(InvalidJobGraph) as caught:
        parse_job_graph(text, "job")
    fault = "job: vertices[1].parallelism: must be at least 1, not 0"
    assert str(caught.value) == f"{fault} (vertex 'totals', line {line}, column {column})"
    with pytest.raises(InvalidJobGraph, match=re.escape(f"{fault} (vertex 'totals')")):
        parse_job_graph(read_document(text), "job")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("edges:\n- {from: orders, to: totals}\n- from: orders\n  to: nowhere\n", 10),
        ("restart_strategy:\n  type: fixed-delay\n  attempts: -1\n", 9),
        ("scheduler: fast\n", 7),
    ],
)
def test_what_our_own_checks_find_has_its_line_too(said: str, line: int) -> None:
    with pytest.raises(InvalidJobGraph, match=rf"\(line {line}, column \d+\)"):
        parse_job_graph(YAML.replace("parallelism: 0", "parallelism: 1") + said, "job")


def test_a_place_is_found_in_texts_of_both_kinds_and_else_the_nearest_around_it() -> None:
    document = {"a": [{"b": 1}, {"b": {"a": 2}, "c": [3]}], "é": {"a": 1}}
    texts = json.dumps(document, indent=1, ensure_ascii=False), "a:\n- b: 1\n- b:\n    a: 2\n  c:\n  - 3\né:\n  a: 1\n"
    for text in texts:
        assert read_document(text) == document
        lines = text.splitlines()
        for path, key in ((("a", 1, "b", "a"), "a"), (("a", 1, "c"), "c"), (("é", "a"), "a"), (("a", 1, "c", 7), "c")):
            place = find_place(text, path)
            assert place is not None
            assert lines[place.line - 1][place.column - 1 :].lstrip('"')[: len(key)] == key
        assert find_place(text, ()) is None
        assert find_place(text, ("nothing", 1)) is None


_WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    10**12,
    1.5,
    float("inf"),
    "",
    "?",
    "x" * 70_000,
    [],
    [0] * 11_000,
    {},
    {"?": 0},
    {"kafka": 0},
    (),
    b"",
    object(),
]
_OF_PYDANTIC = re.compile(
    r"Input|should|Field required|Extra inputs|permitted|valid (?:string|integer|number|list|dictionary)|is not valid here"
)


def _models(annotation: Any) -> set[type[BaseModel]]:
    """Return the models of a document: one, and those of its fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}.union(*(_models(field.annotation) for field in annotation.model_fields.values()))
    return set().union(*map(_models, get_args(annotation)))


@pytest.mark.parametrize("model", sorted(_models(JobGraphDocument), key=repr))
def test_whatever_is_wrong_with_a_field_is_said_in_our_own_words(model: type[BaseModel]) -> None:
    said = []
    for name, field in model.model_fields.items():
        for wrong in _WRONG:
            try:
                model.model_validate({field.alias or name: wrong})
            except ValidationError as error:
                said.append(describe_faults(error))
    assert said
    assert [each for each in said if _OF_PYDANTIC.search(each)] == []
    assert all(len(each) < 3_000 for each in said)


def test_the_examples_of_documents_in_the_repository_mean_the_same_as_json() -> None:
    files = sorted(Path(__file__).parents[3].glob("examples/**/*.yaml"))
    schedules = [path for path in files if "job" in read_document(path.read_text(encoding="utf-8"))]
    graphs = [(path, _graph_in(path)) for path in files if path not in schedules]
    assert graphs
    assert schedules
    for path, graph in graphs:
        assert parse_job_graph(json.dumps(to_document(graph)), str(path)) == graph
        assert read_json(json.dumps(to_document(graph))) == read_document(json.dumps(to_document(graph)))
    for path in schedules:
        schedule = parse_schedule(path.read_text(encoding="utf-8"), str(path), _graph_beside(path))
        assert check_schedule(read_json(json.dumps(schedule_document(schedule)))) == schedule


def _graph_beside(file: Path) -> Callable[[str], JobGraph]:
    return lambda name: _graph_in(file.parent / name)


def _graph_in(path: Path) -> JobGraph:
    return parse_job_graph(path.read_text(encoding="utf-8"), str(path), path.parent)
