"""Uploading the code of a job, as a gateway does it: packed where the user is, to the leader's blob server."""

from collections.abc import Sequence
from pathlib import Path

from eventflink.blob.client import put_blob
from eventflink.blob.tls import TlsFiles
from eventflink.jobs.job_files import DescribedJob


def ship_code(blob_address: str, job: DescribedJob, code: Sequence[Path], tls: TlsFiles | None) -> tuple[str, ...]:
    """Return the keys of the archives; raises as `DescribedJob.archives` and `put_blob` do."""
    return tuple([put_blob(blob_address, each, tls=tls) for each in job.archives(code)])
