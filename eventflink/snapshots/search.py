"""Finding the newest snapshot among the records of `snapshots`, which are given from the newest to the oldest.

A manifest comes after its chunks, so going backwards it is met first, and chunks without one are dropped at once: an unfinished
snapshot is skipped silently. Records of several snapshots may be interleaved. What else is skipped is noted, with the reason, for the
caller to report: a few of them, in short, and how many more there were, since strangers may write to the topic without end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.seal import Seal
from eventflink.events.snapshot_records import SnapshotChunk, SnapshotManifest
from eventflink.leadership.log_lines import one_line
from eventflink.model.texts import is_told
from eventflink.snapshots.snapshot import LogRange, SnapshotUnusable, check_manifest

ENVELOPE: Final = "SnapshotEnvelope"
MANIFEST: Final = "manifest"

MAX_KEY_CHARACTERS: Final = 256
"""No snapshotter writes a longer key: it has an offset, twelve digits and the index of a chunk."""

MAX_SKIPPED: Final = 32
"""Reasons that are held until they are reported."""


def record_key(snapshot_id: str, name: object) -> str:
    """Return the key of a record: `name` is a chunk's index, or MANIFEST."""
    return f"{snapshot_id}/{name}"


def split_key(key: str) -> tuple[str, str]:
    """Return the snapshot id and the name of the record within it."""
    snapshot_id, _, name = key.rpartition("/")
    return snapshot_id, name


@dataclass(slots=True)
class Candidate:
    """A manifest, and those of its chunks that were met."""

    manifest: SnapshotManifest
    fault: str = ""
    """Why it cannot be used; its chunks are not kept then."""
    chunks: dict[int, SnapshotChunk] = field(default_factory=dict)


class SnapshotSearch:
    """Goes through records backwards and puts snapshots together."""

    def __init__(self, log: LogRange, wanted: Callable[[SnapshotManifest], bool] = lambda _: True, seal: Seal | None = None) -> None:
        """Look for snapshots of this log that are `wanted`, others are skipped silently; with a `seal`, for those that have it."""
        self._log = log
        self._wanted = wanted
        self._codec = PayloadCodec(ENVELOPE)
        self._seal = seal
        self._seen: set[str] = set()
        self._candidates: dict[str, Candidate] = {}
        """Those that may still be used, the newest first."""
        self.skipped: list[str] = []
        """What was passed over, and why, at most `MAX_SKIPPED`; an older one than what is found is not looked at."""
        self.untold = 0
        """How much more was."""
        self._foreign_count = 0

    def read_record(self, key: str, value: bytes | None) -> None:
        """Look at a record, older than all before; of records with one key only the newest counts of those that are to be believed."""
        if len(key) > MAX_KEY_CHARACTERS:
            self._skip_foreign(f"a record with a key of {len(key)} characters")
            return
        if key in self._seen:
            return
        snapshot_id, name = split_key(key)
        if value is not None and self._seal is not None and not self._seal.is_genuine(value):
            # Anybody may write under the key of a snapshot: what is there stays the newest.
            if name == MANIFEST:
                self._skip_foreign(f"snapshot {snapshot_id}: its record {name} has no valid seal")
            return
        self._seen.add(key)
        if value is None:
            return
        candidate = self._candidates.get(snapshot_id)
        if name != MANIFEST and (candidate is None or candidate.fault):
            return
        try:
            payload, _ = self._codec.decode(value)
        except UndecodableRecord as error:
            self._condemn(snapshot_id, f"snapshot {snapshot_id}: its record {name} cannot be read: {error}")
            return
        if name == MANIFEST and isinstance(payload, SnapshotManifest) and payload.snapshot_id == snapshot_id:
            self._take_manifest(payload)
        elif candidate is not None and isinstance(payload, SnapshotChunk):
            candidate.chunks[payload.chunk_index] = payload
        else:
            self._condemn(snapshot_id, f"snapshot {snapshot_id}: its record {name} is a {type(payload).__name__} of {payload.snapshot_id}")

    def _skip(self, reason: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(one_line(reason))
        else:
            self.untold += 1

    def _skip_foreign(self, reason: str) -> None:
        """Skip what no snapshotter wrote: few of many are told, so that there is room for what is wrong with a snapshot."""
        self._foreign_count += 1
        if is_told(self._foreign_count):
            self._skip(reason)
        else:
            self.untold += 1

    def _condemn(self, snapshot_id: str, fault: str) -> None:
        candidate = self._candidates.get(snapshot_id)
        if candidate is None:
            self._skip(fault)
        else:
            candidate.fault, candidate.chunks = fault, {}

    def _take_manifest(self, manifest: SnapshotManifest) -> None:
        if not self._wanted(manifest):
            return
        fault = ""
        try:
            check_manifest(manifest, self._log)
        except SnapshotUnusable as error:
            fault = str(error)
        self._candidates[manifest.snapshot_id] = Candidate(manifest, fault)

    def pop_newest(self, *, at_the_beginning: bool) -> Candidate | None:
        """Take out the newest candidate, once all its chunks are there or no older record is left; None: read on."""
        for snapshot_id, candidate in list(self._candidates.items()):
            if candidate.fault:
                self._skip(self._candidates.pop(snapshot_id).fault)
            elif at_the_beginning or len(candidate.chunks) >= candidate.manifest.chunk_count:
                return self._candidates.pop(snapshot_id)
            else:
                return None
        return None
