"""Carries the notifications of one receiver, in a thread of its own, in order, until each is taken.

A receiver that is away is tried again, with ever longer pauses, and keeps nobody else waiting: what comes meanwhile waits in memory up to a
bound, and what is beyond it is read from the log again once the rest was taken. The rule: what is committed was taken by the receiver, so
nothing is lost; what was taken just before a crash is sent again, with the same key.
"""

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from eventflink.log.group_offset import GroupOffset
from eventflink.model.backoff import Backoff
from eventflink.model.texts import is_told
from eventflink.notify.notification import Notification
from eventflink.notify.senders import DeliveryFailed, Send

MOST_WAITING: Final = 10_000
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
_COMMIT_EVERY_S: Final = 1.0
_COMMIT_AGAIN_S: Final = 3_600.0
"""After so long a place that is the same is committed again, or Kafka would forget it."""
_END_TIMEOUT_S: Final = 5.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Absence:
    """Since when a receiver takes nothing, by the monotonic clock, and what its last refusal says."""

    since_s: float
    reason: str


class Courier:
    """One receiver's notifications and how far it has come."""

    def __init__(self, name: str, send: Send, position: int, progress: GroupOffset | None = None) -> None:
        """Begin with what the record at `position` says; without `progress` nothing is committed."""
        self.name = name
        self.is_behind = False
        """Whether it had no room for something, which is to be read again."""
        self.absence: Absence | None = None
        """None: nothing is known to keep the receiver from taking what is next."""
        self._send = send
        self._progress = progress
        self._waiting: deque[Notification] = deque()
        self._offered_to = position
        self._committed = position
        self._committed_at_s = time.monotonic()
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"courier-{name}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def position(self) -> int:
        """The record up to, without, which the receiver has taken everything."""
        with self._changed:
            return self._waiting[0].log_offset if self._waiting else self._offered_to

    @property
    def first_offset(self) -> int:
        """The record before which nothing was ever said to it; 0 where that is not known."""
        return (self._progress.first_offset or 0) if self._progress is not None else 0

    @property
    def next_offset(self) -> int:
        """The record that it is to be offered next."""
        with self._changed:
            return self._offered_to

    @property
    def is_idle(self) -> bool:
        """Whether all that was offered is taken."""
        with self._changed:
            return not self._waiting

    @property
    def has_room(self) -> bool:
        """Whether the next that is offered is taken, however much a record says."""
        with self._changed:
            return len(self._waiting) < MOST_WAITING

    def offer(self, offset: int, notifications: Sequence[Notification]) -> None:
        """Take what a record says to any receiver; what was offered before is passed over.

        Without room it is behind, and takes nothing more before `catch_up`.
        """
        mine = [each for each in notifications if self.name in each.receivers]
        with self._changed:
            if offset < self._offered_to or self.is_behind:
                return
            if self._waiting and len(self._waiting) + len(mine) > MOST_WAITING:
                _logger.warning("ReceiverBehind receiver=%s offset=%d", self.name, offset)
                self.is_behind = True
                return
            self._waiting.extend(mine)
            self._offered_to = offset + 1
            if mine:
                self._changed.notify_all()

    def catch_up(self) -> None:
        """Take what is offered again, from `next_offset` on."""
        with self._changed:
            self.is_behind = False

    def stop(self) -> None:
        """Begin no further try."""
        self._ending.set()
        with self._changed:
            self._changed.notify_all()

    def end(self) -> None:
        """Let the receiver go, and commit how far it has come; a try that is under way is waited for, for a few seconds."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        looked_s = time.monotonic()
        while not self._ending.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending.is_set(), _COMMIT_EVERY_S)
                first = self._waiting[0] if self._waiting else None
            if first is not None and self._deliver(first):
                with self._changed:
                    self._waiting.popleft()
                    self._changed.notify_all()
            if time.monotonic() - looked_s >= _COMMIT_EVERY_S:
                looked_s = time.monotonic()
                self._commit()
        self._commit()
        if self._progress is not None:
            self._progress.close()

    def _deliver(self, notification: Notification) -> bool:
        """Tell whether the receiver has it, or will never take it; else this process ends."""
        pauses_s = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        tries = 0
        while not self._ending.is_set():
            tries += 1
            failure = self._try(notification)
            if failure is None or failure.is_refused:
                self.absence = None
            else:
                self.absence = Absence(self.absence.since_s if self.absence is not None else time.monotonic(), str(failure))
            if failure is None:
                _logger.info("NotificationSent receiver=%s key=%s tries=%d", self.name, notification.key, tries)
                return True
            if failure.is_refused:
                _logger.warning("NotificationRefused receiver=%s key=%s reason=%s", self.name, notification.key, failure)
                return True
            pause_s = pauses_s.next_jittered(random.random())  # noqa: S311 - it only spreads tries
            if is_told(tries):
                where = (self.name, notification.key, tries, pause_s, failure)
                _logger.warning("ReceiverAway receiver=%s key=%s tries=%d retry_s=%.1f reason=%s", *where)
            self._ending.wait(pause_s)
        return False

    def _try(self, notification: Notification) -> DeliveryFailed | None:
        try:
            self._send(notification)
        except DeliveryFailed as error:
            return error
        except Exception as error:  # A defect of ours: another try would meet it again, and what comes behind would wait for ever.
            _logger.exception("NotificationDefect receiver=%s key=%s", self.name, notification.key)
            return DeliveryFailed(f"internal error: {type(error).__name__}: {error}", is_refused=True)
        return None

    def _commit(self) -> None:
        position, now_s = self.position, time.monotonic()
        if self._progress is None or (position == self._committed and now_s < self._committed_at_s + _COMMIT_AGAIN_S):
            return
        try:
            self._progress.commit(position)
            self._committed, self._committed_at_s = position, now_s
        except KafkaException as error:
            _logger.warning("ProgressNotCommitted receiver=%s offset=%d reason=%s", self.name, position, error)
