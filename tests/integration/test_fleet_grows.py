"""The partitions of `deployments` follow the fleet while tasks run, which do not notice; on real Kafka, with simulated task processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.graphs import idle_graph
from eventflink.events.topics import Topic, topic_name
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import ensure_topics, grow_deployments
from eventflink.master.effects import TASK_MANAGERS_PER_PARTITION
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import ExecutionState, JobStatus
from tests.support.running_cluster import RunningCluster, wait_until

pytestmark = pytest.mark.slow
FLEET = TASK_MANAGERS_PER_PARTITION + 1
LATE = 12


@pytest.fixture
def cluster(bootstrap: str, cluster_id: str, tmp_path: Path) -> Iterator[RunningCluster]:
    ensure_topics(access_to(bootstrap, cluster_id), deployment_partitions=1)
    running = RunningCluster(
        bootstrap,
        cluster_id,
        tmp_path,
        **{"heartbeat.interval": 2_000, "heartbeat.missed-beats": 60, "taskmanager.self-fence-timeout": 60_000},
    )
    yield running
    running.close()


def count_partitions(cluster: RunningCluster) -> int:
    name = topic_name(cluster.cluster_id, Topic.DEPLOYMENTS)
    return AdminConnection(cluster.access.kafka).read_topics([name])[name][1]


def running_attempts(cluster: RunningCluster, job_id: str) -> dict[tuple[int, int], str]:
    """Return where which attempt of each subtask runs."""
    subtasks = cluster.job(job_id).execution_graph.subtasks()
    return {(s.subtask_index, s.attempt): s.allocation_id for s in subtasks if s.state is ExecutionState.RUNNING}


@pytest.mark.rule("P12")
def test_a_fleet_outgrows_its_partition_and_who_comes_later_reads_another_while_tasks_run_on(cluster: RunningCluster) -> None:
    cluster.start_master("first")
    cluster.start_host("early", FLEET, slots=1)
    lasting = cluster.submit(idle_graph(parallelism=FLEET), "lasting")
    cluster.wait_for(lambda _: len(running_attempts(cluster, lasting)) == FLEET, "all of them run")
    attempts = running_attempts(cluster, lasting)
    wait_until(lambda: count_partitions(cluster) == 4, "the leader adds partitions")
    cluster.start_host("late", LATE, slots=1)
    managers = cluster.state().master.resource_manager
    assert {managers.partition_of(f"early-{number}") for number in range(1, FLEET + 1)} == {0}
    assert {managers.partition_of(f"late-{number}") for number in range(1, LATE + 1)} > {0}
    cluster.wait_for_status(cluster.submit(idle_graph(0, parallelism=LATE)), JobStatus.FINISHED)

    grow_deployments(cluster.access, 9)  # By somebody else, between two leaders.
    cluster.kill("first")
    cluster.start_master("second")
    cluster.start_host("last", LATE, slots=1)
    assert max(managers.partition_of(f"last-{number}") for number in range(1, LATE + 1)) > 3
    cluster.wait_for_status(cluster.submit(idle_graph(0, parallelism=2 * LATE)), JobStatus.FINISHED)
    assert running_attempts(cluster, lasting) == attempts
    for host in ("early", "late", "last"):
        assert "InstanceEnded" not in cluster.output(host)
    for master in ("first", "second"):
        assert "EffectNotDelivered" not in cluster.output(master)
