"""What the gateways have in common: how a method is written once for threads and for event loops, and what more than one of them asks.

A method is a generator of steps (`steps.py`) under `@method`. In a `BlockingGateway` a call returns what the steps lead to; in an
`AsyncGateway` it is to be awaited. Type checkers see both signatures, with the parameters as they are written.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypedDict, TypeVar, cast, overload

from eventflink.documents.checkpoints import CheckpointsAsOf, CompletedCheckpoint
from eventflink.documents.cluster import ClusterOverview
from eventflink.documents.failures import FailureOfJob, JobExceptions
from eventflink.documents.jobs import JobList, JobStanding
from eventflink.documents.one_job import ExecutionGraphInfo, JobResult
from eventflink.documents.plain import parse, part_of
from eventflink.documents.runs import JobNamesPage, RunsPage
from eventflink.documents.task_managers import AllocatedTaskManager, CountedTaskManager, CountedTaskManagers
from eventflink.events.inputs import Command, TriggerCheckpoint, TriggerSavepoint
from eventflink.events.log_events import CheckpointAborted
from eventflink.gateways.errors import (
    AnswerUnreadable,
    CheckpointFailed,
    FileNotAvailable,
    JobNotTerminated,
    RequestTimedOut,
    UnknownJob,
    UnknownTaskManager,
)
from eventflink.gateways.rest_process import NothingThere
from eventflink.gateways.state_reads import StateReads
from eventflink.gateways.steps import AwaitCheckpoint, AwaitUpload, Parameters, Steps, ask
from eventflink.model.configuration import ID_PATTERN
from eventflink.model.document_faults import describe_fault
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.model.statuses import JobStatus

DEFAULT_REQUEST_TIMEOUT_S: Final = 30.0
DEFAULT_UPLOAD_TIMEOUT_S: Final = 30.0
DEFAULT_CHECKPOINT_TIMEOUT_S: Final = 60.0
DEFAULT_RESULT_TIMEOUT_S: Final = 600.0

RESULT_WAIT_S: Final = 5.0
"""For so long a REST process is asked to wait for a job's end; then it is asked again."""

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class InThread(Protocol):
    """Who takes the steps of a method before it returns."""

    def run(self, steps: Steps[T], /) -> T:
        """Return what the steps lead to."""


class InEventLoop(Protocol):
    """Who is to be awaited for that."""

    def run(self, steps: Steps[T], /) -> Coroutine[Any, Any, T]:
        """Return a coroutine of what the steps lead to."""


class Method(Protocol[P, T_co]):
    """How type checkers see a method: by the gateway that has it."""

    @overload
    def __get__(self, gateway: InThread, owner: object = ..., /) -> Callable[P, T_co]: ...
    @overload
    def __get__(self, gateway: InEventLoop, owner: object = ..., /) -> Callable[P, Coroutine[Any, Any, T_co]]: ...


def method(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Method[P, T]:
    """Make steps a method of blocking and of `asyncio` gateways."""

    @wraps(steps)
    def call(gateway: InThread | InEventLoop, *args: P.args, **kwargs: P.kwargs) -> Any:
        return gateway.run(steps(gateway, *args, **kwargs))

    return cast("Method[P, T]", call)


class RequestOptions(TypedDict, total=False):
    """What every request may be given."""

    actor: str
    """Who asks, for the audit."""
    request_id: str
    """That of a request that got no answer, to repeat it; default: a new one."""


class CommandOptions(RequestOptions, total=False):
    """What every command to a component that the leader leads may be given."""

    fencing_token: str
    """The `leader_id` of the leader that the command is for: another one refuses it. Default: any leader does it."""


class Header(TypedDict):
    """The fields of a command that its options fill."""

    actor: str
    request_id: str
    leader_id: str


def header(*, actor: str = "", request_id: str = "", fencing_token: str = "") -> Header:
    """Return the fields of a command that its options fill."""
    return {"actor": actor, "request_id": request_id, "leader_id": fencing_token}


def read_as(cls: type[T], answer: Mapping[str, Any]) -> T:
    """Return a part of an answer as the document that it is.

    Raises:
        AnswerUnreadable: it does not fit the document; the message says where.

    """
    try:
        return parse(cls, answer)
    except ValueError as error:
        faults: Any = error  # pydantic's, which is loaded only by who reads an answer.
        first = faults.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise AnswerUnreadable(f"invalid {cls.__name__} in the answer: {place}: {describe_fault(first)}") from error


class Gateway:
    """Steps that more than one gateway takes."""

    def __init__(self, reads: StateReads) -> None:
        self._reads = reads

    def _read_job(self, job_id: str, part: str = "", parameters: Parameters | None = None, *, wait_s: float = 0.0) -> Steps[dict[str, Any]]:
        if not is_valid_job_id(job_id):
            raise UnknownJob("UnknownJob", f"job not found: '{job_id[:128]}' is not a valid job id")
        try:
            return (yield from self._reads.read(f"/jobs/{job_id}{part}", parameters, wait_s=wait_s))
        except NothingThere as error:
            raise UnknownJob("UnknownJob", str(error)) from error

    def _job(self, job_id: str) -> Steps[ExecutionGraphInfo]:
        answer = yield from self._read_job(job_id)
        job = read_as(ExecutionGraphInfo, {**answer["job"], "log_offset": answer["log_offset"]})
        if job.job_id != job_id:
            raise UnknownJob("UnknownJob", f"job not found: '{job_id}'; the id of job '{job.job_id}' only begins with it")
        return job

    def _job_standing(self, job_id: str) -> Steps[JobStanding]:
        answer = yield from self._read_job(job_id, "/status")
        return read_as(JobStanding, answer["job"])

    def _job_result(self, job_id: str, timeout_s: float) -> Steps[JobResult]:
        """Wait for a job's end, over any failovers."""
        clock = self._reads.clock
        deadline = clock() + timeout_s
        while True:
            wait_s = max(0.001, min(RESULT_WAIT_S, deadline - clock()))
            answer = yield from self._read_job(job_id, "/result", {"wait_ms": max(1, round(wait_s * 1000))}, wait_s=wait_s)
            result = answer["result"]
            if result["is_terminal"]:
                return read_as(JobResult, {**result, "log_offset": answer["log_offset"]})
            if clock() >= deadline:
                raise JobNotTerminated(f"job '{job_id}' is {result['status']}: it has not ended within {timeout_s:g} s, and still runs")

    def _exceptions(self, job_id: str) -> Steps[list[FailureOfJob]]:
        return read_as(JobExceptions, (yield from self._read_job(job_id, "/exceptions"))).exceptions

    def _checkpoints(self, job_id: str) -> Steps[CheckpointsAsOf]:
        return read_as(CheckpointsAsOf, (yield from self._read_job(job_id, "/checkpoints")))

    def _jobs(self, statuses: Collection[JobStatus], limit: int, labels: Mapping[str, str] = MappingProxyType({})) -> Steps[JobList]:
        asked = [f"{name}={value}" for name, value in labels.items()]
        given: dict[str, str | int | list[str]] = {"status": [str(status) for status in statuses], "limit": limit, "label": asked}
        return read_as(JobList, (yield from self._reads.read("/jobs", given)))

    def _names(self, part: str, first: int, limit: int) -> Steps[JobNamesPage]:
        return read_as(JobNamesPage, (yield from self._reads.read("/names", {"name": part, "first": first, "limit": limit}))["names"])

    def _runs(self, name: str, first: int, limit: int) -> Steps[RunsPage]:
        return read_as(RunsPage, (yield from self._reads.read("/runs", {"name": name, "first": first, "limit": limit}))["runs"])

    def _cluster_overview(self) -> Steps[ClusterOverview]:
        answer = yield from self._reads.read("/overview")
        return read_as(ClusterOverview, {**answer["overview"], "log_offset": answer["log_offset"], "epoch": answer["epoch"]})

    def _task_managers(self) -> Steps[list[CountedTaskManager]]:
        return read_as(CountedTaskManagers, (yield from self._reads.read("/taskmanagers"))).task_managers

    def _task_manager(self, task_manager_id: str) -> Steps[AllocatedTaskManager]:
        if not ID_PATTERN.fullmatch(task_manager_id):
            raise UnknownTaskManager("UnknownTaskManager", f"TaskManager not found: '{task_manager_id[:128]}' is not a valid id")
        try:
            answer = yield from self._reads.read(f"/taskmanagers/{task_manager_id}")
        except NothingThere as error:
            raise UnknownTaskManager("UnknownTaskManager", str(error)) from error
        return read_as(AllocatedTaskManager, answer["task_manager"])

    def _task_manager_metric_addresses(self) -> Steps[dict[str, str]]:
        rows = yield from self._task_managers()
        return {row.task_manager_id: row.metrics_address for row in rows if row.metrics_address}

    def _checkpoint(self, command: TriggerCheckpoint | TriggerSavepoint, timeout_s: float) -> Steps[CompletedCheckpoint]:
        """Have a checkpoint or a savepoint taken; wait until it is complete."""
        accepted = yield from ask(command)
        ended = yield AwaitCheckpoint(accepted, timeout_s)
        if ended is None:
            raise RequestTimedOut(accepted.request_id, f"the checkpoint was not complete within {timeout_s:g} s; it may still become so")
        if isinstance(ended, CheckpointAborted):
            what = ended.reason.lower().replace("_", " ")
            raise CheckpointFailed(f"checkpoint {ended.checkpoint_id} of '{ended.job_id}' failed ({what}): {ended.message}")
        return part_of(CompletedCheckpoint, ended)

    def _upload(self, command: Command, timeout_s: float) -> Steps[str]:
        """Have a file uploaded; wait for its blob key."""
        accepted = yield from ask(command)
        uploaded = yield AwaitUpload(accepted, timeout_s)
        if uploaded is None:
            raise RequestTimedOut(accepted.request_id, f"the file was not uploaded within {timeout_s:g} s; it may still be")
        blob_key: str | None = uploaded.blob_key
        if blob_key is None:
            raise FileNotAvailable("FileNotAvailable", f"the file was not uploaded: {uploaded.error or 'no reason was given'}")
        return blob_key
