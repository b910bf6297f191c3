"""Whether, and when, a failed region starts again: the restart strategies of Flink.

A strategy is asked once for each failure that no restart under way covers. It reads what the events of the log left in the job's
`RestartHistory` and answers with the wait before the restart, or with why there is none: then the job fails. Nothing here changes
anything but that history, and that only where an event is applied.
"""

import math
import zlib
from dataclasses import dataclass, field

from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import RestartStrategyType


@dataclass(slots=True)
class RestartHistory:
    """What a job's restart strategy remembers, besides the number of restarts."""

    backoff_ms: int = 0
    last_failure_at_ms: int = 0
    failed_at_ms: list[int] = field(default_factory=list)
    """When the last failures were restarted: as many as the failure rate allows within its interval, the oldest first."""

    def note(self, strategy: RestartStrategy | None, backoff_ms: int, at_ms: int) -> None:
        """Take note of a failure after which a restart was scheduled."""
        self.backoff_ms = backoff_ms
        self.last_failure_at_ms = at_ms
        if strategy is not None and strategy.strategy_type is RestartStrategyType.FAILURE_RATE:
            self.failed_at_ms.append(at_ms)
            del self.failed_at_ms[: max(0, len(self.failed_at_ms) - strategy.attempts)]


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again after `delay_ms`; `backoff_ms` is that delay without its jitter, from which the next one grows."""

    delay_ms: int
    backoff_ms: int = 0
    is_counted: bool = True
    retry_rule: int = 0
    """The number of the rule of the vertex's retries that says so; 0: none does."""


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The job is to fail."""

    reason: str


def next_restart(
    strategy: RestartStrategy | None, restarts: int, history: RestartHistory, job_id: str, now_ms: int, *, is_restarting: bool
) -> Restart | NoRestart:
    """Return what the strategy says to a failure at `now_ms`.

    Args:
        strategy: the job's.
        restarts: how many restarts the job had.
        history: what the strategy remembers.
        job_id: whose failure it is; the jitter of an exponential delay is drawn from it.
        now_ms: when the attempt failed.
        is_restarting: another region of the job waits already.

    """
    match strategy.strategy_type if strategy is not None else None:
        case RestartStrategyType.FIXED_DELAY if strategy is not None:
            if restarts < strategy.attempts:
                return Restart(strategy.delay_ms)
            return NoRestart(f"fixed-delay: {strategy.attempts} restarts are allowed, and there were {restarts}")
        case RestartStrategyType.FAILURE_RATE if strategy is not None:
            recent = sum(now_ms - at_ms < strategy.interval_ms for at_ms in history.failed_at_ms)
            if recent < strategy.attempts:
                return Restart(strategy.delay_ms)
            limit = f"{strategy.attempts} restarts are allowed within {strategy.interval_ms} ms"
            return NoRestart(f"failure-rate: {limit}, and there were {recent}")
        case RestartStrategyType.EXPONENTIAL_DELAY if strategy is not None:
            backoff_ms = _backoff_ms(strategy, history, now_ms, is_restarting=is_restarting)
            return Restart(_jittered_ms(strategy, backoff_ms, f"{job_id}/{restarts}"), backoff_ms)
        case _:
            return NoRestart("the restart strategy is none")


def _backoff_ms(strategy: RestartStrategy, history: RestartHistory, now_ms: int, *, is_restarting: bool) -> int:
    """Return the next wait: the first one again after a long quiet time; failures of one wave share theirs."""
    quiet_ms = now_ms - history.last_failure_at_ms - history.backoff_ms
    if not history.backoff_ms or quiet_ms >= strategy.reset_threshold_ms:
        return strategy.delay_ms
    if is_restarting:
        return history.backoff_ms
    # Rounded up: a wait of 1 ms would never become longer by a multiplier below 2.
    return min(math.ceil(history.backoff_ms * strategy.multiplier), strategy.max_delay_ms)


def _jittered_ms(strategy: RestartStrategy, backoff_ms: int, seed: str) -> int:
    """Spread the restarts of many jobs; drawn from job and restart, so that every leader gets the same number."""
    spread_ms = int(backoff_ms * strategy.jitter_factor)
    return min(backoff_ms - spread_ms + zlib.crc32(seed.encode()) % (2 * spread_ms + 1), strategy.max_delay_ms)
