"""Flink's own history server, unmodified, shows the archives of our jobs as our REST process shows the jobs."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest

from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.open_storage import open_storage
from eventflink.rest.flink.archive_format import flink_archive
from eventflink.views.archive import archive_view
from tests.support.browser import Tabs
from tests.support.cluster import ScriptedCluster
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster
from tests.support.flink_dashboard import FlinkDashboard
from tests.support.flink_history_server import flink_history_server
from tests.support.rest_client import rest_client

PAGES: Final = {
    "job/completed": ("Completed Jobs", "CANCELED", "FAILED"),
    f"job/completed/{STREAMS}/overview": ("STREAMING", "Parallelism: 2"),
    f"job/completed/{STREAMS}/overview/s/subtasks": ("CANCELED", "tm"),
    f"job/completed/{STREAMS}/overview/s/taskmanagers": ("CANCELED", "tm"),
    f"job/completed/{STREAMS}/overview/s/accumulators": ("Vertex Accumulators",),
    f"job/completed/{STREAMS}/checkpoints": ("Triggered: 1", "Completed: 1"),
    f"job/completed/{STREAMS}/configuration": ("Execution Configuration",),
    f"job/completed/{FAILED}/exceptions": ("Root Exception", "KeyError: no 'y' on Straßenbahn"),
    f"job/completed/{FAILED}/timeline": ("Vertex TimeLine",),
}


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return ended_cluster()


@pytest.fixture(scope="module")
def url(cluster: ScriptedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the history server is; it has read the archives."""
    directory = tmp_path_factory.mktemp("history")
    archives = FlinkArchives(open_storage(str(directory / "archives")), flink_archive)
    for job_id in (STREAMS, FAILED):
        archives.write(archive_view(cluster.fold, job_id))
    with flink_history_server(directory / "archives", directory / "flink") as found:
        yield found


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def test_flinks_own_history_server_answers_as_the_rest_process_does(cluster: ScriptedCluster, url: str) -> None:
    paths = [path for job_id in (STREAMS, FAILED) for path, _ in flink_archive(archive_view(cluster.fold, job_id))]
    with rest_client(cluster.fold) as client:
        ours = {row["jid"]: row for row in client.get("/jobs/overview").json()["jobs"]}
        for row in get(f"{url}/jobs/overview")["jobs"]:
            assert row | ours.pop(row["jid"]) == row, "Flink adds fields and changes none"
        assert not ours
        for path in paths:
            if path != "/jobs/overview":
                assert get(f"{url}{path}") == client.get(path).json(), path


def test_its_dashboard_shows_each_page_of_a_job(browser: Tabs, url: str) -> None:
    browser.expect(r"^GET /jobs/\w+/vertices/s/subtasks/metrics\?get=.*: 404$")
    browser.expect(r"^GET /jobs/\w+/vertices/s/watermarks: 404$")
    dashboard = FlinkDashboard(browser, url)
    for place, texts in PAGES.items():
        dashboard.show(place, *texts)
