"""The driver `process` keeps the laws of resource drivers, with real TaskExecutors as its workers."""

import signal
from pathlib import Path

import psutil
import pytest

from eventflink.entrypoint.process_driver import ProcessDriver
from eventflink.log.administration import ensure_topics
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration, load_configuration
from eventflink.processes.identity import is_running, send_signal
from eventflink.processes.worker_processes import WorkerProcesses
from tests.support.driver_laws import DriverLaws, Provider, wait_for
from tests.support.running_cluster import PROGRAM


class Host(Provider):
    """This host, with one cluster's directories and Kafka."""

    def __init__(self, configuration: Configuration, program: list[str]) -> None:
        self._configuration = configuration
        self._program = program
        self._processes = WorkerProcesses(configuration.pid_path, configuration.log_path)

    def make(self) -> ProcessDriver:
        return ProcessDriver(self._configuration, self._program)

    def kill(self, worker_id: str) -> None:
        file = self._processes.files.read(worker_id)
        assert file is not None
        assert send_signal(file.identity, signal.SIGKILL)
        wait_for(lambda: not is_running(file.identity), f"{worker_id} has ended")

    def running(self) -> set[str]:
        """Those that have become TaskExecutors; a launcher is none yet."""
        files = [file for file in self._processes.files.all() if is_running(file.identity)]
        return {file.daemon_id for file in files if psutil.Process(file.process_id).cmdline()[-1:] == ["taskexecutor"]}


@pytest.fixture
def provider(bootstrap: str, cluster_id: str, tmp_path: Path) -> Host:
    ensure_topics(access_to(bootstrap, cluster_id))
    values = {
        "data.directory": str(tmp_path / "data"),
        "bootstrap.servers": bootstrap,
        "cluster.id": cluster_id,
        "spark.start-early": "false",
    }
    options = [part for key, value in values.items() for part in ("-D", f"{key}={value}")]
    return Host(load_configuration(None, values), [*PROGRAM, *options])


class TestProcessDriver(DriverLaws):
    """All laws."""
