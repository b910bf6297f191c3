"""The checkpoint directories of streams, as Spark writes them: which batches were begun, up to where each reads, and which are done.

The directory of a subtask is shared by all of its attempts, wherever they run, and outlives them. The rule that Spark keeps: a note is
written once, and who finds one that it was to write is not alone, and ends.
"""

from typing import Final

from eventflink.model.stream_progress import NO_BATCH

NOTHING_READ: Final = 0


class DirectoryUnusable(Exception):
    """Another query uses the directory, or it has lost something in its middle: what Spark says then."""


class CheckpointDirectory:
    """Of one subtask."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._done: set[int] = set()
        self._restored = NO_BATCH
        """The last batch that was copied from a savepoint: what was copied is not lost."""

    @property
    def last_begun(self) -> int:
        """The newest batch that was begun; -1: none."""
        return max(self._ends, default=NO_BATCH)

    @property
    def last_done(self) -> int:
        """The newest batch that is done; -1: none."""
        return max(self._done, default=NO_BATCH)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was begun there, nor copied to it."""
        return not self._ends

    def copy(self) -> tuple[dict[int, int], int]:
        """Return what a savepoint has of it: up to where each batch reads, up to the one after the last that is done, and which that is."""
        last_done = self.last_done
        return {batch_id: end for batch_id, end in self._ends.items() if batch_id <= last_done + 1}, last_done

    def install(self, ends: dict[int, int], last_done: int) -> None:
        """Begin with what a savepoint has."""
        self._ends, self._restored = dict(ends), max(ends, default=NO_BATCH)
        self._done = {batch_id for batch_id in ends if batch_id <= last_done}

    def end_of(self, batch_id: int) -> int:
        """Return up to which record a batch reads; the one before the first reads nothing."""
        if batch_id == NO_BATCH:
            return NOTHING_READ
        if batch_id not in self._ends:
            raise DirectoryUnusable(f"batch {batch_id} does not exist")
        return self._ends[batch_id]

    def note_begun(self, batch_id: int, end: int) -> None:
        """Note up to which record a batch reads, before it does."""
        if batch_id in self._ends:
            raise DirectoryUnusable(f"multiple streaming jobs are detected for batch {batch_id}")
        self._ends[batch_id] = end

    def note_done(self, batch_id: int) -> None:
        """Note that a batch need not be repeated."""
        if batch_id in self._done:
            raise DirectoryUnusable(f"multiple streaming jobs are detected for batch {batch_id}")
        self._done.add(batch_id)

    def lose(self, batches: int) -> None:
        """Lose the newest notes: the disk had not written them when its machine fell."""
        kept = max(self._restored, self.last_begun - batches)
        self._ends = {batch_id: end for batch_id, end in self._ends.items() if batch_id <= kept}
        self._done = {batch_id for batch_id in self._done if batch_id <= kept}
