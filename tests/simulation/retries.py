"""Retries in runs: jobs whose vertices have rules for failures, and the judge of who was tried again by which.

The judge counts itself, from what the log says of failures and restarts: it uses nothing of what the masters compute.
"""

import math
from collections import Counter
from random import Random
from typing import Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Decision
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import kind_of
from eventflink.model.job_graph import RetryRule
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SHARE: Final = 0.2
"""Of the runs."""
_VERTICES: Final = 0.7
_RULES: Final = (
    {"errors": ["ValueError"], "attempts": 3, "delay": "200ms", "max_delay": "500ms"},
    {"errors": ["task_manager"], "attempts": 2, "delay": "0s"},
    {"errors": ["spark", "InputLost"], "attempts": 2, "delay": "1s", "multiplier": 1},
    {"attempts": 2, "delay": "100ms"},
)


class Retries:
    """Authors of jobs that say what is tried again. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} retries")
        self.are_there = self._rng.random() < _SHARE

    def draw(self, graph: dict[str, Any]) -> dict[str, Any]:
        """Return a graph with retries, or as it was: a job of streams has none."""
        rng = self._rng
        if not self.are_there or any("stream" in vertex for vertex in graph["vertices"]):
            return graph
        rules = [rng.sample(_RULES, rng.randint(1, len(_RULES))) if rng.random() < _VERTICES else [] for _ in graph["vertices"]]
        return graph | {"vertices": [vertex | {"retries": some} for vertex, some in zip(graph["vertices"], rules, strict=True)]}


class RetryLedger:
    """What the log says of failures and of the restarts after them."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], tuple[RetryRule, ...]] = {}
        self._retries: Counter[tuple[str, str, int, int]] = Counter()
        """By job, vertex, subtask and number of the rule."""

    def on_decision(self, decision: Decision, offset: int) -> None:
        """Take what an accepted decision says.

        Raises:
            ViolationFound: somebody is tried again by a rule that does not name the failure, too often or at another time, or is not.

        """
        causes: dict[tuple[str, str, int], FailureCause] = {}
        for event in decision.events:
            match event:
                case e.JobSubmitted():
                    self._rules |= {(event.job_id, vertex.vertex_id): vertex.retries for vertex in event.job_graph.vertices}
                case e.TaskFailed():
                    causes[event.job_id, event.vertex_id, event.subtask_index] = event.cause
                case e.RestartScheduled():
                    subtask = (event.job_id, event.vertex_id, event.subtask_index)
                    self._check(event, self._rules[subtask[:2]], causes[subtask], offset)
                    self._retries[*subtask, event.retry_rule] += 1

    def _check(self, event: e.RestartScheduled, rules: tuple[RetryRule, ...], cause: FailureCause, offset: int) -> None:
        names = {cause.failure_type, cause.root_type, str(kind_of(cause))}
        named = [number for number, rule in enumerate(rules, start=1) if names & set(rule.errors)]
        others = [number for number, rule in enumerate(rules, start=1) if not rule.errors]
        if not event.retry_rule:
            if (named and not event.lost_outputs) or (others and event.is_counted):
                raise _violation(offset, event, f"a rule is for {cause.failure_type}")
            return
        if event.retry_rule != (named or others or [0])[0]:
            raise _violation(offset, event, f"{cause.failure_type} is what rules {named or others} are for")
        rule, before = rules[event.retry_rule - 1], self._retries[event.job_id, event.vertex_id, event.subtask_index, event.retry_rule]
        delay_ms = min(math.ceil(rule.delay_ms * rule.multiplier**before), rule.max_delay_ms)
        if before >= rule.attempts or event.delay_ms != delay_ms or event.is_counted:
            raise _violation(offset, event, f"{before} of {rule.attempts} retries were before, and the wait is {delay_ms} ms")


def _violation(offset: int, event: e.RestartScheduled, message: str) -> ViolationFound:
    return ViolationFound(Invariant.RETRIES, f"log@{offset}: {event}: {message}")
