"""An archive alone shows the pages of its job as the log does, at any moment of the job's life."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from eventflink.documents.one_job import JobPage
from eventflink.leadership.fold import Fold
from eventflink.views.archive import archive_view
from eventflink.views.archive_moments import archive_at
from eventflink.views.pages.bars import archived_bars_page, bars_page
from eventflink.views.pages.job_parts import (
    archived_checkpoints_page,
    archived_exceptions_page,
    archived_result_page,
    checkpoints_page,
    exceptions_page,
    result_page,
)
from eventflink.views.pages.one_job import archived_job_page, job_page
from eventflink.views.plain import fields_of, iso_time
from tests.support.archive_server import ended_jobs, history, put
from tests.support.cluster import ScriptedCluster, new_fold
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster
from tests.support.recorded_cluster import recorded
from tests.support.rest_client import rest_client

OF_THE_CLUSTER: Final = ("waits", "waits_total", "slot_requirements", "restarts_due", "sentence", "outputs_kept_until")
"""What a page says of a job that lives and an archive does not: what it waits for, and what it holds."""
API: Final = "/eventflink/v1"


def moments(cluster: ScriptedCluster) -> Iterator[tuple[str, Fold]]:
    """Yield time and state after the last record of each millisecond."""
    fold = new_fold(cluster.settings)
    times = [decision.decided_at_ms for decision in cluster.decisions()]
    for offset, (value, at_ms, next_ms) in enumerate(zip(cluster.log, times, [*times[1:], 0], strict=True)):
        fold.fold_record(offset, cluster.timestamps[offset], value)
        if at_ms != next_ms:
            yield iso_time(at_ms) or "", fold


def error(client: TestClient, path: str, status: int) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return str(answer.json()["errors"][0])


def of_the_job(page: JobPage) -> dict[str, Any]:
    return {name: value for name, value in fields_of(page).items() if name not in OF_THE_CLUSTER}


@pytest.mark.parametrize("make", [lambda: recorded().cluster, ended_cluster])
def test_at_each_moment_of_a_life_an_archive_says_what_the_log_says(make: "type[ScriptedCluster]") -> None:
    cluster = make()
    archives = {job_id: archive_view(cluster.fold, job_id) for job_id in ended_jobs(cluster.fold)}
    statuses, result = set(), ("", "", 0, 1_000)
    for at, fold in moments(cluster):
        for job_id in archives.keys() & fold.master.dispatcher.jobs.keys():
            then = archive_at(archives[job_id], at)
            assert of_the_job(archived_job_page(then)) == of_the_job(job_page(fold, job_id)), (job_id, at)
            assert archived_exceptions_page(then, 10) == exceptions_page(fold, job_id, 10), (job_id, at)
            assert archived_checkpoints_page(then) == checkpoints_page(fold, job_id), (job_id, at)
            assert archived_result_page(then, *result) == result_page(fold, job_id, *result), (job_id, at)
            assert archived_bars_page(then, 0, 1_000) == bars_page(fold, job_id, 0, 1_000), (job_id, at)
            statuses.add(then.job.status)
    assert statuses >= {"RUNNING", "RESTARTING", "CANCELED", "FAILED"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Give a history server with the jobs that ended, and one of them in two clusters."""
    directory, cluster = tmp_path_factory.mktemp("archives"), ended_cluster()
    for job_id in (STREAMS, FAILED):
        put(directory, "west", archive_view(cluster.fold, job_id))
    put(directory, "east", archive_view(cluster.fold, FAILED), name="the same id", ended_at="2027-01-15T08:00:01.000+00:00")
    with history(directory) as (client, _):
        yield client


def test_at_its_end_each_page_of_a_job_is_that_of_the_rest_process(client: TestClient) -> None:
    cluster, compared = ended_cluster(), 0
    with rest_client(cluster.fold) as rest:
        for path in client.get(f"{API}/openapi.json").json()["paths"]:
            if "{job_id}" not in path or "/life/" in path:
                continue
            for job_id in (STREAMS, FAILED):
                asked = path.format(job_id=job_id, vertex_id="s" if job_id == STREAMS else "a")
                answer, expected = client.get(f"{asked}?cluster=west"), rest.get(asked)
                assert (answer.status_code, answer.json()["body"]) == (200, expected.json()["body"]), asked
                compared += 1
    assert compared == 14


def test_the_moments_of_a_life_are_numbered_and_a_page_is_of_one(client: TestClient) -> None:
    life = f"{API}/jobs/{FAILED}/life"
    bounds = client.get(f"{life}/bounds").json()["body"]
    assert (bounds["first_offset"], bounds["first_at"]) == (0, "2027-01-15T08:00:00.100+00:00")
    last = bounds["last_offset"]
    labels = [client.get(f"{life}/position?at={number}").json()["body"]["label"] for number in range(last + 1)]
    assert labels[0].startswith("the job is RUNNING, and ")
    assert labels[1].startswith("a[0]#1 failed: restart 1 of a[0] after 500 ms")
    assert labels[-1].startswith("the job is FAILED")
    page = client.get(f"{API}/jobs/{FAILED}?at=1").json()
    assert (page["offset"], page["decided_at"], page["live"]) == (1, "2027-01-15T08:00:00.107+00:00", False)
    assert (page["body"]["status"], page["body"]["restarts"], page["body"]["ended_at"]) == ("RESTARTING", 1, None)
    assert client.get(f"{API}/jobs/{FAILED}/result?at=1").json()["body"]["is_terminal"] is False
    assert client.get(f"{life}/steps?at=1").json()["body"]["previous"] == 0
    assert client.get(f"{life}/steps").json()["body"]["next"] is None
    assert client.get(f"{life}/position?at=2027-01-15T08:00:00.500Z").json()["body"]["offset"] == 1
    assert error(client, f"{API}/jobs/{FAILED}?at={last + 1}", 404) == f"the life of job '{FAILED}' ends at {last}"
    assert "neither an offset nor a time" in error(client, f"{API}/jobs/{FAILED}?at=never", 400)
    assert error(client, f"{API}/jobs/{FAILED}/vertices/z/subtasks", 404) == f"vertex not found: 'z' in job '{FAILED}'"
    assert error(client, f"{life}/bounds?cluster=north", 404).startswith("archive not found: job")


def test_the_bar_of_a_life_counts_each_moment_once_and_marks_what_matters(client: TestClient) -> None:
    life = f"{API}/jobs/{FAILED}/life"
    for asked in ("buckets=3", "buckets=600", "from=1&until=2", "until=0"):
        found = client.get(f"{life}/histogram?{asked}").json()["body"]
        assert sum(bucket["decisions"] for bucket in found["buckets"]) == found["until"] - found["from"], asked
    at, later = "2027-01-15T08:00:00.107Z", "2027-01-15T08:00:00.108Z"
    parts = {f"from={at}&until=1": (1, 2), f"from={later}&until=2": (2, 3), f"from={at}&until={at}": (1, 2)}
    parts |= {f"from={later}&until={later}": (2, 2), "from=2&until=0": (2, 2), "until=2027-01-15T08:00:00Z": (0, 0)}
    for asked, (begin, end) in parts.items():
        found = client.get(f"{life}/histogram?{asked}").json()["body"]
        assert (found["from"], found["until"], sum(bucket["decisions"] for bucket in found["buckets"])) == (begin, end, end - begin), asked
    whole = client.get(f"{life}/histogram").json()["body"]
    assert [mark["kind"] for mark in whole["marks"]] == ["failure", "failure", "stop"]
    streams = client.get(f"{API}/jobs/{STREAMS}/life/histogram").json()["body"]
    assert {mark["kind"] for mark in streams["marks"]} == {"checkpoint", "stop"}


def test_pages_of_one_job_id_in_two_clusters_are_those_of_the_cluster_that_is_named(client: TestClient) -> None:
    assert client.get(f"{API}/jobs/{FAILED}").json()["body"]["name"] == "test job"
    assert client.get(f"{API}/jobs/{FAILED}?cluster=east").json()["body"]["name"] == "the same id"
    page = client.get(f"{API}/archives?first=1&limit=1").json()
    assert (page["by_cluster"], page["by_status"], page["total"]) == ({"east": 1, "west": 2}, {"FAILED": 2, "CANCELED": 1}, 3)
    assert [(job["cluster_id"], job["tasks_by_state"]) for job in page["jobs"]] == [("east", {"FAILED": 1, "CANCELED": 1})]
