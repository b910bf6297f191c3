"""What reads `log` and `snapshots`: the fold, and the loader of snapshots.

The law of the fold: a record that is none of a leader's is without effect, or it ends the reading with an error that names its offset; two
readers come to the same; what was accepted keeps the invariants of the state. The law of the loader: what it loads is the state at an
offset of the log, whatever else lies between the records of snapshots. With a secret, what has no valid seal is as if it were not there.
"""

from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from eventflink.events.codec import PayloadCodec
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.known_log import LogTruncated
from eventflink.snapshots.search import ENVELOPE, MANIFEST, SnapshotSearch, record_key
from eventflink.snapshots.snapshot import LogRange, SnapshotUnusable, restore_snapshot, take_snapshot
from tests.fuzz.corpus_files import ENVELOPES, Message
from tests.fuzz.generation import Avro, recorded
from tests.fuzz.sealing import as_written, is_believed, name_of, sealed_messages
from tests.support.cluster import START_MS, ScriptedCluster, new_fold, replay
from tests.support.scenarios import busy_cluster


@cache
def _busy(seals: Seals) -> ScriptedCluster:
    return busy_cluster(seals)


@cache
def _own_fold(seals: Seals) -> Fold:
    return replay(_busy(seals).log, seals=seals)


class Log:
    """A reader of the log, among whose records others stand."""

    bursts = 1

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        self.name = name_of("log", seals)
        self._seals = seals

    def messages(self) -> st.SearchStrategy[Message]:
        """Return records of `log`; the key says behind how many of a leader's they stand."""
        log = _busy(self._seals).log
        values = Avro(ENVELOPES[Topic.LOG], [*log, *[value for _, value in recorded()[Topic.LOG]][::4]]).records()
        places = st.integers(0, len(log)).map(lambda place: b"%d" % place)
        return sealed_messages(st.builds(Message, st.just(str(Topic.LOG)), values, places), self._seals)

    def check(self, case: Sequence[Message]) -> None:
        """Fold it twice, and once more without what is not to be believed."""
        case = as_written(case, self._seals)
        records = self._laid(case)
        first, error = self._folded(records)
        second, again = self._folded(records)
        assert str(error) == str(again)
        believed = [message for message in case if is_believed(message, self._seals)]
        if len(believed) < len(case):
            without, same = self._folded(self._laid(believed))
            assert type(same) is type(error)
            assert without.running_hash == first.running_hash
            assert without.master.digest() == first.master.digest(), "a record without a valid seal had an effect"
        if error is not None:
            assert f"log@{first.last_offset + 1}" in str(error), f"the offset {first.last_offset + 1} is not named: {error}"
            assert len(str(error)) < 2_000
            return
        assert first.master.digest() == second.master.digest()
        first.master.validate()
        own = _own_fold(self._seals)
        if first.accepted_count == own.accepted_count and first.running_hash == own.running_hash:
            assert first.master.digest() == own.master.digest(), "a record without effect had one"

    def _laid(self, case: Sequence[Message]) -> list[bytes]:
        log = _busy(self._seals).log
        laid: list[bytes] = []
        for place in range(len(log) + 1):
            laid += [message.value for message in case if int(message.key or b"0") == place]
            laid += log[place : place + 1]
        return laid

    def _folded(self, records: Sequence[bytes]) -> tuple[Fold, Exception | None]:
        fold = new_fold(seals=self._seals)
        for offset, value in enumerate(records):
            try:
                fold.fold_record(offset, START_MS, value)
            except (LogUnusable, LogDiverged, LogNotDense) as error:
                return fold, error
        return fold, None

    def close(self) -> None:
        """Nothing was started."""


@cache
def _snapshots(seals: Seals) -> tuple[tuple[tuple[str, bytes], ...], dict[int, str]]:
    """Return the records of two snapshots in order, and the digests of the states of which they are."""
    log, codec = _busy(seals).log, PayloadCodec(ENVELOPE, seal=seals.of(Topic.SNAPSHOTS))
    records: list[tuple[str, bytes]] = []
    digests: dict[int, str] = {}
    for name, end in (("older", 30), ("newer", len(log))):
        fold = replay(log[:end], seals=seals)
        digests[fold.last_offset] = fold.master.digest()
        manifest, chunks = take_snapshot(fold, name, "master-1", "topic-id")
        records += [(record_key(name, chunk.chunk_index), codec.encode(chunk)) for chunk in chunks]
        records.append((record_key(name, MANIFEST), codec.encode(manifest)))
    return tuple(records), digests


class Snapshots:
    """The search for a snapshot among records that others have written, too."""

    bursts = 2

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        self.name = name_of("snapshots", seals)
        self._seals = seals

    def messages(self) -> st.SearchStrategy[Message]:
        """Return records of `snapshots`, most of them under keys of the snapshots that are there."""
        records, _ = _snapshots(self._seals)
        keys = st.one_of(
            st.sampled_from([key for key, _ in records]), st.sampled_from(["", "/", "newer", "newer/x", "third/manifest", "third/0"])
        )
        values = Avro(ENVELOPES[Topic.SNAPSHOTS], [value for _, value in records]).records()
        return sealed_messages(st.builds(Message, st.just(str(Topic.SNAPSHOTS)), values, keys.map(str.encode)), self._seals)

    def check(self, case: Sequence[Message]) -> None:
        """Look for the newest snapshot from the end, as a master that starts does; and without what is not to be believed."""
        case = as_written(case, self._seals)
        found = self._found(case)
        believed = [message for message in case if is_believed(message, self._seals)]
        if len(believed) < len(case):
            assert self._found(believed) == found, "a record without a valid seal had an effect"

    def _found(self, case: Sequence[Message]) -> int | None:
        """Return the offset of the log up to which the snapshot goes that is found; None: there is none."""
        records, digests = _snapshots(self._seals)
        written = [*records, *[((message.key or b"").decode(), message.value) for message in case]]
        search = SnapshotSearch(LogRange("topic-id", 0, len(_busy(self._seals).log)), seal=self._seals.of(Topic.SNAPSHOTS))
        touched = {(message.key or b"").rpartition(b"/")[0] for message in case if is_believed(message, self._seals)}
        is_whole = {name: name.encode() not in touched for name in ("older", "newer")}
        try:
            for number, (key, value) in enumerate(reversed(written)):
                search.read_record(key, value)
                while (candidate := search.pop_newest(at_the_beginning=number + 1 == len(written))) is not None:
                    fold = new_fold(seals=self._seals)
                    try:
                        restore_snapshot(candidate.manifest, candidate.chunks, fold)
                    except SnapshotUnusable as error:
                        if candidate.manifest.snapshot_id not in str(error):
                            raise
                        continue
                    assert fold.master.digest() == digests.get(fold.last_offset), "it loads a state that never was"
                    return fold.last_offset
        except LogTruncated as error:
            if "snapshot" not in str(error):
                raise
            return None
        assert not any(is_whole.values()), f"a whole snapshot was passed over: {search.skipped}"
        return None

    def close(self) -> None:
        """Nothing was started."""
