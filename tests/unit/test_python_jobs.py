"""Jobs written in Python: what is compiled is the document that somebody would write, and mistakes are named with job, vertex and line."""

import importlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import eventflink
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.jobs.accumulators import TaskAccumulators
from eventflink.jobs.archive import ArchiveError, build_archive
from eventflink.jobs.context import TaskContext
from eventflink.jobs.job_files import Document, _modules_below, described, read_job
from eventflink.jobs.local_modules import local_modules
from eventflink.jobs.python_jobs import InvalidPythonJob
from eventflink.jobs.shipping import InputUnusable
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import RowCondition
from eventflink.model.job_graph_document import InvalidJobGraph, bind_parameters, graph_digest, parse_job_graph
from eventflink.model.statuses import VertexRuns
from eventflink.taskexecutor.task_code import resolve_function


@eventflink.task(parallelism=2, time_limit="5m")
def orders(context: TaskContext, day: date, least: int = 3) -> Any:
    return context.vertex_id, day, least


@eventflink.task
def both(orders: Any, customers: Any, *, limit: int) -> Any:
    return orders, customers, limit


@eventflink.task
def split(orders: Any) -> Any:
    return {"good": orders, "bad": orders}


def undecorated() -> None: ...


@eventflink.job(
    name="revenue by day",
    restart_strategy={"type": "fixed-delay", "attempts": 3, "delay_ms": 500},
    parameters={"day": {"description": "of the orders"}},
)
def revenue(  # type: ignore[no-untyped-def]
    day: date,
    rate: float = 1.5,  # noqa: ARG001 - of a statement
    since: datetime = datetime(2026, 1, 1, tzinfo=UTC),  # noqa: ARG001 - every task has it
    is_full=False,  # noqa: ANN001, ARG001, FBT002 - the type is that of the default
) -> None:
    of_day = orders(day, least=7)
    older = orders.options(id="older", parallelism=1)(day)
    customers = eventflink.sql("SELECT :day AS day, :rate * :factor AS f", id="customers", factor=2, options={"parallelism": 3})
    parts = split(older.broadcast())
    eventflink.sql("SELECT * FROM bad", id="bad", bad=parts.output("bad"))
    both(of_day.hash("customer", "day"), customers, limit=10)


DOCUMENT: dict[str, Any] = {
    "name": "revenue by day",
    "restart_strategy": {"type": "fixed-delay", "attempts": 3, "delay_ms": 500},
    "parameters": {
        "day": {"type": "date", "description": "of the orders"},
        "rate": {"type": "number", "default": 1.5},
        "since": {"type": "timestamp", "default": "2026-01-01T00:00:00+00:00"},
        "is_full": {"type": "boolean", "default": False},
    },
    "vertices": [
        {"id": "orders", "python": "test_python_jobs:orders", "parallelism": 2, "time_limit": "5m", "parameters": {"least": 7}},
        {"id": "older", "python": "test_python_jobs:orders", "parallelism": 1, "time_limit": "5m"},
        {"id": "customers", "sql": "SELECT :day AS day, :rate * :factor AS f", "parallelism": 3, "parameters": {"factor": 2}},
        {"id": "split", "python": "test_python_jobs:split"},
        {"id": "bad", "sql": "SELECT * FROM bad"},
        {"id": "both", "python": "test_python_jobs:both", "parameters": {"limit": 10}},
    ],
    "edges": [
        {"from": "older", "to": "split", "ship": "broadcast", "name": "orders"},
        {"from": "split", "to": "bad", "output": "bad", "name": "bad"},
        {"from": "orders", "to": "both", "ship": "hash", "keys": ["customer", "day"]},
        {"from": "customers", "to": "both"},
    ],
}


def test_a_job_is_compiled_to_the_document_that_somebody_would_write() -> None:
    edges = [{**edge, "name": edge.get("name", edge["from"])} for edge in DOCUMENT["edges"]]
    compiled = revenue.document()
    assert [{**edge, "name": edge.get("name", edge["from"])} for edge in compiled.pop("edges")] == edges
    assert compiled == {key: value for key, value in DOCUMENT.items() if key != "edges"}
    assert json.loads(json.dumps(compiled)) == compiled
    graph = described(revenue).graph
    assert graph_digest(graph) == graph_digest(parse_job_graph(DOCUMENT, "by hand"))
    assert bind_parameters(graph, {"day": "2026-11-25"}).parameters[0].value == "2026-11-25"


ORDERS = {"kafka": {"topic": "orders"}, "format": "json", "schema": "customer STRING, amount BIGINT"}
TOTALS = {"kafka": {"topic": "totals"}, "format": "json"}


@eventflink.task(stream={"sources": {"orders": ORDERS}}, parameters={"least": 3})
def large(orders: Any, countries: Any, least: int) -> Any:
    return orders, countries, least


@eventflink.task(stream={"sink": TOTALS})
def totals(large: Any) -> Any:
    return large


def test_the_sources_of_a_stream_and_values_of_the_decorator_are_not_given_by_a_call() -> None:
    @eventflink.job
    def streaming() -> None:
        rows = large(eventflink.sql("SELECT 'UK' AS country", id="countries"))
        totals(rows.hash("customer", schema="customer STRING", partitions=2))

    _, reads, writes = described(streaming).graph.vertices
    assert reads.stream is not None
    assert [source.name for source in reads.stream.sources] == ["orders"]
    assert json.loads(reads.parameters_json) == {"least": 3}
    assert writes.stream is not None
    [table, pipelined] = described(streaming).graph.edges
    assert (table.target, table.input_name, pipelined.keys, pipelined.pipeline is not None) == ("large", "countries", ("customer",), True)


SALES = {"table": {"catalog": "lake", "name": "shop.sales"}, "format": "iceberg"}


@eventflink.task(sources={"sales": SALES})
def summed(sales: Any, countries: Any) -> Any:
    return sales, countries


def test_the_sources_of_a_batch_task_are_not_given_by_a_call_and_those_of_sql_are_an_option() -> None:
    @eventflink.job
    def reading() -> None:
        summed(countries=eventflink.sql("SELECT country FROM sales", id="countries", options={"sources": {"sales": SALES}}))

    vertices = described(reading).graph.vertices
    assert [[(source.name, source.location) for source in each.sources] for each in vertices] == [[("sales", "lake.shop.sales")]] * 2


@eventflink.task(max_parallelism=500)
def loaded(context: TaskContext, file: Any, rates: Any) -> Any:
    return context.row["path"], file, rates


@eventflink.job
def mapped() -> None:
    files, rates = (eventflink.sql("SELECT 1 AS path", id=name) for name in ("files", "rates"))
    loaded(files.each(), rates.broadcast())


class _Row:
    """A row of Spark's, as far as it is asked here."""

    def asDict(self, *, recursive: bool) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"path": "/a", "nested": {"recursive": recursive}}


class _OneRow:
    """A DataFrame of one row, as far as it is asked here."""

    def collect(self) -> list[_Row]:
        return [_Row()]


def test_a_task_with_a_subtask_for_each_row_is_given_its_row() -> None:
    document = mapped.document()
    assert document["vertices"][2]["max_parallelism"] == 500
    assert document["edges"] == [
        {"from": "files", "to": "loaded", "ship": "each", "name": "file"},
        {"from": "rates", "to": "loaded", "ship": "broadcast"},
    ]
    row = {"path": "/a", "nested": {"recursive": True}}
    assert loaded(context_of({"file": _OneRow(), "rates": "r"}, {}, row_input="file")) == ("/a", row, "r")
    with pytest.raises(InputUnusable, match="vertex 'v' has no row: none of its inputs is shipped by each"):
        _ = context_of({}, {}).row


def context_of(inputs: dict[str, Any], parameters: dict[str, Any], row_input: str | None = None) -> TaskContext:
    def no_spark() -> Any:
        raise AssertionError

    readers = {name: lambda rows=rows: rows for name, rows in inputs.items()}
    return TaskContext(
        AttemptId("job", "v", 0, 1),
        parallelism=1,
        max_parallelism=1,
        parameters=parameters,
        readers=readers,
        open_spark=no_spark,
        accumulators=TaskAccumulators(),
        row_input=row_input,
    )


def test_a_function_of_spark_that_would_take_the_context_with_it_is_told_what_to_do() -> None:
    context = context_of({}, {"day": 1})
    with pytest.raises(TypeError, match="the context of a task stays in its process: put what a function of Spark needs of it into a var"):
        cloudpickle.dumps(lambda _: context.parameters["day"])


def test_the_process_of_a_task_gives_its_function_what_it_names() -> None:
    assert orders(context_of({}, {"day": date(2026, 11, 25), "rate": 1.5})) == ("v", date(2026, 11, 25), 3)
    assert both(context_of({"orders": "o", "customers": "c", "other": "x"}, {"limit": 10})) == ("o", "c", 10)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'customers'"):
        both(context_of({"orders": "o"}, {"limit": 10}))
    assert both.function(1, 2, limit=3) == (1, 2, 3)


_EARLIER: list[Any] = []


@eventflink.job
def earlier() -> None:
    _EARLIER.append(orders("2026-11-25"))


def _twice(day: date) -> None:
    orders(day)
    orders(day)


def _within(day: date) -> None:
    @eventflink.task
    def within(orders: Any) -> Any:
        return orders

    within(orders(day))


def _condition(day: date) -> None:
    if day:
        orders(day)


def _comparison(day: date) -> None:
    orders(day, least=1 if day == date(2026, 11, 25) else 2)


def _no_task(day: date) -> None: ...


async def _awaited(day: date) -> None:
    orders(day)


def _generator(day: date) -> Iterator[Any]:
    yield orders(day)


def _other_job(day: date) -> None:
    orders(day)
    earlier.document()
    split(_EARLIER[-1])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_twice, "job 'broken': vertex 'orders' is there already: give this one another id, by .options(id=…)"),
        (lambda day: both(orders(day), limit=1), "job 'broken': task 'both': missing a required argument: 'customers'"),
        (lambda day: split(orders(day), speed=1), "job 'broken': task 'split': got an unexpected keyword argument 'speed'"),
        (
            lambda day: orders(least=day, day=day),
            "vertex 'orders': its argument 'least' is given the parameter 'day' of the job, which has one name in all tasks",
        ),
        (
            lambda day: (day, orders("2026")),
            "vertex 'orders': its argument 'day' is given a value, and is a parameter of the job: give it that",
        ),
        (
            lambda day: orders(day, least={1}),
            "vertex 'orders': its argument 'least' is set: an output of a task, a parameter of the job, or JSON may be given",
        ),
        (_within, "task '_within.<locals>.within' is not '_within.<locals>.within' of its module, by which its process would find it"),
        (lambda day: eventflink.sql(f"SELECT '{day}'", id="a"), "the parameter 'day' has no value while the job is put together: give it"),
        (_condition, "the parameter 'day' has no value while the job is put together"),
        (lambda day: orders.options(parallelism=0)(day=day), "job 'broken': vertices[0].parallelism: must be at least 1"),
        (_comparison, "the parameter 'day' has no value while the job is put together"),
        (lambda day: orders(day * 2), "the parameter 'day' has no value while the job is put together"),
        (lambda day: orders(f"x{day}"), "the parameter 'day' has no value while the job is put together"),
        (lambda day: eventflink.sql(f"SELECT {day!r}", id="a"), "the parameter 'day' has no value while the job is put together"),
        (lambda day: orders(day, least=", ".join(map(repr, [day]))), "the parameter 'day' has no value while the job is put together"),
        (lambda day: orders(day, least=[day]), "vertex 'orders': its argument 'least' is list: an output of a task"),
        (lambda day: orders(day.year), "the parameter 'day' has no value while the job is put together"),
        (lambda day: orders(day, least={day: 1}), "the parameter 'day' has no value while the job is put together"),
        *(
            (body, "job 'broken': the output of 'orders' has no rows while the job is put together: give it to a task as an argument")
            for body in (
                lambda day: orders(day).where("id > 1"),
                lambda day: list(orders(day)),
                lambda day: orders(day)["id"],
                lambda day: len(orders(day)),
            )
        ),
        (_no_task, "job 'broken' has no vertex: its function calls no task"),
        (_awaited, "job 'broken' has no vertex: its function calls no task"),
        (_generator, "job 'broken' has no vertex: its function calls no task"),
        (_other_job, "vertex 'split': its argument 'orders' is an output of another job"),
    ],
)
def test_what_cannot_be_put_together_is_named(body: Any, said: str) -> None:
    job = eventflink.job(name="broken", parameters={"day": {"type": "date"}})(body)
    with pytest.raises(InvalidJobGraph) as raised:
        described(job)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("document", "said"), [(orders, "task 'orders' is not a job"), (_no_task, "a value of the type function is not a job")]
)
def test_what_is_no_job_is_named_where_one_is_expected(document: Any, said: str) -> None:
    with pytest.raises(InvalidJobGraph, match=f"invalid job: {said}; give a function with @eventflink.job"):
        described(document)


def test_what_is_called_where_it_should_not_is_named() -> None:
    with pytest.raises(InvalidPythonJob, match=r"'orders' is called outside of a function with @eventflink.job; orders.function is the"):
        orders(1)
    with pytest.raises(InvalidPythonJob, match=r"'a' stands outside of a function with @eventflink.job"):
        eventflink.sql("SELECT 1", id="a")
    with pytest.raises(InvalidPythonJob, match=r"job 'revenue by day' is not called: give it to eventflink.dev\(revenue\)"):
        revenue()
    with pytest.raises(InvalidPythonJob, match=r"parameter '\*rows' has no name for an input"):
        eventflink.task(lambda *rows: rows)
    for annotation in (list, None, int | None):

        def untyped(day) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

        untyped.__annotations__ = {"day": annotation} if annotation else {}
        with pytest.raises(InvalidPythonJob, match="parameter 'day' has no type that a parameter may have: annotate it with"):
            eventflink.job(untyped).document()


# -- files ---------------------------------------------------------------------------------------------------------


JOB = """
import eventflink
import helpers
from parts import middle as m
import json, pathlib

@eventflink.task
def read(context, day: str): return helpers.rows(context, day)

@eventflink.job
def nightly(day: str = "today"):
    eventflink.sql("SELECT count(*) AS n FROM rows", id="total", rows=read(day))
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "parts").mkdir()
    for name, text in {
        "night_job.py": JOB,
        "helpers.py": "def rows(context, day):\n    import deep\n    return deep.made(context)\n",
        "deep.py": "def made(context): ...\n",
        "parts/__init__.py": "",
        "parts/middle.py": "from . import other\nimport beside_parts\n",
        "parts/other.py": "",
        "beside_parts.py": "",
        "not_needed.py": "raise ValueError\n",
        "json.py": "",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "json.py").unlink()
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_file_of_python_is_read_with_the_modules_that_it_imports(directory: Path) -> None:
    path = list(sys.path)
    for asked in ("night_job.py", directory / "night_job.py", directory / "night_job.py:nightly"):
        job = read_job(Path(asked))
        assert [(vertex.vertex_id, vertex.task) for vertex in job.graph.vertices] == [
            ("read", "night_job:read"),
            ("total", "SELECT count(*) AS n FROM rows"),
        ]
        assert [each.name for each in job.code] == ["beside_parts.py", "deep.py", "helpers.py", "night_job.py", "parts"]
    assert sys.path == path


def test_a_file_is_read_as_it_is_now_and_this_process_keeps_its_modules(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(directory)
    helpers, job = importlib.import_module("helpers"), importlib.import_module("night_job").nightly
    (directory / "night_job.py").write_text(JOB.replace("import helpers", "from helpers import WHO").replace('id="total"', "id=WHO"))
    (directory / "helpers.py").write_text("WHO = 'someone'")
    assert [vertex.vertex_id for vertex in described("night_job.py").graph.vertices] == ["read", "someone"]
    assert [vertex.vertex_id for vertex in described(job).graph.vertices] == ["read", "total"]
    assert sys.modules["helpers"] is helpers


def test_a_job_beside_a_checkout_neither_takes_it_along_nor_loads_it_anew(directory: Path) -> None:
    checkout = Path(eventflink.__file__).parents[1]
    assert local_modules(["eventflink"], checkout) == []
    assert not [name for name in _modules_below(str(checkout)) if name.startswith("eventflink")]
    (directory / "src" / "deep").mkdir(parents=True)
    (directory / "src" / "deep" / "elsewhere.py").write_text("")
    sys.path.insert(0, str(directory / "src" / "deep"))
    kept = importlib.import_module("elsewhere")
    sys.path.pop(0)
    assert _modules_below(str(directory)) == {}
    read_job(directory / "night_job.py")
    assert sys.modules["elsewhere"] is kept


def test_a_program_is_found_by_the_name_of_its_file_or_that_it_was_started_by(directory: Path) -> None:
    program = (
        JOB
        + "\nif __name__ == '__main__':\n    print(nightly.document()['vertices'][0]['python'], *[each.name for each in nightly.code()])\n"
    )
    (directory / "parts" / "program.py").write_text(program.replace("import helpers", "from parts import other"))
    for command, said in (
        (["parts/program.py"], "program:read program.py"),
        (["-m", "parts.program"], "parts.program:read beside_parts.py parts"),
    ):
        environment = os.environ | {"PYTHONPATH": f"{directory}{os.pathsep}{Path(eventflink.__file__).parents[1]}"}
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout.strip() == said, done.stderr


def test_packages_without_an_init_file_travel_under_their_names(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "parts" / "__init__.py").unlink()
    (directory / "click").mkdir()  # Python takes the installed one, which has that file.
    (directory / "click" / "own.py").write_text("")
    (directory / "parts" / "night.py").write_text(JOB.replace("import helpers", "import parts.middle, click"))
    monkeypatch.syspath_prepend(directory)
    job = importlib.import_module("parts.night").nightly
    assert job.document()["vertices"][0]["python"] == "parts.night:read"
    archive = zipfile.ZipFile(io.BytesIO(build_archive(job.code())))
    assert archive.namelist() == ["beside_parts.py", "parts/middle.py", "parts/night.py", "parts/other.py", "parts/"]
    assert read_job(Path("parts/night.py")).code == (directory / "parts" / "night.py",)
    monkeypatch.delitem(sys.modules, "parts")
    assert local_modules(["parts"], directory) == []  # A notebook may have that name for something else.


def test_a_job_whose_module_is_not_where_its_name_says_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("another_name", directory / "night_job.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(directory)
    monkeypatch.setitem(sys.modules, "another_name", module)
    spec.loader.exec_module(module)
    with pytest.raises(InvalidJobGraph, match=r"job 'nightly': module not found: 'another_name' is not in .*, so that its code cannot"):
        described(module.nightly)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_it\n", "{file}, line 1: ModuleNotFoundError: No module named 'nothing_of_it'"),
        ("\n\nx = (\n", "{file}, line 3: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit('no')\n", "{file}, line 2: SystemExit: no"),
        ("x = 1\n", "job not found: {file} has no function with @eventflink.job"),
        (
            JOB + "\n@eventflink.job\ndef weekly(): ...\n",
            "job not found: {file} has several jobs: name one of them, such as {file}:nightly",
        ),
        (JOB.replace("read(day)", "1 / 0"), "{file}, line 12: ZeroDivisionError: division by zero"),
        (
            JOB.replace("read(day)", "read()"),
            "job 'nightly': task 'read': missing a required argument: 'day' (wrong_job.py, line 12)",
        ),
        (JOB.replace("@eventflink.job", "@eventflink.job(name=5)"), "job '5': name: must be a text, not 5"),
        (
            JOB.replace("@eventflink.job", "@eventflink.job(parameters={'day': 5})"),
            "job 'nightly': parameters.day: must be a mapping, not 5",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_named_with_its_line(
    directory: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = directory / "wrong_job.py"
    file.write_text(text)
    with pytest.raises(InvalidJobGraph) as raised:
        read_job(file)
    assert str(raised.value).startswith(said.format(file=file))
    assert run(["info", str(file)]) == ExitCode.USAGE
    assert said.format(file=file) in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import broken\n", "{broken}, line 5: SyntaxError: '(' was never closed (imported at wrong_job.py, line 1)"),
        ("\nimport by_way\n", "{broken}, line 5: SyntaxError: '(' was never closed (imported at wrong_job.py, line 2)"),
        ("\n\ncompile('(', '<a text>', 'exec')\n", "{file}, line 3: SyntaxError: '(' was never closed (<a text>, line 1)"),
    ],
)
def test_a_file_that_is_not_python_is_named_and_what_imports_it(directory: Path, text: str, said: str) -> None:
    file, broken = directory / "wrong_job.py", directory / "broken.py"
    file.write_text(text)
    broken.write_text("\n\n\n\nx = (\n")
    (directory / "by_way.py").write_text("import broken\n")
    with pytest.raises(InvalidJobGraph) as raised:
        read_job(file)
    assert str(raised.value) == said.format(file=file, broken=broken)


@pytest.mark.parametrize(
    ("name", "fitting"), [("my-job", "my_job"), ("nightly.v2", "nightly_v2"), ("my job", "my_job"), ("2026_job", "job_2026_job")]
)
def test_a_file_whose_name_no_module_can_have_is_to_be_renamed(directory: Path, name: str, fitting: str) -> None:
    file = directory / f"{name}.py"
    file.write_text(f"{JOB}\nif __name__ == '__main__':\n    print(nightly.document())\n")
    said = f"invalid file name: no module can be called '{name}', as which the tasks of {file} are loaded: rename the file to {fitting}.py"
    with pytest.raises(InvalidJobGraph) as raised:
        read_job(file)
    assert str(raised.value) == said
    program = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert said in program.stderr


def test_a_file_that_is_not_there_and_a_module_of_another_place_are_named(directory: Path) -> None:
    with pytest.raises(InvalidJobGraph, match=r"job file not found: .*none.py"):
        read_job(directory / "none.py")
    with pytest.raises(InvalidJobGraph, match=r"has no 'weekly' with @eventflink.job; it has nightly"):
        read_job(Path("night_job.py:weekly"))
    (directory / "click.py").write_text(JOB)
    with pytest.raises(InvalidJobGraph, match=r"click.py: a module 'click' is there already, from another place"):
        read_job(directory / "click.py")
    (directory / "not_python.py").write_text("(")
    with pytest.raises(ArchiveError, match=r"not_python.py cannot be read as Python: .*was never closed"):
        local_modules(["not_python"], directory)
    (directory / "site-packages").mkdir()
    (directory / "site-packages" / "a.py").write_text("")
    assert local_modules(["a"], directory / "site-packages") == []


def test_the_example_of_the_document_is_a_job(directory: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    [example] = [each for each in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "@eventflink.job" in each]
    (directory / "page.py").write_text(example)
    job = read_job(directory / "page.py")
    assert [vertex.vertex_id for vertex in job.graph.vertices] == ["orders", "totals", "at_home"]
    assert [(edge.source, edge.target, edge.input_name, edge.ship) for edge in job.graph.edges] == [
        ("orders", "totals", "orders", "HASH"),
        ("orders", "at_home", "o", "REBALANCE"),
    ]


@pytest.mark.usefixtures("directory")
def test_the_command_line_takes_a_file_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "night_job.py"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "nightly: vertices 2, tasks 2" in said
    assert "night_job:read" in said


def test_what_a_file_prints_is_nothing_of_what_the_command_says(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "loud_job.py").write_text(JOB.replace("import helpers", "import helpers; print('read')") + "    print('put together')\n")
    assert run(["info", "loud_job.py"]) == ExitCode.OK
    said = capsys.readouterr()
    assert said.out.startswith("nightly: vertices 2")
    assert said.err == "read\nput together\n"


def test_what_may_be_given_for_a_job_is_one_list() -> None:
    documents: list[Document] = [revenue, DOCUMENT, described(revenue).graph]
    assert len({graph_digest(described(each).graph) for each in documents}) == 1


@eventflink.task(runs="always", retries=2)
def cleaned(context: TaskContext, table: str) -> None:
    assert context.outcome is not None, table


@eventflink.task
def sampled(context: TaskContext, limit: int = 10) -> Any:
    return context.spark.range(limit)


def test_a_default_of_a_task_is_not_replaced_unsaid_by_a_parameter_of_the_job() -> None:
    @eventflink.job
    def unsaid(limit: int = 100) -> None:  # noqa: ARG001 - declared, and handed to no task
        sampled()

    @eventflink.job
    def said(limit: int = 100) -> None:
        sampled(limit)

    @eventflink.job
    def other(most: int = 100) -> None:  # noqa: ARG001 - declared, and handed to no task
        sampled()

    with pytest.raises(
        InvalidJobGraph, match=r"vertex 'sampled': its argument 'limit' has a default, and is a parameter of the job, which"
    ):
        described(unsaid)
    assert [json.loads(described(each).graph.vertices[0].parameters_json or "{}") for each in (said, other)] == [{}, {}]


def test_a_task_that_says_when_it_runs_closes_its_job() -> None:
    @eventflink.job(closing_time_limit="5m")
    def closed() -> None:
        eventflink.sql("SELECT 1 AS path", id="files")
        eventflink.sql("SELECT :job_status", id="told", options={"runs": "on-success"})
        cleaned("staging")

    graph = described(closed).graph
    assert [(vertex.vertex_id, vertex.runs) for vertex in graph.vertices] == [
        ("files", VertexRuns.IN_TURN),
        ("told", VertexRuns.ON_SUCCESS),
        ("cleaned", VertexRuns.ALWAYS),
    ]
    assert (graph.edges, graph.closing_time_limit_ms) == ((), 300_000)


@eventflink.task
def kept(orders: object) -> object:
    return orders


def test_a_condition_names_what_another_task_returns() -> None:
    @eventflink.job
    def branches() -> None:
        found = eventflink.sql("SELECT 1 AS n", id="found")
        parts = split(found)
        kept.options(id="load", when={"rows_of": found})(found)
        kept.options(id="late", when={"no_rows_of": parts.output("bad")})(found)
        eventflink.sql("SELECT 1", id="named", options={"when": {"rows_of": "found"}})

    assert {vertex["id"]: vertex.get("when") for vertex in branches.document()["vertices"]} == {
        "found": None,
        "split": None,
        "load": {"rows_of": "found"},
        "late": {"no_rows_of": "split.bad"},
        "named": {"rows_of": "found"},
    }
    assert described(branches).graph.vertices[3].condition == RowCondition(source="split", output="bad", has_rows=False)


def test_how_a_condition_is_read_is_not_said() -> None:
    @eventflink.job
    def shipped() -> None:
        found = eventflink.sql("SELECT 1 AS n", id="found")
        kept.options(when={"rows_of": found.hash("n")})(found)

    with pytest.raises(InvalidPythonJob, match=r"vertex 'kept': when.rows_of is not read, only its rows are counted: leave out its 'keys'"):
        shipped.document()


@pytest.mark.parametrize("how", ["a task", "a command"])
def test_a_program_that_runs_its_job_whenever_it_is_imported_is_told_to_do_so_as_a_program_alone(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
import eventflink
from eventflink.jobs.job_files import described
@eventflink.task
def one(context): ...
@eventflink.job
def work(): one()
"""
    name = f"program_{how[2:]}"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def use() -> object:
        sys.modules.pop(name, None)
        return resolve_function(f"{name}:one.function") if how == "a task" else read_job(tmp_path / f"{name}.py")

    (tmp_path / f"{name}.py").write_text(f"{program}\ndescribed(work)\n")
    with pytest.raises(InvalidJobGraph, match=f"while the module '{name}' is imported.*under `if __name__ == '__main__':`"):
        use()
    (tmp_path / f"{name}.py").write_text(f"{program}\nif __name__ == '__main__':\n    described(work)  # of a program\n")
    importlib.invalidate_caches()
    assert use()
    assert described({"name": "one", "vertices": [{"id": "one", "sql": "SELECT 1"}]}).graph.name == "one"
