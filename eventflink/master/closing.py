"""What a job knows of its end, from when its closing vertices begin; which of them run, and when, is in `model/closing.py`.

The rule: how the job ends is decided before they begin, and nothing that becomes of them changes it. They are tried again by their own
retries alone, have a time limit together, and what is over is cancelled. What is due is decided in `time_limits.py`.
"""

from dataclasses import dataclass

from eventflink.model.closing import GraphOutcome, closing_limit_ms_of
from eventflink.model.durations import duration_text
from eventflink.model.job_graph import JobGraph


@dataclass(slots=True)
class Closing:
    """The closing of a job."""

    outcome: GraphOutcome
    """How the others came out."""
    began_at_ms: int
    ends_at_ms: int
    """When what still runs is cancelled."""
    abort_reason: str = ""
    """Why the closing vertices are cancelled; empty: they are not."""

    @property
    def is_aborted(self) -> bool:
        """Whether nothing of it is begun any more."""
        return bool(self.abort_reason)


def begun_closing(outcome: GraphOutcome, graph: JobGraph, at_ms: int) -> Closing:
    """Return the closing of a job that begins now."""
    return Closing(outcome, at_ms, at_ms + closing_limit_ms_of(graph))


def describe_closing_limit(graph: JobGraph) -> str:
    """Return that the closing vertices of a graph have used up their time, and what to do."""
    limit = duration_text(closing_limit_ms_of(graph))
    return f"the closing vertices have used their time of {limit}: raise the job's 'closing_time_limit' if they need longer"
