"""What can go wrong between a caller and a cluster, one type per outcome.

A caller must be able to tell "no" from "nobody answered": after `RequestRefused` the state is untouched, after
`RequestTimedOut` the request may still be decided, and repeating it with the same request id is safe.
"""


class GatewayError(Exception):
    """A request did not work; the message says why and, where it can, what to do."""


class ClusterUnreachable(GatewayError):
    """Kafka does not answer at the bootstrap address, or stopped answering."""


class ClusterNotFound(GatewayError):
    """Kafka answers, but it holds no cluster of this id."""


class NoLeader(GatewayError):
    """No master says that it leads."""


class RequestTimedOut(GatewayError):
    """No answer came in time; whether the request will be done is not known."""

    def __init__(self, request_id: str, message: str) -> None:
        """Keep the request's id, with which it can be repeated."""
        super().__init__(message)
        self.request_id = request_id


class RequestRefused(GatewayError):
    """The leader refused the request; nothing was changed."""

    def __init__(self, code: str, message: str, log_offset: int = -1) -> None:
        """Keep the code, for programs, and where the refusal stands in the log (-1: it was not sent at all)."""
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.log_offset = log_offset


class LogUnreadable(GatewayError):
    """The log cannot be followed: a record is missing, or is no decision."""
