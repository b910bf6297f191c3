"""The savepoints of a run: what each subtask's part holds, and where a job goes on that begins in one.

A part is taken by `stream_task.py`; that a savepoint with which its job stops holds all that counts is judged by the simulation's ledger.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from eventflink.streams.failures import SinkFenced
from eventflink.streams.sink_protocol import Commit, FenceOlder, KafkaSinkSettings, ReadMark, SendMark, SinkProtocol, next_step
from eventflink.testing.simulation.sink_calls import read_mark
from eventflink.testing.simulation.sink_topic import ProducerFenced, SinkTopic


@dataclass(frozen=True, slots=True)
class SimulatedSavepointPart:
    """What a savepoint holds of one subtask."""

    writer_id: str
    """Of the sink of the job that it was taken of."""
    ends: dict[int, int]
    """Up to which record each batch reads, the one that was cut among them."""
    last_done: int
    next_sink_batch_id: int


def settle(topic: SinkTopic, writer: KafkaSinkSettings, next_batch_id: int, ends: Mapping[int, int]) -> Generator[Any, Any, int]:
    """Carry out what `KafkaSink.settle` does, for who writes after the query; return the number of the batch that the sink has not got yet.

    Raises:
        SinkFenced: a newer attempt writes.
        SinkUnavailable: Kafka does not say so.
        CheckpointLost: the checkpoint directory is behind what was written.

    """
    protocol, epoch = SinkProtocol(writer), 0
    offsets, offsets_before = [str(ends.get(batch_id, "")) for batch_id in (next_batch_id, next_batch_id - 1)]
    steps = protocol.settling(next_batch_id, offsets, offsets_before)
    try:
        step = next_step(steps, None)
        while step is not None:
            found = None
            match step:
                case ReadMark(awaits_transactions=awaits_transactions):
                    found = yield from read_mark(topic, writer.writer_id, awaits_transactions=awaits_transactions)
                case FenceOlder():
                    epoch = yield partial(topic.init_transactions, writer)
                case SendMark(mark=mark):
                    yield partial(topic.send_mark, writer, epoch, mark)
                case Commit():
                    yield partial(topic.commit, writer, epoch)
            step = next_step(steps, found)
    except ProducerFenced as error:
        raise SinkFenced("the sink was not settled") from error
    return protocol.next_batch_id
