"""The restart strategies: how long a failed region waits, when the job fails instead, and why."""

import pytest

from eventflink.events.inputs import TaskManagerDeath
from eventflink.events.log_events import JobMasterStarted, JobStatusChanged, RestartScheduled
from eventflink.master.effects import Deployment, Effect
from eventflink.master.restart_strategies import Restart, RestartHistory, next_restart
from eventflink.master.settings import MasterSettings
from eventflink.model.attempts import FailureCause
from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import ExecutionState, FailoverStrategy, JobStatus, RestartStrategyType
from tests.support.cluster import START_MS, ScriptedCluster, deployments, fixed_delay, graph, tasks, vertex

EXPONENTIAL = {"type": "exponential-delay", "delay_ms": 100, "max_delay_ms": 500, "jitter_factor": 0, "reset_threshold_ms": 10_000}


@pytest.fixture
def newest(cluster: ScriptedCluster) -> ScriptedCluster:
    """Return a cluster that may write whatever this version can."""
    return cluster


def _fail_again_and_again(newest: ScriptedCluster, effects: list[Effect], waits_ms: list[int]) -> None:
    """Fail each attempt when it runs; the next one starts after exactly the wait that is expected."""
    for wait_ms in waits_ms:
        [deployment] = deployments(effects)
        newest.report(deployment, ExecutionState.FAILED)
        assert not tasks(newest.pass_time(wait_ms - 1))
        effects = newest.pass_time(1)


def _deployment_of_attempt(newest: ScriptedCluster, attempt: int) -> Deployment:
    [deployment] = [d for d in deployments(e for r in newest.released for e in r.effects) if tasks([d])[0].attempt == attempt]
    return deployment


def test_exponential_delay_doubles_the_wait_up_to_its_limit_and_starts_empty_after_a_quiet_time(newest: ScriptedCluster) -> None:
    newest.register(slots=1)
    strategy = {"type": "exponential-delay", "delay_ms": 100, "max_delay_ms": 500, "jitter_factor": 0, "reset_threshold_ms": 10_000}
    effects = newest.submit(graph(vertex("a"), restart_strategy=strategy))
    _fail_again_and_again(newest, effects, [100, 200, 400, 500, 500])
    assert [e.backoff_ms for e in newest.events(RestartScheduled)] == [100, 200, 400, 500, 500]
    newest.pass_time(10_000)
    sixth = _deployment_of_attempt(newest, 6)
    newest.fail_over()
    newest.report(sixth, ExecutionState.FAILED)
    assert newest.events(RestartScheduled)[-1].backoff_ms == 100


def test_exponential_delay_jitters_by_job_and_restart_within_its_bounds(newest: ScriptedCluster) -> None:
    newest.register(slots=20)
    strategy = {"type": "exponential-delay", "delay_ms": 1_000, "jitter_factor": 0.2}
    waits = []
    for number in range(20):
        [deployment] = deployments(newest.submit(graph(vertex("a"), restart_strategy=strategy), job_id=f"job-{number}"))
        newest.report(deployment, ExecutionState.FAILED)
        waits.append(newest.events(RestartScheduled)[-1].restart_at_ms - START_MS)
    assert all(800 <= wait_ms <= 1_200 for wait_ms in waits)
    assert len(set(waits)) > 10


def test_failures_of_one_wave_share_the_exponential_wait(newest: ScriptedCluster) -> None:
    newest.register(slots=3)
    strategy = {"type": "exponential-delay", "delay_ms": 100, "jitter_factor": 0}
    for deployment in deployments(newest.submit(graph(vertex("a", 3), restart_strategy=strategy))):
        newest.report(deployment, ExecutionState.FAILED)
    assert [e.backoff_ms for e in newest.events(RestartScheduled)] == [100, 100, 100]


def test_failure_rate_ends_the_job_when_failures_come_too_fast_and_only_then(newest: ScriptedCluster) -> None:
    newest.register(slots=1)
    strategy = {"type": "failure-rate", "attempts": 2, "interval_ms": 1_000, "delay_ms": 100}
    _fail_again_and_again(newest, list(newest.submit(graph(vertex("a"), restart_strategy=strategy))), [100, 100])
    newest.pass_time(1_000)  # The first two failures are older than the interval now.
    newest.report(_deployment_of_attempt(newest, 3), ExecutionState.FAILED)
    newest.pass_time(100)
    newest.report(_deployment_of_attempt(newest, 4), ExecutionState.FAILED)
    assert newest.job("job").status is JobStatus.RESTARTING
    newest.pass_time(100)
    newest.report(_deployment_of_attempt(newest, 5), ExecutionState.FAILED)
    assert newest.job("job").status is JobStatus.FAILED
    assert len(newest.job("job").restarts.history.failed_at_ms) == 2


def test_exponential_delay_never_ends_and_never_exceeds_its_longest_wait_with_jitter(newest: ScriptedCluster) -> None:
    newest.register(slots=1)
    strategy = EXPONENTIAL | {"jitter_factor": 0.9}
    effects = newest.submit(graph(vertex("a"), restart_strategy=strategy))
    for _ in range(40):
        newest.report(deployments(effects)[0], ExecutionState.FAILED)
        effects = newest.pass_time(500)
    assert newest.job("job").restarts.count == 40
    assert all(10 <= e.delay_ms <= 500 for e in newest.events(RestartScheduled))


def test_a_short_exponential_wait_grows_however_little_it_is_multiplied() -> None:
    strategy = RestartStrategy(RestartStrategyType.EXPONENTIAL_DELAY, 0, 1, 100, 1.1, 1_000_000)
    history, now_ms, waits = RestartHistory(), 5_000, []
    for restarts in range(5):
        restart = next_restart(strategy, restarts, history, "job", now_ms, is_restarting=False)
        assert isinstance(restart, Restart)
        waits.append(restart.delay_ms)
        history.note(strategy, restart.backoff_ms, now_ms)
        now_ms += restart.delay_ms
    assert waits == [1, 2, 3, 4, 5]


def test_the_quiet_time_is_counted_from_when_the_last_wait_was_over(newest: ScriptedCluster) -> None:
    """As in Flink: the time between two failures less the wait between them."""
    newest.register(slots=1)
    effects = newest.submit(graph(vertex("a"), restart_strategy=EXPONENTIAL))
    for quiet_ms, backoff_ms in ((0, 100), (9_999, 200), (10_000, 100)):
        newest.pass_time(quiet_ms)
        newest.report(_deployment_of_attempt(newest, newest.job("job").restarts.count + 1), ExecutionState.FAILED)
        assert newest.events(RestartScheduled)[-1].backoff_ms == backoff_ms
        effects = newest.pass_time(backoff_ms)
        assert deployments(effects)


@pytest.mark.parametrize(
    ("strategy", "restarts", "reason"),
    [
        ({"type": "none"}, 0, "the restart strategy is none"),
        (fixed_delay(2, 0), 2, "fixed-delay: 2 restarts are allowed, and there were 2"),
        (
            {"type": "failure-rate", "attempts": 3, "interval_ms": 60_000, "delay_ms": 0},
            3,
            "failure-rate: 3 restarts are allowed within 60000 ms, and there were 3",
        ),
    ],
)
def test_a_job_that_fails_says_why_it_was_not_restarted(
    newest: ScriptedCluster, strategy: dict[str, object], restarts: int, reason: str
) -> None:
    newest.register(slots=1)
    effects = newest.submit(graph(vertex("a"), restart_strategy=strategy))
    for _ in range(restarts + 1):
        newest.report(deployments(effects)[0], ExecutionState.FAILED)
        effects = newest.pass_time(1)
    [failing] = [e for e in newest.events(JobStatusChanged) if e.to_status is JobStatus.FAILING]
    assert failing.reason == reason
    assert newest.job("job").status is JobStatus.FAILED


def test_a_restart_says_what_failed_and_how_long_it_waits(newest: ScriptedCluster) -> None:
    newest.register(slots=1)
    [one] = deployments(newest.submit(graph(vertex("a"), restart_strategy=fixed_delay(2, 700))))
    newest.report(one, ExecutionState.FAILED)
    [scheduled] = newest.events(RestartScheduled)
    assert (scheduled.failed_attempt, scheduled.delay_ms, scheduled.task_count, scheduled.lost_outputs) == (1, 700, 1, ())
    assert scheduled.failover_strategy is FailoverStrategy.REGION


def test_a_failure_rate_counts_every_region_that_a_lost_task_manager_took_with_it(newest: ScriptedCluster) -> None:
    newest.register(slots=3)
    deployed = deployments(
        newest.submit(graph(vertex("a", 3), restart_strategy={"type": "failure-rate", "attempts": 2, "interval_ms": 1_000, "delay_ms": 10}))
    )
    for deployment in deployed:
        newest.report(deployment, ExecutionState.RUNNING)
    newest.say(TaskManagerDeath("tm", "tm-1", "killed"))
    assert newest.job("job").status is JobStatus.FAILED


def test_what_a_strategy_remembers_survives_a_change_of_leader_at_every_step(newest: ScriptedCluster) -> None:
    newest.register(slots=1)
    effects: list[Effect] = list(newest.submit(graph(vertex("a"), restart_strategy=EXPONENTIAL)))
    for wait_ms in (100, 200, 400, 500):
        newest.fail_over()
        newest.report(deployments(effects)[0], ExecutionState.FAILED)
        newest.fail_over()
        assert not tasks(newest.pass_time(wait_ms - 1))
        effects = newest.pass_time(1)


def test_a_job_has_the_defaults_of_the_cluster() -> None:
    strategy = RestartStrategy(RestartStrategyType.FAILURE_RATE, 3, 100, interval_ms=5_000)
    cluster = ScriptedCluster(MasterSettings(restart_strategy=strategy, failover_strategy=FailoverStrategy.FULL, exception_history_size=3))
    cluster.submit(graph(vertex("a")))
    [started] = cluster.events(JobMasterStarted)
    assert (started.restart_strategy, started.failover_strategy, started.exception_history_size) == (strategy, FailoverStrategy.FULL, 3)
    cluster.check()


# -- what the code of a job has no part in, and what cannot heal ----------------------------------------------------


def _fail_with(cluster: ScriptedCluster, effects: list[Effect], cause: FailureCause) -> None:
    [deployment] = deployments(effects)
    cluster.report(deployment, ExecutionState.FAILED, cause=cause)


@pytest.mark.parametrize("failure_type", ["SparkLost", "HostTooSlow", "ForkServerDied", "TaskProcessNotStarted"])
def test_what_no_code_has_a_part_in_starts_again_under_any_strategy_and_is_not_counted(newest: ScriptedCluster, failure_type: str) -> None:
    """So often, after longer and longer waits; then the strategy decides, whoever leads."""
    newest.register(slots=1)
    effects = newest.submit(graph(vertex("a"), restart_strategy=fixed_delay(1, 100)))
    for wait_ms in (1_000, 2_000, 4_000, 8_000, 16_000):
        _fail_with(newest, effects, FailureCause(failure_type, "not the code's"))
        assert not tasks(newest.pass_time(wait_ms - 1))
        effects = newest.pass_time(1)
        newest.fail_over()
    assert [(e.restarts, e.is_counted) for e in newest.events(RestartScheduled)] == [(n, False) for n in range(1, 6)]
    _fail_with(newest, effects, FailureCause(failure_type, "once more"))
    effects = newest.pass_time(100)
    assert newest.events(RestartScheduled)[-1].is_counted
    _fail_with(newest, effects, FailureCause("ValueError", "the code's"))
    assert newest.job("job").status is JobStatus.FAILED
    assert newest.events(JobStatusChanged)[-2].reason == "fixed-delay: 1 restarts are allowed, and there were 1"
    newest.check()


def test_a_restart_that_is_not_counted_leaves_the_wait_of_an_exponential_delay_as_it_was(newest: ScriptedCluster) -> None:
    newest.register(slots=1)
    effects = newest.submit(graph(vertex("a"), restart_strategy=EXPONENTIAL))
    for cause, wait_ms in (("ValueError", 100), ("SparkLost", 1_000), ("ValueError", 200)):
        _fail_with(newest, effects, FailureCause(cause, "message"))
        effects = newest.pass_time(wait_ms)
    assert [e.delay_ms for e in newest.events(RestartScheduled)] == [100, 1_000, 200]


@pytest.mark.parametrize(
    ("cause", "is_restarted"),
    [
        (FailureCause("ModuleNotFoundError", "No module named 'x'"), False),
        (FailureCause("ParseException", "[PARSE_SYNTAX_ERROR] Syntax error"), False),
        (FailureCause("AnalysisException", "[UNRESOLVED_COLUMN] no column"), False),
        (FailureCause("AnalysisException", "vertex 'a': [PATH_NOT_FOUND] /landing"), True),
        (FailureCause("AnalysisException", "vertex 'a': [TABLE_OR_VIEW_NOT_FOUND] t"), True),
        (FailureCause("UnknownFunction", "there is none"), False),
        (FailureCause("ValueError", "a row"), True),
        (FailureCause("InputLost", "it is gone"), True),
    ],
)
def test_what_every_attempt_would_meet_again_is_not_tried_again(
    newest: ScriptedCluster,
    cause: FailureCause,
    is_restarted: bool,  # noqa: FBT001 - of the table
) -> None:
    newest.register(slots=1)
    _fail_with(newest, newest.submit(graph(vertex("a"), restart_strategy=fixed_delay(3, 100))), cause)
    assert newest.job("job").status is (JobStatus.RESTARTING if is_restarted else JobStatus.FAILED)
