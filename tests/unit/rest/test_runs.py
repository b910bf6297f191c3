"""A job over its runs: versions, vertices and parameters of each, of jobs in memory and of archives, and no run twice."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from eventflink.blob import BlobStorageUnusable
from eventflink.blob.job_archives import JobArchives
from eventflink.blob.local_storage import LocalStorage
from eventflink.blob.open_storage import open_storage
from eventflink.documents.plain import parse, plain
from eventflink.documents.runs import JobName, RunOfJob, RunsPage
from eventflink.leadership.fold import Fold
from eventflink.master.inputs import ArchivesWritten, CleanupsCompleted, WrittenArchive
from eventflink.master.settings import MasterSettings
from eventflink.model.job_graph_document import graph_digest
from eventflink.model.statuses import ExecutionState
from eventflink.reader import questions
from eventflink.reader.archives import runs as reading
from eventflink.reader.archives.runs import ArchivedRuns
from eventflink.reader.questions import answer_of, look_up, question_of
from eventflink.rest import reading as rest_reading
from eventflink.rest.own import runs as routes
from eventflink.rest.reading import read_archived_runs
from eventflink.views import definitions
from eventflink.views import runs as views
from eventflink.views.archive import archive_view
from eventflink.views.runs import KnownRuns, archived_run, known_runs, runs_page
from tests.support.cluster import ScriptedCluster, deployments, graph, replay, vertex
from tests.support.named_runs import new_cluster, orders, run
from tests.support.rest_client import client_of_log, client_with_archives, dispatcher_of, rest_client, services_with

API = "/eventflink/v1"
KEEP = MasterSettings(archives=True, job_store_cache_size=0)


def page_of(fold: Fold, name: str = "orders", first: int = 0, limit: int = 20) -> RunsPage:
    return runs_page(known_runs(fold, name, first, limit), [], name, first, limit)


def names_of(fold: Fold) -> list[JobName]:
    return views.names_page(known_runs(fold, None), [], "", 0, 100).names


def body(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(API + path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["body"]


def test_runs_of_a_name_are_listed_the_newest_first_with_their_versions() -> None:
    cluster = new_cluster()
    run(cluster, "a", orders("2026-11-23"))
    run(cluster, "b", orders("2026-11-24"), fails="count")
    run(cluster, "other", orders(name="other"))
    run(cluster, "c", orders("2026-11-24", code_archives=["0" * 64]))
    run(cluster, "d", orders("2026-11-25"))
    cluster.submit(orders("2026-11-26", code_archives=["0" * 64]), job_id="e")
    page = page_of(cluster.fold)
    assert [(each.job_id, each.version, each.parameters["day"], each.status) for each in page.runs] == [
        ("e", 2, "2026-11-26", "RUNNING"),
        ("d", 1, "2026-11-25", "FINISHED"),
        ("c", 2, "2026-11-24", "FINISHED"),
        ("b", 1, "2026-11-24", "FAILED"),
        ("a", 1, "2026-11-23", "FINISHED"),
    ]
    assert [(each.version, each.first_job_id, each.runs) for each in page.versions] == [(2, "c", 2), (1, "a", 3)]
    assert (page.total, page.versions_total, page.vertices, page.unread) == (5, 2, ["read", "count"], 0)
    failed = page.runs[3]
    assert [(each.vertex_id, each.state, each.tasks_finished, each.tasks) for each in failed.vertices] == [
        ("read", "FINISHED", 1, 1),
        ("count", "FAILED", 0, 2),
    ]
    assert page.runs[1].vertices[0].duration_ms == 100
    assert page.runs[1].started_at == page.runs[1].submitted_at
    assert page.typical_ms in {each.duration_ms for each in page.runs if each.status == "FINISHED"}
    assert page.runs[0].vertices[1].duration_ms is None, "no task of it was deployed"
    assert parse(RunsPage, plain(page)) == page


def test_a_rerun_tells_what_it_took_from_the_run_before() -> None:
    cluster = new_cluster(MasterSettings(keep_outputs_ms=86_400_000))
    run(cluster, "a", orders(), fails="count")
    cluster.run(cluster.command(type="RerunJob", job_id="b", rerun_of="a", failed=True))
    again, before = page_of(cluster.fold).runs
    assert (again.rerun_of, again.version, before.version) == ("a", 1, 1)
    assert [(each.vertex_id, each.is_reused, each.duration_ms is None) for each in again.vertices] == [
        ("read", True, True),
        ("count", False, False),
    ]


def test_a_run_says_for_which_instant_of_which_schedule_it_is() -> None:
    cluster = new_cluster()
    definition = {"interval": "1h", "job": orders()}
    cluster.command(type="PutSchedule", schedule_id="hourly", definition=definition)
    cluster.run(cluster.pass_time(3_700_000))
    scheduled = page_of(cluster.fold).runs[0]
    assert (scheduled.schedule_id, scheduled.instant is not None) == ("hourly", True)


def test_other_values_and_another_savepoint_make_no_version_and_all_else_does() -> None:
    cluster = new_cluster()
    documents = [
        orders("2026-11-23"),
        orders("2026-11-24"),
        orders() | {"vertices": [vertex("read"), vertex("count", 3)]},
        orders() | {"parameters": {"day": {"type": "date", "default": "2026-11-02", "value": "2026-11-25"}}},
        orders(code_archives=["1" * 64]),
        orders(code_archives=["2" * 64]),
        orders("2026-11-25"),
    ]
    for number, document in enumerate(documents):
        run(cluster, f"job-{number}", document)
    assert [each.version for each in page_of(cluster.fold).runs][::-1] == [1, 1, 2, 3, 4, 5, 1]


def test_names_tell_their_newest_run_and_their_last_success() -> None:
    cluster = new_cluster()
    run(cluster, "a", orders())
    run(cluster, "b", orders(), fails="read")
    run(cluster, "x", orders(name="Other"))
    with rest_client(replay(cluster.log)) as client:
        page = body(client, "/names")
        assert [(each["name"], each["runs"], each["versions"], each["newest"]["job_id"]) for each in page["names"]] == [
            ("Other", 1, 1, "x"),
            ("orders", 2, 1, "b"),
        ]
        known = page["names"][1]
        assert (known["newest"]["status"], known["last_success_job_id"]) == ("FAILED", "a")
        assert [(each["job_id"], each["status"]) for each in known["trend"]] == [("a", "FINISHED"), ("b", "FAILED")]
        assert [each["name"] for each in body(client, "/names", name="oTH")["names"]] == ["Other"]
        windows = [body(client, "/names", first=first, limit=1)["names"] for first in range(3)]
        assert [each["name"] for window in windows for each in window] == ["Other", "orders"]


def test_a_name_says_of_a_failure_that_it_is_dismissed() -> None:
    cluster = new_cluster()
    run(cluster, "a", orders(), fails="read")
    assert not names_of(cluster.fold)[0].newest.failure_is_dismissed
    cluster.command(type="DismissJobFailure", job_id="a")
    [known] = names_of(cluster.fold)
    assert known.newest.failure_is_dismissed
    assert known.trend == [known.newest]
    left = replace(known_runs(cluster.fold, None), runs=())
    [archived] = views.names_page(left, [archived_run(archive_view(cluster.fold, "a").job)], "", 0, 10).names
    assert archived == known


def test_secrets_of_parameters_are_not_shown() -> None:
    cluster = new_cluster()
    address = {"to": {"type": "string", "value": "https://me:hunter2@example.com/x"}}
    cluster.submit(graph(vertex("a"), parameters=address) | {"name": "orders"})
    with rest_client(replay(cluster.log)) as client:
        assert "hunter2" not in client.get(f"{API}/runs", params={"name": "orders"}).text


NAMES = ["a/b/../c", "../..", "..", "x" * 256, "\x1b[2J\n\u202etxt", "<script>alert(1)</script>", "Straße 50% & #1?", "name=other&x"]


@pytest.fixture(scope="module")
def strangers() -> Iterator[TestClient]:
    cluster = new_cluster()
    for number, name in enumerate(NAMES):
        cluster.submit(orders(name=name), job_id=f"job-{number}")
    with rest_client(replay(cluster.log)) as client:
        yield client


@pytest.mark.parametrize("name", NAMES)
def test_a_name_may_be_any_text(strangers: TestClient, name: str) -> None:
    page = body(strangers, "/runs", name=name)
    assert (page["name"], page["total"], page["runs"][0]["job_id"]) == (name, 1, f"job-{NAMES.index(name)}")
    assert name in [each["name"] for each in body(strangers, "/names")["names"]]
    question = question_of("/runs", {"name": name})
    assert question.merge is not None


@pytest.mark.parametrize("query", ["", "name=", "name=" + "x" * 300, "name=a&limit=0", "name=a&limit=101", "name=a&first=-1"])
def test_what_is_out_of_bounds_is_refused(strangers: TestClient, query: str) -> None:
    answer = strangers.get(f"{API}/runs?{query}")
    assert (answer.status_code, bool(answer.json()["errors"])) == (400, True)


# -- archives ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def archives(tmp_path: Path) -> JobArchives:
    return JobArchives(open_storage(str(tmp_path / "archives")), 10)


def leave(cluster: ScriptedCluster, archives: JobArchives, *job_ids: str) -> None:
    """Write the archives of jobs, and let them leave the memory."""
    files = [archives.write(plain(archive_view(cluster.fold, job_id))) for job_id in job_ids]
    written = [WrittenArchive(job_id, file.location, file.digest, file.byte_count) for job_id, file in zip(job_ids, files, strict=True)]
    cluster.timer(CleanupsCompleted(job_ids), ArchivesWritten(tuple(written)))
    cluster.pass_time(1)
    assert set(job_ids) <= set(cluster.master.dispatcher.forgotten)


def run_uncleaned(cluster: ScriptedCluster, job_id: str, document: dict[str, Any]) -> None:
    """Run a job to its end, whose archive and whose clean-up are still to come."""
    effects = cluster.submit(document, job_id=job_id)
    while tasks := deployments(effects):
        effects = [effect for task in tasks for effect in cluster.report(task, ExecutionState.FINISHED)]
    cluster.pass_time(100)


def archived_cluster(archives: JobArchives) -> ScriptedCluster:
    """Return a cluster with seven runs of two versions, of which the older ones have left the memory, and one that runs all the time."""
    cluster = new_cluster(KEEP)
    cluster.submit(graph(vertex("long")) | {"name": "orders"}, job_id="long")
    cluster.pass_time(100)
    for number in range(6):
        document = orders(f"2026-11-2{number}", code_archives=["0" * 64] if number == 2 else [])
        run_uncleaned(cluster, f"run-{number}", document)
    run_uncleaned(cluster, "other", orders(name="other"))
    leave(cluster, archives, "run-0", "run-1", "run-2", "run-3", "other")
    return cluster


def test_runs_of_archives_stand_beside_those_in_memory_once_each(archives: JobArchives) -> None:
    cluster = archived_cluster(archives)
    with client_with_archives(replay(cluster.log), archives) as client:
        page = body(client, "/runs", name="orders")
        assert [(each["job_id"], each["version"], each["is_archived"]) for each in page["runs"]] == [
            ("run-5", 2, False),
            ("run-4", 2, False),
            ("run-3", 2, True),
            ("run-2", 3, True),
            ("run-1", 2, True),
            ("run-0", 2, True),
            ("long", 1, False),
        ]
        assert (page["total"], page["unread"]) == (7, 0)
        windows = [body(client, "/runs", name="orders", first=first, limit=2)["runs"] for first in range(0, 9, 2)]
        assert [each for window in windows for each in window] == page["runs"]
        names = body(client, "/names")
        assert {each["name"]: each["runs"] for each in names["names"]} == {"other": 1, "orders": 7}
    question = question_of("/runs", {"name": "orders"})
    folded = answer_of(question, look_up(question, replay(cluster.log)), archives)
    assert plain(folded["runs"]) == page


def test_an_archive_tells_of_a_run_what_the_memory_told(archives: JobArchives) -> None:
    cluster = new_cluster(KEEP)
    run_uncleaned(cluster, "a", orders())
    [before] = page_of(cluster.fold).runs
    leave(cluster, archives, "a")
    known = known_runs(cluster.fold, "orders", 0, 5)
    [after] = runs_page(known, ArchivedRuns().read(archives, known.left), "orders", 0, 5).runs
    assert after == replace(before, is_archived=True)


@pytest.mark.parametrize("leaving", [("b",), ("a",), ("a", "b"), ("c", "b", "a")], ids="-".join)
def test_runs_of_one_millisecond_keep_their_order_when_they_leave_the_memory(archives: JobArchives, leaving: tuple[str, ...]) -> None:
    cluster = new_cluster(KEEP)
    tasks = [
        task for job_id in ("b", "c", "a") for task in deployments(cluster.submit(graph(vertex("v")) | {"name": "orders"}, job_id=job_id))
    ]
    for task in tasks:
        cluster.report(task, ExecutionState.FINISHED)
    before = page_of(cluster.fold)
    assert len({each.submitted_at for each in before.runs}) == 1
    leave(cluster, archives, *leaving)
    known = known_runs(cluster.fold, "orders", 0, 5)
    read = ArchivedRuns().read(archives, known.left)
    after = runs_page(known, read, "orders", 0, 5)
    assert [each.job_id for each in after.runs] == [each.job_id for each in before.runs]
    assert after.versions == before.versions
    for first in range(3):
        known = known_runs(cluster.fold, "orders", first, 1)
        assert runs_page(known, read, "orders", first, 1).runs == after.runs[first : first + 1]


def test_what_cannot_be_read_is_counted_and_hides_nothing(archives: JobArchives, tmp_path: Path) -> None:
    cluster = archived_cluster(archives)
    [damaged] = tmp_path.rglob("run-1.json")
    damaged.write_text("{}")
    [gone] = tmp_path.rglob("run-2.json")
    gone.unlink()
    with client_with_archives(replay(cluster.log), archives) as client:
        page = body(client, "/runs", name="orders")
        assert [each["job_id"] for each in page["runs"]] == ["run-5", "run-4", "run-3", "run-0", "long"]
        assert (page["total"], page["unread"]) == (5, 2)
    with rest_client(replay(cluster.log)) as client:
        page = body(client, "/runs", name="orders")
        assert ([each["job_id"] for each in page["runs"]], page["unread"]) == (["run-5", "run-4", "long"], 5)


def test_an_archive_is_read_once_by_a_process(archives: JobArchives, tmp_path: Path) -> None:
    cluster, runs = archived_cluster(archives), ArchivedRuns()
    left = known_runs(cluster.fold, "orders").left
    first = runs.read(archives, left)
    for file in tmp_path.rglob("*.json"):
        file.unlink()
    assert runs.read(archives, left) == first
    assert len(first) == 5


def test_an_archive_that_was_missing_is_looked_for_again(archives: JobArchives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, runs = archived_cluster(archives), ArchivedRuns()
    left = known_runs(cluster.fold, "orders").left
    mounted, away = tmp_path / "archives", tmp_path / "away"
    mounted.rename(away)
    assert runs.read(archives, left) == []
    away.rename(mounted)
    assert runs.read(archives, left) == [], "it is not looked for at each question"
    runs = ArchivedRuns()
    monkeypatch.setattr(reading, "MISSING_S", 0.0)
    mounted.rename(away)
    assert runs.read(archives, left) == []
    away.rename(mounted)
    assert len(runs.read(archives, left)) == 5


def test_a_storage_that_does_not_answer_is_asked_once_for_each_page(tmp_path: Path) -> None:
    class Away(LocalStorage):
        asked = 0

        def open(self, name: str) -> BufferedReader:
            type(self).asked += 1
            raise BlobStorageUnusable(f"{name}: away")

    left = [views.JobThatLeft(0, f"job-{number}", "0" * 64) for number in range(50)]
    assert ArchivedRuns().read(JobArchives(Away(tmp_path), 0), left) == []
    assert Away.asked == 1


def test_while_a_storage_hangs_others_get_what_is_known(archives: JobArchives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, runs = archived_cluster(archives), ArchivedRuns()
    left = known_runs(cluster.fold, "orders").left
    known = runs.read(archives, left[:2])
    hangs, goes_on = threading.Event(), threading.Event()

    class Hanging(LocalStorage):
        def open(self, name: str) -> BufferedReader:
            hangs.set()
            goes_on.wait()
            return super().open(name)

    monkeypatch.setattr(reading, "READ_S", 0.01)
    held = threading.Thread(target=runs.read, args=(JobArchives(Hanging(tmp_path / "archives"), 0), left))
    held.start()
    hangs.wait()
    assert runs.read(archives, left) == known
    assert runs.read(archives, left[:2]) == known
    goes_on.set()
    held.join()
    assert [run.job_id for run in runs.read(archives, left)][:2] == [run.job_id for run in known]


def test_who_does_not_wait_for_a_storage_that_hangs_gets_what_is_known(
    archives: JobArchives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, goes_on = archived_cluster(archives), threading.Event()
    left = known_runs(cluster.fold, "orders").left

    class Hanging(LocalStorage):
        def open(self, name: str) -> BufferedReader:
            goes_on.wait()
            return super().open(name)

    dispatcher = dispatcher_of(cluster)
    services = services_with(dispatcher.state, dispatcher, {}, JobArchives(Hanging(tmp_path / "archives"), 0))
    known = services.archived_runs.read(archives, left[:2])

    async def ask() -> list[RunOfJob]:
        try:
            return await read_archived_runs(services, left)
        finally:
            goes_on.set()

    monkeypatch.setattr(rest_reading, "ARCHIVE_TIMEOUT_S", 0.01)
    assert asyncio.run(ask()) == known
    assert len(known) == 2


@pytest.mark.parametrize("path", ["/names", "/runs?name=orders", "/state/names", "/state/runs?name=orders"])
def test_no_page_of_runs_is_made_in_the_event_loop(archives: JobArchives, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    in_loop: list[bool] = []

    def noting(make: Callable[..., Any]) -> Callable[..., Any]:
        def page(*arguments: Any) -> Any:
            in_loop.append(asyncio._get_running_loop() is not None)
            return make(*arguments)

        return page

    for module in (routes, questions):
        monkeypatch.setattr(module, "names_page", noting(views.names_page))
        monkeypatch.setattr(module, "runs_page", noting(views.runs_page))
    with client_with_archives(replay(archived_cluster(archives).log), archives) as client:
        assert client.get(API + path).status_code == 200
    assert in_loop == [False]


def test_a_page_of_the_past_that_an_archive_may_add_to_is_kept_by_nobody(archives: JobArchives) -> None:
    cluster = archived_cluster(archives)
    last = len(cluster.log) - 1
    cluster.submit(orders(), job_id="later")
    with client_of_log(cluster.log, cluster.timestamps) as client:
        unread = client.get(f"{API}/runs", params={"name": "orders", "at": last})
        assert (unread.json()["body"]["unread"], "ETag" in unread.headers, unread.headers["Cache-Control"]) == (5, False, "no-store")
        whole = client.get(f"{API}/runs", params={"name": "orders", "at": 30})
        assert (whole.json()["body"]["unread"], "ETag" in whole.headers) == (0, True)


# -- many -------------------------------------------------------------------------------------------------------------


def test_ten_thousand_runs_cost_rows_for_one_window_and_one_digest_for_each_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.submit(orders(), job_id="job-0000")
    jobs = cluster.master.dispatcher.jobs
    [example] = jobs.values()
    for number in range(1, 10_000):
        jobs[f"job-{number:04}"] = replace(example, job_id=f"job-{number:04}", graph_digest=f"graph {number}")
    rows, hashed = 0, 0

    def count_rows(*arguments: Any) -> RunOfJob:
        nonlocal rows
        rows += 1
        return make_row(*arguments)

    def count_hashes(*arguments: Any) -> str:
        nonlocal hashed
        hashed += 1
        return make_digest(*arguments)

    make_row, make_digest = views._run, graph_digest
    monkeypatch.setattr(views, "_run", count_rows)
    monkeypatch.setattr(definitions, "graph_digest", count_hashes)
    page = page_of(cluster.fold, first=5_000, limit=20)
    assert (page.total, len(page.runs), rows) == (10_000, 20, 20)
    assert hashed <= 1
    assert page.runs[0].job_id == "job-4999"
    known: KnownRuns = known_runs(cluster.fold, None)
    [name] = views.names_page(known, [], "", 0, 10).names
    assert (name.runs, name.versions, len(name.trend), rows) == (10_000, 1, 20, 20)
