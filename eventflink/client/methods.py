"""What a cluster and a job can be asked from Python, as steps: methods that block in `cluster.py`, and are awaited in `asynchronous.py`.

Names are short here, and arguments what people have at hand; what goes over the wire, errors and time limits are those of the gateways.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from eventflink.blob.tls import TlsFiles
from eventflink.client.live import Live
from eventflink.client.options import EventOptions, Paths, RerunOptions, SubmitOptions, each_of
from eventflink.client.pictures import ClusterView, JobView
from eventflink.documents.checkpoints import CheckpointsAsOf, CompletedCheckpoint
from eventflink.documents.cluster import ClusterOverview
from eventflink.documents.failures import FailureOfJob
from eventflink.documents.jobs import JobRow
from eventflink.documents.one_job import DocumentPage, ExecutionGraphInfo, JobResult
from eventflink.documents.runs import DEFAULT_NAMES, DEFAULT_RUNS, JobNamesPage, RunsPage
from eventflink.documents.task_managers import CountedTaskManager
from eventflink.events.effects import LeaderHeartbeat
from eventflink.events.inputs import (
    CancelJob,
    DismissJobFailure,
    JobSubmission,
    RerunJob,
    RescaleJob,
    ResumeJob,
    ShutDownCluster,
    SuspendJob,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from eventflink.gateways.code import ship_code, ship_newer_code
from eventflink.gateways.dispatcher_gateway import new_job_id
from eventflink.gateways.errors import JobNotTerminated
from eventflink.gateways.gateway import (
    DEFAULT_CHECKPOINT_TIMEOUT_S,
    DEFAULT_RESULT_TIMEOUT_S,
    Gateway,
    header,
    method,
    read_as,
)
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S
from eventflink.gateways.leader import finding_leader
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.schedule_methods import ScheduleMethods, parameters_of
from eventflink.gateways.steps import Pause, Steps, ask, work
from eventflink.jobs.job_files import DescribedJob, Document, described, with_sql_files
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import bind_parameters
from eventflink.model.packages import needs
from eventflink.model.schedule_document import check_schedule
from eventflink.model.statuses import JobStatus, SavepointMode

if TYPE_CHECKING:
    from eventflink.client.events import EventPages
    from eventflink.jobs.result import JobOutput

SHOWN_JOBS: Final = 20
_WATCH_S: Final = 1.0


class ClusterMethods(ScheduleMethods):
    """A cluster. Reads raise `ClusterUnreachable`, commands `RequestRefused` and `RequestTimedOut`, as the gateways' do."""

    access: ClusterAccess
    """How it is reached: what gateways are made of as well."""
    actor: str
    tls: TlsFiles | None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.access.cluster_id!r} at {self.access.bootstrap})"

    @method
    def view(self) -> Steps[ClusterView]:
        """Return how many there are of everything, and the newest jobs: what a notebook shows of a cluster."""
        overview = yield from self._cluster_overview()
        return ClusterView(self.access.cluster_id, overview, (yield from self._jobs((), SHOWN_JOBS)))

    @method
    def overview(self) -> Steps[ClusterOverview]:
        """Return how many TaskManagers, slots and jobs there are."""
        return self._cluster_overview()

    @method
    def jobs(
        self, status: JobStatus | Iterable[JobStatus] = (), *, limit: int = 100, labels: Mapping[str, str] = MappingProxyType({})
    ) -> Steps[list[JobRow]]:
        """Return the newest `limit` (1 to 1,000) jobs with one of these statuses (none: any) and all these labels, the newest last."""
        return (yield from self._jobs(each_of(status), limit, labels)).jobs

    @method
    def names(self, part: str = "", *, first: int = 0, limit: int = DEFAULT_NAMES) -> Steps[JobNamesPage]:
        """Return the names of jobs with this part in them, those first that were submitted last."""
        return self._names(part, first, limit)

    @method
    def runs(self, name: str, *, first: int = 0, limit: int = DEFAULT_RUNS) -> Steps[RunsPage]:
        """Return the runs of a name, the newest first, `limit` (1 to 100) from the `first`-th on; none: nothing of this name is known.

        Example:
            `[(run.job_id, run.version, run.status, run.duration_ms) for run in cluster.runs("nightly revenue").runs]`

        """
        return self._runs(name, first, limit)

    @method
    def task_managers(self) -> Steps[list[CountedTaskManager]]:
        """Return every registered TaskManager."""
        return self._task_managers()

    @method
    def shutdown(self, *, cancel_jobs: bool = False) -> Steps[Accepted]:
        """End the whole cluster in order and wait until that is in the log; its jobs are suspended, or cancelled."""
        return ask(ShutDownCluster(cancel_jobs=cancel_jobs, **header(actor=self.actor)))

    @method
    def put_schedule(self, schedule_id: str, definition: Mapping[str, Any], *, code: Paths = ()) -> Steps[Accepted]:
        """Make a schedule of a document, or give it this new version, with the files of its job's code; return once it is in the log.

        Raises:
            InvalidSchedule: the document is not a valid schedule; the message names the place.
            ArchiveError: the code cannot be packed.
            RequestRefused: with the code `ScheduleEnded` or `TooManySchedules`.

        Example:
            `cluster.put_schedule("nightly", {"cron": "0 2 * * *", "time_zone": "Europe/Berlin", "job": {…}}, code=["orders.py"])`

        """
        checked = check_schedule(definition)
        job = with_sql_files(DescribedJob(checked.job_graph), "the schedule", None)
        graph = yield from _with_code(self, job.graph, job, code)
        return (yield from self._put_schedule(schedule_id, dataclasses.replace(checked, job_graph=graph), {}))

    def _submission(self, document: Document, options: SubmitOptions) -> Steps[str]:
        """Have a job submitted; return its id once that is in the log."""
        job = described(document)
        graph = bind_parameters(job.graph, options.get("parameters") or {})
        savepoint = options.get("savepoint")
        if savepoint is not None or graph.restore is not None:
            from eventflink.streams.savepoint_restore import begin_in_savepoint  # noqa: PLC0415 - for those who have one

            allowed = options.get("allow_non_restored_state", False)
            graph = yield from work(partial(begin_in_savepoint, graph, savepoint, allow_non_restored_state=allowed))
        graph = yield from _with_code(self, graph, job, options.get("code", ()))
        return (yield from ask(JobSubmission(job_id=options.get("job_id") or new_job_id(), job_graph=graph, actor=self.actor))).job_id

    def _event_pages(self, options: EventOptions) -> "EventPages":
        from eventflink.client.events import EventPages  # noqa: PLC0415 - what judges decisions is loaded by those who read them

        return EventPages(self.access, **options)


def _with_code(gateway: "ClusterMethods | JobMethods", graph: JobGraph, job: DescribedJob, code: Paths) -> Steps[JobGraph]:
    """Return the graph with the archives of these files, or else of the job's own, and of its packages, in the blob store."""
    paths = tuple([Path(each) for each in each_of(code)])
    if not paths and not job.has_code:
        return graph
    leader = yield from _find_leader(gateway)
    return (yield from work(partial(ship_code, graph, leader.blob_address, job, paths, gateway.tls)))


def _find_leader(gateway: "ClusterMethods | JobMethods") -> Steps[LeaderHeartbeat]:
    reads = gateway._reads  # noqa: SLF001 - these two are what it is of
    return finding_leader(reads.access, DEFAULT_CONNECT_TIMEOUT_S, clock=reads.clock, fraction=reads.fraction)


class JobMethods(Gateway):
    """One job of a cluster. Every method raises `UnknownJob` where there is none."""

    job_id: str
    actor: str
    tls: TlsFiles | None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.job_id!r})"

    @method
    def view(self) -> Steps[JobView]:
        """Return the job with its graph and its progress: what a notebook shows of a job."""
        return JobView((yield from self._job(self.job_id)))

    @method
    def details(self) -> Steps[ExecutionGraphInfo]:
        """Return the whole job: vertices, subtasks, attempts, edges."""
        return self._job(self.job_id)

    @method
    def status(self) -> Steps[JobStatus]:
        """Return where the job stands."""
        return (yield from self._job_standing(self.job_id)).status

    @method
    def wait(self, timeout_s: float = DEFAULT_RESULT_TIMEOUT_S) -> Steps[JobResult]:
        """Wait for the job's end, whichever it is, over any failovers; raises `JobNotTerminated` when the time is over."""
        return self._job_result(self.job_id, timeout_s)

    @method
    def result(
        self, vertex_id: str | None = None, output: str = "default", *, timeout_s: float = DEFAULT_RESULT_TIMEOUT_S
    ) -> Steps["JobOutput"]:
        """Wait for the job's end and return an output of a vertex; None: of the only vertex whose output no edge reads.

        Raises:
            ResultNotThere: the job has failed or was cancelled, or the vertex left no such output.
            ResultNotNamed: which vertex is meant is not clear.
            JobNotTerminated: the time is over.
            PackageMissing: Arrow is not installed, which `eventflink[results]` brings.

        """
        with needs("results", "Job.result"):
            from eventflink.gateways.outputs import find_output  # noqa: PLC0415 - Arrow is loaded by those who read results

        yield from self._job_result(self.job_id, timeout_s)
        return find_output((yield from self._job(self.job_id)), vertex_id, output)

    @method
    def watch(self, timeout_s: float = DEFAULT_RESULT_TIMEOUT_S) -> Steps[JobStatus]:
        """Show the job, anew every second, until it has ended; return how. Raises `JobNotTerminated` when the time is over."""
        live, clock = Live(), self._reads.clock
        deadline = clock() + timeout_s
        while True:
            job = yield from self._job(self.job_id)
            live.show(JobView(job))
            if job.is_archived:
                return job.status
            if clock() >= deadline:
                raise JobNotTerminated(f"job '{self.job_id}' is {job.status}: it has not ended within {timeout_s:g} s, and still runs")
            yield Pause(_WATCH_S)

    @method
    def exceptions(self) -> Steps[list[FailureOfJob]]:
        """Return the failures, the newest first, with what each led to."""
        return self._exceptions(self.job_id)

    @method
    def checkpoints(self) -> Steps[CheckpointsAsOf]:
        """Return the checkpoints of the job's streams, and where each of these stood at the last one."""
        return self._checkpoints(self.job_id)

    @method
    def cancel(self, *, closing: bool = False) -> Steps[Accepted]:
        """Request the cancellation and wait until that is in the log; the job ends later. `closing`: also of closing vertices that run."""
        return ask(CancelJob(job_id=self.job_id, closing=closing, **header(actor=self.actor)))

    @method
    def suspend(self, reason: str = "") -> Steps[Accepted]:
        """End the job's attempts without ending it, and wait until that is in the log; what has finished stays. Raises `JobEnding`."""
        return ask(SuspendJob(job_id=self.job_id, reason=reason, **header(actor=self.actor)))

    @method
    def resume(self) -> Steps[Accepted]:
        """Have a suspended job go on with what had not finished, and wait until that is in the log. Raises `JobEnding`."""
        return ask(ResumeJob(job_id=self.job_id, **header(actor=self.actor)))

    @method
    def dismiss_failure(self, reason: str = "") -> Steps[Accepted]:
        """Remove the failed job from the problems of the cluster, and wait until that is in the log. Raises `JobNotFailed`."""
        return ask(DismissJobFailure(job_id=self.job_id, reason=reason, **header(actor=self.actor)))

    def _rerun(self, job_id: str | None, options: RerunOptions) -> Steps[str]:
        """Have the job run again, as another one; return the id of that once it is in the log."""
        document, code, graph = options.get("document"), [Path(each) for each in each_of(options.get("code", ()))], None
        if document is not None:
            graph = yield from self._with_code(described(document), code)
        elif code:
            raise ValueError("invalid rerun: code goes with the document of the job that it is the code of")
        command = RerunJob(
            job_id=job_id or new_job_id(),
            rerun_of=self.job_id,
            parameters=parameters_of(options.get("parameters") or {}),
            failed=options.get("failed", False),
            from_vertices=tuple(each_of(options.get("from_vertices", ()))),
            job_graph=graph,
            **header(actor=self.actor),
        )
        return (yield from ask(command)).job_id

    def _with_code(self, job: DescribedJob, code: Sequence[Path]) -> Steps[JobGraph]:
        """Return the graph of what is to run in place of this job's, with its code, or else with that of this job."""
        page = read_as(DocumentPage, (yield from self._read_job(self.job_id, "/document")))
        before = page.document.get("code_archives", [])
        archives = yield from work(partial(job.archives, code))
        if not archives and not before:
            return job.graph
        address = (yield from _find_leader(self)).blob_address
        return (yield from work(partial(ship_newer_code, job.graph, address, archives, before, self.tls)))

    @method
    def rescale(self, vertex_id: str, parallelism: int) -> Steps[Accepted]:
        """Ask for another parallelism of a vertex and wait until that is in the log."""
        return ask(RescaleJob(job_id=self.job_id, vertex_id=vertex_id, parallelism=parallelism, actor=self.actor))

    @method
    def checkpoint(self, *, timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S) -> Steps[CompletedCheckpoint]:
        """Take a checkpoint of the job's streams now and return it once it is complete. Raises `CheckpointFailed`."""
        return self._checkpoint(TriggerCheckpoint(job_id=self.job_id, **header(actor=self.actor)), timeout_s)

    @method
    def savepoint(self, directory: Path | str = "", *, timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S) -> Steps[str]:
        """Take a savepoint and return its path once it is complete; the job goes on. Raises `CheckpointFailed`."""
        return self._savepoint(directory, SavepointMode.CONTINUE, timeout_s)

    @method
    def stop(self, directory: Path | str = "", *, drain: bool = False, timeout_s: float = DEFAULT_CHECKPOINT_TIMEOUT_S) -> Steps[str]:
        """Take a savepoint after which nothing is read, and return its path; then the streams finish. Raises `CheckpointFailed`.

        With `drain` what the sources have by then is read first.
        """
        return self._savepoint(directory, SavepointMode.DRAIN if drain else SavepointMode.STOP, timeout_s)

    def _savepoint(self, directory: Path | str, mode: SavepointMode, timeout_s: float) -> Steps[str]:
        command = TriggerSavepoint(job_id=self.job_id, target_directory=str(directory), mode=mode, **header(actor=self.actor))
        return (yield from self._checkpoint(command, timeout_s)).savepoint_path
