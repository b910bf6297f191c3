"""The embedded broker is a real one, keeps its data, never outlives its owner, and says clearly what hinders it."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from eventflink.local.embedded_broker import BrokerUnavailable, EmbeddedBroker
from eventflink.local.jars import KAFKA_BROKER, JarsUnavailable, ensure_jars
from eventflink.local.java import find_java

pytestmark = pytest.mark.slow
OWNER = """
import sys, time
from pathlib import Path
from eventflink.local.embedded_broker import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[1]))
broker.start()
print(broker.process_id, flush=True)
time.sleep(120)
"""


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(10) == 0


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values = [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()
    return values


def wait_until_gone(process_id: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_it_keeps_its_data_over_a_restart_on_another_port(tmp_path: Path) -> None:
    topic = "kept"
    with EmbeddedBroker(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(120)
        produce(broker.bootstrap_servers, topic, b"first")
        first_port = broker.bootstrap_servers
        with pytest.raises(BrokerUnavailable, match="another broker is using"):
            EmbeddedBroker(tmp_path).start()
    assert not broker.is_running
    with EmbeddedBroker(tmp_path) as broker:
        assert broker.bootstrap_servers != first_port
        produce(broker.bootstrap_servers, topic, b"second")
        assert read_all(broker.bootstrap_servers, topic, 2) == [b"first", b"second"]


@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is signalled by Linux only")
def test_it_dies_with_its_owner_and_its_directory_is_free_again(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    java_process_id = int(owner.stdout.readline())
    os.kill(java_process_id, 0)
    owner.send_signal(signal.SIGKILL)
    owner.wait(120)
    owner.stdout.close()
    assert wait_until_gone(java_process_id, 30.0)
    with EmbeddedBroker(tmp_path) as broker:
        assert broker.is_running


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerUnavailable, match=f"port {port} .*bootstrap.servers"):
            EmbeddedBroker(tmp_path, port).start()


def test_when_java_ends_early_its_last_words_are_shown(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path):
        pass
    meta = tmp_path / "kafka" / "meta.properties"
    meta.write_text(meta.read_text(encoding="utf-8").replace("node.id=1", "node.id=7"), encoding="utf-8")
    broker = EmbeddedBroker(tmp_path)
    with pytest.raises(BrokerUnavailable, match=r"(?s)ended while it started.*node"):
        broker.start()
    assert broker.process_id is None


def test_a_broker_that_takes_longer_than_its_setting_says_is_ended_and_the_command_says_which_setting(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eventflink.cli", f"-Ddata.directory={tmp_path}", "-Dbroker.port=0", "-Dbroker.start-timeout=1000"]
    done = subprocess.run([*command, "broker"], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode != 0
    assert "the embedded broker did not answer within 1 s" in done.stderr
    assert "raise broker.start-timeout" in done.stderr
    # `cluster start` shows the last 15 lines of a daemon that has ended: the reason is among them.
    assert "raise broker.start-timeout" in "\n".join(done.stderr.splitlines()[-15:])
    with EmbeddedBroker(tmp_path / "broker") as broker:
        assert broker.is_running


def test_without_network_and_without_cache_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository at a port where nobody listens is what a machine without network sees."""
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers>'
        '<ibiblio name="none" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers></ivysettings>',
        encoding="utf-8",
    )
    monkeypatch.setenv("EVENTFLINK_IVY_SETTINGS", str(settings))
    cache = tmp_path / "cache"
    with pytest.raises(JarsUnavailable, match=r"(?s)is there a network.*not found"):
        ensure_jars(KAFKA_BROKER, find_java(), cache)
    with pytest.raises(BrokerUnavailable, match=r"(?s)is there a network.*not found.*bootstrap\.servers"):
        EmbeddedBroker(tmp_path / "data", cache_directory=cache).start()
    assert not [entry for entry in cache.iterdir() if entry.suffix not in (".lock", ".ivy")]


def wait_until(happened: Callable[[], bool], timeout_s: float = 240.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache that has Kafka's jars and nothing else."""
    jars = ensure_jars(KAFKA_BROKER, find_java())
    shutil.copytree(jars, tmp_path / "cache" / jars.name)
    return tmp_path / "cache"


def dumping(archives: Path) -> list[psutil.Process]:
    """The JVMs that write an archive into this directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            options = process.cmdline()
            if "-Xshare:dump" in options and any(str(archives) in option for option in options):
                found.append(process)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="what a JVM runs with is read from /proc")
def test_the_first_start_leaves_an_archive_of_classes_that_later_ones_map(tmp_path: Path, cache: Path) -> None:
    """A start tries again where what made it was killed. Damaged, it is refused by the JVM, and the broker starts as it does without."""
    archives = cache / "class-data"
    with EmbeddedBroker(tmp_path / "killed", cache_directory=cache):
        wait_until(lambda: any(process.kill() is None for process in dumping(archives)))
    wait_until(lambda: {path.suffix for path in archives.iterdir()} == {".lock"})
    with EmbeddedBroker(tmp_path / "first", cache_directory=cache):
        wait_until(lambda: bool(list(archives.glob("*.jsa"))))
    wait_until(lambda: {path.suffix for path in archives.iterdir()} == {".jsa", ".lock"})
    [archive] = archives.glob("*.jsa")
    with EmbeddedBroker(tmp_path / "second", cache_directory=cache) as broker:
        assert str(archive) in Path(f"/proc/{broker.process_id}/maps").read_text(encoding="utf-8")
        produced = broker.log_path.read_text(encoding="utf-8")
        assert not [line for line in produced.splitlines() if "cds" in line.lower()]
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.seek(archive.stat().st_size // 3)
        file.write(b"\x55" * 100_000)
    with EmbeddedBroker(tmp_path / "third", cache_directory=cache) as broker:
        assert broker.is_running


def test_where_archives_cannot_be_kept_the_broker_starts_without_and_what_the_format_tool_writes_is_kept_but_for_the_ids(
    tmp_path: Path, cache: Path
) -> None:
    (cache / "class-data").write_text("no directory", encoding="utf-8")
    ids = []
    for name in ("formatted", "copied"):
        with EmbeddedBroker(tmp_path / name, cache_directory=cache) as broker:
            assert broker.is_running
            lines = (tmp_path / name / "kafka" / "meta.properties").read_text(encoding="utf-8").splitlines()
            ids.append({line for line in lines if not line.startswith("#")})
        assert len(list(cache.glob("*-features-*"))) == 1
    assert ids[0] & ids[1] == {"version=1", "node.id=1"}
    assert {line.partition("=")[0] for line in ids[0]} == {line.partition("=")[0] for line in ids[1]}
    files = [(tmp_path / name / "kafka" / "bootstrap.checkpoint").read_bytes() for name in ("formatted", "copied")]
    assert files[0] == files[1]


LOCK_HOLDER = """
import fcntl, pathlib, sys
lock = open(sys.argv[1] + ".lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
pathlib.Path(sys.argv[1]).mkdir()
"""


def test_a_second_process_waits_for_the_one_that_fetches(tmp_path: Path) -> None:
    """The lock is held by somebody who then puts the jars there: they are found, not fetched again."""
    jars = KAFKA_BROKER.path(tmp_path)
    java, lines, pipe = find_java(), list[str](), subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", LOCK_HOLDER, str(jars)], stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        def hear(line: str) -> None:
            lines.append(line)
            print("go on", file=holder.stdin, flush=True)

        assert ensure_jars(KAFKA_BROKER, java, tmp_path, hear) == jars
    assert lines == ["waiting for another process that fetches Apache Kafka"]
