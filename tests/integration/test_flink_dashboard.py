"""Flink's own web dashboard shows a cluster of ours: each of its pages has what it must show, and finds nothing wrong."""

import urllib.request
from typing import Final

import pytest
from playwright.sync_api import expect
from urllib3 import encode_multipart_formdata

from eventflink.events.log_events import JobSubmitted
from eventflink.master.rescaling import wanted_parallelism
from eventflink.model.attempts import FailureCause
from eventflink.model.resources import ResourceProfile
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.browser import TIMEOUT_MS, Tabs
from tests.support.bundles import bundle
from tests.support.cluster import START_MS, ScriptedCluster, decline, deployments, fixed_delay, graph, orders, stream, vertex
from tests.support.flink_dashboard import FlinkDashboard
from tests.support.rest_server import served
from tests.support.running_cluster import wait_until

STREAMS: Final = "a" * 32
OVER: Final = "b" * 32
BROKEN: Final = "c" * 32
ELASTIC: Final = "d" * 32

READER: Final = f"job/running/{STREAMS}/overview/reader"
PAGES: Final = {
    "overview": ("Available Task Slots5", "Total Task Slots10", "Running Applications2", "SingleJobApplication(clicks)", "FINISHED"),
    "application/running": ("SingleJobApplication(clicks)", "SingleJobApplication(elastic)"),
    "application/completed": ("SingleJobApplication(over)", "SingleJobApplication(broken)"),
    f"application/running/{STREAMS}/overview": ("Cancel Application", "Running Job List", "clicks"),
    f"application/completed/{BROKEN}/exceptions": ("KeyError: 'user'",),
    "job/running": ("Running Jobs", "clicks", "elastic"),
    "job/completed": ("Completed Jobs", "over", "FINISHED", "broken", "FAILED"),
    f"job/running/{STREAMS}/overview": ("STREAMING", "Parallelism: 2", "Backpressured (max): 0%", "Data Skew: 40%"),
    f"{READER}/detail": ("Max Parallelism", "Records Sent"),
    f"{READER}/subtasks": ("Subtask Metrics", "Aggregated Metrics", "Records Received"),
    f"{READER}/taskmanagers": ("Endpoint", "tm1"),
    f"{READER}/watermarks": ("Datetime of Watermark", str(START_MS)),
    f"{READER}/accumulators": ("Vertex Accumulators", "SubTask Accumulators"),
    f"{READER}/backpressure": ("Back Pressure Status: OK", "Thread Dump"),
    f"{READER}/metrics": ("Add Metric",),
    f"{READER}/flamegraph": ("flame graph feature is currently disabled",),
    f"job/running/{STREAMS}/exceptions": ("Root Exception", "CheckpointFailureThresholdExceeded"),
    f"job/running/{STREAMS}/dataskew": ("What is Data Skew?", "reader"),
    f"job/running/{STREAMS}/timeline": ("Vertex TimeLine",),
    f"job/running/{STREAMS}/configuration": ("Execution Configuration", "fixed-delay, attempts 3, delay_ms 500"),
    f"job/running/{STREAMS}/checkpoints": (
        "Triggered: 4",
        "Completed: 3",
        "Failed: 1",
        f"/savepoints/savepoint-{STREAMS}-3",
        "2/2 (100%)",
        "declined: the query has stopped",
    ),
    f"job/completed/{OVER}/overview": ("BATCH", "FINISHED", "Parallelism: 2"),
    f"job/completed/{OVER}/timeline": ("Vertex TimeLine",),
    f"job/completed/{BROKEN}/exceptions": ("KeyError: 'user'",),
    "task-manager": ("Task Managers", "tm1", "host-of-tm1:1"),
    "task-manager/tm1/metrics": ("5 / 10", "Garbage Collection"),
    "job-manager/metrics": ("JVM Heap", "Garbage Collection"),
    "job-manager/config": ("Configurations", "bootstrap.servers", "CPython"),
    "job-manager/log": ("Log Name",),
    "job-manager/thread-dump": ("in _bootstrap",),
    "submit": ("Uploaded Jars",),
}
"""What is to be seen on the pages that ask for nothing that is refused."""

CHECKPOINTS: Final = {
    "History": ("COMPLETED", "[Savepoint]", "FAILED"),
    "Summary": ("Percentile", "End to End Duration", "210 B"),
    "Configuration": ("Exactly Once", "Interval", "100ms", "delete on cancellation"),
}
"""What is to be seen in the tabs of the page of checkpoints."""

REFUSED: Final = {
    "job-manager/logs": "GET /jobmanager/log: 404",
    "job-manager/stdout": "GET /jobmanager/stdout: 404",
    "job-manager/profiler": "GET /jobmanager/profiler: 404",
    "task-manager/tm1/profiler": "GET /taskmanagers/tm1/profiler: 404",
}
"""What is not there of a Flink whose JobManager logs to no file and whose profiler is disabled either."""


@pytest.fixture
def cluster() -> ScriptedCluster:
    """A cluster with a job of each kind: streams that were restored, one that is over, one that failed, one that may be rescaled."""
    cluster = ScriptedCluster()
    cluster.register("tm1", slots=10, profile=ResourceProfile(1000, 512 << 20))
    cluster.run(cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")]) | {"name": "over"}, job_id=OVER))
    [broken] = deployments(cluster.submit(graph(vertex("a")) | {"name": "broken"}, job_id=BROKEN))
    cluster.report(broken, ExecutionState.FAILED, cause=FailureCause("KeyError", "user", "Traceback\nKeyError: 'user'"))
    document = graph(stream("reader", 2), stream("writer"), restart_strategy=fixed_delay(3), checkpointing={"interval_ms": 100})
    for task in deployments(cluster.submit(document | {"name": "clicks"}, job_id=STREAMS)):
        cluster.start_stream(task)
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=3, state_bytes=70)
    cluster.run(cluster.say(decline(orders(cluster.pass_time(100))[0])))
    for task in deployments(cluster.pass_time(1000)):
        cluster.start_stream(task, restored_batch_id=3)
    saved = cluster.command(type="TriggerSavepoint", job_id=STREAMS, target_directory="/savepoints", request_id="e" * 32)
    cluster.acknowledge(*orders(saved), batch_id=5, state_bytes=70)
    asked = orders(cluster.pass_time(100))
    cluster.acknowledge(*asked[:1], batch_id=9, state_bytes=70, watermark_ms=START_MS, input_rows_per_second=7.0)
    cluster.acknowledge(*asked[1:], batch_id=9, state_bytes=70, input_rows_per_second=3.0)
    for task in deployments(cluster.submit(graph(vertex("a", 2), scheduler="adaptive") | {"name": "elastic"}, job_id=ELASTIC)):
        cluster.report(task, ExecutionState.RUNNING)
    return cluster


def test_every_page_of_flinks_dashboard_has_what_it_must_show(cluster: ScriptedCluster, browser: Tabs) -> None:
    with served(cluster) as serving:
        dashboard = FlinkDashboard(browser, serving.url)
        for place, texts in PAGES.items():
            dashboard.show(place, *texts)
        dashboard.show(f"job/running/{STREAMS}/checkpoints", "Checkpoint Counts")
        for tab, texts in CHECKPOINTS.items():
            dashboard.choose(tab, *texts)
        for place, refused in REFUSED.items():
            dashboard.show(place, refused=refused)


def test_a_job_is_rescaled_and_cancelled_in_flinks_dashboard(cluster: ScriptedCluster, browser: Tabs) -> None:
    with served(cluster) as serving:
        dashboard = FlinkDashboard(browser, serving.url)
        dashboard.show(f"job/running/{ELASTIC}/overview", "Cancel Job", "Scale")
        with dashboard.page.expect_response(lambda answer: answer.request.method == "PUT"):
            dashboard.page.locator("nz-button-group button").first.click()
        assert wanted_parallelism(cluster.job(ELASTIC), "a") == 3
        dashboard.page.get_by_text("Cancel Job").click()
        dashboard.page.get_by_role("button", name="Yes").dispatch_event("click")
        expect(dashboard.page.locator("nz-content")).to_contain_text("CANCELLING", timeout=TIMEOUT_MS)
        assert cluster.job(ELASTIC).status is JobStatus.CANCELLING


def test_a_bundle_is_run_in_flinks_dashboard(cluster: ScriptedCluster, browser: Tabs) -> None:
    with served(cluster) as serving:
        body, kind = encode_multipart_formdata({"jarfile": ("numbers.jar", bundle())})
        urllib.request.urlopen(urllib.request.Request(f"{serving.url}/jars/upload", body, {"Content-Type": kind}), timeout=120).close()
        dashboard = FlinkDashboard(browser, serving.url)
        dashboard.show("submit", "numbers.jar")
        dashboard.page.get_by_text("numbers.jar").click()
        dashboard.page.get_by_placeholder("Parallelism").fill("2")
        dashboard.page.get_by_role("button", name="Submit", exact=True).click()
        expect(dashboard.page.locator("nz-content")).to_contain_text("numbers", timeout=TIMEOUT_MS)
        # The page says so of the bundle before, too.
        submitted = wait_until(lambda: next((e for e in cluster.events(JobSubmitted) if e.job_graph.name == "numbers"), None), "submitted")
        assert submitted.job_graph.vertices[0].parallelism == 2
