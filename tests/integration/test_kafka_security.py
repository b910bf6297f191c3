"""On a Kafka with authentication and authorisation a cluster runs with the least rights, and a refusal says what is missing."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import eventflink
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.cli.session import Session
from eventflink.cli.transactions import transaction_findings
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.job_master_gateway import JobMasterGateway
from eventflink.log.access_rights import Grantee, ResourceKind, Right, rights_of
from eventflink.log.admin_connection import AccessRefused, AdminConnection
from eventflink.log.administration import AdministrationError, check_transaction_bound, delete_topics, ensure_topics
from eventflink.log.group_offset import GroupOffset
from eventflink.model.cluster_access import ClusterAccess, access_to
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.kafka_settings import KafkaAccess, client_settings
from eventflink.model.statuses import JobStatus
from eventflink.notify.notifier import group_of
from tests.support import stream_tasks
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until
from tests.support.secured_broker import SecuredBroker, secured_broker
from tests.support.topics import CommittedReader, create_topic, feed

pytestmark = pytest.mark.slow

NOOP = {"name": "noop", "vertices": [{"id": "only", "python": "eventflink.testing.tasks:noop"}]}
ROLES = {
    "alice": Grantee.CLIENT,
    "auditor": Grantee.AUDITOR,
    "worker": Grantee.TASKEXECUTOR,
    "master": Grantee.MASTER,
    "operator": Grantee.OPERATOR,
    "notifier": Grantee.NOTIFIER,
}
GRANTS = [part for name, role in ROLES.items() for part in ("--principal", f"{role}=User:{name}")]
MAY = {
    #               alice auditor worker master operator notifier nobody
    "submissions": ("w", "-", "-", "r", "w", "-", "-"),
    "commands": ("w", "-", "-", "rw", "w", "-", "-"),
    "taskmanagers": ("-", "-", "w", "r", "-", "-", "-"),
    "heartbeats": ("-", "r", "w", "rw", "r", "-", "-"),
    "log": ("r", "r", "-", "rw", "r", "r", "-"),
    "deployments": ("-", "-", "r", "w", "-", "-", "-"),
    "replies": ("r", "-", "-", "w", "r", "-", "-"),
    "leadership": ("r", "r", "-", "rw", "r", "r", "-"),
    "snapshots": ("r", "r", "-", "rw", "r", "r", "-"),
    "dead-letters": ("-", "r", "-", "w", "r", "-", "-"),
}
PEOPLE = ("alice", "auditor", "worker", "master", "operator", "notifier", "nobody")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as started:
        yield started


def options(settings: dict[str, str], *more: str) -> list[str]:
    return [*(f"-D{key}={value}" for key, value in settings.items()), *more]


# -- the whole path ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(broker: SecuredBroker, spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster of a master (SCRAM), a TaskExecutor (a certificate) and clients (a password); the test looks on as super user."""
    keys = {
        "spark.remote": spark,
        **broker.options_of("alice"),
        **broker.options_of("master", "jobmanager."),
        **broker.options_of("worker", "taskmanager."),
        **broker.options_of("auditor", "rest."),
    }
    with running_cluster(broker.open, tmp_path_factory.mktemp("cluster"), **{"bootstrap.servers": broker.sasl}, **keys) as running:
        running.popen = subprocess.Popen  # A test looks at the environments of its processes.
        assert run(["--bootstrap", broker.open, "--cluster-id", running.cluster_id, "topics", "--acls", "--apply", *GRANTS]) == ExitCode.OK
        running.start_master()
        running.start("tm", "taskexecutor", **{"taskmanager.id": "tm", "bootstrap.servers": broker.tls})
        running.wait_for(lambda fold: "tm" in fold.master.resource_manager.task_managers, "tm registered")
        yield running


@pytest.mark.rule("L6")
def test_a_job_runs_where_everybody_has_the_least_rights(cluster: RunningCluster, broker: SecuredBroker, tmp_path: Path) -> None:
    graph = tmp_path / "noop.json"
    graph.write_text(json.dumps(NOOP), encoding="utf-8")
    job_id = str(uuid.uuid4())
    cluster.document("submit", str(graph), "--job-id", job_id, "--json")
    assert cluster.job(job_id).status is JobStatus.FINISHED
    auditor = options({"bootstrap.servers": broker.sasl, "cluster.id": cluster.cluster_id, **broker.options_of("auditor")})
    assert run([*auditor, "history", job_id]) == ExitCode.OK


def test_a_gateway_reaches_the_cluster_as_the_configuration_says(cluster: RunningCluster, broker: SecuredBroker, tmp_path: Path) -> None:
    configuration = tmp_path / "eventflink.yaml"
    keys = {"bootstrap.servers": broker.sasl, "cluster.id": cluster.cluster_id, **broker.options_of("alice")}
    configuration.write_text(json.dumps(keys), encoding="utf-8")
    with eventflink.connect(configuration=configuration) as found, DispatcherGateway(found.access) as dispatcher:
        job_id = dispatcher.submit_job(parse_job_graph(NOOP, "noop")).job_id
        assert dispatcher.request_job_result(job_id, timeout_s=120).status is JobStatus.FINISHED
        with JobMasterGateway(found.access, job_id=job_id) as job_master:
            assert job_master.request_job_status() is JobStatus.FINISHED
    with pytest.raises(ClusterUnreachable, match="speaks another"):
        DispatcherGateway(broker.sasl, cluster.cluster_id)


def test_a_task_executor_says_which_right_it_lacks_and_registers_when_it_is_granted(cluster: RunningCluster, broker: SecuredBroker) -> None:
    cluster.start("late", "taskexecutor", **{"taskmanager.id": "late"}, **broker.options_of("nobody", "taskmanager."))
    lacks = f"User:nobody may not Read topic '{topic_name(cluster.cluster_id, Topic.DEPLOYMENTS)}'"
    wait_until(lambda: lacks in cluster.output("late"), "it says what it lacks")
    rights = rights_of(Grantee.TASKEXECUTOR, cluster.cluster_id)
    AdminConnection(KafkaAccess(broker.open)).grant([right for right in rights if "Read" in right.operations], "User:nobody")
    wait_until(lambda: "ReportsNotDelivered" in cluster.output("late"), "its reports are refused")
    AdminConnection(KafkaAccess(broker.open)).grant(rights, "User:nobody")
    cluster.wait_for(lambda fold: "late" in fold.master.resource_manager.task_managers, "late registered")
    assert cluster.stop("late") == 0


def test_no_secret_is_in_a_command_line_an_environment_or_a_log(cluster: RunningCluster, broker: SecuredBroker) -> None:
    for name, process in cluster.processes.items():
        for place in ("cmdline", "environ"):
            told = Path(f"/proc/{process.pid}/{place}").read_bytes().decode(errors="replace")
            assert not [password for password in broker.passwords.values() if password in told]
        assert not [password for password in broker.passwords.values() if password in cluster.output(name)]


def test_a_stream_and_its_edge_run_with_the_rights_of_the_task_executor(cluster: RunningCluster, broker: SecuredBroker) -> None:
    """Spark reads by Kafka's Java client, the sink writes by librdkafka beside Spark's server: both are known by the certificate."""
    source, target = create_topic(broker.open), create_topic(broker.open)
    rights = (Right(ResourceKind.TOPIC, source, ("Read",)), Right(ResourceKind.TOPIC, target, ("Read", "Write")))
    AdminConnection(KafkaAccess(broker.open)).grant(rights, "User:worker")
    feed(broker.open, source, ({"key": f"k{number % 7}", "number": number} for number in range(100)))
    reads = {"source": {"kafka": {"topic": source}, "format": "json", "schema": "key STRING, number BIGINT"}}
    settings = {"trigger": {"available_now": True}, "settings": {"spark.sql.shuffle.partitions": 1}}
    job_id = cluster.submit(
        cluster.graph(
            {"id": "parse", "python": "stream_tasks:parse", "stream": {"sources": reads, **settings}},
            {
                "id": "stream",
                "python": "stream_tasks:copy_parsed",
                "stream": {"sources": {}, "sink": {"kafka": {"topic": target}, "format": "json"}, **settings},
            },
            edges=[{"from": "parse", "to": "stream", "ship": "forward", "schema": "key STRING, number BIGINT, at TIMESTAMP"}],
            code_archives=[cluster.user_code(Path(stream_tasks.__file__))],
        )
    )
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    rows = CommittedReader(broker.open, target)
    assert sorted(row["number"] for row in rows.read_until(lambda found: len(found) >= 100)) == list(range(100))
    rows.close()


# -- who may do what ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def topics_only(broker: SecuredBroker) -> Iterator[str]:
    """The id of a cluster of which there are only topics; what its principals may do is granted, and `master` has made the topics."""
    cluster_id = f"roles-{uuid.uuid4().hex[:12]}"
    for name, role in ROLES.items():
        AdminConnection(KafkaAccess(broker.open)).grant(rights_of(role, cluster_id), f"User:{name}")
    ensure_topics(ClusterAccess(broker.access_of("master"), cluster_id))
    yield cluster_id
    delete_topics(access_to(broker.open, cluster_id))


def written(kafka: KafkaAccess, cluster_id: str) -> set[str]:
    """Return which topics take a record; the others refuse it for want of a right."""
    outcome: dict[str, KafkaError | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcome[message.topic() or ""] = error

    producer = Producer(client_settings(kafka, {"log_level": 0, "message.timeout.ms": 20_000}))
    for topic in Topic:
        producer.produce(topic_name(cluster_id, topic), b"x", b"k", partition=0, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert {error.code() for error in outcome.values() if error is not None} <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    return {str(topic) for topic in Topic if outcome[topic_name(cluster_id, topic)] is None}


def read(kafka: KafkaAccess, cluster_id: str) -> set[str]:
    """Return which topics give their records or their end; the others refuse for want of a right."""
    own = {"group.id": "eventflink-test", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(client_settings(kafka, own))
    found: dict[str, bool] = {}
    try:
        errors = {name: consumer.list_topics(name, timeout=60).topics[name].error for name in (topic_name(cluster_id, t) for t in Topic)}
        seen = [name for name, error in errors.items() if error is None]
        assert {error.code() for error in errors.values() if error is not None} <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
        consumer.assign([TopicPartition(name, 0, 0) for name in seen])
        while len(found) < len(seen):
            message = consumer.poll(15)
            assert message is not None, found
            error, name = message.error(), (message.topic() or "").removeprefix(f"{cluster_id}.")
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                found[name] = True
            elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                found.setdefault(name, False)
    finally:
        consumer.close()
    return {name for name, may in found.items() if may}


@pytest.mark.rule("L6")
@pytest.mark.parametrize("name", PEOPLE)
def test_each_role_writes_and_reads_what_is_its_own_and_nothing_else(name: str, broker: SecuredBroker, topics_only: str) -> None:
    kafka, column = broker.access_of(name), PEOPLE.index(name)
    assert written(kafka, topics_only) == {topic for topic, may in MAY.items() if "w" in may[column]}
    assert read(kafka, topics_only) == {topic for topic, may in MAY.items() if "r" in may[column]}


@pytest.mark.parametrize("name", [name for name in PEOPLE if name != "operator"])
def test_only_an_operator_grants_rights(name: str, broker: SecuredBroker, topics_only: str) -> None:
    rights = rights_of(Grantee.CLIENT, topics_only)
    with pytest.raises(AccessRefused, match=r"may not Alter"):
        AdminConnection(broker.access_of(name), 20).grant(rights, "User:bob")
    AdminConnection(broker.access_of("operator"), 20).grant(rights, "User:bob")


def test_a_notifier_keeps_the_places_of_its_receivers_and_a_client_is_told_what_it_lacks(broker: SecuredBroker, topics_only: str) -> None:
    group = group_of(topics_only, "chat")
    with closing(GroupOffset(ClusterAccess(broker.access_of("notifier"), topics_only), group)) as place:
        assert place.read() is None
        place.commit(7)
        assert place.read() == 7
    refusal = rf"^User:alice may not Read group '{group}' .* --principal notifier=User:alice$"
    with (
        closing(GroupOffset(ClusterAccess(broker.access_of("alice"), topics_only), group)) as place,
        pytest.raises(AccessRefused, match=refusal),
    ):
        place.read()


def test_a_transaction_that_hangs_is_named_and_ended_by_an_operator_and_not_hidden_from_a_client(
    broker: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka lists to nobody what its right does not show (P11)."""
    cluster_id = f"hangs-{uuid.uuid4().hex[:12]}"
    ensure_topics(access_to(broker.open, cluster_id))
    for name, role in ROLES.items():
        AdminConnection(KafkaAccess(broker.open)).grant(rights_of(role, cluster_id), f"User:{name}")
    submissions, transactional_id = topic_name(cluster_id, Topic.SUBMISSIONS), f"{cluster_id}-batch"
    hanging = Producer({"bootstrap.servers": broker.open, "transactional.id": transactional_id})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(submissions, b"half a thought")
    assert hanging.flush(30) == 0

    def arguments(name: str, *more: str) -> list[str]:
        return options({"bootstrap.servers": broker.sasl, "cluster.id": cluster_id, **broker.options_of(name)}, "doctor", *more)

    def found(name: str) -> list[tuple[str, str]]:
        return [(verdict, detail) for _, verdict, detail in transaction_findings(ClusterAccess(broker.access_of(name), cluster_id))]

    held = f"{submissions}: 1 records are held back by "
    assert ("failed", f"{held}a transaction that User:alice may not see; Describe on its TransactionalId shows it") in found("alice")
    assert ("failed", f"{held}an open transaction; kafka-transactions.sh shows it") in found("auditor"), "over OAUTHBEARER"
    [(_, named)] = found("operator")
    assert f"{submissions}: the transaction '{transactional_id}' of producer " in named
    right = Right(ResourceKind.TRANSACTIONAL_ID, transactional_id, ("Describe",))
    AdminConnection(KafkaAccess(broker.open)).grant([right], "User:alice")
    line = said(capsys, ExitCode.NEGATIVE, arguments("alice", "--abort-transaction", transactional_id))
    assert f"User:alice may not Write transactional id '{transactional_id}' at {broker.sasl}; what grants it is: kafka-acls.sh" in line
    assert run(arguments("operator", "--abort-transaction", transactional_id)) == ExitCode.OK
    assert f"the transaction '{transactional_id}' of producer " in capsys.readouterr().out
    with pytest.raises(KafkaException):
        hanging.commit_transaction(30)
    assert found("operator") == [("ok", "none is open on the cluster's topics")]
    delete_topics(access_to(broker.open, cluster_id))


def test_a_master_may_ask_whether_transactions_are_bounded(broker: SecuredBroker, topics_only: str) -> None:
    assert topics_only
    assert check_transaction_bound(broker.access_of("master"), 20) == []


@pytest.mark.parametrize("name", PEOPLE)
def test_nobody_deletes_records_or_a_topic_of_a_cluster(name: str, broker: SecuredBroker, topics_only: str) -> None:
    connection, log = AdminConnection(broker.access_of(name), 20), topic_name(topics_only, Topic.LOG)
    with pytest.raises(AccessRefused, match=rf"may not Delete topic '{log}'"):
        connection.delete_topics([log])
    with pytest.raises(AdministrationError):  # Who may not even Describe it, is told that nobody leads it.
        connection.delete_records(log, 0, 1)


@pytest.mark.parametrize("name", [name for name in PEOPLE if name != "master"])
def test_only_a_master_makes_topics(name: str, broker: SecuredBroker) -> None:
    with pytest.raises(AccessRefused, match=r"may not Create topic 'new\."):
        ensure_topics(ClusterAccess(broker.access_of(name), "new"), timeout_s=60)


# -- what is said of a refusal -----------------------------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture[str], code: ExitCode, arguments: list[str]) -> str:
    assert run(arguments) == code
    [line] = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("alice", {"sasl.username": "mallory"}, "does not accept User:mallory: "),
        ("alice", {"sasl.password": "${env:WRONG}"}, "does not accept User:alice: "),
        ("master", {"sasl.password": "${env:WRONG}"}, "does not accept User:master: "),
        ("auditor", {"sasl.oauthbearer.client.secret": "${env:WRONG}"}, "does not accept the user of these settings: "),
        ("expired", {}, "takes no connection by kafka.security.protocol"),
        ("alice", {"security.protocol": "PLAINTEXT"}, "ends the connection unheard"),
        ("alice", {"ssl.ca.location": ""}, "takes no connection by kafka.security.protocol"),
    ],
)
@pytest.mark.parametrize("command", ["topics", "master", "taskexecutor"])
def test_who_cannot_connect_is_told_why(
    command: str,
    name: str,
    changed: dict[str, str],
    says: str,
    broker: SecuredBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WRONG", "hush")
    monkeypatch.setattr(Session, "log_to_stderr", lambda *_: None)  # It is for a whole process.
    keys = {"bootstrap.servers": broker.address_of(name), **broker.options_of(name)} | {f"kafka.{key}": v for key, v in changed.items()}
    line = said(capsys, ExitCode.UNREACHABLE, options({key: value for key, value in keys.items() if value}, command))
    assert f"Kafka at {broker.address_of(name)} {says}" in line
    assert "hush" not in line


@pytest.mark.parametrize(
    ("may", "operation", "topic"),
    [((), "Read", Topic.REPLIES), ((Topic.REPLIES, Topic.LEADERSHIP), "Write", Topic.SUBMISSIONS)],
    ids=["no right at all", "reading alone"],
)
def test_who_may_not_submit_is_told_what_grants_it(
    may: tuple[Topic, ...], operation: str, topic: Topic, broker: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster_id = f"refused-{uuid.uuid4().hex[:12]}"
    ensure_topics(access_to(broker.open, cluster_id))
    groups = [right for right in rights_of(Grantee.CLIENT, cluster_id) if right.kind is ResourceKind.GROUP]
    reads = [Right(ResourceKind.TOPIC, topic_name(cluster_id, each), ("Read",)) for each in may]
    AdminConnection(KafkaAccess(broker.open)).grant([*groups, *reads], "User:nobody")
    graph = tmp_path / "noop.json"
    graph.write_text(json.dumps(NOOP), encoding="utf-8")
    keys = {"bootstrap.servers": broker.sasl, "cluster.id": cluster_id, **broker.options_of("nobody")}
    line = said(capsys, ExitCode.NEGATIVE, options(keys, "submit", str(graph)))
    assert f"User:nobody may not {operation} topic '{topic_name(cluster_id, topic)}' at {broker.sasl}" in line
    assert f"--cluster-id {cluster_id} topics --acls --apply --principal client=User:nobody" in line
    delete_topics(access_to(broker.open, cluster_id))
