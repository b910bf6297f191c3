"""Where the statements of a text begin and end: semicolons in quotes and comments end none, and what is one statement stays as it is."""

import pytest

from eventflink.model.sql_script import Statement, column_names, has_statement, statements_of

SIMPLE = [
    "SELECT 1",
    "SELECT ';', \"a;b\", `c;d` FROM t",
    r"SELECT 'it\'s; one'",
    "SELECT 'it''s; one'",
    r"SELECT r'\' /* ; */",
    "SELECT /* ; /* ; */ ; */ 1",
    "SELECT /*+ BROADCAST(b) */ 1",
    "SELECT 1 -- goes \\\n on; here",
    "SELECT $$a;b$$, $x$c;$$;d$x$",
]
COMPOUND = ["BEGIN SELECT 1; SELECT 2; END", "begin\nSELECT 1; END;", "once: BEGIN SELECT 1; SELECT 2; END once"]
ODD = [
    "SELECT 1;",
    " -- first;\nSELECT 1 ; -- last;",
    "/* ; */ BEGIN\nSELECT 1; END;",
    "SELECT 1 /* never; closed",
    "",
    ";",
    " ; -- nothing; at all\n;",
]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("id BIGINT, at TIMESTAMP", ["id", "at"]),
        ("id: INT,b ARRAY<STRUCT<x: INT, y: DECIMAL(10,2)>> COMMENT 'a, b', -- c INT,\n`d``e, f` INT", ["id", "b", "d`e, f"]),
        ("größe INT", ["größe"]),
        ("", []),
    ],
)
def test_a_column_is_called_as_its_schema_says(columns: str, names: list[str]) -> None:
    assert column_names(columns) == names


@pytest.mark.parametrize("sql", SIMPLE + COMPOUND + ODD)
def test_one_statement_stays_as_it_is(sql: str) -> None:
    assert statements_of(sql) == [Statement(sql, 1)]


@pytest.mark.parametrize("one", SIMPLE)
def test_each_ends_before_the_one_that_follows(one: str) -> None:
    line = one.count("\n") + 1
    assert statements_of(f"{one}\n;\n\n -- the last\n {one}\n;") == [Statement(f"{one}\n", 1), Statement(f"{one}\n", line + 4)]


@pytest.mark.parametrize("one", COMPOUND)
def test_a_compound_one_takes_all_that_follows(one: str) -> None:
    assert statements_of(f"SELECT 2;\n{one};SELECT 3") == [Statement("SELECT 2", 1), Statement(f"{one};SELECT 3", 2)]


def test_names_that_look_like_words_of_a_script_are_names() -> None:
    assert [each.text for each in statements_of("SELECT begin, t.begin FROM t; SELECT bar'a;b' FROM begin; SELECT 3")] == [
        "SELECT begin, t.begin FROM t",
        "SELECT bar'a;b' FROM begin",
        "SELECT 3",
    ]


def test_what_has_many_semicolons_is_read_in_one_pass() -> None:
    assert len(statements_of("SELECT 1;" * 7_000)) == 7_000


@pytest.mark.parametrize("opens", ["'", '"', "`", "r'", 'r"', "$$", "$tag$", "/*", "/* /*"])
@pytest.mark.parametrize("rest", ["2; SELECT 3", "2; SELECT 3 \\", "", "\\"])
def test_what_is_not_closed_goes_to_the_end(opens: str, rest: str) -> None:
    """A leader reads the statement of a stream when it is submitted: to begin again behind each such quote would take it its lease."""
    last = f"SELECT {opens}{rest}"
    assert [each.text for each in statements_of(f"SELECT 1; {last}")] == ["SELECT 1", last]


@pytest.mark.parametrize("sql", ["", " ", ";", "-- nothing", "/* nothing */ ;\n;", "/* never; closed"])
def test_a_text_may_have_no_statement(sql: str) -> None:
    assert not has_statement(sql)
    assert has_statement(f"SELECT 1; {sql}")
