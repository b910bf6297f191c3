"""What the configuration says of how a process is reached: which TLS it speaks, who may ask it, and under which name.

The keys are those of the REST process; a history server takes them as well, so that no file protects one and leaves the other open.
"""

from dataclasses import dataclass, field

from eventflink.blob import TlsUnusable
from eventflink.blob.tls import rest_server_files
from eventflink.model.configuration import Configuration
from eventflink.rest.access.guard import Admission, configured_admission
from eventflink.rest.access.server_tls import ServerTls
from eventflink.rest.access.tokens import TokensUnusable, configured_tokens


class ProtectionUnusable(Exception):
    """A file of TLS, or what knows the tokens, cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Protection:
    """How a process is reached; by itself from this machine, by anybody there."""

    tls: ServerTls | None = None
    admission: Admission = field(default_factory=Admission)
    name: str = ""
    """What stands in its URL; empty: the address."""


def configured_protection(configuration: Configuration, bind_address: str) -> Protection:
    """Return how a process is reached that listens on this address; raises `ProtectionUnusable`."""
    try:
        files = rest_server_files(configuration)
        tls = ServerTls(files) if files is not None else None
        admission = configured_admission(configuration, bind_address, configured_tokens(configuration))
    except (TlsUnusable, TokensUnusable) as error:
        raise ProtectionUnusable(str(error)) from error
    return Protection(tls, admission, next(iter(configuration.rest_names), ""))
