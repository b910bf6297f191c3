"""What a waiting caller is shown of one job: a small view of its events in the log, and how it is drawn.

This is no state of the master, only its shadow for one screen: an event about another job, or one that does not fit, changes
nothing here.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rich.table import Table
from rich.text import Text

from eventflink.cli.drawing import styled
from eventflink.events.job_master_events import execution_state_after
from eventflink.events.log_events import (
    GlobalFailureOccurred,
    JobRescaled,
    JobResultStored,
    JobReuseDecided,
    JobStatusChanged,
    JobSubmitted,
    LogEvent,
    RestartScheduled,
    SlotRequestDeferred,
    SlotRequested,
    TaskDeployed,
    TaskFailed,
)
from eventflink.events.wording import details_of, subject_of
from eventflink.master.execution_graph import ExecutionGraph
from eventflink.model.job_graph import JobGraph
from eventflink.model.reuse import VertexReuse
from eventflink.model.stack_traces import user_location
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, JobStatus

_WITH_SLOT: Final = frozenset(ExecutionState) - TERMINAL_EXECUTION_STATES - {ExecutionState.CREATED, ExecutionState.SCHEDULED}


@dataclass(slots=True)
class VertexProgress:
    """Where the newest attempts of a vertex's subtasks stand."""

    parallelism: int
    is_reusable: bool = True
    """Whether a rerun can take the outputs of the vertex. A stream and a closing vertex have none."""
    states: dict[int, ExecutionState] = field(default_factory=dict)
    restarts: int = 0

    def count(self) -> Counter[ExecutionState]:
        """Return how many subtasks are in each state."""
        counted = Counter(self.states.values())
        counted[ExecutionState.CREATED] += self.parallelism - len(self.states)
        return counted


@dataclass(slots=True)
class JobProgress:
    """One job as its events tell it."""

    job_id: str
    name: str = ""
    status: JobStatus = JobStatus.INITIALIZING
    vertices: dict[str, VertexProgress] = field(default_factory=dict)
    result: JobResultStored | None = None
    last_failure: str = ""
    failed: TaskFailed | None = None
    """The last failure of an attempt before the job began to fail; null: no attempt failed, or the job failed as a whole."""
    wait: str = ""
    """Why no task has a slot; empty: one has, or nothing was said of it."""
    _graph: ExecutionGraph | None = None

    @property
    def is_known(self) -> bool:
        """Whether the job's submission has been seen."""
        return bool(self.vertices)

    def apply(self, event: LogEvent) -> bool:
        """Take one accepted event in; tell whether it is about this job."""
        if getattr(event, "job_id", None) != self.job_id:
            return False
        if isinstance(event, JobSubmitted):
            self._begin(event.job_graph)
        elif isinstance(event, JobReuseDecided):
            self._take_outputs(event.vertices)
        elif isinstance(event, GlobalFailureOccurred):
            self.failed = None
        elif isinstance(event, JobStatusChanged):
            self.status = event.to_status
        elif isinstance(event, JobResultStored):
            self.status, self.result = event.status, event
        elif isinstance(event, SlotRequestDeferred):
            if not self._has_slots():
                self.wait = f"no task has a slot ({details_of(event)}); 'eventflink why {self.job_id}' says more"
        elif not isinstance(event, SlotRequested):
            self._apply_to_vertex(event)
        return True

    def _has_slots(self) -> bool:
        return any(state in _WITH_SLOT for vertex in self.vertices.values() for state in vertex.states.values())

    def _begin(self, graph: JobGraph) -> None:
        self.name, self._graph = graph.name, ExecutionGraph.of(graph)
        self.vertices = {
            each.vertex_id: VertexProgress(each.parallelism, is_reusable=each.stream is None and not each.is_closing)
            for each in graph.vertices
        }

    def _take_outputs(self, reuses: Iterable[VertexReuse]) -> None:
        for reuse in reuses:
            if (vertex := self.vertices.get(reuse.vertex_id)) is not None:
                taken = range(vertex.parallelism) if reuse.is_reused else reuse.subtasks
                vertex.states.update(dict.fromkeys(taken, ExecutionState.FINISHED))

    def _apply_to_vertex(self, event: LogEvent) -> None:
        vertex = self.vertices.get(getattr(event, "vertex_id", ""))
        if vertex is None:
            return
        if isinstance(event, RestartScheduled):
            vertex.restarts += 1
            return
        if isinstance(event, JobRescaled) and self._graph is not None:
            for name in self._graph.forward_group(event.vertex_id):
                self.vertices[name].parallelism = event.to_parallelism
                self.vertices[name].states.clear()
            return
        if isinstance(event, TaskDeployed):
            self.wait = ""
        if isinstance(event, TaskFailed):
            if self.status is not JobStatus.FAILING:
                self.failed = event
            self.last_failure = f"{subject_of(event, of_job=self.job_id)}: {details_of(event)}"
        state = execution_state_after(event)
        if state is not None:
            vertex.states[getattr(event, "subtask_index", 0)] = state

    def describe_status(self) -> str:
        """Return where the job stands in one line, and why it restarts, or has no slot."""
        line = f"{self.job_id} {self.status}"
        if self.status is JobStatus.RUNNING and self.wait:
            return f"{line}: {self.wait}"
        return f"{line}: {self.last_failure}" if self.status is JobStatus.RESTARTING and self.last_failure else line

    def describe_result(self) -> str:
        """Return the end of the job in one line."""
        if self.result is None:
            return f"{self.job_id} {self.status}"
        line = f"{self.job_id} {self.result.status} after {self.result.net_run_time_ms / 1000:.3f} s"
        cause = self.result.cause
        if cause is None:
            return line
        task, place = "", user_location(cause.stack_trace or "")
        if self.failed is not None:
            vertex = f"vertex '{self.failed.vertex_id}'"
            parts = [*([vertex] if vertex not in cause.message else []), *([f"subtask {subtask}"] if (subtask := self._subtask()) else [])]
            task = f"{', '.join(parts)}: " if parts else ""
        return f"{line}: {task}{cause.failure_type}: {cause.message}" + (f" ({place})" if place else "")

    def _subtask(self) -> str:
        """Return which subtask failed, of several; empty: its vertex has one, or none failed."""
        if self.failed is None or self.vertices[self.failed.vertex_id].parallelism == 1:
            return ""
        return str(self.failed.subtask_index)

    def describe_next(self) -> str:
        """Return what shows more of a job that failed, and what runs it again; empty: it did not."""
        if self.result is None or self.result.status is not JobStatus.FAILED:
            return ""
        logs, rerun = "", f"to run it again: 'eventflink rerun {self.job_id}'"
        if self.failed is not None:
            option = f" --subtask {subtask}" if (subtask := self._subtask()) else ""
            logs = f"; the log of its task: 'eventflink logs {self.job_id} {self.failed.vertex_id}{option}'"
        if any(each.is_reusable and ExecutionState.FINISHED in each.states.values() for each in self.vertices.values()):
            rerun = f"to run what had not finished: 'eventflink rerun {self.job_id} --failed'"
        return f"what failed, with its stack trace: 'eventflink exceptions {self.job_id} --trace'{logs}; {rerun}"

    def describe_tasks(self) -> str:
        """Return how many of the job's tasks have finished, and which vertices have some that run."""
        counted = {vertex_id: vertex.count() for vertex_id, vertex in self.vertices.items()}
        finished = sum(states[ExecutionState.FINISHED] for states in counted.values())
        line = f"{finished} of {sum(vertex.parallelism for vertex in self.vertices.values())} tasks finished"
        running = ", ".join(vertex_id for vertex_id, states in counted.items() if states[ExecutionState.RUNNING])
        return f"{line}; running: {running}" if running else line

    def draw(self, hint: str = "") -> Table:
        """Return the table that is shown while the job runs, with the last failure, the hint or why no task has a slot below it."""
        table = Table(title=Text.assemble(f"{self.name or 'job'} ({self.job_id}) ", styled(self.status)), title_justify="left")
        table.add_column("vertex")
        table.add_column("finished", justify="right")
        table.add_column("subtasks")
        table.add_column("restarts", justify="right")
        for vertex_id, vertex in self.vertices.items():
            counted = vertex.count()
            states = Text(", ").join(Text.assemble(f"{n} ", styled(s)) for s, n in sorted(counted.items()) if n)
            table.add_row(Text(vertex_id), f"{counted[ExecutionState.FINISHED]}/{vertex.parallelism}", states, str(vertex.restarts or ""))
        if self.last_failure:
            table.caption = Text(self.last_failure, style="red")
        elif below := hint or self.wait:
            table.caption = Text(below)
        table.caption_justify = "left"
        return table
