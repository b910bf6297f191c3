"""What becomes of a job's code on a running cluster: it stays while a job needs it, over failovers, and goes when none does."""

import os
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from eventflink.blob import BlobNotFound, BlobUnavailable
from eventflink.blob.client import get_blob, put_blob
from eventflink.blob.keys import BlobKind, kind_of
from eventflink.blob.open_storage import open_storage
from eventflink.blob.store import BlobStore
from eventflink.cli.failures import ExitCode
from eventflink.events.log_events import FileUploaded
from eventflink.gateways.leader import find_leader
from eventflink.jobs.archive import build_archive
from eventflink.log.administration import delete_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import load_configuration
from eventflink.model.statuses import JobStatus
from tests.support.running_cluster import USER_TASKS, RunningCluster, running_cluster, wait_until
from tests.support.tls_files import Certificates

pytestmark = pytest.mark.slow
INTERVAL_MS = 1000
GRACE_MS = 8_000


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Two masters on one storage, `first` and `second`, and a TaskExecutor."""
    cleanup = {"interval": INTERVAL_MS, "grace-period": GRACE_MS, "rerun-period": 0}
    times = {f"blob.service.cleanup.{name}": time_ms for name, time_ms in cleanup.items()}
    with running_cluster(bootstrap, tmp_path, **times) as running:
        running.start_master("first")
        running.start_standby("second")
        running.start_task_executor(slots=4)
        yield running


def address_of(cluster: RunningCluster) -> str:
    return find_leader(cluster.access, timeout_s=30).blob_address


def is_there(cluster: RunningCluster, key: str) -> bool:
    try:
        get_blob(address_of(cluster), key)
    except BlobNotFound:
        return False
    return True


def archive(tmp_path: Path, name: str) -> bytes:
    file = tmp_path / f"{name}.py"
    file.write_text(f"NAME = {name!r}\n")
    return build_archive([file])


def waiting_job(cluster: RunningCluster, path: Path, *archives: str) -> str:
    vertex = {"id": "task", "python": "user_tasks:wait_for_file", "parameters": {"path": str(path)}}
    return cluster.submit(cluster.graph(vertex, code_archives=list(archives)))


def clean_up_takes(cluster: RunningCluster, key: str) -> None:
    wait_until(lambda: not is_there(cluster, key), f"blob {key} is removed", 120)


@pytest.mark.rule("L5")
def test_an_ended_job_s_code_goes_and_what_another_job_needs_stays_also_after_a_failover(cluster: RunningCluster, tmp_path: Path) -> None:
    address = address_of(cluster)
    put = partial(put_blob, address)
    tasks, own, shared = (put(data) for data in (build_archive([USER_TASKS]), archive(tmp_path, "own"), archive(tmp_path, "shared")))
    unused, transient = put(archive(tmp_path, "unused")), put(b"a log", kind=BlobKind.TRANSIENT)
    ending = waiting_job(cluster, tmp_path / "ending", tasks, own, shared)
    staying = waiting_job(cluster, tmp_path / "staying", tasks, shared)
    for job_id in (ending, staying):
        cluster.wait_for_running(job_id)
    for key in (unused, transient):
        clean_up_takes(cluster, key)
    assert all(is_there(cluster, key) for key in (tasks, own, shared))

    (tmp_path / "ending.go").touch()
    cluster.wait_for_status(ending, JobStatus.FINISHED)
    clean_up_takes(cluster, own)
    assert is_there(cluster, shared)

    late = put_blob(address, archive(tmp_path, "late"))
    cluster.kill("first")
    cluster.wait_for(lambda fold: fold.acceptance.epoch > 1 and fold.acceptance.sequence > 0, "another leader")
    assert address_of(cluster) != address
    assert is_there(cluster, late), "the new leader serves what the old one took"
    clean_up_takes(cluster, late)
    time.sleep(GRACE_MS / 1000)
    assert is_there(cluster, shared)
    assert is_there(cluster, tasks)
    again = waiting_job(cluster, tmp_path / "again", tasks, shared)
    cluster.wait_for_running(again)

    for job_id, name in ((staying, "staying"), (again, "again")):
        (tmp_path / f"{name}.go").touch()
        cluster.wait_for_status(job_id, JobStatus.FINISHED)
    for key in (tasks, shared):
        clean_up_takes(cluster, key)


def test_a_cluster_speaks_tls_with_everyone_who_needs_its_blobs(bootstrap: str, tmp_path: Path) -> None:
    """`submit` uploads the code, a task fetches it, the TaskExecutor uploads a log and `logs` fetches that: all with certificates.

    Both uploads are counted for the job, and what is too much for one is refused.
    """
    name = f"test-{uuid.uuid4().hex[:12]}"
    files = Certificates(tmp_path / "tls").server
    keys = {"enabled": "true", "certificate": files.certificate, "key": files.key, "ca": files.ca}
    tls = {f"security.ssl.internal.{key}": value for key, value in keys.items()}
    running = RunningCluster(bootstrap, name, tmp_path, **tls, **{"blob.job.max-size": "1000000"})
    try:
        running.start_master()
        running.start_task_executor()
        document = tmp_path / "job.yaml"
        document.write_text("{name: secret, vertices: [{id: task, python: 'user_tasks:print_words'}]}")
        submit = ("submit", str(document), "--code", str(USER_TASKS), "--job-id", "secret")
        assert running.start("submit", *submit).wait(120) == 0, running.output("submit")
        assert running.start("logs", "logs", "secret", "task", "--file", "stdout").wait(120) == 0, running.output("logs")
        assert "said on stdout" in running.output("logs")
        (uploaded,) = [e for _, d in running.decisions() for e in d.events if isinstance(e, FileUploaded)]
        assert uploaded.blob_key is not None
        assert kind_of(uploaded.blob_key) is BlobKind.TRANSIENT
        with pytest.raises(BlobUnavailable):
            get_blob(address_of(running), uploaded.blob_key, attempts=1)
        usage = BlobStore(open_storage(load_configuration(None, running.overrides).blob_location)).usage()
        assert usage.bytes_by_job == {"secret": usage.total_bytes}
        (tmp_path / "large").write_bytes(os.urandom(1_000_001))
        submit = ("submit", str(document), "--code", str(tmp_path / "large"), "--job-id", "greedy")
        assert running.start("refused", *submit).wait(120) == ExitCode.NEGATIVE
        assert "the blobs of job 'greedy' have " in running.output("refused")
        assert "1000000 are taken for each job (blob.job.max-size)" in running.output("refused")
    finally:
        running.processes = {name: process for name, process in running.processes.items() if process.poll() is None}
        running.close()
        delete_topics(access_to(bootstrap, name))


def test_a_master_that_cannot_use_its_blob_storage_or_certificate_says_which_key_and_ends(bootstrap: str, tmp_path: Path) -> None:
    for number, (key, value, said, exit_code) in enumerate(
        [
            ("blob.storage.directory", "memory://blobs", "blob.storage.directory: 'memory://blobs/", ExitCode.USAGE),
            ("blob.storage.directory", "nothing://blobs", "blob.storage.directory: 'nothing://blobs/", ExitCode.USAGE),
            ("security.ssl.internal.enabled", "true", "a server needs security.ssl.internal.certificate", ExitCode.ENVIRONMENT),
        ]
    ):
        name = f"test-{uuid.uuid4().hex[:12]}"
        running = RunningCluster(bootstrap, name, tmp_path)
        process = running.start(f"master-{number}", "master", **{key: value})
        try:
            assert process.wait(120) == exit_code
        finally:
            process.kill()
            delete_topics(access_to(bootstrap, name))
        assert said in running.output(f"master-{number}")
