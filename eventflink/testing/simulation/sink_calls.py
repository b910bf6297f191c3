"""What whoever writes to the simulated Kafka does in several steps.

Where a step waits it is a number, and so many milliseconds pass; where it is a call, it is made at Kafka, and its result comes back.
"""

from collections.abc import Callable, Generator
from typing import Any, Final

from eventflink.streams.failures import SinkUnavailable
from eventflink.streams.sink_protocol import Mark
from eventflink.testing.simulation.sink_topic import MarkUnstable, SinkTopic

_UNSTABLE_RETRY_MS: Final = 50.0
_UNSTABLE_RETRIES: Final = 60

Steps = Generator[float | Callable[[], Any], Any, None]


def read_mark(topic: SinkTopic, writer_id: str, *, awaits_transactions: bool) -> Generator[float | Callable[[], Any], Any, Mark | None]:
    """Return the mark; one that is to be stable is asked for until it is.

    Raises:
        SinkUnavailable: it does not become so.

    """
    for _ in range(_UNSTABLE_RETRIES):
        try:
            mark: Mark | None = yield lambda: topic.find_mark(writer_id, awaits_transactions=awaits_transactions)
        except MarkUnstable:
            yield _UNSTABLE_RETRY_MS
        else:
            return mark
    raise SinkUnavailable("a transaction stays open that moves the mark")
