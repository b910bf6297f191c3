"""Uploading the code of a job, as a gateway does it: packed where the user is, to the leader's blob server."""

from collections.abc import Iterable
from pathlib import Path

from eventflink.blob.client import put_blob
from eventflink.blob.tls import TlsFiles
from eventflink.jobs.archive import build_archive


def ship_code(blob_address: str, paths: Iterable[Path], tls: TlsFiles | None) -> str:
    """Return the key of the archive; raises as `build_archive` and `put_blob` do."""
    return put_blob(blob_address, build_archive(paths), tls=tls)
