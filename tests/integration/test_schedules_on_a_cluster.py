"""Schedules fire on a real cluster while its leaders are killed: each instant is decided once, each end of a run followed by one job.

So is each record of a topic, and each version of a table.
"""

import datetime as dt
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from deltalake import write_deltalake

from eventflink import connect
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.documents.schedules import ScheduleDetails
from eventflink.events.decision import LogEvent
from eventflink.events.log_events import InstantsSkipped, JobStatusChanged, ScheduleFired
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import UnknownSchedule
from eventflink.log.admin_connection import AdminConnection
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, InstantOrigin, JobStatus, SkipReason
from tests.support.iceberg_tables import CATALOG, TABLE, catalog_in, configured, loaded
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
WAIT_S = 240

CODE = """
import pathlib

HERE = pathlib.Path({here!r})


def note(context):
    with open(HERE / "ran", "a") as ran:
        ran.write(context.parameters["at"].isoformat() + "\\n")


def copy(context):
    with open(HERE / "copied", "a") as copied:
        copied.write(context.parameters["at"].isoformat() + " " + context.parameters["source"] + "\\n")


def take(context):
    with open(HERE / "taken", "a") as taken:
        taken.write(context.parameters["first"] + " " + context.parameters["end"] + "\\n")
"""

READ = """


def read(context):
    with open(HERE / context.parameters["into"], "a") as read:
        read.write(context.parameters["first"] + " " + context.parameters["last"] + "\\n")
"""

DOCUMENT = """
interval: 1s
overlap: queue
catch_up: all
instant_parameters: {at: timestamp}
job: note.json
"""

FOLLOWING = """
after: note
overlap: queue
instant_parameters: {at: parameter, source: run}
job:
  name: copy
  parameters: {at: {type: timestamp}, source: {type: string}}
  vertices: [{id: copy, python: "note:copy"}]
"""

OF_RECORDS = """
records: {{topic: {topic}, begin: earliest, at_least: 3, wait: 2s, at_most: 40}}
instant_parameters: {{first: starting-offsets, end: ending-offsets}}
job:
  name: take
  parameters: {{first: {{type: string}}, end: {{type: string}}}}
  vertices: [{{id: take, python: "note:take"}}]
"""

ONE_BY_ONE = """
records: {{topic: {topic}, begin: earliest, at_most: 1}}
overlap: allow
instant_parameters: {{first: starting-offsets, end: ending-offsets}}
job:
  name: take
  parameters: {{first: {{type: string}}, end: {{type: string}}}}
  vertices: [{{id: take, python: "note:take"}}]
"""
OF_VERSIONS = """
versions: {{table: {table}, format: {kind}, begin: {begin}}}
parameters: {{into: {kind}}}
instant_parameters: {{first: {first}, last: {last}}}
job:
  name: read {kind}
  parameters: {{into: {{type: string}}, first: {{type: string}}, last: {{type: string}}}}
  vertices: [{{id: read, python: "note:read"}}]
"""
AWAITING = """
interval: 1s
overlap: queue
catch_up: all
instant_parameters: {{at: timestamp}}
wait_for: {{file: "{folder}/{{at}}/_SUCCESS", within: {within}}}
job: note.json
"""
MANY = max(500, min(int(os.environ.get("SOAK_SECONDS", "3600")) * 10, 10_000))
LEADERS = MANY // 500

GRAPH = {"name": "note", "parameters": {"at": {"type": "timestamp"}}, "vertices": [{"id": "note", "python": "note:note"}]}


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Two masters, of which one leads, and a TaskExecutor."""
    with running_cluster(bootstrap, tmp_path / "cluster") as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=2)
        yield running


def _kill_the_leader(cluster: RunningCluster, successor: str) -> None:
    with DispatcherGateway(cluster.access) as gateway:
        cluster.kill(gateway.find_leader().master_id)
    cluster.start_standby(successor)


@pytest.mark.rule("P21")
def test_each_instant_has_its_job_once_over_killed_leaders(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "note.py").write_text(CODE.format(here=str(tmp_path)))
    (tmp_path / "note.json").write_text(json.dumps(GRAPH))
    (tmp_path / "schedule.yaml").write_text(DOCUMENT)
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "schedule"]
    (tmp_path / "following.yaml").write_text(FOLLOWING)
    for name, document in (("next", "following.yaml"), ("often", "schedule.yaml")):  # What follows is there before the first run.
        assert run([*options, "put", name, str(tmp_path / document), "--code", str(tmp_path / "note.py")]) == ExitCode.OK
    ran, copied = tmp_path / "ran", tmp_path / "copied"
    for number, successor in enumerate(("third", "fourth")):
        wait_until(partial(_has_run, ran, 3 * number + 2), "jobs of the schedule run", WAIT_S)
        _kill_the_leader(cluster, successor)
    before = len(_lines(ran))
    wait_until(lambda: len(_lines(ran)) >= before + 3, "jobs of the schedule run under the third leader", WAIT_S)
    assert run([*options, "pause", "often", "--reason", "enough"]) == ExitCode.OK
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        assert client.schedule("often").paused_because == "enough"
        wait_until(lambda: not client.schedule("often").running, "the last job has ended", WAIT_S)
        fired = _fired(cluster)
        wait_until(lambda: _is_idle(client.schedule("next"), len(fired), copied), "each run was followed by a job", WAIT_S)
        assert sorted(copied.read_text().splitlines()) == sorted(f"{_time(event)} {event.job_id}" for event in fired)
        assert all(client.job(event.job_id).status() is JobStatus.FINISHED for event in fired)
        [newest, *_] = client.schedule("next").history
        assert client.job(newest.job_id or "").details().after_job_id == newest.after_job_id
        assert not [event for _, decision in cluster.decisions() for event in decision.events if isinstance(event, InstantsSkipped)]
        at_ms = [event.instant_ms for event in fired]
        assert at_ms == list(range(at_ms[0], at_ms[-1] + 1, 1_000)), "each instant, once, in order"
        assert len(_lines(ran)) == len(set(_lines(ran))) == len(fired)
        bounds = ["--from", "2026-01-01T00:00:00", "--to", "2026-01-01T00:00:05"]
        capsys.readouterr()
        assert run([*options, "backfill", "often", *bounds, "--newest-first", "--dry-run"]) == ExitCode.OK
        assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == [
            f"often-20260101T00000{each}Z" for each in range(4, -1, -1)
        ]
        assert run([*options, "backfill", "often", *bounds, "--at-once", "2"]) == ExitCode.OK
        wait_until(lambda: len(_lines(ran)) == len(fired) + 5, "the back-fill runs", WAIT_S)
        wait_until(lambda: client.schedule("often").backfill is None, "the back-fill has ended", WAIT_S)
        wait_until(lambda: len(copied.read_text().splitlines()) == len(fired) + 5, "the runs of the back-fill are followed", WAIT_S)
        [*_, last] = _fired(cluster)
        assert (last.origin, last.job_id) == (InstantOrigin.BACKFILL, "often-20260101T000004Z")
        capsys.readouterr()
        assert run([*options, "backfill", "often", *bounds, "--dry-run"]) == ExitCode.OK
        assert "skipped: job 'often-20260101T000004Z' had finished." in capsys.readouterr().out
        for option in ([], ["--dry-run"]):
            assert run([*options, "backfill", "often", "--from", "2999-01-01", "--to", "2999-01-02", *option]) == ExitCode.NEGATIVE
            assert "has no instant in that time that has passed (NothingToBackfill)" in " ".join(capsys.readouterr().err.split())
        assert run([*options, "fire", "often", "--for", "2026-02-01", "--timeout", str(WAIT_S)]) == ExitCode.OK
        assert _lines(ran)[-1] == "2026-02-01T00:00:00+00:00"
        assert run([*options, "show", "often"]) == ExitCode.OK
        shown = capsys.readouterr().out
        assert "started by hand" in shown
        assert "started by a back-fill" in shown
        assert run([*options, "delete", "often"]) == ExitCode.OK
        with pytest.raises(UnknownSchedule):
            client.schedule("often")


@pytest.mark.rule("P21")
def test_each_record_of_a_topic_belongs_to_one_job_over_killed_leaders(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic = f"{cluster.cluster_id}-orders"
    (tmp_path / "note.py").write_text(CODE.format(here=str(tmp_path)))
    (tmp_path / "records.yaml").write_text(OF_RECORDS.format(topic=topic))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "schedule"]
    assert run([*options, "put", "taking", str(tmp_path / "records.yaml"), "--code", str(tmp_path / "note.py")]) == ExitCode.OK
    assert f"it starts its job for 3 records of {topic} or more" in capsys.readouterr().out
    assert run([*options, "show", "taking"]) == ExitCode.OK
    assert f"topic '{topic}' was not seen yet" in capsys.readouterr().out
    (tmp_path / "own.yaml").write_text(OF_RECORDS.format(topic=f"{cluster.cluster_id}.log"))
    assert run([*options, "put", "own", str(tmp_path / "own.yaml"), "--code", str(tmp_path / "note.py")]) == ExitCode.USAGE
    assert "is the cluster's own" in capsys.readouterr().err
    AdminConnection(cluster.access.kafka).create_topics([NewTopic(topic, 2, 1)])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    written = 0

    def write(records: int) -> None:
        nonlocal written
        for _ in range(records):
            producer.produce(topic, b"an order", partition=written % 2)
            written += 1
        assert producer.flush(WAIT_S) == 0

    taken = tmp_path / "taken"
    for number, successor in enumerate(("third", "fourth")):
        write(50)
        wait_until(partial(_has_run, taken, 3 * number + 1), "jobs take records", WAIT_S)
        write(7)
        _kill_the_leader(cluster, successor)
    write(1)
    wait_until(lambda: _taken(taken, topic) == {(each % 2, each // 2): 1 for each in range(written)}, "each record has its job", WAIT_S)
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        cursor = client.schedule("taking").cursor
        assert cursor is not None
        assert (cursor.topic, cursor.offsets, cursor.lost) == (topic, {0: (written + 1) // 2, 1: written // 2}, 0)
    assert run([*options, "show", "taking"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert f"jobs have the records of '{topic}' before 0: " in shown
    assert "0 records wait for a job" in shown
    assert run([*options, "pause", "taking"]) == ExitCode.OK
    write(9)
    capsys.readouterr()
    assert run([*options, "show", "taking"]) == ExitCode.OK
    assert "9 records wait for a job" in capsys.readouterr().out


@pytest.mark.rule("P21")
def test_each_version_of_a_table_belongs_to_one_job_over_killed_leaders(
    bootstrap: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    catalog, sales, rows = catalog_in(tmp_path / "lake"), tmp_path / "sales", pa.table({"number": [1]})
    (tmp_path / "note.py").write_text(CODE.format(here=str(tmp_path)) + READ)
    told = {"first": "starting-version", "last": "ending-version", "begin": "latest"}
    (tmp_path / "delta.yaml").write_text(OF_VERSIONS.format(table=json.dumps({"path": str(sales)}), kind="delta", **told))
    told = {"first": "start-snapshot", "last": "end-snapshot", "begin": "earliest"}
    table = json.dumps({"catalog": CATALOG, "name": TABLE})
    (tmp_path / "iceberg.yaml").write_text(OF_VERSIONS.format(table=table, kind="iceberg", **told))
    write_deltalake(str(sales), rows)  # Version 0 is older than the schedule.
    lake = loaded(catalog)
    lake.create_namespace("shop")

    def append() -> None:
        write_deltalake(str(sales), rows, mode="append")
        lake.load_table(TABLE).append(rows)

    with running_cluster(bootstrap, tmp_path / "cluster", **configured(catalog)) as cluster:
        cluster.start_master("first")
        cluster.start_standby("second")
        cluster.start_task_executor(slots=2)
        options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "schedule"]
        for kind, name in (("delta", str(sales)), ("iceberg", f"{TABLE} in {CATALOG}")):
            assert run([*options, "put", kind, str(tmp_path / f"{kind}.yaml"), "--code", str(tmp_path / "note.py")]) == ExitCode.OK
            assert f"it starts its job for each new version of {name}" in capsys.readouterr().out
        with connect(cluster.bootstrap, cluster.cluster_id) as client:
            wait_until(lambda: "table not found" in _fault(client.schedule("iceberg")), "it is said that the table is not there", WAIT_S)
            assert run([*options, "show", "iceberg"]) == ExitCode.OK
            assert f"the leader cannot look at '{TABLE} in {CATALOG}': table not found: '{TABLE}'" in capsys.readouterr().out
            lake.create_table(TABLE, schema=rows.schema)
            for number, successor in enumerate(("third", "fourth")):
                append()
                wait_until(partial(_has_run, tmp_path / "delta", 2 * number + 2), "jobs take versions", WAIT_S)
                append()
                _kill_the_leader(cluster, successor)
            append()
            last = lake.load_table(TABLE).metadata.current_snapshot_id
            wait_until(lambda: _lines(tmp_path / "delta")[-1:] == ["5"], "each version of the table of Delta has its job", WAIT_S)
            wait_until(lambda: _lines(tmp_path / "iceberg")[-1:] == [str(last)], "and each snapshot of that of Iceberg", WAIT_S)
            ranges = [(int(first), int(end)) for first, end in _pairs_of(tmp_path / "delta")]
            assert [each for first, end in ranges for each in range(first, end + 1)] == [1, 2, 3, 4, 5]
            snapshots = _pairs_of(tmp_path / "iceberg")
            assert [first for first, _ in snapshots] == ["0", *(end for _, end in snapshots[:-1])], "each begins where the last one ended"
            cursor = client.schedule("delta").table_cursor
            assert cursor is not None
            assert (cursor.version, cursor.lost, cursor.fault) == (5, 0, "")
            assert run([*options, "show", "delta"]) == ExitCode.OK
            assert f"jobs of '{sales}' have the versions up to 5" in capsys.readouterr().out
            shutil.rmtree(sales)
            write_deltalake(str(sales), rows)
            wait_until(lambda: _lines(tmp_path / "delta")[-2:] == ["0", "0"], "the table that was made anew begins with its first", WAIT_S)
            assert run([*options, "show", "delta"]) == ExitCode.OK
            assert "it took the place of another table" in capsys.readouterr().out


@pytest.mark.rule("P21")
def test_an_instant_has_its_job_when_its_file_is_there_over_killed_leaders(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "note.py").write_text(CODE.format(here=str(tmp_path)))
    (tmp_path / "note.json").write_text(json.dumps(GRAPH))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "schedule"]
    for name, within in (("waiting", "1h"), ("missing", "1s")):
        (tmp_path / f"{name}.yaml").write_text(AWAITING.format(folder=tmp_path / name, within=within))
        assert run([*options, "put", name, str(tmp_path / f"{name}.yaml"), "--code", str(tmp_path / "note.py")]) == ExitCode.OK
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        wait_until(lambda: len(client.schedule("waiting").awaiting) >= 3, "instants wait", WAIT_S)
        before = client.schedule("waiting").awaiting
        _kill_the_leader(cluster, "third")
        wait_until(lambda: len(client.schedule("waiting").awaiting) > len(before), "more instants wait under the next leader", WAIT_S)
        awaited = client.schedule("waiting").awaiting
        assert awaited[: len(before)] == before, "what waits is as it was"
        there = [Path(each.file) for each in awaited[:4]]
        for file in there[::-1]:
            file.parent.mkdir(parents=True)
            file.touch()
        wait_until(partial(_has_run, tmp_path / "ran", 2), "jobs run", WAIT_S)
        _kill_the_leader(cluster, "fourth")
        wait_until(partial(_has_run, tmp_path / "ran", 4), "each instant whose file is there has its job", WAIT_S)
        assert sorted(_lines(tmp_path / "ran")) == [file.parent.name for file in there]
        missed = client.schedule("missing").history[0]
        assert (missed.job_id, missed.skipped) == (None, SkipReason.FILE_MISSING)
        assert run([*options, "show", "missing"]) == ExitCode.OK
        shown = " ".join(capsys.readouterr().out.split())
        assert "_SUCCESS, until" in shown
        assert run([*options, "pause", "waiting"]) == run([*options, "pause", "missing"]) == ExitCode.OK
        assert sorted(_lines(tmp_path / "ran")) == [file.parent.name for file in there], "none has two"


def _pairs_of(file: Path) -> list[tuple[str, str]]:
    words = _lines(file)
    return list(zip(words[::2], words[1::2], strict=True))


def _fault(schedule: ScheduleDetails) -> str:
    return schedule.table_cursor.fault if schedule.table_cursor is not None else ""


@pytest.mark.soak("eventflink.master.schedules", "eventflink.entrypoint.outside_watching")
@pytest.mark.timeout(3_600)
@pytest.mark.rule("P21")
def test_thousands_of_records_have_a_job_each_over_killed_leaders(cluster: RunningCluster, tmp_path: Path) -> None:
    topic, taken = f"{cluster.cluster_id}-orders", tmp_path / "taken"
    AdminConnection(cluster.access.kafka).create_topics([NewTopic(topic, 4, 1)])
    (tmp_path / "note.py").write_text(CODE.format(here=str(tmp_path)))
    (tmp_path / "records.yaml").write_text(ONE_BY_ONE.format(topic=topic))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id, "schedule"]
    assert run([*options, "put", "taking", str(tmp_path / "records.yaml"), "--code", str(tmp_path / "note.py")]) == ExitCode.OK
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(MANY):
        producer.produce(topic, b"an order", partition=number % 4)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    for kill in range(LEADERS):
        wait_until(partial(_has_run, taken, 2 * (kill * MANY // LEADERS + 1)), f"jobs run under leader {kill}", WAIT_S)
        _kill_the_leader(cluster, f"master-{kill}")
    wait_until(partial(_has_run, taken, 2 * MANY), "each record has its job", 4 * WAIT_S)
    assert _taken(taken, topic) == {(number % 4, number // 4): 1 for number in range(MANY)}

    def ended() -> Counter[str]:
        """Return how often each job has finished, and nothing else may have become of one."""
        ends = [event for event in log() if isinstance(event, JobStatusChanged) and event.to_status in TERMINAL_JOB_STATUSES]
        assert {event.to_status for event in ends} == {JobStatus.FINISHED}
        return Counter(event.job_id for event in ends)

    def log() -> list[LogEvent]:
        return [event for _, decision in cluster.decisions() for event in decision.events]

    wait_until(lambda: len(ended()) == MANY, "all jobs have ended", WAIT_S)
    assert ended() == Counter(event.job_id for event in log() if isinstance(event, ScheduleFired))
    assert set(ended().values()) == {1}


def _taken(file: Path, topic: str) -> Counter[tuple[int, int]]:
    """Return how often each record was taken, by partition and offset."""
    taken: Counter[tuple[int, int]] = Counter()
    for line in file.read_text().splitlines():
        first, end = (json.loads(text)[topic] for text in line.split(" "))
        taken.update((int(partition), offset) for partition in first for offset in range(first[partition], end[partition]))
    return taken


def _fired(cluster: RunningCluster) -> list[ScheduleFired]:
    events = [event for _, decision in cluster.decisions() for event in decision.events]
    return [event for event in events if isinstance(event, ScheduleFired) and event.schedule_id == "often"]


def _time(event: ScheduleFired) -> str:
    return dt.datetime.fromtimestamp(event.instant_ms / 1_000, dt.UTC).isoformat()


def _is_idle(schedule: ScheduleDetails, least: int, copied: Path) -> bool:
    return len(copied.read_text().splitlines()) >= least and not schedule.running and not schedule.queued


def _has_run(file: Path, least: int) -> bool:
    return len(_lines(file)) >= least


def _lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []
