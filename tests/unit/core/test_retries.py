"""Retries of a vertex: the first rule that names a failure decides, and the restart strategy of the job where none does."""

import re
from typing import Any

import pytest

from eventflink.events.log_events import JobStatusChanged, RestartScheduled
from eventflink.master.effects import Effect
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph_document import InvalidJobGraph, parse_job_graph, to_document
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.views.exceptions import exceptions_view
from eventflink.views.plain import reaction_of
from tests.support.cluster import ScriptedCluster, deployments, fixed_delay, graph, vertex

HTTP = FailureCause("HTTPError", "503")
DATA = FailureCause("RowUnusable", "a row")
ROOT = FailureCause("PythonException", "in Spark", root_type="HTTPError")
OTHER = FailureCause("ValueError", "the code's")
LOST = FailureCause("SparkLost", "nobody's")
NO_MODULE = FailureCause("ModuleNotFoundError", "numpy")


def fail(cluster: ScriptedCluster, effects: list[Effect], cause: FailureCause, wait_ms: int) -> list[Effect]:
    """Fail the attempt that was deployed, with a new leader behind it; return what its successor needs, after exactly this wait."""
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=cause)
    cluster.fail_over()
    assert not deployments(cluster.pass_time(wait_ms - 1)) or not wait_ms
    return cluster.pass_time(min(wait_ms, 1))


def started(retries: Any, **more: Any) -> tuple[ScriptedCluster, list[Effect]]:
    cluster = ScriptedCluster()
    cluster.register(slots=4)
    return cluster, cluster.submit(graph(vertex("a") | {"retries": retries}, **more))


RULES = [
    {"errors": ["requests.HTTPError"], "attempts": 3, "delay": "10s", "max_delay": "25s"},
    {"errors": ["data"], "attempts": 0},
    {"attempts": 1, "delay": "2s"},
]


@pytest.mark.rule("P23")
def test_the_waits_of_a_rule_grow_and_end_and_no_leader_forgets_them() -> None:
    cluster, effects = started(RULES, restart_strategy=fixed_delay(9, 1))
    for cause, wait_ms in ((HTTP, 10_000), (OTHER, 2_000), (ROOT, 20_000), (LOST, 1_000), (HTTP, 25_000)):
        effects = fail(cluster, effects, cause, wait_ms)
    assert [(each.restarts, each.retry_rule, each.is_counted) for each in cluster.events(RestartScheduled)] == [
        (1, 1, False),
        (2, 3, False),
        (3, 1, False),
        (4, 0, False),
        (5, 1, False),
    ]
    assert [reaction_of(each) for each in exceptions_view(cluster.job("job"), 2).exceptions] == [
        "restart 5 of a[0] after 25000 ms, by rule 1 of the retries of 'a'",
        "restart 4 of a[0] after 1000 ms",
    ]
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=HTTP)
    assert cluster.job("job").status is JobStatus.FAILED
    assert (
        cluster.events(JobStatusChanged)[-2].reason
        == "retries: after HTTPError rule 1 of 'a' allows each subtask 3 retries, and they were made"
    )
    cluster.check()


@pytest.mark.parametrize(
    ("retries", "cause", "reason"),
    [
        (RULES, DATA, "retries: after RowUnusable rule 2 of 'a' allows each subtask no retry"),
        (0, OTHER, "retries: after ValueError rule 1 of 'a' allows each subtask no retry"),
        (RULES, NO_MODULE, "ModuleNotFoundError is not restarted: each attempt would fail in the same way"),
    ],
)
def test_a_failure_that_no_attempt_can_mend_fails_the_job(retries: Any, cause: FailureCause, reason: str) -> None:
    cluster, effects = started(retries, restart_strategy=fixed_delay(9, 1))
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=cause)
    assert cluster.job("job").status is JobStatus.FAILED
    assert cluster.events(JobStatusChanged)[-2].reason == reason


def test_a_rule_may_name_what_is_not_restarted_or_restarted_by_itself() -> None:
    cluster, effects = started([{"errors": ["ModuleNotFoundError", "spark"], "attempts": 2, "delay": "3s", "multiplier": 1}])
    effects = fail(cluster, effects, NO_MODULE, 3_000)
    effects = fail(cluster, effects, LOST, 3_000)
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=LOST)
    assert cluster.job("job").status is JobStatus.FAILED


def test_a_type_in_small_letters_is_named_with_its_module_and_never_means_a_kind() -> None:
    cluster, effects = started([{"errors": ["socket.gaierror", "mine.data"], "attempts": 2, "delay": "3s"}])
    effects = fail(cluster, effects, FailureCause("gaierror", "no such host"), 3_000)
    effects = fail(cluster, effects, FailureCause("data", "of a class of this name"), 6_000)
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=DATA)
    assert cluster.events(JobStatusChanged)[-2].reason == "the restart strategy is none"


@pytest.mark.rule("P23")
def test_what_no_rule_names_is_left_to_the_restart_strategy_which_does_not_count_retries() -> None:
    cluster, effects = started([{"errors": ["HTTPError"], "attempts": 5, "delay": "1s"}], restart_strategy=fixed_delay(1, 70))
    effects = fail(cluster, effects, HTTP, 1_000)
    effects = fail(cluster, effects, OTHER, 70)
    effects = fail(cluster, effects, HTTP, 2_000)
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=OTHER)
    assert cluster.events(JobStatusChanged)[-2].reason == "fixed-delay: 1 restarts are allowed, and there were 1"


@pytest.mark.rule("P23")
def test_each_subtask_has_its_own_retries() -> None:
    cluster = ScriptedCluster()
    cluster.register(slots=4)
    first, second = deployments(cluster.submit(graph(vertex("a", 2) | {"retries": 1})))
    cluster.report(first, ExecutionState.FAILED, cause=OTHER)
    cluster.report(second, ExecutionState.FAILED, cause=OTHER)
    assert [each.retry_rule for each in cluster.events(RestartScheduled)] == [1, 1]
    assert cluster.job("job").status is JobStatus.RESTARTING


def test_the_document_of_retries_is_what_was_written() -> None:
    written = graph(vertex("a") | {"retries": RULES})
    parsed = parse_job_graph(written, "f")
    again = to_document(parsed)
    assert again["vertices"][0]["retries"][2] == {"errors": [], "attempts": 1, "delay": "2s", "max_delay": "5m", "multiplier": 2.0}
    assert parse_job_graph(again, "f") == parsed
    [rule] = parse_job_graph(graph(vertex("a") | {"retries": [{"attempts": 1, "delay": "1h"}]}), "f").vertices[0].retries
    assert (rule.delay_ms, rule.max_delay_ms) == (3_600_000, 3_600_000)
    assert parse_job_graph(graph(vertex("a") | {"retries": 3}), "f").vertices[0].retries[0].attempts == 3


@pytest.mark.parametrize(
    ("retries", "says"),
    [
        ([{"attempts": 1}, {"attempts": 2}], "retries: two rules have no 'errors', and each is for all failures that no other rule names"),
        (
            [{"errors": ["dta"], "attempts": 1}],
            "retries[0]: errors: unknown kind of failure 'dta' (did you mean 'data'?); there are code,",
        ),
        ([{"errors": ["Http Error"], "attempts": 1}], "retries[0].errors[0]: must match"),
        ([{"errors": ["HttpError."], "attempts": 1}], "retries[0].errors[0]: must match"),
        ([{"errors": ["a..B"], "attempts": 1}], "retries[0].errors[0]: must match"),
        (
            [{"errors": ["gaierror"], "attempts": 1}],
            "retries[0]: errors: unknown kind of failure 'gaierror'; there are code, data, room, spark, host, task_manager, masters,",
        ),
        ([{"attempts": 1, "delay": "10s", "max_delay": "9s"}], "retries[0]: 'max_delay' is shorter than 'delay', the first wait"),
        (
            [{"attempts": 1, "delay": 10}],
            "retries[0].delay: must be a whole number with ms, s, m, h or d behind it, such as 15m; from 0ms to 1d, not 10",
        ),
        ([{"attempts": 1, "delay": "\u0665s"}], "retries[0].delay: must be a whole number with ms, s, m, h or d behind it"),
        ([{"delay": "1s"}], "retries[0].attempts: it is missing"),
        (-1, "retries[0].attempts: must be at least 0"),
        (True, "retries: must be a list of rules, or how many further attempts there are, not true"),
        ("3", "retries: must be a list of rules, or how many further attempts there are, not '3'"),
    ],
)
def test_retries_that_say_nothing_are_refused_with_their_place(retries: Any, says: str) -> None:
    with pytest.raises(InvalidJobGraph, match=re.escape(f"f: vertices[0].{says}")):
        parse_job_graph(graph(vertex("a") | {"retries": retries}), "f")
