"""What the gateways do when masters are silent and nobody leads, on a virtual clock: every pause and every deadline, and no wire."""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, assert_type

import pytest

from eventflink.documents.checkpoints import CompletedCheckpoint
from eventflink.documents.plain import plain
from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import CheckpointOrder, LeaderHeartbeat, Resignation
from eventflink.events.inputs import RescaleJob, TriggerCheckpoint, TriggerSavepoint
from eventflink.events.log_events import CheckpointAborted, CheckpointCompleted
from eventflink.gateways import errors
from eventflink.gateways.async_gateways import AsyncConnection, AsyncDispatcherGateway, AsyncJobMasterGateway
from eventflink.gateways.blocking import BlockingConnection, BlockingGateway
from eventflink.gateways.dispatcher_gateway import DispatcherMethods
from eventflink.gateways.errors import (
    AnswerUnreadable,
    ArchiveUnusable,
    CheckpointFailed,
    ClusterUnreachable,
    FencingTokenMismatch,
    JobNotTerminated,
    NoLeader,
    RequestRefused,
    RequestTimedOut,
    UnknownJob,
    UnknownTaskManager,
    refusal_of,
)
from eventflink.gateways.gateway import RESULT_WAIT_S
from eventflink.gateways.job_master_gateway import JobMasterGateway, JobMasterMethods
from eventflink.gateways.leader import ALONE_HEARTBEATS, FIRST_LOOK_S, MAX_LOOK_S, LeaderWatch
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway, ResourceManagerMethods
from eventflink.gateways.rest_process import NothingThere, QuestionInvalid, RestProcess, RestSilent, answer_in
from eventflink.gateways.state_reads import ASK_AGAIN_S, Sources, StateReads
from eventflink.gateways.steps import Ask, AskRest, AwaitCheckpoint, FoldLog, ListenForLeader, Pause, Step, Tell
from eventflink.gateways.task_executor_gateway import TaskExecutorMethods
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import BackPressureLevel, CheckpointFailureReason, JobStatus, SavepointMode
from eventflink.model.stream_progress import StreamSourceProgress
from eventflink.views.checkpoints import checkpoints_view
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, stream

LEADERSHIP = PayloadCodec("LeadershipEnvelope")
HEARTBEAT = LeaderHeartbeat(epoch=3, leader_id="leader-3", master_id="m", blob_address="h:1", log_offset=5)


REST = RestProcess("http://here:1")


def never() -> float:
    return 0.0


@dataclass
class World:
    """A cluster that answers as a test says, and a clock that stands still but for what steps take."""

    now_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    rest: RestProcess | None = None
    """The REST process that is found; None: there is none."""
    answer: Callable[[AskRest | FoldLog], dict[str, Any]] = field(default=lambda _step: {})
    heartbeats: Iterator[LeaderHeartbeat | Exception | None] = field(default_factory=lambda: iter(()))
    fraction: Callable[[], float] = never
    sent: list[Any] = field(default_factory=list)
    checkpoint: CheckpointCompleted | CheckpointAborted | None = None
    """How a checkpoint ends that is waited for; None: not in time."""

    def reads(self, request_timeout_s: float) -> StateReads:
        return StateReads(access_to("nowhere", "c"), request_timeout_s, Sources(lambda: self.rest), lambda: self.now_s, self.fraction)

    def dispatcher(self, request_timeout_s: float = 30.0) -> "VirtualDispatcher":
        return VirtualDispatcher("nowhere", "c", connection=VirtualConnection(self, request_timeout_s))

    def perform(self, step: Step) -> Any:
        self.steps.append(step)
        match step:
            case AskRest() | FoldLog():
                return self.answer(step)
            case ListenForLeader():
                outcome = next(self.heartbeats)
                self.now_s += 0.01 if outcome is not None else step.timeout_s
                return self.given(outcome)
            case Pause():
                self.now_s += step.seconds
            case AwaitCheckpoint():
                return self.checkpoint
            case Ask() | Tell():
                request = step.request if isinstance(step, Ask) else step.command
                self.sent.append(request)
                return Accepted("r", getattr(request, "job_id", ""), 1, 1, "leader-1", 9) if isinstance(step, Ask) else "r"
        return None

    @staticmethod
    def given(outcome: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def resource_manager(self) -> ResourceManagerGateway:
        return ResourceManagerGateway("nowhere", "c", connection=VirtualConnection(self))

    def of(self, kind: type[Any]) -> list[Any]:
        return [step for step in self.steps if isinstance(step, kind)]


class VirtualConnection(BlockingConnection):
    """Takes the steps of blocking gateways in a world."""

    def __init__(self, world: World, request_timeout_s: float = 30.0) -> None:
        super().__init__(access_to("nowhere", "c"), request_timeout_s)
        self.reads = world.reads(request_timeout_s)
        self._world = world

    def _perform(self, step: Step) -> Any:
        return self._world.perform(step)


class VirtualEventLoop(AsyncConnection):
    """Takes the steps of `asyncio` gateways in a world."""

    def __init__(self, world: World, request_timeout_s: float = 30.0) -> None:
        super().__init__(access_to("nowhere", "c"), request_timeout_s)
        self.reads = world.reads(request_timeout_s)
        self._world = world

    async def _perform(self, step: Step) -> Any:
        await asyncio.sleep(0)
        return self._world.perform(step)


class VirtualDispatcher(DispatcherMethods, BlockingGateway):
    """A Dispatcher's gateway that connects to nothing."""


def for_ever(*outcomes: Any) -> Iterator[Any]:
    yield from outcomes
    while True:
        yield outcomes[-1]


def silent(_step: AskRest | FoldLog) -> dict[str, Any]:
    raise RestSilent("http://here:1: refused")


# -- the leader -------------------------------------------------------------------------------------------------------


def test_while_nobody_leads_looks_and_pauses_grow_and_the_deadline_is_kept() -> None:
    world = World(heartbeats=for_ever(None))
    with pytest.raises(NoLeader, match="within 60 s"):
        world.dispatcher().find_leader(60.0)
    assert world.now_s == pytest.approx(60.0)
    looks = [step.timeout_s for step in world.of(ListenForLeader)]
    assert looks[:4] == [FIRST_LOOK_S, 2 * FIRST_LOOK_S, MAX_LOOK_S, MAX_LOOK_S]
    assert [step.seconds for step in world.of(Pause)][:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


def test_a_leader_that_comes_later_is_found() -> None:
    world = World(heartbeats=iter((None, ClusterUnreachable("away"), None, HEARTBEAT)))
    assert world.dispatcher().find_leader(60.0) == HEARTBEAT
    assert len(world.of(Pause)) == 3


def test_a_broker_that_stays_away_is_told_from_a_cluster_without_a_leader() -> None:
    world = World(heartbeats=for_ever(None, ClusterUnreachable("Kafka does not answer")))
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        world.dispatcher().find_leader(5.0)
    back = World(heartbeats=for_ever(ClusterUnreachable("away"), None))
    with pytest.raises(NoLeader):
        back.dispatcher().find_leader(5.0)


def test_a_watch_remembers_over_its_looks_what_it_has_seen() -> None:
    watch = LeaderWatch()
    assert watch.start(low=0, high=10) == 9
    old, late = LEADERSHIP.encode(HEARTBEAT), LEADERSHIP.encode(Resignation(epoch=3, leader_id="leader-3"))
    assert watch.see(9, old) is None  # It was there before the question.
    assert watch.start(low=0, high=12) == 10
    assert watch.see(10, late) is None
    assert watch.see(11, old) is None  # It resigned.
    assert "resigned" in watch.describe()
    # The topic was trimmed beyond the last look, and then made again.
    assert watch.start(low=50, high=60) == 50
    assert watch.start(low=0, high=3) == 3


@pytest.mark.rule("L2")
@pytest.mark.parametrize("epoch", [4, 2**62])
def test_an_epoch_that_was_never_granted_hides_the_leader_for_some_heartbeats_only(epoch: int) -> None:
    """A record that is forged, or that a fault of memory has changed, was the last one when the client asked."""
    watch = LeaderWatch()
    watch.start(low=0, high=10)
    watch.see(9, LEADERSHIP.encode(replace(HEARTBEAT, epoch=epoch, leader_id="nobody")))
    seen = [watch.see(offset, LEADERSHIP.encode(HEARTBEAT)) for offset in range(10, 12 + ALONE_HEARTBEATS)]
    assert [heartbeat is None for heartbeat in seen] == [True] * (ALONE_HEARTBEATS - 1) + [False] * 3


@pytest.mark.rule("L2")
def test_a_leader_that_is_said_to_have_resigned_and_goes_on_is_found() -> None:
    watch = LeaderWatch()
    watch.start(low=0, high=0)
    watch.see(0, LEADERSHIP.encode(Resignation(epoch=3, leader_id="leader-3")))
    seen = [watch.see(offset, LEADERSHIP.encode(HEARTBEAT)) for offset in range(1, 3 + ALONE_HEARTBEATS)]
    assert [heartbeat is None for heartbeat in seen] == [True] * (ALONE_HEARTBEATS - 1) + [False] * 3


@pytest.mark.rule("L2")
def test_a_leader_that_was_deposed_and_goes_on_beside_its_successor_is_none() -> None:
    watch = LeaderWatch()
    watch.start(low=0, high=0)
    newer = LEADERSHIP.encode(replace(HEARTBEAT, epoch=4, leader_id="leader-4"))
    for offset in range(0, 100, 2):
        assert watch.see(offset, newer) is not None
        assert watch.see(offset + 1, LEADERSHIP.encode(HEARTBEAT)) is None


# -- reads ------------------------------------------------------------------------------------------------------------


def test_a_rest_process_is_asked_first_and_the_log_is_folded_where_there_is_none() -> None:
    answer = {"jobs": [["j", "RUNNING"]], "total": 1}
    for rest, kinds in ((REST, [AskRest, AskRest]), (None, [FoldLog, FoldLog])):
        world = World(rest=rest, answer=lambda _step: answer)
        dispatcher = world.dispatcher()
        assert dispatcher.list_jobs() == dispatcher.list_jobs() == {"j": JobStatus.RUNNING}
        assert [type(step) for step in world.steps] == kinds
        assert {step.path for step in world.steps if isinstance(step, AskRest | FoldLog)} == {"/job-statuses"}


def test_a_rest_process_that_is_silent_is_asked_again_after_a_while_only() -> None:
    def answer(step: AskRest | FoldLog) -> dict[str, Any]:
        return silent(step) if isinstance(step, AskRest) and world.now_s < ASK_AGAIN_S else {"jobs": [], "total": 0}

    world = World(rest=REST, answer=answer)
    dispatcher = world.dispatcher()
    for now_s in (0.0, ASK_AGAIN_S - 1, ASK_AGAIN_S, ASK_AGAIN_S):
        world.now_s = now_s
        assert dispatcher.list_jobs() == {}
    assert [type(step) for step in world.steps] == [AskRest, FoldLog, FoldLog, AskRest, AskRest]


def test_a_rest_process_that_comes_later_is_found() -> None:
    world = World(answer=lambda _step: {"jobs": [], "total": 0})
    dispatcher = world.dispatcher()
    dispatcher.list_jobs()
    world.rest, world.now_s = REST, ASK_AGAIN_S
    dispatcher.list_jobs()
    assert [type(step) for step in world.steps] == [FoldLog, AskRest]


def test_what_is_not_there_is_a_typed_error_and_nobody_else_is_asked() -> None:
    def answer(_step: AskRest | FoldLog) -> dict[str, Any]:
        raise NothingThere("job not found: 'nobody'")

    world = World(rest=REST, answer=answer)
    dispatcher = world.dispatcher()
    for ask in (dispatcher.request_job, dispatcher.request_job_status, dispatcher.request_job_result):
        with pytest.raises(UnknownJob, match="job not found: 'nobody'"):
            ask("nobody")
    with pytest.raises(UnknownTaskManager):
        world.resource_manager().get_number_free_slots_of("nobody")
    assert [type(step) for step in world.steps] == [AskRest] * 4


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b", "ä", "x" * 200])
def test_an_id_that_is_none_is_unknown_without_being_asked_for(name: str) -> None:
    world = World()
    with pytest.raises(UnknownJob, match="is not a valid job id"):
        world.dispatcher().request_job_status(name)
    with pytest.raises(UnknownTaskManager, match="is not a valid id"):
        world.resource_manager().request_task_manager_details_info(name)
    assert not world.steps


def test_an_answer_that_is_not_understood_says_where() -> None:
    world = World(answer=lambda _step: {"job": {"job_id": "j", "status": "DANCING", "job_master_id": "j-1"}})
    with pytest.raises(AnswerUnreadable, match=r"JobStanding in the answer: status: .*RUNNING"):
        world.dispatcher().request_job_status("j")


@pytest.mark.parametrize(
    ("status", "offset", "document", "error"),
    [
        (404, "5", {"errors": ["no job"]}, NothingThere),
        # One that does not know the path has not looked into its state.
        (404, None, {"errors": ["Not Found"]}, RestSilent),
        (400, None, {"errors": ["invalid limit: '0' is not a whole number"]}, QuestionInvalid),
        (410, None, {"errors": ["it is damaged"]}, ArchiveUnusable),
        (413, None, {"errors": ["too many rows"]}, RestSilent),
        (401, None, {"errors": ["who are you"]}, RestSilent),
        (503, None, {"errors": ["builds its state"]}, RestSilent),
        (200, None, [], RestSilent),
    ],
)
def test_what_a_process_says_is_told_from_one_that_says_nothing(
    status: int, offset: str | None, document: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        answer_in(REST, status, offset, json.dumps(document).encode())


# -- results ----------------------------------------------------------------------------------------------------------

RUNNING = {"is_terminal": False, "status": "RUNNING"}
FAILED = {
    "job_id": "j",
    "is_terminal": True,
    "status": "FAILED",
    "submitted_at": None,
    "ended_at": None,
    "net_run_time_ms": 1500,
    "cause": {"failure_type": "ValueError", "message": "no"},
    "accumulators": [],
}


def ending(world: World, outcomes: Iterable[dict[str, Any] | Exception]) -> Callable[[AskRest | FoldLog], dict[str, Any]]:
    """Answer one question after the other; who answers that the job runs has waited as long as it was asked to."""
    left = iter(outcomes)

    def answer(step: AskRest | FoldLog) -> dict[str, Any]:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        if not outcome["is_terminal"]:
            world.now_s += int(str(step.parameters["wait_ms"])) / 1000
        return {"result": outcome, "log_offset": 7}

    return answer


def test_a_result_is_waited_for_wherever_it_is_to_be_had() -> None:
    world = World(rest=REST)
    world.answer = ending(world, [RUNNING, RestSilent("killed"), RUNNING, RUNNING, FAILED])
    result = world.dispatcher().request_job_result("j", timeout_s=600.0)
    assert result.cause is not None
    assert (result.status, result.net_run_time_ms, result.cause.failure_type, result.log_offset) == (
        JobStatus.FAILED,
        1500,
        "ValueError",
        7,
    )
    assert [type(step) for step in world.steps] == [AskRest, AskRest, FoldLog, FoldLog, AskRest]
    assert {step.parameters["wait_ms"] for step in world.steps if isinstance(step, AskRest | FoldLog)} == {RESULT_WAIT_S * 1000}
    assert [step.wait_s for step in world.of(FoldLog)] == [RESULT_WAIT_S] * 2


def test_a_job_that_goes_on_ends_the_wait_at_its_deadline() -> None:
    world = World(rest=REST)
    world.answer = ending(world, for_ever(RUNNING))
    with pytest.raises(JobNotTerminated, match=r"job 'j' is RUNNING: it has not ended within 12 s, and still runs"):
        world.dispatcher().request_job_result("j", timeout_s=12.0)
    assert world.now_s == pytest.approx(12.0)
    assert [step.parameters["wait_ms"] for step in world.of(AskRest)] == [5000, 5000, 2000]


# -- types and shapes -------------------------------------------------------------------------------------------------


def test_a_refusal_has_the_type_of_its_code() -> None:
    mismatch = refusal_of("FencingTokenMismatch", "another one leads", 12)
    assert type(mismatch) is FencingTokenMismatch
    assert (mismatch.code, mismatch.message, mismatch.log_offset) == ("FencingTokenMismatch", "another one leads", 12)
    assert type(refusal_of("InvalidRequest", "no")) is RequestRefused
    for name in ("UnknownJob", "JobTerminated", "DuplicateJobSubmission", "FileNotAvailable", "TooManyUploads"):
        assert type(refusal_of(name, "no")) is getattr(errors, name)


STANDING = {"job_id": "j", "status": "RUNNING", "status_since": None, "job_master_id": "j-1"}
METHODS = (DispatcherMethods, ResourceManagerMethods, JobMasterMethods, TaskExecutorMethods)


@pytest.mark.parametrize("methods", METHODS)
def test_every_method_of_a_gateway_is_for_threads_and_for_event_loops(methods: type[Any]) -> None:
    """A method that forgot `@method` would give its steps to the caller."""
    public = [function for name, function in vars(methods).items() if inspect.isfunction(function) and not name.startswith("_")]
    assert public
    assert [function.__name__ for function in public if not hasattr(function, "__wrapped__")] == []


def test_type_checkers_know_what_a_method_returns_and_what_awaiting_it_gives() -> None:
    """`assert_type` is checked by mypy; so is that each ignored error is one."""
    world = World(answer=lambda _step: {"job": STANDING})
    dispatcher = world.dispatcher()
    assert_type(dispatcher.request_job_status("j"), JobStatus)
    assert_type(dispatcher.cancel_job("j", actor="me", fencing_token="t"), Accepted)
    with pytest.raises(TypeError, match="token"):
        dispatcher.cancel_job("j", token="t")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="job_id"):
        dispatcher.request_job_status()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="string"):
        dispatcher.request_job_status(5)  # type: ignore[arg-type]

    async def wait() -> None:
        async with AsyncDispatcherGateway("nowhere", "c", connection=VirtualEventLoop(world)) as dispatcher:
            assert_type(await dispatcher.request_job_status("j"), JobStatus)
            assert_type(await asyncio.create_task(dispatcher.cancel_job("j", actor="me", fencing_token="t")), Accepted)
            assert_type(dispatcher.job_master("j"), AsyncJobMasterGateway)
            with pytest.raises(TypeError, match="token"):
                await dispatcher.cancel_job("j", token="t")  # type: ignore[call-arg]
            with pytest.warns(RuntimeWarning, match="never awaited"):
                dispatcher.list_jobs()  # type: ignore[unused-coroutine]

    asyncio.run(wait())


def test_a_method_takes_the_same_steps_in_a_thread_and_in_an_event_loop() -> None:
    def answer(step: AskRest | FoldLog) -> dict[str, Any]:
        return silent(step) if isinstance(step, AskRest) else {"jobs": [["j", "RUNNING"]], "total": 1, "job": STANDING}

    worlds = [World(rest=REST, answer=answer, heartbeats=iter((None, HEARTBEAT))) for _ in range(2)]
    dispatcher = worlds[0].dispatcher()
    job_master = JobMasterGateway("nowhere", "c", "j", connection=VirtualConnection(worlds[0]))
    blocking = [
        dispatcher.list_jobs(),
        dispatcher.find_leader(),
        dispatcher.cancel_job("j", actor="me", request_id="r"),
        job_master.tell_rescale_job("v", 2, actor="me"),
    ]
    with pytest.raises(RequestTimedOut):
        dispatcher.trigger_savepoint("j", "/tmp")

    async def wait() -> list[Any]:
        async with AsyncDispatcherGateway("nowhere", "c", connection=VirtualEventLoop(worlds[1])) as dispatcher:
            job_master = AsyncJobMasterGateway("nowhere", "c", "j", connection=VirtualEventLoop(worlds[1]))
            outcomes = [
                await dispatcher.list_jobs(),
                await dispatcher.find_leader(),
                await dispatcher.cancel_job("j", actor="me", request_id="r"),
                await job_master.tell_rescale_job("v", 2, actor="me"),
            ]
            not_in_time = dispatcher.trigger_savepoint("j", "/tmp")
            with pytest.raises(RequestTimedOut):
                await not_in_time
            return outcomes

    assert asyncio.run(wait()) == blocking
    assert worlds[0].sent == worlds[1].sent
    assert [type(step) for step in worlds[0].steps] == [type(step) for step in worlds[1].steps]


def test_a_job_master_is_asked_under_its_own_token_which_is_found_once() -> None:
    tokens = iter(("j-1", "j-2"))
    world = World(answer=lambda _step: {"job": {**STANDING, "job_master_id": next(tokens)}})
    job_master = JobMasterGateway("nowhere", "c", "j", connection=VirtualConnection(world))
    job_master.cancel(actor="me")
    job_master.tell_cancel(actor="me")
    assert [command.job_master_id for command in world.sent] == ["j-1", "j-1"]
    assert job_master.connect() == "j-2"
    job_master.cancel(actor="me", request_id="r")
    assert (world.sent[-1].job_master_id, world.sent[-1].request_id, world.sent[-1].leader_id) == ("j-2", "r", "")


def test_a_checkpoint_is_waited_for_until_it_is_complete_or_has_failed() -> None:
    world = World(answer=lambda _step: {"job": STANDING}, checkpoint=CheckpointCompleted("j", 7, 40, 5, 50))
    job_master = JobMasterGateway("nowhere", "c", "j", connection=VirtualConnection(world))
    assert job_master.trigger_checkpoint(3.0, actor="me") == CompletedCheckpoint(
        job_id="j", checkpoint_id=7, duration_ms=40, state_rows=5, state_bytes=50
    )
    assert (world.sent[-1].job_master_id, world.sent[-1].actor) == (STANDING["job_master_id"], "me")
    assert [step.timeout_s for step in world.of(AwaitCheckpoint)] == [3.0]
    world.checkpoint = CheckpointAborted("j", 8, CheckpointFailureReason.EXPIRED, "not answered within 5 ms by s[0]#1")
    with pytest.raises(CheckpointFailed, match=r"checkpoint 8 of 'j' failed \(expired\): not answered within 5 ms by s\[0\]#1"):
        world.dispatcher().trigger_checkpoint("j")
    world.checkpoint = None
    with pytest.raises(RequestTimedOut, match="not complete within 60 s") as raised:
        world.dispatcher().trigger_checkpoint("j", fencing_token="t")
    assert raised.value.request_id == "r"
    assert world.sent[-1].leader_id == "t"


def test_a_savepoint_says_what_becomes_of_the_job_and_gives_its_place() -> None:
    done = CheckpointCompleted("j", 7, 40, 5, 50, "/savepoints/savepoint-j-7-1")
    world = World(answer=lambda _step: {"job": STANDING}, checkpoint=done)
    dispatcher, job_master = world.dispatcher(), JobMasterGateway("nowhere", "c", "j", connection=VirtualConnection(world))
    taken = [
        dispatcher.trigger_savepoint("j", "/savepoints"),
        dispatcher.trigger_savepoint("j", cancel_job=True),
        dispatcher.stop_with_savepoint("j"),
        dispatcher.stop_with_savepoint("j", drain=True),
        job_master.trigger_savepoint(),
        job_master.trigger_savepoint("/savepoints", cancel_job=True),
        job_master.stop_with_savepoint("/savepoints"),
        job_master.stop_with_savepoint(drain=True),
    ]
    assert {each.savepoint_path for each in taken} == {"/savepoints/savepoint-j-7-1"}
    assert [command.mode for command in world.sent] == ["CONTINUE", "CANCEL", "STOP", "DRAIN"] * 2
    assert [command.target_directory for command in world.sent] == ["/savepoints", "", "", "", "", "/savepoints", "/savepoints", ""]
    assert {command.job_master_id for command in world.sent[4:]} == {STANDING["job_master_id"]}


def test_what_is_only_requested_is_not_waited_for() -> None:
    world = World()
    dispatcher = world.dispatcher()
    accepted = [
        dispatcher.request_checkpoint("j", actor="me", request_id="q", fencing_token="t"),
        dispatcher.request_savepoint("j", "/savepoints", SavepointMode.DRAIN, actor="me", request_id="q"),
        dispatcher.request_savepoint("j"),
        dispatcher.request_rescale("j", "v", 3, actor="me", request_id="q"),
    ]
    assert [each.log_offset for each in accepted] == [9, 9, 9, 9]
    assert [type(step) for step in world.steps] == [Ask, Ask, Ask, Ask]
    assert world.sent == [
        TriggerCheckpoint(job_id="j", actor="me", request_id="q", leader_id="t"),
        TriggerSavepoint(job_id="j", target_directory="/savepoints", mode=SavepointMode.DRAIN, actor="me", request_id="q"),
        TriggerSavepoint(job_id="j"),
        RescaleJob(job_id="j", vertex_id="v", parallelism=3, actor="me", request_id="q"),
    ]


def test_back_pressure_is_that_of_the_streams_worst_subtask() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    tasks = deployments(cluster.submit(graph(stream("s", 2), stream("young"), checkpointing={"interval_ms": 1_000}), job_id="j"))
    for task in tasks:
        cluster.start_stream(task)
    asked = [
        each for each in orders(cluster.pass_time(1_000)) if isinstance(each.payload, CheckpointOrder) and each.payload.vertex_id == "s"
    ]
    for number, order in enumerate(asked):
        source = StreamSourceProgress(name="numbers", end_offset="", records_behind=(3, 9)[number])
        cluster.acknowledge(order, batch_id=1, sources=(source,), input_rows=(7, 1)[number])
    answer = {**plain(checkpoints_view(cluster.job("j"))), "epoch": 1, "log_offset": 9}
    world = World(answer=lambda _step: answer)
    stats = world.dispatcher().request_operator_back_pressure_stats("j", "s")
    assert (stats.level, [each.ratio for each in stats.subtasks], stats.log_offset) == (BackPressureLevel.HIGH, [0.3, 0.9], 9)
    assert world.dispatcher().request_operator_back_pressure_stats("j", "young").level is None
    with pytest.raises(RequestRefused, match=r"stream not found: 'batch' in job 'j' \(UnknownVertex\)"):
        world.dispatcher().request_operator_back_pressure_stats("j", "batch")
