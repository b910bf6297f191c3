"""The secret of a cluster, by which masters and TaskExecutors know each other's records (P3a): where it is, and what is read there.

What a secret is used for is `events/seal.py`'s business. What is passed on is a reference to a file or a variable, never the secret. A file
may have several secrets, a line each: the first seals, those behind it are believed still, so that one can be replaced by another.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from eventflink.model.references import SecretMissing, check_reference, resolve

KEY: Final = "security.cluster-secret"
FROM_KEY: Final = "security.sealed-from-offset"

OFF: Final = "off"
"""As the value of the key: no secret, whatever files there are."""

MIN_LENGTH: Final = 32
MAX_SECRETS: Final = 8


def checked_reference(value: str) -> str:
    """Return the value of `security.cluster-secret`.

    Raises:
        ValueError: it is neither empty, nor `off`, nor a reference.

    """
    if value not in ("", OFF):
        check_reference(KEY, value, is_needed=True)
    return value


def secret_path(data_path: Path, cluster_id: str) -> Path:
    """Return where the secret of a cluster is on a host, unless the configuration names another place."""
    return data_path.absolute() / "secrets" / f"{cluster_id}.cluster-secret"


def mint_secret(path: Path, secret: str = "") -> bool:
    """Write a new secret, or this one, that only its owner reads, unless there is one; tell whether it was written.

    Raises:
        OSError: it cannot be written.

    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return False
    try:
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(secret or secrets.token_hex(32))
    except OSError:
        path.unlink()  # An empty file would be the secret of everybody who comes later.
        raise
    return True


def secrets_of(reference: str) -> tuple[bytes, ...]:
    """Return the secrets of a cluster, the one that seals first; none, where the reference is empty.

    Raises:
        SecretMissing: what is referred to cannot be read, or is too short to be a secret.

    """
    if not reference:
        return ()
    found = tuple(line.strip().encode() for line in resolve(KEY, reference, may_have_lines=True).splitlines() if line.strip())
    if not found or len(found) > MAX_SECRETS or min(len(secret) for secret in found) < MIN_LENGTH:
        raise SecretMissing(f"{KEY}: {reference} has to hold 1 to {MAX_SECRETS} secrets of at least {MIN_LENGTH} characters, a line each")
    return found
