"""What a TaskExecutor sends of a task's log: the task writes beside it, and whatever it puts there, nothing else is sent or waited for."""

import os
import queue
from collections.abc import Callable
from pathlib import Path

import pytest

from eventflink.events.effects import FileUploadOrder
from eventflink.model.statuses import TaskFile
from eventflink.taskexecutor.file_uploader import FileUploader


def link_file(log: Path, secret: Path) -> None:
    log.symlink_to(secret)


def link_folder(log: Path, secret: Path) -> None:
    log.parent.rmdir()
    (secret.parent / log.name).write_text("secret")
    log.parent.symlink_to(secret.parent)


def put_pipe(log: Path, _secret: Path) -> None:
    os.mkfifo(log)


def put_directory(log: Path, _secret: Path) -> None:
    log.mkdir()


@pytest.mark.rule("L5")
@pytest.mark.parametrize("put", [link_file, link_folder, put_pipe, put_directory])
def test_what_a_task_puts_in_the_place_of_its_log_is_neither_sent_nor_waited_for(tmp_path: Path, put: Callable[[Path, Path], None]) -> None:
    logs, secret = tmp_path / "logs", tmp_path / "elsewhere" / "secret"
    secret.parent.mkdir()
    secret.write_text("secret")
    log = logs / "job" / "a-0-1.stdout"
    log.parent.mkdir(parents=True)
    put(log, secret)
    ends: queue.Queue[tuple[str | None, str | None]] = queue.Queue()
    uploader = FileUploader(logs, 1)
    uploader.submit(FileUploadOrder("r", "job", "a", 0, 1, TaskFile.STDOUT), "no.host.invalid:1", lambda *end: ends.put(end))
    key, error = ends.get(timeout=120)
    assert key is None
    assert error is not None
    assert "no.host" not in error
