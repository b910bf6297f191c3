"""One turn of a TaskExecutor's main loop: what comes first, what goes out together, and when an instance begins or is replaced."""

import copy
import itertools
import random
from collections.abc import Sequence
from functools import partial

import pytest

from eventflink.events.codec import ReportsCodec
from eventflink.events.effects import DeploymentEnvelope, DeploymentPayload, InstanceForgotten, LeaderChanged, RegistrationAccepted
from eventflink.events.inputs import FileUploadCompleted, SlotReport, TaskManagerRegistration
from eventflink.taskexecutor.process_events import (
    EndTask,
    Finished,
    ForkServerDied,
    Killed,
    LaunchTask,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.protocol import (
    Action,
    DriverAction,
    Input,
    InstanceStarted,
    MainLoop,
    Phase,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
)
from eventflink.taskexecutor.protocol.main_loop import MAX_HOLD_MS, MAX_WAIT_MS
from eventflink.taskexecutor.protocol.records import RECORD_LIMIT_BYTES, TaskExecutorCodecs
from tests.unit.test_taskexecutor_protocol import SETTINGS, WALL_CLOCK_MS, A, B, deployment, reports


class Driver:
    """What drives the loop; instances are called i1, i2, …"""

    def __init__(self) -> None:
        self.loop = MainLoop(SETTINGS, self._new_id)
        self.now_ms = 1000
        self.instances = 0

    def _new_id(self) -> str:
        self.instances += 1
        return f"i{self.instances}"

    def turn(self, *inputs: Input, after_ms: int = 10) -> list[DriverAction]:
        self.now_ms += after_ms
        return self.loop.turn(self.now_ms, WALL_CLOCK_MS + self.now_ms, inputs)

    def effect(self, payload: DeploymentPayload) -> Input:
        envelope = DeploymentEnvelope(epoch=1, task_manager_id="tm", instance_id=self.loop.protocol.instance_id, payload=payload)
        return partial(self.loop.protocol.on_deployment, envelope)

    def stop(self, now_ms: int) -> list[Action]:
        return self.loop.protocol.stop(now_ms, "told to")

    def registered(self) -> "Driver":
        self.turn(partial(self.loop.protocol.on_positioned, 0))
        self.turn(self.effect(RegistrationAccepted("blob:1", 1)))
        assert self.loop.protocol.phase is Phase.REGISTERED
        return self


def _kinds(actions: Sequence[DriverAction]) -> list[type[DriverAction]]:
    return [type(action) for action in actions]


@pytest.mark.rule("P12")
def test_the_fork_server_loads_while_nothing_is_sent_before_no_effect_can_be_missed() -> None:
    driver = Driver()
    assert driver.loop.wait_ms(driver.now_ms) == 0
    assert driver.turn() == [StartForkServer()]
    assert [driver.turn(after_ms=1000) for _ in range(10)] == [[]] * 10
    actions = driver.turn(partial(driver.loop.protocol.on_positioned, 0))
    assert actions[0] == InstanceStarted("i1", "", "the TaskExecutor has started")
    assert _kinds(actions[1:]) == [SendReports]
    assert [type(report) for report in reports(list(actions))] == [TaskManagerRegistration]


def test_positions_that_are_taken_again_begin_no_other_instance() -> None:
    driver = Driver().registered()
    assert InstanceStarted not in _kinds(driver.turn(partial(driver.loop.protocol.on_positioned, 0)))
    assert driver.loop.protocol.instance_id == "i1"


def test_who_is_told_to_stop_before_its_first_instance_ends_without_one() -> None:
    driver = Driver()
    assert driver.turn(driver.stop, partial(driver.loop.protocol.on_positioned, 0))[1:] == [Stopped("told to", failed=False)]
    assert driver.loop.stopped == Stopped("told to", failed=False)
    assert driver.instances == 0


def test_after_a_long_pause_the_fence_comes_before_whatever_waited() -> None:
    """An acknowledgement that came while the process stood still must not keep it from its fence."""
    driver = Driver().registered()
    sent_at_ms = next(a.sent_at_ms for a in driver.turn() if isinstance(a, SendHeartbeat))
    driver.turn(partial(driver.loop.protocol.on_heartbeat_acknowledged, sent_at_ms))
    driver.turn(driver.effect(deployment(A)))
    late = driver.turn(partial(driver.loop.protocol.on_heartbeat_acknowledged, driver.now_ms), after_ms=60_000)
    assert driver.loop.protocol.phase is Phase.FENCING
    assert EndTask in _kinds(late)


def test_an_instance_that_is_over_is_replaced_in_the_same_turn() -> None:
    driver = Driver().registered()
    actions = driver.turn(driver.effect(InstanceForgotten("silent")))
    assert [a for a in actions if isinstance(a, InstanceStarted)] == [
        InstanceStarted("i2", "i1", "the master has forgotten this instance: silent")
    ]
    assert driver.loop.protocol.phase is Phase.REGISTERING


def test_an_instance_that_is_over_is_not_replaced_by_who_is_told_to_stop() -> None:
    driver = Driver().registered()
    actions = driver.turn(driver.effect(InstanceForgotten("silent")), driver.stop)
    assert InstanceStarted not in _kinds(actions)
    assert actions[-1] == driver.loop.stopped == Stopped("told to", failed=False)


def test_the_reports_of_a_turn_go_out_together_after_the_orders_to_processes() -> None:
    driver = Driver().registered()
    driver.turn(driver.effect(deployment(A, 0)))
    protocol = driver.loop.protocol
    launched = partial(protocol.on_process_event, TaskLaunched(A, 4711))
    killed = partial(protocol.on_process_event, TaskProcessEnded(A, Killed(9)))
    actions = driver.turn(launched, killed, driver.effect(deployment(B, 1)), driver.effect(LeaderChanged("leader-2", "blob:2")))
    assert _kinds(actions).count(SendReports) == 1
    assert _kinds(actions).index(LaunchTask) < _kinds(actions).index(SendReports)
    assert isinstance(reports(list(actions))[-1], SlotReport)
    assert [a.sent_at_ms for a in actions if isinstance(a, SendReports)] == [driver.now_ms]


def _reported(actions: Sequence[DriverAction]) -> list[str]:
    return [str(getattr(report, "execution_state", type(report).__name__)) for report in reports(list(actions))]


def test_a_task_that_is_over_at_once_is_reported_in_one_record() -> None:
    """Each record is a decision of the leader, and a line of the log that every master reads."""
    driver = Driver().registered()
    protocol = driver.loop.protocol
    driver.turn(driver.effect(deployment(A)))
    assert not _reported(driver.turn(partial(protocol.on_process_event, TaskLaunched(A, 4711)), after_ms=1))
    assert not _reported(driver.turn(partial(protocol.on_process_event, TaskInitialized(A)), after_ms=MAX_HOLD_MS - 2))
    ended = driver.turn(partial(protocol.on_process_event, TaskProcessEnded(A, Finished(()))), after_ms=1)
    assert _reported(ended) == ["SlotOffer", "FINISHED"]


def test_how_far_an_attempt_got_that_failed_is_reported_with_its_failure() -> None:
    driver = Driver().registered()
    protocol = driver.loop.protocol
    driver.turn(driver.effect(deployment(A)), driver.effect(deployment(B, 1)))
    driver.turn(*[partial(protocol.on_process_event, TaskLaunched(attempt, 4711)) for attempt in (A, B)])
    driver.turn(partial(protocol.on_process_event, TaskInitialized(B)))
    ended = driver.turn(partial(protocol.on_process_event, TaskProcessEnded(A, Killed(9))))
    assert _reported(ended) == ["SlotOffer", "INITIALIZING", "SlotOffer", "RUNNING", "FAILED"]


def test_a_report_is_not_held_back_for_longer_than_nobody_notices() -> None:
    driver = Driver().registered()
    driver.turn(driver.effect(deployment(A)))
    driver.turn(partial(driver.loop.protocol.on_process_event, TaskLaunched(A, 4711)))
    assert driver.loop.wait_ms(driver.now_ms) == MAX_HOLD_MS
    assert _reported(driver.turn(after_ms=MAX_HOLD_MS)) == ["SlotOffer", "INITIALIZING"]
    driver.turn(partial(driver.loop.protocol.on_process_event, TaskInitialized(A)))
    assert _reported(driver.turn(after_ms=MAX_HOLD_MS)) == ["RUNNING"]
    assert driver.loop.wait_ms(driver.now_ms) > MAX_HOLD_MS


def test_what_is_held_back_is_not_overtaken_and_not_lost_by_a_stop() -> None:
    driver = Driver().registered()
    driver.turn(driver.effect(deployment(A)))
    driver.turn(partial(driver.loop.protocol.on_process_event, TaskLaunched(A, 4711)))
    asked = driver.turn(driver.effect(LeaderChanged("leader-2", "blob:2")), after_ms=1)
    assert _reported(asked) == ["SlotOffer", "INITIALIZING", "SlotReport"]
    driver.turn(partial(driver.loop.protocol.on_process_event, TaskInitialized(A)))
    killed = partial(driver.loop.protocol.on_process_event, TaskProcessEnded(A, Killed(9)))
    stopped = driver.turn(driver.stop, killed, after_ms=1)
    assert _reported(stopped)[0] == "RUNNING"
    assert _kinds(stopped)[-2:] == [SendReports, Stopped]


def test_stopped_is_the_last_that_is_given_and_the_disconnection_goes_before_it() -> None:
    driver = Driver().registered()
    actions = driver.turn(driver.stop)
    assert _kinds(actions)[-2:] == [SendReports, Stopped]


def test_reports_that_are_too_large_for_one_record_are_cut_in_order() -> None:
    said = [FileUploadCompleted("tm", "i1", f"r{number}", None, "e" * 3000) for number in range(100)]
    records = list(TaskExecutorCodecs().encode_reports(said))
    assert len(records) > 1
    assert all(len(value) <= RECORD_LIMIT_BYTES for _, value in records)
    assert [report for part, _ in records for report in part] == said
    assert [report for _, value in records for report in ReportsCodec("TaskManagerEnvelope").decode(value)] == said
    [(alone, value)] = TaskExecutorCodecs().encode_reports([FileUploadCompleted("tm", "i1", "r", None, "e" * 2 * RECORD_LIMIT_BYTES)])
    assert len(alone) == 1
    assert len(value) > RECORD_LIMIT_BYTES


def _happening(rng: random.Random, driver: Driver) -> Input:
    """Return something that may happen at any time, of what a wait may begin or end with."""
    protocol, now_ms = driver.loop.protocol, driver.now_ms
    reported = TaskManagerRegistration("tm", protocol.instance_id, "host", 77, 2)
    return rng.choice(
        (
            driver.effect(RegistrationAccepted("blob:1", 1)),
            driver.effect(deployment(A)),
            driver.effect(InstanceForgotten("silent")),
            partial(protocol.on_heartbeat_acknowledged, now_ms),
            partial(protocol.on_process_event, TaskLaunched(A, 4711)),
            partial(protocol.on_process_event, TaskProcessEnded(A, Killed(9))),
            partial(protocol.on_process_event, ForkServerDied("it was killed")),
            partial(protocol.on_reports_delivered, [reported]),
            partial(protocol.on_reports_failed, [reported]),
        )
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_turn_that_waits_as_long_as_it_may_misses_nothing(seed: int) -> None:
    """Whoever waits for what happens, and `wait_ms` at most, does the same at the same time as one that looks every millisecond."""
    rng, driver = random.Random(seed), Driver()
    driver.turn(partial(driver.loop.protocol.on_positioned, 0))
    has_waited = False
    for _ in range(150):
        wait_ms = driver.loop.wait_ms(driver.now_ms)
        assert 0 <= wait_ms <= MAX_WAIT_MS
        happens_ms = rng.randrange(1, 3 * MAX_WAIT_MS)
        nothing_ms = range(1, min(wait_ms, happens_ms))
        for later_ms in (*rng.sample(nothing_ms, min(3, len(nothing_ms))), *nothing_ms[-1:]):
            assert copy.deepcopy(driver).turn(after_ms=later_ms) == []
        if happens_ms < wait_ms:
            driver.turn(_happening(rng, driver), after_ms=happens_ms)
        else:
            has_waited = driver.turn(after_ms=wait_ms) != [] or has_waited
        if driver.loop.stopped is not None:
            break
    assert has_waited


def test_a_task_executor_with_nothing_to_do_turns_only_as_often_as_it_has_to_look_whether_to_stop() -> None:
    driver, turns, heartbeats_ms = Driver().registered(), 0, []
    began_ms = driver.now_ms
    while driver.now_ms < began_ms + 10_000:
        actions = driver.turn(after_ms=driver.loop.wait_ms(driver.now_ms))
        turns += 1
        for beat in (action for action in actions if isinstance(action, SendHeartbeat)):
            heartbeats_ms.append(beat.sent_at_ms)
            driver.turn(partial(driver.loop.protocol.on_heartbeat_acknowledged, beat.sent_at_ms), after_ms=0)
    assert turns <= 10_000 // MAX_WAIT_MS + 1
    assert [later - earlier for earlier, later in itertools.pairwise(heartbeats_ms)] == [1000] * (len(heartbeats_ms) - 1)
