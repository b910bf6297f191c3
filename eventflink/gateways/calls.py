"""Every method of the gateways, as steps: what is asked, of whom, and how the answer is read.

Nothing is sent from here and nothing waits; see `steps.py` for who does. The blocking and the `asyncio` gateways have the same methods over
these, one line each.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from eventflink.events.effects import LeaderBeat
from eventflink.events.inputs import CancelJob, RequestFileUpload, RescaleJob, SuspendJob
from eventflink.gateways import results as r
from eventflink.gateways.backoff import Backoff
from eventflink.gateways.errors import FileNotAvailable, JobNotTerminated, NotSupported, RequestTimedOut, UnknownJob, UnknownTaskManager
from eventflink.gateways.leader import finding_leader
from eventflink.gateways.master_reads import MasterReads
from eventflink.gateways.reads import DEFAULT_MASTER_TIMEOUT_S, MAX_MASTERS, KnownMaster, MasterSilent, NothingThere, address_of
from eventflink.gateways.request_channel import Accepted, Command, Request
from eventflink.gateways.steps import Ask, AwaitUpload, FindMasters, Get, Parameters, Steps, Tell
from eventflink.model.configuration import ID_PATTERN
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.model.statuses import JobStatus

RESULT_WAIT_S: Final = 5.0
"""For so long one master is asked to wait for a job's end; then it, or another, is asked again."""

_GRACE_S: Final = 1.0
"""What a master that waits gets beyond that for its answer."""

DEFAULT_JOBS: Final = 1_000
FIND_TIMEOUT_S: Final = 5.0


@dataclass(slots=True)
class Calls:
    """The methods, over what one gateway knows of its cluster; with a clock in seconds, which a test may hold in its hand."""

    cluster_id: str
    request_timeout_s: float
    clock: Callable[[], float] = time.monotonic
    new_backoff: Callable[[], Backoff] = Backoff
    reads: MasterReads = field(init=False)

    def __post_init__(self) -> None:
        """Know no master yet."""
        self.reads = MasterReads(self.cluster_id, self.clock, self.new_backoff)

    def _read(self, path: str, parameters: Parameters | None = None) -> Steps[dict[str, Any]]:
        return self.reads.read(path, self.clock() + self.request_timeout_s, parameters)

    def _read_job(self, job_id: str, part: str) -> Steps[dict[str, Any]]:
        try:
            return (yield from self._read(_job_path(job_id, part)))
        except NothingThere as error:
            raise UnknownJob("UnknownJob", str(error)) from error

    # -- Dispatcher ------------------------------------------------------------------------------------------------

    def find_leader(self, timeout_s: float) -> Steps[LeaderBeat]:
        """Wait for the beat of a living leader."""
        return finding_leader(self.cluster_id, timeout_s, clock=self.clock, backoff=self.new_backoff())

    def ask(self, request: Request) -> Steps[Accepted]:
        """Have a request done."""
        accepted: Accepted = yield Ask(request)
        return accepted

    def tell(self, command: Command) -> Steps[str]:
        """Send a command that wants no answer."""
        request_id: str = yield Tell(command)
        return request_id

    def list_jobs(self) -> Steps[dict[str, JobStatus]]:
        """Ask for the ids of all jobs and where each stands."""
        answer = yield from self._read("/job-statuses")
        return r.read_as(dict[str, JobStatus], dict(answer["jobs"]))

    def request_job(self, job_id: str) -> Steps[r.ExecutionGraphInfo]:
        """Ask for a whole job."""
        answer = yield from self._read_job(job_id, "")
        job = r.read_as(r.ExecutionGraphInfo, {**answer["job"], "log_offset": answer["log_offset"]})
        if job.job_id != job_id:
            raise UnknownJob("UnknownJob", f"there is no job '{job_id}'; '{job.job_id}' only begins so")
        return job

    def request_job_standing(self, job_id: str) -> Steps[r.JobStanding]:
        """Ask where a job stands, under which JobMaster."""
        answer = yield from self._read_job(job_id, "/status")
        return r.read_as(r.JobStanding, answer["job"])

    def request_job_status(self, job_id: str) -> Steps[JobStatus]:
        """Ask where a job stands."""
        return (yield from self.request_job_standing(job_id)).status

    def request_job_result(self, job_id: str, timeout_s: float) -> Steps[r.JobResult]:
        """Wait for a job's end, at one master after the other, over any number of failovers."""
        deadline = self.clock() + timeout_s
        path = _job_path(job_id, "/result")
        since: Parameters = {}
        while True:
            wait_s = max(0.001, min(RESULT_WAIT_S, deadline - self.clock()))
            parameters: Parameters = {"timeout_ms": max(1, round(wait_s * 1000)), **since}
            try:
                answer = yield from self.reads.read(path, deadline + _GRACE_S, parameters, timeout_s=wait_s + _GRACE_S)
            except NothingThere as error:
                raise UnknownJob("UnknownJob", str(error)) from error
            result = answer["result"]
            # From then on it is enough that the next answer is no older; where the log ends need not be asked again.
            since = {"min_offset": answer["log_offset"], "linearizable": "false"}
            if result["is_terminal"]:
                return r.read_as(r.JobResult, {**result, "log_offset": answer["log_offset"]})
            if self.clock() >= deadline:
                raise JobNotTerminated(f"job '{job_id}' is {result['status']}: it has not ended within {timeout_s:g} s, and goes on")

    def request_multiple_job_details(self, statuses: Collection[JobStatus], limit: int) -> Steps[r.MultipleJobsDetails]:
        """Ask for the newest jobs."""
        answer = yield from self._read("/jobs", {"status": [str(status) for status in statuses], "limit": limit})
        return r.read_as(r.MultipleJobsDetails, answer)

    def request_cluster_overview(self) -> Steps[r.ClusterOverview]:
        """Ask how many there are of everything."""
        answer = yield from self._read("/overview")
        return r.read_as(r.ClusterOverview, {**answer["overview"], "log_offset": answer["log_offset"], "epoch": answer["epoch"]})

    def get_blob_server_port(self) -> Steps[int]:
        """Ask where the leader's blob server listens."""
        return address_of((yield from self.request_cluster_overview()).blob_address)[1]

    def not_supported(self, method: str) -> NotSupported:
        """Return the error of a method that Flink's Dispatcher has and this one has not."""
        return NotSupported(f"{method}: jobs here are batch jobs without checkpoints, savepoints or back-pressure statistics")

    # -- ResourceManager -------------------------------------------------------------------------------------------

    def request_resource_overview(self) -> Steps[r.ResourceOverview]:
        """Ask what the ResourceManager has."""
        answer = yield from self._read("/overview")
        return r.read_as(r.ResourceOverview, {**answer["overview"], "log_offset": answer["log_offset"]})

    def request_task_manager_info(self) -> Steps[tuple[r.TaskManagerInfo, ...]]:
        """Ask for every TaskManager."""
        answer = yield from self._read("/taskmanagers")
        return tuple([r.read_as(r.TaskManagerInfo, row) for row in answer["task_managers"]])

    def request_task_manager_details(self, task_manager_id: str) -> Steps[r.TaskManagerDetails]:
        """Ask for one TaskManager with its slots."""
        if not ID_PATTERN.fullmatch(task_manager_id):
            raise UnknownTaskManager("UnknownTaskManager", f"'{task_manager_id[:128]}' is no id, so there is no such TaskManager")
        try:
            answer = yield from self._read(f"/taskmanagers/{task_manager_id}")
        except NothingThere as error:
            raise UnknownTaskManager("UnknownTaskManager", str(error)) from error
        return r.read_as(r.TaskManagerDetails, {**answer["task_manager"], "log_offset": answer["log_offset"]})

    def get_number_registered_slots(self) -> Steps[int]:
        """Ask how many slots there are."""
        return (yield from self.request_resource_overview()).slots

    def get_number_free_slots(self) -> Steps[int]:
        """Ask how many slots are free."""
        return (yield from self.request_resource_overview()).slots_free

    def get_number_pending_slot_requests(self) -> Steps[int]:
        """Ask how many attempts wait for a slot."""
        return (yield from self.request_resource_overview()).slot_requests

    def get_number_pending_task_manager_slots(self) -> Steps[int]:
        """Ask how many slots were asked of the resource driver and have not registered."""
        return (yield from self.request_resource_overview()).slots_pending

    def get_number_registered_slots_of(self, task_manager_id: str) -> Steps[int]:
        """Ask how many slots a TaskManager has."""
        return (yield from self.request_task_manager_details(task_manager_id)).slots

    def get_number_free_slots_of(self, task_manager_id: str) -> Steps[int]:
        """Ask how many slots of a TaskManager are free."""
        return (yield from self.request_task_manager_details(task_manager_id)).slots_free

    def request_metric_query_service_addresses(self) -> Steps[dict[str, str]]:
        """Ask every master that was heard of lately where it serves its metrics."""
        deadline = self.clock() + self.request_timeout_s
        masters: list[KnownMaster] = yield FindMasters(min(FIND_TIMEOUT_S, self.request_timeout_s))
        addresses: dict[str, str] = {}
        for master in [m for m in masters if m.presence.query_address][:MAX_MASTERS]:
            left_s = deadline - self.clock()
            if left_s <= 0:
                break
            try:
                answer = yield Get(master.presence.query_address, "/metrics-address", {}, min(DEFAULT_MASTER_TIMEOUT_S, left_s))
            except (MasterSilent, NothingThere):
                continue  # It is gone, or of a version that does not tell.
            if answer["metrics_address"]:
                addresses[master.master_id] = answer["metrics_address"]
        return addresses

    def request_task_manager_metric_query_service_addresses(self) -> Steps[dict[str, str]]:
        """Ask where every TaskManager serves its metrics."""
        rows = (yield from self._read("/taskmanagers"))["task_managers"]
        return {row["task_manager_id"]: row["metrics_address"] for row in rows if row.get("metrics_address")}

    def request_file(self, request: Request, timeout_s: float) -> Steps[str]:
        """Have a file uploaded; wait for its blob key."""
        accepted: Accepted = yield Ask(request)
        uploaded = yield AwaitUpload(accepted, timeout_s)
        if uploaded is None:
            raise RequestTimedOut(accepted.request_id, f"the file was not uploaded within {timeout_s:g} s; it may still be")
        blob_key: str | None = uploaded.blob_key
        if blob_key is None:
            raise FileNotAvailable("FileNotAvailable", f"the file was not uploaded: {uploaded.error or 'no reason was given'}")
        return blob_key


def _job_path(job_id: str, part: str) -> str:
    if not is_valid_job_id(job_id):
        raise UnknownJob("UnknownJob", f"'{job_id[:128]}' is no job id, so there is no such job")
    return f"/jobs/{job_id}{part}"


@dataclass(slots=True)
class JobMasterCalls:
    """The methods of one job's JobMaster, which is known by its own fencing token from the first call on."""

    calls: Calls
    job_id: str
    job_master_id: str = ""

    def connect(self) -> Steps[str]:
        """Find out which JobMaster the job has now."""
        standing = yield from self.calls.request_job_standing(self.job_id)
        self.job_master_id = standing.job_master_id
        return self.job_master_id

    def cancellation(self, actor: str, request_id: str) -> Steps[CancelJob]:
        """Return the command that ends the job of this JobMaster, and no other."""
        if not self.job_master_id:
            yield from self.connect()
        return CancelJob(job_id=self.job_id, request_id=request_id, actor=actor, job_master_id=self.job_master_id)

    def cancel(self, actor: str, request_id: str) -> Steps[Accepted]:
        """Ask for the job's end."""
        return (yield from self.calls.ask((yield from self.cancellation(actor, request_id))))

    def suspend(self, reason: str, actor: str, request_id: str) -> Steps[Accepted]:
        """Ask this JobMaster, and no other, to stop."""
        if not self.job_master_id:
            yield from self.connect()
        command = SuspendJob(job_id=self.job_id, reason=reason, request_id=request_id, actor=actor, job_master_id=self.job_master_id)
        return (yield from self.calls.ask(command))

    def tell_cancel(self, actor: str, request_id: str) -> Steps[str]:
        """Ask for the job's end, and want no answer."""
        return (yield from self.calls.tell((yield from self.cancellation(actor, request_id))))

    def rescaling(self, vertex_id: str, parallelism: int, actor: str, request_id: str) -> Steps[RescaleJob]:
        """Return the command that gives a vertex of the job of this JobMaster another parallelism."""
        if not self.job_master_id:
            yield from self.connect()
        return RescaleJob(
            job_id=self.job_id,
            vertex_id=vertex_id,
            parallelism=parallelism,
            request_id=request_id,
            actor=actor,
            job_master_id=self.job_master_id,
        )

    def rescale_job(self, vertex_id: str, parallelism: int, actor: str, request_id: str) -> Steps[Accepted]:
        """Ask for another parallelism of a vertex."""
        return (yield from self.calls.ask((yield from self.rescaling(vertex_id, parallelism, actor, request_id))))

    def tell_rescale_job(self, vertex_id: str, parallelism: int, actor: str, request_id: str) -> Steps[str]:
        """Ask for another parallelism of a vertex, and want no answer."""
        return (yield from self.calls.tell((yield from self.rescaling(vertex_id, parallelism, actor, request_id))))


@dataclass(slots=True)
class TaskExecutorCalls:
    """The methods of one TaskExecutor; they go by the masters, so that a caller needs no way to its host."""

    calls: Calls
    task_manager_id: str

    def request_file_upload(self, request: RequestFileUpload, timeout_s: float) -> Steps[str]:
        """Have a file uploaded of an attempt that ran here; wait for its blob key."""
        job = yield from self.calls.request_job(request.job_id)
        places = {
            place.task_manager_id
            for vertex in job.vertices
            if vertex.vertex_id == request.vertex_id
            for subtask in vertex.subtasks
            if subtask.subtask_index == request.subtask_index
            for place in subtask.attempts
            if place.attempt == request.attempt
        }
        if self.task_manager_id not in places:
            attempt = f"{request.job_id}/{request.vertex_id}[{request.subtask_index}]#{request.attempt}"
            ran = f"it ran on {places.pop()}" if places else "it was never deployed"
            raise FileNotAvailable("FileNotAvailable", f"attempt {attempt} did not run on {self.task_manager_id}: {ran}")
        return (yield from self.calls.request_file(request, timeout_s))
