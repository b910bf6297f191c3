"""A real broker with authentication and authorisation on, and principals of each kind that can connect to it.

Listeners: SASL over TLS (PLAIN, SCRAM, OAUTHBEARER), mutual TLS, and the embedded broker's own without either, whose ANONYMOUS is the super
user. Tokens come from a token endpoint over HTTP, are not signed, and are checked by Kafka's validator of such.
"""

import base64
import contextlib
import datetime as dt
import http.server
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.model.kafka_settings import KafkaAccess
from tests.support.ports import find_free_ports

_MODULES = "org.apache.kafka.common.security"
_TIMEOUT_S = 120


@dataclass(frozen=True)
class SecuredBroker:
    """Where it listens, and the keys below `kafka.` of each principal, by name."""

    open: str
    """Without authentication: the super user."""
    sasl: str
    tls: str
    settings: dict[str, dict[str, str]]
    passwords: dict[str, str]

    def address_of(self, name: str) -> str:
        """Return the listener of a principal."""
        return self.tls if self.settings[name]["security.protocol"] == "SSL" else self.sasl

    def access_of(self, name: str) -> KafkaAccess:
        """Return how somebody connects."""
        return KafkaAccess(self.address_of(name), self.settings[name])

    def options_of(self, name: str, role: str = "") -> dict[str, str]:
        """Return the configuration of a principal, as keys of a role."""
        return {f"kafka.{role}{key}": value for key, value in self.settings[name].items()}


class _TokenEndpoint(http.server.BaseHTTPRequestHandler):
    clients: ClassVar[dict[str, str]] = {}

    def do_POST(self) -> None:
        name, _, password = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
        self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.clients.get(name) == password
        now_s = int(time.time())
        claims = {"sub": name, "iat": now_s, "exp": now_s + 3600}
        token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims))
        answer = {"access_token": f"{token}.", "token_type": "bearer", "expires_in": 3600} if is_known else {"error": "invalid_client"}
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_arguments: object) -> None:
        return


def _write(directory: Path, name: str, issued: trustme.LeafCert) -> tuple[Path, Path]:
    """Write a certificate and its key, as PKCS 8: Kafka's Java takes no other."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    private = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, key


@contextlib.contextmanager
def secured_broker(directory: Path) -> Iterator[SecuredBroker]:
    """Start a broker that knows `alice`, `operator`, `notifier` and `nobody` (PLAIN), `master` (SCRAM), `worker` and `expired` (TLS).

    And `auditor` (OAUTHBEARER).
    """
    passwords = {name: f"secret-of-{name}" for name in ("alice", "nobody", "notifier", "operator", "master", "auditor")}
    for name, password in passwords.items():
        (directory / f"{name}.password").write_text(password, encoding="ascii")
    authority = trustme.CA()
    ca = directory / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    certificates = {
        "worker": _write(directory, "worker", authority.issue_cert("worker.example", common_name="worker")),
        "expired": _write(directory, "expired", authority.issue_cert("old.example", common_name="expired", not_after=past)),
    }
    certificate, key = _write(directory, "broker", authority.issue_cert("127.0.0.1", "localhost"))
    store = directory / "broker-store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    _TokenEndpoint.clients = {"auditor": passwords["auditor"]}
    endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _TokenEndpoint)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    sasl_port, tls_port = find_free_ports(2)
    listeners = f"SASL_SSL://127.0.0.1:{sasl_port},SSL://127.0.0.1:{tls_port}"
    plain = "".join(f' user_{name}="{passwords[name]}"' for name in ("alice", "nobody", "notifier", "operator"))
    further = {
        "broker.session.timeout.ms": "60000",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required{plain};",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
    }

    def sasl(name: str, mechanism: str) -> dict[str, str]:
        common = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(ca), "sasl.mechanism": mechanism}
        password = f"${{file:{directory}/{name}.password}}"
        if mechanism != "OAUTHBEARER":
            return common | {"sasl.username": name, "sasl.password": password}
        url = f"http://127.0.0.1:{endpoint.server_port}/token"
        own = {"method": "oidc", "client.id": name, "client.secret": password, "token.endpoint.url": url}
        return common | {f"sasl.oauthbearer.{key}": value for key, value in own.items()}

    settings = {
        "alice": sasl("alice", "PLAIN"),
        "notifier": sasl("notifier", "PLAIN"),
        "nobody": sasl("nobody", "PLAIN"),
        "operator": sasl("operator", "PLAIN"),
        "master": sasl("master", "SCRAM-SHA-512"),
        "auditor": sasl("auditor", "OAUTHBEARER"),
    }
    for name, (certificate, key) in certificates.items():
        files = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        settings[name] = {"security.protocol": "SSL", "ssl.ca.location": str(ca), **files}
    with EmbeddedBroker(directory / "broker", further=further) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion("master", scram, passwords["master"].encode())
        for made in admin.alter_user_scram_credentials([wanted]).values():
            made.result(_TIMEOUT_S)
        yield SecuredBroker(broker.bootstrap_servers, f"127.0.0.1:{sasl_port}", f"127.0.0.1:{tls_port}", settings, passwords)
    endpoint.shutdown()
