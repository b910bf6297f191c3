"""P19 between real processes of two versions: a rolling upgrade and the way back, under load, as the runbook of docs/operating.md says.

This version and a later one are installed from wheels. While jobs are submitted, masters and TaskExecutors are replaced one after the
other. What became of the jobs is read from the log, by a process of the later version: nothing older can read its end.
"""

import json
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import pytest
from confluent_kafka import Producer

from eventflink.events.inputs import JobSubmission
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.pipelined_client import PipelinedClient
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.leadership.fold import Fold
from eventflink.log.administration import delete_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.job_graph import JobGraph
from tests.support.running_cluster import TIMEOUT_S, RunningCluster
from tests.support.versions import ADDED_COMMAND, ADDED_EVENT, LATER_LEVEL, Version, bare_environment, install_two_versions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from eventflink.gateways.request_channel import Accepted

pytestmark = [pytest.mark.slow, pytest.mark.soak("eventflink.entrypoint", "eventflink.taskexecutor", "eventflink.model.features")]

WAIT_MS: Final = 3_000
JOBS_PER_S: Final = 4
NEVER: Final = {"master.feature-level-wait": -1}
SOON: Final = {"master.feature-level-wait": WAIT_MS}
Event = dict[str, Any]
T = TypeVar("T")


class Upgrade(RunningCluster):
    """A cluster whose processes are of the version that is set when they are started."""

    def __init__(self, bootstrap: str, directory: Path, earlier: Version, later: Version) -> None:
        super().__init__(bootstrap, f"test-{uuid.uuid4().hex[:12]}", directory, **{"snapshots.interval-records": 100})
        self.earlier, self.later = earlier, later
        self.program = later.program
        self.surroundings = {"cwd": directory, "env": bare_environment()}
        self.events = Events(self)

    def begin(self) -> None:
        """Start two masters and two TaskExecutors of the earlier version."""
        self.use(self.earlier)
        for name in ("b", "c"):
            self._start_master(name)
        for name in ("tm-1", "tm-2"):
            self.start(name, "taskexecutor", **{"taskmanager.id": name})
        self.wait_for(lambda fold: len(fold.master.resource_manager.task_managers) == 2, "TaskExecutors registered")

    def use(self, version: Version) -> None:
        """Start processes of this version from now on."""
        self.program = version.program

    def add_master(self, name: str, version: Version, **overrides: Any) -> None:
        """Start a standby of this version."""
        self.use(version)
        self.start_standby(name, **overrides)

    def replace_master(self, name: str, version: Version, **overrides: Any) -> None:
        """Stop a master, and start it again as a standby of this version."""
        leads = self.events.leader == name
        assert self.stop(name) == 0, self.output(name)
        if leads:
            self.events.wait_for(lambda: self.events.leader != name, f"{name} followed")
        self.add_master(name, version, **overrides)

    def replace_task_executor(self, name: str, version: Version) -> None:
        """Let a TaskExecutor finish what it runs, and start it again, of this version."""
        with ResourceManagerGateway(self.access) as gateway:
            gateway.block_task_manager(name, "upgrade", actor="test")
            self.wait_for(lambda fold: _is_idle(fold, name), f"{name} runs nothing")
            assert self.stop(name) == 0, self.output(name)
            self.wait_for(lambda fold: name not in fold.master.resource_manager.task_managers, f"{name} gone")
            self.use(version)
            self.start_task_executor(name)
            gateway.unblock_task_manager(name, actor="test")

    def set_notice(self, text: str) -> Event:
        """Ask for what the later version added, as any Kafka client can; return the answer."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        request = {"type": ADDED_COMMAND, "request_id": text, "text": text}
        producer.produce(topic_name(self.cluster_id, Topic.COMMANDS), json.dumps(request).encode(), partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        return self.events.wait_for(lambda: self.events.answers.get(text), f"an answer to {text}")

    def check_log(self) -> None:
        """Check that the later version comes to one state, from the newest snapshot and from the first record."""
        self.use(self.later)
        states = [self.document("replay", *way, "--json") for way in ((), ("--from-zero",))]
        assert len({(state["log_offset"], state["digest"]) for state in states}) == 1, states

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.events.close()


def _is_idle(fold: Fold, name: str) -> bool:
    return all(allocation.task_manager_id != name for allocation in fold.master.slot_manager.allocations.values())


class Events:
    """What the log says up to now, read by `eventflink events --follow` of the later version."""

    def __init__(self, cluster: Upgrade) -> None:
        self.all: list[Event] = []
        self.answers: dict[str, Event] = {}
        self.ended: Counter[tuple[str, str]] = Counter()
        """How often each job ended, and as what."""
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            cluster._command_line(["events", "--follow", "--accepted", "--json"], {}),
            stdout=subprocess.PIPE,
            **cluster.surroundings,
        )
        self._thread = threading.Thread(target=self._read, name="events", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            event = told["event"]
            with self._changed:
                self.all.append(told)
                if told["type"] in ("RequestAccepted", "RequestRejected"):
                    self.answers[event["request_id"]] = told
                elif told["type"] == "JobResultStored":
                    self.ended[event["job_id"], event["status"]] += 1
                self._changed.notify_all()

    def of(self, *types: str) -> list[Event]:
        with self._changed:
            return [told for told in self.all if told["type"] in types]

    @property
    def leader(self) -> str:
        """The id of the master that leads."""
        return str(self.of("LeadershipGranted")[-1]["event"]["master_id"])

    @property
    def level(self) -> int:
        raised = self.of("FeatureLevelRaised")
        return int(raised[-1]["event"]["to_level"]) if raised else FEATURE_LEVEL

    def wait_for(self, condition: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + TIMEOUT_S
        with self._changed:
            while not (value := condition()):
                assert self._process.poll() is None, "nobody reads the log any more"
                assert time.monotonic() < deadline, f"{what}: not within {TIMEOUT_S} s"
                self._changed.wait(1)
            return value

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        self._thread.join(TIMEOUT_S)


class Load:
    """Submits jobs while the block runs; each notes in a file that it ran."""

    def __init__(self, cluster: Upgrade) -> None:
        self.journal = cluster.directory / "ran.txt"
        self._graph = self._graph_of(cluster)
        self._client = PipelinedClient(cluster.access, request_timeout_s=TIMEOUT_S)
        self._futures: dict[str, Future[Accepted]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._submit, name="load", daemon=True)

    def _graph_of(self, cluster: Upgrade) -> JobGraph:
        vertex = {"id": "note", "python": "user_tasks:note", "parameters": {"path": str(self.journal)}}
        return cluster.graph(vertex, restart_strategy={"type": "fixed-delay", "attempts": 3, "delay_ms": 0})

    def _submit(self) -> None:
        while not self._stopping.wait(1 / JOBS_PER_S):
            job_id = uuid.uuid4().hex
            self._futures[job_id] = self._client.send(JobSubmission(job_id=job_id, actor="test", job_graph=self._graph))

    def accepted(self) -> list[str]:
        """Return the ids of all jobs; each of them was accepted."""
        assert [future.result(TIMEOUT_S).log_offset for future in self._futures.values()]
        return list(self._futures)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        if error is not None:
            self._client.close()


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[Upgrade]:
    upgrade = Upgrade(bootstrap, tmp_path, *install_two_versions(tmp_path))
    try:
        upgrade.begin()
        yield upgrade
        upgrade.close()
    finally:
        for process in upgrade.processes.values():
            process.kill()
        upgrade.events.close()
        delete_topics(access_to(bootstrap, upgrade.cluster_id))


def _decided_at(told: Event) -> datetime:
    return datetime.fromisoformat(told["decided_at"])


def _wait_for_jobs(cluster: Upgrade, count: int) -> None:
    """Wait until so many more jobs have ended under the leader that there is now."""
    events = cluster.events
    leader, ended = events.leader, events.ended.total()
    events.wait_for(lambda: events.ended.total() >= ended + count, f"{count} more jobs end")
    assert events.leader == leader


def _wait_beyond_the_wait(events: Events) -> None:
    """Wait until the leader has led for longer than it takes to raise the level, and has decided something since."""
    until = _decided_at(events.of("LeadershipGranted")[-1]) + timedelta(milliseconds=WAIT_MS + 1_000)
    events.wait_for(lambda: _decided_at(events.all[-1]) > until, "decisions behind the wait")


@pytest.mark.rule("P19")
def test_masters_and_task_executors_are_upgraded_and_rolled_back_under_load_and_nothing_is_lost_or_run_twice(cluster: Upgrade) -> None:
    events, earlier, later = cluster.events, cluster.earlier, cluster.later
    with Load(cluster) as load:
        _wait_for_jobs(cluster, 4)
        # Half-way: a master of the later version leads, and earlier ones follow what it writes, for longer than the wait.
        cluster.add_master("a", later, **SOON)
        while events.leader != "a":
            cluster.replace_master(events.leader, earlier)
        _wait_beyond_the_wait(events)
        assert events.level == FEATURE_LEVEL
        assert cluster.set_notice("half-way")["event"]["code"] == "FeatureLevelTooLow"
        # Back: the earlier version leads on from what the later one decided.
        assert cluster.stop("a") == 0
        leader = events.wait_for(lambda: events.leader if events.leader != "a" else None, "an earlier master leads")
        _wait_for_jobs(cluster, 4)
        # Upgraded, and the level held: an earlier master could still come back.
        other = "b" if leader == "c" else "c"
        cluster.replace_master(other, later, **NEVER)
        cluster.replace_master(leader, later, **SOON)
        assert events.leader == other
        for name in ("tm-1", "tm-2"):
            cluster.replace_task_executor(name, later)
        _wait_beyond_the_wait(events)
        cluster.add_master("d", earlier)
        assert cluster.stop("d") == 0, cluster.output("d")
        assert cluster.set_notice("held")["event"]["code"] == "FeatureLevelTooLow"
        # The level rises once the operator lets it, a wait after the leader began to lead.
        cluster.replace_master(other, later, **SOON)
        assert events.leader == leader
        raised = events.wait_for(lambda: events.of("FeatureLevelRaised"), "the level raised")
        assert [told["event"]["to_level"] for told in raised] == [LATER_LEVEL]
        assert _decided_at(raised[0]) - _decided_at(events.of("LeadershipGranted")[-1]) >= timedelta(milliseconds=WAIT_MS)
        assert cluster.set_notice("raised")["type"] == "RequestAccepted"
        [notice] = events.wait_for(lambda: events.of(ADDED_EVENT), "what the level added")
        assert notice["event"]["text"] == "raised"
        # For good: an earlier master does not come back, says so, and disturbs nobody.
        cluster.use(earlier)
        too_old = cluster.start("e", "master", **{"jobmanager.id": "e"})
        assert too_old.wait(TIMEOUT_S) not in (0, None)
        del cluster.processes["e"]
        _wait_for_jobs(cluster, 4)
    said = cluster.output("e")
    assert f"the feature level is {LATER_LEVEL}; this version reads up to {FEATURE_LEVEL}" in said.splitlines()[-1]
    assert "Traceback" not in said
    _assert_each_ran_once(cluster, load)
    for path in cluster.directory.glob("*.txt"):
        assert not {"SnapshotRefuted", "SnapshotterFailed", "TurnFailed", "Traceback"} & set(path.read_text().split()), path.read_text()
    assert events.of("SnapshotConfirmed")


def _assert_each_ran_once(cluster: Upgrade, load: Load) -> None:
    jobs, events = load.accepted(), cluster.events
    events.wait_for(lambda: events.ended.total() >= len(jobs), "every job ends")
    assert events.ended == Counter((job_id, "FINISHED") for job_id in jobs)
    deployed = Counter(told["event"]["job_id"] for told in events.of("TaskDeployed"))
    assert deployed == Counter(jobs), "a task was deployed again"
    assert sorted(load.journal.read_text().splitlines()) == sorted(f"{job_id} 1" for job_id in jobs)
