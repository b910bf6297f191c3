"""Modules beside a document: `dev` finds those that its vertices name, and who submits it without them is warned."""

import hashlib
from pathlib import Path

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.jobs.archive import build_archive
from eventflink.jobs.modules_beside import code_beside, modules_left_out
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph

DOCUMENT = "name: night\nvertices: [{id: load, python: 'night:load'}, {id: count, sql: 'SELECT 1 AS one'}]\n"
WARNED = "warning: vertex 'load': the module 'night' is in no code archive of the job, and not installed here: give it by --code"


def graph_of(*tasks: str) -> JobGraph:
    vertices = [{"id": f"v{number}", "python": task} for number, task in enumerate(tasks)]
    return parse_job_graph({"name": "g", "vertices": vertices}, "document")


def test_the_code_beside_a_document_is_what_its_vertices_name(tmp_path: Path) -> None:
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "data").mkdir()
    for name in ("module.py", "other.py"):
        (tmp_path / name).touch()
    tasks = ("module:f", "package.inner:g", "installed:h", "data:k", "module:m")
    vertices = [{"id": f"v{number}", "python": task} for number, task in enumerate(tasks)]
    graph = parse_job_graph({"name": "g", "vertices": vertices}, "document")
    assert code_beside(graph, tmp_path) == [tmp_path / "module.py", tmp_path / "package"]


def test_modules_that_lie_beside_a_document_and_stay_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "a package").mkdir()
    (tmp_path / "a package" / "night").mkdir()
    package = tmp_path / "a package" / "night"
    (package / "__init__.py").touch()
    for name in ("here/night.py", "day.py", "json.py", "click.py", "tool.py"):
        (tmp_path / name).touch()
    graph = graph_of("night:load", "night.later:load", "day:f", "json:dumps", "click:echo", "nowhere:f")
    why = "is in no code archive of the job, and not installed here: give it by --code"
    told = [
        f"vertex 'v0' (and 1 more): the module 'night' {why} '{package}'",
        f"vertex 'v2': the module 'day' {why} {tmp_path}/day.py",
    ]
    assert modules_left_out(graph, [], (package.parent, tmp_path / "here", tmp_path)) == told
    assert modules_left_out(graph, [build_archive([tmp_path / "tool.py"])], (package.parent, tmp_path)) == told
    assert modules_left_out(graph, [build_archive([tmp_path / "day.py"])], (package.parent, tmp_path)) == told[:1]
    assert not modules_left_out(graph, [build_archive([package]), build_archive([tmp_path / "day.py"])], (package.parent, tmp_path))
    assert not modules_left_out(graph, [], (tmp_path / "nowhere",))


def test_of_archives_that_a_document_names_nobody_knows_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "night.py").touch()
    key = hashlib.sha256(b"code").hexdigest()
    named = {"name": "g", "vertices": [{"id": "a", "python": "night:load"}], "code_archives": [key]}
    assert not modules_left_out(parse_job_graph(named, "document"), [], (tmp_path,))


@pytest.mark.parametrize("command", [("plan",), ("submit",), ("schedule", "put", "nightly")], ids=" ".join)
def test_who_leaves_code_out_is_warned(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cluster is asked before that: there is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "night.yaml").write_text(DOCUMENT)
    (tmp_path / "nightly.yaml").write_text("cron: '0 2 * * *'\njob: jobs/night.yaml\n")
    file = "nightly.yaml" if "put" in command else "jobs/night.yaml"

    def said(*more: str) -> list[str]:
        assert run(["-D", f"data.directory={tmp_path / 'data'}", *command, file, *more]) != ExitCode.OK
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]

    assert not said()
    (tmp_path / "night.py").touch()
    assert said() == [f"{WARNED} night.py"]
    (tmp_path / "jobs" / "night.py").touch()
    assert said() == [f"{WARNED} jobs/night.py"]
    assert not said("--code", "night.py")
