"""Uploading the code of a job, as a gateway does it: packed where the user is, to the leader's blob server."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from eventflink.blob.client import get_blob, put_blob
from eventflink.blob.tls import TlsFiles
from eventflink.jobs.job_files import DescribedJob, with_archives, with_newer_code
from eventflink.model.job_graph import JobGraph


def ship_code(graph: JobGraph, blob_address: str, job: DescribedJob, code: Sequence[Path], tls: TlsFiles | None) -> JobGraph:
    """Return the graph with the archives of its job; raises as `DescribedJob.archives` and `put_blob` do."""
    return with_archives(graph, job.archives(code), partial(put_blob, blob_address, tls=tls))


def ship_newer_code(
    graph: JobGraph,
    blob_address: str,
    archives: Sequence[bytes],
    before: Sequence[str],
    tls: TlsFiles | None,
    *,
    job_id: str = "",
    left_s: Callable[[], float] = lambda: math.inf,
) -> JobGraph:
    """Return the graph of a rerun with these archives, or with the code of the ended job; raises as `get_blob` and `put_blob` do.

    Args:
        graph: what runs in place of the ended job's graph.
        blob_address: the leader's blob server.
        archives: the code, packages and jars of the graph.
        before: the keys of the ended job's archives.
        tls: how the blob server is reached.
        job_id: the job in whose room the archives count; empty: none.
        left_s: how long an upload may take at most, asked before each.

    """

    def store(archive: bytes) -> str:
        return put_blob(blob_address, archive, job_id=job_id, tls=tls, within_s=left_s())

    return with_newer_code(graph, archives, store, partial(get_blob, blob_address, tls=tls), before)
