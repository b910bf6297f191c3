"""A page is of one moment: every answer names the record that it reflects, and says for how long it holds."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient

from eventflink.leadership.fold import Fold
from eventflink.rest.own.moments import Moment, MomentsOfRequest, OwnShape
from eventflink.views.jobs_and_cluster import job_view
from tests.support.cluster import replay
from tests.support.rest_client import rest_client
from tests.support.scenarios import restarting_cluster


class Statuses(OwnShape):
    """The page of this test."""

    statuses: dict[str, str]


def statuses(fold: Fold) -> dict[str, Any]:
    return {"statuses": {job.job_id: str(job.status) for job in fold.master.dispatcher.jobs.values()}}


def status_of(fold: Fold, job_id: str) -> dict[str, Any]:
    return {"statuses": {job_id: job_view(fold, job_id).status}}


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return restarting_cluster().log


@pytest.fixture
def client(log: list[bytes]) -> Iterator[TestClient]:
    router = APIRouter()

    @router.get("/statuses")
    async def statuses_page(moments: MomentsOfRequest) -> Moment[Statuses]:
        return await moments.page(statuses)

    @router.get("/statuses/{job_id}")
    async def status_page(moments: MomentsOfRequest, job_id: str) -> Moment[Statuses]:
        return await moments.page(status_of, job_id)

    with rest_client(replay(log)) as client:
        assert isinstance(client.app, FastAPI)
        client.app.include_router(router)
        yield client


def test_a_page_without_a_moment_is_of_the_newest_record_and_kept_by_nobody(client: TestClient, log: list[bytes]) -> None:
    answer = client.get("/statuses")
    document = answer.json()
    assert (document["offset"], document["live"], document["epoch"]) == (len(log) - 1, True, 2)
    assert document["body"]["statuses"]["rewriting"] == "RESTARTING"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Eventflink-Offset"] == str(len(log) - 1)


def test_a_page_of_an_offset_never_changes_and_is_sent_once(client: TestClient, log: list[bytes]) -> None:
    newest = len(log) - 1
    answer = client.get(f"/statuses?at={newest}")
    assert answer.json() == {**client.get("/statuses").json(), "live": False}
    assert "immutable" in answer.headers["Cache-Control"]
    again = client.get(f"/statuses?at={newest}", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == answer.headers["ETag"]


def test_a_page_of_a_time_is_of_the_last_record_until_then_and_may_change(client: TestClient, log: list[bytes]) -> None:
    answer = client.get("/statuses?at=2999-01-01T00:00:00+00:00")  # The + arrives as a blank.
    assert answer.json()["offset"] == len(log) - 1
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/statuses?at=yesterday", 400, "at: 'yesterday' is neither an offset nor a time"),
        ("/statuses?at=1000000", 404, "the log ends at "),
        ("/statuses/nobody", 404, "nobody"),
        ("/statuses?at=1", 503, "the past is not there"),
    ],
)
def test_a_moment_that_cannot_be_shown_is_refused_with_the_reason(client: TestClient, path: str, status: int, says: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    [error] = answer.json()["errors"]
    assert says in error
