"""Reading one topic for as long as a master lives: a consumer of librdkafka by assignment, in a thread of its own.

It begins at the offset that it is told and knows no group: positions come from the state alone (P6). Whether it waits for transactions of
clients is for its user to say (P11); the log it makes dense (P3). Who takes its batches gives credit: a reader hands out a few, and waits.
What is paused is just not asked for: librdkafka keeps what it has fetched, within bounds, and fetches no more (its own pause throws that
away, and may not come back from it).

Records that come soon after others are gathered: what a broker, a reader and its taker do for a batch costs more than what they do for a
record. A record that comes alone never waits.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Message

from eventflink.log.pulled_partition import PulledPartition
from eventflink.log.refusals import explain
from eventflink.model.kafka_settings import KafkaAccess

BATCH_RECORDS: Final = 256
"""Records of a batch at most; its bytes are bounded by what librdkafka keeps."""

MAX_BATCHES: Final = 4
"""Batches that are handed out and not given back."""

FETCH_WAIT_MS: Final = 1_000
"""How long the broker holds a fetch that finds nothing; the first record ends it."""

_QUEUED_KBYTES: Final = 4_096
_POLL_S: Final = 0.5
"""For so long a reader waits for a record before it looks whether it is to end: each look costs, and most readers wait most of the time."""

GATHERING_MS: Final = 50
"""For how long records are left at the broker after others were handed out, where nobody waits for them."""

BUSY_GATHERING_MS: Final = 4
"""The same where somebody does, but records come so often that gathering them takes less time than it saves."""

_BUSY_INTERVAL_S: Final = 0.002
"""Records come often if several come at once, or two batches within this time."""


class TopicReader:
    """Reads partition 0 of a topic from an offset on; everything but its thread belongs to who made it."""

    def __init__(
        self,
        kafka: KafkaAccess,
        topic: str,
        offset: int,
        settings: Mapping[str, Any] = {},
        *,
        gathering_ms: int = GATHERING_MS,
        is_committed: bool = False,
        is_dense: bool = False,
    ) -> None:
        """Prepare; nothing is read yet. Records are gathered for `gathering_ms` until `be_prompt` says otherwise.

        `is_committed`: what a transaction writes is read when it is committed, and what comes behind it not before it has ended.
        `is_dense`: an empty record is handed out for each offset that has none.
        """
        self.failure = ""
        """Why nothing more will come; empty while it may."""
        self.end_offset: int | None = None
        """Where the topic ended by the broker's last answer; None before there was one."""
        self._stable_offset: int | None = None
        """Where what is committed ended, while nothing came behind it."""
        self._kafka, self._topic, self._offset = kafka, topic, offset
        self._isolation = "read_committed" if is_committed else "read_uncommitted"
        self._is_dense = is_dense
        self._settings: dict[str, Any] = {
            "queued.max.messages.kbytes": _QUEUED_KBYTES,
            "fetch.message.max.bytes": 1024 * 1024,
            # Nothing is fetched while what was fetched before is not taken: so a reader that waits has records gathered.
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 1,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            **settings,
        }
        self._may_read = threading.Event()
        self._may_read.set()
        self._credit = threading.Semaphore(MAX_BATCHES)
        self._is_prompt = threading.Event()
        self._gathering_s = gathering_ms / 1000
        self._handed_out_s = 0.0
        self._is_closing = False
        self._thread: threading.Thread | None = None

    @property
    def held_back(self) -> int:
        """Return how many offsets lie behind a client's open transaction, and are not read before it ends."""
        stable_offset, end_offset = self._stable_offset, self.end_offset
        return max(0, end_offset - stable_offset) if stable_offset is not None and end_offset is not None else 0

    def start(self, hand_out: Callable[[list[Message]], object]) -> None:
        """Begin; `hand_out` gets batches of at least one record in the reader's thread."""
        self._thread = threading.Thread(target=self._run, args=(hand_out,), name=f"reader-{self._topic}", daemon=True)
        self._thread.start()

    def give_back(self) -> None:
        """Give the credit of a batch back: it has been taken."""
        self._credit.release()

    def pause(self) -> None:
        """Hand out no more, but for a batch that is under way."""
        self._may_read.clear()

    def resume(self) -> None:
        """Hand out what comes."""
        self._may_read.set()

    def be_prompt(self, *, is_waited_for: bool) -> None:
        """Say whether somebody waits for the records; a gathering that is under way ends."""
        if is_waited_for:
            self._is_prompt.set()
        else:
            self._is_prompt.clear()

    def close(self) -> None:
        """Begin to end the thread and its connections."""
        self._is_closing = True
        self._is_prompt.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; tell whether it has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _run(self, hand_out: Callable[[list[Message]], object]) -> None:
        try:
            self._read_on(hand_out)
        except KafkaException as error:
            self.failure = f"{self._topic}: {explain(error.args[0], self._kafka, 'Read', self._topic)}"
        except Exception as error:  # noqa: BLE001 - whatever ends the thread, nothing more will come
            self.failure = f"{self._topic}: {error}"

    def _read_on(self, hand_out: Callable[[list[Message]], object]) -> None:
        with PulledPartition(
            self._kafka, self._topic, isolation=self._isolation, is_dense=self._is_dense, own_settings=self._settings, passes=_passes
        ) as reader:
            reader.seek(self._offset)
            while not self._is_closing:
                if not self._may_read.wait(_POLL_S) or not self._credit.acquire(timeout=_POLL_S):
                    continue
                messages = reader.read(_POLL_S, BATCH_RECORDS)
                self._stable_offset, self.end_offset = reader.reached, reader.known_end()
                if messages and not self._is_closing:
                    hand_out(messages)
                    self._gather(len(messages))
                else:
                    self._credit.release()

    def _gather(self, count: int) -> None:
        """Wait after a batch of so many records, unless more of them have come already."""
        before_s, self._handed_out_s = self._handed_out_s, time.monotonic()
        if count == BATCH_RECORDS or not self._is_prompt.wait(self._gathering_s):
            return
        if count > 1 or self._handed_out_s - before_s < _BUSY_INTERVAL_S:
            time.sleep(BUSY_GATHERING_MS / 1000)


def _passes(message: Message) -> bool:
    """Return whether an error is no end of the reading: those without a topic concern a group, and there is none."""
    return message.topic() is None
