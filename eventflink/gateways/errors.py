"""What can go wrong between a caller and a cluster, one type per outcome.

A caller must be able to tell a refusal from the lack of an answer: after `RequestRefused` the state is untouched, after
`RequestTimedOut` the request may still be decided, and repeating it with the same request id is safe.
"""

from typing import Final


class GatewayError(Exception):
    """A request did not work; the message says why and, where it can, what to do."""


class ClusterUnreachable(GatewayError):
    """Kafka does not answer at the bootstrap address, or stopped answering."""


class AccessDenied(GatewayError):
    """Kafka knows who asks, and does not grant this; the message says what would."""


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
    """The leader refused the request; nothing was changed. Refusals that a program may have to tell apart have types of their own."""

    def __init__(self, code: str, message: str, log_offset: int = -1) -> None:
        """Keep the code, for programs, and where the refusal stands in the log (-1: it was not sent at all)."""
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.log_offset = log_offset


class UnknownJob(RequestRefused):
    """There is no such job, or it was evicted from memory."""


class UnknownSchedule(RequestRefused):
    """There is no such schedule."""


class UnknownTaskManager(RequestRefused):
    """No such TaskManager is registered."""


class JobTerminated(RequestRefused):
    """The job has ended already, and not by being cancelled."""


class JobEnding(RequestRefused):
    """The job fails or is being cancelled: it can neither be suspended nor resumed."""


class JobNotEnded(RequestRefused):
    """The job has not ended: it cannot be run again yet."""


class NothingFailed(RequestRefused):
    """The job has finished: it cannot be run again from where it failed."""


class InvalidParameters(RequestRefused):
    """The job has no such parameter, or the value is none of its type; the message says which there are."""


class JobNotFailed(RequestRefused):
    """The job has not failed: there is nothing to dismiss."""


class ClusterShuttingDown(RequestRefused):
    """The cluster is shut down, and runs no more jobs; or it is to end in another way than was asked."""


class DuplicateJobSubmission(RequestRefused):
    """The job id is taken: by another graph, or by a job that has ended."""


class FencingTokenMismatch(RequestRefused):
    """The request is for a leader or a JobMaster that is not there any more; find the present one, and decide again what to request."""


class FileNotAvailable(RequestRefused):
    """The attempt was never deployed, or ran in the job that it is reused from; its TaskManager is gone, or could not upload the file."""


class TooManyUploads(RequestRefused):
    """Too many files are on their way already: ask again later."""


class CheckpointFailed(GatewayError):
    """The checkpoint was triggered, and aborted before it was complete; the message says why."""


class JobNotTerminated(GatewayError):
    """The job has not ended within the time that the caller gave; it keeps running."""


class ArchiveUnusable(GatewayError):
    """The job has left the memory of the masters, and its archive is damaged or gone: nothing more is known of it."""


class ResultNotThere(GatewayError):
    """The job has not finished, or the vertex left no such output."""


class ResultNotNamed(GatewayError):
    """The job has several results and none was named, or it has no vertex of that name; the message names what there is."""


class LogUnreadable(GatewayError):
    """The log cannot be followed: a record is missing, or is not a decision."""


class LogUnfoldable(LogUnreadable):
    """The records of the log do not lead to a state."""


class LogNotTrusted(GatewayError):
    """The log has less than was known to be in it, or this process has another secret than the cluster."""


_REFUSALS: Final[dict[str, type[RequestRefused]]] = {
    refusal.__name__: refusal
    for refusal in (
        UnknownJob,
        UnknownSchedule,
        UnknownTaskManager,
        JobTerminated,
        JobEnding,
        JobNotEnded,
        NothingFailed,
        InvalidParameters,
        JobNotFailed,
        ClusterShuttingDown,
        DuplicateJobSubmission,
        FencingTokenMismatch,
        FileNotAvailable,
        TooManyUploads,
    )
}


def refusal_of(code: str, message: str, log_offset: int = -1) -> RequestRefused:
    """Return the error for a refusal: of the type that has the code's name, where there is one."""
    return _REFUSALS.get(code, RequestRefused)(code, message, log_offset)


class AnswerUnreadable(GatewayError):
    """A REST process answered with what this version of the gateways does not understand."""
