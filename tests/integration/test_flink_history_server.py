"""Flink's own history server, unmodified, shows the archives of our jobs as our REST process shows the jobs."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.open_storage import open_storage
from eventflink.rest.flink.archive_format import flink_archive
from eventflink.views.archive import archive_view
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster
from tests.support.flink_history_server import flink_history_server
from tests.support.rest_client import rest_client


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def test_flinks_own_history_server_answers_as_the_rest_process_does(tmp_path: Path) -> None:
    cluster = ended_cluster()
    archives = FlinkArchives(open_storage(str(tmp_path / "archives")), flink_archive)
    for job_id in (STREAMS, FAILED):
        archives.write(archive_view(cluster.fold, job_id))
    paths = [path for job_id in (STREAMS, FAILED) for path, _ in flink_archive(archive_view(cluster.fold, job_id))]
    with flink_history_server(tmp_path / "archives", tmp_path / "flink") as url, rest_client(cluster.fold) as client:
        ours = {row["jid"]: row for row in client.get("/jobs/overview").json()["jobs"]}
        for row in get(f"{url}/jobs/overview")["jobs"]:
            assert row | ours.pop(row["jid"]) == row, "Flink adds fields and changes none"
        assert not ours
        for path in paths:
            if path != "/jobs/overview":
                assert get(f"{url}{path}") == client.get(path).json(), path
