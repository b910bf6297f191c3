"""The process that tells the outside what happens: it follows the log from where each receiver has come, or sends a part of it again.

It reads, and never writes to the cluster's topics; the place of each receiver is the committed offset of a consumer group of its own. One
fold serves all receivers: it begins before the one that is furthest behind, by as much as rules look back, and what others have had already
they pass over. Where Kafka or the log cannot be read, it begins anew after a pause.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from eventflink.audit import LogFaulty
from eventflink.audit.filters import LogPlace, Range
from eventflink.audit.log_source import KafkaLog
from eventflink.leadership.fold import Fold, SecretUnfit, check_believed
from eventflink.log.access_rights import NOTIFY_GROUPS
from eventflink.log.group_offset import GroupOffset
from eventflink.log.replay import collecting_rarely, log_bounds, new_fold, read_log
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess
from eventflink.notify.courier import Courier
from eventflink.notify.document import NotificationDocument
from eventflink.notify.notification import Notification
from eventflink.notify.senders import sender_for
from eventflink.notify.translation import Translation
from eventflink.reader.observer import FIRST_PAUSE_S, LONGEST_PAUSE_S, UNREADABLE
from eventflink.snapshots.loading import LogTrimmed, find_oldest_snapshot, load_fold

AWAY_LIMIT_S: Final = 600.0
"""For how long a receiver that takes nothing is tried by a command that is to end."""

_IDLE_S: Final = 0.05

_logger = logging.getLogger(__name__)


class ReceiverAway(Exception):
    """A receiver has taken nothing for too long; the message says which, why, and how to send the rest."""


def group_of(cluster_id: str, receiver: str) -> str:
    """Return the consumer group that keeps the place of a receiver."""
    return f"{cluster_id}{NOTIFY_GROUPS}{receiver}"


def follow(access: ClusterAccess, document: NotificationDocument) -> None:
    """Send what happens, for ever; whoever ends it raises something in this thread.

    A receiver without a committed offset begins with what happens from now on.

    Raises:
        KafkaException, AdministrationError: Kafka does not answer at the start, or this process may not keep the places of receivers.
        SecretUnfit: this process has another cluster secret than the log.

    """
    couriers = _open_couriers(access, document)
    pauses_s = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    try:
        for courier in couriers:
            courier.start()
        while True:
            try:
                _follow_from(access, document, couriers, pauses_s.reset)
            except SecretUnfit:
                raise
            except (LogFaulty, *UNREADABLE) as error:
                pause_s = pauses_s.next()
                _logger.warning("NotifierStopped cluster=%s retry_s=%g reason=%s", access.cluster_id, pause_s, error)
                time.sleep(pause_s)
    finally:
        _end(couriers)


def _open_couriers(access: ClusterAccess, document: NotificationDocument) -> list[Courier]:
    _, end = log_bounds(access)
    couriers = []
    for name, receiver in document.receivers.items():
        progress = GroupOffset(access, group_of(access.cluster_id, name))
        committed = progress.read()
        if committed is None:
            progress.begin(end)  # So that what happens before the first notification is not passed over after a crash.
        couriers.append(Courier(name, sender_for(receiver, access), end if committed is None else committed, progress))
    return couriers


def _end(couriers: list[Courier]) -> None:
    for courier in couriers:
        courier.stop()
    for courier in couriers:
        courier.end()


def _follow_from(access: ClusterAccess, document: NotificationDocument, couriers: list[Courier], on_progress: Callable[[], None]) -> None:
    """Offer what the log says to all, until one of them needs what it had no room for."""
    position = min(courier.next_offset for courier in couriers)
    with collecting_rarely():
        translation = _begin(access, document, LogPlace(offset=position), {courier.name: courier.first_offset for courier in couriers})
        if (first := translation.fold.last_offset + 1) > position:
            _logger.error("NotificationsLost cluster=%s from=%d to=%d reason=the log was trimmed", access.cluster_id, position, first)
        for courier in couriers:
            courier.catch_up()
        for record in KafkaLog(access).follow(first):
            on_progress()
            if record is None:
                check_believed(translation.fold)
            else:
                _, notifications = translation.take(record)
                for courier in couriers:
                    courier.offer(record[0], notifications)
            if any(courier.is_behind and courier.is_idle for courier in couriers):
                return


def send_again(access: ClusterAccess, document: NotificationDocument, part: Range, job: str = "") -> int:
    """Send what a part of the log says, which changes no receiver's place; return how many notifications that were.

    Raises:
        LogFaulty, LogUnusable: the log cannot be folded, or does not begin early enough.
        KafkaException, ReplayStalled, AdministrationError: Kafka does not give it.
        ReceiverAway: a receiver took nothing for `AWAY_LIMIT_S`.

    """
    couriers = [Courier(name, sender_for(receiver, access), 0) for name, receiver in document.receivers.items()]
    count = 0
    try:
        for courier in couriers:
            courier.start()
        for notification in notifications_of(access, document, part, job):
            count += 1
            _await(couriers, lambda courier: courier.has_room)
            for courier in couriers:
                # Each counts as a record of its own: one record may say several things.
                courier.offer(count, [notification])
        _await(couriers, lambda courier: courier.is_idle)
    finally:
        _end(couriers)
    return count


def _await(couriers: list[Courier], is_so: Callable[[Courier], bool]) -> None:
    """Wait until something is so of all couriers; raises ReceiverAway."""
    while not all(map(is_so, couriers)):
        for courier in couriers:
            absence = courier.absence
            if absence is not None and time.monotonic() - absence.since_s >= AWAY_LIMIT_S:
                raise ReceiverAway(
                    f"receiver '{courier.name}' has taken nothing for {AWAY_LIMIT_S:g} s: {absence.reason}; when it is back, "
                    f"send the rest by --from {courier.position}"
                )
        time.sleep(_IDLE_S)


def notifications_of(access: ClusterAccess, document: NotificationDocument, part: Range, job: str = "") -> Iterator[Notification]:
    """Yield what a part of the log says, of a job alone where one is named by the beginning of its id; raises as `send_again`."""
    _, end = log_bounds(access)
    translation = _begin(access, document, part.first)
    for record in read_log(access, translation.fold.last_offset + 1, part.end_offset(end)):
        entry, notifications = translation.take(record)
        if entry is not None and part.is_over(entry):
            return
        if entry is not None and part.holds(entry):
            yield from (each for each in notifications if not job or each.job_id.startswith(job))
    check_believed(translation.fold)


def _begin(
    access: ClusterAccess, document: NotificationDocument, place: LogPlace, first_offsets: Mapping[str, int] | None = None
) -> Translation:
    """Return a translation that stands before a place, by as much as the rules look back, or at the oldest state that there is.

    `first_offsets` as `Alerts` has it.
    """
    first_offset, _ = log_bounds(access)
    fold = _fold_before(access, place, document.memory_ms, first_offset)
    return Translation(document, fold, access.cluster_id, access.bootstrap, first_offsets, fold.last_decided_at_ms, place.offset)


def _fold_before(access: ClusterAccess, place: LogPlace, memory_ms: int, first_offset: int) -> Fold:
    """Return the state at the newest snapshot that is so far before a place, or before the first record; or the oldest that there is."""
    if place.offset is None and place.at_ms is None and first_offset == 0:
        return new_fold(access)
    at_ms = place.at_ms
    if at_ms is None and place.offset:
        before = max(first_offset, place.offset - 1)
        at_ms = next((timestamp_ms for _, timestamp_ms, _ in read_log(access, before, before + 1)), 0)
    before_ms = (at_ms or 0) - memory_ms
    try:
        return load_fold(
            access,
            wanted=lambda m: (
                first_offset <= m.log_offset + 1
                and (place.offset is None or m.log_offset < place.offset)
                and m.last_decided_at_ms < before_ms
            ),
        )
    except LogTrimmed:
        oldest = find_oldest_snapshot(access)
        if oldest is None or oldest.fold.last_offset + 1 < first_offset:
            raise
        begins = oldest.fold.last_offset + 1
        _logger.warning(
            "HistoryTrimmed cluster=%s begins=%d reason=the log was trimmed; rules know nothing of before", access.cluster_id, begins
        )
        return oldest.fold
