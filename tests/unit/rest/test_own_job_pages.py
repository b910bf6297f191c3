"""Pages of one job: the same from its archive, whole by windows, without secrets, and with what was before a rescale."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.documents.one_job import JobArchive
from eventflink.documents.plain import parse, plain
from eventflink.events.inputs import TaskStateReport
from eventflink.jobs.published import write_file_list
from eventflink.master.inputs import ArchivesWritten, CleanupsCompleted, WrittenArchive
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause, IOMetrics
from eventflink.model.places import Place
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState
from eventflink.model.stream_progress import StreamOutputProgress, StreamSourceProgress
from eventflink.views.archive import archive_view
from eventflink.views.job_document import document_view
from eventflink.views.pages.bars import archived_bars_page, bars_page
from eventflink.views.pages.job_parts import (
    archived_checkpoints_page,
    archived_exceptions_page,
    archived_result_page,
    checkpoints_page,
    exceptions_page,
    result_page,
)
from eventflink.views.pages.jobs import jobs_page
from eventflink.views.pages.one_job import archived_job_page, job_page
from eventflink.views.pages.subtasks import SubtaskOrder, archived_subtasks_page, subtasks_page
from eventflink.views.plain import iso_time
from tests.support.cluster import (
    START_MS,
    ScriptedCluster,
    cancellations,
    deployments,
    graph,
    orders,
    output_at,
    replay,
    reports_of,
    state_report,
    stream,
    vertex,
)
from tests.support.rest_client import client_with_archives, rest_client
from tests.support.scenarios import busy_cluster, ended_streams, eventful_cluster, restarting_cluster

API = "/eventflink/v1"


def test_an_ended_job_has_the_same_pages_from_its_archive() -> None:
    compared = 0
    for fold in (busy_cluster().fold, restarting_cluster().fold, eventful_cluster().fold):
        for job_id in [job_id for job_id, job in fold.master.dispatcher.jobs.items() if job.status in TERMINAL_JOB_STATUSES]:
            archive = parse(JobArchive, json.loads(json.dumps(plain(archive_view(fold, job_id)))))
            page = archived_job_page(archive)
            # For how long outputs are kept is the cluster's, which may let them go before.
            assert page == replace(job_page(fold, job_id), outputs_kept_until=None)
            for archived, before in (
                (archived_bars_page(archive, 0, 100), bars_page(fold, job_id, 0, 100)),
                (archived_exceptions_page(archive, 9), exceptions_page(fold, job_id, 9)),
                (archived_checkpoints_page(archive), checkpoints_page(fold, job_id)),
                (archive.document, document_view(fold, job_id)),
                (archived_result_page(archive, "", "", 0, 9), result_page(fold, job_id, "", "", 0, 9)),
            ):
                assert plain(archived) == json.loads(json.dumps(plain(before)))
            for each in page.vertices:
                wanted = (each.vertex_id, (), SubtaskOrder.TROUBLE, 0, 10)
                assert archived_subtasks_page(archive, *wanted) == subtasks_page(fold, job_id, *wanted)
            compared += 1
    assert compared >= 4


PARTS = ("", "/vertices/s/subtasks", "/vertices/nowhere/subtasks", "/bars", "/exceptions", "/checkpoints", "/document", "/result")
PAGES_OF_ONE_JOB = tuple(f"/jobs/job{part}" for part in PARTS)


def test_a_job_that_has_left_the_memory_keeps_its_pages(tmp_path: Path) -> None:
    archives = JobArchives(open_storage(str(tmp_path / "archives")), 10)
    cluster = ScriptedCluster(MasterSettings(archives=True, job_store_cache_size=0))
    ended_streams(cluster)
    with rest_client(replay(cluster.log)) as client:
        before = {path: client.get(API + path) for path in PAGES_OF_ONE_JOB}
    assert before["/jobs/job"].json()["body"]["vertices"][0]["watermark"] is not None
    file = archives.write(plain(archive_view(cluster.fold, "job")))
    cluster.timer(CleanupsCompleted(("job",)), ArchivesWritten((WrittenArchive("job", file.location, file.digest, file.byte_count),)))
    cluster.pass_time(1)
    assert "job" in cluster.master.dispatcher.forgotten
    with client_with_archives(cluster.fold, archives) as client:
        for path, answer in before.items():
            after = client.get(API + path)
            assert (after.status_code, after.json().get("body")) == (answer.status_code, answer.json().get("body")), path
    with rest_client(cluster.fold) as client:
        assert "evicted from memory" in client.get(f"{API}/jobs/job").json()["errors"][0]


def test_bars_of_a_window_are_those_of_the_whole() -> None:
    fold = restarting_cluster().fold
    for job_id in fold.master.dispatcher.jobs:
        whole = bars_page(fold, job_id, 0, 1_000)
        for limit in (1, 2, 3):
            windows = [bars_page(fold, job_id, first, limit).bars for first in range(0, whole.total, limit)]
            assert [bar for bars in windows for bar in bars] == whole.bars


def test_a_rescaled_job_keeps_the_bars_of_subtasks_that_it_has_no_more() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    for task in deployments(cluster.submit(graph(vertex("a", 3)))):
        cluster.report(task, ExecutionState.RUNNING)
    effects = cluster.rescale("a", 1)
    cluster.say(*[state_report(order, ExecutionState.CANCELED) for order in cancellations(effects)])
    cluster.pass_time(1)
    assert cluster.job("job").execution_graph.vertices["a"].parallelism == 1
    page = bars_page(cluster.fold, "job", 0, 100)
    assert [(bar.subtask_index, bar.attempt) for bar in page.bars] == [(0, 1), (0, 2), (1, 1), (2, 1)]
    assert page.total == 4
    assert subtasks_page(cluster.fold, "job", "a", (), SubtaskOrder.INDEX, 0, 9).total == 1


def test_a_document_is_shown_without_its_secrets() -> None:
    hostile = {"passwords": "p4ss", "deep": [{"apiKeys": "k3y"}], "url": "jdbc:postgresql://ann:p4ss@host/db", "rows": 7}
    sql = {"id": "b", "sql": "SELECT * FROM a JOIN c ON a.key=c.key WHERE x = 'http://u:p4ss@h/?token=t0k3n'", "parallelism": 1}
    cluster = ScriptedCluster()
    cluster.submit(graph(vertex("a") | {"parameters": hostile}, sql, edges=[("a", "b", "hash")]))
    with rest_client(cluster.fold) as client:
        answer = client.get(f"{API}/jobs/job/document")
    first, second = answer.json()["body"]["document"]["vertices"]
    assert first["parameters"]["rows"] == 7
    assert "a.key=c.key" in second["sql"]
    assert not [secret for secret in ("p4ss", "k3y", "t0k3n") if secret in answer.text]


def test_a_result_names_what_its_subtasks_left_by_vertex_and_output() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    cluster.run(cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")])))
    whole = result_page(cluster.fold, "job", "", "", 0, 10)
    assert (whole.status, whole.sinks, whole.outputs_matching) == ("FINISHED", ["b"], 3)
    [left] = result_page(cluster.fold, "job", "b", "default", 0, 10).outputs
    assert left.location == "/outputs/job/b/0/1/default"
    assert result_page(cluster.fold, "job", "b", "other", 0, 10).outputs == []


def test_the_first_rows_of_a_result_are_read_where_the_log_says(tmp_path: Path) -> None:
    names: list[str | None] = ["x" * 9_000, None, "\x1b[2J"]
    for index in range(2):
        (tmp_path / str(index)).mkdir()
        rows = {"name": names, "count": [1, 2**60, -1], "ratio": [0.5, float("nan"), None], "many": [[1], [], None]}
        pq.write_table(pa.table(rows), tmp_path / str(index) / "part.parquet")
    left = [write_file_list("default", Place(str(tmp_path / str(index))), 3) for index in range(2)]
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    for number, task in enumerate(deployments(cluster.submit(graph(vertex("a", 2))))):
        finished = state_report(task, ExecutionState.FINISHED)
        finished.outputs = (replace(left[number], location=f"file://{left[number].location}"), output_at("/nowhere/at/all", "gone"))
        cluster.say(*reports_of(task, ExecutionState.RUNNING), finished)
    with rest_client(cluster.fold) as client:
        read = client.get(f"{API}/jobs/job/result/rows?vertex_id=a&limit=4").json()["body"]
        gone = client.get(f"{API}/jobs/job/result/rows?vertex_id=a&output=gone").json()["body"]
        none = client.get(f"{API}/jobs/job/result/rows?vertex_id=b").json()["body"]
        whole = client.get(f"{API}/jobs/job/result/rows?vertex_id=a&limit=100").json()["body"]
        refused = client.get(f"{API}/jobs/job/result/rows?vertex_id=a&limit=101")
        tag = client.get(f"{API}/jobs/job?at={len(cluster.log) - 1}").headers["ETag"]
        again = client.get(f"{API}/jobs/job/result/rows?vertex_id=a&at={len(cluster.log) - 1}", headers={"If-None-Match": tag})
    assert [column["name"] for column in read["columns"]] == ["name", "count", "ratio", "many"]
    assert read["rows"][0] == ["x" * 500, 1, 0.5, "[1]"]
    assert read["rows"][1] == [None, str(2**60), "NaN", "[]"]
    assert (len(read["rows"]), read["has_more"], read["unreadable"]) == (4, True, None)
    assert (len(whole["rows"]), whole["has_more"]) == (6, False)
    assert (
        gone["unreadable"] == f"/nowhere/at/all is not there: it was removed or changed, or is on another host than {socket.gethostname()}"
    )
    assert none["unreadable"] == "vertex 'b' has left no output 'default'"
    assert (gone["rows"], none["rows"], refused.status_code) == ([], [], 400)
    assert (again.status_code, again.headers["Cache-Control"], again.headers.get("ETag")) == (200, "no-store", None), (
        "read now, kept by nobody"
    )


def test_a_stream_says_whether_it_keeps_up_while_it_runs_and_where_its_savepoint_is_when_it_has_ended(tmp_path: Path) -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    [task] = deployments(cluster.submit(graph(stream("s"), checkpointing={"interval_ms": 1_000})))

    def said() -> str:
        return job_page(cluster.fold, "job").sentence

    cluster.start_stream(task)
    assert said() == "Its task is running. Whether it keeps up is known with the first checkpoint."
    rates = {"input_rows": 20, "input_rows_per_second": 1_840.0, "processed_rows_per_second": 2_000.0}
    well = "It keeps up, as of {}: 1,840 records come in a second, 0 are behind."
    for behind, expected in ((0, well), (180, "'s' does not keep up, as of {}: 180 records behind")):
        sources = (StreamSourceProgress(name="numbers", end_offset="", records_behind=behind),)
        cluster.acknowledge(*orders(cluster.pass_time(1_000)), batch_id=behind + 1, sources=sources, **rates)
        [vertex_] = job_page(cluster.fold, "job").vertices
        assert expected.format(vertex_.flow_at) in said()
    for rows, at_ms, expected in (
        (-1, -1, "records come in a second."),
        (0, -1, "Since its attempts began, no row was written."),
        (5, START_MS, f"The last rows that were written are of the batch of {iso_time(START_MS)}."),
    ):
        outputs = (StreamOutputProgress(name="default", location="t", rows_written=rows, written_at_ms=at_ms),)
        cluster.acknowledge(*orders(cluster.pass_time(1_000)), batch_id=190 + rows, outputs=outputs, **rates)
        assert said().endswith(f" {expected}")
    stopped = orders(cluster.command(type="TriggerSavepoint", job_id="job", target_directory=str(tmp_path), mode="STOP"))
    cluster.acknowledge(*stopped, batch_id=200, sources=sources, **rates)
    cluster.report(task, ExecutionState.FINISHED)
    page = job_page(cluster.fold, "job")
    path = plain(page.checkpoints)["latest"]["savepoint"]["savepoint"]["path"]
    assert page.sentence == f"Its task has finished; it was stopped with the savepoint {path}."
    assert page.vertices[0].back_pressure is None, "what has ended keeps nobody waiting"


def test_a_vertex_says_what_its_newest_attempts_have_read_and_written_and_from_when_to_when() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    one, other = deployments(cluster.submit(graph(vertex("a", 2))))

    def work() -> tuple[object, ...]:
        [row] = job_page(cluster.fold, "job").vertices
        return row.read_records, row.write_records, row.began_at is not None, row.ended_at is not None

    assert work() == (None, None, True, False)
    reports = [reports_of(task, ExecutionState.FINISHED, None) for task in (one, other)]
    for said, io in zip(reports, (IOMetrics(10, 100, 7, 70), IOMetrics(-1, -1, 3, 30)), strict=True):
        assert isinstance(said[-1], TaskStateReport)
        said[-1].io = io
    cluster.say(*reports[0])
    assert work() == (10, 7, True, False)
    cluster.say(*reports[1])
    assert work() == (None, 10, True, True), "one does not say what it read"


def test_a_failed_job_says_why_in_the_list_and_no_sentence_has_two_signs_in_a_row() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    for number, end in enumerate((".", ":", ";", " . ", "")):
        job_id = f"j{number}"
        [task] = deployments(cluster.submit(graph(vertex("a")), job_id=job_id))
        cluster.report(task, ExecutionState.FAILED, cause=FailureCause("E", f"no room{end}"))
        [row] = jobs_page(cluster.fold, (), job_id, "", "newest", 0, 1).jobs
        assert row.why == "E: no room."
        assert exceptions_page(cluster.fold, job_id, 1).exceptions[0].sentence == (
            "a[0]#1 failed: E: no room; the job failed (the restart strategy is none)."
        )
