"""The life of a job is told in its order and as a whole: who asked, what its tasks did, what failed and why, who led, how it ended."""

import json

import pytest

from eventflink.audit import NothingKnown
from eventflink.audit import story as telling
from eventflink.documents.explanation import StoryOfJob
from eventflink.documents.plain import parse, plain
from eventflink.events.inputs import TaskManagerDeath
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ExecutionState
from eventflink.reader.past.why import tell_story
from tests.support.asked_log import book_of, records_of, storied_cluster, story_of
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, vertex
from tests.support.scenarios import eventful_cluster


@pytest.fixture(scope="module")
def storied() -> ScriptedCluster:
    return storied_cluster()


@pytest.fixture(scope="module")
def eventful() -> ScriptedCluster:
    return eventful_cluster()


def texts(story: StoryOfJob, *kinds: str) -> list[str]:
    return [line.text for line in story.lines if not kinds or line.kind in kinds]


def test_a_life_is_told_from_its_request_over_its_restart_to_its_end(storied: ScriptedCluster) -> None:
    story = story_of(storied, "restarting")
    assert (story.status, story.restarts, story.log_offset) == ("FINISHED", 1, len(storied.log) - 1)
    assert [line.kind for line in story.lines] == [
        *("submitted", "settings", "status", "scheduled", "deployed"),
        *("failed", "restart", "status"),
        *("restarted", "status", "scheduled", "deployed", "running", "finished", "ended"),
        *("cleaned_up", "evicted"),
    ]
    assert texts(story, "submitted") == ["submitted: 'test job' by test (declared), 1 vertex, 1 task"]
    assert texts(story, "failed", "restart") == ["a[0]#1 failed: ValueError: no such column", "restart 1 after 500 ms: a"]
    assert texts(story, "ended") == ["ended: FINISHED after 600 ms"]


def test_what_is_told_of_reuse_and_of_closing_vertices_stands_behind_one_colon() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=2)
    document = graph(vertex("a"), vertex("b"), vertex("always") | {"runs": "always"}, edges=[("a", "b", "hash")])
    end = {"b": ExecutionState.FAILED}
    cluster.run(cluster.submit(document, job_id="before"), lambda task: end.get(task.vertex_id, ExecutionState.FINISHED))
    cluster.run(cluster.command(type="RerunJob", rerun_of="before", job_id="again", failed=True))
    assert texts(story_of(cluster, "again"), "reused") == ["outputs of the job that it runs again: 1 of 3 vertices reused; run: b, always"]
    assert texts(story_of(cluster, "again"), "closing") == ["its closing vertices begin: it ends as FINISHED"]


def test_what_many_tasks_do_alike_is_one_line_that_counts_them(storied: ScriptedCluster) -> None:
    [scheduled] = [line for line in story_of(storied, "late").lines if line.kind == "scheduled"]
    assert (scheduled.count, scheduled.text) == (6, "scheduled: a (3), b (3)")
    assert scheduled.until_offset > scheduled.offset


def test_the_loss_of_a_task_manager_and_of_the_leader_belong_to_the_life_of_a_job_that_they_hit() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=1)
    cluster.run(cluster.submit(graph(vertex("a")), job_id="before"))
    [task] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 0)), job_id="hit"))
    cluster.report(task, ExecutionState.RUNNING)
    cluster.fail_over()
    cluster.say(TaskManagerDeath("tm1", "tm1-1", "exit code 137"))
    assert texts(story_of(cluster, "hit"), "leadership", "task_manager_lost") == [
        "master-1 leads, epoch 2, 0.0 s after the last decision",
        "TaskManager tm1 is gone: exit code 137",
    ]
    assert texts(story_of(cluster, "before"), "leadership", "task_manager_lost") == []


def test_every_job_of_a_log_has_a_story_that_ends_in_the_state_of_the_log(eventful: ScriptedCluster) -> None:
    book = book_of(records_of(eventful))
    for job in eventful.master.dispatcher.jobs.values():
        story = tell_story(book, job.job_id, book.last_offset)
        assert (story.status, story.restarts) == (job.status, job.restarts.count), job.job_id
        assert parse(StoryOfJob, json.loads(json.dumps(plain(story)))) == story
        offsets = [line.offset for line in story.lines]
        assert offsets == sorted(offsets)
        assert texts(story)[0].startswith("submitted: ")


def test_a_long_life_keeps_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch, storied: ScriptedCluster) -> None:
    whole = story_of(storied, "restarting")
    monkeypatch.setattr(telling, "KEPT_OLDEST", 3)
    monkeypatch.setattr(telling, "KEPT_NEWEST", 2)
    short = story_of(storied, "restarting")
    assert short.lines == whole.lines[:3] + whole.lines[-2:]
    assert short.omitted == len(whole.lines) - 5


def test_a_message_from_outside_cannot_move_the_cursor() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=1)
    [task] = deployments(cluster.submit(graph(vertex("a")), job_id="rude"))
    cluster.report(task, ExecutionState.FAILED, cause=FailureCause("Rude\0Error", "\x1b[2Jgone\0", ""))
    [said] = texts(story_of(cluster, "rude"), "failed")
    assert said.startswith("a[0]#1 failed: Rude")
    assert said.isprintable()


@pytest.mark.parametrize(
    ("text", "said"),
    [("la", "late"), ("latest", "the nearest: late"), ("", "an id is expected"), ("zzz", "job not found in the log")],
)
def test_an_id_may_be_given_by_its_beginning_and_an_unknown_one_is_told_with_the_nearest(
    storied: ScriptedCluster, text: str, said: str
) -> None:
    if text == "la":
        assert story_of(storied, text).job_id == said
        return
    with pytest.raises(NothingKnown, match=said):
        story_of(storied, text)


def test_a_beginning_that_several_jobs_share_is_ambiguous(eventful: ScriptedCluster) -> None:
    with pytest.raises(NothingKnown, match="'done' is ambiguous: 4 job ids"):
        story_of(eventful, "done")
