"""Pages of our own API: their shapes hold at every offset, one page contradicts neither itself nor another one, and lists are bounded."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient

from eventflink.documents.job_parts import BarsPage
from eventflink.documents.jobs import JobsPage
from eventflink.documents.plain import parse, plain
from eventflink.events.inputs import TaskManagerDeath
from eventflink.leadership.fold import Fold
from eventflink.model.attempts import FailureCause
from eventflink.model.resources import total_of
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState
from eventflink.rest.own import moments
from eventflink.views.job_document import document_view
from eventflink.views.pages.bars import bars_page
from eventflink.views.pages.catalogue import catalogue_page
from eventflink.views.pages.cluster import cluster_page
from eventflink.views.pages.job_parts import (
    checkpoints_page,
    exceptions_page,
    result_page,
)
from eventflink.views.pages.jobs import JobOrder, jobs_page
from eventflink.views.pages.one_job import job_page
from eventflink.views.pages.parked import parked_page
from eventflink.views.pages.subtasks import SubtaskOrder, subtasks_page
from eventflink.views.pages.task_managers import task_managers_page
from eventflink.views.pages.waits import waits_page
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, new_fold, replay, vertex
from tests.support.rest_client import client_of_log, rest_client
from tests.support.scenarios import busy_cluster, eventful_cluster, restarting_cluster

API = "/eventflink/v1"


def all_jobs(fold: Fold, sort: JobOrder = JobOrder.NEWEST) -> JobsPage:
    return jobs_page(fold, (), "", "", sort, 0, 1_000)


def fits(page: Any) -> None:
    """Hold a page against its own class: as plain values it reads as what it was."""
    assert parse(type(page), plain(page)) == page


def check_pages(fold: Fold) -> None:
    """Hold every page of a state against its shape, and pages against each other."""
    cluster, listed = cluster_page(fold), all_jobs(fold)
    fits(cluster)
    fits(catalogue_page(fold, "", 0, 1_000))
    parked = parked_page(fold, 0, 1_000)
    assert ("parked" in cluster.sentence) == bool(parked.total) == bool(fold.master.follow_ups.parked)
    fits(listed)
    assert cluster.jobs == listed.by_status == dict(Counter(row.status for row in listed.jobs))
    live = [row for row in listed.jobs if row.status not in TERMINAL_JOB_STATUSES]
    assert cluster.tasks == dict(sum((Counter(row.tasks_by_state) for row in live), Counter()))
    assert all(problem.sentence.endswith(".") and problem.sentence.isprintable() for problem in cluster.problems)
    assert cluster.sentence.endswith("Nothing else is wrong." if cluster.problems else "Nothing is wrong.")
    waits = 0
    for row in listed.jobs:
        page = job_page(fold, row.job_id)
        fits(page)
        assert all(getattr(page, name) == value for name, value in plain(row).items() if name != "why")
        if page.waits:
            assert row.why == page.waits[0].sentence
        else:
            assert (row.why is None) == (page.cause is None)
            assert page.cause is None or (row.why or "").startswith(page.cause.failure_type)
        assert page.sentence.isprintable()
        waits += page.waits_total
        bars = bars_page(fold, row.job_id, 0, 1_000)
        fits(bars)
        assert bars.total == len(bars.bars)
        assert exceptions_page(fold, row.job_id, 100).exceptions[:3] == page.exceptions
        assert checkpoints_page(fold, row.job_id).counts == page.checkpoints.counts
        fits(checkpoints_page(fold, row.job_id))
        fits(document_view(fold, row.job_id))
        result = result_page(fold, row.job_id, "", "", 0, 1_000)
        fits(result)
        assert result.status == row.status
        for each in page.vertices:
            assert sum(bar.vertex_id == each.vertex_id for bar in bars.bars) == bars_of(bars, each.vertex_id)
            subtasks = subtasks_page(fold, row.job_id, each.vertex_id, (), SubtaskOrder.TROUBLE, 0, 1_000)
            fits(subtasks)
            assert dict(Counter(subtask.state for subtask in subtasks.subtasks)) == each.states
            waiting = sum(subtask.wait is not None for subtask in subtasks.subtasks)
            if row.status not in TERMINAL_JOB_STATUSES:
                assert waiting == sum(wait.tasks for wait in page.waits if wait.vertex_id == each.vertex_id)
    assert cluster.waits_total == waits == waits_page(fold, 0, 1_000).total
    managers = task_managers_page(fold, 0, 1_000)
    assert cluster.task_managers_total == managers.total == len(cluster.task_managers)
    for manager in managers.task_managers:
        assert manager.slots_total == len(manager.slots)
        assert manager.slots_free == sum(slot.state == "FREE" for slot in manager.slots)
    slots = cluster.slots
    assert slots.resources == total_of((manager.slot_profile, manager.slots_total) for manager in managers.task_managers)
    assert slots.resources_free == total_of((manager.slot_profile, manager.slots_free) for manager in managers.task_managers)


def bars_of(bars: BarsPage, vertex_id: str) -> int:
    [counted] = [vertex.bars for vertex in bars.vertices if vertex.vertex_id == vertex_id]
    return counted


@pytest.mark.parametrize("make", [busy_cluster, restarting_cluster, eventful_cluster])
def test_pages_have_their_shapes_and_agree_with_each_other(make: Callable[[], ScriptedCluster]) -> None:
    cluster, fold = make(), new_fold()
    for offset, value in enumerate(cluster.log):
        fold.fold_record(offset, cluster.timestamps[offset], value)
        if offset % 37 == 0 or offset == len(cluster.log) - 1:
            check_pages(fold)


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return busy_cluster().log


@pytest.fixture
def client(log: list[bytes]) -> Iterator[TestClient]:
    with rest_client(replay(log)) as client:
        yield client


def body(client: TestClient, path: str) -> Any:
    answer = client.get(f"{API}{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()["body"]


def test_a_page_names_its_offset(client: TestClient) -> None:
    answer = client.get(f"{API}/cluster")
    assert answer.headers["X-Eventflink-Offset"] == str(answer.json()["offset"])
    assert answer.json()["live"] is True


def test_jobs_are_filtered_by_status_name_actor_and_label(client: TestClient) -> None:
    everything = body(client, "/jobs")
    assert everything["total"] == everything["matching"] == len(everything["jobs"]) == sum(everything["by_status"].values())
    running = body(client, "/jobs?status=RUNNING&status=RESTARTING")
    assert {row["status"] for row in running["jobs"]} == {"RUNNING", "RESTARTING"}
    assert (running["total"], running["by_status"]) == (everything["total"], everything["by_status"])
    assert [row["job_id"] for row in body(client, "/jobs?name=DeManD")["jobs"]] == ["demanding"]
    assert body(client, "/jobs?name=TEST%20job")["matching"] == everything["total"]
    assert body(client, "/jobs?actor=nobody")["matching"] == 0
    labelled = body(client, "/jobs?label=team%3Dfinance&label=team")
    assert [(row["job_id"], row["owner"]) for row in labelled["jobs"]] == [("demanding", "finance")]
    assert body(client, "/jobs?label=team%3Dsales")["matching"] == 0
    job = body(client, "/jobs/demanding")
    assert (job["description"], job["links"]) == ("asks for much of https://******@h.org/", {"runbook": "https://wiki.example.org/memory"})


def test_windows_of_a_list_add_up_to_it(client: TestClient) -> None:
    for sort in JobOrder:
        whole = [row["job_id"] for row in body(client, f"/jobs?sort={sort}")["jobs"]]
        windows = [body(client, f"/jobs?sort={sort}&first={first}&limit=3")["jobs"] for first in range(0, len(whole), 3)]
        assert [row["job_id"] for rows in windows for row in rows] == whole
    assert body(client, "/jobs?first=1000")["jobs"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "first=-1", "sort=fastest", "status=DANCING", "name=" + "x" * 201])
def test_what_is_out_of_bounds_is_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"{API}/jobs?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"]


def test_what_is_not_there_is_said(client: TestClient) -> None:
    for path, said in (("/jobs/nowhere", "job not found: 'nowhere'"), ("/jobs/running/vertices/x/subtasks", "vertex not found: 'x'")):
        answer = client.get(API + path)
        assert answer.status_code == 404
        assert said in answer.json()["errors"][0]


def test_what_is_in_trouble_comes_first() -> None:
    cluster = busy_cluster()
    order = [row.status for row in all_jobs(cluster.fold, JobOrder.TROUBLE).jobs]
    assert order[:2] == ["FAILING", "RESTARTING"]
    assert order[-1] == "FINISHED"
    subtasks = subtasks_page(cluster.fold, "waiting", "a", (), SubtaskOrder.TROUBLE, 0, 10).subtasks
    assert [subtask.state for subtask in subtasks] == ["SCHEDULED"] * 5 + ["DEPLOYING"] * 4
    chosen = subtasks_page(cluster.fold, "waiting", "a", ("DEPLOYING",), SubtaskOrder.INDEX, 1, 2)
    assert (chosen.total, chosen.matching, [s.subtask_index for s in chosen.subtasks]) == (9, 4, [1, 2])


def sentence(cluster: ScriptedCluster) -> str:
    return str(cluster_page(cluster.fold).sentence)


def test_the_health_of_a_cluster_is_one_sentence() -> None:
    cluster = ScriptedCluster()
    assert sentence(cluster) == "No TaskManager is registered. Nothing else is wrong."
    cluster.register("tm", slots=2)
    assert sentence(cluster) == "No job runs. Nothing is wrong."
    [running] = deployments(cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "hash")]), job_id="fine"))
    cluster.report(running, ExecutionState.RUNNING)
    assert sentence(cluster) == "1 job runs. Nothing is wrong."
    cluster.run(cluster.submit(graph(vertex("a")), job_id="flaky"), lambda _: ExecutionState.FAILED)
    cluster.submit(graph(vertex("a", 3)), job_id="starved")
    since = cluster_page(cluster.fold).waits[0].since
    assert sentence(cluster) == f"1 job failed and 2 tasks wait for a slot since {since}. Nothing else is wrong."
    failed, waiting = cluster_page(cluster.fold).problems
    assert failed.sentence == "Job 'flaky' failed: a[0]#1: ValueError: no such column."
    assert (failed.severity, failed.link) == ("failed", "/jobs/flaky")
    assert waiting.sentence.startswith("Job 'starved': a waits: 2 of 3 subtasks have no slot: all 2 registered slots are taken")
    cluster.cancel("starved")
    cluster.pass_time(3_700_000)
    cluster.block("tm")
    assert sentence(cluster) == "1 job runs. Nothing is wrong."


def test_a_lost_task_manager_is_a_problem_until_it_is_back() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=2)
    tasks = deployments(cluster.submit(graph(vertex("a", 2), restart_strategy=fixed_delay(9, 100))))
    for task in tasks:
        cluster.report(task, ExecutionState.RUNNING)
    cluster.say(TaskManagerDeath("tm", "tm-1", "exit code 137"))
    lost = [problem for problem in cluster_page(cluster.fold).problems if problem.severity == "lost"]
    assert [problem.link for problem in lost] == ["/taskmanagers/tm"]
    assert lost[0].sentence.endswith("2 tasks failed with it.")
    assert {failure.kind for failure in cluster_page(cluster.fold).failures} == {"task_manager"}
    cluster.register("tm", slots=2, instance="2")
    assert all(problem.severity != "lost" for problem in cluster_page(cluster.fold).problems)


def test_texts_of_strangers_move_no_cursor_and_stay_short() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=1)
    hostile = graph(vertex("a"), restart_strategy=fixed_delay(1, 100)) | {"name": "\x1b[2J<script>\u202e" + "x" * 50}
    [task] = deployments(cluster.submit(hostile, job_id="hostile"))
    cause = FailureCause("Bad\x1b[31m\nType", "\x07boom\n" + "y" * 3_000, "trace")
    cluster.report(task, ExecutionState.FAILED, cause=cause)
    went_on = cluster_page(cluster.fold).failures[0].sentence
    [task] = deployments(cluster.pass_time(100))
    cluster.report(task, ExecutionState.FAILED, cause=cause)
    page = cluster_page(cluster.fold)
    assert page.failures == [], "the problems name a job that has failed"
    for said in (
        page.sentence,
        went_on,
        page.problems[0].sentence,
        job_page(cluster.fold, "hostile").sentence,
    ):
        assert said.isprintable()
        assert len(said) <= 600


def test_a_page_of_the_past_is_the_one_that_was_live_then() -> None:
    cluster = busy_cluster()
    paths = [
        "/cluster",
        "/catalogue",
        "/jobs?sort=trouble&status=RUNNING&status=FINISHED",
        "/waits",
        "/task_managers",
        "/names",
        "/runs?name=test%20job",
    ]
    paths += [f"/jobs/{job_id}{part}" for job_id in ("done0", "waiting") for part in ("", "/bars", "/vertices/a/subtasks?sort=trouble")]
    statuses = set()
    with client_of_log(cluster.log, cluster.timestamps) as client:
        for offset in range(9, len(cluster.log) - 1, 19):
            with rest_client(replay(cluster.log[: offset + 1], timestamps=cluster.timestamps)) as then:
                for path in paths:
                    past = client.get(f"{API}{path}{'&' if '?' in path else '?'}at={offset}")
                    live = then.get(f"{API}{path}")
                    statuses.add(past.status_code)
                    assert (past.status_code, past.json().get("body")) == (live.status_code, live.json().get("body")), (path, offset)
        now = client.get(f"{API}/jobs/done0")
    assert statuses == {200, 404}
    assert "evicted from memory" in now.json()["errors"][0]


def test_every_page_has_a_shape_of_its_own_in_the_description(client: TestClient) -> None:
    described = client.get(f"{API}/openapi.json").json()
    shapes, bodies = described["components"]["schemas"], {}
    for path, operations in described["paths"].items():
        responses = operations.get("get", {}).get("responses", {})
        answer = responses.get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
        moment = answer.get("$ref", "").rpartition("/")[2]
        if moment.startswith("Moment"):
            bodies[path] = shapes[moment]["properties"]["body"].get("$ref", "")
            assert "410" in responses, path
    assert len(bodies) >= 12
    assert all(shapes[body.rpartition("/")[2]]["properties"] for body in bodies.values()), bodies


def test_a_list_says_where_in_it_a_job_stands_that_is_asked_about() -> None:
    with rest_client(busy_cluster().fold) as client:
        listed = client.get(f"{API}/jobs?sort=name&limit=1000").json()["body"]
        names = [row["job_id"] for row in listed["jobs"]]
        assert listed["anchor"] is None
        for place, job_id in enumerate(names):
            page = client.get(f"{API}/jobs", params={"sort": "name", "limit": 1, "anchor": job_id}).json()["body"]
            assert page["anchor"] == {"job_id": job_id, "index": place}
        assert client.get(f"{API}/jobs?anchor=nobody").json()["body"]["anchor"] == {"job_id": "nobody", "index": None}


@pytest.mark.parametrize("path", ["/cluster", "/catalogue", "/waits", "/names", "/runs?name=test%20job", "/jobs?sort=trouble"])
def test_of_many_jobs_the_process_of_the_past_computes_a_page_of_all_their_tasks_if_it_can(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    log = restarting_cluster().log
    newest, known = len(log) - 1, len(log) - 3
    monkeypatch.setattr(moments, "FEW_JOBS", 0)
    with client_of_log(log, known=known) as client:
        elsewhere = client.get(API + path).json()
        assert (elsewhere["offset"], elsewhere["live"]) == (known - 1, True)
        assert elsewhere["body"] == client.get(API + path, params={"at": known - 1, **dict(parse_qsl(urlsplit(path).query))}).json()["body"]
        assert client.get(API + path, headers={"X-Eventflink-Min-Offset": str(newest)}).json()["offset"] == newest
    with client_of_log(log, known=0) as client:
        assert client.get(API + path).json()["offset"] == newest, "nothing of the past is known yet"
