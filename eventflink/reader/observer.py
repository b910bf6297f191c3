"""Keeping an `ObservedState` up to date from Kafka: it follows the log, and never campaigns.

It costs the leader nothing: it has its own consumer, and commits nothing. While Kafka is away, the last state keeps being answered for,
with its offset. Where the log cannot be read on, or a record cannot be folded, it is read anew from the newest snapshot on, after a pause.
Where the log has less than was read of it, the last state is kept, and `LogTruncated` says why it does not move (P5a).
"""

import asyncio
import gc
import logging
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException, Message

from eventflink.events.topics import Topic, topic_name
from eventflink.log.administration import AdministrationError
from eventflink.log.replay import EndOffset, ReplayStalled
from eventflink.log.topic_reader import TopicReader
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess
from eventflink.reader.log_end import LogEnd
from eventflink.reader.observed_state import UNFOLDABLE, ObservedState
from eventflink.snapshots.loading import read_state

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
"""Between two attempts to read the log anew; each pause is twice the one before."""

UNREADABLE: Final = (KafkaException, ReplayStalled, AdministrationError, *UNFOLDABLE)
_LOOK_S: Final = 0.5
_CLOSE_TIMEOUT_S: Final = 5.0

_logger = logging.getLogger(__name__)


class StateObserver:
    """Follows one cluster's log. For one event loop."""

    def __init__(self, access: ClusterAccess, state: ObservedState) -> None:
        """Prepare; nothing is read before `start`."""
        self._access = access
        self._state = state
        self._reader: TopicReader | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._end = EndOffset(access)

    async def start(self) -> None:
        """Fold the log up to its present end, and follow it from there on.

        Raises:
            KafkaException, ReplayStalled, AdministrationError, LogUnusable, LogDiverged, LogNotDense: the log cannot be read or folded.

        """
        await self._rebuild()
        self._state.ask_log_end = LogEnd(self._end.fetch).ask
        self._keeper = asyncio.create_task(self._keep(), name="observer")

    async def stop(self) -> None:
        """Let the log go."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        await self._close_reader()
        await asyncio.to_thread(self._end.close)

    async def _rebuild(self) -> None:
        fold = await asyncio.to_thread(read_state, self._access, known=self._state.known)
        reader = TopicReader(self._access.kafka, topic_name(self._access.cluster_id, Topic.LOG), fold.last_offset + 1, is_dense=True)
        reader.be_prompt(is_waited_for=True)
        loop = asyncio.get_running_loop()
        replaces = self._state.position is not None or bool(self._state.failure)
        self._state.replace(fold)
        if replaces:  # The state before is garbage now.
            gc.unfreeze()
            gc.collect()
        gc.freeze()  # A large state would be walked through by every full collection, and every request would wait for that.
        self._reader = reader
        reader.start(lambda messages: loop.call_soon_threadsafe(self._take, reader, messages))
        _logger.info("ObserverFollows cluster=%s offset=%d epoch=%d", self._access.cluster_id, fold.last_offset, fold.acceptance.epoch)

    def _take(self, reader: TopicReader, messages: list[Message]) -> None:
        """Fold what a reader handed out, unless another one has taken its place."""
        if reader is self._reader:
            self._state.advance((m.offset() or 0, m.timestamp()[1], m.value() or b"") for m in messages)
            reader.give_back()

    async def _keep(self) -> None:
        """Read the log anew whenever it cannot be read on."""
        pauses_s = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            await asyncio.sleep(_LOOK_S)
            failure = self._state.failure or (self._reader.failure if self._reader is not None else "")
            if not failure:
                pauses_s.reset()
                continue
            offset, pause_s = self._state.log_offset, pauses_s.next()
            _logger.warning("ObserverStopped cluster=%s offset=%d retry_s=%g reason=%s", self._access.cluster_id, offset, pause_s, failure)
            self._state.failure = failure
            await self._close_reader()
            await asyncio.sleep(pause_s)
            try:
                await self._rebuild()
            except UNREADABLE as error:
                self._state.failure = str(error)

    async def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
            await asyncio.to_thread(reader.join, _CLOSE_TIMEOUT_S)
