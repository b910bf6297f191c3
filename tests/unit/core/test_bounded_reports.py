"""What a TaskExecutor says is bounded by the master: no report makes events, effects or a state that the cluster cannot carry."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from eventflink.events.effects import INLINE_LOCATIONS, InstanceForgotten
from eventflink.events.inputs import (
    Disconnection,
    SlotOffer,
    SlotOfferRefusal,
    TaskManagerDeath,
    TaskManagerRegistration,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.events.log_events import (
    InputsSkipped,
    SlotOfferRejected,
    TaskFailed,
    TaskFinished,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerRegistrationRefused,
)
from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.leadership.release import Releaser
from eventflink.master import default_scheduler
from eventflink.master.default_scheduler import MAX_DEPLOYMENT_BYTES
from eventflink.master.effects import Deployment, Effect
from eventflink.master.exception_history import MAX_TYPE_LENGTH
from eventflink.master.resource_manager import MAX_REASON_LENGTH
from eventflink.master.task_executor_reports import MAX_CAUSE_LENGTH, MAX_LOCATION_LENGTH, MAX_STACK_TRACE_LENGTH
from eventflink.model.attempts import (
    MAX_ACCUMULATORS,
    MAX_SNAPSHOTS,
    Accumulators,
    DoubleCounter,
    FailureCause,
    IOMetrics,
    LongCounter,
    OutputLocation,
    SourceSnapshot,
)
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.model.stream_progress import MAX_NUMBER
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, output_at, state_report, tasks, vertex
from tests.support.hand import ListWires

LONG = "x" * 200_000
ROOM_BESIDE_BYTES = SPECIFICATIONS[Topic.DEPLOYMENTS].max_message_bytes - MAX_DEPLOYMENT_BYTES


class SizedWires(ListWires):
    """Notes how large the records of `deployments` are."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        assert (topic, partition) == (Topic.DEPLOYMENTS, 0)
        self.sizes.append(len(key.encode()) + len(value))


def sizes_of(effects: list[Effect]) -> list[int]:
    wires = SizedWires()
    releaser = Releaser(wires, "master-1")
    for effect in deployments(effects):
        releaser._deploy(effect, 1)
    return wires.sizes


def finished(deployment: Deployment, *outputs: OutputLocation) -> TaskStateReport:
    report = state_report(deployment, ExecutionState.FINISHED)
    report.outputs = outputs
    return report


def many_inputs(*others: dict[str, Any], parallelism: int = 1, **options: Any) -> dict[str, Any]:
    """Return a graph whose vertex b reads as many locations from each of sixteen vertices as stand in an order."""
    writers = [vertex(f"a{n}", INLINE_LOCATIONS) for n in range(16)]
    edges = [(each["id"], "b", "rebalance") for each in writers]
    return graph(*writers, vertex("b", parallelism), *others, edges=edges, **options)


def finish_all(cluster: ScriptedCluster, effects: Sequence[Effect], location_length: int) -> list[Effect]:
    """Have the tasks of the vertices that begin with a finish, with locations of that length; return what follows."""
    writers = [d for d, task in zip(deployments(effects), tasks(effects), strict=True) if task.vertex_id.startswith("a")]
    reports = [finished(d, output_at(str(n).ljust(location_length, "x"))) for n, d in enumerate(writers)]
    return [effect for first in range(0, len(reports), 40) for effect in cluster.say(*reports[first : first + 40])]


@pytest.mark.parametrize(
    ("registration", "says"),
    [
        (TaskManagerRegistration("t" * 129, "tm-1", "h", 1, 16), "needs an id of letters, digits"),
        (TaskManagerRegistration(LONG, "tm-1", "h", 1, 16), "needs an id of letters, digits"),
        (TaskManagerRegistration("tm", LONG, "h", 1, 16), "needs an instance id of letters, digits"),
        (TaskManagerRegistration("../tm", "tm-1", "h", 1, 16), "not '../tm'"),
        (TaskManagerRegistration("a\nb", "tm-1", "h", 1, 16), "needs an id"),
        (TaskManagerRegistration("tm", "\0", "h", 1, 16), "needs an instance id"),
        (TaskManagerRegistration("tm", "tm-1", LONG, 1, 16), "its host has 200000 characters; it may have 255"),
        (TaskManagerRegistration("tm", "tm-1", "h", 1, 10**9), "1 to 1024 slots, not 1000000000"),
        (TaskManagerRegistration("tm", "tm-1", "h", 1, -1), "1 to 1024 slots, not -1"),
    ],
)
def test_a_task_manager_whose_names_no_decision_could_repeat_is_not_registered(
    cluster: ScriptedCluster, registration: TaskManagerRegistration, says: str
) -> None:
    """Each slot that is given away repeats both ids: 16 slots of one with long ids were more than a decision may hold."""
    [effect] = cluster.say(registration)
    assert isinstance(effect, Deployment)
    assert isinstance(effect.payload, InstanceForgotten)
    [refused] = cluster.events(TaskManagerRegistrationRefused)
    assert says in refused.reason
    assert len(refused.reason) < 500
    assert not cluster.events(TaskManagerRegistered)
    cluster.submit(graph(vertex("a", 16)))
    cluster.register("good", slots=16)
    assert len(cluster.job("job").execution_graph.ready) == 0
    assert cluster.master.slot_manager.get_number_free_slots() == 0


def test_the_longest_names_that_are_taken_fill_no_decision(cluster: ScriptedCluster) -> None:
    cluster.say(TaskManagerRegistration("t" * 128, "i" * 128, "h" * 255, 1, 1_024))
    done = cluster.submit(graph(vertex("v" * 64, 1_024)), job_id="j" * 128)
    assert len(deployments(done)) == 1_024


@pytest.mark.parametrize("departure", [Disconnection, TaskManagerDeath])
def test_what_is_said_at_the_end_of_an_instance_is_repeated_in_short(
    cluster: ScriptedCluster, departure: type[Disconnection | TaskManagerDeath]
) -> None:
    """Each of its attempts fails with that reason."""
    cluster.register("tm", slots=64)
    cluster.submit(graph(vertex("a", 64)))
    before = sum(map(len, cluster.log))
    cluster.say(departure("tm", "tm-1", LONG))
    reasons = [event.reason for event in cluster.events(TaskManagerDisconnected)] + [e.reason for e in cluster.events(TaskManagerLost)]
    assert reasons == [LONG[:MAX_REASON_LENGTH]]
    assert len(cluster.events(TaskFailed)) == 64
    assert sum(map(len, cluster.log)) - before < 64 * 4 * MAX_REASON_LENGTH


def test_the_causes_of_failures_are_kept_in_short(cluster: ScriptedCluster) -> None:
    cluster.register()
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.report(deployment, ExecutionState.FAILED, cause=FailureCause(LONG[:30_000], LONG[:30_000], LONG[:130_000], LONG[:30_000], "r"))
    [failed] = cluster.events(TaskFailed)
    cause = failed.cause
    assert (len(cause.failure_type), len(cause.root_type), cause.root_message) == (MAX_TYPE_LENGTH, MAX_TYPE_LENGTH, "r")
    assert MAX_CAUSE_LENGTH < len(cause.message) < MAX_CAUSE_LENGTH + 100
    assert MAX_STACK_TRACE_LENGTH < len(cause.stack_trace or "") < MAX_STACK_TRACE_LENGTH + 100
    assert cluster.job("job").cause == cause


@pytest.mark.parametrize(
    "report",
    [
        SlotOffer("tm", "tm-1", LONG),
        SlotOfferRefusal("tm", "tm-1", LONG, "no", "a", 0, 1),
        Disconnection(LONG, "tm-2", "bye"),
        TaskStateReport("tm", "tm-1", LONG, "a", 0, 1, execution_state=ExecutionState.RUNNING),
    ],
    ids=lambda report: type(report).__name__,
)
def test_what_is_skipped_is_named_in_short(cluster: ScriptedCluster, report: TaskManagerReport) -> None:
    cluster.register()
    cluster.say(report)
    [skipped] = cluster.events(InputsSkipped)
    assert type(report).__name__ in skipped.reason or "RUNNING" in skipped.reason
    assert len(skipped.reason) <= 8_192


def test_a_refusal_of_a_slot_is_repeated_in_short(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=1)
    [deployment] = deployments(cluster.submit(graph(vertex("a"))))
    cluster.refuse(deployment, LONG)
    assert len(cluster.events(SlotOfferRejected)[0].reason) == 8_192


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ((OutputLocation("default", LONG),), "the location of output 'default' has 200000 characters"),
        ((OutputLocation("default", "x" * (MAX_LOCATION_LENGTH + 1)),), "it may have 1 to 4096"),
        ((OutputLocation("default", ""),), "has 0 characters"),
        ((OutputLocation(LONG, "/data"),), "an output has a name of 200000 characters"),
        ((OutputLocation("", "/data"),), "an output has a name of 0 characters"),
        ((output_at("/data/1", "o"), output_at("/data/2", "o")), "the output 'o' is reported twice"),
        ((OutputLocation("o", "/data"),), "is reported with -1 rows in -1 files of -1 bytes: it has to say what was written"),
        ((replace(output_at("/data"), rows=2**62),), f"is reported with {2**62} rows in 1 files"),
        ((replace(output_at("/data"), files=0),), "with 1 rows in 0 files of 1 bytes"),
        ((replace(output_at("/data"), size_bytes=-1),), "with 1 rows in 1 files of -1 bytes"),
        ((replace(output_at("/data"), digest=""),), "is reported with a digest of 0 characters"),
        ((replace(output_at("/data"), digest=LONG),), "is reported with a digest of 200000 characters"),
    ],
)
def test_an_attempt_whose_outputs_cannot_be_told_fails_with_the_reason(
    cluster: ScriptedCluster, outputs: tuple[OutputLocation, ...], says: str
) -> None:
    cluster.register("tm", slots=2)
    [first] = deployments(cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "rebalance")], restart_strategy=fixed_delay(1))))
    cluster.say(finished(first, *outputs))
    [failed] = cluster.events(TaskFailed)
    assert failed.cause.failure_type == "OutputsUnusable"
    assert says in failed.cause.message
    assert not cluster.events(TaskFinished)
    cluster.run(cluster.pass_time(600))
    assert cluster.job("job").status is JobStatus.FINISHED


def test_counts_of_an_attempt_are_those_that_it_reports_and_those_that_cannot_be_are_unknown(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=2)
    reports = [state_report(each, ExecutionState.FINISHED) for each in deployments(cluster.submit(graph(vertex("a", 2))))]
    versions = tuple(SourceSnapshot(f"s{number}", number - 1) for number in range(MAX_SNAPSHOTS))
    odd = (SourceSnapshot("", 1), SourceSnapshot("s" * 65, 1), SourceSnapshot("s", -2))
    reports[0].io = IOMetrics(1, 2, 3, 4, (*odd, *versions, SourceSnapshot("more", 1)))
    reports[1].io = IOMetrics(-7, 2**63 - 1, MAX_NUMBER, 0)
    cluster.say(*reports)
    told = [IOMetrics(1, 2, 3, 4, versions), IOMetrics(-1, -1, MAX_NUMBER, 0)]
    assert [event.io for event in cluster.events(TaskFinished)] == told
    subtasks = cluster.job("job").execution_graph.vertices["a"].subtasks
    assert [subtask.executions[-1].io for subtask in subtasks] == told
    cluster.check()


def test_what_an_attempt_counts_is_kept_as_far_as_a_task_executor_would_let_it(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=1)
    [report] = [state_report(each, ExecutionState.FINISHED) for each in deployments(cluster.submit(graph(vertex("a"))))]
    longs = tuple(LongCounter(f"n{number}", number) for number in range(MAX_ACCUMULATORS - 1))
    odd = (DoubleCounter("n1", 1.0), DoubleCounter("nan", float("nan")), DoubleCounter("inf", float("inf")), DoubleCounter("", 1.0))
    kept, one_too_many = DoubleCounter("kept", 0.5), DoubleCounter("more", 0.5)
    report.accumulators = Accumulators((LongCounter(LONG, 1), *longs), (*odd, kept, one_too_many))
    cluster.say(report)
    [event] = cluster.events(TaskFinished)
    assert event.accumulators == Accumulators(longs, (kept,))
    cluster.check()


@pytest.mark.parametrize("scheduler", ["default", "adaptive"])
def test_a_task_that_would_have_to_be_told_more_than_a_record_holds_fails_before_it_is_deployed(
    cluster: ScriptedCluster, scheduler: str
) -> None:
    """The master could send it to nobody, and no leader after it could: the job fails and says what is too much, and others run on."""
    cluster.register("tm", slots=300)
    effects = cluster.submit(many_inputs(vertex("c"), parallelism=3, scheduler=scheduler))
    by_name = {task.vertex_id: d for d, task in zip(deployments(effects), tasks(effects), strict=True)}
    assert not deployments(finish_all(cluster, effects, MAX_LOCATION_LENGTH))
    [failed] = cluster.events(TaskFailed)
    assert failed.cause.failure_type == "DeploymentTooLarge"
    assert "vertex 'b' would have to be told" in failed.cause.message
    cluster.say(state_report(by_name["c"], ExecutionState.CANCELED))
    assert cluster.job("job").status is JobStatus.FAILED
    assert cluster.job("job").cause == failed.cause
    cluster.run(cluster.submit(graph(vertex("next")), job_id="next"))
    assert cluster.job("next").status is JobStatus.FINISHED


@pytest.mark.parametrize("most", [255, 256])
def test_lists_that_are_told_apart_are_counted(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    one = output_at("x" * MAX_LOCATION_LENGTH)
    weight = len(json.dumps([one.output, one.location, one.digest])) + 128
    monkeypatch.setattr(default_scheduler, "MAX_TOLD_BYTES", most * weight)
    cluster.register("tm", slots=300)
    edges = [("a", "b", "rebalance"), ("a", "c", "forward")]
    effects = cluster.submit(graph(vertex("a", 256), vertex("b"), vertex("c", 256), edges=edges))
    deployed = {task.vertex_id for task in tasks(finish_all(cluster, effects, MAX_LOCATION_LENGTH))}
    messages = [failed.cause.message for failed in cluster.events(TaskFailed)]
    if most == 256:
        assert deployed == {"b", "c"}
        assert not messages
    else:
        assert "b" not in deployed
        assert messages[0].startswith("a task of vertex 'b' would read 256 outputs of other tasks, and have to be told ")


def test_a_forward_edge_may_have_more_locations_than_one_record_holds(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=300)
    effects = cluster.submit(graph(vertex("a", 256), vertex("b", 256), edges=[("a", "b", "forward")]))
    assert len(deployments(finish_all(cluster, effects, MAX_LOCATION_LENGTH))) == 256
    assert not cluster.events(TaskFailed)


def test_a_task_that_is_just_small_enough_is_sent_in_one_record(cluster: ScriptedCluster) -> None:
    """What is weighed is what is large: the rest of a deployment fits into the room beside it."""
    cluster.register("tm", slots=300)
    size = MAX_DEPLOYMENT_BYTES // 256 - 8 - (len("default") + 5) - (32 + 5) - 19
    effects = cluster.submit(many_inputs(name="n" * 256), job_id="j" * 128)
    [sent] = sizes_of(finish_all(cluster, effects, size))
    assert MAX_DEPLOYMENT_BYTES - 12_288 < sent < MAX_DEPLOYMENT_BYTES + ROOM_BESIDE_BYTES // 2


def test_such_a_task_restarts_as_its_strategy_has_it_and_ends_its_job_then(cluster: ScriptedCluster) -> None:
    cluster.register("tm", slots=300)
    effects = cluster.submit(many_inputs(parallelism=3, restart_strategy=fixed_delay(5)))
    finish_all(cluster, effects, MAX_LOCATION_LENGTH)
    for _ in range(20):
        cluster.pass_time(1_000)
    assert cluster.job("job").status is JobStatus.FAILED
    assert {failed.cause.failure_type for failed in cluster.events(TaskFailed)} == {"DeploymentTooLarge"}
    assert len(cluster.events(TaskFailed)) <= 3 * 6
