"""Asking a real log: events, audit and why as processes, over what a real master and a real TaskExecutor did."""

import asyncio
import csv
import io
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import eventflink
from eventflink.audit import FilterInvalid
from eventflink.cli.failures import ExitCode
from eventflink.client import events
from eventflink.documents.plain import plain
from eventflink.events.decision import Decision
from eventflink.events.log_events import JobStatusChanged, TaskManagerReportReconciled
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ClusterNotFound
from eventflink.log.administration import delete_topics, ensure_topics, log_topic_id
from eventflink.model.cluster_access import access_to
from eventflink.model.statuses import JobStatus
from eventflink.snapshots.snapshot import take_snapshot
from eventflink.snapshots.topic import write_snapshot
from tests.support import zygote
from tests.support.asked_log import storied_cluster, story_of, why
from tests.support.cluster import replay
from tests.support.running_cluster import RunningCluster, wait_until

pytestmark = pytest.mark.slow
TIMEOUT_S = 120.0


@dataclass
class Asked:
    """A cluster with a job that finished, one that failed and one that waits; and a decision that came too late."""

    cluster: RunningCluster
    finished: str
    failed: str
    running: str
    waiting: str
    late_offset: int

    def command(self, *arguments: str) -> list[str]:
        where = ["--bootstrap", self.cluster.bootstrap, "--cluster-id", self.cluster.cluster_id]
        return [sys.executable, "-m", "eventflink.cli", *where, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return zygote.run(self.command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S)

    def ask(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == ExitCode.OK, done.stderr
        assert done.stderr == ""
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ask(*arguments, "--json").splitlines()]

    def events(self) -> int:
        return sum(len(decision.events) for _, decision in self.cluster.decisions())


def append_late_decision(cluster: RunningCluster, job_id: str) -> int:
    """Append what a leader of an epoch long over would, and return its offset."""
    late = Decision(
        epoch=0,
        sequence=17,
        leader_id="a-leader-of-old",
        decided_at_ms=1_700_000_000_000,
        previous_hash=b"",
        causes=(),
        actor="",
        events=(JobStatusChanged(job_id, JobStatus.RUNNING, JobStatus.FAILING),),
    )
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    topic = topic_name(cluster.cluster_id, Topic.LOG)
    producer.produce(topic, cluster.fold.codec.encode(late), partition=0, on_delivery=lambda _e, m: offsets.append(m.offset()))
    assert producer.flush(10) == 0
    return offsets[0]


def is_said_to_be_ready(cluster: RunningCluster) -> bool:
    events = (event for _, decision in cluster.decisions() for event in decision.events)
    return any(isinstance(event, TaskManagerReportReconciled) and event.ready for event in events)


@pytest.fixture(scope="module")
def asked(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    name = f"test-{uuid.uuid4().hex[:12]}"
    cluster = RunningCluster(bootstrap, name, tmp_path_factory.mktemp("asked"), **{"slot.request.timeout": 3_600_000})
    cluster.start_master()
    cluster.start_task_executor(slots=1)
    finished = cluster.run_task("noop")
    cluster.wait_for_status(finished, JobStatus.FINISHED)
    failed = cluster.run_task("fail")
    cluster.wait_for_status(failed, JobStatus.FAILED)
    running = cluster.run_task("wait_for_file", path=str(cluster.directory / "never"))
    cluster.wait_for_running(running)
    wait_until(lambda: is_said_to_be_ready(cluster), "nothing more comes of the TaskExecutor")
    waiting = cluster.run_task("noop")
    cluster.wait_for(lambda fold: fold.master.slot_manager.pending, "a task waits for a slot")
    late_offset = append_late_decision(cluster, waiting)
    yield Asked(cluster, finished, failed, running, waiting, late_offset)
    cluster.close()
    delete_topics(access_to(bootstrap, name))


def test_events_shows_every_event_once_and_the_rejected_one_as_such(asked: Asked) -> None:
    lines = asked.ask("events").splitlines()
    assert len(lines) == asked.events()
    [rejected] = [line for line in lines if "REJECTED" in line]
    assert rejected.split()[0] == str(asked.late_offset)
    assert "epoch 0 is over" in rejected
    assert asked.ask("events", "--rejected").splitlines() == [rejected]
    assert len(asked.ask("events", "--accepted").splitlines()) == len(lines) - 1


def test_events_filters_by_type_job_task_manager_and_place(asked: Asked) -> None:
    submitted = asked.rows("events", "--type", "JobSubmitted")
    assert [row["event"]["job_id"] for row in submitted][:2] == [asked.finished, asked.failed]
    offset = str(submitted[1]["offset"])
    of_job = asked.rows("events", "--job", asked.failed[:20], "--type", "TaskFailed", "--type", "JobResultStored")
    assert [row["type"] for row in of_job] == ["TaskFailed", "JobResultStored"]
    assert {row["offset"] for row in asked.rows("events", "--from", offset, "--until", offset)} == {int(offset)}
    assert asked.rows("events", "--from", submitted[1]["decided_at"], "--type", "JobSubmitted") == submitted[1:]
    assert asked.rows("events", "--until", submitted[1]["decided_at"], "--type", "JobSubmitted") == submitted[:2]
    assert asked.rows("events", "--type", "JobSubmitted", "--limit", "2") == submitted[:2]
    assert asked.rows("events", "--type", "JobSubmitted", "--last", "1") == submitted[-1:]
    assert [row["type"] for row in asked.rows("events", "--task-manager", "tm", "--limit", "1")] == ["TaskManagerRegistered"]


def _listen_to_sigint() -> None:
    """Undo what a shell does to programs in the background: they ignore SIGINT, and so would every process of theirs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_events_follows_what_comes_until_interrupted(asked: Asked) -> None:
    following = subprocess.Popen(
        asked.command("events", "--follow", "--last", "1", "--type", "RequestRejected", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_listen_to_sigint,  # noqa: PLW1509 - it only sets a handler, which is safe after fork
    )
    try:
        assert following.stdout is not None
        os.set_blocking(following.stdout.fileno(), False)
        told = b""

        def has_been_told() -> bool:
            nonlocal told
            # Refused again until it is seen: whether the command listens already cannot be seen from outside.
            with (
                DispatcherGateway(asked.cluster.access) as gateway,
                pytest.raises(Exception, match="job not found"),
            ):
                gateway.cancel_job("nobody", actor="test")
            told += following.stdout.read() or b"" if following.stdout is not None else b""
            return b"\n" in told

        wait_until(has_been_told, "the refusal is told")
        row = json.loads(told.splitlines()[0])
        assert (row["type"], row["event"]["subject"], row["accepted"]) == ("RequestRejected", "nobody", True)
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=TIMEOUT_S)
        assert (following.returncode, errors) == (ExitCode.OK, b"")
    finally:
        following.kill()


def test_a_program_reads_what_the_command_shows_in_a_thread_and_in_an_event_loop(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    at = (asked.cluster.bootstrap, asked.cluster.cluster_id)
    monkeypatch.setattr(events, "PAGE", 7)

    async def read_in_a_loop() -> list[dict[str, Any]]:
        async with eventflink.connect_async(*at) as cluster:
            return [event async for event in cluster.events()]

    shown = asked.rows("events")
    with eventflink.connect(*at) as cluster:
        assert list(cluster.events()) == asyncio.run(read_in_a_loop()) == shown
        [failure] = cluster.events(job=asked.failed[:20], type="TaskFailed", since=1)
        assert failure in shown
        assert [event["offset"] for event in cluster.events(accepted=False)] == [asked.late_offset]
        assert list(cluster.events(limit=9, until=failure["offset"])) == shown[:9]
        with pytest.raises(FilterInvalid, match="did you mean TaskFailed"):
            cluster.events(type="TaskFaild")
        with pytest.raises(ValueError, match="limit=0"):
            cluster.events(limit=0)
    with eventflink.connect(at[0], "no-such") as nobody, pytest.raises(ClusterNotFound):
        next(nobody.events())


def test_a_program_suspends_and_resumes_a_job_and_is_told_of_it_as_it_comes(asked: Asked) -> None:
    at = (asked.cluster.bootstrap, asked.cluster.cluster_id)
    wanted: Any = {"job": asked.waiting, "type": ("JobSuspensionRequested", "JobResumptionRequested"), "follow": True}
    with eventflink.connect(*at) as cluster, closing(cluster.events(**wanted)) as told:
        job = cluster.job(asked.waiting)
        suspended = job.suspend("maintenance")
        assert next(told)["offset"] == suspended.log_offset

        async def resume() -> None:
            async with (
                eventflink.connect_async(*at) as connected,
                aclosing(connected.events(**wanted, since=suspended.log_offset + 1)) as more,
            ):
                resumed = await connected.job(asked.waiting).resume()
                assert (await anext(more))["offset"] == resumed.log_offset

        asyncio.run(asyncio.wait_for(resume(), TIMEOUT_S))
        assert next(told)["type"] == "JobResumptionRequested"


def test_audit_answers_from_the_whole_log(asked: Asked) -> None:
    [counted] = asked.rows("audit", "SELECT count(*) AS n, count(*) FILTER (NOT accepted) AS rejected FROM events")
    assert counted == {"n": asked.events(), "rejected": 1}
    [rejected] = asked.rows("audit", "SELECT log_offset, rejection FROM rejected_decisions")
    assert rejected["log_offset"] == asked.late_offset
    [leadership] = asked.rows("audit", "SELECT epoch, master_id, accepted FROM leaderships")
    assert (leadership["epoch"], leadership["accepted"]) == (1, True)
    [failure] = asked.rows("audit", "SELECT payload->>'$.cause.failure_type' AS failure FROM events WHERE type = 'TaskFailed'")
    assert failure == {"failure": "LookupError"}
    [few] = asked.rows("audit", "SELECT min(log_offset) AS first, max(log_offset) AS last FROM decisions", "--from", "3", "--until", "5")
    assert few == {"first": 3, "last": 5}


def test_audit_prints_tables_and_csv(asked: Asked) -> None:
    sql = "SELECT type, count(*) AS n FROM events WHERE type IN ('JobSubmitted', 'TaskFailed') GROUP BY ALL ORDER BY type"
    jobs = len(asked.rows("events", "--type", "JobSubmitted"))
    assert list(csv.reader(io.StringIO(asked.ask("audit", sql, "--csv")))) == [
        ["type", "n"],
        ["JobSubmitted", str(jobs)],
        ["TaskFailed", "1"],
    ]
    drawn = asked.ask("audit", sql)
    assert "JobSubmitted" in drawn
    assert "2 rows" in drawn
    cut = asked.run("audit", "SELECT log_offset FROM decisions", "--limit", "3")
    assert "3 rows" in cut.stdout
    assert "more rows are not shown" in cut.stderr


def test_audit_without_a_query_names_tables_and_questions_that_work(asked: Asked) -> None:
    told = json.loads(asked.ask("audit", "--json"))
    assert set(told["tables"]) == {"decisions", "events", "leaderships", "rejected_decisions"}
    rejected = next(example["sql"] for example in told["examples"] if "rejected_decisions" in example["sql"])
    assert [row["log_offset"] for row in asked.rows("audit", rejected)] == [asked.late_offset]
    printed = asked.ask("audit")
    assert all(example["question"] in printed and example["sql"] in printed for example in told["examples"])


def test_why_leads_a_failure_back_to_its_request(asked: Asked) -> None:
    told = json.loads(asked.ask("why", asked.failed, "--json"))
    assert (told["type"], told["state"], told["cause"]["failure_type"]) == ("job", "FAILED", "LookupError")
    assert told["facts"]["root_failure"] == f"{asked.failed}/task[0]#1"
    first, *_ = told["chain"]
    assert first["actor"] == "test (declared)"
    assert first["cause"].startswith("submissions@")
    assert any(event.startswith("TaskFailed") for step in told["chain"] for event in step["events"])
    drawn = asked.ask("why", f"{asked.failed}/task[0]#1")
    assert "LookupError" in drawn
    assert "by test (declared)" in drawn


def test_why_says_what_a_task_waits_for(asked: Asked) -> None:
    [wait] = json.loads(asked.ask("why", asked.waiting, "--json"))["waits"]
    assert wait["why"] == f"no slot: the only registered slot is taken, by job '{asked.running}'; its turn is 1 of 1"
    assert wait["waited_ms"] >= 0
    assert "waits: " in asked.ask("why", f"{asked.waiting}/task[0]")


def test_history_tells_the_life_of_a_job_to_people_and_programs(asked: Asked) -> None:
    story = json.loads(asked.ask("history", asked.failed[:20], "--json"))
    kinds = [line["kind"] for line in story["lines"]]
    assert (story["job_id"], story["status"], kinds[0], story["omitted"]) == (asked.failed, "FAILED", "submitted", 0)
    assert {"scheduled", "deployed", "failed", "ended"} <= set(kinds)
    said = asked.ask("history", asked.failed)
    assert all(line["text"] in said for line in story["lines"])


def test_the_past_is_shown_as_it_was_at_an_offset_and_at_a_time(asked: Asked) -> None:
    [submitted] = asked.rows("events", "--type", "JobSubmitted", "--job", asked.finished)
    [ended] = asked.rows("events", "--type", "JobResultStored", "--job", asked.finished)
    at, offset = ended["decided_at"], ended["offset"]
    assert json.loads(asked.ask("status", asked.finished, "--at", str(submitted["offset"]), "--json"))["status"] == "RUNNING"
    by_time, by_offset = (json.loads(asked.ask("status", asked.finished, "--at", place, "--json")) for place in (at, str(offset)))
    assert by_time["status"] == by_offset["status"] == "FINISHED"
    assert by_offset["log_offset"] == offset <= by_time["log_offset"]
    assert json.loads(asked.ask("status", "--at", "0", "--json"))["task_managers"] == []
    too_early = asked.run("status", asked.finished, "--at", "0")
    assert (too_early.returncode, too_early.stdout) == (ExitCode.NEGATIVE, "")
    assert "job not found" in too_early.stderr


def test_two_moments_differ_in_what_happened_between_them(asked: Asked) -> None:
    last = asked.cluster.decisions()[-1][0]
    difference = json.loads(asked.ask("diff", "0", str(last), "--json"))
    jobs = {row["id"]: row["after"] for row in difference["rows"] if row["thing"] == "job"}
    assert jobs == {**jobs, asked.finished: "FINISHED", asked.failed: "FAILED", asked.waiting: "RUNNING"}
    backwards = json.loads(asked.ask("diff", str(last), "0", "--json"))
    assert (backwards["total"], backwards["before"], backwards["after"]) == (difference["total"], difference["after"], difference["before"])
    assert "nothing differs" in asked.ask("diff", str(last), str(last))


def test_a_log_whose_beginning_was_trimmed_says_why_from_its_oldest_snapshot_on(bootstrap: str, cluster_id: str) -> None:
    ensure_topics(access_to(bootstrap, cluster_id))
    scripted = storied_cluster()
    topic = topic_name(cluster_id, Topic.LOG)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in scripted.log:
        producer.produce(topic, value, partition=0)
    assert producer.flush(10) == 0
    first = 5
    admin = AdminClient({"bootstrap.servers": bootstrap})  # It must outlive its future.
    [trimmed] = admin.delete_records([TopicPartition(topic, 0, first)]).values()
    assert trimmed.result(120).low_watermark == first
    command = [sys.executable, "-m", "eventflink.cli", "--bootstrap", bootstrap, "--cluster-id", cluster_id]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return zygote.run([*command, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)

    shown = run("events", "--json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(rows) == sum(len(decision.events) for decision in list(scripted.decisions())[first:])
    assert (rows[0]["offset"], {row["accepted"] for row in rows}) == (first, {True})
    assert "the log begins at offset 5" in shown.stderr
    counted = run("audit", "SELECT min(log_offset), count(*) FROM decisions WHERE accepted", "--csv")
    assert counted.stdout.splitlines()[1] == f"{first},{len(scripted.log) - first}"
    for question in ("why", "history"):
        refused = run(question, "caused")
        assert (refused.returncode, refused.stdout) == (ExitCode.INTERNAL, "")
        assert "begins at offset 5" in refused.stderr
        assert "no usable snapshot reaches" in refused.stderr
    snapshot = replay(scripted.log[: first + 2], timestamps=scripted.timestamps)
    access = access_to(bootstrap, cluster_id)
    write_snapshot(access, *take_snapshot(snapshot, "snapshot-1", "master-1", log_topic_id(access)))
    told = json.loads(run("why", "caused", "--json").stdout)
    assert (told["state"], told["cause"]["message"], told["log_offset"]) == ("FAILED", "no 'x'", len(scripted.log) - 1)
    assert told["chain"] == json.loads(json.dumps(plain(why(scripted, "caused").chain)))
    story = json.loads(run("history", "caused", "--json").stdout)
    assert story == json.loads(json.dumps(plain(story_of(scripted, "caused"))))


def test_mistakes_are_one_line_and_a_code(asked: Asked) -> None:
    mistakes = {
        ("why", asked.failed + "x"): (ExitCode.NEGATIVE, asked.failed),
        ("audit", "SELECT nothing FROM events"): (ExitCode.USAGE, "not found"),
        ("audit", "SELECT CAST(payload AS INTEGER) FROM events"): (ExitCode.USAGE, "Could not convert"),
        ("--cluster-id", "no-such", "events"): (ExitCode.UNREACHABLE, "no-such"),
    }
    for arguments, (exit_code, said) in mistakes.items():
        done = asked.run(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (exit_code, "", 1), done.stderr
        assert said in done.stderr
