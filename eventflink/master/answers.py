"""The two answers to a request, of whichever component: accepted, or refused by a code and in words.

Answers are bounded: a request is answered by a decision, however long the ids and words in it are (P7, P10a).
"""

from typing import Final

from eventflink.events.inputs import Request
from eventflink.events.log_events import RequestAccepted, RequestRejected

MAX_MESSAGE_LENGTH: Final = 8_192
MAX_SUBJECT_LENGTH: Final = 128
"""As long as an id may be."""


def accepted(request: Request) -> RequestAccepted:
    """Return that the request is done, or begun."""
    return RequestAccepted(
        request_id=request.request_id, reply_partition=request.reply_partition, subject=request.subject[:MAX_SUBJECT_LENGTH]
    )


def rejected(request: Request, code: str, message: str) -> RequestRejected:
    """Return that the request is refused, and changed nothing."""
    return RequestRejected(
        request_id=request.request_id,
        reply_partition=request.reply_partition,
        subject=request.subject[:MAX_SUBJECT_LENGTH],
        code=code,
        message=message[:MAX_MESSAGE_LENGTH],
        dead_letter=False,
    )
