"""Each kind of receiver gets what it understands, over real connections; what it answers is told from what it refuses."""

import contextlib
import dataclasses
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eventflink.blob.tls import TlsFiles
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.notify.document import NotificationDocument
from eventflink.notify.notification import Notification
from eventflink.notify.senders import DeliveryFailed, sender_for
from tests.support.ports import find_free_ports
from tests.support.tls_files import Certificates

ACCESS = ClusterAccess(KafkaAccess("localhost:1"), "cell")
KEY = "cell/7.0/rule/nightly@1800"
TOLD = Notification(KEY, 7, ("me",), "job", "it failed: ü", {"key": KEY, "text": "it failed: ü"})


def send(told: Notification = TOLD, **receiver: Any) -> None:
    document = {"receivers": {"me": receiver}, "rules": {"rule": {"events": ["job-failed"], "receivers": ["me"]}}}
    sender_for(NotificationDocument.model_validate(document).receivers["me"], ACCESS)(told)


class Web(ThreadingHTTPServer):
    """Answers with a status, and keeps what it was sent."""

    def __init__(self, status: int = 200, location: str = "") -> None:
        self.status, self.location = status, location
        self.requests: list[tuple[dict[str, str], Any]] = []
        super().__init__(("localhost", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests.append((dict(self.headers), None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Mail(socketserver.ThreadingTCPServer):
    """A mail server that takes mails, or no recipient."""

    allow_reuse_address = True

    def __init__(self, *, takes: bool = True, security: str = "none", tls: TlsFiles | None = None) -> None:
        self.takes, self.security = takes, security
        self.mails: list[bytes] = []
        self.passwords = 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if tls is not None and tls.certificate is not None:
            self.context.load_cert_chain(tls.certificate, tls.key)
        super().__init__(("localhost", 0), _MailHandler)


class _MailHandler(socketserver.StreamRequestHandler):
    server: Mail

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # One that does not trust the certificate goes.
            if self.server.security == "tls":
                self._encrypt()
            self._say("220 ready")
            self._converse()

    def _encrypt(self) -> None:
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.setup()

    def _converse(self) -> None:
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word == b"EHLO":
                self._say("250-fine\r\n250-STARTTLS\r\n250 AUTH PLAIN")
            elif word == b"STARTTLS":
                self._say("220 go on")
                self._encrypt()
            elif word == b"AUTH":
                self.server.passwords += 1
                self._say("235 welcome")
            elif word == b"DATA":
                self._say("354 go on")
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                self._say("250 taken")
            elif word == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("550 nobody here" if word == b"RCPT" and not self.server.takes else "250 fine")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_http_gets_the_document_with_its_key_and_headers_from_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Bearer abc")
    with serving(Web()) as web:
        send(type="http", url=web.url, headers={"Authorization": f"${{file:{tmp_path / 'token'}}}"})
    [(headers, body)] = web.requests
    assert body == TOLD.document
    assert (headers["Idempotency-Key"], headers["Authorization"]) == (TOLD.key, "Bearer abc")


def test_a_key_that_a_header_cannot_have_is_written_as_in_a_url() -> None:
    with serving(Web()) as web:
        send(dataclasses.replace(TOLD, key="cell/7.0/ü\n"), type="http", url=web.url)
    assert web.requests[0][0]["Idempotency-Key"] == "cell/7.0/%C3%BC%0A"


def test_slack_gets_the_text_at_an_address_that_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Web()) as web:
        monkeypatch.setenv("SLACK", web.url)
        send(type="slack", url="${env:SLACK}")
    assert [body for _, body in web.requests] == [{"text": TOLD.text}]


@pytest.mark.parametrize(("status", "is_refused"), [(400, True), (422, True), (401, False), (404, False), (429, False), (503, False)])
def test_an_answer_refuses_what_is_sent_or_is_another_time_another_one(status: int, *, is_refused: bool) -> None:
    with serving(Web(status)) as web, pytest.raises(DeliveryFailed, match=str(status)) as caught:
        send(type="http", url=web.url)
    assert caught.value.is_refused is is_refused


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "says"), [("http://me:secret@other:{port}/token", "at other:{port}; let url"), ("/token", "on the same host")]
)
def test_a_redirect_is_followed_nowhere_and_names_the_host_alone(status: int, location: str, says: str) -> None:
    with serving(Web()) as other:
        place, says = (each.replace("{port}", str(other.server_port)) for each in (location, says))
        with serving(Web(status, place)) as web, pytest.raises(DeliveryFailed, match=says) as caught:
            send(type="http", url=web.url, headers={"X-Tenant": "a"})
    assert len(web.requests) == 1
    assert not other.requests
    assert not caught.value.is_refused
    assert not {"secret", "token"} & set(str(caught.value).replace("/", " ").split())


def test_nobody_there_is_no_refusal_and_no_error_has_the_address() -> None:
    [port] = find_free_ports(1)
    for kind in ("http", "slack"):
        with pytest.raises(DeliveryFailed) as caught:
            send(type=kind, url=f"http://localhost:{port}/token")
        assert not caught.value.is_refused
        assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["", "file:///etc/passwd", "https://me:hunter2@host/", "https://me:hunter2/x@host/", "https://[hunter2", "https://host:hunter2#x"],
)
def test_a_secret_that_is_not_there_or_no_address_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    if value:
        monkeypatch.setenv("SLACK", value)
    with pytest.raises(DeliveryFailed, match=r"^url: ") as caught:
        send(type="slack", url="${env:SLACK}")
    assert not caught.value.is_refused
    assert not value or value not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_gets_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "alerts", tmp_path / "alerts", "-"):
        send(type="file", path=str(path))
    assert [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()] == [TOLD.document] * 2
    assert json.loads(capsys.readouterr().out) == TOLD.document
    with pytest.raises(DeliveryFailed, match="cannot be written"):
        send(type="file", path=str(tmp_path / "no" / "folder"))


def test_a_mail_has_the_text_and_an_id_that_follows_from_the_key() -> None:
    with serving(Mail()) as mail:
        for _ in range(2):
            send(type="mail", host="localhost", port=mail.server_address[1], security="none", sender="a@x.org", to=["b@x.org", "c@x.org"])
    first, second = (message_from_bytes(each, policy=default) for each in mail.mails)
    assert first["Message-ID"] == second["Message-ID"]
    assert (first["Subject"], first["To"]) == (TOLD.text, "b@x.org, c@x.org")
    assert first.get_content().startswith(TOLD.text)


def test_a_mail_that_no_recipient_takes_is_refused_and_a_server_that_is_away_is_not() -> None:
    with serving(Mail(takes=False)) as mail, pytest.raises(DeliveryFailed) as caught:
        send(type="mail", host="localhost", port=mail.server_address[1], security="none", sender="a@x.org", to=["b@x.org"])
    assert caught.value.is_refused
    with pytest.raises(DeliveryFailed) as caught:
        send(type="mail", host="localhost", port=find_free_ports(1)[0], sender="a@x.org", to=["b@x.org"])
    assert not caught.value.is_refused


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates") / "mail")


@pytest.mark.parametrize("security", ["tls", "starttls"])
@pytest.mark.parametrize(("certificate", "is_trusted"), [("server", True), ("server", False), ("elsewhere", True)])
def test_a_password_goes_to_a_mail_server_alone_that_proves_who_it_is(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, security: str, certificate: str, *, is_trusted: bool
) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca) if is_trusted else "")
    place: dict[str, Any] = {"security": security, "user": "me", "password": "${env:PASSWORD}", "sender": "a@x.org", "to": ["b@x.org"]}
    is_proven = is_trusted and certificate == "server"
    outcome = contextlib.nullcontext() if is_proven else pytest.raises(DeliveryFailed, match="certificate does not hold: ")
    with serving(Mail(security=security, tls=getattr(certificates, certificate))) as mail, outcome:
        send(type="mail", host="localhost", port=mail.server_address[1], **place)
    assert (len(mail.mails), mail.passwords) == (is_proven, is_proven)
