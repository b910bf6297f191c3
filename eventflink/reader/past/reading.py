"""A book of a log that Kafka holds, from where the log begins, or from a state on."""

from collections.abc import Callable, Iterable

from eventflink.audit.entries import Record
from eventflink.leadership.fold import Fold
from eventflink.log.replay import log_bounds, new_fold, read_log
from eventflink.model.cluster_access import ClusterAccess
from eventflink.reader.past.log_book import LogBook
from eventflink.snapshots.loading import LogTrimmed, find_oldest_snapshot


def open_book(access: ClusterAccess, *, for_one_answer: bool = False) -> LogBook:
    """Return an empty book of a log, from its first record on.

    Raises:
        LogTrimmed: the log does not begin with its first record, and there is no state to begin with.
        KafkaException, ReplayStalled, AdministrationError: Kafka does not answer.

    """
    first_offset, _ = log_bounds(access)
    if first_offset == 0:
        return LogBook(0, new_fold(access), for_one_answer=for_one_answer)
    oldest = find_oldest_snapshot(access)
    if oldest is None:
        raise LogTrimmed(f"the log of {access.cluster_id} begins at offset {first_offset}, and no usable snapshot reaches to it")
    return LogBook(first_offset, oldest.fold, for_one_answer=for_one_answer)


def read_book(
    access: ClusterAccess,
    fold: Fold | None = None,
    counted: Callable[[Iterable[Record], int], Iterable[Record]] = lambda records, _: records,
) -> LogBook:
    """Return a book, for one answer, of what the log has now, behind `fold` or all of it.

    `counted` sees the records go by, and is told how many come.

    Raises:
        LogFaulty: a record cannot be read, or does not fit those before it.
        LogTrimmed, KafkaException, ReplayStalled, AdministrationError: as `open_book`.

    """
    book = open_book(access, for_one_answer=True) if fold is None else LogBook(fold.last_offset + 1, fold, for_one_answer=True)
    end = log_bounds(access)[1]
    book.follow(counted(read_log(access, book.first_offset, end), end - book.first_offset))
    return book
