"""The JobMaster of one job for callers, under the job's own fencing token."""

from typing import Unpack

from eventflink.documents.checkpoints import CompletedCheckpoint
from eventflink.documents.one_job import ExecutionGraphInfo
from eventflink.events.inputs import CancelJob, RescaleJob, SuspendJob, TriggerCheckpoint, TriggerSavepoint
from eventflink.gateways.blocking import BlockingGateway, BlockingOptions
from eventflink.gateways.gateway import DEFAULT_CHECKPOINT_TIMEOUT_S, Gateway, RequestOptions, method
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.steps import Steps, ask, tell
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.statuses import JobStatus, SavepointMode


class JobMasterMethods(Gateway):
    """Requests to the JobMaster that a job had at the first command, or at `connect`.

    If the job has another JobMaster by then, commands are refused (`FencingTokenMismatch`), until `connect` is called again.
    Other errors are those of the Dispatcher's methods; for a job that is not known, `UnknownJob`.
    """

    job_id: str
    job_master_id: str = ""
    """Whom commands are for; empty until the job was asked for it."""

    @method
    def connect(self) -> Steps[str]:
        """Take the job's present JobMaster; return its id, the fencing token of what is asked from now on."""
        return self._connect()

    def _connect(self) -> Steps[str]:
        self.job_master_id = (yield from self._job_standing(self.job_id)).job_master_id
        return self.job_master_id

    def _token(self) -> Steps[str]:
        return self.job_master_id or (yield from self._connect())

    @method
    def request_job(self) -> Steps[ExecutionGraphInfo]:
        """Return the whole job."""
        return self._job(self.job_id)

    @method
    def request_job_status(self) -> Steps[JobStatus]:
        """Return where the job stands."""
        return (yield from self._job_standing(self.job_id)).status

    @method
    def rescale_job(self, vertex_id: str, parallelism: int, **options: Unpack[RequestOptions]) -> Steps[Accepted]:
        """Ask for another parallelism of a vertex, and of those that forward edges bind to it, and wait until that is in the log.

        What runs of it ends first and starts again with the new parallelism, also what had finished, as long as not all of it has.

        Raises:
            RequestRefused: with the code `UnknownVertex`, `VertexFinished`, `ParallelismOutOfRange`, `BoundByForwardEdges`,
                `RescaleInProgress`, `JobNotRunning` or `ReactiveMode`; nothing was changed.

        """
        return (yield from ask((yield from self._rescaling(vertex_id, parallelism, options))))

    @method
    def tell_rescale_job(self, vertex_id: str, parallelism: int, **options: Unpack[RequestOptions]) -> Steps[str]:
        """Ask for another parallelism of a vertex, and want no answer; return the request's id once Kafka has it."""
        return (yield from tell((yield from self._rescaling(vertex_id, parallelism, options))))

    def _rescaling(self, vertex_id: str, parallelism: int, options: RequestOptions) -> Steps[RescaleJob]:
        return RescaleJob(
            job_id=self.job_id, vertex_id=vertex_id, parallelism=parallelism, job_master_id=(yield from self._token()), **options
        )

    @method
    def trigger_checkpoint(
        self, timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S, **options: Unpack[RequestOptions]
    ) -> Steps[CompletedCheckpoint]:
        """Take a checkpoint of the job's streams now, and wait until it is complete.

        Raises:
            RequestRefused: with the code `NoStream`, `CheckpointInProgress`, `StreamsNotReady` or `JobNotRunning`; nothing was changed.
            CheckpointFailed: it was aborted.
            RequestTimedOut: it is not complete yet.

        """
        command = TriggerCheckpoint(job_id=self.job_id, job_master_id=(yield from self._token()), **options)
        return (yield from self._checkpoint(command, timeout_s))

    @method
    def trigger_savepoint(
        self,
        target_directory: str = "",
        timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S,
        *,
        cancel_job: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Steps[CompletedCheckpoint]:
        """Take a savepoint, and wait until it is complete; with `cancel_job` nothing is read after it, and the job is cancelled then.

        Raises:
            RequestRefused: as of a checkpoint, or with `InvalidSavepointDirectory`, `StreamFinished` or `SavepointInProgress`.
            CheckpointFailed: it was aborted; the job goes on.
            RequestTimedOut: it is not complete yet.

        """
        return (
            yield from self._savepoint(target_directory, SavepointMode.CANCEL if cancel_job else SavepointMode.CONTINUE, timeout_s, options)
        )

    @method
    def stop_with_savepoint(
        self,
        target_directory: str = "",
        timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S,
        *,
        drain: bool = False,
        **options: Unpack[RequestOptions],
    ) -> Steps[CompletedCheckpoint]:
        """Take a savepoint after which nothing is read, and wait until it is complete; then the streams of the job finish.

        With `drain` what the sources have by then is read first. Raises as `trigger_savepoint` does.
        """
        mode = SavepointMode.DRAIN if drain else SavepointMode.STOP
        return (yield from self._savepoint(target_directory, mode, timeout_s, options))

    def _savepoint(
        self, target_directory: str, mode: SavepointMode, timeout_s: float, options: RequestOptions
    ) -> Steps[CompletedCheckpoint]:
        token = yield from self._token()
        command = TriggerSavepoint(job_id=self.job_id, target_directory=target_directory, mode=mode, job_master_id=token, **options)
        return (yield from self._checkpoint(command, timeout_s))

    @method
    def cancel(self, **options: Unpack[RequestOptions]) -> Steps[Accepted]:
        """Ask for the job's end and wait until that is in the log; the end itself comes later."""
        return (yield from ask((yield from self._cancellation(options))))

    @method
    def tell_cancel(self, **options: Unpack[RequestOptions]) -> Steps[str]:
        """Ask for the job's end, and want no answer; return the request's id once Kafka has it."""
        return (yield from tell((yield from self._cancellation(options))))

    def _cancellation(self, options: RequestOptions) -> Steps[CancelJob]:
        return CancelJob(job_id=self.job_id, job_master_id=(yield from self._token()), **options)

    @method
    def suspend(self, reason: str = "", **options: Unpack[RequestOptions]) -> Steps[Accepted]:
        """Ask this JobMaster to stop, and wait until that is in the log; what the job has finished stays.

        It keeps its token until all its attempts have ended; a job that is resumed later has another JobMaster.
        """
        return (yield from ask(SuspendJob(job_id=self.job_id, reason=reason, job_master_id=(yield from self._token()), **options)))


class JobMasterGateway(JobMasterMethods, BlockingGateway):
    """Blocking requests to one job's JobMaster."""

    def __init__(self, cluster: ClusterAccess | str, cluster_id: str = "", job_id: str = "", **options: Unpack[BlockingOptions]) -> None:
        super().__init__(cluster, cluster_id, **options)
        self.job_id = job_id
