"""A burst of 1,000 jobs on few slots: all of them finish, each gets its slot in its turn, and a job of many tasks keeps nobody from one.

Kafka and the master are real; the TaskExecutor is a simulated one that speaks the real protocol. What is checked is the order in which
the log says that slots were asked for and given, and no time.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.graphs import idle_graph
from eventflink.events.inputs import JobSubmission
from eventflink.events.log_events import JobResultStored, LogEvent, SlotAllocated, SlotRequested, TaskDeployed
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.slow
JOBS = 1_000
SLOTS = 4
GREEDY = "greedy"
GREEDY_TASKS = 100
TIMEOUT_S = 360.0


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """One master, and no slots yet."""
    with running_cluster(bootstrap, tmp_path) as running:
        running.start_master()
        yield running


def test_a_burst_of_1000_jobs_drains_each_in_its_turn_beside_a_job_of_many_tasks(cluster: RunningCluster) -> None:
    job_ids = [GREEDY, *(f"small-{number}" for number in range(1, JOBS))]
    with PipelinedClient(cluster.access, request_timeout_s=TIMEOUT_S) as client:
        wide, graph = idle_graph(0, parallelism=GREEDY_TASKS), idle_graph(0)
        submissions = [JobSubmission(job_id=n, actor="test", job_graph=wide if n == GREEDY else graph) for n in job_ids]
        half = [client.send(submission) for submission in submissions[: JOBS // 2]]
        assert [future.result(TIMEOUT_S).job_id for future in half] == job_ids[: JOBS // 2]
        cluster.start_host("host", task_executors=1, slots=SLOTS)
        rest = [client.send(submission) for submission in submissions[JOBS // 2 :]]  # These come while slots are given.
        assert [future.result(TIMEOUT_S).job_id for future in rest] == job_ids[JOBS // 2 :]
    cluster.wait_for(lambda fold: len(fold.master.dispatcher.ended) == JOBS, "all jobs end", TIMEOUT_S)
    events = [event for _, decision in cluster.decisions() for event in decision.events]
    _assert_all_finished_at_the_first_attempt(events)
    _assert_each_in_its_turn(events)


def _assert_all_finished_at_the_first_attempt(events: list[LogEvent]) -> None:
    ended = [(event.job_id, event.status) for event in events if isinstance(event, JobResultStored)]
    assert Counter(status for _, status in ended) == {JobStatus.FINISHED: JOBS}
    assert len({job_id for job_id, _ in ended}) == JOBS
    deployed = Counter((e.job_id, e.vertex_id, e.subtask_index) for e in events if isinstance(e, TaskDeployed))
    assert len(deployed) == JOBS - 1 + GREEDY_TASKS
    assert set(deployed.values()) == {1}


def _assert_each_in_its_turn(events: list[LogEvent]) -> None:
    """Jobs of one task get their slots in the order in which they asked, and while one waits the greedy job gets two slots at most.

    Two, since a request joins the round behind the one that is being served, and a job has one turn in each.
    """
    job_of: dict[str, str] = {}
    waiting: dict[str, int] = {}
    """By allocation id, in the order in which they asked: how many slots the greedy job got since."""
    most = 0
    for event in events:
        if isinstance(event, SlotRequested):
            job_of[event.allocation_id] = event.job_id
            if event.job_id != GREEDY:
                waiting[event.allocation_id] = 0
        elif isinstance(event, SlotAllocated):
            most = max(most, len(waiting))
            if job_of[event.allocation_id] == GREEDY:
                waiting = {allocation_id: count + 1 for allocation_id, count in waiting.items()}
                assert max(waiting.values(), default=0) <= 2
            else:
                assert event.allocation_id == next(iter(waiting)), "a job that asked later got a slot before"
                del waiting[event.allocation_id]
    assert not waiting
    assert most >= JOBS // 2 - 1  # It was a burst: so many waited at once.
