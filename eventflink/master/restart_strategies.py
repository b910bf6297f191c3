"""Whether, and when, a failed region starts again: the restart strategies of Flink.

A strategy is asked once for each failed attempt. It reads the job's history of failures, which the events of the log made, and answers with
the wait before the restart, or with none: then the job fails. Nothing here changes anything.
"""

import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from eventflink.model.job_graph import RestartStrategy
from eventflink.model.statuses import RestartStrategyType

MAX_REMEMBERED_FAILURES: Final = 10_000


@dataclass(slots=True)
class RestartHistory:
    """What a job's restart strategy remembers."""

    restarts: int = 0
    backoff_ms: int = 0
    last_failure_at_ms: int = 0
    failed_at_ms: deque[int] = field(default_factory=deque)
    """When the last failures were restarted: as many as the failure rate may count, the oldest first."""

    def note(self, restarts: int, backoff_ms: int, at_ms: int, remembered: int) -> None:
        """Take note of a failure after which a restart was scheduled."""
        self.restarts = restarts
        self.backoff_ms = backoff_ms
        self.last_failure_at_ms = at_ms
        if remembered:
            self.failed_at_ms.append(at_ms)
            while len(self.failed_at_ms) > min(remembered, MAX_REMEMBERED_FAILURES):
                self.failed_at_ms.popleft()


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again after `delay_ms`; `backoff_ms` is that delay without its jitter, where the next one grows from it."""

    delay_ms: int
    backoff_ms: int = 0


def next_restart(strategy: RestartStrategy, history: RestartHistory, job_id: str, now_ms: int, *, is_restarting: bool) -> Restart | None:
    """Return the restart after a failure at `now_ms`, or None if the job is to fail.

    `is_restarting`: another region of the job waits already.
    """
    match strategy.strategy_type:
        case RestartStrategyType.FIXED_DELAY:
            return Restart(strategy.delay_ms) if history.restarts < strategy.attempts else None
        case RestartStrategyType.FAILURE_RATE:
            recent = sum(now_ms - at_ms < strategy.interval_ms for at_ms in history.failed_at_ms)
            return Restart(strategy.delay_ms) if recent < strategy.attempts else None
        case RestartStrategyType.EXPONENTIAL_DELAY:
            backoff_ms = _backoff_ms(strategy, history, now_ms, is_restarting=is_restarting)
            return Restart(_jittered_ms(strategy, backoff_ms, f"{job_id}/{history.restarts}"), backoff_ms)
        case _:
            return None


def _backoff_ms(strategy: RestartStrategy, history: RestartHistory, now_ms: int, *, is_restarting: bool) -> int:
    """Return the next wait: the first one again after a long quiet time; failures of one wave share theirs."""
    quiet_ms = now_ms - history.last_failure_at_ms - history.backoff_ms
    if not history.backoff_ms or quiet_ms >= strategy.reset_threshold_ms:
        return strategy.delay_ms
    if is_restarting:
        return history.backoff_ms
    return min(int(history.backoff_ms * strategy.multiplier), strategy.max_delay_ms)


def _jittered_ms(strategy: RestartStrategy, backoff_ms: int, seed: str) -> int:
    """Spread the restarts of many jobs; by job and restart, and so alike for whoever decides it."""
    spread_ms = int(backoff_ms * strategy.jitter_factor)
    return max(0, backoff_ms - spread_ms + zlib.crc32(seed.encode()) % (2 * spread_ms + 1))
