"""Starting from a snapshot: the newest one that is whole is looked for in `snapshots` and loaded.

It is looked for from the end of the topic backwards, so that finding it costs by its size and not by how many there are. The rule: what
cannot be used is named in a warning and passed over; without any snapshot the log is read from its first record; and if the log no longer
begins there, that is an error and never an empty state.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from eventflink.events.seal import seals_of
from eventflink.events.snapshot_records import SnapshotManifest
from eventflink.events.topics import Topic
from eventflink.leadership.fold import Fold, LogUnusable
from eventflink.leadership.intake import HEARD_BACK_RECORDS
from eventflink.leadership.known_log import KnownLog, LogTruncated, check_heard
from eventflink.log.administration import check_was_never_written, log_topic_id
from eventflink.log.replay import log_bounds, log_codec, new_fold, not_collecting, read_log, replay
from eventflink.log.stored_topic import StoredTopic, read_last
from eventflink.master.settings import MasterSettings
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.search import Candidate, SnapshotSearch
from eventflink.snapshots.snapshot import ANY_LOG, LogRange, SnapshotUnusable, check_history, check_reached, restore_snapshot
from eventflink.snapshots.topic import list_snapshots

_logger = logging.getLogger(__name__)

_FIRST_WINDOW: Final = 64
"""Records that are looked at first: 32 MiB of chunks, more than most snapshots have."""

_FIRST_LOOK: Final = 8
"""Records of the log that are looked at first for the decision at which a snapshot stands: nearly always it is the last one."""

_WINDOW_GROWTH: Final = 2
_MAX_WINDOW: Final = 256
"""Records that are held at once while older ones are looked at: 128 MiB."""


class LogTrimmed(LogUnusable):
    """The log does not begin with its first record, and no snapshot reaches to where it begins."""


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A fold that was brought to where a snapshot stands."""

    manifest: SnapshotManifest
    fold: Fold


def find_snapshot(
    access: ClusterAccess,
    settings: MasterSettings | None = None,
    *,
    wanted: Callable[[SnapshotManifest], bool] = lambda _: True,
    verify: bool = False,
    log: LogRange | None = None,
) -> LoadedSnapshot | None:
    """Return the newest snapshot of the log (`log`, or what Kafka has) that is whole and `wanted`, loaded; None if there is none.

    Each one that cannot be used is passed over with a warning that names it and says why. Of `ANY_LOG` it is not asked whether it has the
    records of which the snapshot was taken.

    Raises:
        LogTruncated: the newest ones were taken of more than the log has now, or of other records.
        KafkaException, ReplayStalled, AdministrationError: Kafka does not give it.

    """
    with StoredTopic(access, Topic.SNAPSHOTS) as topic:
        low, high = topic.bounds()
        if low == high:
            return None
        if log is None:  # Asked for after the snapshots: it reaches to all of them (P5a).
            log = LogRange(log_topic_id(access), *log_bounds(access))
        search = SnapshotSearch(log, wanted, seals_of(access).of(Topic.SNAPSHOTS))
        window, end = _FIRST_WINDOW, high
        while end > low:
            start = max(low, end - window)
            for key, value in reversed(list(topic.read(start, end))):
                search.read_record(key, value)
            end, window = start, min(window * _WINDOW_GROWTH, _MAX_WINDOW)
            while (candidate := search.pop_newest(at_the_beginning=end <= low)) is not None:
                _warn(search)
                if log is not ANY_LOG:
                    check_log_of(access, candidate.manifest, log)
                fold = _load(access, candidate, settings, verify=verify)
                if fold is not None:
                    return LoadedSnapshot(candidate.manifest, fold)
        _warn(search)
    return None


def check_log_of(access: ClusterAccess, manifest: SnapshotManifest, log: LogRange) -> None:
    """Check that Kafka has the records of the log of which a snapshot was taken, as far as they are left.

    Raises:
        LogTruncated: it has less, or others.
        KafkaException, ReplayStalled: Kafka does not give them.

    """
    check_reached(manifest, log)
    check_history(manifest, log, _backwards(access, log.first_offset, manifest.log_offset + 1), log_codec(access))


def is_log_of(access: ClusterAccess, manifest: SnapshotManifest, log: LogRange) -> bool:
    """Tell whether the log has the records of which a snapshot was taken; raises as `check_log_of` where Kafka does not give them."""
    try:
        check_log_of(access, manifest, log)
    except LogTruncated:
        return False
    return True


def _backwards(access: ClusterAccess, first_offset: int, end_offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, value) of the log's records before `end_offset`, the newest first."""
    window = _FIRST_LOOK
    while end_offset > first_offset:
        start = max(first_offset, end_offset - window)
        records = [(offset, value) for offset, _, value in read_log(access, start, end_offset)]
        yield from reversed(records)
        end_offset, window = start, _MAX_WINDOW


def find_oldest_snapshot(access: ClusterAccess) -> LoadedSnapshot | None:
    """Return the oldest snapshot of the log that is whole and can be used, loaded; None if there is none.

    Raises:
        KafkaException, ReplayStalled, AdministrationError: Kafka does not give it.

    """
    ids = [stored.snapshot_id for stored in list_snapshots(access) if stored.is_whole]
    return next((found for each in ids if (found := _find_by_id(access, each)) is not None), None)


def _find_by_id(access: ClusterAccess, snapshot_id: str) -> LoadedSnapshot | None:
    return find_snapshot(access, wanted=lambda manifest: manifest.snapshot_id == snapshot_id)


def _warn(search: SnapshotSearch) -> None:
    for reason in search.skipped:
        _logger.warning("SnapshotSkipped %s", reason)
    if search.untold:
        _logger.warning("SnapshotSkipped more=%d", search.untold)
    search.skipped.clear()
    search.untold = 0


def _load(access: ClusterAccess, candidate: Candidate, settings: MasterSettings | None, *, verify: bool) -> Fold | None:
    manifest = candidate.manifest
    started = time.monotonic()
    fold = new_fold(access, settings)
    try:
        with not_collecting():
            restore_snapshot(manifest, candidate.chunks, fold, verify=verify)
    except SnapshotUnusable as error:
        _logger.warning("SnapshotSkipped %s", error)
        return None
    _logger.info(
        "SnapshotLoaded snapshot=%s offset=%d epoch=%d bytes=%d seconds=%.3f",
        manifest.snapshot_id,
        manifest.log_offset,
        manifest.epoch,
        manifest.byte_count,
        time.monotonic() - started,
    )
    return fold


def load_fold(
    access: ClusterAccess,
    settings: MasterSettings | None = None,
    *,
    wanted: Callable[[SnapshotManifest], bool] = lambda _: True,
    verify: bool = False,
) -> Fold:
    """Return the fold that a replay starts from: at the newest usable snapshot, or before the first record of the log.

    Raises:
        LogTruncated: there was more of the log once, as snapshots or what leaders wrote elsewhere show.
        LogTrimmed: the log begins later, and no snapshot reaches to where it begins.
        KafkaException, ReplayStalled, AdministrationError: Kafka does not answer.

    """
    loaded = find_snapshot(access, settings, wanted=wanted, verify=verify)
    if loaded is not None:
        return loaded.fold
    first_offset, end_offset = log_bounds(access)
    if not end_offset:
        check_was_never_written(access)
    if first_offset > 0:
        raise LogTrimmed(
            f"the log of {access.cluster_id} begins at offset {first_offset}: it was trimmed behind a snapshot, but no usable snapshot "
            "reaches that offset; the warnings (SnapshotSkipped) say what is wrong with those that are there, docs/snapshots.md "
            "what can be done"
        )
    return new_fold(access, settings)


def read_state(
    access: ClusterAccess,
    settings: MasterSettings | None = None,
    *,
    known: KnownLog | None = None,
    believes_masters: bool = True,
) -> Fold:
    """Return the accepted state at the present end of the log, which has all that is known to have been in it (P5a).

    `known` is what this process has read before; whether masters are believed that say on `leadership` what they have read, is the caller's
    to say.

    Raises:
        LogTruncated: the log has less, or other records.
        LogTrimmed, LogUnusable, LogDiverged, LogNotDense: it cannot be folded.
        KafkaException, ReplayStalled, AdministrationError: Kafka does not give it.

    """
    said = read_last(access, Topic.LEADERSHIP, HEARD_BACK_RECORDS) if believes_masters else []
    fold = replay(access, load_fold(access, settings), known=known)
    check_heard(fold, said, seals_of(access).of(Topic.LEADERSHIP))
    return fold
