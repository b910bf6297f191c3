"""What a TaskExecutor has of itself is asked of the registered instance, by names that are never paths, and for no longer than a time."""

from collections.abc import Iterator
from typing import Any

import pytest

from eventflink.events.effects import TaskManagerFileUploadOrder
from eventflink.events.inputs import FileUploadCompleted, RequestTaskManagerFileUpload, TaskManagerRegistration
from eventflink.events.log_events import FileUploaded, RequestRejected, TaskManagerFileUploadRequested, TaskManagerRegistered
from eventflink.master.effects import Deployment, Effect
from eventflink.master.resource_manager import MAX_METRICS_ADDRESS_LENGTH
from eventflink.master.uploads import EXPIRY_BATCH, MAX_PENDING_UPLOADS, UPLOAD_TIMEOUT_MS
from eventflink.model.statuses import TaskManagerFile
from eventflink.snapshots.state_codec import document_of, restore_fold
from eventflink.views.queries import task_managers
from tests.support.cluster import ScriptedCluster, graph, new_fold, replies, vertex


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """One TaskManager, at the newest feature level; the log is replayed at the end."""
    scripted = ScriptedCluster()
    scripted.register("tm")
    yield scripted
    scripted.check()


def ask(cluster: ScriptedCluster, file: str = "LOG", request_id: str = "r", **more: Any) -> list[Effect]:
    document = {"task_manager_id": "tm", "file": file, "request_id": request_id, **more}
    return cluster.command(type="RequestTaskManagerFileUpload", **document)


def refusal(effects: list[Effect]) -> tuple[str, str]:
    """Return the code and the message of the only answer, which is a refusal."""
    [reply] = replies(effects)
    assert isinstance(reply.payload, RequestRejected)
    return reply.payload.code, reply.payload.message


@pytest.mark.parametrize(
    ("file", "name"), [("LOG", ""), ("STDOUT", ""), ("NAMED", "guardian.log.1"), ("LOG_LIST", ""), ("THREAD_DUMP", "")]
)
def test_it_is_ordered_of_the_instance_and_ends_with_the_key(cluster: ScriptedCluster, file: str, name: str) -> None:
    effects = ask(cluster, file, name=name)
    order = TaskManagerFileUploadOrder("r", TaskManagerFile(file), name)
    assert [e for e in effects if isinstance(e, Deployment)] == [Deployment("tm", "tm-1", order)]
    assert cluster.events(TaskManagerFileUploadRequested) == [
        TaskManagerFileUploadRequested("r", "tm", "tm-1", TaskManagerFile(file), name)
    ]
    assert not [e for e in ask(cluster, file, name=name) if isinstance(e, Deployment)], "asked once more, it is answered once more"
    cluster.say(FileUploadCompleted("tm", "other", "r", "wrong"))
    cluster.say(FileUploadCompleted("tm", "tm-1", "r", "key"))
    cluster.say(FileUploadCompleted("tm", "tm-1", "r", "late"))
    assert cluster.events(FileUploaded) == [FileUploaded("r", "key", None)]
    assert not cluster.master.uploads.pending


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "a\0b", ".hidden", "x" * 256, "a b", "ä"]
)
def test_what_is_no_name_of_a_log_is_refused_and_nothing_is_ordered(cluster: ScriptedCluster, name: str) -> None:
    effects = ask(cluster, "NAMED", name=name)
    code, message = refusal(effects)
    assert code == "InvalidRequest"
    assert message.startswith("invalid name of a log: '")
    assert "; it may hold only letters" in message
    assert not [e for e in effects if isinstance(e, Deployment)]


def test_only_what_is_named_has_a_name(cluster: ScriptedCluster) -> None:
    assert refusal(ask(cluster, "LOG", name="x"))[1] == "name 'x': only NAMED has a name, and LOG is wanted"


def test_who_is_not_there_is_not_asked(cluster: ScriptedCluster) -> None:
    assert refusal(ask(cluster, task_manager_id="nobody")) == ("UnknownTaskManager", "TaskManager not found: 'nobody' is not registered")
    command = RequestTaskManagerFileUpload(
        request_id="f", reply_partition=0, task_manager_id="tm", file=TaskManagerFile.LOG, leader_id="a leader of yesterday"
    )
    assert refusal(cluster.send(command))[0] == "FencingTokenMismatch"


def test_an_order_is_repeated_until_it_is_answered_and_forgotten_with_its_instance(cluster: ScriptedCluster) -> None:
    ask(cluster)
    repeated = [e for e in cluster.fail_over().effects if isinstance(e, Deployment) and isinstance(e.payload, TaskManagerFileUploadOrder)]
    assert repeated == [Deployment("tm", "tm-1", TaskManagerFileUploadOrder("r", TaskManagerFile.LOG, ""))]
    restored = new_fold()
    restore_fold(document_of(cluster.fold), restored)
    assert restored.master.digest() == cluster.master.digest()
    cluster.register("tm", instance="2")
    assert not cluster.master.uploads.pending


def test_nobody_waits_for_ever(cluster: ScriptedCluster) -> None:
    ask(cluster, request_id="first")
    cluster.pass_time(UPLOAD_TIMEOUT_MS - 1)
    ask(cluster, request_id="second")
    cluster.pass_time(1)
    [ended] = cluster.events(FileUploaded)
    assert (ended.request_id, ended.blob_key) == ("first", None)
    assert ended.error == "tm did not answer within 120000 ms"
    assert list(cluster.master.uploads.pending) == ["second"]


def test_uploads_of_tasks_and_of_task_executors_are_bounded_together_and_end_a_batch_at_a_time() -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register("tm")
    cluster.submit(graph(vertex("a")))
    cluster.command(type="RequestFileUpload", request_id="of a task", job_id="job", vertex_id="a")
    for number in range(MAX_PENDING_UPLOADS - 1):
        ask(cluster, request_id=f"r{number}")
    assert refusal(ask(cluster, request_id="one more")) == ("TooManyUploads", f"{MAX_PENDING_UPLOADS} uploads are pending already")
    more = cluster.command(type="RequestFileUpload", request_id="another", job_id="job", vertex_id="a")
    assert refusal(more)[0] == "TooManyUploads"
    cluster.pass_time(UPLOAD_TIMEOUT_MS)
    ends = [sum(isinstance(e, FileUploaded) for e in d.events) for d in cluster.decisions()]
    assert max(ends) == EXPIRY_BATCH
    assert sum(ends) == MAX_PENDING_UPLOADS - 1
    assert list(cluster.master.uploads.pending) == ["of a task"]
    cluster.master.validate()
    cluster.check()


def test_where_a_task_manager_serves_its_metrics_is_in_the_log_and_in_the_answers(cluster: ScriptedCluster) -> None:
    cluster.say(TaskManagerRegistration("metered", "m-1", "h", 1, 1, metrics_address="h:9249"))
    cluster.say(TaskManagerRegistration("metered", "m-1", "h", 1, 1, metrics_address="h:1"))
    cluster.say(TaskManagerRegistration("long", "l-1", "h", 1, 1, metrics_address="x" * 1_000))
    shown = {row.task_manager_id: row.metrics_address for row in task_managers(cluster.fold).task_managers}
    assert shown == {"tm": "", "metered": "h:9249", "long": "x" * MAX_METRICS_ADDRESS_LENGTH}
    assert [event.metrics_address for event in cluster.events(TaskManagerRegistered)][1:3] == ["h:9249", "h:9249"]
