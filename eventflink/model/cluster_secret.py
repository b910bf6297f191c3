"""The cluster secret of this process, by cluster: by which masters and TaskExecutors know each other's records (P3a).

What a secret is used for is `events/seal.py`'s business. As with the settings of Kafka's clients, child processes find it in the
environment, and there stands a reference to a file or a variable, never the secret. A file may have several secrets, a line each: the first
seals, those behind it are believed still, so that one can be replaced by another.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Final

from eventflink.model.references import SecretMissing, check_reference, resolve

VARIABLE: Final = "EVENTFLINK_CLUSTER_SECRET"
"""In the environment: the reference and the first sealed offset by cluster id, as JSON."""

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


def use_secret(cluster_id: str, reference: str, sealed_from_offset: int = 0) -> None:
    """Let this process and its children seal what they write for a cluster, and believe nothing else; empty: let them not."""
    known = {other: found for other, found in _known().items() if other != cluster_id}
    if reference:
        known[cluster_id] = (reference, sealed_from_offset)
    if known:
        os.environ[VARIABLE] = json.dumps(known, sort_keys=True)
    else:
        os.environ.pop(VARIABLE, None)


def share_secret(cluster_id: str, copy_id: str) -> None:
    """Let a copy of a cluster's log, under an id of its own, have the secret by which it was sealed."""
    use_secret(copy_id, *_known().get(cluster_id, ("", 0)))


def secrets_of(cluster_id: str) -> tuple[bytes, ...]:
    """Return the secrets of a cluster, the one that seals first; none, where this process has none for it.

    Raises:
        SecretMissing: what is referred to cannot be read, or is too short to be a secret.

    """
    reference, _ = _known().get(cluster_id, ("", 0))
    if not reference:
        return ()
    found = tuple(line.strip().encode() for line in resolve(KEY, reference, may_have_lines=True).splitlines() if line.strip())
    if not found or len(found) > MAX_SECRETS or min(len(secret) for secret in found) < MIN_LENGTH:
        raise SecretMissing(f"{KEY}: {reference} has to hold 1 to {MAX_SECRETS} secrets of at least {MIN_LENGTH} characters, a line each")
    return found


def sealed_from_offset(cluster_id: str) -> int:
    """Return from which record on the log of a cluster is sealed: before it, the cluster had no secret."""
    return _known().get(cluster_id, ("", 0))[1]


def _known() -> dict[str, tuple[str, int]]:
    known: dict[str, tuple[str, int]] = json.loads(os.environ.get(VARIABLE) or "{}")
    return known
