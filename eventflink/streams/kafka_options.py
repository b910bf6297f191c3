"""How Spark connects to Kafka: the settings for it, by the names of Kafka's Java clients, as options of a source or sink.

Spark's plans, logs and pages hold the options, so a secret is a reference there as well: Kafka's own clients resolve it, where they run.
A setting that has no name in Java is left out; what tunes librdkafka does not concern Spark.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from eventflink.model.kafka_settings import KafkaAccess, mechanism_of
from eventflink.model.references import SecretMissing, reference_of

_PROVIDERS: Final = {
    "config.providers": "env,directory",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "config.providers.directory.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}
_SECURITY: Final = "org.apache.kafka.common.security"
_SAME: Final = (
    "client.dns.lookup",
    "client.rack",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    "socket.connection.setup.timeout.ms",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
)
"""What both call alike."""


def spark_options(kafka: KafkaAccess) -> dict[str, str]:
    """Return the options of a Kafka source or sink of Spark that say how to connect."""
    return {f"kafka.{name}": value for name, value in {"bootstrap.servers": kafka.bootstrap, **java_settings(kafka.settings)}.items()}


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings by the names of Kafka's Java clients; references are resolved by these."""
    if not settings:
        return {}
    found = {name: _value(settings[name]) for name in _SAME if name in settings}
    if "security.protocol" in settings:
        found["security.protocol"] = settings["security.protocol"].upper()
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if "ssl.ca.location" in settings:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _content(settings["ssl.ca.location"])}
    if "ssl.certificate.location" in settings and "ssl.key.location" in settings:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.certificate.chain"] = _content(settings["ssl.certificate.location"])
        found["ssl.keystore.key"] = _content(settings["ssl.key.location"])
    if settings.get("security.protocol", "").lower().startswith("sasl_"):
        found |= _sasl(settings)
    return found | _PROVIDERS


def _sasl(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = mechanism_of(settings)
    found = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        handler = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
        named = (("clientId", "client.id"), ("clientSecret", "client.secret"), ("scope", "scope"))
        options = {java: settings[f"sasl.oauthbearer.{name}"] for java, name in named if f"sasl.oauthbearer.{name}" in settings}
        module = "oauthbearer.OAuthBearerLoginModule"
        found["sasl.login.callback.handler.class"] = handler
    elif mechanism == "GSSAPI":
        return found
    else:
        options = {java: settings[f"sasl.{java}"] for java in ("username", "password") if f"sasl.{java}" in settings}
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    stated = "".join(f' {name}="{_quoted(_value(value))}"' for name, value in options.items())
    return found | {"sasl.jaas.config": f"{_SECURITY}.{module} required{stated};"}


def _value(value: str) -> str:
    """Return a value as it is, or the reference to it as Kafka's Java clients write it; raises `SecretMissing` where they have none."""
    kind, place = reference_of(value)
    if kind == "provider":
        raise SecretMissing("kafka.*: Spark reads ${file:/path} and ${env:NAME} alone; what refers to a provider, streams cannot have")
    return _content(place) if kind == "file" else value


def _content(path: str) -> str:
    """Return the reference to what a file holds."""
    place = PurePosixPath(path)
    return f"${{directory:{place.parent}:{place.name}}}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
