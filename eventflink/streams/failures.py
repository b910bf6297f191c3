"""What a stream can be refused or ended for besides what its query raises; the messages are for people.

Nothing is caught here. The rule it keeps: a message says what is wrong, of which source or sink, and where.
"""


class StreamUnusable(Exception):
    """A source or sink of a stream cannot be used as it is declared."""


class SinkFenced(Exception):
    """A newer attempt of the same subtask writes to the sink: this one must not any more."""


class SinkUnavailable(Exception):
    """The sink did not take a batch; nothing of the batch counts."""
