"""A history server answers about archived jobs as a REST process does, of several clusters; what it cannot read it names and skips."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from eventflink.blob.flink_archives import FlinkArchives
from eventflink.blob.job_archives import render_archive
from eventflink.blob.open_storage import open_storage
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.documents.one_job import JobArchive
from eventflink.documents.plain import plain
from eventflink.model.configuration import ConfigurationError, load_configuration
from eventflink.reader.archives.index import ArchiveIndex
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.protection import configured_protection
from eventflink.rest.access.tokens import mint_token
from eventflink.rest.flink.archive_format import flink_archive
from eventflink.views.archive import archive_view
from tests.support.archive_server import client_of, history, put
from tests.support.cluster import ScriptedCluster
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster
from tests.support.ftp_storage import ftp_server
from tests.support.rest_client import rest_client

PARTS = {
    "rescaleuuid": "7",
    "vertexid": "s",
    "subtaskindex": "0",
    "attempt": "0",
    "checkpointid": "1",
    "taskmanagerid": "tm",
    "path": "overview",
}


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return ended_cluster()


@pytest.fixture(scope="module")
def failed(cluster: ScriptedCluster) -> JobArchive:
    return archive_view(cluster.fold, FAILED)


def ids(client: TestClient, path: str) -> list[str]:
    return [row["jid"] for row in client.get(path).json()["jobs"]]


def error(client: TestClient, path: str, status: int) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    [message] = answer.json()["errors"]
    assert isinstance(message, str)
    return message


def test_every_route_of_a_job_answers_as_in_the_rest_process(cluster: ScriptedCluster, tmp_path: Path) -> None:
    for job_id in (STREAMS, FAILED):
        put(tmp_path, "c", archive_view(cluster.fold, job_id))
    answered = 0
    with history(tmp_path) as (client, _), rest_client(cluster.fold) as rest:
        paths = client.get("/eventflink/v1/openapi.json").json()["paths"]
        of_a_job = [path.removeprefix("/v1") for path in paths if "{jobid}" in path or "{applicationid}" in path]
        for path in [path for path in of_a_job if not path.startswith("/eventflink")]:
            for job_id in (STREAMS, FAILED):
                asked = path.format_map({**PARTS, "jobid": job_id, "applicationid": job_id})
                answer, expected = client.get(asked), rest.get(asked)
                assert (answer.status_code, answer.json()) == (expected.status_code, expected.json()), asked
                answered += answer.status_code == 200
        assert answered > 35
        for path in ("/jobs/overview", "/applications/overview", "/jobs"):
            assert client.get(path).json() == rest.get(path).json()
        assert client.get(f"/eventflink/v1/archives/c/{FAILED}").json() == json.loads(json.dumps(plain(archive_view(cluster.fold, FAILED))))


def test_a_job_id_of_two_clusters_is_the_one_that_ended_last_or_that_of_the_cluster_that_is_named(
    failed: JobArchive, tmp_path: Path
) -> None:
    put(tmp_path / "one", "east", failed, name="older")
    put(tmp_path / "two", "west", failed, name="newer", ended_at="2100-01-01T00:00:00.000+00:00")
    with history(tmp_path / "one", tmp_path / "two") as (client, _):
        assert client.get(f"/jobs/{FAILED}").json()["name"] == "newer"
        assert client.get(f"/jobs/{FAILED}?cluster=east").json()["name"] == "older"
        assert [row["name"] for row in client.get("/jobs/overview").json()["jobs"]] == ["newer"]
        assert [row["name"] for row in client.get("/jobs/overview?cluster=east").json()["jobs"]] == ["older"]
        rows = client.get("/eventflink/v1/archives").json()["jobs"]
        assert [(row["cluster_id"], row["name"]) for row in rows] == [("west", "newer"), ("east", "older")]
        assert rows[0]["location"] == f"{tmp_path}/two/west/{FAILED}.json"
        assert error(client, f"/jobs/{FAILED}?cluster=north", 404) == f"archive not found: job '{FAILED}' of cluster 'north'"


def test_the_list_has_pages_which_hold_each_job_once_and_filters(failed: JobArchive, tmp_path: Path) -> None:
    for number in range(7):
        # Names that begin alike, and many that ended at the same time.
        put(tmp_path, ("c", "c.d", "c-d")[number % 3], failed, job_id=f"job-{number}", name=f"report {number % 2}")
    with history(tmp_path) as (client, _):
        found, after = list[str](), ""
        while True:
            page = client.get("/eventflink/v1/archives", params={"limit": 2, "after": after}).json()
            assert page["total"] == 7
            found += [row["job_id"] for row in page["jobs"]]
            if page["next"] is None:
                break
            after = page["next"]
        assert sorted(found) == [f"job-{number}" for number in range(7)]
        for parameters, count in (
            ({"cluster": "c.d"}, 2),
            ({"status": "FAILED"}, 7),
            ({"status": "FINISHED"}, 0),
            ({"name": "Report 1"}, 3),
            ({"name": "JOB-1"}, 1),
        ):
            assert client.get("/eventflink/v1/archives", params=parameters).json()["total"] == count, parameters
        assert client.get("/eventflink/v1/archives?limit=1001").status_code == 400


def test_what_is_no_archive_is_named_once_and_the_others_are_shown(
    failed: JobArchive, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "c", failed)
    damaged = put(tmp_path, "c", failed, job_id="damaged")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole.replace(b"FAILED", b"FAILES"))
    (tmp_path / "c" / "strange.json").write_bytes(render_archive({"job_id": "strange", "job": [1]})[0])
    (tmp_path / "c" / "empty.json").touch()
    for job_id, changed in (("lives", replace(failed.job, job_id="lives", ended_at=None)), ("mistaken", failed.job)):
        (tmp_path / "c" / f"{job_id}.json").write_bytes(render_archive(plain(replace(failed, job_id=job_id, job=changed)))[0])
    FlinkArchives(open_storage(str(tmp_path)), flink_archive).write(failed)
    with history(tmp_path) as (client, index):
        assert ids(client, "/jobs/overview") == [FAILED]
        page = client.get("/eventflink/v1/archives").json()
        reasons = {each["location"].rpartition("/")[2]: each["reason"] for each in page["skipped"]}
        names = ["damaged.json", "empty.json", "lives.json", "mistaken.json", "strange.json"]
        assert (page["total"], page["skipped_total"], sorted(reasons)) == (1, len(names), names)
        assert reasons["damaged.json"].startswith(f"the archive {damaged} is damaged: its digest is ")
        assert reasons["strange.json"].startswith("invalid archive of a job: ")
        assert reasons["lives.json"].endswith("it tells of job 'lives', which has not ended")
        assert reasons["mistaken.json"].endswith(f"it tells of job '{FAILED}', which ended at {failed.job.ended_at}")
        index.refresh()
        assert sum(message.startswith("ArchiveSkipped") for message in caplog.messages) == len(names)
        damaged.write_bytes(whole)
        index.refresh()
        assert sorted(ids(client, "/jobs/overview")) == sorted([FAILED, "damaged"])


def test_an_archive_that_is_damaged_or_removed_later_is_never_served(failed: JobArchive, tmp_path: Path) -> None:
    path = put(tmp_path, "c", failed)
    with history(tmp_path) as (client, index):
        path.write_bytes(path.read_bytes().replace(b"FAILED", b"FAILES"))
        assert f"the archive {path} is damaged" in error(client, f"/jobs/{FAILED}", 410)
        path.unlink()
        assert error(client, f"/jobs/{FAILED}/exceptions", 410) == f"archive not found: {path}; it was there before"
        index.refresh()
        assert error(client, f"/jobs/{FAILED}", 404) == f"archive not found: job '{FAILED}'"
        assert ids(client, "/jobs/overview") == []


def test_of_each_directory_the_newest_archives_are_shown_and_none_is_removed(failed: JobArchive, tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / "one", f"c{number}", failed, job_id=f"job-{number}", later_s=number)
    put(tmp_path / "two", "c", failed, job_id="other")
    with history(tmp_path / "one", tmp_path / "two", retained=2) as (client, index):
        assert sorted(ids(client, "/jobs/overview")) == ["job-3", "job-4", "other"]
        put(tmp_path / "one", "c5", failed, job_id="job-5", later_s=5)
        index.refresh()
        assert sorted(ids(client, "/jobs/overview")) == ["job-4", "job-5", "other"]
    assert len(list(tmp_path.rglob("*.json"))) == 7


def test_a_directory_that_does_not_answer_keeps_what_was_known_and_is_named(failed: JobArchive, tmp_path: Path) -> None:
    put(tmp_path / "near", "c", failed, job_id="near")
    (tmp_path / "far").mkdir()
    with ftp_server(tmp_path / "far") as url:
        put(f"{url}/archives", "c", failed, job_id="far")
        index = ArchiveIndex([open_storage(str(tmp_path / "near")), open_storage(f"{url}/archives")], 10)
        index.refresh()
    index.refresh()
    with client_of(index) as client:
        assert sorted(ids(client, "/jobs/overview")) == ["far", "near"]
        assert client.get("/jobs/near").json()["state"] == "FAILED"
        assert "cannot be read" in error(client, "/jobs/far", 503)
        assert "does not answer" in error(client, "/jobs/nobody", 503)
        assert "does not answer" in client.get("/eventflink/v1/archives").json()["missing"]


def test_before_all_directories_were_looked_through_an_unknown_job_may_be_there(tmp_path: Path) -> None:
    with client_of(ArchiveIndex([open_storage(str(tmp_path))], 10)) as client:
        assert "the archives are being read; 0 are known so far" in error(client, f"/jobs/{FAILED}", 503)


def test_nothing_can_be_commanded_and_no_other_site_reads(failed: JobArchive, tmp_path: Path) -> None:
    put(tmp_path, "c", failed)
    with history(tmp_path) as (client, _):
        assert client.patch(f"/jobs/{FAILED}").status_code == 405
        assert client.delete("/cluster").status_code == 404
        assert client.post(f"/jobs/{FAILED}/savepoints", json={}).status_code == 404
        assert client.get("/jobs", headers={"Host": "elsewhere.example"}).status_code == 403
        features = client.get("/config").json()["features"]
        assert features == {"web-submit": False, "web-cancel": False, "web-rescale": False, "web-history": True}


def test_with_tokens_it_asks_who_asks_as_the_rest_process_does(failed: JobArchive, tmp_path: Path) -> None:
    put(tmp_path / "archives", "c", failed)
    token = mint_token(tmp_path / "tokens", "ada", AccessRole.VIEWER)
    configuration = load_configuration(None, {"rest.tokens-file": str(tmp_path / "tokens")})
    index = ArchiveIndex([open_storage(str(tmp_path / "archives"))], 10)
    index.refresh()
    with client_of(index, configured_protection(configuration, "127.0.0.1").admission) as client:
        for path in (f"/jobs/{FAILED}", "/jobs/overview", "/config", "/eventflink/v1/archives", f"/eventflink/v1/archives/c/{FAILED}"):
            assert "this needs a token" in error(client, path, 401)
            assert client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert client.post("/eventflink/v1/login", json={"token": token}, headers={"Origin": "http://localhost"}).json()["name"] == "ada"


def test_off_this_machine_it_listens_only_with_tls_and_tokens() -> None:
    with pytest.raises(
        ConfigurationError, match=r"historyserver\.web\.address: whoever reaches 10\.0\.0\.1 reads every archive, so it needs"
    ):
        load_configuration(None, {"historyserver.web.address": "10.0.0.1"})


def test_no_directory_and_one_that_nothing_can_read_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for directory, reason in (
        ("", "it is empty, and so is jobmanager.archive.fs.dir"),
        ("nosuch://place", "'nosuch://place' cannot be used"),
    ):
        assert run([f"-Ddata.directory={tmp_path}", f"-Dhistoryserver.archive.fs.dir={directory}", "history-server"]) == ExitCode.USAGE
        [line] = capsys.readouterr().err.strip().splitlines()
        assert f"historyserver.archive.fs.dir: {reason}" in line
