"""What a TaskExecutor finds of itself: its log wherever it goes, what it prints, the list, and nothing besides that a name could mean."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventflink.events.effects import TaskManagerFileUploadOrder
from eventflink.model.statuses import TaskManagerFile
from eventflink.taskexecutor.own_files import FileUnavailable, OwnFiles

FIND = """
import sys, logging
from pathlib import Path
from eventflink.events.effects import TaskManagerFileUploadOrder
from eventflink.model.statuses import TaskManagerFile
from eventflink.taskexecutor.own_files import FileUnavailable, OwnFiles
answers = []
for file in (TaskManagerFile.LOG, TaskManagerFile.STDOUT):
    try:
        answers.append(str(OwnFiles(Path("none")).find(TaskManagerFileUploadOrder("r", file))))
    except FileUnavailable as error:
        answers.append(str(error))
Path(sys.argv[1]).write_text("\\n".join(answers))
"""


def named(name: str) -> TaskManagerFileUploadOrder:
    return TaskManagerFileUploadOrder("r", TaskManagerFile.NAMED, name)


def find(tmp_path: Path, stdout: int, stderr: int) -> list[str]:
    """Return what a process with these outputs finds its log and its standard output to be."""
    answers = tmp_path / "answers"
    subprocess.run([sys.executable, "-c", FIND, str(answers)], stdout=stdout, stderr=stderr, check=True, timeout=120)
    return answers.read_text().split("\n")


def test_a_daemon_s_log_is_the_file_behind_its_standard_error(tmp_path: Path) -> None:
    with (tmp_path / "tm.log").open("ab") as log, (tmp_path / "tm.out").open("ab") as out:
        assert find(tmp_path, out.fileno(), log.fileno()) == [str(tmp_path / "tm.log"), str(tmp_path / "tm.out")]
    log_reason, out_reason = find(tmp_path, subprocess.DEVNULL, subprocess.DEVNULL)
    assert log_reason.startswith("it logs to no file: ")
    assert out_reason.startswith("its standard output is not a file")


def test_a_file_that_was_removed_is_no_log(tmp_path: Path) -> None:
    with (tmp_path / "tm.log").open("ab") as log:
        (tmp_path / "tm.log").unlink()
        assert find(tmp_path, log.fileno(), log.fileno())[0].startswith("it logs to no file")


@pytest.fixture
def own(tmp_path: Path) -> OwnFiles:
    """The files of a process with a log of its own, an earlier one, a helper's log, and what is none of its logs."""
    directory = tmp_path / "logs" / "tm"
    (directory / "job").mkdir(parents=True)
    (directory / "guardian.log").write_text("helper")
    (directory / "taskexecutor.lock").write_text("lock")
    (directory / "job" / "a-0-1.log").write_text("of a task")
    (tmp_path / "secret.txt").write_text("secret")
    (directory / "link.log").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "tm.log").write_text("now")
    (tmp_path / "tm.log.1").write_text("earlier")
    (tmp_path / "tm.log.2").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "tm2.log").write_text("another's")
    return OwnFiles(directory)


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[logging.Handler]:
    handler = logging.FileHandler(tmp_path / "tm.log")
    logging.getLogger("eventflink").addHandler(handler)
    yield handler
    logging.getLogger("eventflink").removeHandler(handler)
    handler.close()


@pytest.mark.usefixtures("handler")
def test_the_list_holds_its_own_logs_and_no_other_file(own: OwnFiles, tmp_path: Path) -> None:
    listed = {info.name: info.size_bytes for info in own.logs()}
    assert {"guardian.log": 6, "tm.log": 3, "tm.log.1": 7}.items() <= listed.items()
    assert not {"taskexecutor.lock", "a-0-1.log", "link.log", "tm.log.2", "secret.txt", "tm2.log"} & set(listed)
    document = own.find(TaskManagerFileUploadOrder("r", TaskManagerFile.LOG_LIST))
    assert isinstance(document, bytes)
    assert {log["name"]: log["size_bytes"] for log in json.loads(document)["logs"]} == listed
    assert own.find(TaskManagerFileUploadOrder("r", TaskManagerFile.LOG)) == tmp_path / "tm.log"
    assert own.find(named("tm.log.1")) == tmp_path / "tm.log.1"
    assert own.find(named("guardian.log")) == tmp_path / "logs" / "tm" / "guardian.log"


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../../secret.txt", "job/a-0-1.log", "/etc/passwd", "link.log", "tm.log.2", "taskexecutor.lock", "tm2.log", "none"],
)
def test_no_name_leads_to_anything_else(own: OwnFiles, name: str) -> None:
    with pytest.raises(FileUnavailable, match=r"log not found: '.*'; the TaskExecutor has .*guardian\.log"):
        own.find(named(name))


def test_a_thread_dump_has_every_thread(own: OwnFiles) -> None:
    dump = own.find(TaskManagerFileUploadOrder("r", TaskManagerFile.THREAD_DUMP))
    assert isinstance(dump, bytes)
    assert '"MainThread"' in dump.decode()
    assert "test_a_thread_dump_has_every_thread" in dump.decode()
