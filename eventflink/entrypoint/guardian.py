"""The guardian of one master: a process of its own that says on `leadership` that its master's leadership is over, as its last will has it.

Started by `guardian_link.py` in a session of its own, it reads wills from standard input, each a line: what it is to say, encoded by its
master, so that it starts and speaks without the classes and schemas of all records. When the input ends, the last one is said, unless
there is none: a master that has resigned, or that another one has followed, has made it void. Then the guardian ends, and after a lease in
any case: by then its word is of no use to anybody.

What its master decides stands in memory that both share (P10). So the guardian knows at which input its master died, and says that, too;
and it sees when its master hangs. It says so before a lease is over: who leads next comes to the same input. A master that is at one input
for `HANG_LEASES` is killed, for it would neither lead nor follow again.
"""

import argparse
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import Final, NamedTuple

from eventflink.events.last_words import with_text
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic
from eventflink.log.last_record import produce_last_record
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes.guardian_process import read_owner
from eventflink.processes.shared_note import Noted, SharedNote

_LOGGER = logging.getLogger(__name__)

LOOKS_PER_LEASE: Final = 8
HANG_LOOKS: Final = LOOKS_PER_LEASE // 2
HANG_LEASES: Final = 10
"""A machine that is slow or stands still for a moment is no reason to kill: until then the master may come back as a standby."""


class Will(NamedTuple):
    """What is said of a leader: records without a seal, and without the input that it decides."""

    epoch: int
    death: bytes
    """A `LeaderDeath`."""
    hang: bytes
    """A `LeaderHang`."""


def line_of(will: Will | None) -> bytes:
    """Return a will as a line."""
    return f"{will.epoch} {will.death.hex()} {will.hang.hex()}\n".encode() if will is not None else b"0\n"


def will_of(line: bytes) -> Will | None:
    """Return what a line says."""
    epoch, *records = line.decode().split()
    return Will(int(epoch), *map(bytes.fromhex, records)) if records else None


@dataclass(slots=True)
class HangWatch:
    """For how many looks in a row a master has been at one input. Counted are looks, not time: a host that stands still has none."""

    _last: Noted | None = None
    looks: int = 0

    def look(self, noted: Noted) -> None:
        """Take note of what it decides now."""
        self.looks = self.looks + 1 if noted.text and noted == self._last else 0
        self._last = noted

    @property
    def is_new(self) -> bool:
        """Whether it begins to count as hanging."""
        return self.looks == HANG_LOOKS

    @property
    def is_for_good(self) -> bool:
        """Whether it will not come back."""
        return self.looks >= LOOKS_PER_LEASE * HANG_LEASES


@dataclass(frozen=True, slots=True)
class Guardian:
    """Of one master."""

    access: ClusterAccess
    process_id: int
    lease_s: float
    note: SharedNote

    def watch(self) -> int:
        """Watch until the master ends, and say so; return the exit code."""
        will: Will | None = None
        hang = HangWatch()
        for line in read_owner(self.lease_s / LOOKS_PER_LEASE):
            if line:
                will = will_of(line)
                continue
            hang.look(self.note.read())
            if hang.is_new and will is not None:
                self._say("LeaderHangReported", will.epoch, will.hang)
            if hang.is_for_good:
                self._kill()
        return 0 if will is None or self._say("LeaderDeathReported", will.epoch, will.death) else 1

    def _say(self, name: str, epoch: int, record: bytes) -> bool:
        """Produce the record, with what is decided now; tell whether Kafka has it."""
        deciding, seal = self.note.read().text, seals_of(self.access).of(Topic.LEADERSHIP)
        value = with_text(record, deciding)
        value = value if seal is None else seal.sealed(value)
        told = produce_last_record(self.access, Topic.LEADERSHIP, "leader", value, self.lease_s)
        _LOGGER.info("%s process_id=%d epoch=%d deciding=%s told=%s", name, self.process_id, epoch, deciding or "nothing", told)
        return told

    def _kill(self) -> None:
        """Kill the master; as long as it is the parent of this process, it is nobody else who has its id now."""
        if os.getppid() == self.process_id:
            _LOGGER.error("HangingMasterKilled process_id=%d deciding=%s", self.process_id, self.note.read().text)
            os.kill(self.process_id, signal.SIGKILL)


def main() -> int:
    """Watch one master until it ends; return the exit code."""
    parser = argparse.ArgumentParser(description="Watches one master; started by it.")
    parser.add_argument("--access", required=True, type=ClusterAccess.of_text, help="how the cluster is reached, as JSON")
    parser.add_argument("--process-id", required=True, type=int)
    parser.add_argument("--timeout-ms", required=True, type=int)
    parser.add_argument("--note", required=True, type=int, help="descriptor of the memory that tells what is decided")
    asked = parser.parse_args()
    guardian = Guardian(asked.access, asked.process_id, asked.timeout_ms / 1000, SharedNote(asked.note))
    return guardian.watch()


if __name__ == "__main__":
    sys.exit(main())
