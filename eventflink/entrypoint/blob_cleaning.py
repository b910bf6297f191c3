"""Removing blobs that are needed no more: by the leader, outside Kafka, a bounded amount at regular times.

What may go is `blob/cleaning.py`'s to say; here it is asked what the jobs refer to, and the steps are carried out in a thread. The
rule: only an accepted state counts, read as any client reads it (P4), and read again before each batch of steps; who no longer leads
stops. Nothing is remembered from one run to the next, so that a new leader continues where the last one was.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from eventflink.blob import BlobError
from eventflink.blob.cleaning import CleaningAction, CleaningRules, CleaningStep, carry_out, plan_cleaning
from eventflink.blob.store import BlobStore
from eventflink.events.topics import Topic
from eventflink.leadership.fold import Fold
from eventflink.leadership.participant import Participant
from eventflink.leadership.reads import Answered, Read, ReadRefused
from eventflink.model.configuration import Configuration
from eventflink.model.statuses import Role

LOOK_INTERVAL_S: Final = 60.0
"""How often it is looked whether this master leads, at least; so long after a change of leader the next run comes at the latest."""
BUSY_INTERVAL_S: Final = 1.0
"""How soon a run is tried again that was put off because requests waited."""
READ_TIMEOUT_S: Final = 30.0
_REFERRING: Final = (Topic.SUBMISSIONS, Topic.COMMANDS)
"""What jobs and schedules refer to comes by these topics."""
BATCH: Final = 64

_EVENT_OF: Final = {
    CleaningAction.CONDEMN: "BlobCondemned",
    CleaningAction.RESTORE: "BlobRestored",
    CleaningAction.DELETE: "BlobDeleted",
}

_logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


class NotNow(Exception):
    """The master may not clean up at present; the message says why."""


class BlobCleaner:
    """Cleans one store while its master leads."""

    def __init__(self, configuration: Configuration, store: BlobStore, present: Callable[[], Participant | None]) -> None:
        """Take the store; `present` returns the participant of the present term."""
        self._store = store
        self._present = present
        self._interval_s = configuration.blob_cleanup_interval_ms / 1000
        self._rerun_period_ms = configuration.blob_rerun_period_ms
        self._rules = CleaningRules(configuration.blob_grace_period_ms, configuration.blob_cleanup_interval_ms)
        self._next_run_s = time.monotonic() + min(self._interval_s, LOOK_INTERVAL_S)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="blob-cleaner")

    async def run(self) -> None:
        """Clean up at every interval until cancelled."""
        try:
            while True:
                pause_s = await self._try()
                await asyncio.sleep(pause_s)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _try(self) -> float:
        """Run if that is due and this master may; return after how many seconds to try again."""
        look_s = min(self._interval_s, LOOK_INTERVAL_S)
        participant = self._present()
        if participant is None or participant.leader is None:
            self._next_run_s = time.monotonic() + look_s  # A new leader reads what waits for it first.
            return look_s
        due_in_s = self._next_run_s - time.monotonic()
        if due_in_s > 0:
            return min(due_in_s, look_s)
        try:
            await self.clean()
        except NotNow as reason:
            _logger.debug("BlobCleaningPutOff reason=%s", reason)
            return BUSY_INTERVAL_S
        except (BlobError, OSError) as error:
            _logger.warning("BlobCleaningFailed error=%s", error)
        self._next_run_s = time.monotonic() + self._interval_s
        return look_s

    async def clean(self) -> Counter[CleaningAction]:
        """Run once; return how many steps of each kind were done.

        Raises:
            NotNow: this master does not lead, or requests wait to be decided.
            OSError, BlobStorageFailed: the storage failed.

        """
        references = await self._references()
        plan = await self._in_thread(self._plan, references)
        done: Counter[CleaningAction] = Counter()
        for start in range(0, len(plan), BATCH):
            references = await self._references()
            batch = [step for step in plan[start : start + BATCH] if _still_holds(step, references)]
            done.update(await self._in_thread(self._carry_out, batch))
        if done:
            counts = " ".join(f"{_EVENT_OF[action]}={done[action]}" for action in CleaningAction)
            _logger.info("BlobsCleanedUp referred=%d %s", len(references), counts)
        return done

    async def _references(self) -> Counter[str]:
        """Return what the jobs and schedules of the accepted state refer to.

        Raises:
            NotNow: this master does not lead, or requests wait to be decided: what they refer to is not known yet.

        """
        participant = self._present()
        if participant is None or participant.leader is None:
            raise NotNow("this master does not lead")
        if any(participant.intake.inboxes[topic].waiting for topic in _REFERRING):
            raise NotNow("submissions or commands wait to be decided")
        answer: asyncio.Future[Answered | ReadRefused] = asyncio.get_running_loop().create_future()

        def deliver(found: Answered | ReadRefused) -> None:
            if not answer.done():
                answer.set_result(found)

        read = Read(0, self._compute, deliver)
        participant.reads.ask(read)
        try:
            found = await asyncio.wait_for(answer, READ_TIMEOUT_S)
        except TimeoutError:
            raise NotNow(f"the state was not accepted within {READ_TIMEOUT_S:g} s") from None
        finally:
            read.is_cancelled = True
        if isinstance(found, ReadRefused) or found.role != Role.LEADER:
            raise NotNow(str(found) if isinstance(found, ReadRefused) else "this master no longer leads")
        references: Counter[str] = found.value
        return references

    def _compute(self, fold: Fold) -> Counter[str]:
        jobs = fold.master.dispatcher.blob_references(fold.last_decided_at_ms - self._rerun_period_ms)
        return jobs + fold.master.schedules.blob_references()

    def _plan(self, references: Counter[str]) -> list[CleaningStep]:
        now_ms = self._store.storage.now_ms()
        if now_ms is None:
            _logger.warning("BlobCleaningSkipped storage=%s reason=its files have no dates", self._store.storage.location)
            return []
        return plan_cleaning(self._store.entries(), references, now_ms, self._rules)

    def _carry_out(self, steps: list[CleaningStep]) -> Counter[CleaningAction]:
        done: Counter[CleaningAction] = Counter()
        for step in steps:
            if carry_out(self._store, step):
                done[step.action] += 1
                _logger.info("%s key=%s place=%s", _EVENT_OF[step.action], step.entry.key, step.entry.place)
        return done

    async def _in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))


def _still_holds(step: CleaningStep, references: Counter[str]) -> bool:
    """Tell whether a step is right by what jobs refer to now: only what is referred to is brought back, and only other blobs go."""
    return (step.action is CleaningAction.RESTORE) == (step.entry.key in references)
