"""A cluster without Kafka: the real leader and fold, a list for the log, and TaskManagers that say what a test has them say.

After every decision the state is validated and its digest kept; `check` at the end of a test compares every digest with that
of a replay of the log. Nothing here is a substitute for a part of the master: only the wires are cut.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from eventflink.events.codec import DecisionCodec, PayloadCodec, ReportsCodec
from eventflink.events.decision import Decision
from eventflink.events.effects import CheckpointOrder, TaskCancellation, TaskDeployment
from eventflink.events.inputs import (
    CheckpointAcknowledgement,
    CheckpointDecline,
    Request,
    SlotOffer,
    SlotOfferRefusal,
    StreamStartReport,
    TaskManagerRegistration,
    TaskManagerReport,
    TaskStateReport,
)
from eventflink.events.log_events import LogEvent
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.election import Peers, SingleMaster
from eventflink.leadership.fold import Fold
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import InboundRecord
from eventflink.leadership.leader import Leader, Released
from eventflink.leadership.log_clock import LogSightings
from eventflink.leadership.participant import Participant, Promoted
from eventflink.leadership.ports import ParticipantSettings
from eventflink.master.effects import ArchiveJob, CleanUp, DeadLetterOrder, Deployment, Effect, Reply
from eventflink.master.inputs import (
    ArchivesWritten,
    BindInputs,
    CleanupsCompleted,
    LoseInputs,
    MasterInput,
    WrittenArchive,
)
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause, OutputLocation
from eventflink.model.resources import ResourceProfile
from eventflink.model.spark_engines import SparkAddress
from eventflink.model.statuses import ExecutionState
from eventflink.model.stream_progress import StreamProgress
from eventflink.reader.past.fold_pickle import dump_fold, load_fold
from tests.support.wires import SilentWires, new_intake

CODEC = DecisionCodec()
REPORTS = ReportsCodec("TaskManagerEnvelope")
COMMANDS = PayloadCodec("CommandEnvelope")
REQUESTS = {Topic.SUBMISSIONS: PayloadCodec("SubmissionEnvelope"), Topic.COMMANDS: COMMANDS}
HORIZON_MS = 604_800_000
START_MS = 1_800_000_000_000
MAX_STEPS = 100_000

EventType = TypeVar("EventType")


def new_fold(settings: MasterSettings | None = None, seals: Seals = NO_SEALS) -> Fold:
    """Return the fold before the first record."""
    return Fold(Master(settings or MasterSettings()), DecisionCodec(seal=seals.of(Topic.LOG)) if seals.secrets else CODEC)


def replay(
    records: Iterable[bytes], settings: MasterSettings | None = None, timestamps: Sequence[int] = (), seals: Seals = NO_SEALS
) -> Fold:
    """Fold records, as a master that starts does."""
    fold = new_fold(settings, seals)
    for offset, value in enumerate(records):
        fold.fold_record(offset, timestamps[offset] if timestamps else START_MS, value)
    return fold


def copies_of(fold: Fold) -> Callable[[], Fold]:
    """Return what gives folds that are as this one is now and share nothing with it; a replay takes up to eight times as long."""
    data, codec, settings = dump_fold(fold), fold.codec, fold.master.settings
    return lambda: load_fold(data, codec, settings)


@dataclass
class ScriptedCluster:
    """One master, its log and its topics."""

    settings: MasterSettings = field(default_factory=MasterSettings)
    window_size: int = 1024
    lease_timeout_ms: int = 1000
    check_digests: bool = True
    check_states: bool = True
    """After each decision; a state of ten thousand tasks takes long to check, and is checked at the end."""
    monotonic_ms: int = 0
    wall_ms: int = START_MS
    stamp_offset_ms: int = 0
    """By how much the clock is ahead of the broker that has the log's partition."""
    master_id: str = "master-1"
    """Who leads from the next leadership on."""
    seals: Seals = NO_SEALS
    """What everybody but the test itself has: it writes without a seal."""
    log: list[bytes] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    """Kafka's, of the records of the log."""
    inbound: dict[str, list[InboundRecord]] = field(default_factory=lambda: {str(t): [] for t in INBOUND})
    released: list[Released] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    terms: int = 0
    participant: Participant = field(init=False)
    _taken: int = 0

    def __post_init__(self) -> None:
        self.participant = self.new_participant(new_fold(self.settings, self.seals))
        self.lead()
        for topic in INBOUND:
            self.leader.timers.append(BindInputs(str(topic), f"id-of-{topic}", 0))
        self.settle()

    # -- leadership ------------------------------------------------------------------------------------------------

    def new_participant(self, fold: Fold) -> Participant:
        """Return a standby that has read every input."""
        intake = new_intake(100_000)
        for records in self.inbound.values():
            for record in records:
                intake.enqueue(record)
        sightings = LogSightings()
        sightings.rebuilt(fold.acceptance, self.monotonic_ms)
        return Participant(
            settings=ParticipantSettings(
                master_id=self.master_id,
                incarnation=self.master_id,
                blob_address="blob:1",
                window_size=self.window_size,
                lease_timeout_ms=self.lease_timeout_ms,
                seals=self.seals,
            ),
            fold=fold,
            decoder=InboundDecoder(seals=self.seals),
            intake=intake,
            election=SingleMaster(),
            peers=Peers(1_000),
            wires=SilentWires(),
            mint_leader_id=lambda: f"leader-{self.terms}",
            sightings=sightings,
        )

    def lead(self) -> Released:
        """Campaign, win, and return what a new leader says first."""
        self.terms += 1
        self.append(self.participant.campaign(self.monotonic_ms, self.wall_ms))
        released = self.read_back(len(self.log) - 1)
        assert released is not None
        return released

    def fail_over(self) -> Released:
        """Drop the master and its state; a new one replays the log and leads."""
        self.participant = self.new_participant(replay(self.log, self.settings, self.timestamps, self.seals))
        return self.lead()

    @property
    def leader(self) -> Leader:
        assert self.participant.leader is not None
        return self.participant.leader

    @property
    def fold(self) -> Fold:
        return self.participant.fold

    @property
    def master(self) -> Master:
        return self.fold.master

    def job(self, job_id: str) -> JobMaster:
        return self.master.dispatcher.jobs[job_id]

    # -- the log ---------------------------------------------------------------------------------------------------

    def append(self, value: bytes) -> int:
        self.log.append(value)
        self.timestamps[len(self.log) - 1 :] = [self.wall_ms + self.stamp_offset_ms]
        return len(self.log) - 1

    def read_back(self, offset: int) -> Released | None:
        change = self.participant.on_record(offset, self.timestamps[offset], self.log[offset], self.monotonic_ms)
        released = change.released if isinstance(change, Promoted) else change
        if not isinstance(released, Released):
            return None
        self.released.append(released)
        return released

    def decide(self) -> bytes | None:
        """Let the leader decide once; append the record, and check the state that it leads to."""
        value = self.leader.decide_next(self.leader.clock.read(self.monotonic_ms, self.wall_ms), self.monotonic_ms)
        if value is not None:
            self.append(value)
            if self.leader.failure is not None:
                return value
            if self.check_states:
                self.master.validate()
            if self.check_digests:
                self.digests[len(self.log) - 1] = self.master.digest()
        return value

    def settle(self) -> list[Effect]:
        """Decide and read back until nothing is left; return the effects released since the last call."""
        for _ in range(MAX_STEPS):
            if self.decide() is None:
                if self.leader.failure is not None:
                    raise self.leader.failure
                return self.take_effects()
            self.read_back(len(self.log) - 1)
        raise AssertionError("the leader does not come to rest")

    def take_effects(self) -> list[Effect]:
        fresh = [effect for released in self.released[self._taken :] for effect in released.effects]
        self._taken = len(self.released)
        return fresh

    def decisions(self) -> Iterator[Decision]:
        return self.decisions_from(0)

    def decisions_from(self, offset: int) -> Iterator[Decision]:
        return map(CODEC.decode, self.log[offset:])

    def events(self, *kinds: type[EventType]) -> list[EventType]:
        """Return the events of these classes in the whole log."""
        return [e for d in self.decisions() for e in d.events if isinstance(e, kinds)]

    def last_events(self) -> tuple[LogEvent, ...]:
        return CODEC.decode(self.log[-1]).events

    def check(self) -> None:
        """Compare the state, and every digest on the way, with a replay: live == replay."""
        fold = new_fold(seals=self.seals)  # Masters may be configured differently: `apply` takes nothing from the settings.
        for offset, value in enumerate(self.log):
            fold.fold_record(offset, 0, value)
            if offset in self.digests and fold.last_offset == offset:
                assert fold.master.digest() == self.digests[offset], f"the replay differs from log@{offset} on"
        fold.master.validate()
        if self.participant.leader is not None and not self.participant.leader.unconfirmed:
            assert fold.master.digest() == self.master.digest()
            assert fold.running_hash == self.fold.running_hash

    # -- inputs ----------------------------------------------------------------------------------------------------

    def put(self, topic: Topic, value: bytes | None, key: bytes | None = None) -> int:
        """Produce a record; return its offset."""
        records = self.inbound[str(topic)]
        record = InboundRecord(str(topic), len(records), key, value)
        records.append(record)
        self.participant.intake.enqueue(record)
        return record.offset

    def lose(self, topic: Topic, count: int) -> list[Effect]:
        """Have retention remove records before the master has read them; it is told so, as at a promotion."""
        records = self.inbound[str(topic)]
        records.extend([InboundRecord(str(topic), len(records) + n, None, b"lost") for n in range(count)])
        return self.timer(LoseInputs(str(topic), len(records)))

    def say(self, *reports: TaskManagerReport) -> list[Effect]:
        """Have a TaskManager report in one record, and settle."""
        self.put(Topic.TASKMANAGERS, ReportsCodec("TaskManagerEnvelope", seal=self.seals.of(Topic.TASKMANAGERS)).encode(reports))
        return self.settle()

    def register(
        self,
        name: str = "tm",
        slots: int = 4,
        instance: str = "1",
        profile: ResourceProfile | None = None,
        spark_addresses: tuple[SparkAddress, ...] = (),
    ) -> list[Effect]:
        """Register an instance."""
        place = (name, f"{name}-{instance}", f"host-of-{name}", 1, slots)
        return self.say(TaskManagerRegistration(*place, slot_profile=profile, spark_addresses=spark_addresses))

    def submit(self, graph: Mapping[str, Any], job_id: str = "job", request_id: str = "", partition: int = 0) -> list[Effect]:
        document = {"job_graph": graph, "job_id": job_id, "request_id": request_id, "reply_partition": partition, "actor": "test"}
        self.put(Topic.SUBMISSIONS, json.dumps(document).encode())
        return self.settle()

    def command(self, partition: int = 0, **document: Any) -> list[Effect]:
        self.put(Topic.COMMANDS, json.dumps({"reply_partition": partition, "actor": "test", **document}).encode())
        return self.settle()

    def send(self, request: Request, seals: Seals = NO_SEALS) -> list[Effect]:
        """Produce a request as the gateways and the masters themselves do, in Avro, and settle; with `seals`, as who knows who asks."""
        codec = PayloadCodec(REQUESTS[request.topic].registry.name, seal=seals.of(request.topic))
        self.put(request.topic, codec.encode(request, sent_at_ms=self.wall_ms))
        return self.settle()

    def cancel(self, job_id: str = "job", request_id: str = "") -> list[Effect]:
        return self.command(type="CancelJob", job_id=job_id, request_id=request_id)

    def suspend(self, job_id: str = "job", request_id: str = "", **more: Any) -> list[Effect]:
        return self.command(type="SuspendJob", job_id=job_id, request_id=request_id, **more)

    def resume(self, job_id: str = "job", request_id: str = "", **more: Any) -> list[Effect]:
        return self.command(type="ResumeJob", job_id=job_id, request_id=request_id, **more)

    def shut_down(self, status: str = "SUCCEEDED", request_id: str = "", **more: Any) -> list[Effect]:
        return self.command(type="ShutDownCluster", application_status=status, request_id=request_id, **more)

    def block(self, task_manager_id: str, reason: str = "its disk is full", duration_ms: int = 0, request_id: str = "") -> list[Effect]:
        document: dict[str, Any] = {
            "task_manager_id": task_manager_id,
            "reason": reason,
            "duration_ms": duration_ms,
            "request_id": request_id,
        }
        return self.command(type="BlockTaskManager", **document)

    def unblock(self, task_manager_id: str, request_id: str = "") -> list[Effect]:
        return self.command(type="UnblockTaskManager", task_manager_id=task_manager_id, request_id=request_id)

    def rescale(self, vertex_id: str, parallelism: int, job_id: str = "job", request_id: str = "") -> list[Effect]:
        return self.command(type="RescaleJob", job_id=job_id, vertex_id=vertex_id, parallelism=parallelism, request_id=request_id)

    def timer(self, *values: MasterInput) -> list[Effect]:
        self.leader.timers.extend(values)
        return self.settle()

    def pass_time(self, milliseconds: int) -> list[Effect]:
        """Let time pass, then decide what is due until nothing is, or nothing can be done about it yet."""
        self.monotonic_ms += milliseconds
        self.wall_ms += milliseconds
        fresh: list[Effect] = []
        for _ in range(MAX_STEPS):
            due = list(self.participant.due(self.leader, self.leader.clock.read(self.monotonic_ms, self.wall_ms)))
            count = len(self.log)
            fresh += self.timer(*due)
            if len(self.log) == count:
                return fresh
        raise AssertionError("something stays due for ever")

    # -- TaskManagers ----------------------------------------------------------------------------------------------

    def report(self, deployment: Deployment, state: ExecutionState, *, cause: FailureCause | None = None) -> list[Effect]:
        return self.say(*reports_of(deployment, state, cause))

    def refuse(self, deployment: Deployment, reason: str = "no memory") -> list[Effect]:
        payload = deployment.payload
        assert isinstance(payload, TaskDeployment)
        refused = (payload.vertex_id, payload.subtask_index, payload.attempt)
        return self.say(SlotOfferRefusal(deployment.task_manager_id, deployment.instance_id, payload.allocation_id, reason, *refused))

    def run(
        self, effects: list[Effect], end: Callable[[TaskDeployment], ExecutionState] = lambda _: ExecutionState.FINISHED
    ) -> list[Effect]:
        """Do every deployment and cancellation among the effects, and those that follow; clean up, archive; return all effects."""
        done = list(effects)
        fresh = effects
        for _ in range(MAX_STEPS):
            if not fresh:
                return done
            answers = [self._answer(effect, end) for effect in fresh]
            for reports in answers:
                if reports:
                    self.put(
                        Topic.TASKMANAGERS, ReportsCodec("TaskManagerEnvelope", seal=self.seals.of(Topic.TASKMANAGERS)).encode(reports)
                    )
            self.leader.timers.extend(CleanupsCompleted((e.job_id,)) for e in fresh if isinstance(e, CleanUp))
            self.leader.timers.extend(archives_written(e.job_id) for e in fresh if isinstance(e, ArchiveJob))
            fresh = self.settle()
            done += fresh
        raise AssertionError("the TaskManagers do not come to rest")

    def _answer(self, effect: Effect, end: Callable[[TaskDeployment], ExecutionState]) -> list[TaskManagerReport]:
        if not isinstance(effect, Deployment):
            return []
        if isinstance(effect.payload, TaskDeployment):
            return reports_of(effect, end(effect.payload))
        if isinstance(effect.payload, TaskCancellation):
            return [state_report(effect, ExecutionState.CANCELED)]
        return []

    # -- streams ---------------------------------------------------------------------------------------------------

    def start_stream(self, deployment: Deployment, restored_batch_id: int = -1) -> list[Effect]:
        """Have an attempt of a stream run, and its query."""
        return self.say(*reports_of(deployment, ExecutionState.RUNNING), stream_start(deployment, restored_batch_id))

    def acknowledge(self, *orders: Deployment, batch_id: int = 0, **progress: Any) -> list[Effect]:
        """Have the streams that are asked by these orders answer, all in one record."""
        return self.say(*[acknowledgement(order, batch_id, **progress) for order in orders])


def stream_start(deployment: Deployment, restored_batch_id: int = -1) -> StreamStartReport:
    """Return what an instance says when the query of a stream's attempt runs."""
    payload = deployment.payload
    assert isinstance(payload, TaskDeployment)
    name = f"{payload.vertex_id}-{payload.subtask_index}"
    location = f"/outputs/{payload.job_id}/checkpoints/{name}"
    told = (f"query-of-{name}", f"run-{payload.attempt}-of-{name}", f"session-{payload.attempt}-of-{name}", location)
    return StreamStartReport(deployment.task_manager_id, deployment.instance_id, *payload.attempt_id, *told, restored_batch_id)


def acknowledgement(order: Deployment, batch_id: int = 0, **progress: Any) -> CheckpointAcknowledgement:
    """Return the answer to a checkpoint's question."""
    payload = order.payload
    assert isinstance(payload, CheckpointOrder)
    made = StreamProgress(batch_id=batch_id, **progress)
    return CheckpointAcknowledgement(order.task_manager_id, order.instance_id, *payload.attempt_id, payload.checkpoint_id, made)


def decline(order: Deployment, reason: str = "the query has stopped") -> CheckpointDecline:
    """Return the refusal to answer a checkpoint's question."""
    payload = order.payload
    assert isinstance(payload, CheckpointOrder)
    return CheckpointDecline(order.task_manager_id, order.instance_id, *payload.attempt_id, payload.checkpoint_id, reason)


def orders(effects: Iterable[Effect]) -> list[Deployment]:
    """Return what checkpoints ask of streams among effects."""
    return [e for e in effects if isinstance(e, Deployment) and isinstance(e.payload, CheckpointOrder)]


def state_report(effect: Deployment, state: ExecutionState, cause: FailureCause | None = None) -> TaskStateReport:
    """Return what the instance says of the attempt that the effect is about."""
    payload = effect.payload
    assert isinstance(payload, TaskDeployment | TaskCancellation)
    outputs: tuple[OutputLocation, ...] = ()
    if state is ExecutionState.FINISHED and isinstance(payload, TaskDeployment):
        outputs = tuple(output_of(payload, o) for o in payload.outputs or ("default",))
    return TaskStateReport(
        effect.task_manager_id,
        effect.instance_id,
        payload.job_id,
        payload.vertex_id,
        payload.subtask_index,
        payload.attempt,
        execution_state=state,
        outputs=outputs,
        cause=cause,
    )


def output_of(payload: TaskDeployment, output: str = "default") -> OutputLocation:
    """Return what a scripted attempt leaves as an output."""
    return output_at(f"/outputs/{payload.job_id}/{payload.vertex_id}/{payload.subtask_index}/{payload.attempt}/{output}", output)


def output_at(location: str, output: str = "default") -> OutputLocation:
    """Return an output of one row that somebody has left at a place."""
    return OutputLocation(output, location, rows=1, files=1, size_bytes=1, digest="0" * 32)


def reports_of(deployment: Deployment, state: ExecutionState, cause: FailureCause | None = None) -> list[TaskManagerReport]:
    """Return what an instance says that took a deployment and came to `state`: the offer first."""
    payload = deployment.payload
    assert isinstance(payload, TaskDeployment)
    if state is ExecutionState.FAILED and cause is None:
        cause = FailureCause("ValueError", "no such column")
    offer = SlotOffer(deployment.task_manager_id, deployment.instance_id, payload.allocation_id)
    return [offer, state_report(deployment, state, cause)]


def archives_written(*job_ids: str) -> ArchivesWritten:
    """Return the outcome of archives that were written, each with a digest of its own."""
    return ArchivesWritten(tuple([WrittenArchive(job_id, f"/archives/{job_id}.json", f"digest of {job_id}", 100) for job_id in job_ids]))


def deployments(effects: Iterable[Effect]) -> list[Deployment]:
    """Return the deployments of tasks among effects."""
    return [e for e in effects if isinstance(e, Deployment) and isinstance(e.payload, TaskDeployment)]


def tasks(effects: Iterable[Effect]) -> list[TaskDeployment]:
    """Return the tasks that effects deploy."""
    return [e.payload for e in effects if isinstance(e, Deployment) and isinstance(e.payload, TaskDeployment)]


def cancellations(effects: Iterable[Effect]) -> list[Deployment]:
    """Return the cancellations of tasks among effects."""
    return [e for e in effects if isinstance(e, Deployment) and isinstance(e.payload, TaskCancellation)]


def replies(effects: Iterable[Effect]) -> list[Reply]:
    """Return the answers to clients among effects."""
    return [e for e in effects if isinstance(e, Reply)]


def dead_letters(effects: Iterable[Effect]) -> list[DeadLetterOrder]:
    """Return the orders for dead letters among effects."""
    return [e for e in effects if isinstance(e, DeadLetterOrder)]


def vertex(name: str, parallelism: int = 1, **resources: Any) -> dict[str, Any]:
    """Return a vertex of a document, and what each subtask asks for."""
    made = {"id": name, "python": f"jobs:{name}", "parallelism": parallelism, "max_parallelism": 4096}
    return made | ({"resources": resources} if resources else {})


def sharing(name: str, parallelism: int = 1, group: str = "shared", **resources: Any) -> dict[str, Any]:
    """Return a vertex of a document that is in a slot sharing group."""
    return vertex(name, parallelism, **resources) | {"slot_sharing_group": group}


def stream(name: str, parallelism: int = 1) -> dict[str, Any]:
    """Return a vertex of a document that is a stream."""
    sources = {"numbers": {"rate": {"rows_per_second": 10}}}
    return vertex(name, parallelism) | {"stream": {"sources": sources, "sink": {"python": "jobs:write"}}}


def graph(*vertices: dict[str, Any], edges: Iterable[tuple[str, str, str]] = (), **more: Any) -> dict[str, Any]:
    """Return a document; edges are (from, to, ship)."""
    written = [{"from": a, "to": b, "ship": ship} | ({"keys": ["k"]} if ship == "hash" else {}) for a, b, ship in edges]
    return {"name": "test job", "vertices": list(vertices), "edges": written, **more}


def fixed_delay(attempts: int, delay_ms: int = 500) -> dict[str, Any]:
    """Return a restart strategy of a document."""
    return {"type": "fixed-delay", "attempts": attempts, "delay_ms": delay_ms}
