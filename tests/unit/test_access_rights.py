"""Who may do what to Kafka: each topic has who writes and reads it, nobody may do more than the pages say, a refusal names its grant."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.topics import Topic
from eventflink.log.access_rights import Grantee, ResourceKind, find_grant, rights_of
from eventflink.log.refusals import explain, find_refusal
from eventflink.model.kafka_settings import KafkaAccess, KafkaRole
from eventflink.streams.kafka_sink import KafkaSink
from eventflink.streams.sink_protocol import KafkaSinkSettings

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


def may(role: Grantee, operation: str) -> set[str]:
    """Return to which topics a role may do this."""
    return {
        right.name.removeprefix("c.")
        for right in rights_of(role, "c")
        if right.kind is ResourceKind.TOPIC and operation in right.operations and not right.is_prefix
    }


def test_each_topic_has_who_writes_and_who_reads_it() -> None:
    written, read = ({topic for role in Grantee for topic in may(role, operation)} for operation in ("Write", "Read"))
    assert written == set(Topic)
    assert read == set(Topic) - {Topic.DEAD_LETTERS} | may(Grantee.AUDITOR, "Read")


@pytest.mark.rule("L6")
def test_only_masters_write_what_masters_say() -> None:
    for topic in (Topic.LOG, Topic.DEPLOYMENTS, Topic.REPLIES, Topic.LEADERSHIP, Topic.SNAPSHOTS, Topic.DEAD_LETTERS):
        assert [role for role in Grantee if topic in may(role, "Write")] == [Grantee.MASTER], topic
    assert may(Grantee.AUDITOR, "Write") == may(Grantee.NOTIFIER, "Write") == set()
    assert may(Grantee.TASKEXECUTOR, "Write") == {Topic.TASKMANAGERS, Topic.HEARTBEATS}
    assert may(Grantee.OPERATOR, "Write") == may(Grantee.CLIENT, "Write") == {Topic.SUBMISSIONS, Topic.COMMANDS}


def test_only_who_needs_it_may_do_something_to_kafka_itself_or_to_transactions_of_others() -> None:
    """Each master looks up whether brokers bound transactions; an operator ends one that hangs."""
    of_all = [(role, right) for role in Grantee for right in rights_of(role, "c") if right.name in ("kafka-cluster", "*")]
    assert {(role, str(right.kind)): set(right.operations) for role, right in of_all} == {
        (Grantee.MASTER, "Cluster"): {"DescribeConfigs"},
        (Grantee.OPERATOR, "Cluster"): {"Describe", "DescribeConfigs", "Alter"},
        (Grantee.OPERATOR, "TransactionalId"): {"Describe", "Write"},
    }


def test_records_of_the_log_are_deleted_only_where_that_is_configured() -> None:
    assert not any(may(role, "Delete") for role in Grantee)
    deletes = {right.name for right in rights_of(Grantee.MASTER, "c", trims_log=True) if "Delete" in right.operations}
    assert deletes == {"c.log", "c.edge."}


def test_the_topics_of_a_cluster_whose_id_begins_alike_are_not_reached() -> None:
    prefixes = [right for role in Grantee for right in rights_of(role, "c") if right.is_prefix]
    assert {right.name for right in prefixes} == {"c.edge.", "c/", "c.notify.", "eventflink-"}


def test_the_page_says_who_may_do_what() -> None:
    """The table of docs/operating.md, row by row."""
    rows = re.findall(
        r"^\| `([a-z-]+)` \| \d+[^|]* \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", OPERATING.read_text(encoding="utf-8"), re.MULTILINE
    )
    names = {"client": Grantee.CLIENT, "auditor": Grantee.AUDITOR, "TaskExecutor": Grantee.TASKEXECUTOR, "master": Grantee.MASTER}
    names["notifier"] = Grantee.NOTIFIER
    said = {
        topic: ({r for n, r in names.items() if n in writes}, {r for n, r in names.items() if n in reads}) for topic, writes, reads in rows
    }
    others = [role for role in Grantee if role is not Grantee.OPERATOR]
    assert said == {str(t): ({r for r in others if t in may(r, "Write")}, {r for r in others if t in may(r, "Read")}) for t in Topic}


@pytest.mark.parametrize(
    ("topic", "operation", "grant"),
    [
        ("c.submissions", "Write", ("c", Grantee.CLIENT)),
        ("a.b.log", "Write", ("a.b", Grantee.MASTER)),
        ("c.log", "Read", ("c", Grantee.CLIENT)),
        ("c.dead-letters", "Read", ("c", Grantee.AUDITOR)),
        ("c.deployments", "Read", ("c", Grantee.TASKEXECUTOR)),
        ("c.edge.job.reader.input", "Write", ("c", Grantee.TASKEXECUTOR)),
        ("c.log", "AlterConfigs", None),
        ("orders", "Read", None),
    ],
)
def test_a_missing_right_has_a_role(topic: str, operation: str, grant: tuple[str, Grantee] | None) -> None:
    assert find_grant(topic, operation) == grant


@pytest.mark.parametrize(
    ("topic", "operation", "own", "role"),
    [
        ("c.log", "Read", Grantee.MASTER, Grantee.MASTER),
        ("c.log", "Read", Grantee.TASKEXECUTOR, Grantee.CLIENT),
        ("c.submissions", "Write", Grantee.MASTER, Grantee.CLIENT),
        ("c.heartbeats", "Write", Grantee.MASTER, Grantee.MASTER),
        ("c.edge.job.reader.input", "Write", Grantee.MASTER, Grantee.TASKEXECUTOR),
    ],
)
def test_a_missing_right_is_granted_to_the_role_of_who_lacks_it_if_that_has_it(
    topic: str, operation: str, own: Grantee, role: Grantee
) -> None:
    assert find_grant(topic, operation, own) == ("c", role)


@pytest.mark.parametrize(("process", "role"), [(KafkaRole.JOBMANAGER, "master"), (KafkaRole.REST, "client"), (KafkaRole.CLIENT, "client")])
def test_a_process_says_which_role_of_its_own_lacks_a_right(process: KafkaRole, role: str) -> None:
    """A master that was told to become a client would also be let write submissions, and lack the next right."""
    kafka, denied = KafkaAccess("k:1", role=process), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert explain(denied, kafka, "Read", "c.log").endswith(f"topics --acls --apply --principal {role}=User:ANONYMOUS")
    assert explain(denied, kafka, "Read", "c.deployments").endswith("--principal taskexecutor=User:ANONYMOUS")


GROUP, IDS, CLUSTER = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


@pytest.mark.parametrize(
    ("code", "operation", "topic", "names", "says", "granted"),
    [
        (GROUP, "Write", "orders", {"group": "c/j"}, "Read group 'c/j'", "--operation Read --group c/j"),
        (GROUP, "Read", "orders", {}, "Read a group for topic 'orders'", "--operation Read --group ID"),
        (GROUP, "Read", "c.log", {}, "Read a group for topic 'c.log'", "--principal client=User:ANONYMOUS"),
        (IDS, "Write", "orders", {"transactional_id": "a b"}, "Write transactional id 'a b'", "--operation Write --transactional-id 'a b'"),
        (IDS, "Write", "c.log", {}, "Write a transactional id for topic 'c.log'", "--operation Write --transactional-id ID"),
        (CLUSTER, "Write", "orders", {}, "Write topic 'orders'", "--operation Write --topic orders"),
        (CLUSTER, "Write", "c.log", {}, "Write topic 'c.log'", "--principal master=User:ANONYMOUS"),
        (CLUSTER, "Create", "c.log", {}, "Create the Kafka cluster", "--operation Create --cluster"),
        (CLUSTER, "Alter", "", {}, "Alter the Kafka cluster", "--operation Alter --cluster"),
    ],
)
def test_what_is_refused_is_what_the_command_grants(
    code: int, operation: str, topic: str, names: dict[str, Any], says: str, granted: str
) -> None:
    said = explain(KafkaError(code), KafkaAccess("k:1"), operation, topic, **names)
    assert said.startswith(f"User:ANONYMOUS may not {says} at k:1; what grants it is: ")
    assert said.endswith(granted)


def test_a_sink_names_the_group_and_the_transactional_id_that_it_may_not_use() -> None:
    sink = KafkaSink(KafkaSinkSettings(KafkaAccess("k:1"), "orders", "c/job/sink/0", 1, 1_000, "/nowhere"))
    assert str(sink._explain(KafkaError(GROUP), 1)).endswith("--operation Read --group c/job/sink/0")
    assert str(sink._explain(KafkaError(IDS), 1)).endswith("--operation Write --transactional-id c/job/sink/0")


def test_a_refusal_is_one_sentence_that_names_who_what_and_the_command() -> None:
    kafka = KafkaAccess("k:1", {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "alice"})
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert explain(denied, kafka, "Write", "c.submissions") == (
        "User:alice may not Write topic 'c.submissions' at k:1; what grants it is: "
        "eventflink --bootstrap k:1 --cluster-id c topics --acls --apply --principal client=User:alice"
    )
    assert explain(denied, kafka, "Read", "orders").endswith("--allow-principal User:alice --operation Read --topic orders")
    assert explain(denied, KafkaAccess("k:2"), "Read", "orders").startswith("User:ANONYMOUS may not Read topic 'orders' at k:2")
    assert explain(KafkaError(KafkaError._MSG_TIMED_OUT), kafka, "Write", "c.log") == "Local: Message timed out"


def test_nobody_is_blamed_where_nobody_answers() -> None:
    assert find_refusal(KafkaAccess("127.0.0.1:9")) == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--apply"], "belong to --acls"),
        (["--acls", "--apply"], "to whom?"),
        (["--acls", "--principal", "queen=User:me"], "is not of the form ROLE=User:NAME"),
        (["--acls", "--principal", "client=me"], "is not of the form ROLE=User:NAME"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--bootstrap", "127.0.0.1:9", "topics", *arguments]) == ExitCode.USAGE
    [line] = capsys.readouterr().err.splitlines()
    assert says in line


def test_rights_are_printed_without_asking_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--cluster-id", "c", "topics", "--acls", "--json"]) == ExitCode.OK
    rows = json.loads(capsys.readouterr().out)
    assert {row["role"] for row in rows} == set(Grantee)
    assert run(["--cluster-id", "c", "topics", "--acls", "--principal", "client=User:alice"]) == ExitCode.OK
    assert "User:alice" in capsys.readouterr().out
