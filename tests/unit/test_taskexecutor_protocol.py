"""The laws of the TaskExecutor's protocol, each with the rule of docs/protocol.md that it stands for."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from eventflink.events.effects import (
    CheckpointOrder,
    DeploymentEnvelope,
    DeploymentPayload,
    FileUploadOrder,
    InstanceForgotten,
    LeaderChanged,
    RegistrationAccepted,
    StopTaskManager,
    TaskCancellation,
    TaskDeployment,
)
from eventflink.events.inputs import (
    CheckpointAcknowledgement,
    CheckpointDecline,
    Disconnection,
    FileUploadCompleted,
    SlotOffer,
    SlotOfferRefusal,
    SlotReport,
    StreamStartReport,
    TaskManagerRegistration,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.model.attempts import (
    Accumulators,
    AttemptId,
    AttemptStatus,
    FailureCause,
    IOMetrics,
    LongCounter,
    LostInput,
    OutputLocation,
    SlotStatus,
)
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, TaskFile, TaskType
from eventflink.model.stream_progress import StreamProgress
from eventflink.taskexecutor.process_events import (
    CheckpointDeclined,
    CheckpointTaken,
    EndTask,
    Failed,
    Finished,
    ForkServerDied,
    ForkServerReady,
    Killed,
    LaunchTask,
    Outcome,
    ProcessEvent,
    ProcessOrder,
    QueryStarted,
    ReleaseSpark,
    SparkOpened,
    SparkReleased,
    TakeCheckpoint,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.protocol import (
    Action,
    EndForkServer,
    NewInstanceNeeded,
    Phase,
    ProtocolSettings,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
    TaskExecutorProtocol,
    UploadFile,
)
from eventflink.taskexecutor.protocol.attempts import attempt_of

WALL_CLOCK_MS = 1_800_000_000_000
SETTINGS = ProtocolSettings(
    task_manager_id="tm",
    host="host",
    process_id=77,
    slot_count=2,
    heartbeat_interval_ms=1000,
    self_fence_timeout_ms=3500,
    kill_timeout_ms=1000,
)
A = AttemptId("job", "v", 0, 1)
B = AttemptId("job", "v", 1, 1)
OUTPUTS = (OutputLocation("default", "/data/0", 1, 1, 1, "digest"),)
IO = IOMetrics(1, 2, 3, 4)
COUNTED = Accumulators((LongCounter("rows", 5),))
CAUSE = FailureCause("ValueError", "no", "trace")
Happening = tuple[float, Callable[[], list[Action]]]
WHOLE_PATH = ["SlotOffer", "INITIALIZING", "RUNNING", "FINISHED"]


def deployment(attempt: AttemptId = A, slot_index: int = 0) -> TaskDeployment:
    return TaskDeployment(
        *attempt[:2],
        attempt.subtask_index,
        attempt.attempt,
        allocation_id=f"allocation-{attempt}",
        slot_index=slot_index,
        job_name="job",
        task_type=TaskType.PYTHON,
        task="m:f",
        parallelism=2,
        max_parallelism=128,
        parameters_json="{}",
        inputs=(),
        outputs=(),
        code_archives=(),
    )


def cancellation(attempt: AttemptId = A) -> TaskCancellation:
    return TaskCancellation(attempt.job_id, attempt.vertex_id, attempt.subtask_index, attempt.attempt, "the job is cancelled")


class Harness:
    """The machine, with a clock and short words for what comes out."""

    def __init__(self, settings: ProtocolSettings = SETTINGS) -> None:
        self.machine = TaskExecutorProtocol(settings)
        self.now_ms = 1000
        self.instances = 1
        self.actions = self.machine.start(self.now_ms, "i1", WALL_CLOCK_MS)

    def effect(self, payload: DeploymentPayload, epoch: int = 1, instance_id: str = "", task_manager_id: str = "tm") -> list[Action]:
        envelope = DeploymentEnvelope(
            epoch=epoch,
            task_manager_id=task_manager_id,
            instance_id=instance_id or self.machine.instance_id,
            payload=payload,
        )
        return self.machine.on_deployment(envelope, self.now_ms)

    def to_all(self, payload: DeploymentPayload, epoch: int) -> list[Action]:
        envelope = DeploymentEnvelope(epoch=epoch, task_manager_id="", instance_id="", payload=payload)
        return self.machine.on_deployment(envelope, self.now_ms)

    def event(self, event: ProcessEvent) -> list[Action]:
        return self.machine.on_process_event(event, self.now_ms)

    def wait(self, duration_ms: int, *, heartbeats_arrive: bool = True) -> list[Action]:
        """Let the time pass in ticks of 10 ms; heartbeats are acknowledged at once unless they are not."""
        actions: list[Action] = []
        for _ in range(duration_ms // 10):
            self.now_ms += 10
            new = self.machine.on_tick(self.now_ms)
            for action in new:
                if isinstance(action, SendHeartbeat) and heartbeats_arrive:
                    new = new + self.machine.on_heartbeat_acknowledged(action.sent_at_ms, self.now_ms)
            actions += new
        return actions

    def accept(self, number: int = 0, epoch: int = 1) -> list[Action]:
        """Answer a registration of this instance, by default the newest."""
        return self.effect(RegistrationAccepted("blob:1", number or self.machine._registration_count), epoch)

    def register(self) -> "Harness":
        self.machine.on_reports_delivered(reports(self.actions), self.now_ms)
        self.accept(epoch=max(1, self.machine.newest_epoch))
        assert self.machine.phase is Phase.REGISTERED
        return self

    def run(self, attempt: AttemptId = A, slot_index: int = 0) -> "Harness":
        self.effect(deployment(attempt, slot_index))
        self.event(TaskLaunched(attempt, 4711))
        self.event(TaskInitialized(attempt))
        return self

    def end(self, outcome: Outcome, attempt: AttemptId = A) -> list[Action]:
        return self.event(TaskProcessEnded(attempt, outcome))


def registered(settings: ProtocolSettings = SETTINGS) -> Harness:
    return Harness(settings).register()


def reports(actions: list[Action]) -> list[TaskManagerReport]:
    return [r for a in actions if isinstance(a, SendReports) for r in a.reports]


def orders(actions: list[Action]) -> list[ProcessOrder]:
    return [a for a in actions if isinstance(a, ProcessOrder)]


def registrations(actions: list[Action]) -> list[int]:
    """Return the numbers of the registrations that are sent."""
    return [r.number for r in reports(actions) if isinstance(r, TaskManagerRegistration)]


def said(actions: list[Action]) -> list[str]:
    """The reports in short: what a record says, in order."""
    return [r.execution_state.value if isinstance(r, TaskStateReport) else type(r).__name__ for r in reports(actions)]


def is_in(harness: Harness, phase: Phase) -> bool:
    return harness.machine.phase is phase


def heartbeats(actions: list[Action]) -> list[SendHeartbeat]:
    return [a for a in actions if isinstance(a, SendHeartbeat)]


# ---- registration ----


def test_start_registers_at_once_and_starts_the_fork_server() -> None:
    harness = Harness()
    assert StartForkServer() in harness.actions
    assert reports(harness.actions) == [TaskManagerRegistration("tm", "i1", "host", 77, 2, WALL_CLOCK_MS, number=1)]


@pytest.mark.rule("P13")
def test_registration_is_repeated_with_growing_jittered_bounded_delays() -> None:
    harness = Harness()
    times = [harness.now_ms for _ in range(6000) if reports(harness.wait(10))]
    gaps = [b - a for a, b in zip([1000, *times], times, strict=False)]
    assert 250 <= gaps[0] <= 510
    assert all(gap <= 5010 for gap in gaps)
    assert all(gap >= 2500 for gap in gaps[4:])
    assert len(set(gaps[4:])) > 3  # Jittered.
    assert 11 <= len(gaps) <= 26


def test_two_instances_jitter_differently() -> None:
    def first_retry(instance_id: str) -> int:
        machine = TaskExecutorProtocol(SETTINGS)
        machine.start(0, instance_id, WALL_CLOCK_MS)
        return next(t for t in range(1, 1000) if machine.on_tick(t))

    assert len({first_retry(f"instance-{i}") for i in range(10)}) > 5


def test_registration_ends_when_accepted_and_heartbeats_begin_at_once() -> None:
    harness = registered()
    actions = harness.wait(10_000)
    assert reports(actions) == []
    assert len(heartbeats(actions)) == 10
    assert [b.heartbeat.sequence for b in heartbeats(actions)] == list(range(1, 11))


def test_nothing_sends_heartbeats_before_it_is_registered() -> None:
    assert heartbeats(Harness().wait(10_000)) == []


@pytest.mark.rule("P12")
def test_acceptance_for_another_instance_or_task_manager_means_nothing() -> None:
    harness = Harness()
    harness.effect(RegistrationAccepted("blob:1", 1), instance_id="i0")
    harness.effect(RegistrationAccepted("blob:1", 1), task_manager_id="other")
    assert is_in(harness, Phase.REGISTERING)


def test_a_refused_registration_is_tried_again_as_a_new_instance_ever_more_slowly() -> None:
    harness = Harness()
    gaps = []
    for number in range(2, 10):
        assert [type(a) for a in harness.effect(InstanceForgotten("refused"))] == [NewInstanceNeeded]
        begun_ms = harness.now_ms
        harness.machine.start(harness.now_ms, f"i{number}", WALL_CLOCK_MS)
        while not reports(harness.wait(10)):
            pass
        gaps.append(harness.now_ms - begun_ms)
    assert gaps[0] <= 510
    assert all(1250 <= gap <= 2510 for gap in gaps[4:])


def test_told_to_stop_it_ends_its_tasks_first_then_disconnects_and_ends() -> None:
    harness = registered().run()
    actions = harness.effect(StopTaskManager("the cluster is shut down"))
    assert is_in(harness, Phase.STOPPING)
    assert not any(isinstance(a, Stopped) for a in actions)
    actions = harness.end(Killed(15))
    assert [type(r) for r in reports(actions)][-1] is Disconnection
    assert Stopped("the cluster is shut down", failed=False) in actions


def test_told_to_stop_before_it_is_registered_it_ends_as_well() -> None:
    """No blob server is known yet: nothing else would be obeyed."""
    harness = Harness()
    assert Stopped("the cluster is shut down", failed=False) in harness.effect(StopTaskManager("the cluster is shut down"))
    assert is_in(harness, Phase.STOPPED)


def test_told_to_stop_under_an_older_instance_it_ends_as_well() -> None:
    """It was cut off, and fences itself, when it reads that: nobody would be there to register with."""
    harness = registered().run()
    harness.wait(10_000, heartbeats_arrive=False)
    assert is_in(harness, Phase.FENCING)
    harness.effect(StopTaskManager("the cluster is shut down"), instance_id="an older one")
    assert is_in(harness, Phase.STOPPING)
    assert Stopped("the cluster is shut down", failed=False) in harness.end(Killed(9))
    other = registered()
    assert other.effect(StopTaskManager("the cluster is shut down"), task_manager_id="another") == []
    assert is_in(other, Phase.REGISTERED)


def test_only_the_answer_to_a_registration_registers_and_another_leader_is_asked_soon() -> None:
    """After a change of leader the answer itself may be lost; no other effect says since when the master counts."""
    harness = Harness()
    assert orders(harness.effect(deployment())) == []
    harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)
    [number] = registrations(harness.wait(SETTINGS.registration_retry_ms))
    assert is_in(harness, Phase.REGISTERING)
    harness.accept(number, epoch=2)
    assert is_in(harness, Phase.REGISTERED)
    assert orders(harness.effect(deployment(), epoch=2))
    assert is_in(harness, Phase.REGISTERED)


@pytest.mark.rule("P12")
def test_what_a_new_leader_says_to_all_proves_no_registration_and_has_it_repeated_soon() -> None:
    harness = Harness()
    for _ in range(5):
        harness.wait(5_000)
    assert reports(harness.wait(1_000)) == [], "registrations that nobody answers come slowly by now"
    assert harness.to_all(LeaderChanged("m2", "blob:2"), epoch=2) == []
    assert is_in(harness, Phase.REGISTERING)
    assert said(harness.wait(SETTINGS.registration_retry_ms)) == ["TaskManagerRegistration"]


def test_nothing_but_a_change_of_leader_is_said_to_all() -> None:
    harness = registered().run()
    for payload in (
        InstanceForgotten("forged"),
        StopTaskManager("forged"),
        cancellation(),
        deployment(B, 1),
        RegistrationAccepted("blob:9", 1),
    ):
        assert harness.to_all(payload, epoch=1) == []
    assert is_in(harness, Phase.REGISTERED)


# ---- epochs and leaders (P4) ----


@pytest.mark.rule("P4")
def test_effects_of_an_older_epoch_than_the_newest_seen_are_ignored() -> None:
    harness = registered()
    harness.effect(LeaderChanged("m2", "blob:2"), epoch=7)
    assert harness.effect(deployment(), epoch=6) == []
    assert harness.effect(cancellation(), epoch=6) == []
    assert is_in(harness, Phase.REGISTERED)


@pytest.mark.rule("P4")
def test_that_an_instance_is_forgotten_counts_whatever_epoch_was_named_before() -> None:
    """It is final. A TaskExecutor to which an epoch was named that nobody was granted would otherwise never begin anew."""
    harness = registered()
    harness.effect(LeaderChanged("nobody", "blob:9"), epoch=2**62)
    harness.effect(InstanceForgotten("it was silent"), epoch=1)
    assert is_in(harness, Phase.NEW)


@pytest.mark.rule("P4")
def test_that_an_instance_is_to_stop_counts_whatever_epoch_was_named_before() -> None:
    """A cluster that ends answers no registration, so nothing else would ever be believed: it would stay when its cluster begins again."""
    harness = registered()
    harness.effect(LeaderChanged("nobody", "blob:9"), epoch=2**62)
    assert Stopped("the cluster is shut down", failed=False) in harness.effect(StopTaskManager("the cluster is shut down"), epoch=1)


@pytest.mark.rule("P4")
def test_an_epoch_in_an_effect_for_another_means_nothing() -> None:
    harness = registered()
    harness.effect(deployment(), epoch=9, task_manager_id="other", instance_id="x")
    harness.effect(deployment(), epoch=9, instance_id="an older one")
    assert orders(harness.effect(deployment(), epoch=1))


@pytest.mark.rule("P4")
def test_an_epoch_that_was_never_granted_is_asked_about_and_the_leader_obeyed_again() -> None:
    """One record that is forged, or that a fault of memory has changed, must not end the TaskExecutor's obedience for ever."""
    harness = registered()
    harness.wait(2_000)
    asked = harness.effect(LeaderChanged("nobody", "blob:9"), epoch=2**62)
    [number] = registrations(asked)
    assert orders(harness.effect(deployment(), epoch=1)) == []
    harness.effect(StopTaskManager("the cluster is shut down"), epoch=1, instance_id="an older one")
    assert is_in(harness, Phase.REGISTERED)
    assert said(harness.accept(number, epoch=1)) == ["SlotReport"]
    assert harness.machine.blob_address == "blob:1"
    assert orders(harness.effect(deployment(), epoch=1))
    harness.effect(StopTaskManager("the cluster is shut down"), epoch=1)
    assert is_in(harness, Phase.STOPPING)


@pytest.mark.rule("P4")
def test_what_a_deposed_leader_still_says_is_asked_about_and_changes_nothing() -> None:
    harness = registered()
    harness.wait(2_000)
    harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)
    asked = harness.effect(deployment(), epoch=1)
    [number] = registrations(asked)
    assert orders(asked) == []
    harness.accept(1, epoch=1)  # It also answers the first registration once more.
    assert orders(harness.effect(deployment(), epoch=1)) == []
    harness.accept(number, epoch=2)
    assert orders(harness.effect(deployment(), epoch=1)) == []
    assert orders(harness.effect(deployment(), epoch=2))


@pytest.mark.rule("P4")
def test_a_flood_of_contradictions_is_asked_about_ever_more_slowly() -> None:
    harness = registered()
    harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)
    asked = []
    for _ in range(6_000):
        asked += reports(harness.effect(deployment(), epoch=1))
        harness.wait(10)
    assert 10 < len(asked) < 40


def test_a_new_instance_obeys_whoever_answers_its_registration() -> None:
    harness = registered()
    harness.effect(LeaderChanged("nobody", "blob:9"), epoch=2**62)
    harness.wait(10_000, heartbeats_arrive=False)
    assert is_in(harness, Phase.NEW)
    harness.actions = harness.machine.start(harness.now_ms, "i2", WALL_CLOCK_MS) + harness.wait(3_000)
    harness.accept(epoch=1)
    assert is_in(harness, Phase.REGISTERED)
    assert orders(harness.effect(deployment(), epoch=1))


def test_first_effect_of_a_newer_epoch_is_answered_with_one_slot_report() -> None:
    harness = registered().run()
    assert said(harness.effect(cancellation(B), epoch=2)) == ["CANCELED", "SlotReport"]
    assert said(harness.effect(cancellation(B), epoch=2)) == ["CANCELED"]


def test_leader_changed_is_always_answered() -> None:
    """A leader may ask for full reports again (P9)."""
    harness = registered()
    assert said(harness.effect(LeaderChanged("m1", "blob:1"))) == ["SlotReport"]
    assert said(harness.effect(LeaderChanged("m1", "blob:1"))) == ["SlotReport"]


def test_slot_report_holds_every_slot_and_every_attempt_that_is_not_terminal() -> None:
    harness = registered().run()
    harness.effect(deployment(B, 1))
    report = reports(harness.effect(LeaderChanged("m2", "blob:2"), epoch=2))[-1]
    assert report == SlotReport(
        "tm",
        "i1",
        (SlotStatus(0, f"allocation-{A}"), SlotStatus(1, f"allocation-{B}")),
        (AttemptStatus(*A, ExecutionState.RUNNING), AttemptStatus(*B, ExecutionState.DEPLOYING)),
        number=1,
    )
    [*_, next_report] = reports(harness.effect(LeaderChanged("m3", "blob:3"), epoch=3))
    assert next_report == replace(report, number=2)


def test_slot_report_is_preceded_by_terminal_states_that_kafka_has_not_acknowledged() -> None:
    """Else the attempt would seem missing, and its result would be thrown away (P16)."""
    harness = registered().run()
    end = harness.end(Finished(OUTPUTS))
    assert said(harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)) == [
        "SlotOffer",
        "INITIALIZING",
        "RUNNING",
        "FINISHED",
        "SlotReport",
    ]
    harness.machine.on_reports_delivered(reports(end), harness.now_ms)
    assert said(harness.effect(LeaderChanged("m3", "blob:3"), epoch=3)) == ["SlotReport"]


def test_new_blob_address_is_used() -> None:
    harness = registered()
    harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)
    (order,) = orders(harness.effect(deployment(), epoch=2))
    assert isinstance(order, LaunchTask)
    assert order.blob_address == "blob:2"


# ---- an attempt's life ----


def test_offer_and_first_state_are_one_record() -> None:
    harness = registered()
    (launch,) = orders(harness.effect(deployment()))
    assert isinstance(launch, LaunchTask)
    assert launch.deployment == deployment()
    actions = harness.event(TaskLaunched(A, 4711))
    assert [type(a) for a in actions] == [SendReports]
    assert reports(actions) == [
        SlotOffer("tm", "i1", f"allocation-{A}"),
        TaskStateReport("tm", "i1", *A, ExecutionState.INITIALIZING),
    ]
    assert said(harness.event(TaskInitialized(A))) == ["RUNNING"]


@pytest.mark.parametrize(
    ("outcome", "cancelled", "state", "failure_type"),
    [
        (Finished(OUTPUTS, io=IO, accumulators=COUNTED), False, ExecutionState.FINISHED, None),
        (Failed(CAUSE), False, ExecutionState.FAILED, "ValueError"),
        (Killed(9), False, ExecutionState.FAILED, "TaskProcessDied"),
        (Finished(OUTPUTS, io=IO, accumulators=COUNTED), True, ExecutionState.CANCELED, None),
        (Failed(CAUSE), True, ExecutionState.CANCELED, None),
        (Killed(15), True, ExecutionState.CANCELED, None),
    ],
)
def test_how_an_attempt_ends(outcome: Outcome, cancelled: bool, state: ExecutionState, failure_type: str | None) -> None:  # noqa: FBT001 - a table's column
    harness = registered().run()
    if cancelled:
        assert orders(harness.effect(cancellation())) == [EndTask(A, 1000)]
    (report,) = reports(harness.end(outcome))
    assert isinstance(report, TaskStateReport)
    assert report.execution_state is state
    told = (report.outputs, report.io, report.accumulators)
    assert told == ((OUTPUTS, IO, COUNTED) if state is ExecutionState.FINISHED else ((), None, None))
    assert (report.cause and report.cause.failure_type) == failure_type


def test_a_killed_task_names_process_and_signal() -> None:
    (report,) = reports(registered().run().end(Killed(9)))
    assert isinstance(report, TaskStateReport)
    assert report.cause == FailureCause("TaskProcessDied", "task process 4711 was killed by signal 9 (SIGKILL)")


def test_a_process_that_never_came_up_fails_from_deploying() -> None:
    harness = registered()
    harness.effect(deployment())
    assert said(harness.end(Failed(CAUSE))) == ["SlotOffer", "FAILED"]


def test_a_finish_heard_first_reports_the_whole_legal_path() -> None:
    harness = registered()
    harness.effect(deployment())
    assert said(harness.end(Finished(()))) == WHOLE_PATH


def test_an_endless_message_is_clipped() -> None:
    """A record of `taskmanagers` is at most 256 KiB; a user's exception can be of any length."""
    (report,) = reports(registered().run().end(Failed(FailureCause("E" * 10_000, "x" * 1_000_000, "y" * 1_000_000))))
    assert isinstance(report, TaskStateReport)
    assert report.cause is not None
    assert len(report.cause.message) < 5000
    assert len(report.cause.stack_trace or "") < 20_000


def test_what_a_task_could_not_read_is_reported_with_its_failure_and_again_when_it_is_asked_for() -> None:
    harness = registered().run()
    lost = (LostInput("rows", 1),)
    (report,) = reports(harness.end(Failed(CAUSE, lost)))
    assert isinstance(report, TaskStateReport)
    assert (report.execution_state, report.lost_inputs) == (ExecutionState.FAILED, lost)
    again = [r for r in reports(harness.effect(deployment())) if isinstance(r, TaskStateReport)]
    assert [r.lost_inputs for r in again] == [(), (), lost]


def test_an_ended_slot_is_free_again() -> None:
    harness = registered().run()
    harness.end(Finished(()))
    assert orders(harness.effect(deployment(A._replace(attempt=2))))


def test_spark_session_ids_differ_by_attempt_and_instance() -> None:
    def session(harness: Harness, attempt: AttemptId) -> str:
        (order,) = orders(harness.effect(deployment(attempt)))
        assert isinstance(order, LaunchTask)
        return order.spark_session_id

    other = Harness()
    other.machine = TaskExecutorProtocol(SETTINGS)
    other.actions = other.machine.start(1000, "i2", WALL_CLOCK_MS)
    found = {session(registered(), A), session(registered(), A._replace(attempt=2)), session(other.register(), A)}
    assert len(found) == 3


# ---- slots that several attempts share ----


def shared(attempt: AttemptId, slot_index: int = 0) -> TaskDeployment:
    return replace(deployment(attempt, slot_index), allocation_id="allocation-shared")


def free_slots(harness: Harness) -> int:
    return harness.machine.free_slots


OTHER = AttemptId("job", "w", 0, 1)
THIRD = AttemptId("job", "x", 1, 1)


def test_attempts_of_one_allocation_run_in_one_slot_which_is_free_when_the_last_has_ended() -> None:
    harness = registered()
    for attempt in (A, OTHER, THIRD):
        [order] = orders(harness.effect(shared(attempt)))
        assert isinstance(order, LaunchTask)
        harness.event(TaskLaunched(attempt, 4711))
    assert free_slots(harness) == 1
    for attempt in (OTHER, A):
        assert said(harness.end(Finished(OUTPUTS), attempt))[-1] == "FINISHED"
        assert free_slots(harness) == 1
    harness.end(Killed(9), THIRD)
    assert free_slots(harness) == 2


def test_who_shares_a_slot_has_a_process_and_a_spark_session_of_its_own() -> None:
    harness = registered()
    launched = [order for attempt in (A, OTHER) for order in orders(harness.effect(shared(attempt)))]
    assert len({order.spark_session_id for order in launched if isinstance(order, LaunchTask)}) == 2


def test_a_report_names_the_allocation_of_a_shared_slot_once_and_all_attempts_in_it() -> None:
    harness = registered()
    for attempt in (A, OTHER):
        harness.effect(shared(attempt, 1))
    [report] = [r for r in reports(harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)) if isinstance(r, SlotReport)]
    assert report.slots == (SlotStatus(0), SlotStatus(1, "allocation-shared"))
    assert [(a.vertex_id, a.execution_state) for a in report.attempts] == [("v", ExecutionState.DEPLOYING), ("w", ExecutionState.DEPLOYING)]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (shared(B), "at most one attempt of a vertex"),
        (deployment(OTHER), f"slot 0 is taken by {A} (allocation allocation-shared)"),
        (shared(OTHER, 2), "slot not found: 2"),
    ],
    ids=["of the same vertex", "of another allocation", "in no slot"],
)
def test_who_cannot_share_a_slot_is_refused_by_name_and_the_others_go_on(second: TaskDeployment, reason: str) -> None:
    harness = registered()
    harness.effect(shared(A))
    [refusal] = reports(harness.effect(second))
    assert isinstance(refusal, SlotOfferRefusal)
    assert reason in refusal.reason
    assert (refusal.vertex_id, refusal.subtask_index, refusal.attempt) == (second.vertex_id, second.subtask_index, second.attempt)
    harness.event(TaskLaunched(A, 4711))
    assert said(harness.end(Finished(OUTPUTS), A))[-1] == "FINISHED"


def test_the_next_attempt_of_a_vertex_may_have_the_place_of_the_one_before() -> None:
    harness = registered()
    for attempt in (A, OTHER):
        harness.effect(shared(attempt))
    harness.end(Failed(CAUSE), A)
    [order] = orders(harness.effect(shared(B)))
    assert isinstance(order, LaunchTask)


def test_a_cancellation_ends_one_of_those_that_share_a_slot() -> None:
    harness = registered()
    for attempt in (A, OTHER):
        harness.effect(shared(attempt))
        harness.event(TaskLaunched(attempt, 4711))
    assert orders(harness.effect(cancellation(OTHER))) == [EndTask(OTHER, SETTINGS.kill_timeout_ms)]
    assert said(harness.end(Killed(9), OTHER)) == ["CANCELED"]
    assert [known.attempt for known in harness.machine.live_attempts()] == [A]


def test_the_death_of_the_fork_server_fails_everything_in_a_slot() -> None:
    harness = registered()
    for attempt in (A, OTHER):
        harness.effect(shared(attempt))
        harness.event(TaskLaunched(attempt, 4711))
    assert said(harness.event(ForkServerDied("killed"))) == ["FAILED", "FAILED"]
    assert free_slots(harness) == 2


def test_a_fence_ends_everything_in_a_slot_before_a_new_instance_begins() -> None:
    harness = registered()
    for attempt in (A, OTHER):
        harness.effect(shared(attempt))
        harness.event(TaskLaunched(attempt, 4711))
    assert orders(harness.effect(InstanceForgotten("lost"))) == [EndTask(a, SETTINGS.kill_timeout_ms) for a in (A, OTHER)]
    assert not [a for a in harness.end(Killed(9), A) if isinstance(a, NewInstanceNeeded)]
    assert [a for a in harness.end(Killed(9), OTHER) if isinstance(a, NewInstanceNeeded)]


def test_offers_and_refusals_of_a_shared_slot_that_kafka_did_not_take_are_said_again() -> None:
    harness = registered()
    for attempt in (A, OTHER):
        harness.effect(shared(attempt))
        harness.event(TaskLaunched(attempt, 4711))
    [refusal] = reports(harness.effect(shared(B)))
    harness.machine.on_reports_failed([SlotOffer("tm", "i1", "allocation-shared"), refusal], harness.now_ms)
    again = said(harness.wait(600))
    assert (again.count("SlotOffer"), again.count("INITIALIZING"), again.count("SlotOfferRefusal")) == (2, 2, 1)


# ---- refusals ----


def test_a_busy_slot_is_refused_and_stays_refused() -> None:
    """A repeated deployment of a refused attempt starts nothing later: the master has decided on another attempt by then."""
    harness = registered().run()
    (refusal,) = reports(harness.effect(deployment(B, 0)))
    assert isinstance(refusal, SlotOfferRefusal)
    assert refusal.allocation_id == f"allocation-{B}"
    assert (refusal.vertex_id, refusal.subtask_index, refusal.attempt) == B[1:]
    assert str(A) in refusal.reason
    harness.end(Finished(()))
    assert harness.effect(deployment(B, 0)) == [SendReports((refusal,), harness.now_ms)]


@pytest.mark.parametrize("slot_index", [-1, 2, 1 << 30])
def test_a_slot_that_does_not_exist_is_refused(slot_index: int) -> None:
    (refusal,) = reports(registered().effect(deployment(A, slot_index)))
    assert isinstance(refusal, SlotOfferRefusal)
    assert str(slot_index) in refusal.reason


# ---- duplicates and tombstones (P16) ----


def test_a_known_deployment_is_not_started_twice_but_answered() -> None:
    harness = registered()
    harness.effect(deployment())
    assert harness.effect(deployment()) == []  # Its launch will be said.
    harness.event(TaskLaunched(A, 1))
    again = harness.effect(deployment())
    assert orders(again) == []
    assert said(again) == ["SlotOffer", "INITIALIZING"]
    harness.event(TaskInitialized(A))
    harness.end(Finished(OUTPUTS))
    again = harness.effect(deployment())
    assert orders(again) == []
    assert said(again) == WHOLE_PATH
    last = reports(again)[-1]
    assert isinstance(last, TaskStateReport)
    assert last.outputs == OUTPUTS


@pytest.mark.rule("P16")
def test_a_cancellation_before_its_deployment_leaves_a_tombstone() -> None:
    harness = registered()
    assert said(harness.effect(cancellation())) == ["CANCELED"]
    late = harness.effect(deployment())
    assert orders(late) == []
    assert said(late) == ["CANCELED"]


def test_a_cancellation_of_what_has_ended_is_answered_with_how_it_ended() -> None:
    harness = registered().run()
    harness.end(Finished(OUTPUTS))
    assert said(harness.effect(cancellation())) == WHOLE_PATH


def test_a_repeated_cancellation_orders_the_end_again_and_says_nothing() -> None:
    harness = registered().run()
    harness.effect(cancellation())
    again = harness.effect(cancellation())
    assert orders(again) == [EndTask(A, 1000)]
    assert said(again) == []


def test_a_cancelled_attempt_says_nothing_before_its_end() -> None:
    harness = registered()
    harness.effect(deployment())
    harness.effect(cancellation())
    assert said(harness.event(TaskLaunched(A, 1))) == []
    assert said(harness.event(TaskInitialized(A))) == []
    assert said(harness.end(Killed(15))) == ["SlotOffer", "CANCELED"]


def test_memory_of_what_ended_is_bounded() -> None:
    harness = registered(replace(SETTINGS, ended_attempt_limit=10))
    for number in range(1, 30):
        harness.effect(cancellation(A._replace(attempt=number)))
    assert len(harness.machine._table._ended) == 10
    assert said(harness.effect(deployment(A._replace(attempt=29)))) == ["CANCELED"]


# ---- what is forgotten (P16) ----


def numbered(number: int, attempt: AttemptId = A, slot_index: int = 0) -> TaskDeployment:
    return replace(deployment(attempt, slot_index), allocation_id=f"allocation-{number}")


def finish(harness: Harness, order: TaskDeployment) -> None:
    [launch] = orders(harness.effect(order))
    assert isinstance(launch, LaunchTask)
    harness.event(TaskLaunched(order.attempt_id, 1))
    harness.event(TaskInitialized(order.attempt_id))
    assert said(harness.end(Finished(OUTPUTS), order.attempt_id)) == ["FINISHED"]


def finish_all(harness: Harness, numbers: range, slot_index: int = 0) -> None:
    for number in numbers:
        finish(harness, numbered(number, AttemptId("another job", "v", number, 1), slot_index))


def forgetful() -> Harness:
    return registered(replace(SETTINGS, ended_attempt_limit=10))


def assert_refused(harness: Harness, order: TaskDeployment) -> None:
    known = dict(harness.machine._table._ended)
    actions = harness.effect(order)
    assert orders(actions) == []
    [refusal] = reports(actions)
    assert isinstance(refusal, SlotOfferRefusal)
    named = (refusal.vertex_id, refusal.subtask_index, refusal.attempt)
    assert (refusal.allocation_id, *named) == (order.allocation_id, *order.attempt_id[1:])
    assert "forgotten" in refusal.reason
    assert harness.machine._table._ended == known, "a copy takes the place of what is known"


@pytest.mark.rule("P16")
def test_what_is_forgotten_is_never_started_again() -> None:
    """Whoever keeps a deployment can write it once more at any time."""
    harness = forgetful()
    finish_all(harness, range(1, 12))
    first = numbered(1, AttemptId("another job", "v", 1, 1))
    assert_refused(harness, first)
    finish_all(harness, range(12, 40))
    for _ in range(20):
        assert_refused(harness, first)
    assert said(harness.effect(numbered(30, AttemptId("another job", "v", 30, 1)))) == WHOLE_PATH, "the newest are still answered"


@pytest.mark.rule("P16")
def test_a_deployment_that_was_overtaken_is_taken_however_much_is_forgotten() -> None:
    harness = forgetful()
    finish_all(harness, range(1, 19))
    finish_all(harness, range(20, 25))
    assert len(harness.machine._table._ended) == 10
    finish(harness, numbered(19))
    assert said(harness.effect(numbered(19))) == WHOLE_PATH


def test_what_was_refused_and_is_forgotten_is_refused_again() -> None:
    harness = forgetful()
    harness.effect(numbered(1, B))
    assert said(harness.effect(numbered(2))) == ["SlotOfferRefusal"]
    harness.event(TaskLaunched(B, 1))
    harness.end(Finished(OUTPUTS), B)
    finish_all(harness, range(3, 20), slot_index=1)
    assert_refused(harness, numbered(2))


def test_what_was_cancelled_before_its_deployment_and_is_forgotten_is_not_started() -> None:
    harness = forgetful()
    harness.effect(cancellation())
    assert said(harness.effect(numbered(5))) == ["CANCELED"]
    finish_all(harness, range(6, 8))
    for number in range(1, 11):
        harness.effect(cancellation(B._replace(attempt=number)))
    assert_refused(harness, numbered(5))


@pytest.mark.rule("P16")
def test_an_old_allocation_is_joined_as_long_as_it_has_its_slot_and_nothing_of_it_is_started_again() -> None:
    harness = forgetful()
    harness.effect(numbered(1, THIRD))
    finish(harness, numbered(1, A))
    finish(harness, numbered(1, A._replace(attempt=3)))
    finish_all(harness, range(2, 20), slot_index=1)
    for attempt in (A, A._replace(attempt=2), A._replace(attempt=3)):
        assert_refused(harness, numbered(1, attempt))
    for attempt in (A._replace(attempt=4), B, OTHER):
        finish(harness, numbered(1, attempt))
    # The leader gives the slot to nobody else before it has read that the last one in it has ended.
    harness.end(Killed(9), THIRD)
    assert_refused(harness, numbered(1, A._replace(attempt=3)))
    finish(harness, numbered(1, A._replace(attempt=5)))
    finish_all(harness, range(20, 40))
    assert_refused(harness, numbered(1, A._replace(attempt=5)))
    assert_refused(harness, numbered(1, A._replace(attempt=6)))


# ---- Spark (P15) ----


@pytest.mark.rule("P15")
def test_a_killed_task_is_terminal_only_after_its_spark_session_is_released() -> None:
    harness = registered().run()
    (launch,) = [o for o in orders(Harness().register().effect(deployment())) if isinstance(o, LaunchTask)]
    harness.event(SparkOpened(A, launch.spark_session_id, "sc://x"))
    actions = harness.end(Killed(9))
    assert said(actions) == []
    assert orders(actions) == [ReleaseSpark(A, launch.spark_session_id, "sc://x")]
    assert said(harness.event(SparkReleased(A))) == ["FAILED"]


def test_a_release_that_does_not_come_is_not_waited_for_longer_than_the_limit() -> None:
    harness = registered().run()
    harness.event(SparkOpened(A, "s", "sc://x"))
    harness.end(Killed(9))
    assert said(harness.wait(4900)) == []
    assert said(harness.wait(200)) == ["FAILED"]


def test_a_finished_task_has_closed_its_session_itself() -> None:
    harness = registered().run()
    harness.event(SparkOpened(A, "s", "sc://x"))
    assert said(harness.end(Finished(()))) == ["FINISHED"]


def test_the_slot_is_busy_until_the_session_is_released() -> None:
    harness = registered().run()
    harness.event(SparkOpened(A, "s", "sc://x"))
    harness.end(Killed(9))
    assert said(harness.effect(deployment(B, 0))) == ["SlotOfferRefusal"]


# ---- self-fence, forgotten, holes (P12, P14) ----


@pytest.mark.rule("P14")
def test_without_acknowledged_heartbeats_tasks_are_ended_in_time_and_a_new_instance_begins_only_after() -> None:
    """Self-fence + time to kill < loss timeout: the master may start the attempts elsewhere then."""
    harness = registered().run()
    started_ms = harness.now_ms
    actions = harness.wait(3490, heartbeats_arrive=False)
    assert orders(actions) == []
    actions = harness.wait(20, heartbeats_arrive=False)
    assert orders(actions) == [EndTask(A, 1000)]
    assert harness.now_ms - started_ms <= 3510
    assert is_in(harness, Phase.FENCING)
    assert not [a for a in harness.wait(500) if isinstance(a, NewInstanceNeeded | SendHeartbeat | SendReports)]
    end = harness.end(Killed(15))
    assert reports(end) == []  # The old instance has nothing more to say.
    assert [type(a) for a in end] == [NewInstanceNeeded]
    begun = harness.machine.start(harness.now_ms, "i2", WALL_CLOCK_MS) + harness.wait(600)
    assert said(begun)[0] == "TaskManagerRegistration"
    assert reports(begun)[0].instance_id == "i2"


def test_what_answers_a_registration_too_late_is_not_believed() -> None:
    """Cut off since it registered, it would run what the master has long given to another."""
    for age_ms, is_believed in ((3_499, True), (3_500, False)):
        harness = Harness()
        harness.now_ms += age_ms
        harness.accept(1)
        assert is_in(harness, Phase.REGISTERED if is_believed else Phase.REGISTERING)


def _asked_again() -> tuple[Harness, list[tuple[int, int]]]:
    """Return a machine that nobody answers for 6,000 ms, and its registrations: number and when it was sent."""
    harness = Harness()
    sent = [(1, harness.now_ms)]
    for _ in range(600):
        sent += [(number, harness.now_ms) for number in registrations(harness.wait(10))]
    assert len(sent) > 3
    return harness, sent


@pytest.mark.rule("P14")
def test_an_answer_is_as_old_as_the_registration_that_it_names_however_often_that_was_repeated() -> None:
    """Deaf but heard, it registers again and again; what it is told first was written long ago. No clock but its own tells so."""
    harness, sent = _asked_again()
    for number, sent_ms in sent:
        if harness.now_ms - sent_ms >= 3_500:
            harness.accept(number)
            assert is_in(harness, Phase.REGISTERING)
    harness.accept(sent[-1][0])
    assert is_in(harness, Phase.REGISTERED)


@pytest.mark.rule("P14")
@pytest.mark.parametrize("number", [0, -1, 10**9])
def test_an_answer_that_names_no_registration_of_this_instance_is_none(number: int) -> None:
    harness = Harness()
    harness.effect(RegistrationAccepted("blob:1", number))
    assert is_in(harness, Phase.REGISTERING)


@pytest.mark.rule("P14")
def test_the_fence_counts_from_when_the_registration_was_sent_that_is_answered() -> None:
    """The master's patience began when it read the registration."""
    harness, sent = _asked_again()
    number, sent_ms = next((n, ms) for n, ms in sent if harness.now_ms - ms < 3_500)
    harness.accept(number)
    harness.wait(sent_ms + 3_500 - harness.now_ms - 10, heartbeats_arrive=False)
    assert is_in(harness, Phase.REGISTERED)
    harness.wait(10, heartbeats_arrive=False)
    assert is_in(harness, Phase.NEW)


@pytest.mark.rule("P14")
def test_the_fence_counts_from_the_time_an_acknowledged_heartbeat_was_sent() -> None:
    harness = registered()
    (first,) = heartbeats(harness.wait(500, heartbeats_arrive=False))
    harness.wait(2900, heartbeats_arrive=False)
    harness.machine.on_heartbeat_acknowledged(first.sent_at_ms, harness.now_ms)  # Late: it says little about now.
    harness.wait(90, heartbeats_arrive=False)
    assert is_in(harness, Phase.REGISTERED)
    harness.wait(first.sent_at_ms + 3500 - harness.now_ms, heartbeats_arrive=False)
    assert is_in(harness, Phase.NEW)  # Fenced; it had no tasks to end.


def test_acknowledged_heartbeats_hold_the_fence_off() -> None:
    harness = registered()
    harness.wait(60_000)
    assert is_in(harness, Phase.REGISTERED)


def test_a_pause_of_the_process_leads_to_the_fence_before_anything_else() -> None:
    harness = registered().run()
    harness.now_ms += 60_000
    assert EndTask(A, 1000) in orders(harness.machine.on_tick(harness.now_ms))


@pytest.mark.rule("P5a")
@pytest.mark.parametrize("way", ["forgotten", "hole"])
def test_a_forgotten_instance_ends_its_tasks_and_gives_way_to_a_new_one(way: str) -> None:
    harness = registered().run()
    actions = (
        harness.effect(InstanceForgotten("lost")) if way == "forgotten" else harness.machine.on_effects_lost("hole", 0, harness.now_ms)
    )
    assert orders(actions) == [EndTask(A, 1000)]
    assert [type(a) for a in harness.end(Killed(9))] == [NewInstanceNeeded]


def test_a_fenced_instance_obeys_nothing() -> None:
    harness = registered().run()
    harness.effect(InstanceForgotten("lost"))
    assert harness.effect(deployment(B, 1)) == []


@pytest.mark.rule("P12")
def test_a_new_instance_knows_nothing_of_the_old() -> None:
    harness = registered().run()
    harness.effect(InstanceForgotten("lost"))
    harness.end(Killed(9))
    harness.actions = harness.machine.start(harness.now_ms, "i2", WALL_CLOCK_MS) + harness.wait(600)
    harness.register()
    assert harness.machine.on_reports_failed([SlotOffer("tm", "i1", f"allocation-{A}")], harness.now_ms) == []
    assert orders(harness.effect(deployment()))


@pytest.mark.rule("P12")
@pytest.mark.parametrize("clock_ms", [WALL_CLOCK_MS + 5_000, WALL_CLOCK_MS, WALL_CLOCK_MS - 3_600_000])
def test_a_new_instance_is_the_younger_one_even_where_the_clock_was_set_back(clock_ms: int) -> None:
    harness = registered().run()
    harness.effect(InstanceForgotten("lost"))
    harness.end(Killed(9))
    said = reports(harness.machine.start(harness.now_ms, "i2", clock_ms) + harness.wait(600))
    [registration] = [report for report in said if isinstance(report, TaskManagerRegistration)]
    assert registration.begun_at_ms == max(clock_ms, WALL_CLOCK_MS + 1)


def test_starting_while_an_instance_lives_is_an_error() -> None:
    with pytest.raises(ValueError, match="i1 is REGISTERED"):
        registered().machine.start(0, "i2", WALL_CLOCK_MS)


# ---- the fork server ----


def test_the_death_of_the_fork_server_fails_its_attempts_and_starts_another() -> None:
    harness = registered().run().run(B, 1)
    harness.event(SparkOpened(B, "s", "sc://x"))
    actions = harness.event(ForkServerDied("out of memory"))
    (report,) = reports(actions)
    assert isinstance(report, TaskStateReport)
    assert report.cause is not None
    assert report.cause.failure_type == "ForkServerDied"
    assert "out of memory" in report.cause.message
    assert said(harness.effect(deployment(A._replace(attempt=2)))) == ["SlotOfferRefusal"]
    actions = harness.wait(200)
    assert StartForkServer() in actions
    assert [type(o) for o in orders(actions)] == [ReleaseSpark]  # B's session is released by the new one.
    assert said(harness.event(SparkReleased(B))) == ["FAILED"]
    assert orders(harness.effect(deployment(A._replace(attempt=3))))


def said_ready(actions: list[Action]) -> list[bool]:
    return [r.ready for r in reports(actions) if isinstance(r, SlotReport)]


def test_an_instance_says_once_that_it_is_ready_and_says_so_in_each_later_report() -> None:
    harness = registered()
    assert said_ready(harness.effect(LeaderChanged("m1", "blob:1"))) == [False]
    assert said_ready(harness.event(ForkServerReady())) == [True]
    assert said_ready(harness.event(ForkServerReady())) == []
    assert said_ready(harness.effect(LeaderChanged("m1", "blob:1"))) == [True]


def test_who_is_ready_before_it_is_registered_says_so_when_it_is() -> None:
    harness = Harness()
    assert reports(harness.event(ForkServerReady())) == []
    assert said_ready(harness.accept()) == [True]


def test_a_new_instance_of_a_process_that_is_ready_says_so_again() -> None:
    harness = registered()
    harness.event(ForkServerReady())
    harness.effect(InstanceForgotten("it was silent"))
    harness.instances += 1
    harness.actions = harness.machine.start(harness.now_ms, "i2", WALL_CLOCK_MS)
    harness.actions += harness.wait(1000)
    assert said_ready(harness.accept()) == [True]


def test_an_instance_is_not_ready_from_the_death_of_its_fork_server_until_the_next_one_has_loaded() -> None:
    harness = registered().run()
    harness.event(ForkServerReady())
    assert said_ready(harness.event(ForkServerDied("out of memory"))) == [False]
    assert said_ready(harness.wait(200)) == []
    assert said_ready(harness.event(ForkServerReady())) == [True]


def test_an_instance_whose_fork_server_is_being_ended_is_not_ready_whatever_that_says() -> None:
    harness = registered()
    harness.event(ForkServerReady())
    harness.effect(deployment())
    assert said_ready(harness.wait(61_000)) == [False]
    assert said_ready(harness.event(ForkServerReady())) == []


def test_that_it_is_ready_is_said_again_if_kafka_did_not_take_it() -> None:
    harness = registered()
    harness.machine.on_reports_failed(reports(harness.event(ForkServerReady())), harness.now_ms)
    assert said_ready(harness.wait(600)) == [True]


def test_a_fork_server_that_dies_again_and_again_ends_the_task_executor() -> None:
    harness = registered()
    actions: list[Action] = []
    for _ in range(6):
        actions += harness.event(ForkServerDied("broken"))
        actions += harness.wait(4000)
    (end,) = [a for a in actions if isinstance(a, Stopped)]
    assert end.failed
    assert "broken" in end.reason
    assert len([a for a in actions if isinstance(a, StartForkServer)]) == 5
    assert "Disconnection" in said(actions)


def test_rare_deaths_of_the_fork_server_are_forgiven() -> None:
    harness = registered()
    for _ in range(20):
        harness.event(ForkServerDied("rare"))
        assert StartForkServer() in harness.wait(20_000)
    assert is_in(harness, Phase.REGISTERED)


@pytest.mark.parametrize("order", ["launch", "end"])
def test_a_fork_server_that_does_not_do_what_it_is_told_is_ended(order: str) -> None:
    harness = registered()
    harness.effect(deployment())
    if order == "end":
        harness.effect(cancellation())
    actions = harness.wait(61_000 if order == "launch" else 12_000)
    (end,) = [a for a in actions if isinstance(a, EndForkServer)]
    assert str(A) in end.reason
    assert not [a for a in harness.wait(13_000) if isinstance(a, EndForkServer | StartForkServer)]
    assert said(harness.event(ForkServerDied(end.reason))) == ["SlotOffer", "CANCELED" if order == "end" else "FAILED"]


def test_a_fork_server_that_is_being_ended_is_given_no_task() -> None:
    harness = registered()
    harness.effect(deployment())
    harness.wait(61_000)
    actions = harness.effect(deployment(B, slot_index=1))
    assert not [a for a in actions if isinstance(a, LaunchTask)]
    assert said(actions) == ["SlotOfferRefusal"]
    assert said(harness.event(ForkServerDied("it did not launch a task"))) == ["SlotOffer", "FAILED"]


# ---- reports that Kafka does not take ----


def test_failed_reports_are_said_again_as_things_stand_then() -> None:
    harness = registered().run()
    lost: list[TaskManagerReport] = [SlotOffer("tm", "i1", f"allocation-{A}"), TaskStateReport("tm", "i1", *A, ExecutionState.INITIALIZING)]
    assert harness.machine.on_reports_failed(lost, harness.now_ms) == []
    harness.end(Finished(OUTPUTS))
    assert said(harness.wait(450)) == []
    assert said(harness.wait(100)) == WHOLE_PATH
    assert said(harness.wait(2000)) == []


def test_failed_slot_reports_and_uploads_are_said_again() -> None:
    harness = registered()
    harness.machine.on_reports_failed([SlotReport("tm", "i1", (), ()), FileUploadCompleted("tm", "i1", "r", "key")], harness.now_ms)
    assert said(harness.wait(600)) == ["SlotReport", "FileUploadCompleted"]


# ---- files ----


def test_an_upload_is_done_once_at_a_time_and_reported() -> None:
    harness = registered()
    order = FileUploadOrder("r1", *A, TaskFile.LOG)
    assert harness.effect(order) == [UploadFile("i1", order, "blob:1")]
    assert harness.effect(order) == []
    done = harness.machine.on_upload_completed("i1", "r1", "key", None, harness.now_ms)
    assert reports(done) == [FileUploadCompleted("tm", "i1", "r1", "key", None)]
    assert harness.machine.on_upload_completed("i1", "r1", "key", None, harness.now_ms) == []


def test_uploads_are_bounded() -> None:
    harness = registered()
    actions = [a for n in range(70) for a in harness.effect(FileUploadOrder(f"r{n}", *A, TaskFile.LOG))]
    assert len([a for a in actions if isinstance(a, UploadFile)]) == 64
    assert all(isinstance(r, FileUploadCompleted) and r.error for r in reports(actions))
    assert len(reports(actions)) == 6


# ---- the orderly stop ----


def test_stop_ends_tasks_disconnects_and_stops() -> None:
    harness = registered().run()
    actions = harness.machine.stop(harness.now_ms, "told to")
    assert orders(actions) == [EndTask(A, 1000)]
    assert harness.machine.stop(harness.now_ms, "told to") == []
    actions = harness.end(Killed(15))
    assert reports(actions) == [Disconnection("tm", "i1", "told to")]
    assert actions[-1] == Stopped("told to", failed=False)
    assert harness.wait(5000) == []


def test_a_task_that_finishes_while_stopping_still_counts() -> None:
    harness = registered().run()
    harness.machine.stop(harness.now_ms, "told to")
    assert said(harness.end(Finished(OUTPUTS))) == ["FINISHED", "Disconnection"]


def test_stop_is_bounded_even_when_nothing_answers() -> None:
    harness = registered().run()
    harness.machine.stop(harness.now_ms, "told to")
    actions = harness.wait(17_000)
    assert [a for a in actions if isinstance(a, Stopped)]


def test_stop_keeps_sending_heartbeats_until_the_tasks_have_ended() -> None:
    """Nothing of a stopping instance may be started elsewhere while it still runs here."""
    harness = registered().run()
    harness.machine.stop(harness.now_ms, "told to")
    assert len(heartbeats(harness.wait(5000))) == 5


def test_stop_before_the_registration_was_accepted_disconnects_too() -> None:
    """The master may have decided on the registration meanwhile."""
    harness = Harness()
    assert said(harness.machine.stop(harness.now_ms, "told to")) == ["Disconnection"]


# ---- everything at once ----


class RandomLife:
    """A TaskExecutor to which anything happens at any time."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.harness = registered()
        self.attempts = [AttemptId("job", "v", i % 3, 1 + i // 3) for i in range(9)]
        self.launched: set[tuple[str, AttemptId]] = set()
        self.alive: set[AttemptId] = set()
        self.ends: dict[tuple[str, AttemptId], ExecutionState] = {}

    def step(self) -> None:
        dice, harness = self.dice, self.harness
        attempt = dice.choice(self.attempts)
        running = dice.choice(sorted(self.alive)) if self.alive else attempt
        outcomes: list[Outcome] = [Finished(OUTPUTS), Failed(CAUSE), Killed(9)]
        epoch = harness.machine.newest_epoch
        happenings: dict[str, Happening] = {
            "deploy": (3, lambda: harness.effect(deployment(attempt, dice.randrange(-1, 3)), epoch)),
            "cancel": (1, lambda: harness.effect(cancellation(attempt), epoch)),
            "launched": (1, lambda: harness.event(TaskLaunched(running, 1))),
            "initialized": (1, lambda: harness.event(TaskInitialized(running))),
            "spark opened": (1, lambda: harness.event(SparkOpened(running, "s", "sc://x"))),
            "spark released": (1, lambda: harness.event(SparkReleased(attempt))),
            "ended": (2, lambda: self.end(dice.choice(outcomes), running)),
            "time": (1, lambda: harness.wait(dice.choice([10, 500, 6000]), heartbeats_arrive=dice.random() < 0.9)),
            "leader": (1, lambda: harness.effect(LeaderChanged("m", "blob:9"), epoch + dice.randrange(2))),
            "accepted": (2, lambda: harness.accept(epoch=max(1, epoch))),
            "forgotten": (0.2, lambda: harness.effect(InstanceForgotten("x"), epoch)),
        }
        (name,) = dice.choices(list(happenings), [weight for weight, _ in happenings.values()])
        self.check(happenings[name][1]())

    def end(self, outcome: Outcome, attempt: AttemptId) -> list[Action]:
        self.alive.discard(attempt)
        return self.harness.end(outcome, attempt)

    def check(self, actions: list[Action]) -> None:
        harness = self.harness
        for order in orders(actions):
            if isinstance(order, LaunchTask):
                told = order.deployment
                attempt = AttemptId(told.job_id, told.vertex_id, told.subtask_index, told.attempt)
                assert (harness.machine.instance_id, attempt) not in self.launched
                self.launched.add((harness.machine.instance_id, attempt))
                self.alive.add(attempt)
        for report in reports(actions):
            if isinstance(report, TaskStateReport) and report.execution_state in TERMINAL_EXECUTION_STATES:
                subject = (report.instance_id, attempt_of(report))
                assert self.ends.setdefault(subject, report.execution_state) is report.execution_state
        assert harness.machine._table.running_tasks + harness.machine._table.free_slots == 2
        if any(isinstance(a, NewInstanceNeeded) for a in actions):
            self.alive.clear()
            harness.instances += 1
            harness.actions = harness.machine.start(harness.now_ms, f"i{harness.instances}", WALL_CLOCK_MS) + harness.wait(600)
            harness.register()


@pytest.mark.parametrize("seed", range(100))
def test_random_lives_keep_the_invariants(seed: int) -> None:
    """No attempt is launched twice by an instance, no slot holds two attempts, no reported end changes."""
    life = RandomLife(seed)
    for _ in range(150):
        life.step()
    assert life.launched


# ---- streams and their checkpoints ----

STARTED = QueryStarted(A, "query", "run", "/checkpoints", 4)
PROGRESS = StreamProgress(batch_id=7)


def order(checkpoint_id: int = 1, attempt: AttemptId = A) -> CheckpointOrder:
    return CheckpointOrder(*attempt, checkpoint_id)


def streaming() -> Harness:
    harness = registered().run()
    harness.event(STARTED)
    return harness


def test_the_start_of_a_query_is_reported_with_its_session() -> None:
    harness = registered().run()
    [session_id] = [known.spark_session_id for known in harness.machine.live_attempts()]
    [report] = reports(harness.event(STARTED))
    assert report == StreamStartReport("tm", "i1", *A, "query", "run", session_id, "/checkpoints", 4)


def test_the_start_of_a_query_is_told_again_with_the_states_of_its_attempt_and_to_a_new_leader() -> None:
    harness = streaming()
    assert said(harness.effect(deployment())) == ["SlotOffer", "INITIALIZING", "RUNNING", "StreamStartReport"]
    assert said(harness.effect(LeaderChanged("m2", "blob:2"), epoch=2)) == ["SlotReport", "StreamStartReport"]
    harness.end(Finished(()))
    assert said(harness.effect(deployment(), epoch=2)) == ["SlotOffer", "INITIALIZING", "RUNNING", "StreamStartReport", "FINISHED"]


def test_the_start_of_a_query_that_kafka_did_not_take_is_told_again() -> None:
    harness = registered().run()
    harness.machine.on_reports_failed(reports(harness.event(STARTED)), harness.now_ms)
    assert said(harness.wait(1_000)) == ["SlotOffer", "INITIALIZING", "RUNNING", "StreamStartReport"]


def test_a_stream_is_asked_for_a_checkpoint_and_its_answer_reported() -> None:
    harness = streaming()
    actions = harness.effect(order())
    assert (orders(actions), reports(actions)) == ([TakeCheckpoint(A, 1)], [])
    [report] = reports(harness.event(CheckpointTaken(A, 1, PROGRESS)))
    assert report == CheckpointAcknowledgement("tm", "i1", *A, 1, PROGRESS)


def test_what_a_stream_declines_is_reported_with_its_reason_in_short() -> None:
    harness = streaming()
    harness.effect(order())
    [report] = reports(harness.event(CheckpointDeclined(A, 1, "x" * 100_000)))
    assert isinstance(report, CheckpointDecline)
    assert len(report.reason) < 1_100


@pytest.mark.rule("C1")
def test_a_question_that_is_repeated_is_answered_again_and_asked_once() -> None:
    harness = streaming()
    harness.effect(order())
    assert harness.effect(order()) == []
    answered = reports(harness.event(CheckpointTaken(A, 1, PROGRESS)))
    actions = harness.effect(order())
    assert (orders(actions), reports(actions)) == ([], answered)


@pytest.mark.rule("C1")
def test_an_older_question_is_asked_no_more_and_its_answer_comes_too_late() -> None:
    harness = streaming()
    harness.effect(order(2))
    assert harness.effect(order(1)) == []
    assert harness.event(CheckpointTaken(A, 1, PROGRESS)) == []
    assert said(harness.event(CheckpointTaken(A, 2, PROGRESS))) == ["CheckpointAcknowledgement"]
    assert harness.event(CheckpointTaken(A, 2, PROGRESS)) == []


def test_an_attempt_that_does_not_run_declines() -> None:
    harness = registered()
    harness.effect(deployment())
    [deploying] = reports(harness.effect(order()))
    harness.effect(cancellation())
    [cancelling] = reports(harness.effect(order()))
    [unknown] = reports(harness.effect(order(1, B)))
    harness.event(TaskLaunched(A, 4711))
    harness.end(Killed(9))
    [ended] = reports(harness.effect(order()))
    declined = [report.reason for report in (deploying, cancelling, unknown, ended) if isinstance(report, CheckpointDecline)]
    here = "the TaskExecutor does not know the attempt"
    assert all(report.task_ended for report in (deploying, cancelling, unknown, ended) if isinstance(report, CheckpointDecline))
    assert declined == ["the attempt is DEPLOYING", "the attempt is CANCELING", here, "the attempt is CANCELED"]


def test_an_attempt_whose_process_has_ended_says_nothing_but_how_it_ended() -> None:
    harness = streaming()
    harness.event(SparkOpened(A, "session", "sc://localhost"))
    harness.end(Failed(CAUSE))
    assert harness.effect(order()) == []
    assert said(harness.event(SparkReleased(A))) == ["FAILED"]


def test_nothing_is_asked_or_said_of_a_checkpoint_while_the_instance_ends() -> None:
    harness = streaming()
    harness.effect(order())
    harness.wait(10_000, heartbeats_arrive=False)
    assert is_in(harness, Phase.FENCING)
    assert said(harness.event(CheckpointTaken(A, 1, PROGRESS))) == []
    assert harness.effect(order(2)) == []


# ---- full disks (L7) ----


@pytest.mark.rule("L7")
def test_while_nothing_can_be_written_it_takes_no_tasks_and_says_why() -> None:
    harness = registered().run()
    [report] = reports(harness.machine.on_disk("/data: full", harness.now_ms))
    assert isinstance(report, SlotReport)
    assert (report.disk_fault, len(report.attempts)) == ("/data: full", 1)
    assert harness.machine.on_disk("/data: full", harness.now_ms) == []
    refused = harness.effect(deployment(B, 1))
    assert orders(refused) == []
    assert said(refused) == ["SlotOfferRefusal"]
    [*_, report] = reports(harness.machine.on_disk("", harness.now_ms))
    assert isinstance(report, SlotReport)
    assert report.disk_fault == ""
    assert orders(harness.effect(deployment(B._replace(attempt=2), 1)))


@pytest.mark.rule("L7")
def test_a_disk_that_is_full_at_the_start_or_for_several_instances_is_told_by_each() -> None:
    harness = Harness()
    assert reports(harness.machine.on_disk("/data: full", harness.now_ms)) == []
    for number in (2, 3):
        [report] = reports(harness.accept(epoch=1))
        assert isinstance(report, SlotReport)
        assert report.disk_fault == "/data: full"
        harness.effect(InstanceForgotten("zombie"))
        harness.machine.start(harness.now_ms, f"i{number}", WALL_CLOCK_MS)
        while not reports(harness.wait(10)):
            pass


# ---- ends of the host's Spark ----


def test_an_end_of_spark_is_told_at_once_by_the_instance_that_saw_it_and_by_none_after_it() -> None:
    harness, end = registered(), SparkEnd(7, "its heap was full")
    [report] = reports(harness.machine.on_spark_ended(end, harness.now_ms))
    assert isinstance(report, SlotReport)
    assert report.spark_end == end
    assert harness.machine.on_spark_ended(end, harness.now_ms) == []
    assert reports_of_next_instance(harness) == []


def test_an_end_of_spark_that_nobody_could_be_told_is_told_by_the_next_instance() -> None:
    harness, end = Harness(), SparkEnd(7, "its heap was full")
    assert reports(harness.machine.on_spark_ended(end, harness.now_ms)) == []
    assert reports_of_next_instance(harness) == [end]


def reports_of_next_instance(harness: Harness) -> list[SparkEnd | None]:
    """Return what a new instance says of Spark when it is accepted."""
    harness.effect(InstanceForgotten("zombie"))
    harness.machine.start(harness.now_ms, "i2", WALL_CLOCK_MS)
    while not reports(harness.wait(10)):
        pass
    return [report.spark_end for report in reports(harness.accept(epoch=2)) if isinstance(report, SlotReport)]
