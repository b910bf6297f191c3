"""Every method of the gateways on a running cluster: real masters, a real TaskExecutor, a real broker; blocking and in an event loop.

The masters end with the last tests: a killed leader costs a caller nothing but time.
"""

import asyncio
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import eventflink
from benchmarks.graphs import idle_graph
from eventflink.blob.client import get_blob
from eventflink.cli import growing_files
from eventflink.cli.commands.logs import attempts_of
from eventflink.cli.growing_files import FollowedFiles
from eventflink.cli.session import session_of
from eventflink.events.log_events import JobCancellationRequested, JobSubmitted, RequestRepeated
from eventflink.gateways.async_gateways import (
    AsyncDispatcherGateway,
    AsyncJobMasterGateway,
    AsyncResourceManagerGateway,
    AsyncTaskExecutorGateway,
)
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import (
    ClusterNotFound,
    DuplicateJobSubmission,
    FencingTokenMismatch,
    FileNotAvailable,
    GatewayError,
    JobNotTerminated,
    JobTerminated,
    RequestRefused,
    UnknownJob,
    UnknownTaskManager,
)
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.gateways.rest_process import QuestionInvalid
from eventflink.gateways.task_executor_gateway import TaskExecutorGateway
from eventflink.leadership.fold import Fold
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import ExecutionState, JobStatus, SlotState, TaskFile
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
DOCUMENTS = Path(__file__).parents[2] / "docs"
SAID = "said on stdout\n"
WORDS = ("words", "task", 0, 1)


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A leader, `first`, a standby, `second`, and a TaskExecutor whose two slots are taken; jobs that ended, that run and that wait."""
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **{"high-availability.lease-timeout": 6_000}) as running:
        running.start_master("first")
        running.start_task_executor("tm", slots=2)
        running.start_standby("second")
        running.submit(running.graph({"id": "task", "python": "user_tasks:print_words"}), "words")
        running.submit(running.graph({"id": "task", "python": "user_tasks:fail", "parameters": {"message": "as wanted"}}), "failed")
        running.wait_for_status("words", JobStatus.FINISHED)
        running.wait_for_status("failed", JobStatus.FAILED)
        running.wait_for_running(running.submit(idle_graph(), "running"))
        running.submit(idle_graph(parallelism=3), "waiting")
        running.wait_for(lambda fold: task_states(fold, "waiting") == ["RUNNING", "SCHEDULED", "SCHEDULED"], "one of three runs")
        yield running


def task_states(fold: Fold, job_id: str) -> list[str]:
    return sorted(subtask.state for subtask in fold.master.dispatcher.jobs[job_id].execution_graph.subtasks())


@pytest.fixture
def dispatcher(cluster: RunningCluster) -> Iterator[DispatcherGateway]:
    with DispatcherGateway(cluster.access) as gateway:
        yield gateway


@pytest.fixture
def resource_manager(cluster: RunningCluster) -> Iterator[ResourceManagerGateway]:
    with ResourceManagerGateway(cluster.access) as gateway:
        yield gateway


# -- queries ----------------------------------------------------------------------------------------------------------


def test_the_dispatcher_says_what_jobs_there_are_and_how_they_stand(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    assert dispatcher.list_jobs() == {
        "words": JobStatus.FINISHED,
        "failed": JobStatus.FAILED,
        "running": JobStatus.RUNNING,
        "waiting": JobStatus.RUNNING,
    }
    assert dispatcher.request_job_status("failed") is JobStatus.FAILED
    overview = dispatcher.request_cluster_overview()
    assert (overview.task_managers, overview.slots, overview.slots_free, overview.slot_requests) == (1, 2, 0, 2)
    assert overview.jobs == {JobStatus.FINISHED: 1, JobStatus.FAILED: 1, JobStatus.RUNNING: 2}
    assert (overview.jobs_live, overview.leading_master_id, overview.epoch) == (2, "first", cluster.state().acceptance.epoch)
    leader = dispatcher.find_leader()
    assert (leader.leader_id, leader.blob_address) == (overview.leader_id, overview.blob_address)
    assert f":{dispatcher.get_blob_server_port()}" in leader.blob_address
    assert overview.log_offset <= cluster.state().last_offset


def test_job_details_are_those_of_the_newest_with_the_status_that_is_asked_for(dispatcher: DispatcherGateway) -> None:
    details = dispatcher.request_multiple_job_details()
    assert [job.job_id for job in details.jobs] == ["words", "failed", "running", "waiting"]
    waiting = details.jobs[-1]
    assert (waiting.name, waiting.tasks, waiting.actor, waiting.ended_at) == ("idle", 3, "test (declared)", None)
    assert waiting.tasks_by_state == {ExecutionState.RUNNING: 1, ExecutionState.SCHEDULED: 2}
    assert waiting.submitted_at > details.jobs[0].submitted_at
    ended = dispatcher.request_multiple_job_details([JobStatus.FAILED, JobStatus.FINISHED], limit=1)
    assert ([job.job_id for job in ended.jobs], ended.total) == (["failed"], 2)
    with pytest.raises(QuestionInvalid, match="limit: '0'"):
        dispatcher.request_multiple_job_details(limit=0)


def test_a_job_is_given_whole_and_archived_when_it_has_ended(dispatcher: DispatcherGateway) -> None:
    words = dispatcher.request_job("words")
    assert (words.status, words.is_archived, words.job_master_id, words.cause) == (JobStatus.FINISHED, True, "words-1", None)
    [vertex] = words.vertices
    [subtask] = vertex.subtasks
    assert (vertex.vertex_id, vertex.parallelism, vertex.states) == ("task", 1, {ExecutionState.FINISHED: 1})
    assert (subtask.attempt, subtask.task_manager_id, [place.attempt for place in subtask.attempts]) == (1, "tm", [1])
    failed = dispatcher.request_job("failed")
    assert failed.cause is not None
    assert (failed.cause.failure_type, failed.vertices[0].subtasks[0].last_failure) == ("LookupError", failed.cause)
    running = dispatcher.request_job("running")
    assert (running.is_archived, running.ended_at, running.vertices[0].subtasks[0].state) == (False, None, ExecutionState.RUNNING)
    for unknown in ("nobody", "runnin"):  # The beginning of an id is not an id.
        with pytest.raises(UnknownJob):
            dispatcher.request_job(unknown)


def test_a_result_says_how_the_job_ended_or_that_it_has_not(dispatcher: DispatcherGateway) -> None:
    finished = dispatcher.request_job_result("words", timeout_s=120)
    assert (finished.status, finished.cause) == (JobStatus.FINISHED, None)
    assert finished.net_run_time_ms > 0
    failed = dispatcher.request_job_result("failed", timeout_s=120)
    assert (failed.status, failed.cause.failure_type if failed.cause else "") == (JobStatus.FAILED, "LookupError")
    assert "as wanted" in (failed.cause.message if failed.cause else "")
    with pytest.raises(JobNotTerminated, match=r"job 'running' is RUNNING"):
        dispatcher.request_job_result("running", timeout_s=0.5)
    with pytest.raises(UnknownJob):
        dispatcher.request_job_result("nobody", timeout_s=120)


def test_the_resource_manager_says_what_slots_there_are(resource_manager: ResourceManagerGateway) -> None:
    [task_manager] = resource_manager.request_task_manager_info()
    assert (task_manager.task_manager_id, task_manager.slots, task_manager.slots_free) == ("tm", 2, 0)
    details = resource_manager.request_task_manager_details_info("tm")
    assert details.instance_id == task_manager.instance_id
    assert [slot.state for slot in details.slot_states] == [SlotState.ALLOCATED] * 2
    assert {slot.attempt.job_id for slot in details.slot_states if slot.attempt} == {"running", "waiting"}
    overview = resource_manager.request_resource_overview()
    assert (overview.task_managers, overview.slots, overview.slots_free, overview.slot_requests) == (1, 2, 0, 2)
    assert resource_manager.get_number_registered_slots() == resource_manager.get_number_registered_slots_of("tm") == 2
    assert resource_manager.get_number_free_slots() == resource_manager.get_number_free_slots_of("tm") == 0
    assert resource_manager.get_number_pending_slot_requests() == 2
    assert resource_manager.block_task_manager("tm", "a test", actor="me").subject == "tm"
    assert resource_manager.request_task_manager_details_info("tm").blocked
    with pytest.raises(FencingTokenMismatch):
        resource_manager.unblock_task_manager("tm", fencing_token="some-other-leader")
    assert resource_manager.unblock_task_manager("tm").subject == "tm"
    assert not resource_manager.request_task_manager_info()[0].blocked
    with pytest.raises(UnknownTaskManager, match="TaskManager not found: 'nobody'"):
        resource_manager.get_number_free_slots_of("nobody")


def test_files_of_a_task_are_uploaded_wherever_they_are_asked_for(
    cluster: RunningCluster, dispatcher: DispatcherGateway, resource_manager: ResourceManagerGateway
) -> None:
    blob_address = dispatcher.find_leader().blob_address
    request_id = str(uuid.uuid4())
    key = resource_manager.request_task_manager_file_upload(AttemptId(*WORDS), TaskFile.STDOUT, request_id=request_id)
    assert get_blob(blob_address, key).decode() == SAID
    # Asked once more, it is the same upload.
    assert resource_manager.request_task_manager_file_upload(AttemptId(*WORDS), TaskFile.STDOUT, request_id=request_id) == key
    assert dispatcher.request_file_upload(AttemptId(*WORDS), TaskFile.LOG).job_id == "words"
    with TaskExecutorGateway(cluster.access, task_manager_id="tm") as task_executor:
        assert task_executor.request_slot_report().slots == 2
        key = task_executor.request_file_upload(AttemptId(*WORDS), TaskFile.STDERR)
        assert "said on stderr" in get_blob(blob_address, key).decode()
        with pytest.raises(FileNotAvailable, match=r"words/task\[0\]#2 did not run on tm: it was never deployed"):
            task_executor.request_file_upload(AttemptId("words", "task", 0, 2), TaskFile.LOG)
    with TaskExecutorGateway(cluster.access, task_manager_id="other") as other:
        with pytest.raises(FileNotAvailable, match="did not run on other: it ran on tm"):
            other.request_file_upload(AttemptId(*WORDS), TaskFile.LOG)
        with pytest.raises(UnknownTaskManager):
            other.request_slot_report()
    with pytest.raises(FileNotAvailable, match="never deployed"):
        resource_manager.request_task_manager_file_upload(AttemptId("words", "task", 0, 9), TaskFile.LOG)


# -- commands ---------------------------------------------------------------------------------------------------------


def test_commands_are_done_or_refused_with_a_type(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    assert dispatcher.submit_job(idle_graph(), "submitted", actor="me").job_id == "submitted"
    with pytest.raises(DuplicateJobSubmission):
        dispatcher.submit_job(idle_graph(parallelism=2), "submitted")
    assert dispatcher.cancel_job("submitted").job_id == "submitted"
    assert dispatcher.request_job_result("submitted", timeout_s=120).status is JobStatus.CANCELED
    with pytest.raises(JobTerminated):
        dispatcher.cancel_job("words")
    with pytest.raises(UnknownJob):
        dispatcher.cancel_job("nobody")
    refused: list[tuple[Callable[[], object], str]] = [
        (partial(dispatcher.trigger_savepoint, "running", "/tmp"), "NoStream"),
        (partial(dispatcher.stop_with_savepoint, "running", "/tmp", drain=True), "NoStream"),
        (partial(dispatcher.dispose_savepoint, "/nowhere/savepoint"), "invalid savepoint '/nowhere/savepoint'"),
    ]
    for call, reason in refused:
        with pytest.raises(RequestRefused, match=reason):
            call()
    with pytest.raises(RequestRefused, match="NoStream"):
        dispatcher.trigger_checkpoint("running")
    with pytest.raises(RequestRefused, match="UnknownVertex"):
        dispatcher.request_operator_back_pressure_stats("running", "idle")
    assert cluster.job("running").status is JobStatus.RUNNING


def test_who_tells_wants_no_answer_and_the_log_has_it(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    dispatcher.submit_job(idle_graph(), "told")
    request_id = dispatcher.tell_cancel_job("told", actor="teller")
    assert dispatcher.request_job_result("told", timeout_s=120).status is JobStatus.CANCELED
    assert request_id in cluster.state().master.requests.answers
    assert [e.actor for e in cluster.events_of("told") if isinstance(e, JobCancellationRequested)] == ["teller (declared)"]
    assert dispatcher.tell_cancel_job("nobody")  # Its refusal is in the log, too, and nobody hears of it.


def test_a_job_master_is_asked_under_its_own_token(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    dispatcher.submit_job(idle_graph(), "mastered")
    with JobMasterGateway(cluster.access, job_id="mastered") as job_master:
        assert job_master.request_job().job_master_id == job_master.connect() == cluster.job("mastered").job_master_id
        assert job_master.request_job_status() is JobStatus.RUNNING
        assert job_master.cancel(actor="me").job_id == "mastered"
        assert dispatcher.request_job_result("mastered", timeout_s=120).status is JobStatus.CANCELED
        assert job_master.tell_cancel()
    dispatcher.submit_job(idle_graph(), "beside")
    with dispatcher.job_master("beside") as beside:
        beside.cancel()
    assert dispatcher.request_job_result("beside", timeout_s=120).status is JobStatus.CANCELED  # Its connection is the dispatcher's.
    with JobMasterGateway(cluster.access, job_id="nobody") as job_master, pytest.raises(UnknownJob):
        job_master.cancel()


def test_a_command_under_a_stale_token_is_refused_and_changes_nothing(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    with pytest.raises(FencingTokenMismatch, match="'some-other-leader'"):
        dispatcher.cancel_job("running", fencing_token="some-other-leader")
    with pytest.raises(FencingTokenMismatch):
        dispatcher.request_file_upload(AttemptId(*WORDS), TaskFile.LOG, fencing_token="some-other-leader")
    job_master = JobMasterGateway(cluster.access, job_id="running")
    job_master.job_master_id = "running-0"
    with job_master, pytest.raises(FencingTokenMismatch, match="'running-0'"):
        job_master.cancel()
    assert cluster.job("running").status is JobStatus.RUNNING
    token = dispatcher.find_leader().leader_id
    assert dispatcher.request_file_upload(AttemptId(*WORDS), TaskFile.LOG, fencing_token=token).leader_id == token


# -- in an event loop -------------------------------------------------------------------------------------------------


def test_every_method_answers_in_an_event_loop_as_it_does_in_a_thread(
    cluster: RunningCluster, dispatcher: DispatcherGateway, resource_manager: ResourceManagerGateway
) -> None:
    at = (cluster.bootstrap, cluster.cluster_id)

    async def ask_dispatcher() -> None:
        async with AsyncDispatcherGateway(*at) as waiting:
            assert (await waiting.find_leader()).leader_id == dispatcher.find_leader().leader_id
            assert await waiting.list_jobs() == dispatcher.list_jobs()
            assert await waiting.request_job("words") == dispatcher.request_job("words")
            assert await waiting.request_job_status("running") is JobStatus.RUNNING
            assert await waiting.request_job_result("failed") == dispatcher.request_job_result("failed")
            assert await waiting.request_multiple_job_details([JobStatus.FAILED]) == dispatcher.request_multiple_job_details(
                [JobStatus.FAILED]
            )
            seen = await waiting.request_cluster_overview()
            assert seen == replace(dispatcher.request_cluster_overview(), log_offset=seen.log_offset)
            assert await waiting.get_blob_server_port() == dispatcher.get_blob_server_port()
            assert (await waiting.submit_job(idle_graph(), "awaited")).job_id == "awaited"
            assert (await waiting.cancel_job("awaited", fencing_token=(await waiting.find_leader()).leader_id)).job_id == "awaited"
            assert await waiting.tell_cancel_job("awaited")
            assert (await waiting.request_file_upload(AttemptId(*WORDS), TaskFile.LOG)).job_id == "words"
            for refused, error in (
                (waiting.trigger_savepoint("running", "/tmp"), RequestRefused),
                (waiting.stop_with_savepoint("running", "/tmp"), RequestRefused),
                (waiting.dispose_savepoint("/nowhere/savepoint"), RequestRefused),
                (waiting.cancel_job("running", fencing_token="x"), FencingTokenMismatch),
                (waiting.request_job("nobody"), UnknownJob),
                (waiting.job_master("running").trigger_checkpoint(), RequestRefused),
                (waiting.request_operator_back_pressure_stats("running", "idle"), RequestRefused),
                (waiting.request_job_result("running", timeout_s=0.2), JobNotTerminated),
            ):
                with pytest.raises(error):
                    await refused
        with pytest.raises(GatewayError, match="closed"):
            await waiting.list_jobs()
        async with AsyncDispatcherGateway(cluster.bootstrap, "nowhere") as nowhere:
            with pytest.raises(ClusterNotFound):
                await nowhere.list_jobs()
            with pytest.raises(ClusterNotFound):
                await nowhere.cancel_job("x")

    async def ask_others() -> None:
        async with AsyncResourceManagerGateway(*at) as waiting:
            assert await waiting.request_task_manager_info() == resource_manager.request_task_manager_info()
            assert (await waiting.request_task_manager_details_info("tm")).slots == 2
            assert (await waiting.request_resource_overview()).task_managers == 1
            assert (await waiting.block_task_manager("tm", duration_ms=60_000)).subject == "tm"
            assert (await waiting.request_task_manager_info())[0].blocked
            assert (await waiting.unblock_task_manager("tm")).subject == "tm"
            key = await waiting.request_task_manager_file_upload(AttemptId(*WORDS), TaskFile.STDOUT)
            assert get_blob(dispatcher.find_leader().blob_address, key).decode() == SAID
            counts = (
                waiting.get_number_registered_slots(),
                waiting.get_number_registered_slots_of("tm"),
                waiting.get_number_free_slots(),
                waiting.get_number_free_slots_of("tm"),
                waiting.get_number_pending_slot_requests(),
                waiting.get_number_pending_task_manager_slots(),
            )
            assert list(await asyncio.gather(*counts)) == [2, 2, 0, 0, 2, 0]
        async with AsyncJobMasterGateway(*at, "running") as job_master:
            assert await job_master.connect() == (await job_master.request_job()).job_master_id
            assert await job_master.request_job_status() is JobStatus.RUNNING
        async with AsyncJobMasterGateway(*at, "awaited") as job_master:
            assert (await job_master.cancel()).job_id == "awaited"
            assert await job_master.tell_cancel()
        async with AsyncTaskExecutorGateway(*at, "tm") as task_executor:
            assert (await task_executor.request_slot_report()).slots == 2
            assert await task_executor.request_file_upload(AttemptId(*WORDS), TaskFile.LOG)

    asyncio.run(asyncio.wait_for(ask_dispatcher(), 120))
    asyncio.run(asyncio.wait_for(ask_others(), 120))


def test_many_wait_for_results_at_once_and_who_gives_up_leaves_nothing_behind(cluster: RunningCluster) -> None:
    async def run() -> None:
        async with AsyncDispatcherGateway(cluster.access, max_under_way=400) as gateway:
            waiting = [asyncio.create_task(gateway.request_job_result("running")) for _ in range(300)]
            await asyncio.sleep(1.0)
            # Neither those who wait nor those who ask meanwhile keep each other from anything.
            assert await asyncio.gather(*[gateway.request_job_status("running") for _ in range(50)]) == [JobStatus.RUNNING] * 50
            for task in waiting:
                task.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(each) for each in ended} == {asyncio.CancelledError}
            assert gateway._connection._room._value == 400

    asyncio.run(asyncio.wait_for(run(), 60))


# -- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("document", ["gateways.md", "python.md"])
def test_the_examples_of_the_document_run(cluster: RunningCluster, tmp_path: Path, document: str, number: int) -> None:
    text = (DOCUMENTS / document).read_text(encoding="utf-8")
    examples = [each for each in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "sys.argv" in each]
    assert len(examples) == 2
    script = tmp_path / "example.py"
    script.write_text(examples[number])
    command = [sys.executable, str(script), cluster.bootstrap, cluster.cluster_id]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "CANCELED" in done.stdout


def test_a_notebook_shows_a_cluster_and_a_job_while_it_runs(cluster: RunningCluster) -> None:
    cells = [
        f"import eventflink\ncluster = eventflink.connect({cluster.bootstrap!r}, {cluster.cluster_id!r})\ncluster",
        "cluster.job('words').watch()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [[output["data"] for output in cell.outputs] for cell in notebook.cells]
    assert "led by first" in shown[0][0]["text/html"]
    assert "<svg" in shown[1][0]["text/html"]
    assert shown[1][0]["text/plain"].startswith("<job words ")
    assert shown[1][1]["text/plain"] == "<JobStatus.FINISHED: 'FINISHED'>"


# -- failovers: the last tests, for they end the masters --------------------------------------------------------------


def _note(lines: list[bytes], _attempt: AttemptId, more: list[bytes]) -> None:
    lines += more


@pytest.mark.rule("L4")
def test_over_the_fall_of_a_leader_results_are_waited_for_and_what_was_done_is_answered_once_more(
    cluster: RunningCluster, dispatcher: DispatcherGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = (cluster.bootstrap, cluster.cluster_id)
    dispatcher.cancel_job("waiting")  # Its slots are needed.
    flag = tmp_path / "flag"
    vertex = {"id": "task", "python": "user_tasks:wait_for_file_and_go_on", "parameters": {"path": str(flag)}}
    graph = cluster.graph(vertex)
    cluster.wait_for_running(dispatcher.submit_job(graph, "long", request_id="submit-long").job_id)
    dispatcher.submit_job(idle_graph(), "ended")
    first_answer = dispatcher.cancel_job("ended", request_id="cancel-ended")
    token = dispatcher.find_leader().leader_id

    def wait_blocking() -> Any:
        with DispatcherGateway(*at) as gateway:
            return gateway.request_job_result("long", timeout_s=120)

    async def wait_in_a_loop() -> Any:
        async with AsyncDispatcherGateway(*at) as gateway:
            return await gateway.request_job_result("long", timeout_s=120)

    said: list[bytes] = []

    def follow_files() -> None:
        session = session_of({"overrides": {"data.directory": tmp_path}, "bootstrap": at[0], "cluster_id": at[1]}, in_context=False)
        select, write = partial(attempts_of, vertex_id=None, subtask_index=None), partial(_note, said)
        asyncio.run(FollowedFiles(session, "long", TaskFile.STDOUT, select, write, timeout_s=30).follow())

    def follow_log() -> list[dict[str, Any]]:
        with eventflink.connect(*at) as connected:
            events = connected.events(job="long", follow=True)
            return [*takewhile(lambda event: event["type"] != "JobResultStored", events)]

    monkeypatch.setattr(growing_files, "_LONGEST_PAUSE_S", growing_files._FIRST_PAUSE_S)
    with ThreadPoolExecutor(4) as threads:
        files, followed = threads.submit(follow_files), threads.submit(follow_log)
        wait_until(lambda: said == [b"subtask 0 waits"], "the task is heard")
        results = [threads.submit(wait_blocking), threads.submit(lambda: asyncio.run(wait_in_a_loop()))]
        cluster.kill("first")
        # Asked while nobody leads: the answer comes from the next leader.
        assert dispatcher.cancel_job("ended", request_id="cancel-ended").subject == first_answer.subject
        assert dispatcher.submit_job(graph, "long", request_id="submit-long").job_id == "long"
        assert dispatcher.request_cluster_overview().leading_master_id == "second"
        assert not any(future.done() for future in results)
        Path(f"{flag}.go").touch()
        ended = [future.result(120) for future in results]
        files.result(60)
    assert [result.status for result in ended] == [JobStatus.FINISHED] * 2
    assert said == [b"subtask 0 waits", b"subtask 0 goes on"]
    with eventflink.connect(*at) as connected:
        assert followed.result(60) == list(takewhile(lambda event: event["type"] != "JobResultStored", connected.events(job="long")))
    assert len({event["leader_id"] for event in followed.result()}) == 2
    decided = [event for _, decision in cluster.decisions() for event in decision.events]
    assert sum(isinstance(e, JobCancellationRequested) and e.job_id == "ended" for e in decided) == 1
    assert sum(isinstance(e, JobSubmitted) and e.job_id == "long" for e in decided) == 1
    assert {e.request_id for e in decided if isinstance(e, RequestRepeated)} >= {"cancel-ended", "submit-long"}

    # The token of the leader that crashed is stale; the job's own is not, for its JobMaster lives on.
    with pytest.raises(FencingTokenMismatch, match=token):
        dispatcher.cancel_job("running", fencing_token=token)
    assert dispatcher.request_job_status("running") is JobStatus.RUNNING
    with JobMasterGateway(*at, "running") as job_master:
        job_master.cancel()
    assert dispatcher.request_job_result("running", timeout_s=120).status is JobStatus.CANCELED


def test_a_frozen_leader_is_passed_over_by_who_waits_for_a_result(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    """It keeps the connection and says nothing: the wait continues at another master."""
    cluster.start_standby("third")
    dispatcher.submit_job(idle_graph(), "frozen")
    cluster.wait_for_running("frozen")
    with ThreadPoolExecutor(1) as threads:

        def wait() -> Any:
            with DispatcherGateway(cluster.access) as gateway:
                return gateway.request_job_result("frozen", timeout_s=120)

        result = threads.submit(wait)
        wait_until(lambda: dispatcher.find_leader().master_id == "second", "second leads")
        cluster.pause("second")
        wait_until(lambda: dispatcher.find_leader().master_id == "third", "third leads")
        dispatcher.cancel_job("frozen")
        assert result.result(120).status is JobStatus.CANCELED
        cluster.resume("second")
