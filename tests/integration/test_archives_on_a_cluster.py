"""The store of the type file on a running cluster: ended jobs leave the memory for their archives, and are still there for who asks."""

import contextlib
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import JobArchived, JobArchiveFailed, JobEvicted, JobResultStored, LogEvent
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ArchiveUnusable, DuplicateJobSubmission, JobTerminated, UnknownJob
from eventflink.gateways.state_reads import sources_of
from eventflink.log.clients import consumer_settings
from eventflink.model.configuration import load_configuration
from eventflink.model.statuses import JobStatus
from eventflink.snapshots.snapshot import encode_fold
from tests.support.hand import NOWHERE
from tests.support.running_cluster import RunningCluster, descendants, running_cluster, wait_until

pytestmark = pytest.mark.slow
FLINK_ID = "00112233445566778899aabbccddeeff"
"""An id as Flink has them."""


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A leader, a standby, a TaskExecutor; of ended jobs none stays in memory once its archive is written."""
    directory = tmp_path_factory.mktemp("cluster")
    keys = {"jobstore.type": "file", "jobstore.cache-size": 0, "jobmanager.archive.fs.dir": directory / "archives"}
    keys["jobmanager.archive.flink-format"] = "true"
    keys["secrets.directory"] = directory / "secrets"
    with running_cluster(bootstrap, directory, **keys) as running:
        running.popen = subprocess.Popen  # A test looks at the environments of its processes.
        running.start_master("first")
        running.start_task_executor("tm")
        running.start_standby("second")
        yield running


@pytest.fixture
def dispatcher(cluster: RunningCluster) -> Iterator[DispatcherGateway]:
    configuration = load_configuration(None, {key: str(value) for key, value in cluster.overrides.items()})
    sources = sources_of(configuration, lambda: cluster.bootstrap, cluster.cluster_id)
    with DispatcherGateway(cluster.access, sources=sources) as gateway:
        yield gateway


def archive_of(cluster: RunningCluster, job_id: str) -> Path:
    return cluster.directory / "archives" / cluster.cluster_id / f"{job_id}.json"


def end(cluster: RunningCluster, job_id: str, function: str = "print_words", **parameters: Any) -> None:
    cluster.submit(cluster.graph({"id": "task", "python": f"user_tasks:{function}", "parameters": parameters}), job_id)


def wait_until_evicted(cluster: RunningCluster, job_id: str) -> None:
    cluster.wait_for(lambda fold: job_id in fold.master.dispatcher.forgotten, f"{job_id} evicted")


def event_of(cluster: RunningCluster, job_id: str, kind: type[Any]) -> Any:
    return next(event for event in cluster.events_of(job_id) if isinstance(event, kind))


def test_an_evicted_job_is_answered_from_its_archive_to_gateways_and_to_the_command_line(
    cluster: RunningCluster, dispatcher: DispatcherGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    end(cluster, "failed", "fail", message="as wanted")
    wait_until_evicted(cluster, "failed")
    archived = event_of(cluster, "failed", JobArchived)
    assert archived.location == str(archive_of(cluster, "failed"))
    assert archived.byte_count == archive_of(cluster, "failed").stat().st_size
    assert "failed" not in dispatcher.list_jobs()
    job = dispatcher.request_job("failed")
    assert (job.status, job.is_archived, job.vertices[0].subtasks[0].task_manager_id) == (JobStatus.FAILED, True, "tm")
    assert job.cause is not None
    assert "as wanted" in job.cause.message
    assert job.cause.stack_trace is not None
    assert dispatcher.request_job_status("failed") is JobStatus.FAILED
    result = dispatcher.request_job_result("failed", timeout_s=120)
    assert (result.status, result.cause.failure_type if result.cause else "") == (JobStatus.FAILED, "LookupError")
    assert len(dispatcher.request_job_exceptions("failed")) == 1
    assert [document["job_id"] for document in ask_command_line(cluster, capsys, "status", "failed")] == ["failed"]
    assert [document["total"] for document in ask_command_line(cluster, capsys, "exceptions", "failed")] == [1]
    assert not ask_command_line(cluster, capsys, "result", "failed", exit_code=ExitCode.NEGATIVE, error="job failed is FAILED; only a")


def ask_command_line(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], *command: str, exit_code: int = 0, error: str = "", **keys: Any
) -> list[dict[str, Any]]:
    """Return what a command prints as JSON."""
    options = [f"-D{key}={value}" for key, value in {**cluster.overrides, **keys}.items()]
    assert run([*options, *command, "--json"]) == exit_code
    said = capsys.readouterr()
    assert error in said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_without_kafka_a_history_server_answers_what_the_archive_in_flinks_format_says(cluster: RunningCluster) -> None:
    end(cluster, FLINK_ID)
    wait_until_evicted(cluster, FLINK_ID)
    keys = {"bootstrap.servers": NOWHERE, "historyserver.web.port": 0, "historyserver.archive.fs.refresh-interval": 100}
    cluster.start("history", "history-server", **keys)
    url = wait_until(lambda: re.search(r"^http://\S+$", cluster.output("history"), re.MULTILINE), "the history server's address")[0]
    wait_until(lambda: get(f"{url}/jobs/overview")["jobs"], "the archives")
    answers = json.loads((cluster.directory / "archives" / FLINK_ID).read_bytes())["archive"]
    assert len(answers) > 10
    for answer in answers[1:]:
        assert get(f"{url}{answer['path']}") == json.loads(answer["json"]), answer["path"]
    [row] = json.loads(answers[0]["json"])["jobs"]
    assert (row["state"], row in get(f"{url}/jobs/overview")["jobs"]) == ("FINISHED", True)
    assert cluster.stop("history") == 0


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return json.load(answer)


@pytest.mark.rule("L8")
def test_a_secret_is_in_the_process_of_its_task_and_nowhere_else(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    secret = "correct-horse-battery-staple"
    (cluster.directory / "secrets").mkdir()
    (cluster.directory / "secrets" / "db").write_text(f"{secret}\n", encoding="utf-8")
    end(cluster, "secret", "fail_with_a_secret", login={"user": "me", "password": {"secret": "db"}}, path=str(tmp_path / "at"))
    wait_until((tmp_path / "at.0.1").exists, "the task has it")
    for process in [each for started in cluster.processes.values() for each in (psutil.Process(started.pid), *descendants(started))]:
        with contextlib.suppress(psutil.NoSuchProcess):
            assert secret not in f"{process.cmdline()}{process.environ()}"
    assert secret.encode() not in encode_fold(cluster.state()), "what a snapshot is made of"
    (tmp_path / "at.go").touch()
    wait_until_evicted(cluster, "secret")
    [job] = ask_command_line(cluster, capsys, "exceptions", "secret")
    assert "LookupError: nobody has the password ***" in json.dumps(job)
    commands = (["events"], ["status", "secret"], ["history", "secret"])
    told = [json.dumps(ask_command_line(cluster, capsys, *command)) for command in commands]
    url = cluster.start_rest()
    paths = ("jobs/secret", "jobs/secret/exceptions", "jobs/secret/config", "jobmanager/config", "eventflink/v1/jobs/secret/document")
    told += [json.dumps(get(f"{url}/{path}")) for path in paths]
    assert '{"secret": "db"}' in told[-1]
    topics = {topic: b"".join(value for value in stored(cluster, topic)) for topic in Topic}
    assert b"nobody has the password ***" in topics[Topic.LOG]
    assert not [topic for topic, values in topics.items() if secret.encode() in values]
    assert not [text for text in told if secret in text]
    written = [path for path in cluster.directory.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    assert {"secret.json", "task-0-1.log"} <= {path.name for path in written}
    assert not [path for path in written if secret.encode() in path.read_bytes()]


def stored(cluster: RunningCluster, topic: Topic) -> Iterator[bytes]:
    """Yield what all partitions of a topic hold."""
    consumer = Consumer(consumer_settings(cluster.access.kafka))
    try:
        name = topic_name(cluster.cluster_id, topic)
        for partition in consumer.list_topics(name, timeout=60).topics[name].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=60)
            consumer.assign([TopicPartition(name, partition, low)])
            while low < high and (message := consumer.poll(10)) is not None:
                low = message.offset() + 1
                yield message.value() or b""
    finally:
        consumer.close()


def test_a_job_that_was_evicted_is_neither_run_again_nor_cancelled(cluster: RunningCluster, dispatcher: DispatcherGateway) -> None:
    end(cluster, "once")
    wait_until_evicted(cluster, "once")
    with pytest.raises(DuplicateJobSubmission, match="it ended long ago"):
        end(cluster, "once")
    with pytest.raises(JobTerminated, match="FINISHED already"):
        dispatcher.cancel_job("once")
    with pytest.raises(UnknownJob):
        dispatcher.request_job("never")


def test_a_damaged_archive_is_never_served(
    cluster: RunningCluster, dispatcher: DispatcherGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    end(cluster, "damaged")
    wait_until_evicted(cluster, "damaged")
    path = archive_of(cluster, "damaged")
    path.write_bytes(path.read_bytes().replace(b"FINISHED", b"FAILED!!"))
    with pytest.raises(ArchiveUnusable, match=f"the archive of job 'damaged' at {path} is damaged: its digest is"):
        dispatcher.request_job("damaged")
    assert dispatcher.request_job_status("damaged") is JobStatus.FINISHED, "the log knows that much"
    assert not ask_command_line(cluster, capsys, "status", "damaged", exit_code=ExitCode.NEGATIVE, error="is damaged")


def test_a_job_ends_though_its_archive_cannot_be_written_and_the_next_leader_writes_it(
    cluster: RunningCluster, dispatcher: DispatcherGateway
) -> None:
    """The test runs as root, for whom no directory is unwritable: a file stands in its place."""
    directory = archive_of(cluster, "x").parent
    aside = cluster.directory / "aside"
    shutil.move(directory, aside)
    directory.write_text("no directory")
    end(cluster, "blocked")
    assert dispatcher.request_job_result("blocked", timeout_s=120).status is JobStatus.FINISHED
    cluster.wait_for(lambda fold: fold.master.job_store.pending["blocked"].attempts >= 2, "tried again")
    assert "blocked" in cluster.state().master.dispatcher.ended
    leader = dispatcher.find_leader().master_id
    cluster.kill(leader)
    directory.unlink()
    shutil.move(aside, directory)
    wait_until_evicted(cluster, "blocked")
    events: list[LogEvent] = [e for e in cluster.events_of("blocked") if isinstance(e, JobResultStored | JobArchiveFailed | JobArchived)]
    assert isinstance(events[0], JobResultStored)
    assert isinstance(events[-1], JobArchived)
    failures = events[1:-1]
    assert [e.attempt for e in failures if isinstance(e, JobArchiveFailed)] == list(range(1, len(failures) + 1))
    archived_in = [d.epoch for _, d in cluster.decisions() if any(isinstance(e, JobArchived) and e.job_id == "blocked" for e in d.events)]
    stored_in = [d.epoch for _, d in cluster.decisions() if any(isinstance(e, JobResultStored) and e.job_id == "blocked" for e in d.events)]
    assert archived_in > stored_in
    assert dispatcher.request_job("blocked").status is JobStatus.FINISHED
    assert isinstance(event_of(cluster, "blocked", JobEvicted), JobEvicted)


def test_without_any_master_the_command_line_reads_log_and_archive_itself(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    end(cluster, "read")
    wait_until_evicted(cluster, "read")
    for name in [name for name in cluster.processes if name in (*cluster.masters, "rest")]:
        assert cluster.stop(name) == 0
    [job] = ask_command_line(cluster, capsys, "status", "read")
    assert (job["status"], job["vertices"][0]["states"]) == ("FINISHED", {"FINISHED": 1})
    moved = {"jobmanager.archive.fs.dir": tmp_path}
    assert not ask_command_line(
        cluster, capsys, "status", "read", exit_code=ExitCode.NEGATIVE, error="archive not found: job 'read'", **moved
    )
