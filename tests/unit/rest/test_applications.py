"""Each job is an application of its own, with the numbers of the job."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.support.cluster import ScriptedCluster, graph, replay, vertex
from tests.support.rest_client import commanding_client, rest_client
from tests.support.scenarios import busy_cluster


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    return busy_cluster()


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[TestClient]:
    with rest_client(replay(cluster.log)) as client:
        yield client


def test_applications_are_the_jobs(client: TestClient) -> None:
    jobs = client.get("/jobs/overview").json()["jobs"]
    applications = client.get("/applications/overview").json()["applications"]
    assert [(row["id"], row["name"], row["start-time"], row["end-time"], row["duration"], row["jobs"]) for row in applications] == [
        (job["jid"], f"SingleJobApplication({job['name']})", job["start-time"], job["end-time"], job["duration"], {job["state"]: 1})
        for job in jobs
    ]
    assert {row["status"] for row in applications} == {"RUNNING", "FAILING", "CANCELING", "FINISHED"}


def test_an_application_has_its_job_and_the_times_that_are_known(client: TestClient) -> None:
    for row in client.get("/applications/overview").json()["applications"]:
        details = client.get(f"/applications/{row['id']}").json()
        [job] = details["jobs"]
        assert {key: details[key] for key in row if key != "jobs"} == {key: row[key] for key in row if key != "jobs"}
        assert {job["state"]: 1} == row["jobs"]
        assert details["timestamps"]["RUNNING"] == row["start-time"]
        assert details["timestamps"][row["status"]] > 0


def test_an_application_that_fails_says_why(client: TestClient) -> None:
    [entry] = client.get("/applications/failing/exceptions").json()["exceptionHistory"]["entries"]
    assert (entry["jobId"], entry["exceptionName"]) == ("failing", "ValueError")
    assert "no such column" in entry["stacktrace"]
    assert client.get("/applications/running/exceptions").json() == {"exceptionHistory": {"entries": []}}


def test_an_application_has_the_configuration_of_the_process_and_an_unknown_one_has_none(client: TestClient) -> None:
    assert client.get("/applications/running/jobmanager/config").json() == client.get("/jobmanager/config").json()
    for path in ("", "/exceptions", "/jobmanager/config"):
        assert client.get(f"/applications/nobody{path}").status_code == 404


def test_an_application_is_cancelled_with_its_job() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=2)
    cluster.submit(graph(vertex("a")), job_id="job")
    with commanding_client(cluster) as client:
        assert client.post("/applications/job/cancel").status_code == 202
        assert client.get("/applications/job").json()["status"] == "CANCELING"
        assert client.post("/applications/nobody/cancel").status_code == 404
