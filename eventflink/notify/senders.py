"""How one notification gets to one receiver: by HTTP, to a topic, into a file, by mail.

Nothing is tried twice here, and nothing remembered. The rule: a sender returns when the receiver has what it was given, and raises
`DeliveryFailed` otherwise, in bounded time; no error repeats an address or a header, which may hold a secret.
"""

import http.client
import json
import os
import smtplib
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from confluent_kafka import KafkaError, KafkaException, Message

from eventflink.audit.plain import json_text
from eventflink.log.clients import new_producer
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.references import SecretMissing, resolve
from eventflink.notify.document import FileReceiver, HttpReceiver, KafkaReceiver, MailReceiver, Receiver, SlackReceiver, find_url_fault
from eventflink.notify.notification import Notification

_TIMEOUT_S: Final = 15.0
_REFUSED: Final = frozenset({400, 413, 415, 422})
"""Answers that say that this body is never taken; after any other error it may be."""
_IN_HEADERS: Final = "/@:[]+"
"""Of a key, besides letters and digits; all else is written as in a URL."""
_MOST_OF_A_SUBJECT: Final = 150

Send = Callable[[Notification], None]


class DeliveryFailed(Exception):
    """A receiver did not take a notification; the message says why."""

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        """Note whether it is refused for good: to send it again would be in vain."""
        super().__init__(message)
        self.is_refused = is_refused


def sender_for(receiver: Receiver, access: ClusterAccess) -> Send:
    """Return what sends to a receiver. For one thread."""
    match receiver:
        case HttpReceiver():
            return lambda each: _post(receiver.url, each.document, each.key, receiver.headers)
        case SlackReceiver():
            return lambda each: _post(receiver.url, {"text": each.text}, each.key, {})
        case KafkaReceiver():
            return _TopicSender(receiver, access).send
        case FileReceiver():
            return lambda each: _append(receiver.path, each)
        case MailReceiver():
            return lambda each: _mail(receiver, each)


def _post(url: str, body: dict[str, Any], key: str, headers: dict[str, str]) -> None:
    try:
        address = resolve("url", url)
        own = {"Content-Type": "application/json", "Idempotency-Key": quote(key, safe=_IN_HEADERS)}
        resolved = {name: resolve(name, value) for name, value in headers.items()}
        if not address.startswith(("http://", "https://")):
            raise DeliveryFailed("url: the secret that it refers to is no address that begins with http:// or https://")
        if address != url and (fault := find_url_fault(address)):
            raise DeliveryFailed(f"url: the secret that it refers to is an {fault}")
        request = urllib.request.Request(address, json_text(body).encode(), {**own, **resolved})  # noqa: S310 - it was just checked
        _OPENER.open(request, timeout=_TIMEOUT_S).close()
    except SecretMissing as error:
        raise DeliveryFailed(str(error)) from None
    except urllib.error.HTTPError as error:
        error.close()
        raise DeliveryFailed(_describe_answer(error), is_refused=error.code in _REFUSED) from None
    except urllib.error.URLError as error:
        raise DeliveryFailed(f"it does not answer: {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DeliveryFailed(f"it does not answer: {type(error).__name__}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing: what is sent on would be a GET without the body, and would take the headers to another host."""

    def redirect_request(self, *_: object) -> None:
        """Let the answer be what it is, an error."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _describe_answer(error: urllib.error.HTTPError) -> str:
    answer = f"it answered {error.code} {error.reason}"
    if (there := error.headers.get("Location")) is None:
        return answer
    try:
        host = urlsplit(there).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return f"{answer}: it is elsewhere now, {f'at {host}' if host else 'on the same host'}; let url be that address"


class _TopicSender:
    """Sends to a topic by a producer of its own."""

    def __init__(self, receiver: KafkaReceiver, access: ClusterAccess) -> None:
        self._topic = receiver.topic
        self._producer = new_producer(access.kafka.at(receiver.bootstrap_servers), int(_TIMEOUT_S * 1000))

    def send(self, notification: Notification) -> None:
        outcome: list[KafkaError | None] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            outcome.append(error)

        try:
            value = json_text(notification.document).encode()
            self._producer.produce(self._topic, value, notification.key.encode(), on_delivery=on_delivery)
        except (BufferError, KafkaException) as error:
            raise DeliveryFailed(f"Kafka does not take it: {error}") from error
        self._producer.flush(2 * _TIMEOUT_S)
        if outcome != [None]:
            why = outcome[0] if outcome else None
            is_refused = why is not None and why.code() == KafkaError.MSG_SIZE_TOO_LARGE
            raise DeliveryFailed(f"Kafka does not take it: {why or 'it does not answer'}", is_refused=is_refused)


def _append(path: str, notification: Notification) -> None:
    line = json_text(notification.document) + "\n"
    try:
        if path == "-":
            sys.stdout.write(line)
            sys.stdout.flush()
        else:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())  # A place may not be committed before what it stands for.
    except OSError as error:
        raise DeliveryFailed(f"{path} cannot be written: {error.strerror}") from error


def _mail(receiver: MailReceiver, notification: Notification) -> None:
    message = EmailMessage()
    message["Subject"] = " ".join(notification.text.split())[:_MOST_OF_A_SUBJECT]
    message["From"], message["To"] = receiver.sender, ", ".join(receiver.to)
    message["Date"] = formatdate()
    message["Message-ID"] = f"<{sha256(notification.key.encode()).hexdigest()[:32]}@eventflink>"  # A mail that comes twice is told by it.
    message.set_content(f"{notification.text}\n\n{json.dumps(notification.document, indent=2, ensure_ascii=False)}\n")
    try:
        with _connect(receiver) as server:
            if receiver.user is not None and receiver.password is not None:
                server.login(receiver.user, resolve("password", receiver.password))
            server.send_message(message)
    except SecretMissing as error:
        raise DeliveryFailed(str(error)) from None
    except smtplib.SMTPRecipientsRefused as error:
        is_refused = all(code // 100 == 5 for code, _ in error.recipients.values())  # noqa: PLR2004 - SMTP's class of lasting errors
        raise DeliveryFailed("the mail server takes no recipient", is_refused=is_refused) from None
    except ssl.SSLCertVerificationError as error:
        raise DeliveryFailed(f"the mail server's certificate does not hold: {error.verify_message}") from None
    except (OSError, smtplib.SMTPException, ValueError) as error:  # A password that is not ASCII is a `ValueError`.
        raise DeliveryFailed(f"the mail server does not take it: {type(error).__name__}") from None


def _connect(receiver: MailReceiver) -> smtplib.SMTP:
    """Return a connection over which a password may go: encrypted, to the host that is named, unless `security` is none."""
    if receiver.security == "tls":
        return smtplib.SMTP_SSL(receiver.host, receiver.port, timeout=_TIMEOUT_S, context=ssl.create_default_context())
    server = smtplib.SMTP(receiver.host, receiver.port, timeout=_TIMEOUT_S)
    if receiver.security == "starttls":
        try:
            server.starttls(context=ssl.create_default_context())
        except BaseException:
            server.close()
            raise
    return server
