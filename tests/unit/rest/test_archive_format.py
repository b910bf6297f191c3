"""An archive in Flink's format holds what Flink's API answers about the job, whole or not at all, under ids that Flink can read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob import flink_archives
from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.open_storage import open_storage
from eventflink.documents.one_job import JobArchive
from eventflink.rest.flink.archive_format import flink_archive
from eventflink.views.archive import archive_view
from tests.support.cluster import ScriptedCluster
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster, fail_twice
from tests.support.rest_client import rest_client


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return ended_cluster()


def archive_in(place: Path, archive: JobArchive) -> dict[str, Any]:
    """Write an archive; return its answers by path."""
    location = FlinkArchives(open_storage(str(place)), flink_archive).write(archive)
    assert location is not None
    document = json.loads(Path(location).read_bytes())
    assert list(document) == ["archive"]
    answers = {entry["path"]: json.loads(entry["json"]) for entry in document["archive"]}
    assert len(answers) == len(document["archive"])
    return answers


@pytest.mark.parametrize("job_id", [STREAMS, FAILED])
def test_each_path_holds_what_the_rest_process_answers(cluster: ScriptedCluster, tmp_path: Path, job_id: str) -> None:
    answers = archive_in(tmp_path, archive_view(cluster.fold, job_id))
    with rest_client(cluster.fold) as client:
        rows = client.get("/jobs/overview").json()["jobs"]
        assert answers.pop("/jobs/overview") == {"jobs": [row for row in rows if row["jid"] == job_id]}
        for path, answer in answers.items():
            assert client.get(path).json() == answer, path


def test_attempts_and_checkpoints_have_paths_of_their_own_as_in_flink(cluster: ScriptedCluster, tmp_path: Path) -> None:
    failed = archive_in(tmp_path, archive_view(cluster.fold, FAILED))
    attempts = f"/jobs/{FAILED}/vertices/a/subtasks/0/attempts"
    assert [failed[f"{attempts}/{number}"]["status"] for number in (0, 1)] == ["FAILED", "FAILED"]
    assert len(failed[f"/jobs/{FAILED}/exceptions"]["exceptionHistory"]["entries"]) == 2
    assert f"/jobs/{FAILED}/checkpoints" not in failed, "it has no streams"
    streams = archive_in(tmp_path, archive_view(cluster.fold, STREAMS))
    assert streams[f"/jobs/{STREAMS}/checkpoints"]["counts"]["completed"] == 1
    assert streams[f"/jobs/{STREAMS}/checkpoints/details/1/subtasks/s"]["num_subtasks"] == 2


def test_a_job_whose_id_flink_cannot_read_gets_none(tmp_path: Path) -> None:
    cluster = ScriptedCluster()
    cluster.register()
    fail_twice(cluster, "nightly")
    assert FlinkArchives(open_storage(str(tmp_path)), flink_archive).write(archive_view(cluster.fold, "nightly")) is None
    assert not list(tmp_path.iterdir())


def test_what_is_too_long_or_fails_midway_leaves_no_file(cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_view(cluster.fold, FAILED)
    with monkeypatch.context() as shorter:
        shorter.setattr(flink_archives, "MAX_ARCHIVE_BYTES", 2_000)
        with pytest.raises(ValueError, match="longer than 2000 bytes"):
            archive_in(tmp_path, archive)
    broken = replace(archive.job.vertices[1], subtasks=[replace(archive.job.vertices[1].subtasks[0], state="NO STATE")])  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        archive_in(tmp_path, replace(archive, job=replace(archive.job, vertices=[archive.job.vertices[0], broken])))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
