"""Names and the runs of a name where there are archives alone: what a REST process says of ended jobs, of any number of clusters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from eventflink.blob.open_storage import open_storage
from eventflink.reader.archives.index import ArchiveIndex
from eventflink.views.archive import archive_view
from tests.support.archive_server import client_of, ended_jobs, history, put
from tests.support.cluster import ScriptedCluster
from tests.support.named_runs import new_cluster, orders, run
from tests.support.rest_client import rest_client

API: Final = "/eventflink/v1"
STRANGE: Final = "a/b?c=1#d%2F ..\u202e"


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    """Give a cluster with five runs of one name, in two versions, and one run of each of two others; all have ended."""
    cluster = new_cluster()
    for number in range(5):
        document = orders(f"2026-11-2{number}", code_archives=["0" * 64] if number == 2 else [])
        run(cluster, f"run-{number}", document, fails="count" if number == 3 else "")
    run(cluster, "other", orders(name="Other"))
    run(cluster, "strange", orders(name=STRANGE))
    return cluster


@pytest.fixture(scope="module")
def directory(cluster: ScriptedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archives")
    for job_id in ended_jobs(cluster.fold):
        put(directory, "c", archive_view(cluster.fold, job_id))
    return directory


@pytest.fixture(scope="module")
def client(directory: Path) -> Iterator[TestClient]:
    with history(directory) as (client, _):
        yield client


def body(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(API + path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["body"]


def ids(client: TestClient, **parameters: Any) -> list[str]:
    return [each["job_id"] for each in body(client, "/runs", **parameters)["runs"]]


def error(client: TestClient, path: str, status: int) -> str:
    answer = client.get(API + path)
    assert answer.status_code == status, answer.text
    return str(answer.json()["errors"][0])


def test_names_and_runs_are_those_of_the_rest_process(cluster: ScriptedCluster, client: TestClient) -> None:
    windows = [{"first": first, "limit": limit} for first, limit in ((0, 100), (0, 2), (1, 3), (4, 2), (9, 1))]
    with rest_client(cluster.fold) as rest:
        for window in windows:
            for name in ("orders", "Other", STRANGE, "nobody's"):
                expected = body(rest, "/runs", name=name, **window)
                for each in expected["runs"]:
                    each["is_archived"] = True
                assert body(client, "/runs", name=name, **window) == expected, (name, window)
            for part in ("", "OTHER", "?c=1#", "nobody's"):
                assert body(client, "/names", name=part, **window) == body(rest, "/names", name=part, **window), (part, window)
        assert body(client, "/runs", name="orders")["versions_total"] == 2
        assert body(client, "/names")["total"] == 3
        for path in (
            "/runs",
            "/runs?name=",
            "/runs?name=a&limit=101",
            "/runs?name=a&first=-1",
            "/names?limit=0",
            "/names?name=" + "x" * 257,
        ):
            assert error(client, path, 400) == error(rest, path, 400)


def test_an_answer_is_of_no_log_and_of_no_moment(client: TestClient) -> None:
    answer = client.get(f"{API}/runs?name=orders").json()
    assert {name: value for name, value in answer.items() if name != "body"} == {
        "offset": -1,
        "decided_at": None,
        "epoch": 0,
        "leader_id": "",
        "master_id": "",
        "live": True,
    }
    for path in ("/names?at=5", "/runs?name=orders&at=5"):
        assert error(client, path, 400) == "invalid at: '5': archives show runs as they ended, and one job at a moment"


def test_runs_of_one_cluster_can_be_asked_for_and_a_job_id_of_several_counts_once(cluster: ScriptedCluster, tmp_path: Path) -> None:
    for job_id in ("run-0", "run-1", "other"):
        put(tmp_path / "one", "west", archive_view(cluster.fold, job_id))
    put(tmp_path / "two", "east", archive_view(cluster.fold, "run-2"))
    submitted_at, ended_at = "2027-01-16T08:00:00.000+00:00", "2027-01-16T09:00:00.000+00:00"
    put(tmp_path / "two", "east", archive_view(cluster.fold, "run-1"), name="renamed", submitted_at=submitted_at, ended_at=ended_at)
    with history(tmp_path / "one", tmp_path / "two") as (client, _):
        assert ids(client, name="orders") == ["run-2", "run-0"]
        assert ids(client, name="orders", cluster="west") == ["run-1", "run-0"]
        assert ids(client, name="orders", cluster="east") == ["run-2"]
        assert ids(client, name="orders", cluster="north") == []
        assert [(each["name"], each["runs"]) for each in body(client, "/names")["names"]] == [("renamed", 1), ("Other", 1), ("orders", 2)]
        assert [each["name"] for each in body(client, "/names", cluster="west")["names"]] == ["Other", "orders"]


def test_what_cannot_be_read_is_counted_and_hides_nothing(cluster: ScriptedCluster, tmp_path: Path) -> None:
    for job_id in ("run-0", "run-1", "run-2"):
        put(tmp_path, "west", archive_view(cluster.fold, job_id))
    put(tmp_path, "east", archive_view(cluster.fold, "run-4"))
    damaged = tmp_path / "west" / "run-1.json"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole.replace(b"FINISHED", b"FINISHES"))
    with history(tmp_path) as (client, index):
        for path in ("/runs", "/names"):
            unread = [body(client, path, name="orders", **of)["unread"] for of in ({}, {"cluster": "west"}, {"cluster": "east"})]
            assert unread == [1, 1, 0]
        assert ids(client, name="orders") == ["run-4", "run-2", "run-0"]
        damaged.write_bytes(whole)
        (tmp_path / "west" / "run-0.json").unlink()
        index.refresh()
        assert ids(client, name="orders") == ["run-4", "run-2", "run-1"]
        assert body(client, "/runs", name="orders")["unread"] == 0


def test_a_job_without_a_name_is_a_run_of_none(cluster: ScriptedCluster, tmp_path: Path) -> None:
    put(tmp_path, "c", archive_view(cluster.fold, "run-0"), name="")
    put(tmp_path, "c", archive_view(cluster.fold, "run-1"))
    with history(tmp_path) as (client, _):
        assert [(each["name"], each["runs"]) for each in body(client, "/names")["names"]] == [("orders", 1)]
        assert client.get(f"{API}/archives").json()["total"] == 2


def test_no_archive_is_read_for_a_page(directory: Path, tmp_path: Path) -> None:
    moved = tmp_path / "archives"
    moved.mkdir()
    index = ArchiveIndex([open_storage(str(moved))], 100)
    for file in directory.rglob("*.json"):
        (moved / "c").mkdir(exist_ok=True)
        (moved / "c" / file.name).write_bytes(file.read_bytes())
    index.refresh()
    for file in moved.rglob("*.json"):
        file.unlink()
    with client_of(index) as client:
        assert len(ids(client, name="orders")) == 5
        assert body(client, "/names")["total"] == 3


def test_pages_of_a_cluster_are_not_there(client: TestClient) -> None:
    for path in ("/schedules", "/waits", "/jobs", "/catalogue", "/state/runs"):
        assert error(client, path, 404) == f"Not found: {API}{path}"
