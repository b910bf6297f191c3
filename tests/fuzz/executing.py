"""What a TaskExecutor reads: `deployments`. Its real main loop, and a real leader that hears it and whom it has to obey.

The law: whatever came on `deployments`, from whomever, nothing runs but in its slots, and it goes on obeying its leader: a job that is
submitted then finishes on it. With a secret nothing is heard that has no valid seal. Only its processes are left out: an attempt ends soon
after it was launched, as a process would.
"""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final

from hypothesis import strategies as st

from eventflink.events.codec import UndecodableRecord
from eventflink.events.effects import TaskDeployment
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.leadership.leader import Released
from eventflink.leadership.release import Releaser
from eventflink.master.effects import unacknowledged
from eventflink.model.attempts import AttemptId, OutputLocation
from eventflink.model.statuses import JobStatus
from eventflink.taskexecutor.process_events import (
    CheckpointDeclined,
    EndTask,
    Finished,
    ForkServerDied,
    ForkServerReady,
    Killed,
    LaunchTask,
    ProcessEvent,
    ReleaseSpark,
    SparkReleased,
    TakeCheckpoint,
    TaskInitialized,
    TaskLaunched,
    TaskProcessEnded,
)
from eventflink.taskexecutor.protocol import DriverAction, Input, MainLoop, SendHeartbeat, SendReports, StartForkServer
from eventflink.taskexecutor.protocol.actions import EndForkServer, ProtocolSettings, Stopped, UploadFile
from eventflink.taskexecutor.protocol.records import TaskExecutorCodecs, is_for
from tests.fuzz.corpus_files import ENVELOPES, Message
from tests.fuzz.generation import Avro, recorded
from tests.fuzz.sealing import as_written, is_believed, name_of, sealed_messages
from tests.support.cluster import ScriptedCluster, graph, output_of, stream, vertex
from tests.support.wires import SilentWires

NAME: Final = "tm"
SLOTS: Final = 2
STEP_MS: Final = 50
TASK_STEPS: Final = 4
"""After so many steps an attempt ends."""

RESEND_MS: Final = 3_000
"""How often the leader says again what is not confirmed."""

MOST_STEPS: Final = 1_200
"""A minute: for what was heard to be asked about, fenced, forgotten, and started anew."""


class _Wires(SilentWires):
    """Keeps what a leader writes to `deployments`."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes]] = []

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        if topic is Topic.DEPLOYMENTS and partition == 0:
            self.written.append((key.encode(), value))


class Obeyed:
    """A TaskExecutor and its leader, moved step by step."""

    def __init__(self, seals: Seals) -> None:
        self.codecs = TaskExecutorCodecs(seals)
        self.cluster = ScriptedCluster(check_digests=False, check_states=False, seals=seals)
        self.wires = _Wires()
        self.releaser = Releaser(self.wires, "master-1", seals)
        self.released = 0
        self.now_ms = 1_000
        self.ids = itertools.count(1)
        self.next_resend_ms = self.now_ms + RESEND_MS
        self.inputs: list[Input] = []
        self.running: dict[AttemptId, int] = {}
        """The attempts that have a process, and for how many steps more."""
        self.launched: dict[AttemptId, TaskDeployment] = {}
        self.heard: list[bytes] = []
        self.loop = self._new_loop()

    def _new_loop(self) -> MainLoop:
        settings = ProtocolSettings(
            task_manager_id=NAME,
            host="h",
            process_id=1,
            slot_count=SLOTS,
            heartbeat_interval_ms=400,
            self_fence_timeout_ms=1_300,
            kill_timeout_ms=400,
        )
        loop = MainLoop(settings, lambda: f"{NAME}.{next(self.ids)}")
        self.inputs = [partial(loop.protocol.on_positioned, 0)]
        self.running.clear()
        return loop

    def submit(self, job_id: str) -> None:
        """Submit a job that is restarted however often somebody ends it."""
        restarts = {"type": "fixed-delay", "attempts": 1_000_000, "delay_ms": 10}
        self.cluster.submit(graph(vertex("a"), vertex("b"), edges=[("a", "b", "rebalance")], restart_strategy=restarts), job_id=job_id)

    def hear(self, key: bytes | None, value: bytes) -> None:
        """Take a record of `deployments`, as the thread that reads it does."""
        if not is_for(key, NAME):
            return
        self.heard.append(value)
        try:
            envelope = self.codecs.decode_deployment(value)
        except UndecodableRecord:
            return
        self.inputs.append(partial(self.loop.protocol.on_deployment, envelope))

    def step(self) -> None:
        """Let a little time pass: the TaskExecutor has a turn, and the leader decides what it says."""
        self.now_ms += STEP_MS
        for attempt in [attempt for attempt, steps in self.running.items() if steps <= 0]:
            self._ends(attempt, Finished(_outputs_of(self.launched[attempt])))
        for attempt in self.running:
            self.running[attempt] -= 1
        inputs, self.inputs = self.inputs, []
        for action in self.loop.turn(self.now_ms, 1_800_000_000_000 + self.now_ms, inputs):
            self._perform(action)
        self._check_slots()
        self.cluster.pass_time(STEP_MS)
        self.cluster.settle()
        fresh, self.released = self.cluster.released[self.released :], len(self.cluster.released)
        for released in fresh:
            self._release(released)
        if self.now_ms >= self.next_resend_ms:
            self.next_resend_ms = self.now_ms + RESEND_MS
            acceptance = self.cluster.fold.acceptance
            said = (self.cluster.fold.last_offset, acceptance.epoch, acceptance.sequence, acceptance.leader_id)
            self._release(Released(*said, list(unacknowledged(self.cluster.master))))

    def _check_slots(self) -> None:
        """Hold what runs against the slots: what shares one has its allocation in common, and is of different vertices."""
        slots: dict[int, list[TaskDeployment]] = {}
        for attempt in self.running:
            slots.setdefault(self.launched[attempt].slot_index, []).append(self.launched[attempt])
        for index, those in slots.items():
            assert 0 <= index < SLOTS, f"slot not found: {index}"
            assert len({each.allocation_id for each in those}) == 1, f"two allocations are in slot {index}"
            assert len({(each.job_id, each.vertex_id) for each in those}) == len(those), f"a vertex is twice in slot {index}"

    def _release(self, released: Released) -> None:
        self.releaser.release(released, released.epoch)
        for key, value in self.wires.written:
            self.hear(key, value)
        self.wires.written.clear()

    def _perform(self, action: DriverAction) -> None:
        match action:
            case LaunchTask():
                self.running[action.attempt] = TASK_STEPS
                self.launched[action.attempt] = action.deployment
                self._tell(TaskLaunched(action.attempt, 1), TaskInitialized(action.attempt))
            case EndTask() if action.attempt in self.running:
                self._ends(action.attempt, Killed(15))
            case ReleaseSpark():
                self._tell(SparkReleased(action.attempt))
            case TakeCheckpoint():
                self._tell(CheckpointDeclined(action.attempt, action.checkpoint_id, "it is no stream"))
            case StartForkServer():
                self._tell(ForkServerReady())
            case EndForkServer():
                self.running.clear()
                self._tell(ForkServerDied(action.reason))
            case Stopped():
                self.loop = self._new_loop()  # Its supervisor starts it again.
            case _:
                self._send(action)

    def _send(self, action: DriverAction) -> None:
        match action:
            case SendReports():
                for reports, value in self.codecs.encode_reports(action.reports):
                    self.cluster.put(Topic.TASKMANAGERS, value, NAME.encode())
                    self.inputs.append(partial(self.loop.protocol.on_reports_delivered, reports))
            case SendHeartbeat():
                self.inputs.append(partial(self.loop.protocol.on_heartbeat_acknowledged, action.sent_at_ms))
            case UploadFile():
                ended = partial(self.loop.protocol.on_upload_completed, action.instance_id, action.order.request_id, None, "no such file")
                self.inputs.append(ended)
            case _:
                pass

    def _ends(self, attempt: AttemptId, outcome: Finished | Killed) -> None:
        del self.running[attempt]
        self._tell(TaskProcessEnded(attempt, outcome))

    def _tell(self, *events: ProcessEvent) -> None:
        self.inputs += [partial(self.loop.protocol.on_process_event, event) for event in events]

    def run_until_finished(self, job_id: str) -> None:
        """Let time pass until a job has finished."""
        for _ in range(MOST_STEPS):
            self.step()
            if self.cluster.job(job_id).status is JobStatus.FINISHED:
                return
        protocol = self.loop.protocol
        told = f"epoch {protocol.newest_epoch}, {protocol.phase.name}, {protocol.free_slots} slots free"
        raise AssertionError(f"it does not obey: {job_id} is {self.cluster.job(job_id).status}; {told}")


def _outputs_of(deployment: TaskDeployment) -> tuple[OutputLocation, ...]:
    names = deployment.outputs[:10] or ("default",)
    return tuple(output_of(deployment, name) for name in names)


class TaskExecutor:
    """A TaskExecutor that hears what anybody writes to `deployments`."""

    bursts = 4

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        self.name = name_of("taskexecutor", seals)
        self._seals = seals

    def messages(self) -> st.SearchStrategy[Message]:
        """Return records of `deployments`, with what its own leader says of its own instances and attempts among them."""
        pair = Obeyed(self._seals)
        for number in range(4):
            pair.submit(f"job{number}")
            pair.run_until_finished(f"job{number}")
        pair.cluster.submit(graph(stream("s"), checkpointing={"interval_ms": 100}), job_id="stream")
        pair.cluster.cancel("stream")
        for _ in range(20):
            pair.step()
        others = [value for _, value in recorded()[Topic.DEPLOYMENTS]][::4]
        values = Avro(ENVELOPES[Topic.DEPLOYMENTS], [*dict.fromkeys(pair.heard), *others]).records()
        keys = st.sampled_from([NAME.encode(), NAME.encode(), b"", b"other", None])
        return sealed_messages(st.builds(Message, st.just(str(Topic.DEPLOYMENTS)), values, keys), self._seals)

    def check(self, case: Sequence[Message]) -> None:
        """Let it hear the case while a job runs; then another job has to finish."""
        pair = Obeyed(self._seals)
        pair.submit("job0")
        for message in as_written(case, self._seals):
            waiting = len(pair.inputs)
            pair.hear(message.key, message.value)
            assert is_believed(message, self._seals) or len(pair.inputs) == waiting, "what has no valid seal is heard"
            pair.step()
        pair.submit("job1")
        pair.run_until_finished("job1")

    def close(self) -> None:
        """Nothing was started."""
