"""Commands over Flink's REST API to a real cluster with a real stream: done once, and told alike by every REST process."""

import json
import os
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from flink_rest_client import FlinkRestClient
from urllib3 import encode_multipart_formdata

from eventflink.events.log_events import CheckpointTriggered
from eventflink.events.topics import Topic, topic_name
from eventflink.model.statuses import JobStatus
from eventflink.streams.savepoint import read_savepoint
from tests.support.browser import Tabs
from tests.support.bundles import bundle
from tests.support.dashboard_pages import Dashboard
from tests.support.flink_client import FlinkCommandLine
from tests.support.flink_dashboard import FlinkDashboard
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.stream_work import SPARK_TIMEOUT_S, Work

pytestmark = pytest.mark.slow

TRIGGER = "0123456789abcdef0123456789abcdef"
ENDLESS = "name: endless\nvertices: [{id: only, python: 'endless:run', parameters: {seconds: 600}}]"
CODE = b"import time\n\n\ndef run(context):\n    time.sleep(context.parameters['seconds'])\n"


@pytest.fixture(scope="module")
def cluster(bootstrap: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(bootstrap, tmp_path_factory.mktemp("commands"), **{"spark.remote": spark}) as running:
        running.start_master("master-1")
        running.start_task_executor(slots=4)
        yield running


def call(method: str, url: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """Return status and document of an answer; text that is no JSON as it is."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json; charset=UTF-8"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            text, kind = answer.read().decode(), answer.headers["Content-Type"]
            return answer.status, json.loads(text) if kind.startswith("application/json") else text
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def outcome(url: str) -> Any:
    """Return what became of an operation, once it has ended."""

    def ended() -> Any:
        status, answer = call("GET", url)
        assert status == 200, answer
        return answer if answer["status"]["id"] == "COMPLETED" else None

    return wait_until(ended, "the operation", SPARK_TIMEOUT_S)["operation"]


def savepoints_of(cluster: RunningCluster, job_id: str) -> int:
    return len([event for event in cluster.events_of(job_id) if isinstance(event, CheckpointTriggered) and event.savepoint])


def submit_with_code(url: str) -> str:
    """Submit a job that runs until it is cancelled, with its code, which is longer than any other body may be; return its id."""
    data = random.Random(1).randbytes(2 * 1024 * 1024)
    body, kind = encode_multipart_formdata([("document", ENDLESS), ("code", ("endless.py", CODE)), ("code", ("data/noise.bin", data))])
    request = urllib.request.Request(f"{url}/eventflink/v1/jobs", body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(json.load(answer)["job_id"])


def test_a_savepoint_is_taken_once_through_the_death_of_a_rest_process_and_the_job_is_drained_with_another(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    url = cluster.start_rest("rest-1")
    work = Work(cluster)
    work.feed()
    job_id = work.submit()
    work.wait_until_copied()
    wanted = {"target-directory": str(tmp_path), "cancel-job": False, "formatType": "CANONICAL", "triggerId": TRIGGER}
    savepoints = f"/jobs/{job_id}/savepoints"
    assert call("POST", url + savepoints, wanted) == (202, {"request-id": TRIGGER})
    taken = outcome(f"{url}{savepoints}/{TRIGGER}")
    assert read_savepoint(taken["location"]).manifest.job_id == job_id
    assert call("POST", url + savepoints, wanted) == (202, {"request-id": TRIGGER})

    cluster.kill("rest-1")
    url = cluster.start_rest("rest-2")
    assert outcome(f"{url}{savepoints}/{TRIGGER}") == taken
    assert call("POST", url + savepoints, wanted) == (202, {"request-id": TRIGGER})
    assert savepoints_of(cluster, job_id) == 1

    status, answer = call("POST", f"{url}/jobs/{job_id}/checkpoints", {"checkpointType": "CONFIGURED"})
    assert status == 202
    assert outcome(f"{url}/jobs/{job_id}/checkpoints/{answer['request-id']}")["checkpointId"] > 1

    work.feed()
    status, answer = call("POST", f"{url}/v1/jobs/{job_id}/stop", {"targetDirectory": f"file:{tmp_path}", "drain": True})
    assert status == 202
    stopped = outcome(f"{url}{savepoints}/{answer['request-id']}")["location"]
    assert stopped.startswith(f"file://{tmp_path}/savepoint-{job_id}-")
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    work.check_copied_once()
    assert call("PATCH", f"{url}/jobs/{job_id}?mode=cancel")[0] == 409
    assert call("POST", f"{url}/jobs/{job_id}/savepoints", {"target-directory": str(tmp_path)})[0] == 409

    for removed in (taken["location"], stopped):
        status, answer = call("POST", f"{url}/savepoint-disposal", {"savepoint-path": removed})
        assert status == 200
        assert outcome(f"{url}/savepoint-disposal/{answer['request-id']}") == {"failure-cause": None}
    assert not list(tmp_path.iterdir())
    assert cluster.stop("rest-2") == 0


def test_the_dashboard_shows_which_masters_are_there(cluster: RunningCluster, browser: Tabs) -> None:
    dashboard = Dashboard(browser, cluster.start_rest())
    dashboard.show("/masters")
    there = dashboard.page.get_by_role("region", name="Masters that are there")
    there.get_by_role("row").filter(has_text="master-1").get_by_text("leads").wait_for()
    dashboard.page.close()
    assert cluster.stop("rest") == 0


def test_flinks_dashboard_shows_the_files_of_a_task_manager(cluster: RunningCluster, browser: Tabs) -> None:
    dashboard = FlinkDashboard(browser, cluster.start_rest())
    dashboard.show("task-manager/tm/logs", "TaskExecutorStarted")
    dashboard.show("task-manager/tm/log-list", "Last Modified Time", ".log")
    dashboard.show("task-manager/tm/stdout")
    dashboard.show("task-manager/tm/thread-dump", "native_id=")
    assert cluster.stop("rest") == 0


def test_code_is_submitted_and_cancelled_and_the_files_of_its_task_manager_are_read(cluster: RunningCluster) -> None:
    url = cluster.start_rest()
    job_id = submit_with_code(url)
    cluster.wait_for_running(job_id)
    [running] = [slot for slot in call("GET", f"{url}/taskmanagers/tm")[1]["allocatedSlots"] if slot["jobId"] == job_id]
    assert running["assignedTasks"] == 1
    [row] = call("GET", f"{url}/taskmanagers")[1]["taskmanagers"]
    memory = psutil.virtual_memory().total
    assert 0 < row["hardware"].pop("freeMemory") <= memory
    assert row["hardware"] == {"cpuCores": len(os.sched_getaffinity(0)), "physicalMemory": memory, "managedMemory": -1}
    heard_ms = row["timeSinceLastHeartbeat"]
    wait_until(lambda: call("GET", f"{url}/taskmanagers/tm")[1]["timeSinceLastHeartbeat"] > heard_ms, "a newer heartbeat")

    logs = call("GET", f"{url}/taskmanagers/tm/logs")[1]["logs"]
    assert all(log["size"] >= 0 and log["mtime"] > 0 for log in logs)
    status, log = call("GET", f"{url}/taskmanagers/tm/log")
    assert status == 200
    assert "TaskExecutor" in log
    assert call("GET", f"{url}/taskmanagers/tm/logs/{logs[0]['name']}")[0] == 200
    threads = call("GET", f"{url}/taskmanagers/tm/thread-dump")[1]["threadInfos"]
    assert "MainThread" in [thread["threadName"] for thread in threads]
    status, answer = call("GET", f"{url}/taskmanagers/tm/logs/none.log")
    assert status == 404
    assert "log not found: 'none.log'" in answer["errors"][0]
    assert call("GET", f"{url}/taskmanagers/nobody/log")[0] == 404
    attempts = f"{url}/eventflink/v1/jobs/{job_id}/vertices/only/subtasks/0/attempts"
    status, file = call("GET", f"{attempts}/1/files/log")
    assert (status, file["first_line"], file["size_bytes"]) == (200, 1, len(file["text"].encode()))
    assert call("GET", f"{attempts}/9/files/log")[0] == 404
    assert call("GET", f"{attempts}/1/files/core")[0] == 400

    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic_name(cluster.cluster_id, Topic.COMMANDS), b"nonsense \xff")
    assert producer.flush(30) == 0
    found = wait_until(lambda: call("GET", f"{url}/eventflink/v1/dead-letters")[1]["records"], "the dead letter")
    assert (found[0]["topic"], found[0]["hex"], found[0]["text"]) == ("commands", b"nonsense \xff".hex(), None)
    assert found[0]["reason"].startswith(f"commands@{found[0]['input_offset']}: "), found

    def answered() -> Any:
        topics = {row["topic"]: row for row in call("GET", f"{url}/eventflink/v1/topics")[1]["topics"]}
        return topics if topics["commands"]["lag"] == 0 else None

    topics = wait_until(answered, "the answer to the last command")
    assert topics["commands"]["next_offset"] > found[0]["input_offset"]
    assert topics["log"]["messages"] > 0

    assert call("PATCH", f"{url}/jobs/nobody")[0] == 404
    status, answer = call("POST", f"{url}/eventflink/v1/commands", {"type": "CancelJob", "job_id": job_id})
    assert (status, answer["subject"]) == (200, job_id)
    listed = {job["id"]: job["status"] for job in call("GET", f"{url}/jobs")[1]["jobs"]}
    assert listed[job_id] in ("CANCELLING", "CANCELED")
    cluster.wait_for_status(job_id, JobStatus.CANCELED)
    assert call("PATCH", f"{url}/jobs/{job_id}?mode=cancel") == (202, {})
    assert cluster.stop("rest") == 0


def test_a_client_of_flink_runs_a_bundle_as_a_jar_which_has_its_code_and_goes_with_the_process(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    url = cluster.start_rest()
    jars = FlinkRestClient.get("127.0.0.1", int(url.rpartition(":")[2])).jars
    (tmp_path / "endless.jar").write_bytes(bundle({"job.yaml": ENDLESS, "endless.py": CODE}))
    uploaded = Path(jars.upload(str(tmp_path / "endless.jar"))["filename"])
    job_id = jars.run(uploaded.name, arguments={"seconds": 0})
    assert uploaded.exists()
    assert cluster.stop("rest") == 0
    assert not uploaded.parent.exists()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)


def test_flinks_own_command_line_lists_saves_stops_and_cancels_jobs(cluster: RunningCluster, tmp_path: Path) -> None:
    flink = FlinkCommandLine(cluster.start_rest(), tmp_path / "conf")
    work = Work(cluster)
    work.feed()
    job_id = work.submit()
    work.wait_until_copied()
    assert f"{job_id} : test (RUNNING)" in flink.run("list")

    said = flink.run("savepoint", job_id, str(tmp_path / "savepoints"))
    [first] = (tmp_path / "savepoints").iterdir()
    assert f"Savepoint completed. Path: {first}" in said
    assert "Checkpoint" in (said := flink.run("checkpoint", job_id)), said
    assert "completed" in said

    work.feed()
    said = flink.run("stop", "--drain", "--savepointPath", str(tmp_path / "savepoints"), job_id)
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    work.check_copied_once()
    [second] = set((tmp_path / "savepoints").iterdir()) - {first}
    assert f"Savepoint completed. Path: {second}" in said
    assert f"{job_id} : test (FINISHED)" in flink.run("list", "--all")

    flink.run("savepoint", "--dispose", f"file://{first}")
    assert list((tmp_path / "savepoints").iterdir()) == [second]
    another = cluster.run_task("wait_for_file", path=str(tmp_path / "gate"))
    cluster.wait_for_running(another)
    assert f"Cancelled job {another}" in flink.run("cancel", another)
    cluster.wait_for_status(another, JobStatus.CANCELED)
    assert "JobTerminated" in flink.run("savepoint", job_id, exit_code=1)
    cluster.stop("rest")
