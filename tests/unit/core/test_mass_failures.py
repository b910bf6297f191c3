"""What many fail of at once, and say at length, is cut into decisions by bytes, and decided at the pace of the log (P10a)."""

import pytest

from eventflink.events.log_events import SlotRequestTimedOut, SlotRequestUnfulfillable
from eventflink.events.topics import MAX_DECISION_BYTES
from eventflink.leadership.leader import INLINE_BYTES
from eventflink.master.inputs import WorkerTerminated
from eventflink.master.settings import MasterSettings, WorkerSettings
from eventflink.model.statuses import JobStatus
from tests.support.cluster import ScriptedCluster, fixed_delay, graph, vertex

JOBS = 70


@pytest.mark.rule("P10a")
@pytest.mark.parametrize("character", ["x", "\u4e2d"])
def test_long_reasons_for_many_jobs_fit_into_decisions_whatever_they_are_written_in(character: str) -> None:
    """The longest message of a resource driver, said of as many requests as one decision fails, each for the longest names."""
    workers = WorkerSettings(slot_count=1, max_slots=50_000, registration_timeout_ms=60_000, idle_timeout_ms=30_000, max_failure_rate=1_000)
    settings = MasterSettings(slot_request_timeout_ms=3_600_000, start_up_time_ms=10_000, workers=workers)
    cluster = ScriptedCluster(settings, check_states=False, check_digests=False)
    cluster.register("tm", 1)
    asked = {f"{'r' * 61}{number:02}": (1 << 62) - number for number in range(16)}
    for number in range(JOBS):
        cluster.submit(graph(vertex("v" * 64, extended_resources=asked)), job_id=f"{'j' * 120}{number:04}")
    cluster.submit(graph(vertex("w", 3)), job_id="plain")
    cluster.pass_time(100)
    cluster.timer(WorkerTerminated(next(iter(cluster.master.workers.pending)), character * 1_024))
    cluster.pass_time(20_000)
    assert not cluster.master.follow_ups.parked
    assert cluster.terms == 1
    reasons = [event.reason for event in cluster.events(SlotRequestUnfulfillable)]
    assert len(reasons) == JOBS
    assert max(map(len, cluster.log)) < MAX_DECISION_BYTES
    assert all(
        sum(len(e.reason.encode()) for e in d.events if isinstance(e, SlotRequestUnfulfillable)) < 80 * 1024 for d in cluster.decisions()
    )
    cluster.check()


@pytest.mark.rule("P10a")
def test_all_requests_that_are_overdue_time_out_at_once_in_bounded_decisions() -> None:
    """Each on the state after the one before: a job that fails for the first of its requests does not fail again for the others."""
    cluster = ScriptedCluster(MasterSettings(slot_request_timeout_ms=1_000), check_states=False, check_digests=False)
    for number in range(300):
        strategy = fixed_delay(5, 60_000) if number % 2 else {"type": "none"}
        cluster.submit(graph(vertex("v", 3), restart_strategy=strategy), job_id=f"job-{number}")
    count = len(cluster.log)
    cluster.monotonic_ms += 1_000
    cluster.wall_ms += 1_000
    cluster.timer(*cluster.participant.due(cluster.leader, cluster.leader.clock.read(cluster.monotonic_ms, cluster.wall_ms)))
    timed_out = cluster.events(SlotRequestTimedOut)
    assert 150 < len(timed_out) < 600, "at the first look"
    assert max(map(len, cluster.log[count:])) < 2 * INLINE_BYTES
    cluster.pass_time(0)
    assert len(cluster.events(SlotRequestTimedOut)) == 150 + 3 * 150, "the others of a job that fails are cancelled"
    assert not cluster.master.slot_manager.pending
    assert {cluster.job("job-0").status, cluster.job("job-1").status} == {JobStatus.FAILED, JobStatus.RESTARTING}
    cluster.check()
