"""What can go wrong with a blob, one type per reason, so that callers can tell a retry from a refusal.

Server, store and client raise only these. Nothing here does anything.
"""


class BlobError(Exception):
    """Something about a blob did not work; the message says what and where."""


class InvalidBlobKey(BlobError):
    """The key is not the text of a blob key."""


class BlobNotFound(BlobError):
    """No blob has this key."""


class BlobTooLarge(BlobError):
    """The blob is larger than the store takes."""


class BlobsFull(BlobError):
    """There is no room for more blobs: within the quota, or on the disk."""


class BlobDamaged(BlobError):
    """The bytes do not have the digest that the key promises."""


class BlobRefused(BlobError):
    """The server answered that the request can never work as it is."""


class BlobUnavailable(BlobError):
    """The server did not answer, or could not, after every retry."""

    is_unreachable: bool = False
    """The last attempt found no server at all: another master may serve the blob."""


class BlobStorageFailed(BlobError):
    """The storage below the server did not do what it was asked."""


class BlobStorageUnusable(BlobError):
    """The configured place for blobs can never work; the message names the key."""


class TlsUnusable(BlobError):
    """A certificate, a key or a CA is not usable; the message names the configuration key and the file."""
