"""Why Kafka takes no connection or refuses an operation, as one sentence: who is refused what, and the command that would grant it.

librdkafka tells a failed authentication to a callback alone, while the call that waits for it runs into its timeout: so who got no answer
asks `find_refusal`. The rule: nothing here is needed as long as Kafka answers.
"""

import logging
import shlex
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from eventflink.log.access_rights import NOTIFY_GROUPS, Grantee, find_grant
from eventflink.model.kafka_settings import KafkaAccess, KafkaRole, client_settings, principal_of
from eventflink.model.references import SecretMissing

_PROBE_TIMEOUT_S: Final = 3.0
_PLAIN_PROBE_TIMEOUT_S: Final = 0.5
"""Of a client without settings: all that it can learn is that others are wanted, and that is said at once."""
_ASK_S: Final = 0.1
_DENIED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_ROLES: Final = {KafkaRole.JOBMANAGER: Grantee.MASTER, KafkaRole.TASKMANAGER: Grantee.TASKEXECUTOR}
"""Whose rights a process needs; the others need those of clients."""
_AUTHENTICATION: Final = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)  # noqa: SLF001 - its public name
_UNSOUND: Final = (KafkaError._SSL, KafkaError._TRANSPORT)  # noqa: SLF001 - their public names
_ALL_DOWN: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - its public name
_UNANSWERED: Final = "in state APIVERSION_QUERY"
"""What librdkafka logs when somebody listens and closes before a word of Kafka's protocol."""


def find_fault(kafka: KafkaAccess) -> str:
    """Return why no client can be made with the settings for this Kafka, which is not asked; empty: one can."""
    try:
        AdminClient(client_settings(kafka, {"log_level": 0}))
    except SecretMissing as error:
        return str(error)
    except KafkaException as error:
        return f"kafka.*: {error.args[0].str()}"
    return ""


def is_denied(error: KafkaError) -> bool:
    """Tell whether Kafka knows who asks, and refuses."""
    return error.code() in _DENIED


def explain(
    error: KafkaError,
    kafka: KafkaAccess,
    operation: str,
    topic: str = "",
    *,
    group: str = "",
    transactional_id: str = "",
) -> str:
    """Return what an error says; of a refusal who may not do what, and what would grant it.

    Args:
        error: of a client, a record, or its delivery.
        kafka: the Kafka that said it.
        operation: what was to be done, as Kafka names it: `Read`, `Write`, `Describe`.
        topic: its full name; empty: the cluster itself.
        group: that of the client, where it is not one of those that each role has.
        transactional_id: that of the client.

    """
    if not is_denied(error):
        text: str = error.str()
        return text
    principal = principal_of(kafka.settings)
    who, grantee = principal or "the user of these settings", principal or "User:NAME"
    grant = find_grant(topic, operation, _ROLES.get(kafka.role, Grantee.CLIENT))
    match error.code():
        case KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            grant, operation, what = None, "Write", _name("transactional id", transactional_id, topic)
            option = f"--transactional-id {shlex.quote(transactional_id or 'ID')}"
        case KafkaError.GROUP_AUTHORIZATION_FAILED:
            # Without a group of its own a client has one that comes with the role which may do this to the topic.
            if group:
                grant = (group.partition(NOTIFY_GROUPS)[0], Grantee.NOTIFIER) if NOTIFY_GROUPS in group else None
            operation, what = "Read", _name("group", group, topic)
            option = f"--group {shlex.quote(group or 'ID')}"
        case KafkaError.CLUSTER_AUTHORIZATION_FAILED if operation != "Write" or not topic:
            grant, what, option = None, "the Kafka cluster", "--cluster"
        case _:  # An idempotent producer that may write to no topic at all is refused the cluster.
            what, option = (f"topic '{topic}'", f"--topic {topic}") if topic else ("the Kafka cluster", "--cluster")
    if grant is not None:
        cluster_id, role = grant
        command = f"eventflink --bootstrap {kafka.bootstrap} --cluster-id {cluster_id} topics --acls --apply --principal {role}={grantee}"
    else:
        command = f"kafka-acls.sh --bootstrap-server {kafka.bootstrap} --add --allow-principal {grantee} --operation {operation} {option}"
    return f"{who} may not {operation} {what} at {kafka.bootstrap}; what grants it is: {command}"


def _name(kind: str, name: str, topic: str) -> str:
    return f"{kind} '{name}'" if name else f"a {kind} for topic '{topic}'"


def find_refusal(kafka: KafkaAccess) -> str:
    """Return why Kafka takes no connection of ours, in up to three seconds; empty: it takes them, or nobody is there."""
    errors: list[KafkaError] = []
    log, heard = logging.Logger("kafka-probe"), _Heard()  # noqa: LOG001 - of this call alone
    log.addHandler(heard)
    client = AdminClient(client_settings(kafka, {"error_cb": errors.append}), logger=log)
    deadline = time.monotonic() + (_PROBE_TIMEOUT_S if kafka.settings else _PLAIN_PROBE_TIMEOUT_S)
    said = ""
    while not said and time.monotonic() < deadline and not any(error.code() == _ALL_DOWN for error in errors):
        try:
            client.list_topics(timeout=_ASK_S)
        except KafkaException:
            client.poll(0)
        else:
            return ""
        said = next(filter(None, (_explain_connection(error, kafka) for error in errors)), "")
    if not said and any(_UNANSWERED in line for line in heard.lines):
        protocol = kafka.settings.get("security.protocol", "plaintext").upper()
        said = (
            f"Kafka at {kafka.bootstrap} ends the connection unheard: its listener speaks another kafka.security.protocol than {protocol}"
        )
    return said


class _Heard(logging.Handler):
    """Keeps what librdkafka logs: it tells of connections that were closed at once nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())


def _explain_connection(error: KafkaError, kafka: KafkaAccess) -> str:
    if error.code() in _AUTHENTICATION:
        who = principal_of(kafka.settings) or "the user of these settings"
        return f"Kafka at {kafka.bootstrap} does not accept {who}: {error.str()}"
    if error.code() in _UNSOUND and "ssl" in error.str().lower():
        return f"Kafka at {kafka.bootstrap} takes no connection by kafka.security.protocol and what belongs to it: {error.str()}"
    return ""
