"""What a leader reads: `submissions`, `commands`, `taskmanagers`, `heartbeats`, `leadership`; and a standby beside it.

The laws of a leader: each record of the inbound topics is answered by a decision (P7), none is too much for the master itself (P10), it
leads on, the state keeps its invariants and is that of a cold replay, and the next job runs. The laws of two masters that hear each other:
one leads, decides what comes, and is followed when it is killed. With a secret: what has no valid seal is refused where it is answered, and
elsewhere the log is, byte for byte, what it is without it.
"""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from eventflink.events.inputs import TaskManagerRegistration
from eventflink.events.log_events import InputParked, RequestRejected
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import INBOUND, MAX_DECISION_BYTES, Topic
from eventflink.model.statuses import JobStatus
from tests.fuzz.corpus_files import ENVELOPES, Message
from tests.fuzz.generation import ODD_JSON, Avro, changed_documents, json_bytes, mutated, recorded
from tests.fuzz.sealing import as_written, is_believed, name_of, sealed_messages
from tests.support.cluster import ScriptedCluster, graph, new_fold, replay, stream, vertex
from tests.support.participants import World
from tests.support.scenarios import busy_cluster

MOST_MS_WITHOUT_A_LEADER: Final = 10_000
"""Ten leases: one to notice, and some for what was said in vain."""

SOFT: Final = (Topic.HEARTBEATS, Topic.LEADERSHIP)

COMMANDS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "CancelJob", "job_id": "running", "request_id": "r1", "reply_partition": 0, "actor": "me"},
    {"type": "SuspendJob", "job_id": "running", "reason": "why", "leader_id": "leader-1", "job_master_id": "running-1"},
    {"type": "RescaleJob", "job_id": "adaptive", "vertex_id": "a", "parallelism": 2},
    {"type": "BlockTaskManager", "task_manager_id": "tm1", "reason": "why", "duration_ms": 1_000},
    {"type": "RequestFileUpload", "job_id": "running", "vertex_id": "a", "subtask_index": 0, "attempt": 1, "file": "LOG"},
    {"type": "TriggerSavepoint", "job_id": "streams", "target_directory": "/s", "mode": "CANCEL"},
    {"type": "ReleaseParkedInput", "parked_id": "parked-1"},
)
SUBMISSIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "job_id": "new",
        "request_id": "r2",
        "reply_partition": 1,
        "actor": "me",
        "job_graph": graph(vertex("a", 2), vertex("b", 2), edges=[("a", "b", "hash")]),
    },
    {"job_id": "new-stream", "job_graph": graph(stream("s", 2), checkpointing={"interval_ms": 100})},
    graph(
        vertex("only", task_heap_memory="1g"), scheduler="adaptive", restart_strategy={"type": "fixed-delay", "attempts": 1, "delay_ms": 1}
    ),
)


def _records(topic: Topic) -> st.SearchStrategy[Message]:
    found = recorded()[topic]
    keys = st.one_of(st.none(), st.sampled_from([key for key, _ in found]), st.binary(max_size=6))
    values = Avro(ENVELOPES[topic], [value for _, value in found]).records()
    if topic in (Topic.SUBMISSIONS, Topic.COMMANDS):
        documents = COMMANDS if topic is Topic.COMMANDS else SUBMISSIONS
        written = changed_documents([*documents, *ODD_JSON]).map(json_bytes)
        values = st.one_of(values, written, mutated([json_bytes(document) for document in documents]))
    return st.builds(Message, st.just(str(topic)), values, keys)


class Leader:
    """A leader of a cluster in which everything is under way."""

    bursts = 12

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        self.name = name_of("leader", seals)
        self._seals = seals
        self._base = busy_cluster(seals)

    def messages(self) -> st.SearchStrategy[Message]:
        """Return records of every topic that a leader reads."""
        recorded_here = [(topic, [(r.key, r.value or b"") for r in records]) for topic, records in self._base.inbound.items()]
        known = [st.sampled_from([Message(topic, value, key) for key, value in records]) for topic, records in recorded_here]
        topics = (Topic.SUBMISSIONS, Topic.COMMANDS, Topic.TASKMANAGERS, Topic.TASKMANAGERS, *SOFT)
        return sealed_messages(st.one_of(*map(_records, topics), *known), self._seals)

    def check(self, case: Sequence[Message]) -> None:
        """Have a new leader over the same log decide what comes."""
        case = as_written(case, self._seals)
        cluster = self._led(case)
        heard = [message for message in case if message.to not in SOFT or is_believed(message, self._seals)]
        if len(heard) < len(case):
            assert self._led(heard).log == cluster.log, "what has no valid seal had an effect"
        leader, master = cluster.leader, cluster.master
        assert leader.failure is None
        for topic in INBOUND:
            assert master.requests.cursors[topic].next_offset == len(cluster.inbound[topic]), f"a record of {topic} was not answered"
        fresh = range(len(self._base.log), len(cluster.log))
        assert max((len(cluster.log[offset]) for offset in fresh), default=0) <= MAX_DECISION_BYTES
        assert not cluster.events(InputParked), "an input was too much for the master"
        failed = [rejected.message for rejected in cluster.events(RequestRejected) if rejected.code == "InternalError"]
        assert not failed, failed
        master.validate()
        self._run_a_job(cluster)
        cold = replay(cluster.log, timestamps=cluster.timestamps, seals=self._seals)
        assert cold.master.digest() == master.digest(), "a cold replay leads to another state"

    def _led(self, case: Sequence[Message]) -> ScriptedCluster:
        cluster = self._new_leader()
        for message in case:
            end = len(cluster.log)
            self._read(cluster, message)
            if message.to == Topic.TASKMANAGERS and not is_believed(message, self._seals):
                said = [event for decision in cluster.decisions_from(end) for event in decision.events]
                assert all(isinstance(event, RequestRejected) for event in said), f"a report without a seal counts: {said}"
        return cluster

    def _new_leader(self) -> ScriptedCluster:
        cluster = ScriptedCluster(self._base.settings, check_digests=False, check_states=False, seals=self._seals)
        cluster.terms = self._base.terms
        cluster.log, cluster.timestamps = list(self._base.log), list(self._base.timestamps)
        cluster.inbound = {topic: list(records) for topic, records in self._base.inbound.items()}
        cluster.monotonic_ms, cluster.wall_ms = self._base.monotonic_ms, self._base.wall_ms
        cluster.fail_over()
        cluster.settle()
        return cluster

    @staticmethod
    def _read(cluster: ScriptedCluster, message: Message) -> None:
        if message.to == Topic.HEARTBEATS:
            cluster.participant.on_heartbeat(message.value, cluster.monotonic_ms)
        elif message.to == Topic.LEADERSHIP:
            cluster.participant.on_leadership(message.value, cluster.monotonic_ms)
        else:
            cluster.put(Topic(message.to), message.value, message.key)
            cluster.settle()

    @staticmethod
    def _run_a_job(cluster: ScriptedCluster) -> None:
        if cluster.master.shutdown.is_under_way:
            return  # Somebody has ended the cluster, in order.
        number = len(cluster.log)
        cluster.say(TaskManagerRegistration(f"honest-{number}", f"honest-{number}-1", "h", 1, 64))
        cluster.run(cluster.submit(graph(vertex("last")), job_id=f"last-{number}", request_id=f"last-{number}"))
        assert cluster.job(f"last-{number}").status is JobStatus.FINISHED

    def close(self) -> None:
        """Nothing was started."""


class Masters:
    """Two masters, of which one leads, and everything that both hear."""

    bursts = 2

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        self.name = name_of("masters", seals)
        self._seals = seals

    def messages(self) -> st.SearchStrategy[Message]:
        """Return records of `leadership`, with what these very masters would say among them, and some of `heartbeats` and inputs."""
        world = self._new_world()
        world.run(300)
        world.kill(world.leader(), is_guarded=True)
        world.leader()
        own = Avro(ENVELOPES[Topic.LEADERSHIP], world.leadership).records()
        said = st.builds(Message, st.just(str(Topic.LEADERSHIP)), own)
        others = map(_records, (Topic.LEADERSHIP, Topic.HEARTBEATS, Topic.TASKMANAGERS))
        return sealed_messages(st.one_of(said, said, *others), self._seals)

    def check(self, case: Sequence[Message]) -> None:
        """Let them hear it while time passes; then the leader is killed."""
        case = as_written(case, self._seals)
        world = self._hearing(case)
        heard = [None if message.to in SOFT and not is_believed(message, self._seals) else message for message in case]
        if None in heard:
            assert self._hearing(heard).log == world.log, "what has no valid seal had an effect"
        self._decide(world, "first")
        world.kill(world.leader())
        self._decide(world, "second")
        world.run(50)
        world.check()

    def _hearing(self, case: Sequence[Message | None]) -> World:
        world = self._new_world()
        world.leader()
        for message in case:
            if message is None:
                pass  # Nothing is said, while time passes as if there were something.
            elif message.to == Topic.LEADERSHIP:
                world.leadership.append(message.value)
            elif message.to == Topic.HEARTBEATS:
                world.heartbeats.append(message.value)
            else:
                world.put(Topic(message.to), message.value, message.key)
            world.run(60)
        return world

    def _new_world(self) -> World:
        world = World(seals=self._seals, new_fold=lambda settings: new_fold(settings, self._seals))
        world.start("m1")
        world.start("m2")
        return world

    @staticmethod
    def _decide(world: World, request_id: str) -> None:
        world.command(request_id)
        world.run_until(lambda: request_id in world.answered(), limit_ms=MOST_MS_WITHOUT_A_LEADER)

    def close(self) -> None:
        """Nothing was started."""
