"""What became of a file that a TaskExecutor was asked to upload: told by the log, from the request on."""

import time
from collections.abc import Callable
from typing import Final

from eventflink.events.log_events import FileUploaded, FileUploadRequested, TaskManagerFileUploadRequested
from eventflink.gateways.follow import LogFollower
from eventflink.gateways.request_channel import Accepted

_POLL_S: Final = 0.25
_FIRST_TIMEOUT_S: Final = 10.0


def await_upload(
    bootstrap: str, cluster_id: str, accepted: Accepted, timeout_s: float, *, stop: Callable[[], bool] = lambda: False
) -> FileUploaded | None:
    """Return the end of an upload, or None when the time is over.

    The answer to a repeated request stands behind the first one, and perhaps behind the upload: the log is then read from its start.

    Raises:
        LogUnreadable, ClusterUnreachable: the log cannot be followed.

    """
    deadline = time.monotonic() + timeout_s
    request_id = accepted.request_id
    with LogFollower(bootstrap, cluster_id, accepted.log_offset) as follower:
        first = follower.poll(min(_FIRST_TIMEOUT_S, timeout_s))
        events = [event for logged in first for event in logged.decision.events]
        requests = (event for event in events if isinstance(event, FileUploadRequested | TaskManagerFileUploadRequested))
        is_here = any(event.request_id == request_id for event in requests)
    with LogFollower(bootstrap, cluster_id, accepted.log_offset if is_here else 0) as follower:
        while (left_s := deadline - time.monotonic()) > 0 and not stop():
            for logged in follower.poll(min(left_s, _POLL_S)):
                for event in logged.decision.events if logged.accepted else ():
                    if isinstance(event, FileUploaded) and event.request_id == request_id:
                        return event
    return None
