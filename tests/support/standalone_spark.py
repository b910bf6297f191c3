"""A Spark cluster of its own for tests: Spark's standalone master, a worker, and a Connect server whose executors that worker starts.

It is started as docs/job-graph.md asks for a Spark elsewhere, and with nothing else of ours: its Python has this package as any that is
installed.
"""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from eventflink.processes import die_with_parent
from eventflink.taskexecutor.spark_contract import SERVER_SETTINGS
from eventflink.taskexecutor.spark_jars import connector_settings
from tests.support.ports import find_free_ports

_HOME: Final = Path(pyspark.__file__).parent
_DEPLOY: Final = "org.apache.spark.deploy"
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_READY: Final = "Spark Connect server started at"
_TIMEOUT_S: Final = 240.0


@contextmanager
def standalone_spark(directory: Path) -> Iterator[str]:
    """Run one, and yield the address of its Connect server with its token."""
    token = secrets.token_urlsafe(16)
    master_port, connect_port = find_free_ports(2)
    master = f"spark://127.0.0.1:{master_port}"
    settings = {
        **SERVER_SETTINGS,
        **connector_settings(),
        "spark.connect.grpc.binding.port": str(connect_port),
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.cores.max": "2",
        "spark.ui.enabled": "false",
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    submit = [str(_HOME / "bin" / "spark-submit"), "--master", master, "--class", _CONNECT, *options, "spark-internal"]
    spark_class = str(_HOME / "bin" / "spark-class")
    with ExitStack() as processes:
        run = _Processes(directory, processes, {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token})
        run.start("master", spark_class, f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(master_port), "--webui-port", "0")
        run.wait_for("master", "I have been elected leader")
        run.start("worker", spark_class, f"{_DEPLOY}.worker.Worker", "--cores", "2", "--memory", "1g", "--webui-port", "0", master)
        run.start("connect", *submit)
        run.wait_for("connect", _READY)
        yield f"sc://localhost:{connect_port}/;token={token}"


class _Processes:
    def __init__(self, directory: Path, ending: ExitStack, environment: dict[str, str]) -> None:
        self._directory = directory
        self._ending = ending
        python = {"SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_WORKER_DIR": str(directory / "work")}
        self._environment = os.environ | python | environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        with (self._directory / f"{name}.txt").open("wb") as output:
            process = self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                env=self._environment,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
            )
        self._ending.callback(process.wait, _TIMEOUT_S)
        self._ending.callback(process.terminate)

    def wait_for(self, name: str, says: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while says not in (text := (self._directory / f"{name}.txt").read_text("utf-8", errors="replace")):
            assert self._running[name].poll() is None, text[-4_000:]
            assert time.monotonic() < deadline, text[-4_000:]
            time.sleep(0.2)
