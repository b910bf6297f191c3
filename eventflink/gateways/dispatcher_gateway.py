"""The Dispatcher for callers: submit and cancel jobs, ask for task files; one request at a time, in the calling thread.

A request that gets no answer is sent again under the same request id, which the masters answer once more and never do
twice (P8); so a change of leader in between shows only as time. For many requests at once see `pipelined_client.py`.
"""

import time
import uuid
from typing import Final, Self

from eventflink.events.effects import LeaderBeat
from eventflink.events.inputs import CancelJob, JobSubmission, RequestFileUpload
from eventflink.gateways.errors import RequestTimedOut
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.leader import find_leader
from eventflink.gateways.request_channel import REPEAT_AFTER_S, Accepted, Request, RequestChannel, result_of
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import TaskFile

DEFAULT_REQUEST_TIMEOUT_S: Final = 30.0


def new_job_id() -> str:
    """Return a job id as Flink writes them: 32 hexadecimal digits."""
    return uuid.uuid4().hex


class DispatcherGateway:
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
        self._bootstrap = bootstrap
        self._cluster_id = cluster_id
        self._request_timeout_s = request_timeout_s
        self._channel = RequestChannel(bootstrap, cluster_id, connect_timeout_s=connect_timeout_s)

    def find_leader(self, timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> LeaderBeat:
        """Return the beat of the living leader: who it is and where its blob server is; raises as `leader.find_leader` does."""
        return find_leader(self._bootstrap, self._cluster_id, timeout_s=timeout_s)

    def submit_job(self, job_graph: JobGraph, job_id: str | None = None, *, actor: str = "", request_id: str = "") -> Accepted:
        """Submit a job and wait until it is in the log.

        Raises:
            RequestRefused: the job is not taken; nothing was changed.
            RequestTimedOut: no answer came; `request_id` of the error repeats the request safely.

        """
        return self._ask(JobSubmission(job_id=job_id or new_job_id(), request_id=request_id, actor=actor, job_graph=job_graph))

    def cancel_job(self, job_id: str, *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask for the end of a job and wait until that is in the log; the end itself comes later; raises as `submit_job` does."""
        return self._ask(CancelJob(job_id=job_id, request_id=request_id, actor=actor))

    def request_file_upload(self, attempt: AttemptId, file: TaskFile, *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask for a file of a task attempt; `FileUploaded` with the same request id follows in the log; raises as `submit_job` does."""
        return self._ask(
            RequestFileUpload(
                request_id=request_id,
                actor=actor,
                job_id=attempt.job_id,
                vertex_id=attempt.vertex_id,
                subtask_index=attempt.subtask_index,
                attempt=attempt.attempt,
                file=file,
            )
        )

    def _ask(self, request: Request) -> Accepted:
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
            f"no master of '{self._cluster_id}' answered request {encoded.request_id} within {self._request_timeout_s:g} s; "
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
