"""Fencing tokens: a command that is for somebody else is refused by a decision, and changes nothing."""

from typing import Any

import pytest

from eventflink.events.inputs import BlockTaskManager, CancelJob, RequestFileUpload
from eventflink.events.log_events import (
    FileUploadRequested,
    JobCancellationRequested,
    RequestAccepted,
    RequestRejected,
    TaskManagerBlocked,
    TaskManagerUnblocked,
)
from eventflink.master.effects import Effect
from eventflink.model.statuses import JobStatus, TaskFile
from tests.support.cluster import ScriptedCluster, graph, replies, vertex


def _answer(effects: list[Effect]) -> RequestAccepted | RequestRejected:
    [reply] = replies(effects)
    return reply.payload


def _refused(effects: list[Effect]) -> RequestRejected:
    answer = _answer(effects)
    assert isinstance(answer, RequestRejected)
    return answer


def _upload(**more: Any) -> RequestFileUpload:
    return RequestFileUpload(reply_partition=0, job_id="job", vertex_id="a", subtask_index=0, attempt=1, file=TaskFile.LOG, **more)


@pytest.fixture
def running(cluster: ScriptedCluster) -> ScriptedCluster:
    """A job with one task that is deployed."""
    cluster.register()
    cluster.submit(graph(vertex("a")))
    return cluster


def test_a_command_for_the_present_leader_is_done(running: ScriptedCluster) -> None:
    leader_id = running.fold.acceptance.leader_id
    assert isinstance(_answer(running.send(_upload(leader_id=leader_id))), RequestAccepted)
    assert isinstance(_answer(running.send(CancelJob(reply_partition=0, job_id="job", leader_id=leader_id))), RequestAccepted)
    assert len(running.events(FileUploadRequested)) == len(running.events(JobCancellationRequested)) == 1


def test_a_command_for_a_leader_that_fell_is_refused_and_changes_nothing(running: ScriptedCluster) -> None:
    stale = running.fold.acceptance.leader_id
    running.fail_over()
    present = running.fold.acceptance.leader_id
    assert present != stale
    before = running.job("job").status
    for command in (CancelJob(reply_partition=0, job_id="job", leader_id=stale), _upload(leader_id=stale)):
        refusal = _refused(running.send(command))
        assert refusal.code == "FencingTokenMismatch"
        assert refusal.message == f"the request is for the leader '{stale}'; '{present}' leads now"
        assert not refusal.dead_letter
    assert running.job("job").status is before is JobStatus.RUNNING
    assert not running.events(FileUploadRequested)
    assert isinstance(_answer(running.send(CancelJob(reply_partition=0, job_id="job", leader_id=present))), RequestAccepted)


def test_a_jobs_own_token_is_its_job_masters_id(running: ScriptedCluster) -> None:
    refusal = _refused(running.command(type="CancelJob", job_id="job", job_master_id="job-0"))
    assert (refusal.code, refusal.subject) == ("FencingTokenMismatch", "job")
    assert f"job 'job' has '{running.job('job').job_master_id}' now" in refusal.message
    assert running.job("job").status is JobStatus.RUNNING
    present = running.job("job").job_master_id
    running.fail_over()  # It outlives the leader: a token of the job is no token of who leads.
    assert isinstance(_answer(running.command(type="CancelJob", job_id="job", job_master_id=present)), RequestAccepted)
    assert running.job("job").status is JobStatus.CANCELLING


def test_a_task_manager_is_blocked_and_unblocked_by_who_is_meant(running: ScriptedCluster) -> None:
    leader_id = running.fold.acceptance.leader_id
    assert _refused(running.send(BlockTaskManager(reply_partition=0, task_manager_id="tm", leader_id="x"))).code == "FencingTokenMismatch"
    assert not running.events(TaskManagerBlocked)
    running.send(BlockTaskManager(reply_partition=0, task_manager_id="tm", leader_id=leader_id))
    refusal = _refused(running.command(type="UnblockTaskManager", task_manager_id="tm", leader_id="x"))
    assert (refusal.code, refusal.subject) == ("FencingTokenMismatch", "tm")
    assert not running.events(TaskManagerUnblocked)
    running.command(type="UnblockTaskManager", task_manager_id="tm", leader_id=leader_id)
    assert len(running.events(TaskManagerBlocked)) == len(running.events(TaskManagerUnblocked)) == 1


def test_both_tokens_have_to_fit(running: ScriptedCluster) -> None:
    leader_id, job_master_id = running.fold.acceptance.leader_id, running.job("job").job_master_id
    for tokens in ((leader_id, "x"), ("x", job_master_id)):
        command = CancelJob(reply_partition=0, job_id="job", leader_id=tokens[0], job_master_id=tokens[1])
        assert _refused(running.send(command)).code == "FencingTokenMismatch"
    assert running.job("job").status is JobStatus.RUNNING


def test_an_unknown_job_is_unknown_whatever_its_token(running: ScriptedCluster) -> None:
    assert _refused(running.command(type="CancelJob", job_id="nobody", job_master_id="nobody-1")).code == "UnknownJob"


def test_a_request_that_was_done_is_answered_once_more_although_its_token_is_stale_by_then(running: ScriptedCluster) -> None:
    command = CancelJob(request_id="r", reply_partition=0, job_id="job", leader_id=running.fold.acceptance.leader_id)
    first = _answer(running.send(command))
    running.fail_over()
    running.take_effects()  # The new leader says the last answers again by itself.
    assert _answer(running.send(command)) == first
    assert len(running.events(JobCancellationRequested)) == 1


def test_a_refusal_is_remembered_as_any_answer(running: ScriptedCluster) -> None:
    """A token that is refused once stays refused under that request id, also when it fits by accident later."""
    first = _refused(running.command(type="CancelJob", job_id="job", request_id="r", leader_id="leader-2"))
    running.fail_over()
    assert running.fold.acceptance.leader_id == "leader-2"
    running.take_effects()
    assert _refused(running.command(type="CancelJob", job_id="job", request_id="r", leader_id="leader-2")) == first


def test_a_refusal_repeats_the_token_that_does_not_fit_in_a_bounded_length() -> None:
    cluster = ScriptedCluster()
    cluster.register()
    cluster.submit(graph(vertex("a")))
    assert _refused(cluster.command(type="CancelJob", job_id="job", leader_id="x" * 500)).message.count("x") == 128
    cluster.check()


@pytest.mark.parametrize("field", ["leader_id", "job_master_id"])
def test_a_token_that_is_no_text_is_refused_by_name(cluster: ScriptedCluster, field: str) -> None:
    refusal = _refused(cluster.command(type="CancelJob", job_id="job", request_id="r", **{field: 5}))
    assert refusal.code == "InvalidRequest"
    assert field in refusal.message
