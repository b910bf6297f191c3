"""An inbound topic that was deleted and created again: offsets of the old one mean nothing in it (P9)."""

import uuid
from pathlib import Path

import pytest

from eventflink.events.topics import Topic, topic_name
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import delete_topics, ensure_topics, topic_ids
from eventflink.model.cluster_access import access_to
from eventflink.model.kafka_settings import KafkaAccess
from tests.support.running_cluster import RunningCluster, wait_until


def test_a_master_does_not_read_a_topic_that_is_not_the_one_its_cursor_was_bound_to(bootstrap: str, tmp_path: Path) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path)
    before = topic_ids(access_to(bootstrap, name))[Topic.COMMANDS]
    if not before:
        pytest.skip("this broker has no topic ids")
    cluster.start_master()
    cluster.wait_for(lambda fold: len(fold.master.requests.cursors) == 3, "cursors are bound")
    assert cluster.stop("master") == 0
    AdminConnection(KafkaAccess(bootstrap), 30).delete_topics([topic_name(name, Topic.COMMANDS)])
    wait_until(lambda: ensure_topics(access_to(bootstrap, name)) == [Topic.COMMANDS], "the topic is gone and made again")
    process = cluster.start("again", "master")
    assert process.wait(120) == 4
    said = cluster.output("again").splitlines()[-1]
    assert said.startswith("eventflink: ")
    assert before in said
    assert "deleted and created again" in said
    delete_topics(access_to(bootstrap, name))


@pytest.mark.rule("P9")
def test_a_running_master_ends_when_an_inbound_topic_is_created_again(bootstrap: str, tmp_path: Path) -> None:
    """However many records there are in the new one: none of them is where the cursor says."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path)
    before = topic_ids(access_to(bootstrap, name))[Topic.COMMANDS]
    if not before:
        pytest.skip("this broker has no topic ids")
    process = cluster.start_master()
    cluster.wait_for(lambda fold: len(fold.master.requests.cursors) == 3, "cursors are bound")
    AdminConnection(KafkaAccess(bootstrap), 30).delete_topics([topic_name(name, Topic.COMMANDS)])
    wait_until(lambda: ensure_topics(access_to(bootstrap, name)) == [Topic.COMMANDS], "the topic is gone and made again")
    assert process.wait(90) == 4
    said = [line for line in cluster.output("master").splitlines() if "deleted and created again" in line]
    assert before in said[-1]
    delete_topics(access_to(bootstrap, name))
