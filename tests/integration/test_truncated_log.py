"""P5a on a real broker: the log loses its end, below a master that runs and before one that starts, and an operator goes on.

What a broker does that loses its unflushed segments cannot be had from one that lives: here the topic is deleted, and made again of what is
left. For who reads it that is the same, but for its id.
"""

import uuid
from pathlib import Path

from confluent_kafka.admin import NewTopic

from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.lab.drills.log_copy import append_records
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import delete_topics
from eventflink.log.replay import log_bounds, read_log
from eventflink.log.topic_checks import wanted_configuration
from eventflink.snapshots.loading import read_state
from tests.support.running_cluster import RunningCluster, wait_until


def _lose_the_end(cluster: RunningCluster, kept: int) -> None:
    """Let the log have its first records alone."""
    reach, name = (cluster.bootstrap, cluster.cluster_id), topic_name(cluster.cluster_id, Topic.LOG)
    values = [value for _, _, value in read_log(*reach, 0, kept)]
    connection = AdminConnection(cluster.bootstrap)
    connection.delete_topics([name])
    wait_until(lambda: name not in connection.find_topics(), "the topic is gone")
    connection.create_topics([NewTopic(name, 1, 1, config=wanted_configuration(Topic.LOG, 1))])
    connection.wait_for_topics([name])
    append_records(*reach, values)


def test_a_log_that_loses_its_end_stops_masters_until_an_operator_accepts_what_is_left(bootstrap: str, tmp_path: Path) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path)
    running = cluster.start_master()
    cluster.wait_for(lambda fold: len(fold.master.requests.cursors) == 3, "cursors are bound")
    kept = cluster.state().last_offset + 1
    with DispatcherGateway(bootstrap, name) as gateway:
        for number in range(3):
            gateway.submit_job(cluster.graph({"id": "a", "python": "user_tasks:add"}), f"job-{number}", actor="test")
    known = cluster.state().last_offset
    cluster.pause("master")
    _lose_the_end(cluster, kept)
    cluster.resume("master")
    assert running.wait(60) == 4
    end = log_bounds(bootstrap, name)[1]  # What the leader was about to append came behind what is left, and counts for nobody.
    assert f"LogTruncated topic=log: it ends at {end}, " in cluster.output("master").splitlines()[-1]
    assert "which this process has read" in cluster.output("master").splitlines()[-1]
    # Who starts now has read nothing itself, and knows it from the leader that is gone.
    started = cluster.start("again", "master")
    assert started.wait(60) == 4
    assert "missing, which the leader " in cluster.output("again").splitlines()[-1]
    cluster.start("elsewhere", "master", "--accept-log-end", str(known + 100))
    assert cluster.processes["elsewhere"].wait(60) == 4
    assert "LogEndNotAccepted" in cluster.output("elsewhere")
    cluster.start("accepting", "master", "--accept-log-end", str(end))
    wait_until(lambda: log_bounds(bootstrap, name)[1] > end + 1, "a master leads from what is left")
    fold = read_state(bootstrap, name)
    assert (fold.acceptance.epoch, list(fold.master.dispatcher.jobs)) == (2, [])
    assert cluster.stop("accepting") == 0
    delete_topics(bootstrap, name)
