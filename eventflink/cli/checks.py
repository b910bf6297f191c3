"""The checks of `doctor`: each looks at one thing that a cluster needs, and says what it found and what to do.

A check never raises and never waits long; what it cannot find out is a finding, too.
"""

import importlib.metadata
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from eventflink.cli.finding import Finding, Verdict, check_of
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.leader import find_leader
from eventflink.jobs.stored_files import StoreFailed, find_files, on_this_host, read_start, remove_folder, upload_once, write_whole
from eventflink.local.jars import KAFKA_BROKER, default_cache_directory
from eventflink.local.java import JavaMissing, find_java
from eventflink.log.administration import AdministrationError, KafkaUnreachable, check_durability, describe_topics
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.cluster_secret import KEY, OFF, secrets_of
from eventflink.model.configuration import Configuration
from eventflink.model.loopback import LOOPBACK
from eventflink.model.packages import PackageMissing, needs
from eventflink.model.places import S3, Place
from eventflink.model.references import SecretMissing
from eventflink.model.spark_engines import SparkEngine, shown
from eventflink.processes import announced_address
from eventflink.processes.announced_address import Announced
from eventflink.taskexecutor.spark_engines import key_of
from eventflink.taskexecutor.spark_release import channel_target

_TIMEOUT_S: Final = 5.0
_MINIMUM_FREE_BYTES: Final = 2 * 1024**3
_TELL_THE_LEADER: Final = "that is an address for its own host alone: set jobmanager.rpc.address and blob.server.bind-host there"
_MINIMUM_PYTHON: Final = (3, 11)


def check_all(configuration: Configuration) -> Iterator[Finding]:
    """Run every check, yielding each finding as it comes."""
    yield _python()
    if (version := _pyspark_version()) is None:
        yield Finding("spark", Verdict.OK, "not here: this host submits and asks, and runs no tasks; pip install 'eventflink[cluster]'")
    else:
        yield _java()
        yield from [_spark(configuration, engine, version) for engine in configuration.engines]
    if configuration.working_place.scheme:
        yield check_store(configuration.working_place)
    yield _broker_jars(configuration)
    yield _disk(configuration.data_path)
    yield _secret(configuration)
    bootstrap = configuration.bootstrap_servers or announced_address.read(configuration.data_path, Announced.BROKER)
    if not bootstrap:
        yield Finding(
            "kafka", Verdict.WARNING, "no Kafka cluster is named (bootstrap.servers), and no broker runs here; 'eventflink up' starts one"
        )
        return
    access = configuration.access(bootstrap)
    topics = _topics(access, configuration)
    yield from topics
    yield from _transactions(access)
    if all(finding.verdict is not Verdict.FAILED for finding in topics):
        yield _leader(access)


def _python() -> Finding:
    version = sys.version.split()[0]
    return Finding("python", Verdict.OK if sys.version_info >= _MINIMUM_PYTHON else Verdict.FAILED, f"{version} at {sys.executable}")


def _java() -> Finding:
    try:
        java = find_java()
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False).stderr
    except (JavaMissing, OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", Verdict.FAILED, str(error))
    return Finding("java", Verdict.OK, f"{java}: {said.splitlines()[0] if said else 'it printed no version'}")


def _pyspark_version() -> str | None:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def _spark(configuration: Configuration, engine: SparkEngine, version: str) -> Finding:
    if not engine.remote:
        return Finding("spark", Verdict.OK, f"pyspark {version}; TaskExecutors of this host share a local server")
    where = f"pyspark {version}; {shown(engine.remote)} ({key_of(engine)})"
    try:
        host, _, port = channel_target(engine.remote).rpartition(":")
        socket.create_connection((host, int(port)), timeout=_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return Finding(check_of(engine), Verdict.FAILED, f"{where} does not answer: {error}")
    from eventflink.cli.spark_check import check_spark  # noqa: PLC0415 - Spark and gRPC are loaded by those who use them

    return check_spark(engine, configuration.working_place, version)


def check_store(place: Place) -> Finding:
    """Write a small object, read it, list it and remove it: what the credentials of this process may do in the store of data sets."""
    folder, said = f"doctor-{uuid.uuid4()}", b"eventflink doctor"
    probe = place / folder / "probe"
    try:
        write_whole(probe, said)
        read, listed = read_start(probe, 100), find_files(place / folder)
        with on_this_host(probe) as copy:
            is_overwritten = place.scheme == S3 and upload_once(copy, probe)
        remove_folder(place, folder, ())
    except (StoreFailed, OSError) as error:
        return Finding("store", Verdict.FAILED, f"{place}: {error}")
    if read != said or list(listed) != ["probe"]:
        return Finding("store", Verdict.FAILED, f"{place} does not give back what was written: it listed {list(listed)} and read {read!r}")
    if is_overwritten:
        lost = "it writes over an object though asked to do so only where none is (If-None-Match)"
        return Finding("store", Verdict.FAILED, f"{place} is not for checkpoints of streams: {lost}, so two queries could note one batch")
    return Finding("store", Verdict.OK, f"{place} can be written, read, listed and cleaned by this process")


def _broker_jars(configuration: Configuration) -> Finding:
    jars = KAFKA_BROKER.path(default_cache_directory())
    if jars.is_dir():
        return Finding("kafka jars", Verdict.OK, str(jars))
    if configuration.bootstrap_servers:
        return Finding("kafka jars", Verdict.OK, "not here, and not needed: bootstrap.servers names a cluster")
    return Finding("kafka jars", Verdict.WARNING, "not here yet; the first 'eventflink up' or 'eventflink broker' fetches them (43 MB)")


def _disk(data_path: Path) -> Finding:
    existing = next(p for p in (data_path, *data_path.parents) if p.exists())
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return Finding("disk", Verdict.FAILED, f"{data_path}: {error.strerror or error}")
    verdict = Verdict.OK if free >= _MINIMUM_FREE_BYTES else Verdict.WARNING
    return Finding("disk", verdict, f"{free / 1024**3:.1f} GiB free at {existing} (data.directory)")


def _secret(configuration: Configuration) -> Finding:
    reference = configuration.secret_reference
    if not reference:
        why = f"{KEY} is {OFF}" if configuration.cluster_secret else f"{KEY} is not set, and no secret was found below data.directory"
        said = f"{why}: masters believe everybody who may write to the topics of '{configuration.cluster_id}' (docs/security.md)"
        return Finding("cluster secret", Verdict.WARNING, said)
    try:
        secrets_of(reference)
    except SecretMissing as error:
        return Finding("cluster secret", Verdict.FAILED, str(error))
    return Finding("cluster secret", Verdict.OK, reference)


def _transactions(access: ClusterAccess) -> Iterator[Finding]:
    try:
        with needs("cluster", "looking for open transactions"):
            from eventflink.cli.transactions import transaction_findings  # noqa: PLC0415 - its connections are an extra's
    except PackageMissing as error:
        yield Finding("transactions", Verdict.WARNING, str(error))
    else:
        yield from transaction_findings(access)


def _topics(access: ClusterAccess, configuration: Configuration) -> list[Finding]:
    try:
        rows = describe_topics(access, timeout_s=_TIMEOUT_S)
    except KafkaUnreachable as error:
        return [Finding("kafka", Verdict.FAILED, str(error))]
    except AdministrationError as error:
        return [Finding("kafka", Verdict.OK, access.bootstrap), Finding("topics", Verdict.FAILED, str(error))]
    findings = [Finding("kafka", Verdict.OK, f"{access.bootstrap} answers")]
    if not rows:
        return [
            *findings,
            Finding("topics", Verdict.FAILED, f"topics of cluster not found: '{configuration.cluster_id}'; its first master creates them"),
        ]
    findings.append(Finding("topics", Verdict.OK, f"{len(rows)} topics, {sum(r.messages for r in rows)} records"))
    return [*findings, _durability(access, configuration)]


def _durability(access: ClusterAccess, configuration: Configuration) -> Finding:
    try:
        warnings = check_durability(access, configuration.replication_factor, timeout_s=_TIMEOUT_S)
    except AdministrationError as error:
        return Finding("durability", Verdict.FAILED, str(error))
    return Finding("durability", Verdict.WARNING, "; ".join(warnings)) if warnings else Finding("durability", Verdict.OK, "replicated")


def _leader(access: ClusterAccess) -> Finding:
    try:
        leader = find_leader(access, timeout_s=_TIMEOUT_S)
    except GatewayError as error:
        return Finding("leader", Verdict.FAILED, str(error))
    return _blob_server(leader.blob_address, f"{leader.master_id} leads in epoch {leader.epoch}, log offset {leader.log_offset}")


def _blob_server(address: str, leader: str) -> Finding:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        hint = f"; {_TELL_THE_LEADER}" if host in LOOPBACK else ""
        return Finding("leader", Verdict.FAILED, f"{leader}, but its blob server at '{address}' cannot be reached from here: {error}{hint}")
    return Finding("leader", Verdict.OK, leader)
