"""SQL in files: found beside the document, packed as one archive, read from there, and a part of what its vertices are made of."""

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventflink.events.effects import TaskDeployment
from eventflink.jobs.archive import ArchiveError, ArchiveKind, kind_of
from eventflink.jobs.bundle import Bundle, BundleError
from eventflink.jobs.job_files import DescribedJob, read_job, with_archives, with_newer_code
from eventflink.jobs.sql_doubts import doubts_of
from eventflink.jobs.sql_files import MAX_SQL_BYTES, MAX_SQL_FILE_BYTES, with_sql_in_files
from eventflink.model.attempts import AttemptId
from eventflink.model.document_text import read_document
from eventflink.model.job_graph import ChainedOperator, JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, check_job_graph, parse_job_graph, to_document
from eventflink.model.reuse import VertexCode
from eventflink.model.statuses import TaskType
from eventflink.taskexecutor.failure_causes import CodeUnusable
from eventflink.taskexecutor.task_code import with_statements

DOCUMENT = """
name: models
vertices:
  - {id: raw, python: "models:raw"}
  - {id: orders, sql_file: models/orders.sql}
  - {id: totals, sql_file: models/totals.sql}
  - {id: shown, sql: SELECT * FROM totals}
edges:
  - {from: raw, to: orders}
  - {from: orders, to: totals}
  - {from: totals, to: shown}
"""
STREAM: dict[str, Any] = {
    "id": "s",
    "sql_file": "s.sql",
    "stream": {"sources": {"ticks": {"rate": {"rows_per_second": 1}}}, "sink": {"kafka": {"topic": "t"}, "format": "json"}},
}
stored: dict[str, bytes] = {}


def store(data: bytes) -> str:
    key = hashlib.sha256(data).hexdigest()
    stored[key] = data
    return key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "orders.sql").write_text("SELECT id, amount FROM raw -- those that count\n")
    (tmp_path / "models" / "totals.sql").write_text("SET VAR a = 1;\nSELECT sum(amount) AS amount FROM orders")
    (tmp_path / "models.py").write_text("def raw(context):\n    return context.spark.range(1)\n")
    (tmp_path / "job.yaml").write_text(DOCUMENT)
    return tmp_path


def packed(folder: Path, *code: Path) -> JobGraph:
    job = read_job(folder / "job.yaml")
    return with_archives(job.graph, job.archives(code), store)


def kinds_of(graph: JobGraph) -> list[ArchiveKind]:
    return [kind_of(io.BytesIO(stored[key])) for key in graph.code_archives]


def changed(before: JobGraph, after: JobGraph) -> set[str]:
    """Return the vertices whose code is another."""
    codes = [{each.vertex_id: VertexCode(each.code_digest, graph.code_archives) for each in graph.vertices} for graph in (before, after)]
    return {name for name, code in codes[0].items() if code.may_differ(codes[1][name])}


def test_a_path_is_what_the_record_has_and_its_document_is_the_same_graph() -> None:
    graph = parse_job_graph(DOCUMENT, "f")
    assert [(each.task_type, each.task) for each in graph.vertices[:2]] == [
        (TaskType.PYTHON, "models:raw"),
        (TaskType.SQL_FILE, "models/orders.sql"),
    ]
    assert check_job_graph(to_document(graph)) == graph
    assert read_document(DOCUMENT)["vertices"][1].items() <= to_document(graph)["vertices"][1].items()


@pytest.mark.parametrize("path", ["/etc/x.sql", "../x.sql", "a/../x.sql", "./x.sql", "a//x.sql", "", "a\\x.sql", "a\nb.sql", "x" * 513])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(InvalidJobGraph, match=r"vertices\[0\]\.sql_file"):
        check_job_graph({"name": "n", "vertices": [{"id": "a", "sql_file": path}]})


@pytest.mark.parametrize(
    ("vertex", "message"),
    [
        ({"sql": "SELECT 1"}, "exactly one of 'python', 'sql' and 'sql_file' says what it runs"),
        ({"parameters": {"parallelism": 1}}, "the name is taken"),
        ({"parameters": {"p": {"secret": "s"}}}, "a secret is for a 'python' function only"),
    ],
)
def test_a_file_is_held_to_the_rules_of_a_statement(vertex: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobGraph, match=message):
        check_job_graph({"name": "n", "vertices": [{"id": "a", "sql_file": "a.sql", **vertex}]})


def test_of_two_inputs_whose_names_differ_by_case_alone_one_is_refused() -> None:
    vertices = [{"id": "a", "sql": "SELECT 1"}, {"id": "A", "sql": "SELECT 1"}, {"id": "b", "sql_file": "b.sql"}]
    with pytest.raises(InvalidJobGraph, match="upper and lower case are one in SQL"):
        check_job_graph({"name": "n", "vertices": vertices, "edges": [{"from": "a", "to": "b"}, {"from": "A", "to": "b"}]})


def test_all_files_travel_as_one_archive_beside_the_code(folder: Path) -> None:
    job = read_job(folder / "job.yaml")
    assert set(job.sql_files) == {"models/orders.sql", "models/totals.sql"}
    assert job.has_code
    assert kinds_of(packed(folder, folder / "models.py")) == [ArchiveKind.CODE, ArchiveKind.SQL]
    assert kinds_of(packed(folder)) == [ArchiveKind.SQL]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        (b"  -- nothing;\n", "the query is empty"),
        (b"\xff", "codec can't decode"),
        (b"x" * (MAX_SQL_FILE_BYTES + 1), "longer than"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_with_its_vertex(folder: Path, text: bytes | None, message: str) -> None:
    file = folder / "models" / "orders.sql"
    file.unlink() if text is None else file.write_bytes(text)
    with pytest.raises(InvalidJobGraph, match=f"job.yaml: vertex 'orders': sql_file: models/orders.sql: .*{message}"):
        read_job(folder / "job.yaml")


def test_the_file_of_a_stream_has_one_statement(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(str({"name": "n", "vertices": [STREAM]}).replace("'", '"'))
    (tmp_path / "s.sql").write_text("SELECT 1; SELECT 2")
    with pytest.raises(InvalidJobGraph, match=r"vertex 's': sql_file: s\.sql: sql: a stream is one statement"):
        read_job(tmp_path / "job.json")
    (tmp_path / "s.sql").write_text("SELECT value FROM ticks;")
    assert read_job(tmp_path / "job.json").sql_files == {"s.sql": "SELECT value FROM ticks;"}


def test_a_file_that_is_mended_changes_its_vertex_alone(folder: Path) -> None:
    before = packed(folder, folder / "models.py")
    (folder / "models" / "totals.sql").write_text("SELECT sum(amount) AS amount FROM orders")
    assert changed(before, packed(folder, folder / "models.py")) == {"totals"}
    job = read_job(folder / "job.yaml")
    after = with_newer_code(job.graph, job.archives(), store, stored.__getitem__, before.code_archives)
    assert kinds_of(after) == [ArchiveKind.CODE, ArchiveKind.SQL], "the code is that of the ended job"
    assert changed(before, after) == {"totals"}


def test_newer_code_leaves_the_files_as_they_were(folder: Path) -> None:
    before = packed(folder, folder / "models.py")
    (folder / "models.py").write_text("def raw(context):\n    return context.spark.range(2)\n")
    code = DescribedJob(before).archives([folder / "models.py"])
    after = with_newer_code(before, code, store, stored.__getitem__, before.code_archives)
    assert kinds_of(after) == [ArchiveKind.CODE, ArchiveKind.SQL]
    assert changed(before, after) == {"raw"}
    mapping = check_job_graph(read_document(DOCUMENT))
    again = with_newer_code(mapping, code, store, stored.__getitem__, before.code_archives)
    assert {each.code_digest[16:] for each in again.vertices} == {each.code_digest[16:] for each in after.vertices}


def test_a_file_that_no_archive_has_is_told_before_the_job_is_submitted(folder: Path) -> None:
    archives = DescribedJob(check_job_graph(read_document(DOCUMENT))).archives([folder / "models.py"])
    with pytest.raises(ArchiveError, match=r"vertex 'orders': sql_file not found in the job's code: models/orders\.sql"):
        with_archives(check_job_graph(read_document(DOCUMENT)), archives, store)


def test_files_that_are_code_are_found_as_well(folder: Path) -> None:
    graph = check_job_graph(read_document(DOCUMENT))
    archives = DescribedJob(graph).archives([folder])
    assert all(each.code_digest for each in with_archives(graph, archives, store).vertices)


def test_what_a_task_runs_is_the_text_of_the_first_archive_that_has_its_file(folder: Path, tmp_path: Path) -> None:
    [archive] = read_job(folder / "job.yaml").archives()
    first, second = tmp_path / "a.zip", tmp_path / "b.zip"
    first.write_bytes(archive)
    with zipfile.ZipFile(second, "w") as opened:
        opened.writestr("models/orders.sql", "SELECT 2")
        opened.writestr("part.sql", "SELECT 3")
    place = (AttemptId("j", "orders", 0, 1).job_id, "orders", 0, 1)
    told = TaskDeployment(*place, "slot", 0, "name", TaskType.SQL_FILE, "models/orders.sql", 1, 8, "{}", (), (), ())
    assert with_statements(told, [first, second]).task.startswith("SELECT id, amount")
    assert with_statements(told, [second, first]).task == "SELECT 2"
    assert with_statements(told, [second]).task_type is TaskType.SQL
    stream = check_job_graph({"name": "n", "vertices": [STREAM]}).vertices[0].stream
    assert stream is not None
    part: dict[str, Any] = {"operator_id": "c", "task_type": TaskType.SQL_FILE, "task": "part.sql", "parameters_json": "{}"}
    stream = replace(stream, chained=(ChainedOperator(**part, input_name="s", row_schema="id BIGINT"),))
    made = with_statements(replace(told, stream=stream), [second])
    assert made.stream is not None
    assert [(each.task_type, each.task) for each in made.stream.chained] == [(TaskType.SQL, "SELECT 3")]
    with pytest.raises(CodeUnusable, match=r"^sql_file not found: models/orders\.sql; the code archives of the job are none$"):
        with_statements(told, [])
    second.write_bytes(b"no zip")
    with pytest.raises(CodeUnusable, match=r"^sql_file models/orders\.sql cannot be read: the archive is damaged"):
        with_statements(told, [second])


def test_what_looks_wrong_in_a_file_is_told(folder: Path) -> None:
    (folder / "models" / "orders.sql").write_text("SELECT a b c FROM raw")
    job = read_job(folder / "job.yaml")
    [doubt] = doubts_of(job.graph, job.sql_files)
    assert doubt.startswith("vertex 'orders': here the statement looks like no SQL of Spark's")


def test_a_bundle_has_files_from_its_top(folder: Path) -> None:
    bundle = folder / "b.zip"
    with zipfile.ZipFile(bundle, "w") as opened:
        opened.writestr("job.yaml", DOCUMENT)
        opened.writestr("models/orders.sql", "SELECT 1")
    with Bundle(bundle) as opened_bundle, pytest.raises(BundleError, match=r"vertex 'totals': sql_file: models/totals\.sql: "):
        opened_bundle.graph(*opened_bundle.document("job.yaml"))
    with zipfile.ZipFile(bundle, "a") as opened:
        opened.writestr("models/totals.sql", "SELECT 2")
    with Bundle(bundle) as opened_bundle:
        assert opened_bundle.graph(*opened_bundle.document("job.yaml")).vertices[2].task == "models/totals.sql"


def test_sql_that_is_too_much_for_a_record_travels_in_files(tmp_path: Path) -> None:
    def described(vertices: int) -> DescribedJob:
        document = {"name": "n", "vertices": [{"id": f"v{n}", "sql": f"SELECT {n} {'x' * 1_000}"} for n in range(vertices)]}
        (tmp_path / "job.json").write_text(str(document).replace("'", '"'))
        return read_job(tmp_path / "job.json")

    few, many = described(10), described(MAX_SQL_BYTES // 1_000)
    assert not few.has_code
    assert few.graph.vertices[0].task_type is TaskType.SQL
    assert [many.graph.vertices[3].task, many.sql_files["v3.sql"][:8]] == ["v3.sql", "SELECT 3"]
    assert kinds_of(with_archives(many.graph, many.archives(), store)) == [ArchiveKind.SQL]
    assert with_sql_in_files(many.graph) == (many.graph, {})
