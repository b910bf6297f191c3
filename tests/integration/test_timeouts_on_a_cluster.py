"""What a real master does when a time is over: a slot request that waited too long, an ended job that was kept for long enough."""

from pathlib import Path

from eventflink.events.log_events import JobEvicted, SlotRequestTimedOut
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster

SLOT_REQUEST_TIMEOUT_MS = 1_500
KEPT_MS = 2_000


def test_a_request_without_a_slot_times_out_and_its_job_leaves_the_memory_later(bootstrap: str, cluster_id: str, tmp_path: Path) -> None:
    times = {"slot.request.timeout": SLOT_REQUEST_TIMEOUT_MS, "jobstore.expiration-time": KEPT_MS}
    cluster = RunningCluster(bootstrap, cluster_id, tmp_path, **times)
    try:
        cluster.start_master()
        job_id = cluster.run_task("noop")
        cluster.wait_for(lambda fold: job_id in fold.master.dispatcher.forgotten, "it has left the memory")
        with DispatcherGateway(bootstrap, cluster_id) as gateway:
            result = gateway.request_job_result(job_id, timeout_s=120)
        assert result.status is JobStatus.FAILED
        assert result.cause is not None
        assert result.cause.failure_type == "NoResourceAvailable"
        decided = {
            type(e): d.decided_at_ms for _, d in cluster.decisions() for e in d.events if isinstance(e, SlotRequestTimedOut | JobEvicted)
        }
        [timed_out] = [e for e in (e for _, d in cluster.decisions() for e in d.events) if isinstance(e, SlotRequestTimedOut)]
        assert timed_out.waited_ms >= SLOT_REQUEST_TIMEOUT_MS
        assert decided[JobEvicted] - decided[SlotRequestTimedOut] >= KEPT_MS
    finally:
        cluster.close()
