"""A Spark Connect server of another version than pyspark here, for tests: its pyspark is installed once into the user's cache, by pip.

It is what docs/job-graph.md calls a Spark elsewhere: started by its own `spark-submit`, with the connector to Kafka of its version, and a
Python that has its pyspark before all that is installed here.
"""

import contextlib
import dataclasses
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventflink.local.jars import SCALA_VERSION, JarSet, default_cache_directory, ensure_jars
from eventflink.local.java import find_java
from eventflink.processes import die_with_parent
from eventflink.processes.file_lock import locked
from eventflink.taskexecutor.spark_contract import SERVER_SETTINGS
from eventflink.taskexecutor.spark_jars import DELTA_TABLES, kafka_connector
from tests.support.ports import find_free_ports

_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_READY: Final = "Spark Connect server started at"
_START_TIMEOUT_S: Final = 240.0
_INSTALL_TIMEOUT_S: Final = 900.0

_ICEBERG_VERSIONS: Final = {"4.0": "1.11.0", "4.1": "1.12.0"}
_CONNECTORS: Final = {"4.0.5": "4.0.0", "4.1.4": "4.1.1"}
"""With which release of its connector a version is tested: its own may be in no registry yet."""


def iceberg_runtime(spark: str) -> JarSet:
    """Return the runtime of Iceberg for a version of Spark, such as 4.1.4."""
    line = _line_of(spark)
    artifact, version = f"iceberg-spark-runtime-{line}_{SCALA_VERSION}", _ICEBERG_VERSIONS[line]
    dependencies = (("org.apache.iceberg", artifact, version),)
    return JarSet("Iceberg's runtime", version, f"test-iceberg-{line}", dependencies, jar_count=1, megabytes=50, alone=(artifact,))


def delta_tables(spark: str) -> JarSet:
    """Return Delta Lake for a version of Spark."""
    line = _line_of(spark)
    [(organisation, _, version)] = DELTA_TABLES.dependencies
    dependencies = ((organisation, f"delta-spark_{line}_{SCALA_VERSION}", version),)
    return dataclasses.replace(DELTA_TABLES, directory=f"test-delta-{line}", dependencies=dependencies)


def _line_of(spark: str) -> str:
    return spark.rpartition(".")[0]


def connector_of(spark: str) -> JarSet:
    """Return the connector to Kafka for a version of Spark."""
    version = _CONNECTORS.get(spark, spark)
    dependencies = (("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_VERSION}", version),)
    return dataclasses.replace(kafka_connector(), version=version, dependencies=dependencies)


def is_installed(version: str) -> bool:
    """Tell whether a Spark of that version is in the user's cache."""
    return _directory_of(version).is_dir()


def _directory_of(version: str) -> Path:
    return default_cache_directory() / f"test-pyspark-{version}"


def install_spark(version: str) -> Path:
    """Return the home of a Spark of that version; pip installs it first where the user's cache lacks it (about 450 MB)."""
    directory = _directory_of(version)
    directory.parent.mkdir(parents=True, exist_ok=True)
    busy = TimeoutError(f"another process has installed {directory} for {_INSTALL_TIMEOUT_S:g} s; end it and try again")
    with locked(directory.with_name(f"{directory.name}.lock"), _INSTALL_TIMEOUT_S, busy):
        if not directory.is_dir():
            print(f"installing pyspark {version} into {directory}", file=sys.stderr)
            beside = directory.with_name(f"{directory.name}.new")
            shutil.rmtree(beside, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(beside), f"pyspark=={version}"]
            subprocess.run(pip, check=True, stdin=subprocess.DEVNULL, timeout=_INSTALL_TIMEOUT_S)
            beside.rename(directory)
    return directory / "pyspark"


@contextmanager
def spark_of_version(
    version: str, directory: Path, jar_sets: Sequence[JarSet] = (), settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a server, and yield its address with its token.

    Args:
        version: of Spark, such as 4.1.4.
        directory: for its log and its files.
        jar_sets: what it has besides the connector to Kafka.
        settings: what it is started with besides what tasks need.

    """
    home, token, [port] = install_spark(version), secrets.token_urlsafe(16), find_free_ports(1)
    jars = [jar for each in (connector_of(version), *jar_sets) for jar in sorted(ensure_jars(each, find_java()).glob("*.jar"))]
    options = {
        **SERVER_SETTINGS,
        "spark.jars": ",".join(map(str, jars)),
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(directory / "local"),
        **(settings or {}),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", _CONNECT]
    command += [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
    environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    log = directory / "spark.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env=environment,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
        )
    try:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while _READY not in (text := log.read_text("utf-8", errors="replace")):
            assert process.poll() is None, text[-4_000:]
            assert time.monotonic() < deadline_s, text[-4_000:]
            time.sleep(0.2)
        yield f"sc://localhost:{port}/;token={token}"
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
