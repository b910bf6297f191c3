"""Drills with real masters: what they measure is there, they refuse what could hurt, and a rehearsal leaves the real cluster as it was."""

import hashlib
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from benchmarks.graphs import idle_graph
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.drills.rehearsal import run_rehearsal
from eventflink.drills.scratch import scratch_id
from eventflink.events.topics import SPECIFICATIONS, topic_name
from eventflink.gateways.leader import find_leader
from eventflink.gateways.reads import find_masters
from eventflink.log.admin_connection import AdminConnection
from eventflink.log.administration import delete_topics, ensure_topics, log_topic_id, topic_ids, trim_log
from eventflink.log.replay import log_bounds, new_fold, replay
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration, load_configuration
from eventflink.model.rehearsal import SCRATCH_MARK
from eventflink.processes.child_processes import ChildDied
from eventflink.snapshots.loading import read_state
from eventflink.snapshots.log_copy import CopyFailed, append_records, copy_log
from eventflink.snapshots.snapshot import take_snapshot
from eventflink.snapshots.topic import write_snapshot
from tests.support import zygote
from tests.support.cluster import replay as fold_of
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.scenarios import busy_cluster

pytestmark = pytest.mark.slow
TASKS = 4


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Simulated TaskExecutors, a job that runs on them, and a leader that obeys drills; a test adds a standby."""
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **{"drills.allowed": "true"}) as running:
        running.start_master("m-0")
        running.start_host("host")
        running.wait_for_running(running.submit(idle_graph(parallelism=TASKS), "running"))
        yield running


@pytest.fixture
def leader(cluster: RunningCluster) -> str:
    """The id of the leader, beside which a standby is ready."""
    living = [name for name in cluster.processes if name in cluster.masters]
    if len(living) < 2:
        cluster.start_standby(f"m-{len(cluster.masters)}")
    return find_leader(cluster.access).master_id


def arguments(bootstrap: str, cluster_id: str, *more: str) -> list[str]:
    return ["--bootstrap", bootstrap, "--cluster-id", cluster_id, *more]


def drill(capsys: pytest.CaptureFixture[str], cluster: RunningCluster, *options: str) -> dict[str, Any]:
    """Drill the cluster for real, and return the report, which must say that all is well."""
    capsys.readouterr()
    code = run(arguments(cluster.bootstrap, cluster.cluster_id, "drill", "failover", "--yes", "--json", *options))
    printed = capsys.readouterr()
    assert code == ExitCode.OK, printed.err
    report: dict[str, Any] = json.loads(printed.out)
    assert (report["passed"], report["faults"]) == (True, [])
    return report


def check_takeover(cluster: RunningCluster, report: dict[str, Any], old: str) -> None:
    """Check the report against the log and the processes."""
    fold = cluster.state()
    assert (report["old_leader"], report["new_epoch"]) == (old, report["old_epoch"] + 1)
    assert fold.acceptance.epoch == report["new_epoch"]
    assert report["new_leader"] == find_leader(cluster.access).master_id != old
    assert 0 <= report["granted_ms"] <= report["answered_ms"]
    assert report["answered_ms"] > 0
    assert report["tasks"] == {"alive": TASKS, "undisturbed": TASKS, "finished": 0, "disturbed": []}
    assert report["reported"] == report["task_managers"] == len(fold.master.resource_manager.task_managers)
    assert {m.digest for m in _digests(report)} == {m.replayed for m in _digests(report)}
    for told in _digests(report):
        at = replay(cluster.access, new_fold(cluster.access), end_offset=told.log_offset + 1)
        assert told.digest == at.master.digest()


class _Told:
    def __init__(self, told: dict[str, Any]) -> None:
        self.master_id, self.role, self.log_offset = told["master_id"], told["role"], told["log_offset"]
        self.digest, self.replayed = told["digest"], told["replayed"]


def _digests(report: dict[str, Any]) -> list[_Told]:
    return [_Told(told) for told in report["digests"]["masters"]]


def test_a_leader_that_is_told_to_die_dies_and_the_standby_takes_over(
    capsys: pytest.CaptureFixture[str], cluster: RunningCluster, leader: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.md"
    report = drill(capsys, cluster, "--method", "kill", "--markdown", str(page))
    assert cluster.processes.pop(leader).wait(120) == -9
    check_takeover(cluster, report, leader)
    assert report["granted_by_kafka_ms"] > 0
    assert [m.master_id for m in _digests(report)] == [report["new_leader"]]
    written = page.read_text()
    assert f"| leader before | {leader}, epoch {report['old_epoch']}" in written
    assert "**passed**" in written


def test_a_leader_that_is_frozen_comes_back_as_a_standby_with_the_same_state(
    capsys: pytest.CaptureFixture[str], cluster: RunningCluster, leader: str
) -> None:
    report = drill(capsys, cluster, "--method", "freeze", "--freeze-ms", "4000")
    assert cluster.processes[leader].poll() is None
    check_takeover(cluster, report, leader)
    assert report["returned"] is True
    assert {m.master_id: m.role for m in _digests(report)} == {leader: "STANDBY", report["new_leader"]: "LEADER"}
    assert report["digests"]["same_offset"] is True
    assert len({m.digest for m in _digests(report)}) == 1


@pytest.mark.parametrize("how", ["signal", "command"])
def test_a_leader_that_is_told_to_stop_leaves_in_order(
    capsys: pytest.CaptureFixture[str], cluster: RunningCluster, leader: str, how: str
) -> None:
    by_signal = ["--pid", str(cluster.processes[leader].pid)] if how == "signal" else []
    report = drill(capsys, cluster, "--method", "stop", *by_signal)
    assert cluster.processes.pop(leader).wait(120) == 0
    check_takeover(cluster, report, leader)
    assert (report["granted_by_kafka_ms"] is None) == bool(by_signal)


def test_a_drill_that_could_hurt_is_refused_and_the_leader_stands(
    capsys: pytest.CaptureFixture[str], bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path)
    try:
        process = cluster.start_master("only")
        query_address = find_masters(access_to(bootstrap, name))[0].presence.query_address
        for options, said in (
            (["--yes"], "there is no standby: when only crashes, nobody leads"),
            (["--yes", "--without-standby"], "drills.allowed is false"),
            (["--yes", "--without-standby", "--pid", str(os.getpid())], f"answers ({query_address})"),
            (["--yes", "--without-standby", "--method", "freeze", "--freeze-ms", "900"], "no longer than the lease"),
            (["--without-standby", "--pid", str(process.pid)], "it was not confirmed"),
        ):
            monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: PTH123, SIM115 - who is asked says nothing
            assert run(arguments(bootstrap, name, "drill", "failover", *options)) == ExitCode.NEGATIVE
            assert said in capsys.readouterr().err
        assert process.poll() is None
        assert cluster.state().acceptance.epoch == 1
        assert find_leader(access_to(bootstrap, name)).epoch == 1
    finally:
        cluster.close()
        delete_topics(access_to(bootstrap, name))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rehearsal", "--method", "kill"), "--method has no meaning with --rehearsal"),
        (("--rehearsal", "--without-standby"), "--without-standby has no meaning with --rehearsal"),
        (("--freeze-ms", "4000"), "--freeze-ms has a meaning only with --method freeze"),
        (("--markdown", "/nowhere/at/all.md"), "directory not found: '/nowhere/at'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str) -> None:
    assert run(["--bootstrap", "127.0.0.1:9", "drill", "failover", *options]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


# -- rehearsals ------------------------------------------------------------------------------------------------------


class Production:
    """A cluster that nobody runs just now, in the middle of everything: its topics, and the data sets of its jobs."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.cluster_id = f"test-{uuid.uuid4().hex[:12]}"
        self.directory = directory
        self.configuration_path = directory.parent / "cluster.yaml"
        scripted = busy_cluster()
        self.log, self.dirty = scripted.log, list(scripted.master.dispatcher.dirty)
        self.access = access_to(bootstrap, self.cluster_id)
        ensure_topics(self.access)
        append_records(self.access, self.log)
        for job_id in scripted.master.dispatcher.jobs:
            for name in ("a/0/1/default/part-0.parquet", "b/0/1/default/part-0.parquet"):
                path = directory / "jobs" / self.cluster_id / job_id / name
                path.parent.mkdir(parents=True)
                path.write_bytes(job_id.encode())
        (directory / "blobs").mkdir()
        (directory / "blobs" / "blob").write_bytes(b"blob")
        # Named one by one, as on several hosts: a rehearsal has to lay its own over each of them.
        self.configuration_path.write_text(
            f"data.directory: {directory}\nexecution.working-directory: {directory}/jobs\nblob.storage.directory: {directory}/blobs\n"
            f"cluster.id: {self.cluster_id}\nbootstrap.servers: {bootstrap}\nhigh-availability.type: none\n"
        )

    def stands(self) -> dict[str, Any]:
        """Return everything that a rehearsal may not change."""
        partitions = [
            (topic_name(self.cluster_id, topic), number) for topic, wanted in SPECIFICATIONS.items() for number in range(wanted.partitions)
        ]
        files = {
            str(path.relative_to(self.directory)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(self.directory.rglob("*"))
            if path.is_file()
        }
        return {
            "offsets": AdminConnection(self.access.kafka).read_watermarks(partitions),
            "topics": topic_ids(self.access),
            "files": files,
        }

    @property
    def scratch_topics(self) -> list[str]:
        """The topics of scratch clusters of this one."""
        topics = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=60).topics
        return sorted(name for name in topics if name.startswith(f"{self.cluster_id}{SCRATCH_MARK}"))

    @property
    def configuration(self) -> Configuration:
        return load_configuration(self.configuration_path, {})


@pytest.fixture
def production(bootstrap: str, tmp_path: Path) -> Iterator[Production]:
    (tmp_path / "production").mkdir()
    made = Production(bootstrap, tmp_path / "production")
    yield made
    delete_topics(access_to(bootstrap, made.cluster_id))


def scratch_directories() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("eventflink-drill-*"))


def test_a_rehearsal_leaves_the_real_cluster_and_its_data_as_they_were(capsys: pytest.CaptureFixture[str], production: Production) -> None:
    """The copied state holds jobs that wait to be cleaned up: a leader that could reach their data sets would remove them."""
    assert production.dirty
    before, directories = production.stands(), scratch_directories()
    assert len(before["files"]) > 2 * len(production.dirty)
    assert run(["-c", str(production.configuration_path), "drill", "failover", "--rehearsal", "--json"]) == ExitCode.OK
    report = json.loads(capsys.readouterr().out)
    assert production.stands() == before
    assert production.scratch_topics == []
    assert scratch_directories() == directories
    fold = fold_of(production.log)
    assert (report["passed"], report["log"]["end_offset"], report["state_digest"]) == (True, len(production.log), fold.master.digest())
    assert report["clean_ups_noted"] >= len(production.dirty)
    assert 0 < report["granted_ms"] <= report["decided_ms"] <= report["answered_ms"]
    assert {m["master_id"]: m["role"] for m in report["digests_before"]["masters"]} == {
        "drill-first": "LEADER",
        "drill-second": "STANDBY",
    }
    assert [(m["master_id"], m["role"]) for m in report["digests_after"]["masters"]] == [("drill-second", "LEADER")]


def test_a_rehearsal_that_fails_leaves_nothing_behind(production: Production) -> None:
    before, directories = production.stands(), scratch_directories()

    def broken(_overrides: dict[str, str], _arguments: object) -> list[str]:
        return [sys.executable, "-c", "print('no such module'); raise SystemExit(7)"]

    with pytest.raises(ChildDied, match=r"ended by itself \(exit code 7\); its log, .*, ends:\nno such module"):
        run_rehearsal(production.configuration, production.access, broken, "drill-test", 10.0, lambda _: None)
    assert production.stands() == before
    assert production.scratch_topics == []
    assert scratch_directories() == directories


def test_a_master_rehearses_only_under_a_scratch_id(production: Production) -> None:
    """A real master with this key would never clean up."""
    program = [sys.executable, "-m", "eventflink.cli", "-c", str(production.configuration_path), "-D", "drills.rehearsal=true", "master"]
    done = zygote.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert f"a master of '{production.cluster_id}' would never clean up" in done.stderr


@pytest.fixture
def target(production: Production) -> Iterator[str]:
    """The id of an empty cluster to copy to."""
    name = scratch_id(production.cluster_id)
    ensure_topics(access_to(production.bootstrap, name))
    yield name
    delete_topics(access_to(production.bootstrap, name))


def test_a_trimmed_log_is_copied_with_its_snapshot_to_the_same_offsets(production: Production, target: str) -> None:
    bootstrap, source = production.bootstrap, production.cluster_id
    offset = len(production.log) // 2
    fold = fold_of(production.log[: offset + 1])
    write_snapshot(access_to(bootstrap, source), *take_snapshot(fold, "middle", "test", log_topic_id(access_to(bootstrap, source))))
    trim_log(access_to(bootstrap, source), offset - 3)
    copied = copy_log(access_to(bootstrap, source), access_to(bootstrap, target), lambda _: None)
    assert (copied.first_offset, copied.end_offset) == log_bounds(access_to(bootstrap, target)) == (offset - 3, len(production.log))
    state, wanted = read_state(access_to(bootstrap, target)), fold_of(production.log)
    assert (state.last_offset, state.running_hash, state.master.digest()) == (
        wanted.last_offset,
        wanted.running_hash,
        wanted.master.digest(),
    )


def test_a_log_is_copied_only_into_an_empty_one(production: Production, target: str) -> None:
    append_records(access_to(production.bootstrap, target), [b"somebody else's"])
    with pytest.raises(CopyFailed, match="is not empty"):
        copy_log(production.access, access_to(production.bootstrap, target), lambda _: None)
