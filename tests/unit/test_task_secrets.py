"""A task has the secrets that its job names, from where its TaskExecutor is told to look; nobody else has them, and no text shows them."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventflink.model import secret_masks, secret_providers
from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.secret_files import MAX_SECRET_BYTES
from eventflink.model.secret_masks import MaskingFormatter, hide, masked
from eventflink.taskexecutor.failure_causes import cause_of
from eventflink.taskexecutor.task_secrets import SecretSettings, SecretUnavailable, TaskSecrets

VALUE = "hush-hush"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_masks, "_hidden", set())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """As Kubernetes mounts it: links lead to the directory that holds now."""
    path = tmp_path / "secrets"
    (path / "..2026").mkdir(parents=True)
    (path / "..2026" / "db").write_text(VALUE, encoding="utf-8")
    (path / "..data").symlink_to("..2026")
    (path / "db").symlink_to("..data/db")
    return path


@pytest.fixture
def task_executor() -> Iterator[int]:
    """The id of a process that has variables which this one has not, once it runs: for a moment of its start they are not there yet."""
    variables = {"SECRET_db": "of-env", "SECRET_x": "x"}
    program = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process.pid
        process.kill()


class Provider:
    """As an operator writes it."""

    def get(self, name: str) -> Any:
        match name:
            case "broken":
                raise RuntimeError(f"{VALUE} is what I know")
            case "slow":
                threading.Event().wait()
            case "number":
                return 7
        return {"db": "of-provider", "empty": "", "long": "x" * (MAX_SECRET_BYTES + 1)}.get(name)


PROVIDER = f"{__name__}:Provider"


def value_of(name: str, **settings: Any) -> Any:
    return TaskSecrets(SecretSettings(task_manager_id="tm-1", **settings)).put_into({"p": {"secret": name}})["p"]


def refusal_of(name: str, **settings: Any) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        value_of(name, **settings)
    cause = cause_of(caught.value, "vertex")
    assert cause.stack_trace is None
    assert VALUE not in cause.message
    return cause.message


def test_a_file_comes_before_a_variable_and_that_before_what_a_provider_says(directory: Path, task_executor: int) -> None:
    environment = {"process_id": task_executor, "environment_prefix": "SECRET_"}
    assert value_of("db", directory=str(directory), provider=PROVIDER, **environment) == VALUE
    assert value_of("db", provider=PROVIDER, **environment) == "of-env"
    assert value_of("db", provider=PROVIDER) == "of-provider"
    assert value_of("x", directory=str(directory), **environment) == "x"
    assert "SECRET_db" not in os.environ


def test_a_line_break_that_an_editor_left_is_no_part_of_a_secret_and_any_other_is(directory: Path) -> None:
    for written, value in ((f"{VALUE}\n", VALUE), (f"{VALUE}\r\n", VALUE), ("a\nb\n\n", "a\nb\n"), (" ä ", " ä ")):
        (directory / "text").write_bytes(written.encode())
        assert value_of("text", directory=str(directory)) == value


def test_what_is_missing_is_named_with_the_task_manager_and_where_was_looked(directory: Path, task_executor: int) -> None:
    said = refusal_of("none", directory=str(directory), process_id=task_executor, environment_prefix="SECRET_", provider=PROVIDER)
    assert said == (
        f"vertex 'vertex': secret not found: 'none' on TaskManager 'tm-1'; looked for file 'none' in {directory}, "
        f"variable SECRET_none in its environment, the secret of {PROVIDER}"
    )
    assert refusal_of("none").endswith("set one of the keys secrets.*, which say where secrets are")


@pytest.mark.rule("L8")
def test_what_cannot_be_read_is_looked_for_nowhere_else_and_said_without_a_value(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "db"
    outside.write_text(VALUE, encoding="utf-8")
    (directory / "out").symlink_to(outside)
    (directory / "folder").mkdir()
    os.mkfifo(directory / "pipe")
    (directory / "long").write_text("x" * (MAX_SECRET_BYTES + 1))
    (directory / "empty").write_text("\n")
    (directory / "bytes").write_bytes(VALUE.encode() + b"\xff")
    for name, says in (
        ("out", "leads out of the directory"),
        ("folder", "Is a directory"),
        ("pipe", "is not a regular file"),
        ("long", "has more than"),
        ("empty", "is empty"),
        ("bytes", "is not UTF-8 text"),
    ):
        assert says in refusal_of(name, directory=str(directory), provider=PROVIDER)
    for name, says in (
        ("broken", "raised RuntimeError"),
        ("number", "returned a int for a str"),
        ("empty", "is empty"),
        ("long", "has more than"),
    ):
        assert says in refusal_of(name, provider=PROVIDER)
    assert "raised ModuleNotFoundError" in refusal_of("db", provider="no_such_module:Provider")
    assert "cannot be read: No such file" in refusal_of("db", environment_prefix="SECRET_", process_id=2**22 + 1)
    monkeypatch.setattr(secret_providers, "PROVIDER_TIMEOUT_S", 0.05)
    assert "gave no answer within" in refusal_of("slow", provider=PROVIDER)


def test_a_name_that_a_master_let_pass_leads_nowhere(directory: Path) -> None:
    for name in ("../db", "..data/db", "..", ""):
        assert "invalid name of a secret" in refusal_of(name, directory=str(directory))


@pytest.mark.rule("L8")
def test_no_text_of_a_failure_has_a_value_however_it_is_quoted_or_cut() -> None:
    odd = 'pass"wörd\\ & 1'
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----"
    for value in (VALUE, odd, key):
        hide(value)
    texts = [VALUE, repr(odd), "https://me:pass%22w%C3%B6rd%5C%20%26%201@host", "| MIIEvQIBADANBgkq", '{"p": "pass\\"w\\u00f6rd\\\\ & 1"}']
    for text in texts:
        assert "***" in masked(text)
        assert not [each for each in ("hush", "rd%5C", 'pass"', "pass\\", "MIIE") if each in masked(text)]
    for before in range(600, 700):  # Where a message is cut.
        error = ValueError("x" * before + VALUE * 300)
        error.__cause__ = KeyError("x" * before + VALUE * 300)
        cause = cause_of(error, "vertex")
        assert "hus" not in f"{cause.message}{cause.stack_trace}{cause.root_message}"


def test_what_a_task_logs_has_no_value_and_no_trace_of_it_has_one() -> None:
    hide(VALUE)
    error = ValueError(VALUE)
    record = logging.LogRecord("task", logging.ERROR, "", 0, "it is %s", (VALUE,), (ValueError, error, None))
    text = MaskingFormatter("%(message)s").format(record)
    assert text.startswith("it is ***\n")
    assert VALUE not in text


@pytest.mark.parametrize("named", ["*", "SECRET_db", "SECRET_*", "SEC*", "A,SECRET_x*"])
def test_no_task_inherits_what_is_kept_as_a_secret(named: str) -> None:
    with pytest.raises(ConfigurationError, match=r"gives tasks what secrets\.environment-prefix 'SECRET_' keeps from them"):
        build_configuration({"taskmanager.task.environment": named, "secrets.environment-prefix": "SECRET_"}, "test")
    build_configuration({"taskmanager.task.environment": "A,SEC,B*", "secrets.environment-prefix": "SECRET_"}, "test")


@pytest.mark.parametrize(
    "keys", [{"secrets.directory": "secrets"}, {"secrets.environment-prefix": "A=B"}, {"secrets.provider": "module"}], ids=str
)
def test_where_secrets_are_is_checked_when_a_task_executor_starts(keys: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(keys))):
        build_configuration(keys, "test")
