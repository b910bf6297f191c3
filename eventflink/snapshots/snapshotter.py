"""The snapshotter: a process of its own that a master starts to take a snapshot, to confirm one, or to trim the log behind one.

    python -m eventflink.snapshots.snapshotter take    --access JSON --master-id …
    python -m eventflink.snapshots.snapshotter confirm … --snapshot-id ID --trusted ID,ID
    python -m eventflink.snapshots.snapshotter trim    … --snapshot-id ID --keep-records N

It reads the log as every reader does, so only the accepted fold can ever be in a snapshot, and the master that started it keeps deciding
meanwhile. What it has done it reports as a command, and the leader decides what that means (P18). The rule: the one who confirms a
snapshot computes the state without it, and nothing is deleted before the log itself says that the snapshot is confirmed and it was
loaded once more.
"""

import argparse
import logging
import os
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaException

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import ConfirmSnapshot, ReportSnapshot
from eventflink.events.seal import seals_of
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.log.administration import AdministrationError, log_topic_id, trim_log
from eventflink.log.producers import NotDelivered, PatientProducer
from eventflink.log.replay import ReplayStalled, log_bounds, replay
from eventflink.model.cluster_access import ClusterAccess
from eventflink.processes import set_parent_death_signal
from eventflink.snapshots.loading import LoadedSnapshot, find_snapshot, load_fold
from eventflink.snapshots.snapshot import encode_fold, take_snapshot
from eventflink.snapshots.topic import StoredSnapshot, list_snapshots, remove_snapshots, write_snapshot

_logger = logging.getLogger(__name__)

DONE: Final = 0
FAILED: Final = 1
REFUTED: Final = 3
"""Exit code of `confirm`: the snapshot is not the state of the log at its offset, or could not be loaded; asking again is of no use."""

NICENESS: Final = 10
_REPORT_TIMEOUT_S: Final = 60.0


class SnapshotRefuted(Exception):
    """A snapshot is not what the log leads to; the message says how that showed."""


class NotConfirmed(Exception):
    """The log does not say that the snapshot was confirmed: nothing may be deleted behind it."""


def take(access: ClusterAccess, master_id: str, retained: int) -> str | None:
    """Write a snapshot of the state at the present end of the log, report it, and remove those that are needed no more.

    Returns its id; None if a snapshot of just this state is there already.
    """
    fold = load_fold(access)
    before = fold.last_offset
    replay(access, fold)
    if fold.last_offset == before:
        return None
    snapshot_id = f"{fold.last_offset}-{uuid.uuid4().hex[:12]}"
    manifest, chunks = take_snapshot(fold, snapshot_id, master_id, log_topic_id(access))
    write_snapshot(access, manifest, chunks)
    _logger.info(
        "SnapshotWritten snapshot=%s offset=%d chunks=%d bytes=%d digest=%s",
        snapshot_id,
        manifest.log_offset,
        manifest.chunk_count,
        manifest.byte_count,
        manifest.digest,
    )
    report = ReportSnapshot(
        request_id=f"snapshot-{snapshot_id}",
        actor=master_id,
        snapshot_id=snapshot_id,
        log_offset=manifest.log_offset,
        digest=manifest.digest,
        chunk_count=manifest.chunk_count,
        byte_count=manifest.byte_count,
        taken_by=master_id,
    )
    _report(access, report)
    stored = list_snapshots(access)
    replay(access, fold)  # One may have been confirmed since the log was read, and be the only one behind which it is trimmed.
    remove_snapshots(access, stale_snapshots(stored, fold, retained))
    return snapshot_id


def stale_snapshots(stored: Sequence[StoredSnapshot], fold: Fold, retained: int) -> list[StoredSnapshot]:
    """Return what can be removed: all but the newest whole ones and the newest that is confirmed.

    What is not whole is removed only if a whole one was begun after it: before that somebody may still be writing it.
    """
    whole = [snapshot for snapshot in stored if snapshot.is_whole]
    kept = {snapshot.snapshot_id for snapshot in whole[-retained:]} | {fold.master.upkeep.newest_confirmed()}
    newest = stored.index(whole[-1]) if whole else 0
    return [snapshot for snapshot in stored[:newest] if snapshot.snapshot_id not in kept]


def confirm(access: ClusterAccess, master_id: str, snapshot_id: str, trusted: Sequence[str]) -> None:
    """Compute the state at a snapshot's offset without it, compare, and report that they are equal.

    The fold starts from one of the `trusted` snapshots, which were confirmed before, or from the first record of the log.

    Raises:
        SnapshotRefuted: they are not equal, or the snapshot cannot be loaded.

    """
    loaded = _load(access, snapshot_id)
    manifest = loaded.manifest
    fold = load_fold(access, wanted=lambda m: m.snapshot_id in trusted and m.log_offset < manifest.log_offset, verify=True)
    replay(access, fold, end_offset=manifest.log_offset + 1)
    digest = fold.master.digest()
    if digest != manifest.digest:
        raise SnapshotRefuted(f"snapshot {snapshot_id} has the digest {manifest.digest}, but the log leads to {digest}")
    if encode_fold(fold) != encode_fold(loaded.fold):
        raise SnapshotRefuted(f"snapshot {snapshot_id} has the right digest, but other counts or replies than the log leads to")
    confirmation = ConfirmSnapshot(
        request_id=f"confirm-{snapshot_id}-{master_id}",
        actor=master_id,
        snapshot_id=snapshot_id,
        log_offset=manifest.log_offset,
        digest=digest,
        confirmed_by=master_id,
    )
    _report(access, confirmation)


def _load(access: ClusterAccess, snapshot_id: str) -> LoadedSnapshot:
    loaded = find_snapshot(access, wanted=lambda m: m.snapshot_id == snapshot_id, verify=True)
    if loaded is None:
        raise SnapshotRefuted(f"snapshot {snapshot_id} is not there, or cannot be used")
    return loaded


def trim(access: ClusterAccess, snapshot_id: str, keep_records: int) -> int:
    """Delete the records before a confirmed snapshot, but for the newest `keep_records` of the log; return where the log begins then.

    Raises:
        SnapshotRefuted: the snapshot cannot be loaded.
        NotConfirmed: the log does not say that another master confirmed it as it is.

    """
    loaded = _load(access, snapshot_id)
    manifest = loaded.manifest
    fold = replay(access, loaded.fold)
    record = fold.master.upkeep.snapshots.get(snapshot_id)
    if record is None or not record.confirmed_by or (record.log_offset, record.digest) != (manifest.log_offset, manifest.digest):
        raise NotConfirmed(f"snapshot {snapshot_id} is not confirmed by what the log says up to offset {fold.last_offset}")
    first_offset, end_offset = log_bounds(access)
    first_kept_offset = min(manifest.log_offset + 1, end_offset - keep_records)
    return trim_log(access, first_kept_offset) if first_kept_offset > first_offset else first_offset


def _report(access: ClusterAccess, command: ReportSnapshot | ConfirmSnapshot) -> None:
    """Put a command where the leader reads it.

    Raises:
        NotDelivered: Kafka did not take it.

    """
    codec = PayloadCodec("CommandEnvelope", seal=seals_of(access).of(Topic.COMMANDS))
    with PatientProducer(access, Topic.COMMANDS, patience_s=_REPORT_TIMEOUT_S) as producer:
        producer.produce(command.snapshot_id, codec.encode(command, sent_at_ms=time.time_ns() // 1_000_000))
        producer.flush()
    _logger.info("%s snapshot=%s offset=%d digest=%s", type(command).__name__, command.snapshot_id, command.log_offset, command.digest)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="eventflink.snapshots.snapshotter", description=__doc__)
    parser.add_argument("mode", choices=("take", "confirm", "trim"))
    parser.add_argument("--access", required=True, type=ClusterAccess.of_text, help="how the cluster is reached, as JSON")
    parser.add_argument("--master-id", required=True)
    parser.add_argument("--snapshot-id", default="")
    parser.add_argument("--trusted", default="", help="ids, separated by commas")
    parser.add_argument("--retained", type=int, default=2)
    parser.add_argument("--keep-records", type=int, default=0)
    parser.add_argument("--parent", type=int, default=0, help="end when this process, which started it, does")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> None:
    if options.mode == "take":
        take(options.access, options.master_id, options.retained)
    elif options.mode == "confirm":
        trusted = [snapshot_id for snapshot_id in options.trusted.split(",") if snapshot_id]
        confirm(options.access, options.master_id, options.snapshot_id, trusted)
    else:
        trim(options.access, options.snapshot_id, options.keep_records)


_PASSING = (AdministrationError, KafkaException, ReplayStalled, NotDelivered, LogUnusable, LogDiverged, LogNotDense, NotConfirmed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    options = _parse(arguments)
    if options.parent:
        # Here and not between fork and exec, for which the whole memory of the master would be mapped a second time.
        set_parent_death_signal()
        if os.getppid() != options.parent:
            return FAILED
    os.nice(NICENESS)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        _run(options)
    except SnapshotRefuted as error:
        _logger.error("SnapshotRefuted %s", error)  # noqa: TRY400 - the message says it all
        return REFUTED
    except _PASSING as error:
        _logger.warning("SnapshotterFailed mode=%s reason=%s error=%s", options.mode, type(error).__name__, error)
        return FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main())
