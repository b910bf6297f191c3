"""Who follows a file sees each of its lines once, in order, however it is cut, and is told what he did not see."""

import random
from pathlib import Path

import pytest

from eventflink.cli import growing_files
from eventflink.cli.commands.logs import attempts_of, find_attempt
from eventflink.cli.failures import CommandFailed
from eventflink.cli.growing_files import MAX_FILES, GrowingFile, prefixed
from eventflink.documents.one_job import JobInfo
from eventflink.model.attempts import AttemptId
from eventflink.taskexecutor import file_uploader
from eventflink.views.jobs_and_cluster import job_view
from tests.support.cluster import ScriptedCluster, graph, replay, vertex


@pytest.mark.parametrize("seed", range(20))
def test_every_line_comes_once_and_in_order_however_the_file_is_cut(seed: int) -> None:
    choice = random.Random(seed)
    lines = [b"x" * choice.randrange(30) for _ in range(50)]
    whole = b"\n".join(lines)
    cuts = sorted(choice.randrange(len(whole)) for _ in range(10))
    followed = GrowingFile()
    seen = [line for cut in [*cuts, len(whole)] for line in followed.take(whole[:cut])] + followed.end()
    assert seen == (lines if lines[-1] else lines[:-1])


def test_what_fell_out_of_a_long_file_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_uploader, "TAIL_LIMIT_BYTES", 8)
    path = tmp_path / "log"
    followed = GrowingFile()
    seen: list[bytes] = []
    for text in ("one\ntw", "one\ntwo\n", "one\ntwo\nthree\nfour\nfive\nsix\n", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"):
        path.write_text(text)
        seen += followed.take(file_uploader.read_tail(path.parent, (path.name,)))
    assert seen == [b"one", b"two", b"[12 bytes are left out here]", b"ive", b"six", b"seven"]


def test_a_file_that_is_shorter_than_before_is_another_one() -> None:
    followed = GrowingFile()
    assert followed.take(b"old one\nold two\n") == [b"old one", b"old two"]
    assert followed.take(b"new\n") == [b"new"]


def test_a_line_without_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_files, "_MAX_LINE_BYTES", 10)
    followed = GrowingFile()
    assert followed.take(b"0123456789") == []
    assert followed.take(b"0123456789abc") == [b"0123456789abc"]


def test_each_line_stands_behind_the_name_of_its_task() -> None:
    assert prefixed(AttemptId("job", "a", 1, 2), [b"one", b"two"]) == b"a[1]#2 | one\na[1]#2 | two\n"


@pytest.fixture(scope="module")
def job() -> JobInfo:
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=3)
    cluster.submit(graph(vertex("a", 2), vertex("b", 4), edges=[("a", "b", "hash")]), job_id="job")
    return job_view(replay(cluster.log), "job")


def test_tasks_that_run_are_followed_and_the_newest_attempt_is_meant(job: JobInfo) -> None:
    a0, a1 = (AttemptId("job", "a", index, 1) for index in (0, 1))
    assert attempts_of(job, None, None) == attempts_of(job, "a", None) == [a0, a1]
    assert attempts_of(job, "a", 1) == [a1]
    assert attempts_of(job, "b", None) == []
    assert find_attempt(job, "a", 1, None) == a1
    assert find_attempt(job, "a", 1, 7).attempt == 7


@pytest.mark.parametrize(("name", "index", "said"), [("c", None, "has no task c; it has a[0..1], b[0..3]"), ("a", 2, "has no task a[2]")])
def test_a_task_that_is_not_there_is_told_with_those_that_are(job: JobInfo, name: str, index: int | None, said: str) -> None:
    with pytest.raises(CommandFailed) as told:
        attempts_of(job, name, index)
    assert said in str(told.value)


def test_more_tasks_than_can_be_followed_are_refused() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=MAX_FILES + 1)
    cluster.submit(graph(vertex("a", MAX_FILES + 1)), job_id="wide")
    with pytest.raises(CommandFailed, match="name a vertex, or --subtask"):
        attempts_of(job_view(replay(cluster.log), "wide"), None, None)
