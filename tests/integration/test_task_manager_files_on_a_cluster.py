"""What TaskExecutors and masters tell of themselves on a running cluster: logs, stacks, and where their metrics are."""

import asyncio
import json
import urllib.request
import uuid
from collections.abc import Iterator

import pytest

from eventflink.blob.client import get_blob
from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import FileUploaded, TaskManagerFileUploadRequested
from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncResourceManagerGateway
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.errors import FencingTokenMismatch, FileNotAvailable, RequestRefused, UnknownTaskManager
from eventflink.gateways.leader import find_leader
from eventflink.gateways.resource_manager_gateway import ResourceManagerGateway
from eventflink.model.statuses import TaskManagerFile
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Two masters and a TaskExecutor, all with metrics; what the TaskExecutor logs and prints goes to one file, as a daemon's does."""
    keys = {"metrics.reporter.prom.port": 0, "taskmanager.host": "localhost"}
    with running_cluster(bootstrap, tmp_path_factory.mktemp("cluster"), **keys) as running:
        running.start_master("first")
        running.start_task_executor("tm")
        running.start_standby("second")
        yield running


@pytest.fixture
def gateway(cluster: RunningCluster) -> Iterator[ResourceManagerGateway]:
    with ResourceManagerGateway(cluster.access) as gateway:
        yield gateway


def fetch(cluster: RunningCluster, key: str) -> str:
    return get_blob(find_leader(cluster.access).blob_address, key).decode()


def command(cluster: RunningCluster, *words: str) -> int:
    return run([*[f"-D{key}={value}" for key, value in cluster.overrides.items()], *words])


def test_logs_standard_output_and_stacks_of_a_task_executor_are_uploaded(cluster: RunningCluster, gateway: ResourceManagerGateway) -> None:
    request_id = str(uuid.uuid4())
    key = gateway.request_task_manager_file_upload_by_type("tm", TaskManagerFile.LOG, request_id=request_id)
    assert key.startswith("t-")
    assert "TaskExecutorStarted task_manager=tm" in fetch(cluster, key)
    assert gateway.request_task_manager_file_upload_by_type("tm", TaskManagerFile.LOG, request_id=request_id) == key, "the same upload"
    assert "InstanceStarted" in fetch(cluster, gateway.request_task_manager_file_upload_by_type("tm", TaskManagerFile.STDOUT))
    logs = {log["name"]: log for log in json.loads(fetch(cluster, gateway.request_task_manager_log_list("tm")))["logs"]}
    assert {"tm.txt", "guardian.log", "fork-server.log"} <= set(logs)
    assert logs["tm.txt"]["size_bytes"] > 0
    guardian = fetch(cluster, gateway.request_task_manager_file_upload_by_name("tm", "guardian.log"))
    assert len(guardian.encode()) >= logs["guardian.log"]["size_bytes"]
    dump = fetch(cluster, gateway.request_thread_dump("tm"))
    assert '"MainThread"' in dump
    assert '"effects-reader"' in dump
    events = [e for _, d in cluster.decisions() for e in d.events if getattr(e, "request_id", "") == request_id]
    assert [type(e) for e in events if isinstance(e, TaskManagerFileUploadRequested | FileUploaded)] == [
        TaskManagerFileUploadRequested,
        FileUploaded,
    ]


def test_what_is_not_its_own_is_refused(cluster: RunningCluster, gateway: ResourceManagerGateway) -> None:
    with pytest.raises(UnknownTaskManager, match="TaskManager not found: 'nobody' is not registered"):
        gateway.request_thread_dump("nobody")
    for name in ("../../../etc/passwd", "/etc/passwd", ""):
        with pytest.raises(RequestRefused, match="invalid name of a log") as refused:
            gateway.request_task_manager_file_upload_by_name("tm", name)
        assert refused.value.code == "InvalidRequest"
    with pytest.raises(FileNotAvailable, match=r"log not found: 'first\.txt'; the TaskExecutor has .*tm\.txt"):
        gateway.request_task_manager_file_upload_by_name("tm", "first.txt")
    with pytest.raises(FencingTokenMismatch):
        gateway.request_thread_dump("tm", fencing_token="a leader of yesterday")
    assert (cluster.directory / "first.txt").is_file(), "it lies beside the log, and is a master's"


def test_the_command_line_shows_them(cluster: RunningCluster, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert command(cluster, "taskmanager", "logs", "tm") == 0
    assert b"TaskExecutorStarted task_manager=tm" in capfdbinary.readouterr().out
    assert command(cluster, "taskmanager", "logs", "tm", "--list") == 0
    assert b"guardian.log" in capfdbinary.readouterr().out
    assert command(cluster, "taskmanager", "logs", "tm", "--list", "--json") == 0
    assert "tm.txt" in [log["name"] for log in json.loads(capfdbinary.readouterr().out)["logs"]]
    assert command(cluster, "taskmanager", "logs", "tm", "--file", "fork-server.log") == 0
    assert command(cluster, "taskmanager", "logs", "tm", "--stdout") == 0
    assert command(cluster, "taskmanager", "thread-dump", "tm") == 0
    assert b'"MainThread"' in capfdbinary.readouterr().out
    assert command(cluster, "taskmanager", "logs", "tm", "--file", "none") == ExitCode.NEGATIVE
    assert b"log not found: 'none'; the TaskExecutor has " in capfdbinary.readouterr().err
    assert command(cluster, "taskmanager", "logs", "tm", "--file", "x", "--list") == ExitCode.USAGE
    assert command(cluster, "taskmanager", "logs", "tm", "--json") == ExitCode.USAGE


def both_of(masters: dict[str, str]) -> dict[str, str] | None:
    """Return what is said of two masters, once both were heard."""
    return masters if masters.keys() == {"first", "second"} else None


def test_masters_and_task_managers_tell_where_their_metrics_are(
    cluster: RunningCluster, gateway: ResourceManagerGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    with DispatcherGateway(cluster.access) as dispatcher:
        masters = wait_until(lambda: both_of(dispatcher.request_metric_query_service_addresses()), "both masters are heard")
        task_managers = dispatcher.request_task_manager_metric_query_service_addresses()
    assert task_managers == gateway.request_task_manager_metric_query_service_addresses()
    for address, own in ((masters["first"], 'jm_id="first"'), (masters["second"], 'jm_id="second"'), (task_managers["tm"], 'tm_id="tm"')):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=120) as answer:
            assert own in answer.read().decode()
    assert command(cluster, "metrics", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"masters": masters, "task_managers": task_managers}
    assert command(cluster, "metrics") == 0
    assert f"http://{masters['first']}/metrics" in capsys.readouterr().out


def test_in_an_event_loop_it_is_all_the_same(cluster: RunningCluster) -> None:
    async def ask() -> None:
        at = (cluster.bootstrap, cluster.cluster_id)
        async with AsyncResourceManagerGateway(*at) as gateway:
            assert "InstanceStarted" in fetch(cluster, await gateway.request_task_manager_file_upload_by_type("tm", TaskManagerFile.LOG))
            assert fetch(cluster, await gateway.request_task_manager_file_upload_by_name("tm", "tm.txt"))
            assert "guardian.log" in fetch(cluster, await gateway.request_task_manager_log_list("tm"))
            assert "MainThread" in fetch(cluster, await gateway.request_thread_dump("tm"))
            assert set(await gateway.request_task_manager_metric_query_service_addresses()) == {"tm"}
        async with AsyncDispatcherGateway(*at) as dispatcher:
            assert set(await dispatcher.request_metric_query_service_addresses()) <= {"first", "second"}
            assert set(await dispatcher.request_task_manager_metric_query_service_addresses()) == {"tm"}

    asyncio.run(ask())
