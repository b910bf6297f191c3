"""Flink's own history server, unmodified, shows the archives of our jobs as our REST process shows the jobs."""

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.open_storage import open_storage
from eventflink.local.jars import ensure_jars
from eventflink.local.java import find_java
from eventflink.rest.flink.archive_format import flink_archive
from eventflink.views.archive import archive_view
from tests.support.browser import Tabs
from tests.support.cluster import ScriptedCluster
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster
from tests.support.flink_client import FLINK
from tests.support.flink_dashboard import FlinkDashboard
from tests.support.rest_client import rest_client
from tests.support.running_cluster import wait_until

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


HISTORY_SERVER: Final = "org.apache.flink.runtime.webmonitor.history.HistoryServer"


@contextmanager
def flink_history_server(archives: Path, directory: Path) -> Iterator[str]:
    """Run one over a directory of archives; give its URL once it has read what is there. It keeps its own files in `directory`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {
        "historyserver.web.address": "127.0.0.1",
        "historyserver.web.port": port,
        "historyserver.web.tmpdir": directory / "web",
        "historyserver.archive.fs.dir": archives.as_uri(),
        "historyserver.archive.fs.refresh-interval": 100,
        # Without these its dashboard asks for what it has not, and says so on the console.
        "historyserver.log.jobmanager.url-pattern": "http://localhost/<jobid>",
        "historyserver.log.taskmanager.url-pattern": "http://localhost/<jobid>/<tmid>",
    }
    directory.mkdir()
    (directory / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
    java = find_java()
    command = [str(java), "-cp", f"{ensure_jars(FLINK, java)}/*", HISTORY_SERVER, "--configDir", str(directory)]
    url = f"http://127.0.0.1:{port}"
    with (
        (directory / "output.txt").open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=os.environ) as process,
    ):
        try:

            def has_read() -> bool:
                assert process.poll() is None, (directory / "output.txt").read_text(encoding="utf-8")
                return b'"jid"' in _get(f"{url}/jobs/overview")

            wait_until(has_read, "Flink's history server")
            yield url
        finally:
            process.terminate()
            process.wait(120)


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, ConnectionError):
        return b""


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
    with urllib.request.urlopen(url, timeout=120) as answer:
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
