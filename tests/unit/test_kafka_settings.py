"""Every Kafka client has the settings of its cluster and of its role; no secret is a value, and none is shown, logged or passed on."""

import ast
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.cli.session import Session
from eventflink.model import kafka_settings
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.kafka_settings import KafkaAccess, KafkaRole, client_settings, principal_of, settings_of_role
from eventflink.model.references import SecretMissing, resolve
from eventflink.model.secret_files import MAX_SECRET_BYTES
from eventflink.streams.kafka_options import java_settings, spark_options

KAFKA = "kafka.example:9093"
SECRET = "hush-hush"
CHILD = """
import sys
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.kafka_settings import client_settings
kafka = ClusterAccess.of_text(sys.argv[1]).kafka
print(client_settings(kafka)["sasl.password"], kafka.role)
"""
SOURCES = Path(kafka_settings.__file__).parents[1]


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text(SECRET, encoding="utf-8")
    return f"${{file:{path}}}"


def configured(**keys: Any) -> dict[str, str]:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in keys.items()}
    return build_configuration({"bootstrap.servers": KAFKA, **named}, "f").kafka


def test_every_client_of_the_sources_takes_its_address_from_the_one_place() -> None:
    """`bootstrap.servers` as a key of a dictionary is written nowhere else, but where the configuration is meant."""
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict) and any(isinstance(key, ast.Constant) and key.value == "bootstrap.servers" for key in node.keys)
    }
    of_configuration = {"cli/session.py", "session/finding.py", "testing/settings.py"}
    assert found - of_configuration == {"model/kafka_settings.py", "streams/kafka_options.py"}


def test_a_role_has_the_settings_of_all_and_over_them_its_own() -> None:
    settings = configured(
        sasl_username="all", taskmanager_sasl_username="worker", jobmanager_client_rack="r1", socket_keepalive_enable=True
    )
    common = {"sasl.username": "all", "socket.keepalive.enable": "true"}
    assert settings_of_role(settings, KafkaRole.CLIENT) == settings_of_role(settings, KafkaRole.REST) == common
    assert settings_of_role(settings, KafkaRole.TASKMANAGER) == common | {"sasl.username": "worker"}
    assert settings_of_role(settings, KafkaRole.JOBMANAGER) == common | {"client.rack": "r1"}


@pytest.mark.rule("L6")
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"kafka.sasl.password": SECRET}, "kafka.sasl.password: a secret is named here, not written"),
        ({"kafka.taskmanager.ssl.key.password": SECRET}, "kafka.taskmanager.ssl.key.password: a secret is named"),
        ({"kafka.sasl.oauthbearer.client.secret": SECRET}, "a secret is named"),
        ({"kafka.sasl.password": "${file:relative}"}, "the path of a file is absolute"),
        ({"kafka.sasl.password": "${provider:module:name}"}, "whom to ask for which secret is said so"),
        ({"kafka.sasl.username": "me-${env:X}"}, "a reference is the whole value"),
        ({"kafka.acks": "0"}, "kafka.acks: eventflink sets 'acks' itself"),
        ({"kafka.jobmanager.isolation.level": "read_uncommitted"}, "eventflink sets 'isolation.level' itself"),
        ({"kafka.Sasl": "x"}, "kafka.Sasl: not a name of a setting"),
        ({"kafka.client.id": "x" * 5000}, "longer than"),
        ({f"kafka.x{number}": "x" for number in range(101)}, "more than 100 keys"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts_and_without_the_secret(keys: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_configuration({"bootstrap.servers": KAFKA, **keys}, "f")
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)


def test_settings_for_no_cluster_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.client\.id needs bootstrap\.servers"):
        build_configuration({"kafka.client.id": "x"}, "f")


@pytest.mark.rule("L6")
def test_the_settings_of_one_kafka_go_to_no_other(secret: str) -> None:
    kafka = KafkaAccess(KAFKA, configured(security_protocol="SASL_SSL", sasl_username="me", sasl_password=secret), KafkaRole.TASKMANAGER)
    for own in (kafka, kafka.at(""), kafka.at(None), kafka.at(KAFKA)):
        assert client_settings(own)["sasl.password"] == SECRET
    elsewhere = kafka.at("elsewhere:9092")
    assert client_settings(elsewhere, {"linger.ms": 5}) == {"bootstrap.servers": "elsewhere:9092", "linger.ms": 5}
    assert spark_options(elsewhere) == {"kafka.bootstrap.servers": "elsewhere:9092"}
    assert elsewhere.role == KafkaRole.TASKMANAGER


def test_a_child_process_connects_as_its_parent_does_and_is_told_no_secret(secret: str) -> None:
    """By either way to tell one: an argument, and a message."""
    keys = {"bootstrap.servers": KAFKA, "kafka.sasl.password": secret, "kafka.sasl.username": "me", "security.cluster-secret": secret}
    access = build_configuration(keys, "f").access(KAFKA, KafkaRole.JOBMANAGER)
    assert SECRET not in repr(access)
    told = access.as_text()
    assert SECRET not in told
    assert ClusterAccess.of_text(told) == pickle.loads(pickle.dumps(access)) == access
    said = subprocess.run([sys.executable, "-c", CHILD, told], capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.split() == [SECRET, KafkaRole.JOBMANAGER]


@pytest.mark.parametrize("keys", [{}, {"kafka.client.rack": "r1"}], ids=["no keys", "keys of its own"])
def test_the_role_of_a_process_is_part_of_how_it_connects(keys: dict[str, str]) -> None:
    access = build_configuration({"bootstrap.servers": KAFKA, **keys}, "f").access(KAFKA, KafkaRole.TASKMANAGER)
    assert access.kafka == KafkaAccess(KAFKA, {name.removeprefix("kafka."): value for name, value in keys.items()}, KafkaRole.TASKMANAGER)


def test_how_a_cluster_is_reached_is_in_no_environment(secret: str) -> None:
    """What is not passed on is not known: nobody finds another's settings by a name."""
    before = dict(os.environ)
    overrides = {"bootstrap.servers": KAFKA, "kafka.sasl.password": secret, "security.cluster-secret": secret}
    assert Session(None, overrides, verbose=False, role=KafkaRole.REST).configuration.kafka
    assert dict(os.environ) == before


def test_a_secret_that_cannot_be_read_is_named_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN", SECRET)
    assert resolve("kafka.sasl.password", "${env:PLAIN}") == SECRET
    lines, large = tmp_path / "lines", tmp_path / "large"
    lines.write_text(f"{SECRET}\n", encoding="utf-8")
    large.write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    for place, says in (
        ("${env:MISSING}", "no variable 'MISSING'"),
        (f"${{file:{tmp_path}/missing}}", "cannot be read: No such file"),
        (f"${{file:{lines}}}", "ends with a line break"),
        (f"${{file:{large}}}", "more than"),
    ):
        with pytest.raises(SecretMissing) as caught:
            resolve("kafka.sasl.password", place)
        assert says in str(caught.value)
        assert SECRET not in str(caught.value)


class Vault:
    """An operator's own: what `${provider:…}` names."""

    asked: ClassVar[list[str]] = []

    def get(self, name: str) -> object:
        """Return what the test wants of a name."""
        self.asked.append(name)
        if name == "broken":
            raise RuntimeError(SECRET)
        return {"kafka/master": SECRET, "empty": "", "number": 7}.get(name)


PROVIDER = f"{__name__}:Vault"


def test_a_provider_is_asked_for_a_secret_and_not_for_each_client_again() -> None:
    reference = f"${{provider:{PROVIDER}:kafka/master}}"
    kafka = KafkaAccess(
        KAFKA, configured(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="me", sasl_password=reference)
    )
    assert SECRET not in repr(kafka)
    assert [client_settings(kafka)["sasl.password"] for _ in range(3)] == [SECRET] * 3
    assert Vault.asked == ["kafka/master"]
    with pytest.raises(SecretMissing, match="Spark reads"):
        spark_options(kafka)


@pytest.mark.parametrize(
    ("name", "says"),
    [("none", "has no secret 'none'"), ("empty", "has no secret"), ("number", "returned a int"), ("broken", "raised RuntimeError")],
)
def test_what_a_provider_does_not_have_is_told_without_what_it_said(name: str, says: str) -> None:
    with pytest.raises(SecretMissing, match=rf"^kafka\.sasl\.password: {re.escape(PROVIDER)} {says}") as caught:
        resolve("kafka.sasl.password", f"${{provider:{PROVIDER}:{name}}}")
    assert SECRET not in str(caught.value)


def test_spark_gets_the_same_settings_by_the_names_of_java_and_references_in_place_of_secrets(secret: str) -> None:
    kafka = KafkaAccess(
        KAFKA,
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": 'm"e',
            "sasl.password": secret,
            "ssl.ca.location": "/etc/ca.pem",
            "ssl.key.password": "${env:KEY_PASSWORD}",
            "socket.nagle.disable": "true",
        },
    )
    options = spark_options(kafka)
    directory, _, name = secret.removeprefix("${file:").removesuffix("}").rpartition("/")
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.scram.ScramLoginModule required username="m\\"e" password="${{directory:{directory}:{name}}}";'
    )
    assert options["kafka.ssl.truststore.certificates"] == "${directory:/etc:ca.pem}"
    assert options["kafka.ssl.key.password"] == "${env:KEY_PASSWORD}"
    assert options["kafka.config.providers"] == "env,directory"
    assert not any("nagle" in key for key in options)
    assert SECRET not in str(options)


@pytest.mark.parametrize(
    ("settings", "has"),
    [
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", "sasl.username": "u"}, {"sasl.mechanism": "PLAIN"}),
        (
            {"security.protocol": "ssl", "ssl.certificate.location": "/c/c.pem", "ssl.key.location": "/c/k.pem"},
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "${directory:/c:k.pem}", "security.protocol": "SSL"},
        ),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.client.id": "me"},
            {"sasl.mechanism": "OAUTHBEARER"},
        ),
        ({"ssl.endpoint.identification.algorithm": "none"}, {"ssl.endpoint.identification.algorithm": ""}),
    ],
)
def test_each_way_to_authenticate_has_its_names_in_java(settings: dict[str, str], has: dict[str, str]) -> None:
    assert java_settings(settings).items() >= has.items()


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "ssl"}, "User:ANONYMOUS"),
        ({"security.protocol": "ssl", "ssl.certificate.location": "/c"}, ""),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}, "User:me"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "${env:MISSING}"}, ""),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER", "sasl.username": "me"}, ""),
    ],
)
def test_a_principal_is_named_where_it_is_known(settings: dict[str, str], principal: str) -> None:
    assert principal_of(settings) == principal


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("kafka.no.such.setting=x", 'kafka.*: No such configuration property: "no.such.setting"'),
        ("kafka.ssl.ca.location=/missing.pem", "kafka.*:"),
        ("kafka.sasl.password=${env:MISSING}", "kafka.sasl.password: the environment has no variable 'MISSING'"),
    ],
)
def test_settings_with_which_no_client_can_be_made_are_a_mistake_of_the_user(
    override: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    protocol = ["-D", "kafka.security.protocol=SASL_SSL", "-D", "kafka.sasl.mechanism=PLAIN", "-D", "kafka.sasl.username=me"]
    assert run(["--bootstrap", "127.0.0.1:9", *protocol, "-D", override, "topics"]) == ExitCode.USAGE
    [line] = capsys.readouterr().err.splitlines()
    assert says in line


def test_the_command_shows_settings_and_hides_what_refers_to_a_secret(secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = ["--bootstrap", KAFKA, "-D", f"kafka.sasl.password={secret}", "-D", "kafka.sasl.username=me"]
    assert run([*overrides, "config", "--json"]) == ExitCode.OK
    [row] = [row for row in json.loads(capsys.readouterr().out) if row["key"] == "kafka.*"]
    assert (row["value"], row["source"]) == ({"sasl.password": "******", "sasl.username": "me"}, "-D")
    assert run([*overrides, "config", "kafka.sasl.username"]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[0] == "kafka.*: sasl.password=******, sasl.username=me"
