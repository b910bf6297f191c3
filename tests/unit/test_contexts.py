"""A context names a cluster: what a command line says itself counts more, and a broken file is one line that names it."""

import json
import os
from pathlib import Path

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.session.contexts import MAX_CONTEXTS, ClusterContext, contexts_file, load_contexts
from eventflink.session.errors import SessionInvalid
from eventflink.session.finding import find_session


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EVENTFLINK_CONFIG", "EVENTFLINK_CONF_DIR", "EVENTFLINK_BOOTSTRAP", "EVENTFLINK_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str) -> Path:
    path = contexts_file(os.environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def commands(*lines: str) -> None:
    for line in lines:
        assert run(["context", *line.split()]) == ExitCode.OK


def test_what_is_set_is_listed_changed_in_part_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands("set prod --bootstrap kafka:9092 --cluster-id one", "set dev --config conf", "use prod", "set prod --cluster-id two")
    capsys.readouterr()
    commands("list --json")
    assert json.loads(capsys.readouterr().out) == {
        "current": "prod",
        "contexts": {"prod": {"bootstrap": "kafka:9092", "cluster-id": "two"}, "dev": {"config": str(home / "conf")}},
    }
    commands("list")
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["dev", str(home / "conf")],
        ["*", "prod", "kafka:9092", "two"],
    ]
    commands("remove prod", "list --json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["current"] is None


def test_a_context_counts_more_than_the_default_and_less_than_the_command_line(home: Path) -> None:
    (home / "conf").mkdir()
    (home / "conf" / "eventflink.yaml").write_text("cluster.id: of-the-file\nbootstrap.servers: file:1")
    commands("set prod --bootstrap kafka:9092 --cluster-id one", "set there --config conf", "use prod")
    used = find_session({})
    assert (used.bootstrap, used.cluster_id, used.key_sources["cluster.id"]) == ("kafka:9092", "one", "context prod")
    there = find_session({"context_name": "there"})
    assert (there.bootstrap, there.cluster_id) == ("file:1", "of-the-file")
    assert find_session({"context_name": "prod", "cluster_id": "mine"}).cluster_id == "mine"
    assert find_session({"context_name": "prod", "overrides": {"bootstrap.servers": "mine:1"}}).bootstrap == "mine:1"


@pytest.mark.parametrize(
    "options", [{"bootstrap": "b:1"}, {"overrides": {"bootstrap.servers": "b:1"}}, {"config": Path("conf/eventflink.yaml")}]
)
def test_the_context_in_use_is_left_out_where_the_command_line_names_a_cluster(home: Path, options: dict[str, object]) -> None:
    (home / "conf").mkdir()
    (home / "conf" / "eventflink.yaml").write_text("bootstrap.servers: b:1")
    commands("set prod --bootstrap kafka:9092 --cluster-id one", "use prod")
    session = find_session(options)
    assert (session.bootstrap, session.cluster_id) == ("b:1", "eventflink")


def test_without_a_context_in_use_there_is_none() -> None:
    commands("set prod --cluster-id one", "use prod", "use")
    assert find_session({}).cluster_id == "eventflink"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "it has to be a mapping"),
        ("contexts: [a]", "'contexts' has to be a mapping"),
        ("contexts: {a: 1}", "'a' has to be a mapping of texts"),
        (
            "contexts: {a: {bootstrapp: x}}",
            "'a': unknown key: 'bootstrapp'; known: bootstrap, cluster-id, config (did you mean 'bootstrap'?)",
        ),
        ("contexts: {a: {bootstrap: 1}}", "'a' has to be a mapping of texts"),
        ("a: [", "invalid contexts file"),
        ("x" * (1024 * 1024 + 1), "it is longer than"),
    ],
)
def test_a_broken_file_is_named_and_can_be_mended(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(text)
    assert run(["list"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert said in captured.err
    assert str(path) in captured.err
    assert run(["-h"]) == run(["completion", "bash"]) == ExitCode.OK


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("context use prd", "context not found: 'prd'"),
        ("context use prd", "did you mean 'prod'?"),
        ("context remove other", "context not found: 'other'"),
        ("context set empty", "context 'empty' would be empty"),
        ("context set ../x --cluster-id a", "invalid name of a context"),
        ("--context prd list", "did you mean 'prod'?"),
    ],
)
def test_a_mistake_is_one_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands("set prod --bootstrap kafka:9092")
    capsys.readouterr()
    assert run(line.split()) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert said in captured.err


def test_a_context_in_use_that_is_gone_is_told_and_another_can_be_used() -> None:
    write("current: gone\ncontexts: {here: {cluster-id: one}}")
    with pytest.raises(SessionInvalid, match="context not found: 'gone'"):
        find_session({})
    commands("use here")
    assert find_session({}).cluster_id == "one"


def test_there_is_a_bound_on_contexts() -> None:
    known = load_contexts(contexts_file(os.environ))
    for number in range(MAX_CONTEXTS):
        known.put(f"c{number}", ClusterContext(cluster_id="x"))
    known.put("c0", ClusterContext(cluster_id="y"))
    with pytest.raises(SessionInvalid, match=f"has {MAX_CONTEXTS} contexts already"):
        known.put("more", ClusterContext(cluster_id="x"))
