"""One real participant that a test moves by hand: what it appends comes back when the test says so."""

import json
from collections.abc import Mapping

from eventflink.events.topics import Topic
from eventflink.leadership.election import Peers, SingleMaster
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import InboundRecord
from eventflink.leadership.participant import Participant
from eventflink.leadership.ports import ParticipantSettings
from tests.support.cluster import START_MS, graph, new_fold, vertex
from tests.support.wires import SilentWires, new_intake

NOWHERE = "127.0.0.1:9"


class ListWires(SilentWires):
    """Appends to a list."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []

    def append_decision(self, value: bytes) -> None:
        self.appended.append(value)


class Hand:
    """One participant, moved by hand: a leader once `lead` was called, a standby before."""

    def __init__(self) -> None:
        self.wires = ListWires()
        self.log: list[bytes] = []
        self.now_ms = 0
        self.inputs: dict[Topic, int] = {}
        self.participant = Participant(
            settings=ParticipantSettings(master_id="m-1", incarnation="i-1", blob_address=NOWHERE),
            fold=new_fold(),
            decoder=InboundDecoder(),
            intake=new_intake(),
            election=SingleMaster(),
            peers=Peers(1_000),
            wires=self.wires,
            mint_leader_id=lambda: "leader-1",
        )

    def lead(self) -> None:
        self.participant.tick(self.now_ms, START_MS)
        self.read_back()
        self.settle()
        assert self.participant.leader is not None

    def submit(self, job_id: str, *code_archives: str) -> None:
        """Put a submission into the inbox."""
        document = {"job_id": job_id, "job_graph": graph(vertex("only"), code_archives=list(code_archives))}
        self._put(Topic.SUBMISSIONS, document)

    def put_schedule(self, schedule_id: str, *code_archives: str) -> None:
        """Put a command into the inbox that makes a schedule."""
        definition = {"cron": "@daily", "job": graph(vertex("only"), code_archives=list(code_archives))}
        self._put(Topic.COMMANDS, {"type": "PutSchedule", "schedule_id": schedule_id, "definition": definition})

    def _put(self, topic: Topic, document: Mapping[str, object]) -> None:
        offset = self.inputs.get(topic, 0)
        self.inputs[topic] = offset + 1
        self.participant.intake.enqueue(InboundRecord(str(topic), offset, None, json.dumps(document).encode()))

    def decide(self) -> None:
        """Decide what waits; nothing is read back."""
        self.participant.turn(lambda: self.now_ms, START_MS)

    def read_back(self) -> None:
        """Read back whatever was appended, all of it at once."""
        for value in self.wires.appended:
            self.participant.intake.on_record(Topic.LOG, len(self.log), START_MS, None, value, self.now_ms)
            self.log.append(value)
        self.wires.appended.clear()
        self.participant.read_back(self.now_ms)

    def settle(self) -> None:
        self.decide()
        while self.wires.appended:
            self.read_back()
            self.decide()

    def settle_all(self) -> None:
        """Read back what was decided already, and whatever follows from it."""
        self.read_back()
        self.settle()

    def follow(self, log: list[bytes]) -> None:
        """Be a standby that reads these records."""
        self.wires.appended.extend(log)
        self.read_back()
