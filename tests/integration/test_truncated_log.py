"""P5a on a real broker: the log loses its end, below a master that runs and before one that starts, and an operator goes on.

What a broker does that loses its unflushed segments cannot be had from one that lives: here the topic is deleted, and made again of what is
left. For who reads it that is the same, but for its id.
"""

import asyncio
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import delete_topics
from eventflink.log.replay import log_bounds, read_log
from eventflink.log.topic_checks import wanted_configuration
from eventflink.model.cluster_access import access_to
from eventflink.reader.observed_state import ObservedState
from eventflink.reader.observer import StateObserver
from eventflink.snapshots.loading import read_state
from eventflink.snapshots.log_copy import append_records
from tests.support.running_cluster import RunningCluster, wait_until


def _lose_the_end(cluster: RunningCluster, kept: int) -> None:
    """Let the log have its first records alone."""
    name = topic_name(cluster.cluster_id, Topic.LOG)
    values = [value for _, _, value in read_log(cluster.access, 0, kept)]
    connection = AdminConnection(cluster.access.kafka)
    connection.delete_topics([name])
    wait_until(lambda: name not in connection.find_topics(), "the topic is gone")
    connection.create_topics([NewTopic(name, 1, 1, config=wanted_configuration(Topic.LOG, 1))])
    connection.wait_for_topics([name])
    append_records(cluster.access, values)


async def _lose_the_end_below_an_observer(cluster: RunningCluster, kept: int, known: int) -> None:
    """Who only reads keeps what it has read, and says why it does not move."""
    state = ObservedState()
    observer = StateObserver(cluster.access, state)
    await observer.start()
    assert state.log_offset == known
    await asyncio.to_thread(_lose_the_end, cluster, kept)
    await asyncio.to_thread(wait_until, lambda: "LogTruncated topic=log: it ends at" in state.failure, "the observer notices")
    assert state.log_offset == known
    await observer.stop()


@pytest.mark.rule("P5a")
def test_a_log_that_loses_its_end_stops_masters_until_an_operator_accepts_what_is_left(bootstrap: str, tmp_path: Path) -> None:
    """Or brings it into a new cluster; as docs/operating.md says."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path)
    running = cluster.start_master()
    cluster.wait_for(lambda fold: len(fold.master.requests.cursors) == 3, "cursors are bound")
    kept = cluster.state().last_offset + 1
    with DispatcherGateway(bootstrap, name) as gateway:
        gateway.submit_job(cluster.graph({"id": "a", "python": "user_tasks:add"}), "job", actor="test")
    known = cluster.state().last_offset
    cluster.pause("master")
    asyncio.run(_lose_the_end_below_an_observer(cluster, kept, known))
    cluster.resume("master")
    assert running.wait(120) == 4
    end = log_bounds(access_to(bootstrap, name))[1]  # What the leader was about to append came behind what is left, and counts for nobody.
    *_, line = [line for line in cluster.output("master").splitlines()[-2:] if "LogTruncated" in line]  # Its guardian may speak after it.
    assert f"LogTruncated topic=log: it ends at {end}, " in line
    assert "which this process has read" in line
    # Who starts now has read nothing itself, and knows it from the leader that is gone.
    codes = {cluster.start("again", "master"): 4, cluster.start("verify", "log", "verify"): 1}
    assert {process: process.wait(120) for process in codes} == codes
    assert "missing, which the leader " in cluster.output("again").splitlines()[-1]
    assert f"it ends at {end}, and the record" in cluster.output("verify")
    assert f"the log can be folded to offset {end}, epoch 1" in cluster.output("verify")
    done = cluster.document("log", "repair", "--into", f"{name}-2", "--json")
    assert done["end_offset"] == end
    assert done["lost"][0].startswith(f"the records {end} to ")
    assert done["lost"][1:] == ["1 of submissions that nobody decided"]
    (tmp_path / "another").mkdir()
    # On the same host: there the repair has left the secret, by which the records of the old cluster are believed.
    another = RunningCluster(bootstrap, done["cluster_id"], tmp_path / "another", **{"data.directory": tmp_path / "data"})
    try:
        cluster.start("accepting", "master", "--accept-log-end", str(end))
        another.start("master", "master", *done["start"].partition(" master ")[2].split())
        wait_until(lambda: log_bounds(access_to(bootstrap, name))[1] > end, "a master leads from what is left")
        # Kafka still has the input of which the decision was lost; the new cluster has inbound topics of its own.
        wait_until(lambda: list(read_state(access_to(bootstrap, name)).master.dispatcher.jobs) == ["job"], "the job is accepted again")
        fold = another.wait_for(lambda fold: fold if fold.acceptance.epoch > 1 else None, "the new cluster is led")
        assert not fold.master.dispatcher.jobs
        assert cluster.stop("accepting") == another.stop("master") == 0
    finally:
        for process in (*cluster.processes.values(), *another.processes.values()):
            process.kill()
        for each in (cluster, another):
            delete_topics(access_to(bootstrap, each.cluster_id))
