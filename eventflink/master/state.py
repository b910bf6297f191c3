"""The state of a cluster: its components, in one list, and what is looked up across them.

A component owns its fields. It changes them by `apply_<event>` alone, and may refuse an event by `check_<event>`; it decides what
concerns only it, and what it can ask of the components it was made with. What concerns more is decided by the rules above (`master.py`
has their list), which read the state and change nothing.
"""

from typing import Any

from eventflink.master.blocklist import Blocklist
from eventflink.master.canonical import digest_of, require
from eventflink.master.cluster_shutdown import ClusterShutdown
from eventflink.master.dispatcher import Dispatcher
from eventflink.master.execution_graph import Subtask
from eventflink.master.follow_ups import FollowUps
from eventflink.master.job_master import JobMaster
from eventflink.master.job_store import JobStore
from eventflink.master.leader_information import LeaderInformation
from eventflink.master.requests import Requests
from eventflink.master.resource_manager import ResourceManager
from eventflink.master.schedules import Schedules
from eventflink.master.slot_manager import SlotManager
from eventflink.master.suspects import Suspects
from eventflink.master.upkeep import Upkeep
from eventflink.master.uploads import Uploads
from eventflink.master.workers import Workers
from eventflink.model.attempts import AttemptId
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, JobStatus

COMPONENTS = (
    "leader",
    "upkeep",
    "follow_ups",
    "suspects",
    "requests",
    "resource_manager",
    "blocklist",
    "workers",
    "slot_manager",
    "dispatcher",
    "job_store",
    "schedules",
    "uploads",
    "shutdown",
)
"""The parts of the state, in the order in which they replay an event: one that asks another comes after it."""


class ClusterState:
    """The fold of the accepted decisions of a log."""

    __slots__ = COMPONENTS

    def __init__(self) -> None:
        """Start from nothing: the state before the first record of the log."""
        self.leader = LeaderInformation()
        self.upkeep = Upkeep()
        self.follow_ups = FollowUps()
        self.suspects = Suspects()
        self.requests = Requests()
        self.resource_manager = ResourceManager()
        self.blocklist = Blocklist(self.resource_manager)
        self.workers = Workers()
        self.slot_manager = SlotManager(self.follow_ups, self.workers, self.blocklist)
        self.dispatcher = Dispatcher(self.follow_ups, self.slot_manager)
        self.job_store = JobStore(self.dispatcher)
        self.schedules = Schedules(self.dispatcher)
        self.uploads = Uploads(self.dispatcher, self.resource_manager)
        self.shutdown = ClusterShutdown()

    def components(self) -> dict[str, Any]:
        """Return the components by name, in their order."""
        return {name: getattr(self, name) for name in COMPONENTS}

    # -- lookups --------------------------------------------------------------------------------------------------

    def job_and_subtask(self, attempt: AttemptId) -> tuple[JobMaster, Subtask]:
        """Return the job and the subtask of an attempt that waits for a slot, or has one."""
        job = self.dispatcher.jobs[attempt.job_id]
        return job, job.execution_graph.vertices[attempt.vertex_id].subtasks[attempt.subtask_index]

    def live_subtask(self, attempt: AttemptId) -> Subtask | None:
        """Return the subtask of an attempt that is its current one and has not ended."""
        job = self.dispatcher.jobs.get(attempt.job_id)
        subtask = job.execution_graph.current(attempt) if job is not None else None
        return subtask if subtask is not None and subtask.state not in TERMINAL_EXECUTION_STATES else None

    # -- the whole ------------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """Return the canonical digest of the state, in hexadecimal."""
        return digest_of(self.components())

    def validate(self) -> None:
        """Check every invariant of every component, and those between them: tests and the simulation do so after every decision.

        Raises:
            InvariantBroken: one does not hold; the message says which and where.

        """
        for component in self.components().values():
            if (validate := getattr(component, "validate", None)) is not None:
                validate()
        self._validate_task_managers()
        for job_id in self.shutdown.suspended:
            status = self.dispatcher.jobs[job_id].status
            require(status is JobStatus.SUSPENDED, f"{job_id} is {status}, and waits for the cluster to start again")
        for allocation_id, allocation in self.slot_manager.allocations.items():
            for attempt in allocation.attempts:
                holder = self.live_subtask(attempt)
                require(holder is not None and holder.allocation_id == allocation_id, f"{allocation_id} is not held by a live {attempt}")
        for allocation_id, request in self.slot_manager.pending.items():
            subtask = self.live_subtask(request.attempt)
            waits = subtask is not None and subtask.allocation_id == allocation_id and subtask.state is ExecutionState.SCHEDULED
            require(waits, f"{allocation_id} is requested for an attempt that does not wait for it")
        for job_id, job in self.dispatcher.jobs.items():
            for subtask in job.execution_graph.subtasks():
                self._validate_slot_of(job_id, subtask)

    def _validate_task_managers(self) -> None:
        registered = {t: m.instance_id for t, m in self.resource_manager.task_managers.items()}
        with_slots = {t: s.instance_id for t, s in self.slot_manager.task_managers.items()}
        require(registered == with_slots, "ResourceManager and SlotManager know different TaskManagers")
        require(set(self.workers.registered) <= set(registered), "a worker counts as registered and is not a TaskManager")
        require(not set(self.workers.pending) & set(registered), "a worker is registered and still waited for")

    def _validate_slot_of(self, job_id: str, subtask: Subtask) -> None:
        state = subtask.state
        place = f"{job_id}/{subtask.vertex_id}[{subtask.subtask_index}]#{subtask.attempt}"
        if state is ExecutionState.SCHEDULED:
            require(subtask.allocation_id in self.slot_manager.pending, f"{place} is SCHEDULED but waits for no slot")
        elif state not in TERMINAL_EXECUTION_STATES and state is not ExecutionState.CREATED:
            require(subtask.allocation_id in self.slot_manager.allocations, f"{place} is {state} without a slot")
