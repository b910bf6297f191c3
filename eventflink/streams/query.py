"""One query of a subtask: started on its checkpoint directory, watched until it ends, asked where it stands.

What runs is Spark's; here is how it is told so, and what its end means. The rule it keeps: the session hears from this process every
`_POLL_S`, for a session that hears nothing is closed by the server, and its query stopped (P15).
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from eventflink.model.job_graph import StreamDefinition
from eventflink.model.places import Place
from eventflink.model.statuses import StreamTrigger
from eventflink.model.stream_progress import NO_BATCH, StreamProgress
from eventflink.streams.failures import StreamStopped
from eventflink.streams.progress import SeenBatches, last_begun_batch, last_committed_batch, progress_of, remove_cut_notes

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
    from pyspark.sql.streaming.listener import StateOperatorProgress

logger = logging.getLogger(__name__)

_POLL_S: Final = 3


class RunningQuery:
    """A query that was started."""

    def __init__(
        self, query: "StreamingQuery", location: Place, stream: StreamDefinition, restored_batch_id: int, seen: SeenBatches
    ) -> None:
        self._query = query
        self.seen = seen
        """By this query, and by those of its attempt before it."""
        self._location = location
        self._source_names = [source.name for source in stream.sources]
        self._is_bounded = stream.trigger is StreamTrigger.AVAILABLE_NOW
        self.was_stopped = False
        self.restored_batch_id = restored_batch_id
        """The last batch that an earlier attempt committed."""

    @property
    def query_id(self) -> str:
        """Spark's id of the query, which its checkpoint directory keeps."""
        return str(self._query.id)

    @property
    def run_id(self) -> str:
        """Spark's id of this run of it."""
        return str(self._query.runId)

    def await_end(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the query ends by itself, which a bounded one does, or was stopped by `stop`, and return true.

        Args:
            is_over: asked now and then; when it says so, the query goes on, and false is returned.

        Raises:
            StreamingQueryException: it failed.
            StreamStopped: it was stopped, and nobody here had asked for that.

        """
        while not self._query.awaitTermination(_POLL_S):
            if is_over():
                return False
        self._count_rows()
        if not self._is_bounded and not self.was_stopped:
            raise StreamStopped("its query was stopped by somebody else, or taken over by a newer attempt")
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the query has ended, however it did."""
        return not self._query.isActive

    def stop(self) -> None:
        """Stop the query, which cuts the batch that it computes."""
        self.was_stopped = True
        self._query.stop()
        self._count_rows()

    def operator_progress(self) -> "list[StateOperatorProgress]":
        """Return what Spark says of each stateful operator after the last batch; nothing before the first."""
        last = self._query.lastProgress
        return list(last.stateOperators) if last is not None else []

    def progress(self) -> StreamProgress:
        """Return where the query stands now."""
        newest = self._query.recentProgress
        self.seen.take(newest)
        # The batch is read first: what is said of it may be newer, never older.
        last = newest[-1] if newest else None
        return progress_of(last, self._source_names, last_committed_batch(self._location), self.seen)

    def _count_rows(self) -> None:
        """Count what batches have read since they were counted last; the query has ended, and does not fail for that."""
        try:
            self.seen.take(self._query.recentProgress)
        except Exception as error:  # noqa: BLE001 - Spark raises what it likes, and the query may go on
            logger.warning("RowsNotCounted query=%s error=%s", self._query.id, type(error).__name__)
            self.seen.forget()


def start_query(
    writer: "DataStreamWriter",
    stream: StreamDefinition,
    location: Place,
    name: str,
    seen: SeenBatches | None = None,
    *,
    is_counted: bool = False,
) -> RunningQuery:
    """Start the query, and go on where the last attempt with this checkpoint directory was.

    Args:
        writer: with its sink.
        stream: what the graph declares.
        location: the checkpoint directory, which only the attempts of this subtask use.
        name: for people, in Spark's pages and logs.
        seen: by the attempt's queries before this one; None: it is the first.
        is_counted: whether Spark counts the rows for each sink.

    """
    restored_batch_id, begun_batch_id = last_committed_batch(location), last_begun_batch(location)
    if begun_batch_id == NO_BATCH:
        remove_cut_notes(location)
    interval = f"{stream.trigger_interval_ms} milliseconds"
    match stream.trigger:
        case StreamTrigger.AVAILABLE_NOW:
            trigger: dict[str, Any] = {"availableNow": True}
        case StreamTrigger.REAL_TIME:
            trigger = {"realTime": interval}
        case StreamTrigger.PROCESSING_TIME:
            trigger = {"processingTime": interval}
    writer = writer.outputMode(stream.output_mode.lower()).queryName(name).option("checkpointLocation", str(location))
    query = writer.trigger(**trigger).start()
    batches = f"restored_batch={restored_batch_id} begun_batch={begun_batch_id}"
    logger.info("StreamStarted query=%s run=%s location=%s %s", query.id, query.runId, location, batches)
    return RunningQuery(
        query, location, stream, restored_batch_id, seen or SeenBatches(restored_batch_id, stream.sinks if is_counted else ())
    )
