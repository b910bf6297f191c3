"""Retries of a vertex: which of its rules a failure falls under, and when the next attempt begins by that rule.

A rule is for failures of some types or kinds, or for any. Nothing here remembers: how many attempts a subtask had by each rule, the events
of the log say (`Restarts.retries`).
"""

import math
from typing import Final

from eventflink.master.restart_strategies import NoRestart, Restart
from eventflink.model.attempts import FailureCause
from eventflink.model.failure_types import kind_of
from eventflink.model.job_graph import JobVertex, RetryRule

_MOST_DOUBLINGS: Final = 64
"""After so many retries a wait is the longest; a higher power of the multiplier might be no number."""


def rule_for(vertex: JobVertex, cause: FailureCause) -> int:
    """Return the number of the first rule that names the type or the kind of a failure, from 1 on; 0: none does."""
    rules = enumerate(vertex.retries, start=1)
    return next((number for number, rule in rules if any(_names(error, cause) for error in rule.errors)), 0)


def _names(error: str, cause: FailureCause) -> bool:
    """Tell whether a word of a rule is a kind of failure, or a type with or without its module, and this failure is one of those."""
    name = error.rpartition(".")[2]
    return error == kind_of(cause) or (bool(name) and name in (cause.failure_type, cause.root_type))


def rule_for_any(vertex: JobVertex) -> int:
    """Return the number of the rule that has no errors, from 1 on; 0: the vertex has no such rule."""
    return next((number for number, rule in enumerate(vertex.retries, start=1) if not rule.errors), 0)


def next_retry(vertex: JobVertex, number: int, retries: int, cause: FailureCause) -> Restart | NoRestart:
    """Return what a rule says to a failure of a subtask that it has retried so many times."""
    rule = vertex.retries[number - 1]
    if retries >= rule.attempts:
        allowed = {0: "no retry", 1: "1 retry, and it was made"}.get(rule.attempts, f"{rule.attempts} retries, and they were made")
        return NoRestart(f"retries: after {cause.failure_type} rule {number} of '{vertex.vertex_id}' allows each subtask {allowed}")
    return Restart(_delay_ms(rule, retries), is_counted=False, retry_rule=number)


def _delay_ms(rule: RetryRule, retries: int) -> int:
    return min(math.ceil(rule.delay_ms * rule.multiplier ** min(retries, _MOST_DOUBLINGS)), rule.max_delay_ms)
