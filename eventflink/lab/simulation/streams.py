"""Simulated streams: what their queries have committed, and what they answer when a checkpoint asks them.

The directory of a subtask is shared by all of its attempts, wherever they run, and outlives them: a query goes on after the last batch in
it. A query whose process is a zombie commits as well. Now and then a directory loses its newest batches before a query begins: what a
checkpoint was told before is then ahead of it.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from eventflink.lab.simulation.ledger import Ledger
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.model.stream_progress import NO_BATCH, StreamProgress, StreamSourceProgress
from eventflink.taskexecutor.process_events import CheckpointDeclined, CheckpointTaken

_SHORTEST_RUN_MS: Final = 1_000
_LONGEST_RUN_MS: Final = 6_000
_FAILURE_SHARE: Final = 0.6
_LOSS_SHARE: Final = 0.4
_MOST_LOST: Final = 30
_SILENCE_SHARE: Final = 0.12
_LATE_SHARE: Final = 0.2
_DECLINE_SHARE: Final = 0.12
_FAILING_ATTEMPTS: Final = 4
"""Later ones of a subtask have nothing go wrong: streams begin late in a run, and its faults must end."""


@dataclass(slots=True)
class Batches:
    """The last committed batch of every subtask of a run."""

    ledger: Ledger
    """It is told what was committed: a checkpoint may say no more, and no less than when it was triggered."""

    def last_of(self, subtask: SubtaskId) -> int:
        """Return the last committed batch; -1: none."""
        return self.ledger.committed_batches.get(subtask, NO_BATCH)

    def put(self, subtask: SubtaskId, batch_id: int) -> None:
        """Have a batch be the last one."""
        self.ledger.committed_batches[subtask] = batch_id


class SimulatedStreams:
    """The queries of one machine."""

    def __init__(self, batches: Batches, rng: Random) -> None:
        self._batches = batches
        self._rng = rng

    def runs_for_ms(self) -> float:
        """Return how long a query runs until it has read everything: longer than most tasks, so that checkpoints meet faults."""
        return _SHORTEST_RUN_MS + self._rng.random() * (_LONGEST_RUN_MS - _SHORTEST_RUN_MS)

    def fails(self, attempt: AttemptId) -> bool:
        """Tell whether a query fails before it has read everything."""
        return _may_fail(attempt) and self._rng.random() < _FAILURE_SHARE

    def begin(self, attempt: AttemptId) -> int:
        """Return the batch after which a query goes on."""
        subtask = SubtaskId(*attempt[:3])
        if _may_fail(attempt) and self._rng.random() < _LOSS_SHARE:
            self._batches.put(subtask, max(NO_BATCH, self._batches.last_of(subtask) - self._rng.randrange(_MOST_LOST)))
        return self._batches.last_of(subtask)

    def commit(self, attempt: AttemptId) -> None:
        """Commit the next batch."""
        subtask = SubtaskId(*attempt[:3])
        self._batches.put(subtask, self._batches.last_of(subtask) + 1)

    def next_batch_in_ms(self) -> float:
        """Return how long a batch takes."""
        return 5 + self._rng.random() * 300

    def answers_in_ms(self, attempt: AttemptId) -> float | None:
        """Return how long an answer takes; None: there is none."""
        may_fail = _may_fail(attempt)
        if may_fail and self._rng.random() < _SILENCE_SHARE:
            return None
        return self._rng.random() * (3_000 if may_fail and self._rng.random() < _LATE_SHARE else 60)

    def answer(self, attempt: AttemptId, checkpoint_id: int) -> CheckpointTaken | CheckpointDeclined:
        """Return what a query says now."""
        if _may_fail(attempt) and self._rng.random() < _DECLINE_SHARE:
            return CheckpointDeclined(attempt, checkpoint_id, "it was unlucky")
        batch_id = self._batches.last_of(SubtaskId(*attempt[:3]))
        source = StreamSourceProgress(name="numbers", end_offset=str(batch_id), records_behind=0)
        return CheckpointTaken(
            attempt, checkpoint_id, StreamProgress(batch_id=batch_id, sources=(source,), input_rows=1, state_rows=batch_id + 1)
        )


def _may_fail(attempt: AttemptId) -> bool:
    return attempt.attempt <= _FAILING_ATTEMPTS
