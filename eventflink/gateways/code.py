"""Uploading the code of a job, as a gateway does it: packed where the user is, to the leader's blob server."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from eventflink.blob.client import put_blob
from eventflink.blob.tls import TlsFiles
from eventflink.jobs.job_files import DescribedJob, with_archives
from eventflink.model.job_graph import JobGraph


def ship_code(graph: JobGraph, blob_address: str, job: DescribedJob, code: Sequence[Path], tls: TlsFiles | None) -> JobGraph:
    """Return the graph with the archives of its job; raises as `DescribedJob.archives` and `put_blob` do."""
    return with_archives(graph, job.archives(code), partial(put_blob, blob_address, tls=tls))
