"""The events of a cluster's log for programs, page by page: read from Kafka and judged where they are asked for, so they need no leader.

What an event looks like, which are chosen and what was accepted is the business of the audit. The rule: a page is bounded, in records that
are read for it and in events that it holds, and so is the wait for it.
"""

import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, Literal, Unpack

from confluent_kafka import KafkaException

from eventflink.audit import LogFaulty
from eventflink.audit.entries import Entry, Record, judge_for
from eventflink.audit.filters import LogPlace, Range, Wanted, event_type
from eventflink.audit.listing import Listing
from eventflink.audit.log_source import KafkaLog
from eventflink.audit.plain import plain_event
from eventflink.client.options import EventOptions, each_of
from eventflink.events.topics import Topic
from eventflink.gateways.errors import ClusterUnreachable, LogUnreadable
from eventflink.gateways.kafka_clients import PartitionReader
from eventflink.log.replay import ReplayStalled, new_fold
from eventflink.model.cluster_access import ClusterAccess
from eventflink.views.job_document import shown

PAGE: Final = 1_000

Event = dict[str, Any]
"""One event with the decision that it is of, as `eventflink events --json` prints it."""


class EventPages:
    """The events of one question. Any thread may ask for the next page, one at a time; close it."""

    def __init__(self, access: ClusterAccess, **options: Unpack[EventOptions]) -> None:
        """Ask nothing yet.

        Raises:
            FilterInvalid: there is no such type of event, or a place is neither an offset nor a time.
            ValueError: the limit is not positive.

        """
        names = frozenset(map(event_type, each_of(options.get("type", ()))))
        limit = options.get("limit")
        if limit is not None and limit < 1:
            raise ValueError(f"limit={limit}: it has to be at least 1")
        wanted = Wanted(names, options.get("job", ""), options.get("task_manager", ""), options.get("accepted"))
        ends: tuple[Literal["since", "until"], ...] = ("since", "until")
        part = Range(*(LogPlace.parse(str(options[end]), is_first=end == "since") if end in options else LogPlace() for end in ends))
        self._access = access
        self._pages = self._read(Listing(wanted, part, limit), follow=options.get("follow", False))
        self._lock = threading.Lock()

    def next_page(self) -> list[Event] | None:
        """Return the next events, possibly none of them yet; None: there are no more.

        Raises:
            ClusterUnreachable, ClusterNotFound: Kafka does not give the log.
            LogUnreadable: a record cannot be read, or does not fit the ones before it.

        """
        try:
            with self._lock:
                return next(self._pages, None)
        except (KafkaException, ReplayStalled) as error:
            raise ClusterUnreachable(f"the log at {self._access.bootstrap} cannot be read: {error}") from error
        except LogFaulty as error:
            raise LogUnreadable(f"the log of '{self._access.cluster_id}' cannot be read on: {error}") from error

    def close(self) -> None:
        """Let the connection go; a page under way is waited for."""
        with self._lock:
            self._pages.close()

    def _read(self, listing: Listing, *, follow: bool) -> Generator[list[Event], None, None]:
        PartitionReader(self._access, Topic.LOG).close()  # Opened only for its errors, which say whether Kafka or the cluster is missing.
        log = KafkaLog(self._access)
        first_offset, end = log.bounds()
        judge = judge_for(first_offset, new_fold(self._access))

        def chosen() -> Iterator[tuple[Entry, int] | None]:
            yield from listing.choose(_pausing(log.read(first_offset, listing.range.end_offset(end))), judge)
            if follow and not listing.is_over:
                yield from listing.choose(log.follow(end), judge)

        page: list[Event] = []
        for found in chosen():
            if found is not None:
                page.append(shown(plain_event(*found)))
            if found is None or len(page) >= PAGE:
                yield page
                page = []
        yield page


def _pausing(records: Iterable[Record]) -> Iterator[Record | None]:
    for number, record in enumerate(records, 1):
        yield record
        if number % PAGE == 0:
            yield None
