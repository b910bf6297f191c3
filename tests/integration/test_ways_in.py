"""Ways into the cluster, and every kind of input that must not get through it: one real master, one real TaskExecutor."""

import http.server
import io
import json
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fastavro
import pytest
from confluent_kafka import KafkaException, Producer

from eventflink import connect
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import INLINE_LOCATIONS
from eventflink.events.log_events import TaskDeployed
from eventflink.events.schemas import schema_directory
from eventflink.events.topics import MAX_INBOUND_BYTES, Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import RequestRefused
from eventflink.model.statuses import ExecutionState, JobStatus, TaskFile
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow
NOOP = {"name": "noop", "vertices": [{"id": "only", "python": "eventflink.testing.tasks:noop"}]}


class Registry(http.server.BaseHTTPRequestHandler):
    """A schema registry's one route that readers use, over real HTTP."""

    schemas: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        schema = self.schemas.get(self.path)
        self.send_response(200 if schema else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": schema} if schema else {"error_code": 40403}).encode())

    def log_message(self, *_arguments: object) -> None:
        return


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def cluster(bootstrap: str, registry: str, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    settings = {"schema.registry.url": registry, "spark.remote": spark, "transactions.abort-after": 12_000}
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **settings) as running:
        running.start_master()
        running.start_task_executor(slots=4)
        yield running


def produce(cluster: RunningCluster, topic: Topic, value: bytes | None, key: bytes | None = None, **settings: Any) -> int:
    """Produce one record as any client does, and return its offset."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    producer.produce(topic_name(cluster.cluster_id, topic), value=value, key=key, on_delivery=lambda _e, m: offsets.append(m.offset()))
    assert producer.flush(10) == 0
    return offsets[0]


def event_names(cluster: RunningCluster, job_id: str) -> list[str]:
    return [type(event).__name__ for event in cluster.events_of(job_id)]


def avro_record(job_id: str) -> bytes:
    """Encode a submission with nothing of ours but the schema: as a client that has only the .avsc files."""
    graph = {
        "name": "noop",
        "vertices": [{"vertex_id": "only", "task_type": "PYTHON", "task": "eventflink.testing.tasks:noop", "parallelism": 1}],
        "edges": [],
        "restart_strategy": {"strategy_type": "NONE"},
    }
    payload = ("eventflink.JobSubmission", {"job_id": job_id, "actor": "avro", "job_graph": graph})
    stream = io.BytesIO()
    schema = fastavro.schema.load_schema(str(schema_directory() / "eventflink.SubmissionEnvelope.1.avsc"))
    fastavro.schemaless_writer(stream, schema, {"sent_at_ms": 1, "payload": payload})
    return stream.getvalue()


def single_object(body: bytes) -> bytes:
    schema = fastavro.schema.load_schema(str(schema_directory() / "eventflink.SubmissionEnvelope.1.avsc"))
    mark = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    return b"\xc3\x01" + bytes.fromhex(mark) + body


def test_kcat_an_avro_producer_and_the_command_line_end_in_the_same_events(cluster: RunningCluster, tmp_path: Path) -> None:
    """Whoever submits, the log says the same."""
    ids = [f"way-{n}-{uuid.uuid4().hex[:8]}" for n in range(4)]
    produce(cluster, Topic.SUBMISSIONS, single_object(avro_record(ids[0])), ids[0].encode())
    document = tmp_path / "job.json"
    document.write_text(json.dumps(NOOP))
    cluster.start("submit", "submit", str(document), "--job-id", ids[1]).wait(120)
    cluster.processes.pop("submit")
    produce(cluster, Topic.SUBMISSIONS, json.dumps({"job_id": ids[2], "job_graph": NOOP}).encode())
    kcat = shutil.which("kcat")
    if kcat is None:
        assert not os.environ.get("CI"), "CI installs kcat"
        ids.pop()
    else:
        topic = topic_name(cluster.cluster_id, Topic.SUBMISSIONS)
        line = json.dumps({"job_id": ids[3], "job_graph": NOOP}) + "\n"
        subprocess.run([kcat, "-P", "-b", cluster.bootstrap, "-t", topic], input=line.encode(), check=True, timeout=120)
    for job_id in ids:
        cluster.wait_for_status(job_id, JobStatus.FINISHED)
    cluster.wait_for(lambda fold: not fold.master.dispatcher.dirty, "all clean")
    # A task may be seen INITIALIZING and RUNNING at once or one after the other; what is said of it is the same.
    told = [event_names(cluster, job_id) for job_id in ids]
    assert all(names == told[0] for names in told), told
    assert told[0][:4] == ["RequestAccepted", "JobSubmitted", "JobMasterStarted", "JobStatusChanged"]
    assert told[0][-2:] == ["JobResultStored", "JobCleanedUp"]


def test_ids_that_are_left_out_derive_from_where_the_record_stands(cluster: RunningCluster) -> None:
    offset = produce(cluster, Topic.SUBMISSIONS, json.dumps(NOOP).encode())
    cluster.wait_for_status(f"submissions-0-{offset}", JobStatus.FINISHED)
    keyed = f"keyed-{uuid.uuid4().hex[:8]}"
    produce(cluster, Topic.SUBMISSIONS, json.dumps(NOOP).encode(), keyed.encode())
    cluster.wait_for_status(keyed, JobStatus.FINISHED)


def test_the_confluent_wire_format_is_taken_with_a_registry(cluster: RunningCluster) -> None:
    job_id = f"confluent-{uuid.uuid4().hex[:8]}"
    released = schema_directory() / "eventflink.SubmissionEnvelope.1.avsc"
    Registry.schemas["/schemas/ids/7"] = released.read_text(encoding="utf-8")
    produce(cluster, Topic.SUBMISSIONS, b"\0" + (7).to_bytes(4, "big") + avro_record(job_id))
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    offset = produce(cluster, Topic.SUBMISSIONS, b"\0" + (8).to_bytes(4, "big") + avro_record(job_id))
    letter = wait_for_letter(cluster, offset)
    assert "id 8" in letter.reason
    assert "404" in letter.reason


@pytest.mark.rule("P11")
def test_an_aborted_transactional_submission_never_runs(cluster: RunningCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"t-{uuid.uuid4().hex}"})
    producer.init_transactions(30)
    topic = topic_name(cluster.cluster_id, Topic.SUBMISSIONS)
    aborted, committed = (f"{how}-{uuid.uuid4().hex[:8]}" for how in ("aborted", "committed"))
    producer.begin_transaction()
    producer.produce(topic, json.dumps({"job_id": aborted, "job_graph": NOOP}))
    producer.flush(10)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, json.dumps({"job_id": committed, "job_graph": NOOP}))
    producer.commit_transaction(30)
    cluster.wait_for_status(committed, JobStatus.FINISHED)
    assert aborted not in cluster.state().master.dispatcher.jobs


@pytest.mark.rule("P11")
def test_a_transaction_that_holds_others_up_for_too_long_is_ended_by_the_leader(cluster: RunningCluster) -> None:
    hanging = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"hangs-{uuid.uuid4().hex}"})
    hanging.init_transactions(30)
    job_ids = [f"{what}-{uuid.uuid4().hex[:8]}" for what in ("hanging", "behind")]
    hanging.begin_transaction()
    hanging.produce(topic_name(cluster.cluster_id, Topic.SUBMISSIONS), json.dumps({"job_id": job_ids[0], "job_graph": NOOP}), partition=0)
    hanging.flush(10)
    produce(cluster, Topic.SUBMISSIONS, json.dumps({"job_id": job_ids[1], "job_graph": NOOP}).encode())
    cluster.wait_for_status(job_ids[1], JobStatus.FINISHED)
    wait_until(lambda: "TransactionAborted" in cluster.output("master"), "the leader says what it did")
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        hanging.commit_transaction(30)
    assert job_ids[0] not in cluster.state().master.dispatcher.jobs


@pytest.mark.rule("P3b")
def test_what_strangers_write_to_the_log_stops_no_master(cluster: RunningCluster) -> None:
    """Garbage, transactions that were committed and aborted, and one that is open all the while."""
    log = topic_name(cluster.cluster_id, Topic.LOG)
    before = cluster.document("log", "verify", "--json")["foreign_records"]
    strangers = [Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"t-{uuid.uuid4().hex}"}) for _ in range(2)]
    for stranger in strangers:
        stranger.init_transactions(30)
    begun, opened = strangers
    for end in (begun.commit_transaction, begun.abort_transaction):
        begun.begin_transaction()
        begun.produce(log, b"a stray line", partition=0)
        begun.flush(10)
        end(30)
    opened.begin_transaction()
    opened.produce(log, b"a stray line", partition=0)
    opened.flush(10)
    produce(cluster, Topic.LOG, b"garbage")
    produce(cluster, Topic.LOG, None)
    job_ids = [f"beside-strangers-{n}-{uuid.uuid4().hex[:8]}" for n in range(2)]
    produce(cluster, Topic.SUBMISSIONS, json.dumps({"job_id": job_ids[0], "job_graph": NOOP}).encode())
    cluster.wait_for_status(job_ids[0], JobStatus.FINISHED)
    assert all(name not in cluster.output("master") for name in ("LogNotDense", "LogUnusable", "LogDiverged"))
    assert cluster.document("log", "verify", "--json")["foreign_records"] == before + 7
    assert cluster.document("why", job_ids[0], "--json")["state"] == "FINISHED"
    cluster.kill("master")
    cluster.start_master()
    produce(cluster, Topic.SUBMISSIONS, json.dumps({"job_id": job_ids[1], "job_graph": NOOP}).encode())
    cluster.wait_for_status(job_ids[1], JobStatus.FINISHED)
    opened.abort_transaction(30)
    assert cluster.document("log", "verify", "--json")["foreign_records"] == before + 8


def wait_for_letter(cluster: RunningCluster, offset: int, topic: Topic = Topic.SUBMISSIONS) -> Any:
    def letter() -> Any:
        return next((found for found in cluster.dead_letters() if found.topic == topic and found.offset == offset), None)

    return wait_until(letter, f"a dead letter for {topic}@{offset}")


WHOLE = single_object(avro_record("whole"))
BAD_SUBMISSIONS = {
    "garbage": (b"\x07\x99garbage", "marker C3 01"),
    "empty": (b"", "marker C3 01"),
    "no value": (None, "no value"),
    "unknown fingerprint": (b"\xc3\x01" + b"\x11" * 8 + WHOLE[10:], "fingerprint 1111111111111111"),
    "truncated": (WHOLE[:-3], "decoding stopped"),
    "trailing bytes": (WHOLE + b"more", "4 bytes after the end"),
    "oversized": (b"{" + b" " * 300_000 + b"}", "300002 bytes"),
    "broken JSON": (b'{"vertices": [', "begins like JSON"),
    "a JSON list": (b"[1, 2]", "JSON object"),
    "unknown key": (json.dumps({**NOOP, "colour": "red"}).encode(), "colour"),
    "a cycle": (
        json.dumps(
            {
                "name": "c",
                "vertices": [{"id": "a", "sql": "S"}, {"id": "b", "sql": "S"}],
                "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}],
            }
        ).encode(),
        "cycle: ",
    ),
    "a dangling edge": (json.dumps({**NOOP, "edges": [{"from": "only", "to": "nowhere"}]}).encode(), "vertex not found: 'nowhere'"),
    "a bad id": (json.dumps({"job_id": "../etc", "job_graph": NOOP}).encode(), "job_id '../etc'"),
}


@pytest.mark.rule("P7")
@pytest.mark.parametrize("name", BAD_SUBMISSIONS)
def test_bad_submissions_become_dead_letters_that_say_what_and_where(cluster: RunningCluster, name: str) -> None:
    value, reason = BAD_SUBMISSIONS[name]
    offset = produce(cluster, Topic.SUBMISSIONS, value)
    letter = wait_for_letter(cluster, offset)
    assert reason in letter.reason
    assert (letter.value, letter.value_length) == (value and value[:MAX_INBOUND_BYTES], len(value or b""))
    # Nothing else stopped.
    following = produce(cluster, Topic.SUBMISSIONS, json.dumps(NOOP).encode())
    cluster.wait_for_status(f"submissions-0-{following}", JobStatus.FINISHED)


def test_garbage_on_the_other_inbound_topics_stops_nothing(cluster: RunningCluster) -> None:
    for topic, says in ((Topic.COMMANDS, "marker"), (Topic.TASKMANAGERS, "no valid seal")):
        offset = produce(cluster, topic, b"\x01garbage")
        assert says in wait_for_letter(cluster, offset, topic).reason
    produce(cluster, Topic.HEARTBEATS, b"garbage")
    produce(cluster, Topic.DEPLOYMENTS, b"garbage")
    offset = produce(cluster, Topic.COMMANDS, b'{"type": "Explode"}')
    assert "CancelJob" in wait_for_letter(cluster, offset, Topic.COMMANDS).reason
    cluster.wait_for_status(cluster.run_task("noop"), JobStatus.FINISHED)


def test_an_invalid_graph_sent_as_avro_is_answered_to_its_sender(cluster: RunningCluster) -> None:
    graph = cluster.graph({"id": "a", "sql": "SELECT 1"})
    graph.vertices[0].parallelism = 0
    with DispatcherGateway(cluster.access) as gateway, pytest.raises(RequestRefused, match="parallelism"):
        gateway.submit_job(graph)


@pytest.mark.parametrize(
    ("vertex", "failure_type", "message"),
    [
        ({"python": "user_tasks:nothing_such"}, "UnknownFunction", "nothing_such"),
        ({"python": "no_such_module:run"}, "UnknownFunction", "no_such_module"),
        ({"python": "user_tasks:fail", "parameters": {"message": "out of cheese"}}, "LookupError", "out of cheese"),
        ({"python": "user_tasks:return_a_list"}, None, "list"),
        ({"sql": "SELECT nothing FROM nowhere"}, None, "nowhere"),
        ({"sql": "SELEKT 1"}, None, "SELEKT"),
    ],
)
def test_what_is_wrong_with_a_task_is_the_cause_of_its_job_s_failure(
    cluster: RunningCluster, vertex: dict[str, Any], failure_type: str | None, message: str
) -> None:
    job = cluster.wait_for_status(cluster.submit(cluster.graph({"id": "task", **vertex})), JobStatus.FAILED, 120)
    assert job.cause is not None
    assert message in job.cause.message
    assert len(job.cause.message) < 1000
    if failure_type is not None:
        assert job.cause.failure_type == failure_type


def test_sql_in_files_runs_and_of_a_rerun_what_was_mended(cluster: RunningCluster, tmp_path: Path) -> None:
    for name, sql in (("numbers", "SELECT id FROM range(4)"), ("total", "SELECT sum(id) AS total FROM absent")):
        (tmp_path / f"{name}.sql").write_text(sql)
    vertices = [{"id": name, "sql_file": f"{name}.sql"} for name in ("numbers", "total")]
    document = {"name": "files", "vertices": vertices, "edges": [{"from": "numbers", "to": "total"}], "restart_strategy": {"type": "none"}}
    (tmp_path / "job.json").write_text(json.dumps(document))
    options = ["--bootstrap", cluster.bootstrap, "--cluster-id", cluster.cluster_id]
    assert run([*options, "submit", str(tmp_path / "job.json"), "--job-id", "files-1"]) == ExitCode.NEGATIVE
    (tmp_path / "total.sql").write_text("SELECT sum(id) AS total FROM numbers")
    assert run([*options, "rerun", "files-1", str(tmp_path / "job.json"), "--failed", "--job-id", "files-2"]) == ExitCode.OK
    assert [event.vertex_id for event in cluster.events_of("files-2") if isinstance(event, TaskDeployed)] == ["total"]
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        assert client.job("files-2").result().to_arrow().to_pylist() == [{"total": 6}]
        lost = client.submit(document | {"name": "lost"})
        end = lost.wait(timeout_s=60)
    assert end.cause is not None
    assert end.cause.failure_type == "CodeUnusable"
    assert end.cause.message == "vertex 'numbers': sql_file not found: numbers.sql; the code archives of the job are none"


def test_a_graph_of_thousands_of_vertices_comes_in_and_is_shown(cluster: RunningCluster, tmp_path: Path) -> None:
    names = ["first", *(f"stg_orders_of_{number:05d}" for number in range(1, 5_000))]
    (tmp_path / "orders.sql").write_text("SELECT 1")
    first = {"id": "first", "python": "eventflink.testing.tasks:idle"}
    vertices = [first, *({"id": each, "sql_file": "orders.sql"} for each in names[1:])]
    edges = [{"from": source, "to": target} for of in (1, 2) for source, target in zip(names, names[of:], strict=False)]
    (tmp_path / "job.json").write_text(json.dumps({"name": "large", "vertices": vertices, "edges": edges}))
    with connect(cluster.bootstrap, cluster.cluster_id) as client:
        job = client.submit(tmp_path / "job.json", job_id="large-1")
        cluster.wait_for_status("large-1", JobStatus.RUNNING, 60)
        assert len(job.details().vertices) == 5_000
        job.cancel()
        assert job.wait(timeout_s=60).status is JobStatus.CANCELED


def test_a_job_id_runs_once(cluster: RunningCluster) -> None:
    """Identical while it is known: acknowledged. Another graph, or a job that has ended: refused."""
    job_id = cluster.submit(cluster.graph({"id": "task", "python": "user_tasks:noop"}))
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    for vertex in ("task", "other"):
        with pytest.raises(RequestRefused, match="submitted before"):
            cluster.submit(cluster.graph({"id": vertex, "python": "user_tasks:noop"}), job_id)


def test_a_running_job_is_cancelled_and_its_process_ends(cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = cluster.run_task("wait_for_file", path=str(tmp_path / "gate"))
    cluster.wait_for_running(job_id)
    noted = tmp_path / "gate.0.1"
    process_id = int(wait_until(lambda: noted.exists() and noted.read_text(), "the task's process id"))
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)
    job = cluster.wait_for_status(job_id, JobStatus.CANCELED)
    assert [s.state for s in job.execution_graph.subtasks()] == [ExecutionState.CANCELED]
    assert not Path(f"/proc/{process_id}").exists()
    with DispatcherGateway(cluster.access) as gateway:
        gateway.cancel_job(job_id)  # Cancelled already: cancelled.
        with pytest.raises(RequestRefused, match="job not found"):
            gateway.cancel_job("nobody")


def test_a_request_that_comes_again_is_answered_again_and_done_once(cluster: RunningCluster) -> None:
    graph, job_id = cluster.graph({"id": "task", "python": "user_tasks:noop"}), f"again-{uuid.uuid4().hex[:8]}"
    with DispatcherGateway(cluster.access) as gateway:
        first = gateway.submit_job(graph, job_id, request_id=f"request-{job_id}")
        cluster.wait_for_status(job_id, JobStatus.FINISHED)
        again = gateway.submit_job(graph, job_id, request_id=f"request-{job_id}")
    assert again.job_id == first.job_id
    assert event_names(cluster, job_id).count("JobSubmitted") == 1


def test_the_files_of_a_task_can_be_fetched_from_its_host(cluster: RunningCluster) -> None:
    job_id = cluster.run_task("print_words")
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    for file, words in ((TaskFile.STDOUT, "said on stdout"), (TaskFile.STDERR, "said on stderr"), (TaskFile.LOG, "said in the log")):
        options = ["--file", file.lower()] if file is not TaskFile.LOG else []
        command = ["logs", job_id, "task", *options]
        process = cluster.start(f"logs-{file}", *command)
        assert process.wait(120) == 0, cluster.output(f"logs-{file}")
        cluster.processes.pop(f"logs-{file}")
        assert words in cluster.output(f"logs-{file}")


def test_what_tasks_write_is_followed_until_their_job_has_ended(cluster: RunningCluster, tmp_path: Path) -> None:
    job_id = cluster.run_task("wait_for_file", parallelism=2, path=str(tmp_path / "gate"))
    following = cluster.start("following", "logs", "--follow", "--file", "stdout", job_id)
    told = ["task[0]#1 | subtask 0 waits", "task[1]#1 | subtask 1 waits"]
    wait_until(lambda: all(line in cluster.output("following") for line in told), "both tasks are heard while they run")
    seen = cluster.document("top", "--once", "--json")
    assert [job["status"] for job in seen["jobs"] if job["job_id"] == job_id] == ["RUNNING"]
    assert seen["cluster"]["slots"] - seen["cluster"]["slots_free"] == 2
    (tmp_path / "gate.go").touch()
    assert following.wait(120) == 0, cluster.output("following")
    cluster.processes.pop("following")
    assert sorted(line for line in cluster.output("following").splitlines() if " | " in line) == told


def test_hash_and_rebalance_edges_share_out_every_row_once(cluster: RunningCluster) -> None:
    """A job over three vertices in Spark: SQL and Python; where the rows of the first are is told apart from the orders that read them."""
    graph = cluster.graph(
        {"id": "numbers", "python": "user_tasks:numbers", "parallelism": INLINE_LOCATIONS + 2, "parameters": {"count": 1000}},
        {"id": "remainders", "sql": "SELECT id % 10 AS remainder, id FROM numbers", "parallelism": 2},
        {"id": "counts", "sql": "SELECT remainder, count(*) AS n, sum(id) AS total FROM remainders GROUP BY remainder", "parallelism": 2},
        edges=[
            {"from": "numbers", "to": "remainders", "ship": "rebalance"},
            {"from": "remainders", "to": "counts", "ship": "hash", "keys": ["remainder"]},
        ],
    )
    job_id = cluster.submit(graph)
    cluster.wait_for_status(job_id, JobStatus.FINISHED, 180)
    rows = cluster.document("result", job_id, "--json")
    rows = rows["rows"] if isinstance(rows, dict) else rows
    assert sorted((r["remainder"], r["n"]) for r in rows) == [(n, 100) for n in range(10)]
    assert sum(r["total"] for r in rows) == sum(range(1000))
    # What the edges read is gone, the result stays.
    cluster.wait_for(lambda fold: job_id not in fold.master.dispatcher.dirty, "clean")
    assert {p.name for p in (cluster.directory / "data" / "jobs" / cluster.cluster_id / job_id).iterdir()} == {"counts"}


def test_what_a_foreign_producer_writes_is_what_our_codec_reads() -> None:
    payload, envelope = PayloadCodec("SubmissionEnvelope").decode(WHOLE)
    assert (payload.job_id, payload.actor, envelope["sent_at_ms"]) == ("whole", "avro", 1)
    assert [vertex.task for vertex in payload.job_graph.vertices] == ["eventflink.testing.tasks:noop"]
