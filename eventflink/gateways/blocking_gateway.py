"""What the blocking gateways have in common: one request at a time, in the calling thread, until it is answered.

A request that gets no answer is sent again under the same request id, which the masters answer once more and never do
twice (P8); so a change of leader in between shows only as time.
"""

import time
from typing import Final, Self

from eventflink.gateways.errors import RequestTimedOut
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.request_channel import REPEAT_AFTER_S, Accepted, Request, RequestChannel, result_of

DEFAULT_REQUEST_TIMEOUT_S: Final = 30.0


class BlockingGateway:
    """Blocking requests to one cluster. For one thread; close it, or use it as a context manager."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
    ) -> None:
        """Connect to the cluster; each request waits up to `request_timeout_s` for its answer.

        Raises:
            ClusterUnreachable: Kafka does not answer.
            ClusterNotFound: Kafka holds no such cluster.

        """
        self.bootstrap = bootstrap
        self.cluster_id = cluster_id
        self._request_timeout_s = request_timeout_s
        self._channel = RequestChannel(bootstrap, cluster_id, connect_timeout_s=connect_timeout_s)

    def ask(self, request: Request) -> Accepted:
        """Send a request and wait until its decision is in the log.

        Raises:
            RequestRefused: it is not done; nothing was changed.
            RequestTimedOut: no answer came; `request_id` of the error repeats the request safely.

        """
        encoded = self._channel.encode(request)
        deadline = time.monotonic() + self._request_timeout_s
        while (now := time.monotonic()) < deadline:
            self._channel.send(encoded)
            send_again_at = min(now + REPEAT_AFTER_S, deadline)
            while (left_s := send_again_at - time.monotonic()) > 0:
                for answer in self._channel.receive(left_s, (encoded.request_id,)):
                    return result_of(answer)
        raise RequestTimedOut(
            encoded.request_id,
            f"no master of '{self.cluster_id}' answered request {encoded.request_id} within {self._request_timeout_s:g} s; "
            "it may still be done",
        )

    def close(self) -> None:
        """Let the connections go."""
        self._channel.close()

    def __enter__(self) -> Self:
        """Return the gateway."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()
