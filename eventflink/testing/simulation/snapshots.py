"""Snapshots in a run: taken, damaged, confirmed, trimmed behind, started from; the real snapshot, its checks and its decisions (P18).

What `snapshots/snapshotter.py` does with Kafka in a process of its own is done here with the simulated broker, in the same steps: who
takes a snapshot folds the log by itself, who confirms one computes the state without it, and nothing is trimmed that is not confirmed.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from eventflink.events.codec import DecisionCodec, PayloadCodec
from eventflink.events.inputs import ConfirmSnapshot, ReportSnapshot
from eventflink.events.snapshot_records import SnapshotManifest, SnapshotPayload
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.known_log import KnownLog, LogTruncated
from eventflink.master.master import Master
from eventflink.master.settings import MasterSettings
from eventflink.snapshots.search import ENVELOPE, MANIFEST, SnapshotSearch, record_key
from eventflink.snapshots.snapshot import LogRange, SnapshotUnusable, check_history, encode_fold, restore_snapshot, take_snapshot
from eventflink.testing.simulation.broker import Broker, Partition
from eventflink.testing.simulation.producer import SimulatedProducer
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_DAMAGED_SHARE: Final = 0.15
_UNFINISHED_SHARE: Final = 0.15
_LOG_ID: Final = "id-of-log"

NewMaster = Callable[[MasterSettings], Master]
"""Makes a master that has folded nothing."""


def log_codec(broker: Broker) -> DecisionCodec:
    """Return what reads the log as whoever has the cluster's secret does."""
    return DecisionCodec(seal=broker.seals.of(Topic.LOG))


def load_fold(
    broker: Broker,
    settings: MasterSettings,
    wanted: Callable[[SnapshotManifest], bool] = lambda _: True,
    *,
    verify: bool = False,
    new_master: NewMaster = Master,
) -> Fold:
    """Return the fold of the newest usable snapshot, or of nothing; records of the log come on top.

    Raises:
        LogTruncated: a snapshot was taken of more than the log has, or of other records.
        ViolationFound: there is none, and the log does not begin at its beginning any more.

    """
    log = broker.partition(Topic.LOG)
    log_range = LogRange(_LOG_ID, log.low_offset, log.end_offset)
    search = SnapshotSearch(log_range, wanted, broker.seals.of(Topic.SNAPSHOTS))
    records = broker.partition(Topic.SNAPSHOTS).records
    for number, record in enumerate(reversed(records), 1):
        search.read_record((record.key or b"").decode(), record.value)
        while (found := search.pop_newest(at_the_beginning=number == len(records))) is not None:
            fold = Fold(new_master(settings), log_codec(broker))
            check_history(found.manifest, log_range, _backwards(log, found.manifest.log_offset), log_codec(broker))
            try:
                restore_snapshot(found.manifest, found.chunks, fold, verify=verify)
            except SnapshotUnusable:
                continue
            return fold
    if log.low_offset:
        raise ViolationFound(Invariant.LOG_READABLE, f"the log begins at {log.low_offset}, and no snapshot before it can be used")
    return Fold(new_master(settings), log_codec(broker))


def _backwards(log: Partition, offset: int) -> Iterator[tuple[int, bytes]]:
    while offset >= log.low_offset:
        yield offset, log.records[offset].value or b""
        offset -= 1


def replay(broker: Broker, fold: Fold, end_offset: int | None = None, known: KnownLog | None = None) -> Fold:
    """Fold the log on up to its end, or up to `end_offset`, and return the fold.

    Raises:
        LogTruncated: it has less than is known of it, or other records.
        ViolationFound: it cannot be folded.

    """
    log, known = broker.partition(Topic.LOG), known or KnownLog()
    end_offset = log.end_offset if end_offset is None else end_offset
    first_offset = fold.last_offset + 1
    try:
        for record in log.read(first_offset, end_offset - first_offset):
            fold.fold_record(record.offset, record.timestamp_ms, record.value or b"")
            if record.offset == known.offset:
                known.check(fold)
        known.check(fold)
    except LogTruncated:
        raise
    except (LogUnusable, LogDiverged, LogNotDense) as error:
        raise ViolationFound(Invariant.LOG_READABLE, f"the log cannot be folded from {first_offset} on: {error}") from error
    return fold


class Snapshotter:
    """What one master does for the snapshots of its cluster."""

    def __init__(
        self,
        name: str,
        master_id: str,
        broker: Broker,
        producer: SimulatedProducer,
        rng: Random,
        settings: MasterSettings,
        transcript: Transcript,
    ) -> None:
        self._name = name
        self._master_id = master_id
        self._broker = broker
        self._producer = producer
        self._rng = rng
        self._settings = settings
        self._transcript = transcript
        self._count = 0
        self._codec = PayloadCodec(ENVELOPE, seal=broker.seals.of(Topic.SNAPSHOTS))
        self._commands = PayloadCodec("CommandEnvelope", seal=broker.seals.of(Topic.COMMANDS))

    def work(self) -> None:
        """Take a snapshot, confirm one, or trim the log: whatever is to be done first."""
        fold = replay(self._broker, load_fold(self._broker, self._settings))
        upkeep = fold.master.upkeep
        unconfirmed = [s for s, record in upkeep.snapshots.items() if not record.confirmed_by and record.taken_by != self._master_id]
        confirmed = upkeep.newest_confirmed()
        choice = self._rng.random()
        if unconfirmed and choice < 0.5:  # noqa: PLR2004 - shares
            self._confirm(unconfirmed[-1], tuple(s for s, record in upkeep.snapshots.items() if record.confirmed_by))
        elif confirmed is not None and choice < 0.75:  # noqa: PLR2004 - as above
            self._trim(confirmed)
        else:
            self._take(fold)

    def _take(self, fold: Fold) -> None:
        self._count += 1
        snapshot_id = f"{fold.last_offset}-{self._name}-{self._count}"
        manifest, chunks = take_snapshot(fold, snapshot_id, self._master_id, _LOG_ID)
        for chunk in chunks:
            if self._rng.random() < _DAMAGED_SHARE:
                at = int(self._rng.random() * len(chunk.data))
                chunk.data = chunk.data[:at] + bytes([chunk.data[at] ^ 1]) + chunk.data[at + 1 :]
            self._put(snapshot_id, chunk.chunk_index, chunk)
        if self._rng.random() < _UNFINISHED_SHARE:
            self._transcript.note(self._name, f"does not finish the snapshot {snapshot_id}")
            return
        self._put(snapshot_id, MANIFEST, manifest)
        self._transcript.note(self._name, f"takes the snapshot {snapshot_id}")
        report = ReportSnapshot(
            request_id=f"snapshot-{snapshot_id}",
            snapshot_id=snapshot_id,
            log_offset=manifest.log_offset,
            digest=manifest.digest,
            chunk_count=manifest.chunk_count,
            byte_count=manifest.byte_count,
            taken_by=self._master_id,
        )
        self._producer.produce(Topic.COMMANDS, None, self._commands.encode(report, sent_at_ms=0))

    def _put(self, snapshot_id: str, name: object, payload: SnapshotPayload) -> None:
        self._producer.produce(Topic.SNAPSHOTS, record_key(snapshot_id, name).encode(), self._codec.encode(payload))

    def _load(self, snapshot_id: str) -> Fold | None:
        """Return the fold of just this snapshot, if it can be used."""
        log = self._broker.partition(Topic.LOG)
        log_range, seal = LogRange(_LOG_ID, log.low_offset, log.end_offset), self._broker.seals.of(Topic.SNAPSHOTS)
        search = SnapshotSearch(log_range, lambda m: m.snapshot_id == snapshot_id, seal)
        for record in reversed(self._broker.partition(Topic.SNAPSHOTS).records):
            search.read_record((record.key or b"").decode(), record.value)
        found = search.pop_newest(at_the_beginning=True)
        if found is None:
            return None
        fold = Fold(Master(self._settings), log_codec(self._broker))
        try:
            restore_snapshot(found.manifest, found.chunks, fold, verify=True)
        except SnapshotUnusable:
            return None
        return fold

    def _confirm(self, snapshot_id: str, trusted: tuple[str, ...]) -> None:
        loaded = self._load(snapshot_id)
        if loaded is None or (self._broker.partition(Topic.LOG).low_offset > 0 and not trusted):
            self._transcript.note(self._name, f"cannot use the snapshot {snapshot_id}")
            return
        offset = loaded.last_offset
        fold = load_fold(self._broker, self._settings, lambda m: m.snapshot_id in trusted and m.log_offset < offset, verify=True)
        replay(self._broker, fold, offset + 1)
        if encode_fold(fold) != encode_fold(loaded):
            self._transcript.note(self._name, f"refutes the snapshot {snapshot_id}")
            return
        self._transcript.note(self._name, f"confirms the snapshot {snapshot_id}")
        confirmation = ConfirmSnapshot(
            request_id=f"confirm-{snapshot_id}-{self._master_id}",
            snapshot_id=snapshot_id,
            log_offset=offset,
            digest=fold.master.digest(),
            confirmed_by=self._master_id,
        )
        self._producer.produce(Topic.COMMANDS, None, self._commands.encode(confirmation, sent_at_ms=0))

    def _trim(self, snapshot_id: str) -> None:
        loaded = self._load(snapshot_id)
        if loaded is None:
            return
        fold = replay(self._broker, loaded)
        record = fold.master.upkeep.snapshots.get(snapshot_id)
        log = self._broker.partition(Topic.LOG)
        if record is not None and record.confirmed_by and record.log_offset + 1 > log.low_offset:
            self._transcript.note(self._name, f"trims the log before {record.log_offset + 1}")
            log.low_offset = record.log_offset + 1
