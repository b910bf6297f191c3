"""A job can be cancelled wherever it stands; what is late, stale or repeated changes nothing (P7)."""

from typing import Any

import pytest

from eventflink.events.effects import FileUploadOrder
from eventflink.events.inputs import FileUploadCompleted, SlotOffer, SlotOfferRefusal, TaskManagerDeath, TaskManagerReport, TaskStateReport
from eventflink.events.log_events import (
    FileUploaded,
    InputsSkipped,
    JobResultStored,
    RequestAccepted,
    RequestRejected,
    SlotRequestCancelled,
    TaskFailed,
)
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.master.effects import Deployment, Effect
from eventflink.model.statuses import ExecutionState, JobStatus, TaskFile
from tests.support.cluster import ScriptedCluster, cancellations, deployments, fixed_delay, graph, replies, state_report, tasks, vertex


def _status(cluster: ScriptedCluster) -> JobStatus:
    return cluster.job("job").status


def test_cancelling_before_any_slot_is_free_ends_the_job_at_once(cluster: ScriptedCluster) -> None:
    """CREATED (b waits for a) and SCHEDULED (a waits for a slot) attempts are nobody else's business."""
    cluster.submit(graph(vertex("a", 2), vertex("b"), edges=[("a", "b", "hash")]))
    effects = cluster.cancel()
    assert _status(cluster) is JobStatus.CANCELED
    assert len(cluster.events(SlotRequestCancelled)) == 2
    assert not cancellations(effects)
    assert not cluster.master.slot_manager.pending
    assert cluster.events(JobResultStored)[0].status is JobStatus.CANCELED


@pytest.mark.parametrize("state", [None, ExecutionState.INITIALIZING, ExecutionState.RUNNING])
def test_a_deployed_attempt_is_told_and_the_job_waits_for_its_report(cluster: ScriptedCluster, state: ExecutionState | None) -> None:
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    if state is not None:
        cluster.report(deployment, state)
    [cancellation] = cancellations(cluster.cancel())
    assert (cancellation.task_manager_id, cancellation.instance_id) == ("tm", "tm-1")
    assert _status(cluster) is JobStatus.CANCELLING
    cluster.say(state_report(cancellation, ExecutionState.CANCELED))
    assert _status(cluster) is JobStatus.CANCELED
    assert cluster.master.slot_manager.get_number_free_slots() == 4


@pytest.mark.parametrize("said", [ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED])
def test_however_a_cancelled_attempt_ends_it_is_cancelled(cluster: ScriptedCluster, said: ExecutionState) -> None:
    """Its result came too late to count; its failure is nobody's cause."""
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3))))
    cluster.report(deployment, ExecutionState.RUNNING)
    cluster.cancel()
    cluster.report(deployment, said)
    assert _status(cluster) is JobStatus.CANCELED
    assert not cluster.events(TaskFailed)
    assert cluster.job("job").execution_graph.subtask("a", 0).outputs == ()  # type: ignore[union-attr] # it is there


def test_cancelling_a_job_that_waits_to_restart_ends_it(cluster: ScriptedCluster) -> None:
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"), restart_strategy=fixed_delay(3))))
    cluster.report(deployment, ExecutionState.FAILED)
    assert _status(cluster) is JobStatus.RESTARTING
    cluster.cancel()
    assert _status(cluster) is JobStatus.CANCELED
    assert not tasks(cluster.pass_time(10_000))


def test_cancelling_a_failing_job_makes_it_a_cancelled_one(cluster: ScriptedCluster) -> None:
    cluster.register(slots=2)
    [one, other] = deployments(cluster.submit(graph(vertex("a", 2))))
    cluster.report(one, ExecutionState.FAILED)
    assert _status(cluster) is JobStatus.FAILING
    cluster.cancel()
    cluster.report(other, ExecutionState.CANCELED)
    assert _status(cluster) is JobStatus.CANCELED


def test_cancelling_again_is_accepted_again(cluster: ScriptedCluster) -> None:
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    for _ in range(2):
        assert isinstance(replies(cluster.cancel())[0].payload, RequestAccepted)
    cluster.report(deployment, ExecutionState.CANCELED)
    assert isinstance(replies(cluster.cancel())[0].payload, RequestAccepted)
    assert len(cluster.events(JobResultStored)) == 1


@pytest.mark.parametrize(("end", "status"), [(ExecutionState.FINISHED, "FINISHED"), (ExecutionState.FAILED, "FAILED")])
def test_a_job_that_ended_otherwise_cannot_be_cancelled(cluster: ScriptedCluster, end: ExecutionState, status: str) -> None:
    cluster.register()
    cluster.run(cluster.submit(graph(vertex("a"))), lambda _: end)
    payload = replies(cluster.cancel())[0].payload
    assert isinstance(payload, RequestRejected)
    assert (payload.code, payload.message) == ("JobTerminated", f"job 'job' is {status} already")


@pytest.mark.rule("P10a")
def test_large_jobs_are_cancelled_in_bounded_decisions() -> None:
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register(slots=300)
    cluster.submit(graph(vertex("a", 700)))
    effects = cluster.cancel()
    assert len(cancellations(effects)) == 300
    assert len(cluster.events(SlotRequestCancelled)) == 400
    assert max(map(len, cluster.log)) <= MAX_DECISION_BYTES
    cluster.run(effects)
    assert _status(cluster) is JobStatus.CANCELED
    cluster.check()


def test_the_loss_of_a_task_manager_ends_the_cancelled_attempts_on_it(cluster: ScriptedCluster) -> None:
    cluster.register()
    cluster.submit(graph(vertex("a", 2)))
    cluster.cancel()
    cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
    assert _status(cluster) is JobStatus.CANCELED


def test_late_stale_and_repeated_reports_change_nothing(cluster: ScriptedCluster) -> None:
    """Each is answered by an InputsSkipped; the state but for its cursor stays."""
    cluster.register("tm")
    cluster.register("other")
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    holder = deployment.task_manager_id
    stranger = "other" if holder == "tm" else "tm"
    cluster.report(deployment, ExecutionState.RUNNING)

    def report(state: ExecutionState = ExecutionState.FINISHED, **changes: object) -> TaskStateReport:
        fields = {
            "task_manager_id": holder,
            "instance_id": f"{holder}-1",
            "job_id": "job",
            "vertex_id": "a",
            "subtask_index": 0,
            "attempt": 1,
            **changes,
        }
        return TaskStateReport(**fields, execution_state=state)  # type: ignore[arg-type] # fields of several types

    skipped: list[TaskManagerReport] = [
        report(ExecutionState.RUNNING),
        report(ExecutionState.INITIALIZING),
        report(ExecutionState.CREATED),
        report(ExecutionState.SCHEDULED),
        report(ExecutionState.DEPLOYING),
        report(ExecutionState.CANCELING),
        report(ExecutionState.RECONCILING),
        report(task_manager_id=stranger, instance_id=f"{stranger}-1"),
        report(instance_id="tm-0"),
        report(job_id="none"),
        report(vertex_id="none"),
        report(subtask_index=1),
        report(subtask_index=-1),
        report(attempt=0),
        report(attempt=2),
        SlotOffer(holder, f"{holder}-1", "allocation-1"),
        SlotOffer(holder, f"{holder}-1", "allocation-99"),
        SlotOffer(stranger, f"{stranger}-1", "allocation-1"),
        SlotOfferRefusal(stranger, f"{stranger}-1", "allocation-1", "?", "a", 0, 1),
        SlotOfferRefusal(holder, f"{holder}-1", "allocation-99", "?", "a", 0, 1),
        FileUploadCompleted(holder, f"{holder}-1", "no such request"),
    ]
    for one in skipped:
        assert cluster.say(one) == []
        [event] = cluster.last_events()
        assert isinstance(event, InputsSkipped), one
    cluster.say(report(ExecutionState.FINISHED))
    assert _status(cluster) is JobStatus.FINISHED
    cluster.say(report(ExecutionState.FAILED))
    assert isinstance(cluster.last_events()[0], InputsSkipped)
    assert _status(cluster) is JobStatus.FINISHED


def _ask(cluster: ScriptedCluster, request_id: str = "r", **changes: Any) -> list[Effect]:
    fields: dict[str, Any] = {"job_id": "job", "vertex_id": "a", "subtask_index": 0, "attempt": 1, "file": "STDERR", **changes}
    return cluster.command(type="RequestFileUpload", request_id=request_id, **fields)


def test_a_file_of_an_attempt_is_asked_for_where_it_ran(cluster: ScriptedCluster) -> None:
    """Also after the attempt ended: its files are still there."""
    cluster.register()
    cluster.run(cluster.submit(graph(vertex("a"))))
    effects = _ask(cluster)
    assert Deployment("tm", "tm-1", FileUploadOrder("r", "job", "a", 0, 1, TaskFile.STDERR)) in effects
    cluster.say(FileUploadCompleted("tm", "stranger", "r", "key"))
    assert isinstance(cluster.last_events()[0], InputsSkipped), "only who was asked can answer"
    cluster.say(FileUploadCompleted("tm", "tm-1", "r", "key"))
    assert cluster.events(FileUploaded) == [FileUploaded("r", "key", None)]
    assert not cluster.master.uploads.pending


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"job_id": "none"}, "UnknownJob"),
        ({"vertex_id": "none"}, "FileNotAvailable"),
        ({"subtask_index": 7}, "FileNotAvailable"),
        ({"subtask_index": -1}, "FileNotAvailable"),
        ({"attempt": 2}, "FileNotAvailable"),
    ],
)
def test_a_file_that_nobody_has_is_not_asked_for(cluster: ScriptedCluster, changes: dict[str, Any], code: str) -> None:
    cluster.register()
    cluster.run(cluster.submit(graph(vertex("a"))))
    _ask(cluster, **changes)
    [rejected] = cluster.events(RequestRejected)
    assert rejected.code == code


def test_an_upload_is_forgotten_with_the_instance_that_was_asked(cluster: ScriptedCluster) -> None:
    cluster.register()
    cluster.run(cluster.submit(graph(vertex("a"))))
    _ask(cluster)
    cluster.say(TaskManagerDeath("tm", "tm-1", "killed"))
    assert not cluster.master.uploads.pending
    _ask(cluster, request_id="again")
    assert cluster.events(RequestRejected)[0].code == "FileNotAvailable"
