"""A shell is offered what is there now, and nothing where that cannot be asked; it never gets an error to show."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from eventflink.cli import completion, state
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import cli, run
from eventflink.cli.session import Session
from eventflink.documents.runs import JobNamesPage
from eventflink.gateways import state_reads
from eventflink.gateways.rest_process import cluster_name
from eventflink.processes.announced_address import Announced, announced
from tests.support.command_line import commands_of
from tests.support.recorded_cluster import recorded_cluster
from tests.support.rest_server import served

NOWHERE = "localhost:1"
VARIABLE = "_EVENTFLINK_COMPLETE"


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENTFLINK_CONFIG", "EVENTFLINK_CONF_DIR", "EVENTFLINK_BOOTSTRAP", "EVENTFLINK_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(state_reads, "TIMEOUT_S", 60.0)  # But for what is served by a busy machine.


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("data")
    with (
        served(recorded_cluster()) as serving,
        announced(directory, Announced.REST, serving.url, of_cluster=cluster_name(NOWHERE, "eventflink")),
    ):
        yield directory


def offered(*words: str, directory: Path | None = None) -> dict[str, str | None]:
    kind = get_completion_class("zsh")
    assert kind is not None
    where = ["-D", f"data.directory={directory}"] if directory is not None else []
    *before, incomplete = words
    items = kind(cli, {}, "eventflink", VARIABLE).get_completions([*where, "--bootstrap", NOWHERE, *before], incomplete)
    return {item.value: item.help for item in items}


NAMES_NOTHING_THAT_IS_THERE = {("submit", "job_id"), ("run", "job_id"), ("standalone-job", "job_id"), ("rerun", "job_id")}
NAMES_NOTHING_THAT_IS_THERE |= {("schedule fire", "job_id")}
"""These ids are given to new jobs."""


def test_whatever_names_a_job_a_vertex_or_a_task_manager_offers_those_that_are_there() -> None:
    offers = {
        "job_id": "complete_jobs",
        "rerun_of": "complete_jobs",
        "vertex_id": "complete_vertices",
        "vertex": "complete_vertices",
        "subject": "complete_jobs",
    }
    offers |= {"task_manager_id": "complete_task_managers"}
    named = {
        (name, parameter.name): parameter._custom_shell_complete
        for name, command in commands_of(cli)
        for parameter in command.params
        if parameter.name in offers
    }
    assert len(named) > 20
    without = {place for place, complete in named.items() if complete is None or complete.__name__ != offers[str(place[1])]}
    assert without == NAMES_NOTHING_THAT_IS_THERE
    assert list(offered("events", "--type", "jobsub")) == ["JobSubmitted"]


@pytest.mark.parametrize(
    "command", [("status",), ("cancel",), ("history",), ("stop",), ("rescale",), ("logs",), ("why",), ("events", "--job")], ids="-".join
)
def test_ids_of_jobs_are_those_of_the_cluster_with_name_and_status(
    monkeypatch: pytest.MonkeyPatch, data_directory: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(completion, "_TIMEOUT_S", 120.0)
    assert offered(*command, "orders", directory=data_directory) == {"orders-1": "orders RUNNING"}
    assert offered(*command, "nothing", directory=data_directory) == {}


def test_names_are_asked_for_by_what_is_typed_and_no_more_than_a_hundred(monkeypatch: pytest.MonkeyPatch, data_directory: Path) -> None:
    asked = []

    def noting(session: Session, first: int, limit: int, part: str = "") -> tuple[JobNamesPage, int]:
        asked.append((limit, part))
        return ask_names(session, first, limit, part)

    ask_names = state.ask_names
    monkeypatch.setattr(state, "ask_names", noting)
    monkeypatch.setattr(completion, "_TIMEOUT_S", 120.0)
    assert offered("runs", "order", directory=data_directory) == {"orders": "1 runs, the newest RUNNING"}
    assert asked == [(100, "order")]


def test_vertices_are_those_of_the_job_that_is_named_before(monkeypatch: pytest.MonkeyPatch, data_directory: Path) -> None:
    monkeypatch.setattr(completion, "_TIMEOUT_S", 120.0)
    vertices = offered("rescale", "orders-1", "", directory=data_directory).keys()
    assert vertices
    for command, option in (("rerun", "--from"), ("result", "--vertex")):
        assert offered(command, "orders-1", option, "", directory=data_directory).keys() == vertices


def test_commands_options_and_contexts_are_offered() -> None:
    assert {"list", "status", "stop"} <= offered("").keys()
    assert "--with-savepoint" in offered("cancel", "--with")
    assert run(["context", "set", "prod", "--cluster-id", "one"]) == ExitCode.OK
    assert offered("context", "use", "p").keys() == offered("--context", "p").keys() == {"prod"}


def test_where_nobody_answers_nothing_is_offered_and_nothing_is_said(tmp_path: Path) -> None:
    environment = {**os.environ, VARIABLE: "bash_complete", "COMP_CWORD": "6"}
    for option in (f"-D data.directory={tmp_path}", "-c /does/not/exist.yaml", "-D nonsense=1"):
        environment["COMP_WORDS"] = f"eventflink {option} --bootstrap {NOWHERE} status x"
        done = subprocess.run(
            [sys.executable, "-m", "eventflink.cli"], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_us(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert run(["completion", shell]) == ExitCode.OK
    script = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
