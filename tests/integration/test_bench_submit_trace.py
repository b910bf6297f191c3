"""The trace of submissions follows each job through real processes, from its client to its end, without a gap."""

import itertools
import uuid
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.command_support import command_of
from benchmarks.process_cpu import CLIENT, FORK_SERVER, GUARDIAN, TASK_EXECUTOR, TASKS
from benchmarks.submit_trace import FLOOR, LEADER, STANDBY, TraceBench
from benchmarks.submit_trace_tables import print_trace
from benchmarks.trace_legs import TO_FINISHED, TO_REPLY
from eventflink.cli.session import Session
from eventflink.events.topics import Topic

pytestmark = [pytest.mark.slow, pytest.mark.soak("benchmarks")]

ROUNDS = 2
JOBS = 6


def test_every_job_is_followed_from_its_client_to_its_end_beside_the_floor(bootstrap: str, tmp_path: Path) -> None:
    overrides = {"data.directory": str(tmp_path), "cluster.id": f"bench-{uuid.uuid4().hex[:8]}", "taskmanager.numberOfTaskSlots": "2"}
    session = Session(None, overrides, verbose=False)
    said: list[str] = []
    bench = TraceBench(
        configuration=session.configuration,
        bootstrap=bootstrap,
        command=partial(command_of, session, bootstrap),
        broker_process_id=None,
        has_task_executor=True,
        say=said.append,
        warm_up_jobs=2,
        idle_s=1.0,
    )
    figures = bench.measure(jobs=JOBS, clients=2, concurrent_jobs=JOBS, rounds=ROUNDS)

    for mode in (figures.one_at_a_time, figures.concurrent):
        assert mode.accepted_ms.count == mode.floor_ms.count == JOBS
        assert mode.accepted_median_ratio.count == ROUNDS
        for points, found in ((TO_REPLY, mode.to_reply), (TO_REPLY, mode.floor_to_reply), (TO_FINISHED, mode.to_finished)):
            assert [(leg.start, leg.end) for leg in found] == list(itertools.pairwise(points))
            assert {leg.jobs for leg in found} == {JOBS}
        assert mode.finished_ms is not None
        released = sum(leg.mean_ms for leg in mode.to_reply[:-2])
        assert released + sum(leg.mean_ms for leg in mode.to_finished) <= mode.finished_ms.max
        assert {leg.jobs for leg in mode.delivery} == {JOBS}
        assert mode.cpu[TASKS].gross_ms > 0
        assert mode.cpu[LEADER].gross_ms > mode.floor_cpu[FLOOR].gross_ms
    assert any(leg.cpu_ms for leg in figures.one_at_a_time.to_reply)
    assert not any(leg.cpu_ms for leg in figures.concurrent.to_reply)
    assert set(figures.idle_share) == {CLIENT, LEADER, STANDBY, TASK_EXECUTOR, GUARDIAN, FORK_SERVER, TASKS, FLOOR}
    assert figures.records_per_job[Topic.SUBMISSIONS] == figures.records_per_job[Topic.REPLIES] == 1
    assert figures.records_per_job[Topic.LOG] > 2  # It is accepted, it ends, and it is cleaned up with others.

    out = StringIO()
    print_trace(Console(file=out, width=200), figures)
    assert "decision in Kafka → decision read back" in out.getvalue()
    assert "TaskExecutor: fork server" in out.getvalue()
