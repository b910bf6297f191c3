"""`eventflink runs` and `eventflink plan` show a job over its runs, and what a submission would change of it, by REST as from the log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob.keys import blob_key
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.documents.plain import plain
from eventflink.gateways import state_reads
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.gateways.rest_process import cluster_name
from eventflink.jobs.archive import build_archive
from eventflink.jobs.job_files import with_archives
from eventflink.model.job_graph_document import check_job_graph, to_document
from eventflink.processes.announced_address import Announced, announced
from eventflink.views.job_document import document_view
from eventflink.views.plan import job_plan
from eventflink.views.runs import known_runs, names_page, runs_page
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.rest_server import served

NOWHERE = "localhost:1"
NAME = "orders/daily \x1b[2J"
SECRET = "hunter2"


def job(**more: Any) -> dict[str, Any]:
    """Return a job with a statement, a parameter and a secret."""
    document = {
        "name": NAME,
        "parameters": {"day": {"type": "date", "default": "2026-11-01"}},
        "vertices": [
            vertex("read", 2) | {"parameters": {"to": f"https://me:{SECRET}@example.com"}},
            {"id": "count", "sql": "SELECT :day,\n  count(*)\nFROM read"},
        ],
        "edges": [{"from": "read", "to": "count"}],
    }
    return document | more


NIGHT = graph(*[{"id": each, "python": f"night:{each}"} for each in ("load", "clean")], edges=[("load", "clean", "forward")])
NIGHT_CODE = "def load(context):\n    return 10\n\n\ndef clean(context):\n    return 20\n"


def with_night_code(directory: Path, code: str) -> dict[str, Any]:
    """Return the document as it is submitted with a module of code."""
    (directory / "night.py").write_text(code)
    return to_document(with_archives(check_job_graph(NIGHT), [build_archive([directory / "night.py"])], blob_key))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register(slots=8)
    cluster.run(cluster.submit(job(), job_id="one"))
    cluster.pass_time(1_000)
    cluster.run(cluster.submit(job(scheduler="default"), job_id="two"))
    cluster.pass_time(1_000)
    cluster.run(cluster.submit(graph(*[vertex(f"v{number}") for number in range(9)]) | {"name": "wide"}, job_id="wide"))
    cluster.run(cluster.submit(with_night_code(tmp_path_factory.mktemp("code"), NIGHT_CODE), job_id="night"))
    return cluster


@pytest.fixture(scope="module")
def data_directory(cluster: ScriptedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("data")
    with served(cluster) as serving, announced(directory, Announced.REST, serving.url, of_cluster=cluster_name(NOWHERE, "eventflink")):
        yield directory


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(state_reads, "TIMEOUT_S", 60.0)  # But for what is served by a busy machine.
    connect = PartitionReader.__init__
    monkeypatch.setattr(PartitionReader, "__init__", lambda *where, **_timeout: connect(*where, connect_timeout_s=0.2))
    monkeypatch.chdir(tmp_path)


def ask(directory: Path, *command: str) -> int:
    return run(["-D", f"data.directory={directory}", "--bootstrap", NOWHERE, *command])


def planned(directory: Path, document: dict[str, Any], *options: str) -> int:
    Path("job.json").write_text(json.dumps(document))
    return ask(directory, "plan", "job.json", *options)


def test_names_and_runs_are_those_of_the_state(cluster: ScriptedCluster, data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fold = cluster.fold
    assert ask(data_directory, "runs", "--json") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(json.dumps(plain(names_page(known_runs(fold, None), [], "", 0, 100)) | {"log_offset": fold.last_offset}))
    assert ask(data_directory, "runs", NAME, "--json", "--first", "1", "--limit", "5") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(json.dumps(plain(runs_page(known_runs(fold, NAME, 1, 5), [], NAME, 1, 5)) | {"log_offset": fold.last_offset}))


def test_a_line_for_each_run_has_its_version_and_each_vertex_in_words(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(data_directory, "runs", NAME) == ExitCode.OK
    head, columns, two, one = capsys.readouterr().out.splitlines()
    assert head.isprintable()
    assert head.startswith("orders/daily \ufffd[2J: 2 runs of 2 versions, typically ")
    assert columns.split()[:7] == ["run", "version", "status", "submitted", "seconds", "read", "count"]
    assert two.split()[:3] == ["two", "2", "FINISHED"]
    assert one.split()[:3] == ["one", "1", "FINISHED"]
    assert one.count("✔ finished") == 2
    assert "day=2026-11-01" in one
    assert one.endswith("submitted by test (declared)")
    assert ask(data_directory, "runs", "wide") == ExitCode.OK
    assert "9 finished" in capsys.readouterr().out.splitlines()[2]
    assert ask(data_directory, "runs", NAME, "--limit", "1") == ExitCode.OK
    assert "1 more runs are not shown" in capsys.readouterr().err


def test_what_is_not_known_or_too_many_is_one_line(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(data_directory, "runs", "../.." + "x" * 300) == ExitCode.NEGATIVE
    assert "job not found: no run of '../..xxx" in capsys.readouterr().err
    assert ask(data_directory, "runs", NAME, "--limit", "101") == ExitCode.USAGE
    assert "at most 100 runs" in capsys.readouterr().err
    assert ask(data_directory, "runs", "--limit", "1001") == ExitCode.USAGE
    assert ask(data_directory, "runs", "--first", str(2**31)) == ExitCode.USAGE
    assert ask(data_directory / "nobody", "runs") == ExitCode.UNREACHABLE


# -- plan -------------------------------------------------------------------------------------------------------------


def test_the_same_document_is_no_change(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(data_directory, job(scheduler="default"), "--detailed-exitcode") == ExitCode.OK
    said = capsys.readouterr().out
    assert "no changes since two (FINISHED, submitted 20" in said
    assert said.splitlines()[-1] == "it would be version 2, as that run is"
    assert planned(data_directory, job(scheduler="default"), "--param", "day=2026-11-25", "--detailed-exitcode") == ExitCode.OK
    assert "  given: day: 2026-11-01 → 2026-11-25" in capsys.readouterr().out.splitlines()


def test_a_version_that_there_was_is_named(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(data_directory, job()) == ExitCode.OK
    *_, change, last = capsys.readouterr().out.splitlines()
    assert (change, last) == ("~ scheduler: default → cluster-default", "it would be version 1, a version with earlier runs")


def test_each_change_is_named(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("code.py").write_text("def tidy(context): ...\n")
    document = job(
        scheduler="default",
        parameters={"day": {"type": "date", "default": "2026-11-02"}, "limit": {"type": "integer", "default": 5}},
        vertices=[
            vertex("read", 3) | {"parameters": {"to": f"https://me:{SECRET}@example.com"}},
            {"id": "total", "sql": "SELECT 1"},
            {"id": "count", "sql": "SELECT :day,\n  sum(n)\nFROM read"},
        ],
        edges=[{"from": "read", "to": "count", "ship": "broadcast"}, {"from": "count", "to": "total"}],
    )
    assert planned(data_directory, document, "--code", "code.py", "--detailed-exitcode") == 2
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0].startswith("orders/daily \ufffd[2J: changes since version 2, two (FINISHED, ")
    for line in (
        "~ vertex read",
        "    parallelism: 2 → 3",
        "+ vertex total",
        "~ vertex count",
        "      --- two",
        "      +++ job.json",
        "      -  count(*)",
        "      +  sum(n)",
        "~ edge read -> count",
        "+ edge count -> total",
        "~ parameters.day.default: 2026-11-01 → 2026-11-02",
        "it would be version 3, a new version",
    ):
        assert line in lines, (line, said)
    assert any(line.startswith("+ code ") and len(line) == 71 for line in lines)
    assert SECRET not in said


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [("10", "11", ["load"]), ("20", "21", ["clean"]), ("0", "1", ["load", "clean"]), ("20\n", "20\n\n\ndef unused(): ...\n", [])],
)
def test_of_newer_code_those_vertices_are_changed_that_are_made_of_it(
    data_directory: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, changed: list[str]
) -> None:
    Path("night.py").write_text(NIGHT_CODE.replace(old, new))
    assert planned(data_directory, NIGHT, "--code", "night.py", "--json") == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)
    assert [(each["name"], [key["key"] for key in each["keys"]]) for each in plan["parts"]] == [(each, ["code_digest"]) for each in changed]
    assert len(plan["code_added"]) == len(plan["code_removed"]) == 1
    assert plan["is_new_version"]


def test_the_same_code_is_no_change_whoever_has_looked_at_it(cluster: ScriptedCluster, tmp_path: Path) -> None:
    document = with_night_code(tmp_path, NIGHT_CODE)
    document["vertices"] = [{key: each[key] for key in each if key != "code_digest"} for each in document["vertices"]]
    name = document["name"]
    runs = runs_page(known_runs(cluster.fold, name, 0, 1), [], name, 0, 1)
    plan = job_plan(check_job_graph(document), runs, document_view(cluster.fold, "night"), "job.json")
    assert (plan.parts, plan.has_changes, plan.hidden) == ([], False, False)


def test_a_secret_that_differs_is_said_and_never_shown(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = job(scheduler="default")
    document["vertices"][0]["parameters"]["to"] = "https://me:horse@example.com"
    assert planned(data_directory, document, "--json", "--detailed-exitcode") == 2
    said = capsys.readouterr().out
    plan = json.loads(said)
    assert (plan["hidden"], plan["parts"], plan["settings"], plan["version"], plan["is_new_version"]) == (True, [], [], 3, True)
    assert "horse" not in said
    assert planned(data_directory, document) == ExitCode.OK
    assert "~ a secret has another value" in capsys.readouterr().out.splitlines()


def test_the_first_document_of_a_name_is_all_new(data_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(data_directory, job(name="never seen"), "--detailed-exitcode") == 2
    assert capsys.readouterr().out.splitlines() == ["never seen: no run of this name is known; all of it is new", "it would be version 1"]


@pytest.mark.parametrize(("options", "exit_code"), [((), ExitCode.USAGE), (("--detailed-exitcode",), ExitCode.NEGATIVE)])
def test_a_document_that_is_no_job_is_never_taken_for_a_change(
    data_directory: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], exit_code: ExitCode
) -> None:
    assert planned(data_directory, job(vertices=[]), *options) == exit_code
    assert "job.json: " in capsys.readouterr().err
    assert ask(data_directory, "plan", "nothing.yaml", *options) == exit_code
    assert planned(data_directory, job(), "--param", "day=nonsense", *options) == exit_code


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "job.json", "--jsn"),
        ("plan",),
        ("plan", "job.json", "--param", "day"),
        ("plan", "job.json", "--code", "nowhere.py"),
        ("-D", "nonsense", "plan", "job.json"),
        ("-D", "no.such.key=1", "plan", "job.json"),
        ("-c", "nowhere", "plan", "job.json"),
        ("--context", "nobody", "plan", "job.json"),
    ],
    ids=" ".join,
)
def test_no_mistake_in_a_command_line_is_taken_for_a_change(
    data_directory: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    Path("job.json").write_text(json.dumps(job()))
    assert ask(data_directory, *words) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert ask(data_directory, *words, "--detailed-exitcode") == ExitCode.NEGATIVE
    assert ask(data_directory, *words, "--detailedExitcode") == ExitCode.NEGATIVE
    assert capsys.readouterr().err == 2 * said


def test_another_order_is_a_change_of_its_own(cluster: ScriptedCluster) -> None:
    document = job(scheduler="default")
    document["vertices"].reverse()
    runs = runs_page(known_runs(cluster.fold, NAME, 0, 1), [], NAME, 0, 1)
    plan = job_plan(check_job_graph(document), runs, document_view(cluster.fold, "two"), "job.json")
    assert [(each.key, each.before, each.after) for each in plan.settings] == [("order of vertices", ["read", "count"], ["count", "read"])]
    assert (plan.parts, plan.hidden, plan.version) == ([], False, 3)
