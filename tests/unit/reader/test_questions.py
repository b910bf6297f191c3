"""What the state answers to questions: of checkpoints and streams, of failures, and in few words."""

from typing import Any

import pytest

from eventflink.model.stream_progress import PartitionLag, StreamSourceProgress
from eventflink.reader.questions import answer_of, look_up, question_of
from eventflink.views.jobs_and_cluster import JobNotFound
from eventflink.views.plain import iso_time
from eventflink.views.queries import TaskManagerNotFound
from tests.support.cluster import START_MS, ScriptedCluster, decline, deployments, graph, orders, replay, stream, vertex
from tests.support.scenarios import restarting_cluster


def ask(cluster: ScriptedCluster, path: str, **parameters: int) -> Any:
    question = question_of(path, parameters)
    return answer_of(question, look_up(question, replay(cluster.log)), None)


def test_the_failures_of_a_job_and_what_they_led_to_are_told() -> None:
    cluster = restarting_cluster()
    answer = ask(cluster, "/jobs/rewr/exceptions", limit=5)
    assert (answer["job_id"], answer["status"], answer["total"], answer["truncated"]) == ("rewriting", "RESTARTING", 1, False)
    [exception] = answer["exceptions"]
    assert (exception["task"], exception["task_manager_id"], exception["reaction"]) == ("b[1]#1", "tm1", "RESTART")
    assert exception["cause"]["failure_type"] == "InputLost"
    restart = exception["restart"]
    assert (restart["restarts"], restart["failover_strategy"], restart["task_count"]) == (1, "REGION", 4)
    assert restart["tasks"] == ["a[0]", "b[0]", "b[1]", "b[2]"]
    job = ask(cluster, "/jobs/rewriting")["job"]
    assert (job["exceptions"], job["exceptions_total"]) == (answer["exceptions"], 1)
    assert (job["restart_strategy"]["strategy_type"], job["failover_strategy"]) == ("EXPONENTIAL_DELAY", "REGION")
    assert job["vertices"][0]["subtasks"][0]["restart_at"] == restart["restart_at"]
    assert job["tasks_finished"] == 1


def test_the_checkpoints_of_a_job_and_where_its_streams_stand_are_told() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=3)
    cluster.submit(graph(vertex("a")), job_id="batch")
    document = graph(stream("s", 2), checkpointing={"interval_ms": 100, "tolerable_failed_checkpoints": 1})
    for number, deployment in enumerate(deployments(cluster.submit(document, job_id="streaming"))):
        cluster.start_stream(deployment, restored_batch_id=number)
    cluster.say(decline(orders(cluster.pass_time(100))[0]))
    source = StreamSourceProgress(name="in", end_offset="{}", records_behind=900)
    lag = PartitionLag(source="in", topic="orders", partition=3, records_behind=900)
    said = {"sources": (source,), "partitions_behind": 1, "partition_lags": (lag,), "input_rows": 100, "state_rows": 3}
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=4, watermark_ms=START_MS, **said)
    cluster.acknowledge(orders(cluster.pass_time(100))[0], batch_id=5)
    answer = ask(cluster, "/jobs/stream/checkpoints")
    assert answer["counts"] == {"triggered": 3, "in_progress": 1, "completed": 1, "failed": 1, "restored": 2}
    assert (answer["settings"]["interval_ms"], answer["retained"]) == (100, [2])
    history = [(each["checkpoint_id"], each["status"], each["reason"]) for each in answer["history"]]
    assert history == [(2, "COMPLETED", None), (1, "FAILED", "DECLINED")]
    assert (answer["latest"]["completed"]["state_rows"], answer["latest"]["failed"]["checkpoint_id"]) == (6, 1)
    assert answer["latest"]["restored"]["task"] == "s[0]#1"
    assert (answer["pending"]["checkpoint_id"], answer["pending"]["acknowledged"], answer["pending"]["subtasks"]) == (3, 1, 2)
    first, second = answer["subtasks"]
    assert (first["answer"]["batch_id"], first["back_pressure"]["level"]) == (5, "OK")
    stands = (second["answer"]["batch_id"], second["answer"]["watermark"], second["back_pressure"]["ratio"])
    assert stands == (4, iso_time(START_MS), 0.9)
    assert second["answer"]["partitions_behind"] == 1
    assert second["answer"]["partition_lags"] == [{"source": "in", "topic": "orders", "partition": 3, "records_behind": 900}]
    assert second["start"]["run_id"] == "run-1-of-s-1"
    batch = ask(cluster, "/jobs/batch/checkpoints")
    assert (batch["settings"], batch["history"], batch["subtasks"]) == (None, [], [])
    assert set(batch) == set(answer)


def test_the_narrow_questions_are_answered_from_the_same_state() -> None:
    cluster = ScriptedCluster()
    for number in range(3):
        cluster.submit(graph(vertex("a")), job_id=f"job-{number}")
    overview = ask(cluster, "/overview")["overview"]
    assert (overview["jobs"], overview["jobs_live"], overview["slots"], overview["slot_requests"]) == ({"RUNNING": 3}, 3, 0, 3)
    assert ask(cluster, "/job-statuses")["jobs"] == [[f"job-{n}", "RUNNING"] for n in range(3)]
    status = ask(cluster, "/jobs/job-1/status")["job"]
    assert (status["job_id"], status["status"], status["job_master_id"]) == ("job-1", "RUNNING", "job-1-1")
    assert ask(cluster, "/taskmanagers")["task_managers"] == []
    with pytest.raises(TaskManagerNotFound, match="TaskManager not found: 'tm'"):
        ask(cluster, "/taskmanagers/tm")
    with pytest.raises(JobNotFound, match="job not found: 'job-'"):  # Only whole ids: a program says what it means.
        ask(cluster, "/jobs/job-/status")
    with pytest.raises(JobNotFound, match="'job-' is ambiguous: 3 job ids begin with it, such as job-0, job-1"):
        ask(cluster, "/jobs/job-")


def test_of_more_jobs_than_a_list_holds_the_newest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.views.queries.MAX_LISTED_JOBS", 2)
    cluster = ScriptedCluster()
    for number in range(5):
        cluster.submit(graph(vertex("a")), job_id=f"job-{number}")
    answer = ask(cluster, "/job-statuses")
    assert (answer["jobs"], answer["total"]) == ([["job-3", "RUNNING"], ["job-4", "RUNNING"]], 5)
