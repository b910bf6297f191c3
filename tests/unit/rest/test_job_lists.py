"""The lists of jobs have the rows and the numbers of the state, in Flink's shapes, and name the offset that they are of."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
from fastapi.testclient import TestClient

from eventflink.reader.observed_state import NotThere
from tests.support.cluster import START_MS, replay
from tests.support.rest_client import rest_client
from tests.support.scenarios import restarting_cluster

if TYPE_CHECKING:
    from fastapi import FastAPI


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return restarting_cluster().log


@pytest.fixture
def client(log: list[bytes]) -> Iterator[TestClient]:
    with rest_client(replay(log)) as client:
        yield client


def test_jobs_are_listed_with_and_without_a_version_in_the_path(client: TestClient, log: list[bytes]) -> None:
    answer = client.get("/jobs")
    assert answer.json() == client.get("/v1/jobs").json()
    assert {"id": "rewriting", "status": "RESTARTING"} in answer.json()["jobs"]
    assert answer.headers["X-Eventflink-Offset"] == str(len(log) - 1)


def test_an_overview_counts_the_tasks_of_a_job_in_each_state(client: TestClient) -> None:
    rows = client.get("/jobs/overview").json()["jobs"]
    assert [row["jid"] for row in rows] == [job["id"] for job in client.get("/jobs").json()["jobs"]]
    [row] = [row for row in rows if row["jid"] == "rewriting"]
    assert (row["jid"], row["state"], row["start-time"], row["end-time"]) == ("rewriting", "RESTARTING", START_MS + 1, -1)
    assert row["tasks"]["total"] == sum(count for state, count in row["tasks"].items() if state != "total") > 0
    assert set(row["tasks"]) >= {
        "created",
        "scheduled",
        "deploying",
        "running",
        "finished",
        "canceling",
        "canceled",
        "failed",
        "reconciling",
    }
    assert row["last-modification"] >= row["start-time"]
    assert {row["schedulerType"] for row in rows} == {"Default", "Adaptive"}
    assert {row["jobType"] for row in rows} == {"BATCH"}


def test_a_state_that_is_not_as_new_as_demanded_is_no_answer(client: TestClient, monkeypatch: pytest.MonkeyPatch, log: list[bytes]) -> None:
    monkeypatch.setattr("eventflink.rest.reading.READ_TIMEOUT_S", 0.01)
    answer = client.get("/jobs", headers={"X-Eventflink-Min-Offset": str(len(log))})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    [error] = answer.json()["errors"]
    assert error.startswith(f"the state stands at offset {len(log) - 1}, not at {len(log)}")
    assert client.get("/jobs", headers={"X-Eventflink-Min-Offset": str(len(log) - 1)}).status_code == 200


@pytest.mark.parametrize("path", ["/jobs", "/eventflink/v1/jobs"])
def test_an_answer_may_be_demanded_as_new_as_the_log_is(log: list[bytes], path: str) -> None:
    with rest_client(replay(log[:-1])) as client:
        state = cast("FastAPI", client.app).state.services.state
        latest = {"X-Eventflink-Min-Offset": "latest"}
        assert client.get(path, headers=latest).headers["X-Eventflink-Offset"] == str(len(log) - 2), "nobody knows of more"

        async def ask_log_end() -> int:
            asyncio.get_running_loop().call_later(0.02, lambda: state.advance([(len(log) - 1, START_MS, log[-1])]))
            return len(log) - 1

        state.ask_log_end = ask_log_end
        assert client.get(path, headers=latest).headers["X-Eventflink-Offset"] == str(len(log) - 1)

        async def fail() -> int:
            raise NotThere("Kafka does not say where the log ends")

        state.ask_log_end = fail
        answer = client.get(path, headers=latest)
        assert (answer.status_code, answer.json()) == (503, {"errors": ["Kafka does not say where the log ends"]})


@pytest.mark.parametrize(
    ("path", "headers", "status", "says"),
    [
        ("/nothing", {}, 404, "Not found: /nothing"),
        ("/jobs", {"X-Eventflink-Min-Offset": "soon"}, 400, "header.X-Eventflink-Min-Offset: "),
        ("/jobs", {"Host": "evil.example"}, 403, "the Host of the request is 'evil.example'"),
        ("/jobs", {"Content-Length": "2000000"}, 413, "the body is longer than"),
    ],
)
def test_what_cannot_be_answered_is_said_in_flinks_shape_of_an_error(
    client: TestClient, path: str, headers: dict[str, str], status: int, says: str
) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status
    [error] = answer.json()["errors"]
    assert says in error


def test_a_page_of_another_site_commands_nothing(client: TestClient) -> None:
    answer = client.patch("/jobs/rewriting", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert answer.json()["errors"][0].startswith("the request comes from a page of another site")
