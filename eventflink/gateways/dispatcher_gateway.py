"""The Dispatcher for callers: submit and cancel jobs, ask for task files; one request at a time, in the calling thread.

How a request is repeated until it is answered is in `blocking_gateway.py`. For many requests at once see `pipelined_client.py`.
"""

import uuid

from eventflink.events.effects import LeaderBeat
from eventflink.events.inputs import CancelJob, JobSubmission, RequestFileUpload
from eventflink.gateways.blocking_gateway import BlockingGateway
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.leader import find_leader
from eventflink.gateways.request_channel import Accepted
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import TaskFile


def new_job_id() -> str:
    """Return a job id as Flink writes them: 32 hexadecimal digits."""
    return uuid.uuid4().hex


class DispatcherGateway(BlockingGateway):
    """Blocking requests to one cluster. For one thread; close it, or use it as a context manager."""

    def find_leader(self, timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S) -> LeaderBeat:
        """Return the beat of the living leader: who it is and where its blob server is; raises as `leader.find_leader` does."""
        return find_leader(self.bootstrap, self.cluster_id, timeout_s=timeout_s)

    def submit_job(self, job_graph: JobGraph, job_id: str | None = None, *, actor: str = "", request_id: str = "") -> Accepted:
        """Submit a job and wait until it is in the log.

        Raises:
            RequestRefused: the job is not taken; nothing was changed.
            RequestTimedOut: no answer came; `request_id` of the error repeats the request safely.

        """
        return self.ask(JobSubmission(job_id=job_id or new_job_id(), request_id=request_id, actor=actor, job_graph=job_graph))

    def cancel_job(self, job_id: str, *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask for the end of a job and wait until that is in the log; the end itself comes later; raises as `submit_job` does."""
        return self.ask(CancelJob(job_id=job_id, request_id=request_id, actor=actor))

    def request_file_upload(self, attempt: AttemptId, file: TaskFile, *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask for a file of a task attempt; `FileUploaded` with the same request id follows in the log; raises as `submit_job` does."""
        return self.ask(
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
