"""Which configuration a command takes, what `config` says of it, and the logging that goes with it."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.logging_file import apply_logging_file
from eventflink.cli.main import run
from eventflink.model.configuration import KEYS, PATH_KEYS, ConfigurationError, load_configuration
from eventflink.model.configuration_files import with_paths_of_the_project
from eventflink.session.cluster_session import directory_of, find_configuration

SHIPPED = Path(__file__).parents[2] / "conf"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("EVENTFLINK_CONFIG", "EVENTFLINK_CONF_DIR", "EVENTFLINK_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


# -- where it is found -----------------------------------------------------------------------------------------------


def test_what_is_named_comes_before_the_variable_and_that_before_the_usual_place(here: Path) -> None:
    assert find_configuration(None, {}) is None
    write(here / "conf" / "other.yaml", "")
    assert find_configuration(None, {}) is None, "a directory conf of another program is none of ours"
    write(here / "conf" / "eventflink.yaml", "")
    assert find_configuration(None, {}) == Path("conf/eventflink.yaml")
    variable = {"EVENTFLINK_CONF_DIR": "/etc/eventflink"}
    assert find_configuration(None, variable) == Path("/etc/eventflink/eventflink.yaml")
    assert find_configuration(here / "conf", variable) == here / "conf" / "eventflink.yaml"
    assert find_configuration(here / "tour.yaml", variable) == here / "tour.yaml"


def test_the_usual_place_is_looked_for_upwards(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past other programs' directories of that name, and past files that somebody else may have laid there."""
    write(here / "conf" / "eventflink.yaml", "")
    write(here / "jobs" / "conf" / "other.yaml", "")
    (here / "jobs" / "daily").mkdir()
    monkeypatch.chdir(here / "jobs" / "daily")
    assert find_configuration(None, {}) == here / "conf" / "eventflink.yaml"
    write(here / "jobs" / "conf" / "eventflink.yaml", "")
    assert find_configuration(None, {}) == here / "jobs" / "conf" / "eventflink.yaml"
    if os.getuid() == 0:
        os.chown(here / "jobs" / "conf" / "eventflink.yaml", 65534, 65534)
        assert find_configuration(None, {}) == here / "conf" / "eventflink.yaml"


@pytest.mark.parametrize("key", sorted(PATH_KEYS))
def test_relative_paths_of_the_usual_place_begin_at_its_project(here: Path, key: str) -> None:
    usual, other = here / "shop" / "conf" / "eventflink.yaml", here / "shop" / "other.yaml"
    assert with_paths_of_the_project({key: "some/place"}, usual, PATH_KEYS) == {key: str(here / "shop" / "some" / "place")}
    assert with_paths_of_the_project({key: "some/place"}, other, PATH_KEYS) == {key: "some/place"}


def test_those_of_the_command_line_begin_at_the_working_directory(here: Path) -> None:
    usual = write(here / "shop" / "conf" / "eventflink.yaml", "data: {directory: data}")
    assert load_configuration(usual, {}).data_path == here / "shop" / "data"
    assert load_configuration(usual, {"data.directory": "mine"}).data_path == here / "mine"


@pytest.mark.parametrize("value", ["s3://bucket/a", "~/a", "/a", ""])
def test_what_is_no_relative_path_stays(here: Path, value: str) -> None:
    usual = write(here / "conf" / "eventflink.yaml", f'execution.checkpointing.savepoint-dir: "{value}"')
    assert load_configuration(usual, {}).savepoint_directory == value


def test_several_directories_are_taken_one_by_one(here: Path) -> None:
    usual = write(here / "shop" / "conf" / "eventflink.yaml", "historyserver.archive.fs.dir: 'a, s3://b/c, /d'")
    assert load_configuration(usual, {}).history_locations == [str(here / "shop" / "a"), "s3://b/c", "/d"]


@pytest.mark.parametrize(("keys", "ports"), [("", "8081-8099"), ("port: 18911", "18911"), ("port: 1, bind-port: 0", "0")])
def test_rest_listens_where_commands_ask_it_unless_another_port_is_named(here: Path, keys: str, ports: str) -> None:
    """As in Flink, where `rest.port` alone is what most clusters set."""
    assert load_configuration(write(here / "some.yaml", f"rest: {{{keys}}}"), {}).rest_listen_ports == ports


def test_only_a_file_of_the_usual_name_stands_in_a_configuration_directory(here: Path) -> None:
    assert directory_of(here / "eventflink.yaml") == here
    assert directory_of(here / "tour.yaml") is None
    assert directory_of(None) is None


@pytest.mark.parametrize("how", ["-c", "EVENTFLINK_CONFIG", "EVENTFLINK_CONF_DIR", "./conf"])
def test_every_way_leads_to_the_same_values(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    directory = here / "conf" if how == "./conf" else here / "elsewhere"
    write(directory / "eventflink.yaml", "broker: {port: 1234}")
    if how.startswith("EVENTFLINK"):
        monkeypatch.setenv(how, str(directory))
    assert run([*(["-c", str(directory)] if how == "-c" else []), "config", "broker.port", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["value"] == 1234


def test_a_directory_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("EVENTFLINK_CONF_DIR", "/no/such/place")
    assert run(["config"]) == ExitCode.USAGE
    assert "/no/such/place/eventflink.yaml: cannot be read" in capsys.readouterr().err


# -- config ----------------------------------------------------------------------------------------------------------


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert run([*arguments, "config", "--json"]) == ExitCode.OK
    return {row["key"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_key_is_shown_with_its_value_and_where_that_comes_from(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(here / "tour.yaml", "heartbeat: {interval: 1100}\nrestart-strategy.type: fixed-delay\nbroker.port: 1\n")
    monkeypatch.setenv("EVENTFLINK_BOOTSTRAP", "somewhere:9")
    rows = shown(capsys, "-c", str(path), "-D", "broker.port=2", "--cluster-id", "x")
    assert list(rows) == list(KEYS)
    found = {key: (row["value"], row["source"]) for key, row in rows.items() if row["source"] != "default"}
    assert found == {
        "heartbeat.interval": (1100, f"file {path}"),
        "restart-strategy.type": ("fixed-delay", f"file {path}"),
        "broker.port": (2, "-D"),
        "bootstrap.servers": ("somewhere:9", "environment EVENTFLINK_BOOTSTRAP"),
        "cluster.id": ("x", "--cluster-id"),
    }
    assert rows["heartbeat.interval"]["default"] == 1000
    assert rows["heartbeat.interval"]["type"] == "integer"
    assert rows["restart-strategy.type"]["default"] == "none"
    assert all(row["meaning"] for row in rows.values())
    assert all(row["value"] == row["default"] for row in rows.values() if row["source"] == "default")
    assert shown(capsys, "--bootstrap", "a:1")["bootstrap.servers"]["source"] == "--bootstrap"


def test_people_see_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-D", "broker.port=2", "config"]) == ExitCode.OK
    table = capsys.readouterr().out
    assert all(key in table for key in KEYS)
    assert run(["-D", "broker.port=2", "config", "broker.port"]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "broker.port: 2",
        "from -D; integer, 0 to 65535, default 9092",
        "Where the embedded broker listens; 0: any free port.",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["config", "brokr.port"], "unknown configuration key 'brokr.port'; did you mean 'broker.port'?"),
        (["-D", "brokr.port=1", "config"], "did you mean 'broker.port'?"),
        (["-D", "broker.port=many", "config"], "broker.port: must be a whole number"),
        (["-D", "cluster.stop-timeout=1", "config", "broker.port"], "cluster.stop-timeout: must be at least 100"),
        (["cluster", "start"], "which configuration directory? It holds eventflink.yaml, masters and workers; none was found"),
        (["-c", "tour.yaml", "cluster", "status"], "tour.yaml stands alone: it is not called eventflink.yaml"),
        (["-c", "whole", "cluster", "stop"], "whole/workers:2: 'b:1': a worker is a host without a port"),
        (["-c", "half", "cluster", "start"], "half/masters: cannot be read"),
        (
            ["-c", "far", "-D", "env.ssh.opts=it's", "cluster", "stop"],
            "env.ssh.opts: 'it's' is not a valid part of a command line: No closing quotation",
        ),
        (["-c", "far", "cluster", "start"], "bootstrap.servers is empty, and far.invalid could not reach a broker of this host's own"),
    ],
)
def test_a_mistake_is_one_line(here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    write(here / "tour.yaml", "")
    for name, workers in {"whole": "a\nb:1\n", "half": None, "far": "far.invalid\n"}.items():
        write(here / name / "eventflink.yaml", f"data.directory: {here}")
        if workers:
            write(here / name / "masters", "localhost")
            write(here / name / "workers", workers)
    assert run(arguments) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if "let only the master's own host in" not in line]
    assert len(lines) == 1


@pytest.mark.parametrize("key", ["env.pid.dir", "env.log.dir"])
def test_a_directory_that_cannot_be_made_is_named_with_its_key(here: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    write(here / "conf" / "eventflink.yaml", f"data.directory: {here}\n{key}: /dev/null/x\n")
    write(here / "conf" / "masters", "localhost")
    write(here / "conf" / "workers", "")
    assert run(["--bootstrap", "localhost:1", "cluster", "start"]) == ExitCode.ENVIRONMENT
    assert capsys.readouterr().err == f"eventflink: {key}: /dev/null/x/eventflink cannot be made: Not a directory\n"


def test_this_host_may_fail_like_any_other_where_there_are_others(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    between = write(here / "between.sh", f"#!/bin/sh\ncat >> {here}/asked\necho '{{\"daemons\":[]}}'\n")
    between.chmod(0o755)
    write(here / "conf" / "eventflink.yaml", f"data.directory: {here}\nenv.pid.dir: /dev/null/x\nenv.ssh.command: {between}\n")
    write(here / "conf" / "masters", "localhost")
    write(here / "conf" / "workers", "far.invalid")
    assert run(["cluster", "stop"]) == ExitCode.NEGATIVE
    assert "localhost: env.pid.dir: /dev/null/x/eventflink cannot be made" in capsys.readouterr().err
    assert (here / "asked").read_text().count('"host":"far.invalid"') == 4, (
        "REST processes, then TaskExecutors, then masters, then the workers that they had started"
    )


def test_a_request_that_is_none_is_refused(here: Path) -> None:
    program = [sys.executable, "-m", "eventflink.cli", "cluster", "on-host"]
    finished = subprocess.run(program, input="{}", capture_output=True, text=True, check=False, cwd=here)
    assert (finished.returncode, finished.stdout) == (ExitCode.USAGE, "")
    assert "standard input is not a request: it is missing" in finished.stderr


# -- logging.yaml ----------------------------------------------------------------------------------------------------


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logger.level for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
        logging.getLogger(name).propagate = True


FILE = """
handlers:
  file: {class: logging.FileHandler, filename: "${env.log.dir}/${daemon}.txt"}
root: {level: WARNING, handlers: [file]}
loggers:
  eventflink.a: {level: DEBUG}
"""


@pytest.mark.usefixtures("restored_logging")
def test_a_daemon_logs_as_the_file_says_and_what_was_silenced_stays_silent(here: Path) -> None:
    silenced, below = logging.getLogger("eventflink.a.client"), logging.getLogger("eventflink.a.b")
    silenced.setLevel(logging.CRITICAL)
    apply_logging_file(write(here / "logging.yaml", FILE), {"daemon": "tm-a", "env.log.dir": str(here)})
    below.debug("told")
    silenced.error("not told")
    logging.getLogger("elsewhere").info("not told")
    logging.getLogger("elsewhere").warning("told, too")
    assert (here / "tm-a.txt").read_text().split("\n") == ["told", "told, too", ""]


@pytest.mark.usefixtures("restored_logging")
def test_the_shipped_file_can_be_used() -> None:
    apply_logging_file(SHIPPED / "logging.yaml", {})
    assert logging.getLogger("faust").level == logging.WARNING
    assert logging.getLogger().level == logging.INFO


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- a", "the document must be a mapping"),
        ("a: [", "cannot be read"),
        ("a: &a {b: *a}", "cannot be read: the alias 'a' stands for nothing, or for what it is in"),
        ("version: 2", "Unsupported version: 2"),
        ("handlers: {x: {class: no.such.Handler}}", "Unable to configure handler 'x': Cannot resolve 'no.such.Handler'"),
        ("root: {handlers: [nothing]}", "Unable to configure root logger"),
        ("handlers: {x: {class: logging.FileHandler, filename: /no/such/dir/x}}", "Unable to configure handler 'x'"),
        ("loggers: {a: {level: LOUD}}", "Unable to configure logger 'a': Unknown level"),
    ],
)
def test_a_logging_file_that_is_wrong_is_named(here: Path, content: str, said: str) -> None:
    path = write(here / "logging.yaml", content)
    with pytest.raises(ConfigurationError) as caught:
        apply_logging_file(path, {})
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
