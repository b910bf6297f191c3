"""Archives as masters of several clusters write them, and the real history server over them: in process, or for a browser.

python -m tests.support.archive_server        serves archives of the recorded cluster on port 8098 until it is interrupted
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.documents.one_job import JobArchive
from eventflink.documents.plain import plain
from eventflink.leadership.fold import Fold
from eventflink.model.statuses import TERMINAL_JOB_STATUSES
from eventflink.reader.archives.index import ArchiveIndex
from eventflink.rest.access.guard import Admission
from eventflink.rest.archived.application import build_history_application
from eventflink.rest.archived.reads import ArchiveReader
from eventflink.views.archive import archive_view
from tests.support.ended_jobs import FAILED, STREAMS, ended_cluster
from tests.support.recorded_cluster import recorded
from tests.support.rest_server import hosted

REFRESH_MS = 10_000


def put(root: Path | str, cluster_id: str, archive: JobArchive, *, later_s: int = 0, **changes: Any) -> Path:
    """Write an archive as a master of that cluster does, `later_s` after others, and with changes to its job."""
    job = replace(archive.job, **changes)
    JobArchives(open_storage(f"{root}/{cluster_id}"), 0).write(plain(replace(archive, job_id=job.job_id, job=job)))
    path = Path(f"{root}/{cluster_id}/{job.job_id}.json")
    if path.exists():
        os.utime(path, (1_800_000_000 + later_s, 1_800_000_000 + later_s))
    return path


def ended_jobs(fold: Fold) -> list[str]:
    """Return the ids of the jobs that have ended and are in memory."""
    return [job.job_id for job in fold.master.dispatcher.jobs.values() if job.status in TERMINAL_JOB_STATUSES]


def put_all(root: Path) -> None:
    """Write archives of two clusters: `orders` is the recorded one; `reports` has a stream, and one job under an id of the other."""
    recorded_fold, other = recorded().cluster.fold, ended_cluster().fold
    for job_id in ended_jobs(recorded_fold):
        put(root, "orders", archive_view(recorded_fold, job_id))
    for job_id in (STREAMS, FAILED):
        put(root, "reports", archive_view(other, job_id))
    put(root, "reports", archive_view(other, FAILED), job_id="flaky-5", name="another job")


@contextmanager
def client_of(index: ArchiveIndex, admission: Admission | None = None) -> Iterator[TestClient]:
    """Give a client of a history server over what is known of archives."""
    application = _application(index, admission or Admission())
    with TestClient(application, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


@contextmanager
def history(*places: Path | str, retained: int = 100) -> Iterator[tuple[TestClient, ArchiveIndex]]:
    """Give a client of a history server over these directories, which has looked through them once."""
    index = ArchiveIndex([open_storage(str(place)) for place in places], retained)
    index.refresh()
    with client_of(index) as client:
        yield client, index


@contextmanager
def served_archives(directory: Path, ports: str = "0") -> Iterator[str]:
    """Serve the archives in a directory for a browser; give the URL."""
    index = ArchiveIndex([open_storage(str(directory))], 1_000)
    index.refresh()
    with hosted(lambda: (_application(index, Admission()), lambda: None), ports) as (url, _):
        yield url


def _application(index: ArchiveIndex, admission: Admission) -> FastAPI:
    return build_history_application(ArchiveReader(index), REFRESH_MS, admission)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        put_all(Path(folder))
        with served_archives(Path(folder), "8098") as address:
            print(address)
            threading.Event().wait()
