"""Simulated streams: what of them outlives every process, and what of one machine's is left to chance.

A source is the numbers from 0 on, of which there are more as time passes. It, the checkpoint directories and the topic of the sinks are the
same for all machines. Now and then a directory loses its newest batches before a query begins: what a checkpoint was told before is then
ahead of it, and so is what was written.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.statuses import StreamConnector, StreamTrigger
from eventflink.model.stream_document import sink_document, source_document
from eventflink.model.stream_progress import StreamProgress, StreamSourceProgress
from eventflink.streams.sink_protocol import KafkaSinkSettings
from eventflink.taskexecutor.process_events import CheckpointTaken
from eventflink.testing.simulation.checkpoint_directories import NOTHING_READ, CheckpointDirectory
from eventflink.testing.simulation.committed_records import CommittedRecords
from eventflink.testing.simulation.savepoints import SimulatedSavepointPart
from eventflink.testing.simulation.scheduler import SECOND, Scheduler
from eventflink.testing.simulation.sink_topic import SinkTopic

_FAILURE_SHARE: Final = 0.4
_LATEST_FAILURE_MS: Final = 3_000
_LOSS_SHARE: Final = 0.4
_LOSS_SHARE_OF_EXACT: Final = 0.08
"""Where more was written than the directory knows of, a stream ends, and its job with it."""
_MOST_LOST: Final = 30
_MOST_LOST_OF_EXACT: Final = 3
_SILENCE_SHARE: Final = 0.12
_LATE_SHARE: Final = 0.2
_DECLINE_SHARE: Final = 0.12
_LONGEST_COPY_MS: Final = 60
_FAILING_ATTEMPTS: Final = 4
"""Later ones of a subtask have nothing go wrong: streams begin late in a run, and its faults must end."""

_FEWEST_RECORDS: Final = 150
_MOST_RECORDS: Final = 400
_PART_AT_ONCE: Final = 0.5
"""How much of a source is there when it is first looked at; the rest comes within `_GROWS_FOR_US`."""
_GROWS_FOR_US: Final = 5 * SECOND
_PATIENCE_US: Final = 35 * SECOND
"""A job may have no slot for one of its subtasks while others have theirs."""


@dataclass(slots=True)
class _Source:
    """The records of one subtask."""

    first_seen_us: int
    total: int

    def available(self, now_us: int) -> int:
        part = _PART_AT_ONCE + (1 - _PART_AT_ONCE) * (now_us - self.first_seen_us) / _GROWS_FOR_US
        return int(self.total * min(part, 1.0))


@dataclass(frozen=True, slots=True)
class SubtaskStream:
    """What a query works with."""

    writer: KafkaSinkSettings
    directory: CheckpointDirectory
    source: _Source
    batch_size: int
    """How many records a batch has at the most."""
    is_bounded: bool
    """It ends with what is there when it begins."""
    is_exactly_once: bool
    """The sink is Kafka's; else it is a function of the user."""

    def available(self, now_us: int) -> int:
        """Return how many records the source has."""
        return self.source.available(now_us)


class StreamStorage:
    """What all machines have in common of the streams of a run."""

    def __init__(self, seed: int, scheduler: Scheduler, records: CommittedRecords) -> None:
        self._rng = Random(f"{seed} sources")  # noqa: S311 - a run has to be repeatable, not secret
        self._scheduler = scheduler
        self.records = records
        self.topic = SinkTopic(scheduler, records)
        self._directories: dict[SubtaskId, CheckpointDirectory] = {}
        self._sources: dict[SubtaskId, _Source] = {}
        self._savepoints: dict[str, dict[SubtaskId, SimulatedSavepointPart]] = {}
        self._unbounded: dict[str, dict[str, _Source]] = {}
        """The sources of each job whose stream does not end by itself, by writer."""
        self.held_records: dict[str, dict[SubtaskId, int | None]] = {}
        """How many records each savepoint holds, by its path, of each subtask; None: its sink is not exactly once."""

    def directory_of(self, subtask: SubtaskId) -> CheckpointDirectory:
        """Return the checkpoint directory of a subtask."""
        if subtask not in self._directories:
            self._directories[subtask] = CheckpointDirectory()
        return self._directories[subtask]

    def committed_batches(self) -> dict[SubtaskId, int]:
        """Return the last batch that each subtask of a stream has committed, now."""
        return {subtask: directory.last_done for subtask, directory in self._directories.items()}

    def open(self, deployment: TaskDeployment) -> SubtaskStream:
        """Return what the query of an attempt works with."""
        stream = deployment.stream
        assert stream is not None  # noqa: S101 - the caller runs a stream
        subtask = SubtaskId(deployment.job_id, deployment.vertex_id, deployment.subtask_index)
        kafka, source = sink_document(stream.sinks[0]).kafka, source_document(stream.sources[0]).kafka
        assert source is not None  # noqa: S101 - no other is simulated
        timeout_ms = kafka.transaction_timeout_ms if kafka is not None else 0
        first_batch_id = self._restore(subtask, deployment.restore.path) if deployment.restore is not None else 0
        writer = KafkaSinkSettings(
            KafkaAccess(""), "answers", "/".join(map(str, subtask)), deployment.attempt, timeout_ms, "", first_batch_id
        )
        if stream.trigger is not StreamTrigger.AVAILABLE_NOW:
            for index in range(deployment.parallelism):
                name = "/".join(map(str, subtask._replace(subtask_index=index)))
                self._unbounded.setdefault(subtask.job_id, {})[name] = self._source_of(subtask._replace(subtask_index=index))
        return SubtaskStream(
            writer,
            self.directory_of(subtask),
            self._source_of(subtask),
            source.max_offsets_per_trigger,
            is_bounded=stream.trigger is StreamTrigger.AVAILABLE_NOW,
            is_exactly_once=stream.sinks[0].connector is StreamConnector.KAFKA,
        )

    def write_part(self, path: str, subtask: SubtaskId, part: SimulatedSavepointPart, *, is_exactly_once: bool) -> None:
        """Write a subtask's part of a savepoint."""
        self._savepoints.setdefault(path, {})[subtask] = part
        held = part.ends.get(part.next_sink_batch_id - 1, NOTHING_READ) if is_exactly_once else None
        self.held_records.setdefault(path, {})[subtask] = held

    def _restore(self, subtask: SubtaskId, path: str) -> int:
        """Put the part of a savepoint where a subtask begins, once; return the first batch that its sink has not got yet."""
        before, part = next((s, part) for s, part in self._savepoints[path].items() if s[1:] == subtask[1:])
        directory = self.directory_of(subtask)
        if directory.is_empty:
            directory.install(part.ends, part.last_done)
            self._sources.setdefault(subtask, self._source_of(before))
            self.records.begin("/".join(map(str, subtask)), part.ends.get(part.next_sink_batch_id - 1, NOTHING_READ))
        return part.next_sink_batch_id

    def complete_jobs(self) -> list[str]:
        """Return the jobs whose streams do not end by themselves, and have nothing more to do, or have had time enough."""
        early_us = self._scheduler.now_us - _PATIENCE_US
        return [
            job_id
            for job_id, sources in self._unbounded.items()
            if all(self.records.count(writer) >= source.total or source.first_seen_us < early_us for writer, source in sources.items())
        ]

    def _source_of(self, subtask: SubtaskId) -> _Source:
        if subtask not in self._sources:
            self._sources[subtask] = _Source(self._scheduler.now_us, self._rng.randrange(_FEWEST_RECORDS, _MOST_RECORDS))
        return self._sources[subtask]


class SimulatedStreams:
    """What happens to the streams of one machine."""

    def __init__(self, storage: StreamStorage, rng: Random) -> None:
        self.storage = storage
        self._rng = rng

    def fails_in_ms(self, attempt: AttemptId) -> float | None:
        """Return after how long a query fails; None: it does not."""
        return self._rng.random() * _LATEST_FAILURE_MS if _may_fail(attempt) and self._rng.random() < _FAILURE_SHARE else None

    def open(self, deployment: TaskDeployment, attempt: AttemptId) -> SubtaskStream:
        """Return what a query works with, after what may have happened to its directory."""
        stream = self.storage.open(deployment)
        exact = stream.is_exactly_once
        if _may_fail(attempt) and self._rng.random() < (_LOSS_SHARE_OF_EXACT if exact else _LOSS_SHARE):
            stream.directory.lose(1 + self._rng.randrange(_MOST_LOST_OF_EXACT if exact else _MOST_LOST))
        return stream

    def answers_in_ms(self, attempt: AttemptId) -> float | None:
        """Return how long an answer takes; None: there is none."""
        may_fail = _may_fail(attempt)
        if may_fail and self._rng.random() < _SILENCE_SHARE:
            return None
        return self._rng.random() * (3_000 if may_fail and self._rng.random() < _LATE_SHARE else 60)

    def copies_in_ms(self) -> float:
        """Return how long a part of a savepoint takes to be copied."""
        return self._rng.random() * _LONGEST_COPY_MS

    def declines(self, attempt: AttemptId) -> bool:
        """Tell whether a query has to refuse what it is asked, as for a disk that is full."""
        return _may_fail(attempt) and self._rng.random() < _DECLINE_SHARE

    def answer(self, attempt: AttemptId, checkpoint_id: int) -> CheckpointTaken:
        """Return where a query stands now."""
        batch_id = self.storage.directory_of(SubtaskId(*attempt[:3])).last_done
        source = StreamSourceProgress(name="numbers", end_offset=str(batch_id), records_behind=0)
        return CheckpointTaken(
            attempt, checkpoint_id, StreamProgress(batch_id=batch_id, sources=(source,), input_rows=1, state_rows=batch_id + 1)
        )


def _may_fail(attempt: AttemptId) -> bool:
    return attempt.attempt <= _FAILING_ATTEMPTS
