"""A burst of submissions for the tests that break things meanwhile, and the proof afterwards that nothing of it was lost or doubled."""

from types import TracebackType
from typing import Self

from benchmarks.failover_load import Load, Verdict, judge
from benchmarks.failover_watch import Leadership, LogWatch
from benchmarks.graphs import idle_graph
from benchmarks.simulated_tasks import read_journal
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.model.attempts import SubtaskId
from tests.support.running_cluster import TIMEOUT_S, RunningCluster

JOBS_PER_S = 40
MAX_UNANSWERED = 24
"""Whoever waits for so many answers submits no more: on a slow machine the burst is as slow as the cluster, and never buries it."""

LONG_TASKS = 4
PATIENCE_S = 2 * TIMEOUT_S


class Burst:
    """Submits jobs while the block runs, beside a job that runs all the time; leaving the block in order proves what became of them.

    The cluster has a leader and simulated TaskExecutors.
    """

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.watch = LogWatch(cluster.access)
        self.client = PipelinedClient(cluster.access, request_timeout_s=PATIENCE_S, max_pending=MAX_UNANSWERED)
        self.load = Load(self.client, JOBS_PER_S)
        self.long = cluster.submit(idle_graph(parallelism=LONG_TASKS))
        self.long_tasks = {SubtaskId(self.long, "idle", index) for index in range(LONG_TASKS)}

    def __enter__(self) -> Self:
        self.watch.wait_for(lambda: self.long_tasks <= self.watch.runs.keys(), "the long tasks RUNNING")
        self.load.__enter__()
        self.wait_for_jobs(20)
        return self

    def wait_for_jobs(self, count: int) -> None:
        """Wait until so many more jobs have ended."""
        ended = self.watch.ask(lambda: len(self.watch.ended))
        self.watch.wait_for(lambda: len(self.watch.ended) >= ended + count, f"{count} more jobs end", PATIENCE_S)

    @property
    def leadership(self) -> Leadership:
        """The present epoch."""
        return self.watch.wait_for(lambda: self.watch.leadership, "a leader")

    def wait_for_next(self, epoch: int) -> Leadership:
        """Wait until a later epoch than this one decides something."""
        return self.watch.wait_for(
            lambda: now if (now := self.watch.leadership) is not None and now.epoch > epoch and now.first_decision_s is not None else None,
            f"a leader after epoch {epoch}",
            PATIENCE_S,
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            self.load.__exit__(kind, error, traceback)
            if error is None:
                self._prove()
        finally:
            self.client.close()
            self.watch.close()

    def _prove(self) -> None:
        accepted, refused, unanswered = self.load.outcome()
        answers = f"of {self.load.submitted} submissions {len(accepted)} accepted, {refused} refused, {unanswered} unanswered"
        assert (refused, unanswered, len(accepted)) == ([], 0, self.load.submitted), answers
        self.watch.wait_for(lambda: accepted.keys() <= self.watch.ended.keys(), "every accepted job ends", PATIENCE_S)
        fold = self.cluster.state()
        verdict = judge(accepted.keys(), self.watch.ended, self.watch.repeated, fold, [self.cluster.journal])
        assert verdict == Verdict(found=len(accepted), finished=len(accepted), restarted=0, launched_twice=0, lost=()), verdict
        # The long job was not touched: each task was launched once, and never ended.
        entries = [entry for entry in read_journal(self.cluster.journal) if entry.attempt.job_id == self.long]
        lives = sorted((e.what, e.attempt.subtask_index, e.attempt.attempt) for e in entries)
        assert lives == [("launched", index, 1) for index in range(LONG_TASKS)], lives
