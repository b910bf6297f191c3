"""Metrics of a real cluster, scraped over HTTP: at leader, standby and TaskExecutor are the numbers that its jobs led to.

The leader is frozen and killed in the last tests.
"""

import re
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from eventflink.log.administration import delete_topics
from eventflink.metrics.metric_catalogue import METRICS
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import JobStatus
from tests.support.dashboard import dashboard_metrics
from tests.support.running_cluster import RunningCluster, wait_until
from tests.support.scrapes import STREAM_METRICS, Scrape, get, scrape_address

pytestmark = pytest.mark.slow
JM = "eventflink_jobmanager_"
TM = "eventflink_taskmanager_"
LISTENS = re.compile(r"MetricsServerStarted host=127\.0\.0\.1 port=(\d+)")
NOT_THE_GRANT = 1


class Measured:
    """A cluster whose processes serve their metrics."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.flag = cluster.directory / "flag"
        self.running = ""

    def prepare(self) -> None:
        """A job has finished; one has failed for good; of a third two tasks run, until the flag is there, and one waits for a slot."""
        cluster = self.cluster
        cluster.wait_for_status(cluster.run_task("noop", parallelism=3), JobStatus.FINISHED)
        failed = cluster.run_task("fail", restarts=1)
        cluster.wait_for(lambda fold: failed in fold.master.dispatcher.ended, "the failing job has ended")
        vertex = {"id": "task", "python": "user_tasks:wait_for_file", "parallelism": 3, "parameters": {"path": str(self.flag)}}
        self.running = cluster.submit(cluster.graph(vertex, time_limit="1d"))
        wait_until(lambda: self.scrape("tm").by("state", f"{TM}tasks") == {"RUNNING": 2}, "two tasks run")
        cluster.wait_for(lambda fold: not fold.master.dispatcher.dirty, "what ended is cleaned up")

    def address_of(self, name: str) -> str:
        """Return where a process says that it serves its metrics."""
        text = (self.cluster.directory / f"{name}.txt").read_text(errors="replace")
        return f"127.0.0.1:{LISTENS.findall(text)[-1]}"

    def scrape(self, name: str) -> Scrape:
        return scrape_address(self.address_of(name))

    def scrape_at_rest(self, name: str) -> Scrape:
        """Scrape a master that has read all of a log in which nothing happens."""

        def at_rest() -> Scrape | None:
            before, scraped, after = self.cluster.state().last_offset, self.scrape(name), self.cluster.state().last_offset
            return scraped if before == after == scraped.one(f"{JM}log_offset") else None

        found: Scrape = wait_until(at_rest, f"{name} at rest")
        return found


@pytest.fixture(scope="module")
def measured(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    name = f"test-{uuid.uuid4().hex[:12]}"
    allowed = {"metrics.thread-dump.enabled": "true", "metrics.profiler.enabled": "true"}
    patience = {"heartbeat.missed-beats": 120, "taskmanager.self-fence-timeout": 100_000}  # No task ends while a leader is frozen.
    queues = {"queues.default.nominal-quota": 8}
    keys = {"metrics.reporter.prom.port": 0, "high-availability.lease-timeout": 6000, **allowed, **patience, **queues}
    cluster = RunningCluster(bootstrap, name, tmp_path_factory.mktemp("cluster"), **keys)
    measured = Measured(cluster)
    try:
        cluster.start_master("first")
        cluster.start_standby("second")
        cluster.start_task_executor("tm", slots=2)
        measured.prepare()
        yield measured
    finally:
        measured.flag.with_name("flag.go").touch()
        cluster.close()
        delete_topics(access_to(bootstrap, name))


@pytest.mark.parametrize("name", ["first", "second"])
def test_every_master_tells_what_the_cluster_has(measured: Measured, name: str) -> None:
    scrape = measured.scrape_at_rest(name)
    assert scrape.by("status", f"{JM}jobs") == {"FINISHED": 1, "FAILED": 1, "RUNNING": 1}
    assert scrape.by("state", f"{JM}job_tasks") == {"RUNNING": 2, "SCHEDULED": 1}
    assert set(scrape.by("job_id", f"{JM}job_status")) == {measured.running}
    assert (scrape.one(f"{JM}task_slots_registered"), scrape.one(f"{JM}task_slots_free")) == (2, 0)
    assert (scrape.one(f"{JM}pending_slot_requests"), scrape.one(f"{JM}task_managers")) == (1, 1)
    assert (scrape.one(f"{JM}epoch"), scrape.one(f"{JM}masters"), scrape.one(f"{JM}log_lag_records")) == (1, 2, 0)
    assert scrape.one(f"{JM}is_leader", jm_id=name, cluster_id=measured.cluster.cluster_id) == (name == "first")
    assert scrape.by("topic", f"{JM}inbox_length") == {}
    assert scrape.by("collector", "eventflink_metrics_collector_failures_total") == {}


def test_the_leader_counts_its_decisions_and_the_events_of_the_log(measured: Measured) -> None:
    scrape = measured.scrape_at_rest("first")
    decisions = [decision for _, decision in measured.cluster.decisions()]
    assert scrape.by("event", f"{JM}events_total") == Counter(type(event).__name__ for d in decisions for event in d.events)
    assert scrape.one(f"{JM}decisions_total") == len(decisions) - NOT_THE_GRANT
    assert scrape.one(f"{JM}log_decisions_accepted_total") == len(decisions)
    for latency in ("decide_latency_seconds", "append_to_read_back_latency_seconds"):
        assert scrape.one(f"{JM}{latency}_count") == len(decisions) - NOT_THE_GRANT
        assert 0 < scrape.one(f"{JM}{latency}_sum") < len(decisions)
    assert scrape.one(f"{JM}restarts_total") == 1
    assert scrape.by("effect", f"{JM}effects_released_total")["TaskDeployment"] >= 7  # Three, two, two; some perhaps again.
    assert scrape.one(f"{JM}oldest_pending_slot_request_age_seconds") > 0
    assert scrape.one(f"{JM}oldest_heartbeat_age_seconds") < 60
    standby = measured.scrape_at_rest("second")
    assert standby.one(f"{JM}decisions_total") == 0
    assert standby.by("event", f"{JM}events_total")["TaskFinished"] == 3


def test_the_task_executor_counts_its_tasks(measured: Measured) -> None:
    scrape = measured.scrape("tm")
    assert scrape.one(f"{TM}task_starts_total", tm_id="tm") == 7
    assert scrape.by("state", f"{TM}task_ends_total") == {"FINISHED": 3, "FAILED": 2}
    assert (scrape.one(f"{TM}task_slots"), scrape.one(f"{TM}task_slots_free")) == (2, 0)
    assert scrape.by("phase", f"{TM}phase") == {"REGISTERED": 1}
    assert (scrape.one(f"{TM}epoch"), scrape.one(f"{TM}instances_total"), scrape.one(f"{TM}self_fences_total")) == (1, 1, 0)
    assert scrape.one(f"{TM}heartbeats_acknowledged_total") <= scrape.one(f"{TM}heartbeats_sent_total")
    assert scrape.one(f"{TM}acknowledged_heartbeat_age_seconds") < 60
    assert scrape.one(f"{TM}task_processes") >= 4  # Two fork servers and two tasks.
    assert all(m > 1e6 for m in scrape.values(f"{TM}task_resident_memory_bytes", job_id=measured.running, task_id="task"))
    assert [0 <= cpu < 60 for cpu in scrape.values(f"{TM}task_cpu_seconds_total")] == [True, True]


def test_every_metric_of_the_catalogue_is_there_and_the_dashboard_asks_for_no_other(measured: Measured) -> None:
    """All but those of streams, which `test_master_metrics.py` shows: no job here has one."""
    names: set[str] = set()
    for name in ("first", "second", "tm"):
        scrape = measured.scrape(name)
        names |= scrape.names | {family for family, kind in scrape.types.items() if kind == "histogram"}
    assert {metric.name for metric in METRICS} - names == STREAM_METRICS
    assert dashboard_metrics() - names == set()


def test_stacks_and_a_profile_of_the_leader(measured: Measured) -> None:
    address = measured.address_of("first")
    assert re.search(r'"MainThread".*\n(.*\n)*?.*run_master', get(address, "/threads")[2])

    def shows_the_main_thread() -> bool:
        status, _, profile = get(address, "/profile?seconds=1")
        assert status == 200
        return re.search(r"^MainThread;\S+ \d+$", profile, re.MULTILINE) is not None

    wait_until(shows_the_main_thread, "the leader, which is idle most of the time, is seen at work")


def test_a_leader_that_was_frozen_says_that_it_was_deposed(measured: Measured) -> None:
    measured.cluster.pause("first")
    wait_until(lambda: measured.scrape("second").one(f"{JM}is_leader"), "the standby leads")
    measured.cluster.resume("first")
    wait_until(lambda: measured.scrape("first").by("role", f"{JM}role") == {"STANDBY": 1}, "the former leader follows")
    wait_until(lambda: measured.scrape("tm").one(f"{TM}epoch") == 2, "the TaskExecutor knows the new leader")
    former, leader = measured.scrape_at_rest("first"), measured.scrape_at_rest("second")
    assert [s.one(f"{JM}epoch") for s in (former, leader)] == [2, 2]
    assert [s.one(f"{JM}leaderships_begun_total") for s in (former, leader)] == [1, 1]
    assert [sum(s.values(f"{JM}leaderships_ended_total")) for s in (former, leader)] == [1, 0]
    assert set(former.by("reason", f"{JM}leaderships_ended_total")) <= {"Deposed", "LeadershipEnded"}
    assert leader.by("status", f"{JM}jobs") == {"FINISHED": 1, "FAILED": 1, "RUNNING": 1}
    assert leader.by("state", f"{JM}job_tasks") == {"RUNNING": 2, "SCHEDULED": 1}


def test_when_the_leader_is_killed_the_standby_says_that_it_leads(measured: Measured) -> None:
    cluster = measured.cluster
    cluster.kill("second")
    wait_until(lambda: measured.scrape("first").one(f"{JM}is_leader"), "the standby leads")
    wait_until(lambda: measured.scrape("tm").one(f"{TM}epoch") == 3, "the TaskExecutor knows the new leader")
    before = measured.scrape_at_rest("first")
    assert (before.one(f"{JM}epoch"), before.one(f"{JM}leaderships_begun_total")) == (3, 2)
    wait_until(lambda: measured.scrape("first").one(f"{JM}masters") == 1, "nobody hears of the dead master any more")

    measured.flag.with_name("flag.go").touch()
    cluster.wait_for_status(measured.running, JobStatus.FINISHED)
    cluster.wait_for(lambda fold: not fold.master.dispatcher.dirty, "what ended is cleaned up")
    scrape, task_executor = measured.scrape_at_rest("first"), measured.scrape("tm")
    assert scrape.by("status", f"{JM}jobs") == {"FINISHED": 2, "FAILED": 1}
    assert scrape.values(f"{JM}job_status") == []

    def counts_all() -> bool:
        """Tell whether the leader has counted what stands in the log, to which a timer may add a decision at any time."""
        counted = measured.scrape_at_rest("first").one(f"{JM}decisions_total")
        return counted == sum(sum(d.epoch == epoch for _, d in cluster.decisions()) - NOT_THE_GRANT for epoch in (1, 3))

    wait_until(counts_all, "each decision is counted")
    assert task_executor.by("state", f"{TM}task_ends_total") == {"FINISHED": 6, "FAILED": 2}
    assert task_executor.values(f"{TM}task_age_seconds") == []


def test_without_a_port_nothing_listens_and_a_port_that_is_taken_stops_nobody(measured: Measured) -> None:
    cluster = measured.cluster
    taken = measured.address_of("first").rpartition(":")[2]
    for name, port in (("silent", ""), ("unlucky", taken)):
        cluster.start(name, "taskexecutor", **{"taskmanager.id": name, "metrics.reporter.prom.port": port})
    cluster.wait_for(lambda fold: {"silent", "unlucky"} <= fold.master.resource_manager.task_managers.keys(), "both registered")
    assert "Metrics" not in cluster.output("silent")
    assert f"MetricsNotServed reason=metrics.reporter.prom.port {taken}: none can be listened on" in cluster.output("unlucky")
    assert measured.scrape_at_rest("first").one(f"{JM}task_managers") == 3
