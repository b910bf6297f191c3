"""What of a job's code a function is made of: which changes of an archive a digest tells, and which are nothing to the function."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eventflink.jobs.code_digest import function_digests
from eventflink.jobs.jars import pack_jars
from eventflink.jobs.job_files import with_archives, with_newer_code
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import check_job_graph
from eventflink.model.reuse import VertexCode, bind_digest
from tests.support.rate_jar import write_rate_jar

TASKS = '''
"""Tasks."""
import logging
from pyspark.sql import functions as F
import eventflink
from helpers import cleaned, OTHER
import rates

log = logging.getLogger(__name__)
LIMIT = 3
SCHEMA = F.expr("a")


def limit():
    return 3



class Row:
    limit: int = LIMIT

    def text(self):
        return str(self.limit)


def orders(context):
    return cleaned(context, Row())


@eventflink.task
def totals(orders):
    return orders.where(rates.rate() > limit())


def report(context):
    return OTHER


@eventflink.job
def nightly():
    report(totals(orders()))


if __name__ == "__main__":
    nightly()
'''
HELPERS = """
import deep

OTHER = "other"


def cleaned(context, row):
    return deep.within.clean(context)


def unused():
    return 1
"""
FILES = {
    "tasks.py": TASKS,
    "helpers.py": HELPERS,
    "rates.py": "def rate():\n    return 1\n\n\ndef other():\n    return 2\n",
    "deep/__init__.py": "from . import within\n",
    "deep/within.py": "def clean(x):\n    return x\n",
    "data.csv": "1,2\n",
    "broken.py.txt": "(",
}
ALL = {"orders", "totals", "report"}
DOCUMENT = {"name": "n", "vertices": [{"id": "a", "python": "tasks:orders"}, {"id": "s", "sql": "SELECT 1"}]}


def archive(files: Mapping[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as opened:
        for name, text in files.items():
            opened.writestr(name, text)
    return data.getvalue()


def digests(files: Mapping[str, str], *others: str) -> dict[str, str]:
    return function_digests([archive(files)], [f"tasks:{name}" for name in sorted(ALL)], others)


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Return the functions of which the digest differs."""
    told = digests(before), digests(after)
    return {name for name in ALL if told[0][f"tasks:{name}"] != told[1][f"tasks:{name}"]}


def edited(name: str, old: str, new: str) -> set[str]:
    """Return the functions of which the digest differs after one edit."""
    assert old in FILES[name]
    return differing(FILES, FILES | {name: FILES[name].replace(old, new, 1)})


@pytest.mark.parametrize(
    ("name", "old", "new", "others"),
    [
        ("tasks.py", "return OTHER", "return OTHER + '!'", {"report"}),
        ("tasks.py", '"""Tasks."""', '"""All tasks."""', ALL),
        ("tasks.py", "LIMIT = 3", "LIMIT = 4", ALL),
        ("tasks.py", "return 3", "return 4", {"totals"}),
        ("tasks.py", "str(self.limit)", "repr(self.limit)", ALL),
        ("tasks.py", 'F.expr("a")', 'F.expr("b")', ALL),
        ("tasks.py", "report(totals", "report(report", set()),
        ("tasks.py", "    nightly()", "    print(nightly())", set()),
        ("tasks.py", "@eventflink.task", "@eventflink.task(id='t')", {"totals"}),
        ("tasks.py", "import rates", "import rates\nimport json", set()),
        ("tasks.py", "from helpers import cleaned", "from helpers import unused as cleaned", ALL),
        ("helpers.py", "return 1", "return 2", set()),
        ("helpers.py", '"other"', '"another"', ALL),
        ("helpers.py", "clean(context)", "clean(None)", {"orders"}),
        ("rates.py", "return 1", "return 3", {"totals"}),
        ("rates.py", "return 2", "return 3", {"totals"}),
        ("deep/within.py", "return x", "return [x]", {"orders"}),
        ("deep/__init__.py", "from", "X = 1\nfrom", ALL),
        ("data.csv", "1", "3", set()),
    ],
)
def test_a_change_is_told_of_the_functions_that_are_made_of_it(name: str, old: str, new: str, others: set[str]) -> None:
    assert edited(name, old, new) == others


@pytest.mark.parametrize(
    "statement",
    [
        "log.setLevel(1)",
        "_ = random.seed(1)",
        "_ = setattr(rates, 'rate', report)",
        "LOADED = list(map(report, [1]))",
        "@codecs.register\ndef found():\n    pass",
        "@pandas.api.extensions.register_dataframe_accessor('x')\nclass Found:\n    pass",
        "class Found(yaml.YAMLObject):\n    pass",
        "def found(x: report(1)):\n    pass",
        "def __getattr__(name):\n    return 1",
        "from __future__ import annotations",
        "from helpers import cleaned as __getattr__",
        "LIMITS = [LIMIT]",
        "class Found:\n    pass",
        "def found(x=[report(1)]):\n    pass",
        "@report.setter\ndef found():\n    pass",
        "rates.rate = report",
        "nothing = report(None)",
        "LIMIT += 1",
        "for each in range(3):\n    log.info(each)",
        "if log:\n    LIMIT = 9",
        "with open('x'):\n    pass",
        "@report\ndef found():\n    pass",
        "class Found(Row):\n    pass",
        "class Found(metaclass=type):\n    pass",
        "class Found:\n    report(1)",
        "def found(x=report(1)):\n    pass",
        "from helpers import *",
        "del LIMIT",
        "assert LIMIT",
        "first, *rest = [1, 2]",
        "import patches",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
    ],
)
def test_what_a_module_does_when_it_is_imported_counts_for_all_its_functions(statement: str) -> None:
    """None of these is named by a function; a change behind each of them may be one of every function."""
    tasks = TASKS.replace("import logging", "import codecs, logging, pandas, random, yaml")
    more = FILES | {"tasks.py": f"{tasks}\n{statement}\n", "patches.py": "import rates\nrates.rate = None\n"}
    assert differing(FILES, more) == ALL


@pytest.mark.parametrize(
    "default",
    [
        "date(2026, 1, 1)",
        "datetime.date(2026, 1, day=1)",
        "dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)",
        "dt.datetime(2026, 1, 1, tzinfo=ZoneInfo('Europe/Berlin'))",
        "date.fromisoformat('2026-01-01')",
        "date.today() - dt.timedelta(days=-1)",
    ],
)
def test_a_function_whose_defaults_are_dates_and_times_counts_for_those_alone_that_name_it(default: str) -> None:
    imports = "import datetime, datetime as dt\nfrom datetime import date\nfrom zoneinfo import ZoneInfo\n"
    tasks = imports + TASKS.replace("def nightly():", f"def nightly(at: date = {default}, *, until: date | None = {default}):")
    before = FILES | {"tasks.py": tasks.replace("@eventflink.task", f"@eventflink.task(at={default})")}
    assert differing(before, before | {"tasks.py": before["tasks.py"].replace("return OTHER", "return OTHER + '!'")}) == {"report"}
    assert differing(before, before | {"tasks.py": before["tasks.py"].replace("report(totals", "report(report")}) == set()


@pytest.mark.parametrize(
    "default",
    ["date(report(1), 1, 1)", "date(*LIMITS)", "date(**LIMITS)", "date(LIMIT, 1, 1)", "date.max.replace(1)", "date(2026, 1, 1) * report"],
)
def test_a_date_that_is_not_made_of_constants_may_do_anything(default: str) -> None:
    tasks = f"from datetime import date\n{TASKS}"
    assert differing(FILES | {"tasks.py": tasks}, FILES | {"tasks.py": f"{tasks}\ndef found(x={default}):\n    pass\n"}) == ALL


def test_a_date_of_the_jobs_own_may_do_anything() -> None:
    found = "\ndef found(x=date(2026, 1, 1)):\n    pass\n"
    for tasks in (f"from helpers import date\n{TASKS}", f"from datetime import date\ndate = print\n{TASKS}"):
        assert differing(FILES | {"tasks.py": tasks}, FILES | {"tasks.py": tasks + found}) == ALL


def test_what_an_import_does_counts_though_nothing_of_it_is_used() -> None:
    before = FILES | {"tasks.py": f"import patches\n{TASKS}", "patches.py": "import rates\nrates.rate = None\nX = 1\n"}
    assert differing(before, before | {"patches.py": "import rates\nrates.rate = print\nX = 1\n"}) == ALL
    swapped = TASKS.replace("import rates", "import patches").replace("import logging", "import rates")
    assert differing(before | {"tasks.py": TASKS}, before | {"tasks.py": swapped}) == ALL, "in which order they run counts as well"


@pytest.mark.parametrize(
    "line",
    [
        "globals()['x']",
        "eval('x')",
        "open(__file__)",
        "__import__('x')",
        "import importlib",
        "from importlib import resources",
        "import sys; sys.modules['x']",
        "import sys; sys.path[0]",
        "import sys as s",
        "from sys import modules",
        "orders.__globals__",
        "object.__subclasses__()",
        "import sys; sys._getframe(0).f_globals",
        "getattr(orders, '__globals__')",
        "'{0.__globals__[X]}'.format(orders)",
        "import pkg_resources",
        "import os; os.sys.path",
        "dir()",
    ],
)
def test_code_that_may_reach_anything_is_made_of_the_whole_archive(line: str) -> None:
    before = FILES | {"tasks.py": TASKS.replace("return OTHER", f"{line}\n    return OTHER")}
    assert differing(before, before | {"data.csv": "9"}) == {"report"}


def test_a_module_that_is_no_python_makes_all_of_the_archive_count() -> None:
    before = FILES | {"rates.py": "def ("}
    assert differing(before, before | {"data.csv": "9"}) == ALL


@pytest.mark.parametrize("text", ["limit", "a > @limit()", "Annotated[int, Field(default=limit)]", "tasks:limit", "dict[str, 'limit']"])
def test_a_name_in_a_text_counts(text: str) -> None:
    before = FILES | {"tasks.py": TASKS.replace("return OTHER", f"return context({text!r}, {text.encode()!r})")}
    assert differing(before, before | {"tasks.py": before["tasks.py"].replace("return 3", "return 4")}) == {"report", "totals"}


def test_relative_imports_are_followed_and_packages_come_before_modules() -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "from .b import f\nfrom ..p import c\n\n\ndef task(x):\n    return f(x), c.g()\n",
        "p/b.py": "def f(x):\n    return x\n",
        "p/c.py": "def g():\n    return 1\n",
        "p.py": "",
    }

    def told(files: Mapping[str, str]) -> str:
        return function_digests([archive(files)], ["p.a:task"])["p.a:task"]

    assert told(files) != told(files | {"p/b.py": "def f(x):\n    return 2\n"})
    assert told(files) != told(files | {"p/c.py": "def g():\n    return 2\n"})
    assert told(files) == told(files | {"p.py": "x = 1"})


def test_order_and_other_archives_count_and_the_first_of_two_files_does() -> None:
    one, two = archive({"tasks.py": "def orders():\n    return 1\n"}), archive({"tasks.py": "def orders():\n    return 2\n"})

    def told(*archives: bytes, others: tuple[str, ...] = ()) -> str:
        return function_digests(archives, ["tasks:orders"], others)["tasks:orders"]

    assert told(one) == told(one, two) != told(two, one) == told(two)
    assert told(one) != told(one, others=("packages",))
    assert told(archive({})) == told(archive({"other.py": "x = 1"})), "a function that is installed is not looked at"
    swapped = "def b():\n    pass\n\n\ndef orders():\n    return b()\n"
    straight = "def orders():\n    return b()\n\n\ndef b():\n    pass\n"
    assert told(archive({"tasks.py": swapped})) != told(archive({"tasks.py": straight}))


def test_line_ends_and_encodings_are_those_of_python() -> None:
    text = "# coding: latin-1\n\n\ndef orders():\n    return 'é'\f\n\n\ndef other():\n    pass\n"

    def told(source: bytes) -> str:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as opened:
            opened.writestr("tasks.py", source)
        return function_digests([data.getvalue()], ["tasks:orders"])["tasks:orders"]

    unix = text.encode("latin-1")
    assert told(unix) == told(unix.replace(b"\n", b"\r\n")) == told(unix.replace(b"pass", b"return"))
    assert told(unix) != told(unix.replace(b"\xe9", b"\xe8"))


@pytest.mark.parametrize(
    ("body", "is_own"),
    [
        ("return [limit for x in limit]", False),
        ("limit = 1\n    return limit", True),
        ("return [x for limit in x] + limit", False),
        ("def inner():\n        limit = 1\n    return limit", False),
        ("limit = 1\n    return lambda: limit", True),
        ("global limit\n    return limit", False),
        ("class Inner:\n        limit = 1\n    return limit", False),
        ("return (lambda limit: limit)(1)", True),
        ("return lambda x=limit: x", False),
        ("def inner(order=lambda limit: limit):\n        return limit\n    return inner", False),
    ],
)
def test_a_name_that_a_function_has_of_its_own_is_none_of_its_module(body: str, *, is_own: bool) -> None:
    before = FILES | {"tasks.py": TASKS.replace("return OTHER", body)}
    after = before | {"tasks.py": before["tasks.py"].replace("return 3", "return 4")}
    assert ("report" in differing(before, after)) is not is_own


def test_modules_that_are_reached_as_attributes_or_by_their_names_count() -> None:
    """Somebody else has imported them: then a package has them as attributes, and a text may name them."""
    before = FILES | {
        "tasks.py": TASKS.replace("return OTHER", "import deep\n    return deep.extra.g()"),
        "deep/extra.py": "def g(): return 1\n",
    }
    assert "report" in differing(before, before | {"deep/extra.py": "def g(): return 2\n"})
    before = FILES | {"tasks.py": TASKS.replace("return OTHER", "return {'class': 'rates.Handler'}")}
    assert "report" in differing(before, before | {"rates.py": "def rate():\n    return 9\n"})


def test_of_code_in_an_archive_that_the_document_names_nobody_knows_what_functions_are_code_of() -> None:
    document: dict[str, Any] = {"name": "n", "vertices": [{"id": "a", "python": "tasks:orders"}]}
    archives = [archive(FILES)]

    def told(graph: JobGraph) -> tuple[str, tuple[str, ...]]:
        packed = with_archives(graph, archives, lambda data: hashlib.sha256(data).hexdigest())
        return packed.vertices[0].code_digest, packed.code_archives

    key = hashlib.sha256(archives[0]).hexdigest()
    assert told(check_job_graph(document)) == (bind_digest(digests(FILES)["tasks:orders"], [key]), (key,))
    assert told(check_job_graph(document | {"code_archives": ["0" * 64]})) == ("", ("0" * 64, key))


def test_what_a_vertex_is_made_of_is_known_beside_its_own_archives_alone() -> None:
    graph = with_archives(check_job_graph(DOCUMENT), [archive(FILES)], lambda data: hashlib.sha256(data).hexdigest())
    for vertex in graph.vertices:
        code, elsewhere = VertexCode(vertex.code_digest, graph.code_archives), VertexCode(vertex.code_digest, ("1" * 64,))
        bound = VertexCode(bind_digest(vertex.code_digest, elsewhere.archives), elsewhere.archives)
        assert code.may_differ(elsewhere)
        assert not code.may_differ(bound)
        assert not elsewhere.may_differ(VertexCode("", elsewhere.archives))


@pytest.mark.parametrize("more", [[], ["jars"]])
def test_a_document_without_code_has_that_of_the_ended_job_beside_its_own_jars(more: list[str], tmp_path: Path) -> None:
    stored: dict[str, bytes] = {}

    def store(data: bytes) -> str:
        key = hashlib.sha256(data).hexdigest()
        stored[key] = data
        return key

    code, old, new = archive(FILES), pack_jars([write_rate_jar(tmp_path / "a.jar", 1)]), pack_jars([write_rate_jar(tmp_path / "a.jar", 2)])
    before = with_archives(check_job_graph(DOCUMENT), [code, old], store)
    after = with_newer_code(check_job_graph(DOCUMENT), [new] if more else [], store, stored.__getitem__, before.code_archives)
    assert [stored[key] for key in after.code_archives] == [code, *([new] if more else [])]
    codes = [[VertexCode(each.code_digest, graph.code_archives) for each in graph.vertices] for graph in (before, after)]
    assert all(one.may_differ(other) for one, other in zip(*codes, strict=True)), "the jars are others, or gone"
