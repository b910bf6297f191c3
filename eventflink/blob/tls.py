"""TLS of blob servers and REST processes and their clients: which files make it, and the contexts that the two sides build from them.

The rule: who has a certificate and a key can serve; who has a CA trusts nobody but whom it signed, and a server with a CA asks each
client for a certificate as well; one of a REST process does so only where it is told to, since browsers have none. Names are verified.
Nothing is ever spoken in the clear when TLS is on.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventflink.blob import TlsUnusable

if TYPE_CHECKING:  # What loads a whole configuration is nothing for a task's process.
    from eventflink.model.configuration import Configuration


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; None where there is none."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    keys: str = "security.ssl.internal"
    """What the keys of the configuration that name them begin with."""


def tls_files(configuration: "Configuration") -> TlsFiles | None:
    """Return the files that the configuration names; None: TLS is off."""
    if not configuration.tls_enabled:
        return None
    return TlsFiles(configuration.tls_certificate, configuration.tls_key, configuration.tls_ca)


def rest_server_files(configuration: "Configuration") -> TlsFiles | None:
    """Return the files with which a REST process serves; None: it speaks no TLS."""
    if not configuration.rest_tls_enabled:
        return None
    ca = configuration.rest_tls_ca if configuration.rest_tls_authentication else None
    return TlsFiles(configuration.rest_tls_certificate, configuration.rest_tls_key, ca, "security.ssl.rest")


def rest_client_files(configuration: "Configuration") -> TlsFiles:
    """Return the files of who asks a REST process that speaks TLS; the certificate is shown only where one is demanded."""
    demanded = configuration.rest_tls_authentication
    certificate, key = (configuration.rest_tls_certificate, configuration.rest_tls_key) if demanded else (None, None)
    return TlsFiles(certificate, key, configuration.rest_tls_ca, "security.ssl.rest")


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return what a server speaks; with a CA it demands a certificate of each client.

    Raises:
        TlsUnusable: a file is missing or does not hold what it should.

    """
    if files.certificate is None:
        raise TlsUnusable(f"{files.keys}.enabled: a server needs {files.keys}.certificate and {files.keys}.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, files)
    if files.ca is not None:
        _load_ca(context, files, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return what a client speaks: it trusts the CA, or without one whom the system trusts, and shows its certificate if it has one.

    Raises:
        TlsUnusable: a file is missing or does not hold what it should.

    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.ca is not None:
        _load_ca(context, files, files.ca)
    else:
        context.load_default_certs()
    if files.certificate is not None:
        _load_certificate(context, files)
    return context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    if files.certificate is None or files.key is None:
        raise TlsUnusable(f"{files.keys}.certificate and {files.keys}.key belong together")
    try:
        # Never a prompt for a password: a process without a terminal would hang there.
        context.load_cert_chain(files.certificate, files.key, password=b"")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError.
        place = f"{files.keys}.certificate '{files.certificate}' with {files.keys}.key '{files.key}'"
        raise TlsUnusable(f"{place} cannot be used: {error}") from error


def _load_ca(context: ssl.SSLContext, files: TlsFiles, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ValueError) as error:
        raise TlsUnusable(f"{files.keys}.ca '{ca}' cannot be used: {error}") from error
