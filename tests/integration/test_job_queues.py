"""Queues of jobs on a real cluster: a flood of long tasks borrows every slot, and a queue with a quota takes one of them back."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from eventflink.cli.main import cli
from eventflink.events.log_events import QueuesConfigured, SlotReclaimed, TaskFailed
from eventflink.gateways.errors import RequestRefused
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.job_queues import JobQueue
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import RunningCluster, running_cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    keys = {"queues.flood.nominal-quota": 0, "queues.etl.nominal-quota": 1, "slotmanager.queue-reclaim-after": 500}
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **keys, **{"taskmanager.numberOfTaskSlots": 2}) as running:
        running.start_master()
        running.start("tm", "taskexecutor", **{"taskmanager.id": "tm"})
        running.wait_for(lambda fold: "tm" in fold.master.resource_manager.task_managers, "the TaskExecutor is registered")
        yield running


def _graph(queue: str, task: str, parallelism: int = 1) -> JobGraph:
    vertex = {"id": "only", "python": f"eventflink.testing.tasks:{task}", "parallelism": parallelism}
    return parse_job_graph({"name": queue, "queue": queue, "vertices": [vertex]}, "test")


def test_a_queue_with_a_quota_gets_a_slot_while_a_flood_has_them_all(cluster: RunningCluster) -> None:
    flood = cluster.submit(_graph("flood", "idle", 4))
    cluster.wait_for(lambda fold: fold.master.slot_manager.shares.held_by("flood") == 2, "the flood has all slots")
    entitled = cluster.submit(_graph("etl", "noop"))
    cluster.wait_for_status(entitled, JobStatus.FINISHED)
    events = [event for _, decision in cluster.decisions() for event in decision.events]
    assert [event.queues for event in events if isinstance(event, QueuesConfigured)] == [(JobQueue("etl", 1), JobQueue("flood", 0))]
    assert {(event.job_id, event.queue) for event in events if isinstance(event, SlotReclaimed)} == {(flood, "etl")}
    assert not [event for event in events if isinstance(event, TaskFailed)]
    assert cluster.job(flood).restarts.count == 0
    asked = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "queues", "--json"]
    rows = json.loads(CliRunner().invoke(cli, asked, standalone_mode=False).stdout)["queues"]
    assert [(row["queue"], row["nominal_quota"]) for row in rows] == [("default", 0), ("etl", 1), ("flood", 0)]


def test_a_queue_that_is_not_configured_is_named_with_those_that_are(cluster: RunningCluster) -> None:
    with pytest.raises(RequestRefused, match="queue not found: 'elt'; known: default, etl, flood"):
        cluster.submit(_graph("elt", "noop"))
