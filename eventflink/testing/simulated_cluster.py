"""A whole cluster in virtual time, for tests in milliseconds: how a job is scheduled, fails, restarts and ends, without running its code.

The masters and TaskExecutors are the real machines, on a broker and clocks that `simulation/` simulates. A task takes a second or some, as
the seed draws it, and finishes, unless the test has it fail. What the code of tasks does, records, Spark and streams are for
`mini_cluster.py`. The rule: the same seed and the same calls are the same run.
"""

import itertools
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Literal, Self

from eventflink.documents.failures import FailureOfJob
from eventflink.documents.one_job import JobInfo, SubtaskInfo
from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import CancelJob, JobSubmission
from eventflink.events.topics import Topic
from eventflink.gateways.errors import refusal_of
from eventflink.jobs.job_files import Document, described
from eventflink.leadership.fold import Fold
from eventflink.master.job_master import JobMaster
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.job_graph_document import bind_parameters
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, ExecutionState, JobStatus
from eventflink.taskexecutor.process_events import Failed, Killed
from eventflink.testing.failures import CannotCrash, Unexpected
from eventflink.testing.simulation.cluster import Seat, VirtualCluster
from eventflink.testing.simulation.scheduler import MILLISECOND
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.views.exceptions import exceptions_view
from eventflink.views.jobs_and_cluster import job_view

DEFAULT_TIMEOUT_MS: Final = 600_000
"""Of virtual time."""

_RESTART_MS: Final = 1_000.0
"""How soon a process that was killed is started again."""

_LEAST_RUN_MS: Final = 1_000
"""So that no task is over before it was seen to run."""

_SIGKILL: Final = 9
_MAX_STEPS: Final = 5_000_000
_MAX_EXCEPTIONS: Final = 1_000
_SUBMISSIONS = PayloadCodec("SubmissionEnvelope")
_COMMANDS = PayloadCodec("CommandEnvelope")


class _ConfiguredCluster(VirtualCluster):
    """Masters with these settings, to whose requests nothing comes late or twice."""

    def __init__(self, simulation: SimulationSettings, settings: MasterSettings) -> None:
        self._settings = settings
        super().__init__(simulation, Random(simulation.seed))  # noqa: S311 - a run has to be repeatable
        self.broker.stall_share = self.broker.duplicate_share = 0.0

    def settings_of_masters(self) -> MasterSettings:
        """Return the settings that were given."""
        return self._settings


class SimulatedCluster:
    """Masters and TaskExecutors in virtual time, which passes only while something is waited for.

    Examples:
        >>> from eventflink.testing.simulated_cluster import SimulatedCluster
        >>> cluster = SimulatedCluster()
        >>> orders = {"id": "orders", "python": "orders:read", "parallelism": 2}
        >>> once = {"type": "fixed-delay", "attempts": 1, "delay_ms": 500}
        >>> job = cluster.submit({"name": "orders", "vertices": [orders], "restart_strategy": once})
        >>> task = cluster.fail_task(job.wait_until_running("orders", 1), "orders", 1)
        >>> job.wait().attempts()
        {'orders': [1, 2]}

    """

    def __init__(
        self, *, masters: int = 2, task_executors: int = 2, slots: int = 2, seed: int = 0, settings: MasterSettings | None = None
    ) -> None:
        """Start a cluster and let time pass until one master leads and all TaskExecutors are registered.

        Args:
            masters: how many; one leads.
            task_executors: how many.
            slots: of each TaskExecutor.
            seed: draws how long everything takes.
            settings: how the masters are configured.

        """
        sizes = {"masters": masters, "task_executors": task_executors, "slots": slots}
        # Nothing fails by itself, and no clock is wrong: what goes wrong is the test's to say.
        simulation = SimulationSettings(seed=seed, **sizes, least_run_ms=_LEAST_RUN_MS, active_ms=0, drift_ppm=0)
        self._cluster = _ConfiguredCluster(simulation, settings or MasterSettings())
        self._numbers = itertools.count(1)
        registered = self.fold.master.resource_manager.task_managers
        self.run_until(lambda: len(registered) == task_executors and self._leader() is not None, "a leader and all TaskExecutors")

    @property
    def fold(self) -> Fold:
        """The state that the log has led to, as everybody has accepted it."""
        return self._cluster.observer.fold

    @property
    def now_ms(self) -> int:
        """How much virtual time has passed."""
        return self._cluster.scheduler.now_us // MILLISECOND

    def submit(
        self,
        graph: Document,
        job_id: str | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
    ) -> "SimulatedJob":
        """Submit a job and let time pass until it is in the log.

        Raises:
            InvalidJobGraph: the document is not usable; the message names the place.
            RequestRefused: the leader refuses the job; the message says why.

        """
        parsed = bind_parameters(described(graph).graph, parameters or {})
        if any(vertex.stream is not None for vertex in parsed.vertices):
            raise ValueError("a stream is not simulated: test it on a MiniCluster")
        number = next(self._numbers)
        known = self.fold.master.dispatcher.is_known
        job_id = job_id or next(name for name in (f"job-{each}" for each in itertools.count(number)) if not known(name))
        submission = JobSubmission(job_id=job_id, job_graph=parsed, request_id=f"request-{number}", actor="eventflink.testing")
        self._request(Topic.SUBMISSIONS, submission.request_id, _SUBMISSIONS.encode(submission, sent_at_ms=0))
        return SimulatedJob(self, job_id)

    def cancel(self, job_id: str) -> None:
        """Request the cancellation of a job, and let time pass until that is in the log; raises RequestRefused."""
        command = CancelJob(job_id=job_id, request_id=f"request-{next(self._numbers)}", actor="eventflink.testing")
        self._request(Topic.COMMANDS, command.request_id, _COMMANDS.encode(command, sent_at_ms=0))

    def _request(self, topic: Topic, request_id: str, value: bytes) -> None:
        answers = self.fold.master.requests.answers
        self._cluster.broker.append(topic, 0, None, value)
        self.run_until(lambda: request_id in answers, "an answer")
        answer = answers[request_id]
        if answer.code:
            raise refusal_of(answer.code, answer.message)

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        until_us = self._cluster.scheduler.now_us + milliseconds * MILLISECOND
        while self._cluster.scheduler.step(until_us):
            pass

    def run_until(self, condition: Callable[[], Any], wanted: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Let time pass until the condition holds; raises `Unexpected` when it does not within `timeout_ms` of virtual time."""
        scheduler = self._cluster.scheduler
        until_us = scheduler.now_us + timeout_ms * MILLISECOND
        for _ in range(_MAX_STEPS):
            if condition():
                return
            if not scheduler.step(until_us):
                break
        raise Unexpected(f"not within {timeout_ms} ms of virtual time: {wanted}")

    def _leader(self) -> Seat | None:
        return next((seat for seat in self._cluster.seats if seat.host is not None and seat.host.is_leader), None)

    def crash(
        self,
        what: Literal["leader", "standby", "taskexecutor", "task"],
        *,
        job: "SimulatedJob | None" = None,
        vertex: str = "",
        subtask: int = 0,
    ) -> str:
        """Kill a process; return which. A master or a TaskExecutor starts again after a second; nothing is waited for.

        Args:
            what: `leader` or `standby`, a master; `taskexecutor`, the first that runs, or the one that a task is on; `task`.
            job: whose task, which has to run: `wait_until_running` sees to that.
            vertex: of the task.
            subtask: its index.

        """
        match what:
            case "leader" | "standby":
                return self._crash_master(is_leader=what == "leader")
            case "taskexecutor":
                return self._crash_task_executor(job.running_attempt(vertex, subtask)[0] if job is not None else "")
            case "task" if job is None:
                raise ValueError("crash('task') needs a job and a vertex: crash('task', job=…, vertex=…)")
            case "task":
                return self._end_task(*job.running_attempt(vertex, subtask), Killed(_SIGKILL))
            case _:
                raise ValueError(f"unknown process to crash: '{what}'; known: leader, standby, taskexecutor, task")

    def _crash_master(self, *, is_leader: bool) -> str:
        leader = self._leader()
        seats = [s for s in self._cluster.seats if s.host is not None and s.host.process.is_running and (s is leader) is is_leader]
        if not seats:
            raise CannotCrash(f"no {'leader' if is_leader else 'standby'} runs now")
        self._cluster.kill(seats[0], _RESTART_MS)
        return seats[0].master_id

    def _crash_task_executor(self, name: str) -> str:
        hosts = [host for host in self._cluster.task_executors if host.is_up and name in ("", host.name)]
        if not hosts:
            raise CannotCrash("no TaskExecutor runs now")
        hosts[0].crash(_RESTART_MS)
        return hosts[0].name

    def fail_task(self, job: "SimulatedJob", vertex: str, subtask: int = 0, failure_type: str = "RuntimeError", message: str = "") -> str:
        """Have the code of a running task raise; return which attempt."""
        return self._end_task(*job.running_attempt(vertex, subtask), Failed(FailureCause(failure_type, message)))

    def _end_task(self, name: str, attempt: AttemptId, outcome: Failed | Killed) -> str:
        [host] = [host for host in self._cluster.task_executors if host.name == name]
        if not host.processes.end_task(attempt, outcome):
            raise CannotCrash(f"{attempt} no longer runs on {name}")
        return str(attempt)


class SimulatedJob:
    """A job of a simulated cluster, with the names that `JobHandle` has; times are virtual."""

    def __init__(self, cluster: SimulatedCluster, job_id: str) -> None:
        self._cluster = cluster
        self.job_id = job_id

    @property
    def _job(self) -> JobMaster:
        return self._cluster.fold.master.dispatcher.jobs[self.job_id]

    @property
    def status(self) -> JobStatus:
        """Where the job stands now."""
        return self._job.status

    @property
    def has_ended(self) -> bool:
        """Whether the job has finished, failed or been cancelled."""
        return self.status in TERMINAL_JOB_STATUSES

    def details(self) -> JobInfo:
        """Return the whole job, as the Python gateway gives it."""
        fold = self._cluster.fold
        return job_view(fold, self.job_id)

    def exceptions(self) -> list[FailureOfJob]:
        """Return the failures, the newest first, with what each led to."""
        return exceptions_view(self._job, _MAX_EXCEPTIONS).exceptions

    def attempts(self) -> dict[str, list[int]]:
        """Return in which attempt each subtask is, by vertex."""
        return {v.vertex_id: [subtask.attempt for subtask in v.subtasks] for v in self.details().vertices}

    def cancel(self) -> None:
        """Cancel the job and let time pass until it is."""
        self._cluster.cancel(self.job_id)
        self._cluster.run_until(lambda: self.has_ended, f"job {self.job_id} CANCELED")

    def wait(self, status: JobStatus | str = JobStatus.FINISHED, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Self:
        """Let time pass until the job has this status; raises `Unexpected` when it ends with another one, or does not in time."""
        wanted = JobStatus(status)
        self._cluster.run_until(lambda: self.status is wanted or self.has_ended, f"job {self.job_id} {wanted}", timeout_ms)
        if self.status is not wanted:
            failed = "; ".join(f"{f.task}: {f.cause.failure_type}: {f.cause.message}" for f in self.exceptions()[:3])
            raise Unexpected(f"job {self.job_id} is {self.status}, and was to be {wanted}; {failed or 'nothing has failed'}")
        return self

    def wait_until_running(self, vertex: str, subtask: int = 0, *, attempt: int = 1, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Self:
        """Let time pass until a subtask runs in this attempt or a later one."""
        place = f"{vertex}[{subtask}]#{attempt}"

        def runs() -> bool:
            found = self._subtask(vertex, subtask)
            return (found.state is ExecutionState.RUNNING and found.attempt >= attempt) or self.has_ended

        self._cluster.run_until(runs, f"{place} of job {self.job_id} runs", timeout_ms)
        if self.has_ended:
            raise Unexpected(f"job {self.job_id} is {self.status}, and {place} was to run")
        return self

    def running_attempt(self, vertex: str, subtask: int) -> tuple[str, AttemptId]:
        """Return where a subtask runs now, and its attempt; raises CannotCrash if it does not run."""
        found = self._subtask(vertex, subtask)
        if found.state is not ExecutionState.RUNNING or found.task_manager_id is None:
            raise CannotCrash(f"{vertex}[{subtask}]#{found.attempt} is {found.state}; wait_until_running waits for it")
        return found.task_manager_id, AttemptId(self.job_id, vertex, subtask, found.attempt)

    def _subtask(self, vertex: str, subtask: int) -> SubtaskInfo:
        for info in self.details().vertices:
            if info.vertex_id == vertex and 0 <= subtask < len(info.subtasks):
                return info.subtasks[subtask]
        raise ValueError(f"job {self.job_id} has no {vertex}[{subtask}]")
