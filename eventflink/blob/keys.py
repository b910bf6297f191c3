"""What a blob is called: a permanent one by the SHA-256 of its bytes, a transient one by that and a number of its own.

    permanent   <64 hexadecimal digits>                    the same bytes are one blob, from any client
    transient   t-<64 hexadecimal digits>-<16 digits>      each upload is a blob, which expires or is deleted without harming another

As Flink's PermanentBlobKey and TransientBlobKey, whose texts begin with the kind as well. Standard library only: clients and tasks
import this and no storage.
"""

import hashlib
import re
import secrets
from enum import StrEnum
from typing import Final

from eventflink.blob import InvalidBlobKey

_PERMANENT: Final = re.compile(r"[0-9a-f]{64}")
_TRANSIENT: Final = re.compile(r"t-([0-9a-f]{64})-[0-9a-f]{16}")


class BlobKind(StrEnum):
    """How long a blob lives: as long as a job refers to it, or a limited time."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"


def blob_key(data: bytes | memoryview) -> str:
    """Return the key of these bytes as a permanent blob."""
    return hashlib.sha256(data).hexdigest()


def key_for(digest: str, kind: BlobKind) -> str:
    """Return the key of an upload whose bytes have this digest: for a transient one a key that no upload had before."""
    return digest if kind is BlobKind.PERMANENT else f"t-{digest}-{secrets.token_hex(8)}"


def is_key(text: str) -> bool:
    """Tell whether a text is a key of either kind."""
    return bool(_PERMANENT.fullmatch(text) or _TRANSIENT.fullmatch(text))


def check_key(key: str) -> str:
    """Return the key.

    Raises:
        InvalidBlobKey: it is not valid; in particular nothing that could be a path passes.

    """
    if not is_key(key):
        raise InvalidBlobKey(
            f"'{key[:100]}' is not a valid blob key: a key is the SHA-256 of the blob, 64 lower-case hexadecimal digits, "
            "or of a transient blob 't-', that, '-' and 16 more digits"
        )
    return key


def kind_of(key: str) -> BlobKind:
    """Return which kind of blob a key names.

    Raises:
        InvalidBlobKey: the key is not valid.

    """
    return BlobKind.TRANSIENT if check_key(key).startswith("t-") else BlobKind.PERMANENT


def digest_of(key: str) -> str:
    """Return the SHA-256 that the blob's bytes must have.

    Raises:
        InvalidBlobKey: the key is not valid.

    """
    matched = _TRANSIENT.fullmatch(check_key(key))
    return matched.group(1) if matched else key
