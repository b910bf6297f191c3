"""Several masters over one log that is a list: real participants, whose wires and clock a test holds in its hands.

Nothing happens by itself: `step` lets time pass, hands each master what it has not read yet, and gives it its tick and its turns. A
master can be frozen, or its records held back; a term that ends is followed by another one over the same inboxes, as in a process.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderDeath
from eventflink.events.inputs import Command
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.election import Election, LogElection, Peers, Said
from eventflink.leadership.fold import Fold
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import HEARD_BACK_RECORDS, InboundRecord, InboundTopic, Intake
from eventflink.leadership.leader import LeadershipEnded
from eventflink.leadership.log_clock import LogSightings
from eventflink.leadership.participant import Participant
from eventflink.leadership.ports import Observer, ParticipantSettings
from eventflink.master.effects import ArchiveJob, CleanUp, CursorWatch, DrillOrder, FileWatch, TableWatch, WorkerOrder
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.model.statuses import Role
from tests.support.cluster import CODEC, COMMANDS, START_MS, EventType, new_fold

STEP_MS = 10
LEASE_MS = 1_000
MAX_TURNS = 100_000
LEADERSHIP = PayloadCodec("LeadershipEnvelope")
REPLIES = PayloadCodec("ReplyEnvelope")
DEPLOYMENTS = PayloadCodec("DeploymentEnvelope")
DEAD_LETTERS = PayloadCodec("DeadLetterEnvelope")
HEARTBEATS = PayloadCodec("HeartbeatEnvelope")

_CODECS = {Topic.LEADERSHIP: LEADERSHIP, Topic.REPLIES: REPLIES, Topic.DEPLOYMENTS: DEPLOYMENTS, Topic.DEAD_LETTERS: DEAD_LETTERS}


@dataclass(slots=True)
class Produced:
    """A record that a master produced."""

    master_id: str
    topic: Topic
    key: str
    value: bytes
    partition: int

    @property
    def payload(self) -> Any:
        return _CODECS[self.topic].decode(self.value)[0]

    @property
    def fields(self) -> dict[str, Any]:
        return _CODECS[self.topic].decode(self.value)[1]


@dataclass
class ListWires:
    """The wires of one master: its records go to the lists of the world, or stay with it while they are held back."""

    world: "World"
    master_id: str
    is_cut: bool = False
    """Its appends reach nobody."""
    clean_ups: list[CleanUp] = field(default_factory=list)
    archives: list[ArchiveJob] = field(default_factory=list)
    drill_steps: list[DrillOrder] = field(default_factory=list)
    worker_orders: list[tuple[WorkerOrder, int]] = field(default_factory=list)
    grown_to: int = 0
    """So many partitions `deployments` is to have at least, by its last word."""
    will: LeaderDeath | None = None
    """What its guardian says when it dies."""
    deciding: str = ""
    """What its guardian knows that it decides."""
    calls: list[tuple[str, str]] = field(default_factory=list)

    def append_decision(self, value: bytes) -> None:
        if not self.is_cut:
            self.world.append(value)

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        self.world.produced.append(Produced(self.master_id, topic, key, value, partition))
        if topic is Topic.LEADERSHIP:
            self.world.leadership.append(value)
        elif topic is Topic.HEARTBEATS:
            self.world.heartbeats.append(value)

    def leave_will(self, will: LeaderDeath | None) -> None:
        self.will = will

    def note_deciding(self, name: str) -> None:
        self.deciding = name

    def clean_up(self, order: CleanUp) -> None:
        self.clean_ups.append(order)

    def archive(self, order: ArchiveJob) -> None:
        self.archives.append(order)

    def watch_outside(self, topics: Iterable[CursorWatch], tables: Iterable[TableWatch], files: Iterable[FileWatch]) -> None:
        """There are no topics, tables and files."""

    def grow_deployments(self, partitions: int) -> None:
        self.grown_to = partitions

    def order_worker(self, order: WorkerOrder, epoch: int) -> None:
        self.worker_orders.append((order, epoch))

    def drill(self, order: DrillOrder) -> None:
        self.drill_steps.append(order)

    def poll(self) -> None:
        """Nothing fails: what is cut off is noticed by its silence."""

    def pause(self, topic: Topic) -> None:
        self.calls.append(("pause", str(topic)))

    def resume(self, topic: Topic) -> None:
        self.calls.append(("resume", str(topic)))


@dataclass
class Node:
    """One master process."""

    world: "World"
    master_id: str
    settings: MasterSettings
    election: Election
    peers: Peers
    new_fold: Callable[[MasterSettings], Fold]
    window_size: int
    capacity: int
    topics: dict[str, InboundTopic]
    observer: Observer
    intake: Intake = field(init=False)
    wires: ListWires = field(init=False)
    participant: Participant = field(init=False)
    sightings: LogSightings = field(default_factory=LogSightings)
    ends: list[Exception] = field(default_factory=list)
    is_frozen: bool = False
    is_blind: bool = False
    """Nothing more of the log reaches it."""
    is_deaf: bool = False
    """Nothing more of `leadership` reaches it."""
    reads_inputs: bool = True
    turns: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    terms: int = 0

    def __post_init__(self) -> None:
        self.wires = ListWires(self.world, self.master_id)
        self.intake = Intake(self.topics, self.capacity, self.wires.pause, self.wires.resume)
        said = max(0, len(self.world.leadership) - HEARD_BACK_RECORDS)
        self.positions = {"log": len(self.world.log), "leadership": said, "heartbeats": len(self.world.heartbeats)}
        fold = self._replayed()
        for topic in INBOUND:
            cursor, found = fold.master.requests.cursors.get(topic), self.topics[topic]
            starts_empty = cursor is None or found.is_rebound
            self.positions[topic] = found.low_offset if starts_empty or cursor is None else max(found.low_offset, cursor.next_offset)
            if found.is_rewound:
                self.positions[topic] = found.high_offset
        self.begin(fold)

    def _replayed(self) -> Fold:
        fold = self.new_fold(self.settings)
        for offset in range(self.positions["log"]):
            fold.fold_record(offset, self.world.timestamps[offset], self.world.log[offset])
        return fold

    def begin(self, fold: Fold | None = None) -> None:
        """Begin a term over the same inboxes and the same tail."""
        self.terms += 1
        fold = fold or self._replayed()
        self.sightings.rebuilt(fold.acceptance, self.world.now_ms)
        self.participant = Participant(
            settings=ParticipantSettings(
                seals=self.world.seals,
                master_id=self.master_id,
                incarnation=f"{self.master_id}-process",
                blob_address=f"{self.master_id}:1",
                lease_timeout_ms=LEASE_MS,
                window_size=self.window_size,
                feature_level_wait_ms=self.world.feature_level_wait_ms,
            ),
            fold=fold,
            decoder=InboundDecoder(seals=self.world.seals),
            intake=self.intake,
            election=self.election,
            peers=self.peers,
            wires=self.wires,
            mint_leader_id=self.world.mint_leader_id,
            sightings=self.sightings,
            observer=self.observer,
        )
        self.election.begin(self.world.now_ms)
        if not self.participant.fold.acceptance.epoch:
            self.election.never_granted(self.world.now_ms)

    @property
    def role(self) -> Role:
        return self.participant.role

    @property
    def master(self) -> Master:
        return self.participant.fold.master

    def receive(self) -> None:
        """Hand over what has not been read yet, except what is paused."""
        world, participant = self.world, self.participant
        if not self.is_deaf:
            for value in world.leadership[self.positions["leadership"] :]:
                participant.on_leadership(value, world.now_ms)
            self.positions["leadership"] = len(world.leadership)
        for value in world.heartbeats[self.positions["heartbeats"] :]:
            participant.on_heartbeat(value, world.now_ms)
        self.positions["heartbeats"] = len(world.heartbeats)
        if not self.is_blind:
            for offset in range(self.positions["log"], len(world.log)):
                self.intake.on_record(Topic.LOG, offset, world.timestamps[offset], None, world.log[offset], world.now_ms)
            self.positions["log"] = len(world.log)
        for topic in INBOUND if self.reads_inputs else ():
            for record in [r for r in world.inbound[topic] if r.offset >= self.positions[topic]]:
                if topic in self.intake.is_paused:
                    break
                self.positions[topic] = record.offset + 1
                self.intake.enqueue(record)

    def act(self) -> None:
        """Give it a tick, and turns while more waits or its own records come back; a term that ends is followed by another one."""
        world = self.world
        try:
            self.participant.tick(world.now_ms, world.wall_ms)
            for _ in range(MAX_TURNS):
                self.receive()
                self.turns += 1
                if not self.participant.turn(lambda: world.now_ms, world.wall_ms) and self.positions["log"] == len(world.log):
                    return
                if self.is_blind and not self.intake.log:
                    return
        except (LeadershipEnded, LogNotDense) as error:
            self.ends.append(error)
            self.participant.step_down(str(error))
            self.positions["log"] = len(world.log)
            self.begin()
            return
        raise AssertionError(f"{self.master_id} does not come to rest")


@dataclass
class World:
    """The log, the topics, the clock, and the masters."""

    now_ms: int = 5_000
    wall_offset_ms: int = 0
    """By how much the masters' wall clocks are ahead."""
    stamp_offset_ms: int = 0
    """By how much the clock is ahead of the broker that has the log's partition."""
    feature_level_wait_ms: int = 0
    seals: Seals = NO_SEALS
    """What its masters have."""
    log: list[bytes] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    leadership: list[bytes] = field(default_factory=list)
    heartbeats: list[bytes] = field(default_factory=list)
    inbound: dict[str, list[InboundRecord]] = field(default_factory=lambda: {str(t): [] for t in INBOUND})
    produced: list[Produced] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    minted: int = 0
    new_fold: Callable[[MasterSettings], Fold] = new_fold
    """Of the version that reads the log here, and of masters of which nothing else is said."""

    @property
    def wall_ms(self) -> int:
        return START_MS + self.now_ms + self.wall_offset_ms

    def mint_leader_id(self) -> str:
        self.minted += 1
        return f"leader-{self.minted}"

    def append(self, value: bytes) -> None:
        self.log.append(value)
        self.timestamps.append(START_MS + self.now_ms + self.stamp_offset_ms)

    def start(
        self,
        master_id: str,
        *,
        settings: MasterSettings | None = None,
        election: Election | None = None,
        new_fold: Callable[[MasterSettings], Fold] | None = None,
        window_size: int = 1024,
        capacity: int = 10_000,
        topics: Mapping[str, InboundTopic] | None = None,
        observer: Observer | None = None,
    ) -> Node:
        """Start a master; one of the same id that was there is gone."""
        found = {str(t): InboundTopic(f"id-of-{t}", 0, len(self.inbound[t])) for t in INBOUND} | dict(topics or {})
        peers = Peers(LEASE_MS, self.feature_level_wait_ms)
        election = election or LogElection(master_id, f"{master_id}-process", peers)
        node = Node(
            self,
            master_id,
            settings or MasterSettings(),
            election,
            peers,
            new_fold or self.new_fold,
            window_size,
            capacity,
            found,
            observer or Observer(),
        )
        self.nodes[master_id] = node
        return node

    def kill(self, node: Node, *, is_guarded: bool = False) -> None:
        """Let a process vanish; its guardian may survive it, and say so."""
        del self.nodes[node.master_id]
        if is_guarded and node.wires.will is not None:
            self.leadership.append(LEADERSHIP.encode(replace(node.wires.will, deciding=node.wires.deciding)))

    def step(self) -> None:
        """Let a little time pass, in which every master acts."""
        self.now_ms += STEP_MS
        for node in list(self.nodes.values()):
            if not node.is_frozen:
                node.receive()
                node.act()

    def run(self, milliseconds: int) -> None:
        for _ in range(milliseconds // STEP_MS):
            self.step()

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 20_000) -> int:
        """Step until something holds; return how long it took."""
        began = self.now_ms
        while not condition():
            assert self.now_ms - began < limit_ms, "it never came to that"
            self.step()
        return self.now_ms - began

    def leader(self) -> Node:
        """Return the master that leads, stepping until there is one."""
        self.run_until(lambda: any(n.role is Role.LEADER and not n.is_frozen for n in self.nodes.values()))
        return next(n for n in self.nodes.values() if n.role is Role.LEADER and not n.is_frozen)

    # -- what is said ----------------------------------------------------------------------------------------------

    def put(self, topic: Topic, value: bytes, key: bytes | None = None) -> int:
        records = self.inbound[topic]
        offset = records[-1].offset + 1 if records else 0
        records.append(InboundRecord(str(topic), offset, key, value))
        return offset

    def command(self, request_id: str, **document: Any) -> int:
        """Ask for the end of a job that is not there: the smallest of inputs."""
        fields = {"type": "CancelJob", "job_id": "none", "request_id": request_id, "reply_partition": 0, **document}
        return self.put(Topic.COMMANDS, json.dumps(fields).encode())

    def submit(self, graph: Mapping[str, Any], job_id: str, request_id: str = "") -> int:
        fields = {"job_graph": graph, "job_id": job_id, "request_id": request_id, "reply_partition": 0}
        return self.put(Topic.SUBMISSIONS, json.dumps(fields).encode())

    def send(self, command: Command) -> int:
        return self.put(Topic.COMMANDS, COMMANDS.encode(command, sent_at_ms=self.wall_ms))

    # -- what is to be seen ----------------------------------------------------------------------------------------

    def said(self, *kinds: type[EventType]) -> list[EventType]:
        """Return what was said on `leadership`, of these classes."""
        assert set(kinds) <= set(get_args(Said))
        payloads = [LEADERSHIP.decode(v)[0] for v in self.leadership]
        return [p for p in payloads if isinstance(p, kinds)]

    def replies(self, master_id: str = "") -> list[Produced]:
        return [p for p in self.produced if p.topic is Topic.REPLIES and master_id in ("", p.master_id)]

    def answered(self, master_id: str = "") -> list[str]:
        """Return the ids of the requests that were answered, in order."""
        return [p.payload.request_id for p in self.replies(master_id)]

    def accepted(self) -> Fold:
        """Fold the whole log."""
        fold = self.new_fold(MasterSettings())
        for offset, value in enumerate(self.log):
            fold.fold_record(offset, self.timestamps[offset], value)
        fold.master.validate()
        return fold

    def events(self, *kinds: type[EventType]) -> list[EventType]:
        """Return the events of these classes of the accepted decisions."""
        fold = self.new_fold(MasterSettings())
        found: list[EventType] = []
        for offset, value in enumerate(self.log):
            decision = fold.fold_record(offset, self.timestamps[offset], value)
            found += [e for e in decision.events if isinstance(e, kinds)] if decision is not None else []
        return found

    def check(self) -> None:
        """Compare every master that is at rest with a replay of the log."""
        fold = self.accepted()
        for node in self.nodes.values():
            mine = node.participant.fold
            if not node.is_frozen and mine.last_offset == fold.last_offset and node.participant.is_drained:
                assert mine.master.digest() == fold.master.digest(), node.master_id
                assert mine.running_hash == fold.running_hash, node.master_id

    def decision_count(self) -> int:
        return len([v for v in self.log if CODEC.decode(v).sequence])
