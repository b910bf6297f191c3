"""The JobMaster of one job for callers, under the job's own fencing token; one request at a time, in the calling thread."""

from eventflink.gateways.blocking import DEFAULT_REQUEST_TIMEOUT_S, BlockingConnection, BlockingGateway
from eventflink.gateways.calls import JobMasterCalls
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.results import ExecutionGraphInfo
from eventflink.model.statuses import JobStatus


class JobMasterGateway(BlockingGateway):
    """Blocking requests to the JobMaster that a job had at the first command, or at `connect`.

    If the job has another JobMaster by then, commands are refused (`FencingTokenMismatch`), until `connect` is called again.
    Other errors are those of `DispatcherGateway`; for a job that is not known, `UnknownJob`.
    """

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        job_id: str,
        *,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        connection: BlockingConnection | None = None,
    ) -> None:
        """Prepare; nothing is connected before the first call. A `connection` is another gateway's, and is closed there."""
        own = connection or BlockingConnection(bootstrap, cluster_id, request_timeout_s)
        super().__init__(own, owns_connection=connection is None)
        self._job_master = JobMasterCalls(self._calls, job_id)

    def connect(self) -> str:
        """Take the job's present JobMaster; return its id, the fencing token of what is asked from now on."""
        return self._run(self._job_master.connect())

    def request_job(self) -> ExecutionGraphInfo:
        """Return the whole job."""
        return self._run(self._calls.request_job(self._job_master.job_id))

    def request_job_status(self) -> JobStatus:
        """Return where the job stands."""
        return self._run(self._calls.request_job_status(self._job_master.job_id))

    def rescale_job(self, vertex_id: str, parallelism: int, *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask for another parallelism of a vertex, and of those that forward edges bind to it, and wait until that is in the log.

        What runs of it ends first and starts again with the new parallelism, also what had finished, as long as not all of it has.

        Raises:
            RequestRefused: with the code `UnknownVertex`, `VertexFinished`, `ParallelismOutOfRange`, `BoundByForwardEdges`,
                `RescaleInProgress`, `JobNotRunning` or `ReactiveMode`; nothing was changed.

        """
        return self._run(self._job_master.rescale_job(vertex_id, parallelism, actor, request_id))

    def tell_rescale_job(self, vertex_id: str, parallelism: int, *, actor: str = "", request_id: str = "") -> str:
        """Ask for another parallelism of a vertex, and want no answer; return the request's id once Kafka has it."""
        return self._run(self._job_master.tell_rescale_job(vertex_id, parallelism, actor, request_id))

    def cancel(self, *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask for the job's end and wait until that is in the log; the end itself comes later."""
        return self._run(self._job_master.cancel(actor, request_id))

    def suspend(self, reason: str = "", *, actor: str = "", request_id: str = "") -> Accepted:
        """Ask this JobMaster to stop, and wait until that is in the log; what the job has finished stays.

        It keeps its token until all its attempts have ended; a job that goes on later has another JobMaster.
        """
        return self._run(self._job_master.suspend(reason, actor, request_id))

    def tell_cancel(self, *, actor: str = "", request_id: str = "") -> str:
        """Ask for the job's end, and want no answer; return the request's id once Kafka has it."""
        return self._run(self._job_master.tell_cancel(actor, request_id))
