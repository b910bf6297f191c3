"""What a stream can be refused or ended for besides what its query raises; the messages are for people.

Nothing is caught here. The rule it keeps: a message says what is wrong, of which source or sink, and where.
"""

from typing import Literal


class StreamUnusable(Exception):
    """A source or sink of a stream cannot be used as it is declared."""


class WorkingDirectoryUnfit(StreamUnusable):
    """Checkpoints cannot be where the working directory of the cluster is."""


class TableUnusable(StreamUnusable):
    """The table of a sink cannot be used as it is declared, or the rows do not fit it; also of a batch task."""


class RegistryUnavailable(StreamUnusable):
    """A schema registry does not answer."""

    def __init__(self, message: str, state: Literal["silent", "faulty", "refusing"] = "silent") -> None:
        """Say what it does: nothing in time, or a fault of its own, where another try may succeed; or a refusal, or what is no answer."""
        super().__init__(message)
        self.state = state


class RowUnusable(Exception):
    """A row does not fit the schema of its sink."""


class SinkFenced(Exception):
    """A newer attempt of the same subtask writes to the sink: this one must not any more."""


class SinkTaken(Exception):
    """Another job of the same id has written to the sink what this one was to write: no attempt of it can."""


class SinkUnavailable(Exception):
    """The sink did not take a batch, or did not say so in time; the next attempt finds out which."""


class SourceUnavailable(Exception):
    """The table of a source cannot be looked at now: its catalogue, or the store of its files, does not answer."""


class CheckpointLost(Exception):
    """The checkpoint directory of a stream does not fit what the stream has written: one of them was lost, or is another's."""


class ClientSilent(Exception):
    """The task that started the stream is not heard of any more."""


class StreamStopped(Exception):
    """An unbounded query was stopped by somebody else."""
