"""A cluster for tests, as Flink's MiniCluster is one, but of real processes: masters and TaskExecutors, to be crashed for real.

Here is what a test says and sees: jobs, topics, crashes. How the processes are started, found and killed is in `cluster_processes.py`.
The rule: after a crash that is to be recovered from, the cluster is whole again before the test goes on, or the test is told why not.
"""

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

from eventflink.blob.client import put_blob
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.state_reads import sources_of
from eventflink.jobs.job_files import Document, described, with_archives
from eventflink.local.embedded_broker import EmbeddedBroker
from eventflink.log.administration import AdministrationError, delete_topics, ensure_topics
from eventflink.model.job_graph_document import bind_parameters
from eventflink.streams.savepoint_restore import begin_in_savepoint
from eventflink.testing.cluster_processes import ClusterProcesses
from eventflink.testing.failures import CannotCrash
from eventflink.testing.job_handle import DEFAULT_TIMEOUT_S, REQUEST_TIMEOUT_S, JobHandle
from eventflink.testing.records import Record, Topics, records_of
from eventflink.testing.settings import MiniClusterSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Crashable = Literal["leader", "standby", "taskexecutor", "task", "spark", "broker"]


class MiniCluster:
    """A running cluster with a cluster id of its own. For the main thread, with which its processes end; use it as a context manager.

    Examples:
        >>> def test_a_leader_that_is_killed_costs_no_row(eventflink_cluster):
        ...     job = eventflink_cluster.submit("totals.yaml", code=["totals.py"])
        ...     eventflink_cluster.crash("leader")
        ...     assert job.result("totals") == [{"customer": "ada", "amount": 42}]

    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        settings: MiniClusterSettings | None = None,
        *,
        broker: EmbeddedBroker | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            bootstrap: the Kafka cluster.
            directory: what the processes write: logs, data sets of jobs, Spark's files.
            settings: how many processes, and their configuration.
            broker: the broker at `bootstrap`, if it may be crashed; None: it is somebody else's.

        """
        self.bootstrap = bootstrap
        self.settings = settings or MiniClusterSettings()
        self.cluster_id = f"test-{uuid.uuid4().hex[:12]}"
        self.processes = ClusterProcesses(bootstrap, self.cluster_id, directory, self.settings)
        self.savepoint_directory = str((directory / "savepoints").resolve())
        self._broker = broker
        self.access = self.processes.access
        """How it is reached: what gateways are made of."""
        self._topics = Topics(self.access.kafka, self._describe_jobs)
        self._jobs: list[JobHandle] = []
        self._gateway: DispatcherGateway | None = None

    @property
    def gateway(self) -> DispatcherGateway:
        """The Python gateway to the cluster's Dispatcher (docs/gateways.md), for what a handle does not offer."""
        if self._gateway is None:
            sources = sources_of(self.processes.configuration, lambda: self.bootstrap, self.cluster_id)
            self._gateway = DispatcherGateway(self.access, request_timeout_s=REQUEST_TIMEOUT_S, sources=sources)
        return self._gateway

    def __enter__(self) -> Self:
        """Start the processes and wait until one leads and all TaskExecutors are registered.

        Raises:
            KafkaUnreachable: nobody answers at `bootstrap`.
            ClusterNotStarted: a process ended, or did not come up in time.
            ConfigurationError: the settings have a key or a value that is wrong.

        """
        ensure_topics(self.access)
        try:
            self.processes.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and delete the topics: those of the cluster, and those that `create_topic` made."""
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None
        self.processes.close()
        with contextlib.suppress(AdministrationError):
            self._topics.delete_all()
            delete_topics(self.access)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def submit(
        self,
        graph: Document,
        code: Sequence[Path | str | ModuleType] = (),
        job_id: str | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
        savepoint: Path | str | None = None,
        allow_non_restored_state: bool = False,
    ) -> JobHandle:
        """Submit a job and return when it is in the log.

        Args:
            graph: a JobGraph, a job in Python, a document as a mapping, or the path of a file with one of them.
            code: what travels with the job: files, directories, or imported modules and packages.
            job_id: None: a new one.
            parameters: values of the parameters that the document declares, by name.
            savepoint: in which savepoint its streams begin; None: what the graph says.
            allow_non_restored_state: whether that may have streams that the job does not have.

        Raises:
            InvalidJobGraph, ArchiveError: the document or the code is not usable; the message names the place.
            SavepointUnusable: there is no such savepoint, or it does not fit the graph.
            RequestRefused: the leader refuses the job; the message says why.

        """
        asked = described(graph)
        parsed = bind_parameters(asked.graph, parameters or {})
        if savepoint is not None or parsed.restore is not None:
            parsed = begin_in_savepoint(parsed, savepoint, allow_non_restored_state=allow_non_restored_state)
        if archives := asked.archives([_path_of(part) for part in code]):
            address = self.gateway.find_leader().blob_address
            parsed = with_archives(parsed, archives, partial(put_blob, address))
        job = JobHandle(self, self.gateway.submit_job(parsed, job_id, actor="eventflink.testing").job_id)
        self._jobs.append(job)
        return job

    # -- topics ----------------------------------------------------------------------------------------------------

    def unique(self, prefix: str) -> str:
        """Return a name that nobody else has, for a topic or a directory: a Kafka may be shared by tests that run at once."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def create_topic(self, name: str, partitions: int = 1, configuration: Mapping[str, str] | None = None) -> str:
        """Make a topic that is deleted with the cluster; return its name. Raises ValueError if it is there already."""
        self._topics.create(name, partitions, configuration or {})
        return name

    def feed(self, topic: str, records: Iterable[Record | Mapping[str, Any] | bytes | str], *, key: str | None = None) -> None:
        """Append records to a topic and return when Kafka has them.

        A mapping becomes JSON, text UTF-8, bytes stay; a `Record` has a key, a timestamp, a partition as well. `key` names the field of
        each mapping that is its record's key.
        """
        self._topics.feed(topic, records_of(records, key))

    def advance_event_time(self, topic: str, record: Record | Mapping[str, Any] | bytes | str) -> None:
        """Append a record with a later event time to every partition of a topic, so that no partition holds a watermark back.

        Spark moves the watermark at the end of a batch: what the record closes comes out with the batch after it. The record is data like
        any other: give it a key that the test does not count.
        """
        [one] = records_of([record], None)
        self._topics.feed(topic, [dataclasses.replace(one, partition=p) for p in range(self._topics.partitions_of(topic))])

    def collect(self, topic: str, count: int, timeout_s: float = DEFAULT_TIMEOUT_S, *, committed: bool = True) -> list[Record]:
        """Wait until a topic has at least `count` records and return all that it has: one too many is seen as well.

        They are in the order of each partition, from the topic's beginning. With `committed` those of open and aborted transactions are
        left out.
        """
        wanted = f"{count} {'committed ' if committed else ''}records"
        return self._topics.collect_until(topic, lambda records: len(records) >= count, wanted, timeout_s, committed=committed)

    def collect_until(
        self,
        topic: str,
        condition: Callable[[list[Record]], Any],
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        committed: bool = True,
    ) -> list[Record]:
        """Wait until the condition holds for all records of a topic, and return them; otherwise as `collect`."""
        return self._topics.collect_until(topic, condition, "what was waited for", timeout_s, committed=committed)

    # -- Spark -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def spark_session(self) -> Iterator["SparkSession"]:
        """Open a session on the Spark server that the cluster's tasks use, which is started if it was not; it ends with the block.

        Raises:
            SparkUnavailable: the server cannot be started; the message says why, with the last lines of its log.

        """
        session = self.processes.open_spark_session()
        try:
            yield session
        finally:
            session.stop()

    # -- crashes ---------------------------------------------------------------------------------------------------

    def crash(
        self,
        what: Crashable,
        *,
        job: JobHandle | None = None,
        vertex: str | None = None,
        subtask: int = 0,
        restart: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> str:
        """Kill a real process with SIGKILL, and return what it was, such as `leader master-1 (process 4711)`.

        Args:
            what: `leader` or `standby`, a master; `taskexecutor`, with all its tasks; `task`, the process of a running attempt, which is
                waited for; `spark`, the JVM of the Spark server that the tasks use; `broker`, the embedded Kafka.
            job: whose task, or whose TaskExecutor; None: that of the only job that runs, or the first TaskExecutor.
            vertex: None: one that runs.
            subtask: its index.
            restart: bring the cluster back before returning, as an operator's supervisor would: a new leader leads, a master or
                TaskExecutor that died is started again, the broker has the same port and data. Without it `restart` does that later.
                A task is started again by its job's restart strategy, Spark by the next task that needs it.
            timeout_s: how long a running task, and the recovery, are waited for.

        Raises:
            CannotCrash: there is no such process, or it is not the plugin's own; nothing was done.
            Unexpected: the cluster is not whole again in time.

        """
        match what:
            case "leader" | "standby":
                killed = self.processes.kill_master(leader=what == "leader")
            case "taskexecutor":
                place = job.running_subtask(vertex, subtask, timeout_s)[1].task_manager_id if job is not None else None
                killed = self.processes.kill_task_executor(place)
            case "task":
                meant = job or self._only_live_job()
                killed = self.processes.kill_task(meant.job_id, *meant.running_subtask(vertex, subtask, timeout_s), timeout_s)
            case "spark":
                killed = self.processes.kill_spark()
            case "broker":
                killed = self._kill_broker()
            case _:
                known = "leader, standby, taskexecutor, task, spark, broker"
                raise ValueError(f"unknown process to crash: '{what}'; known: {known}")
        if restart:
            self.restart(timeout_s)
        return killed

    def restart(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Start what has been killed, and wait until the cluster is whole: a leader, its standbys, all TaskExecutors."""
        if self._broker is not None and not self._broker.is_running:
            self._broker.start()
        self.processes.restart(timeout_s)

    def _kill_broker(self) -> str:
        if self._broker is None:
            raise CannotCrash(
                f"the Kafka at {self.bootstrap} is not the plugin's own, so it is not killed: only the embedded broker can be crashed, "
                "which is there without --eventflink-bootstrap"
            )
        killed = f"broker {self.bootstrap} (process {self._broker.process_id})"
        self._broker.kill()
        return killed

    def _only_live_job(self) -> JobHandle:
        live = [job for job in self._jobs if not job.has_ended]
        if len(live) != 1:
            running = ", ".join(job.job_id for job in live)
            raise CannotCrash(f"{len(live)} jobs run; say whose task: job=…" + (f" ({running})" if live else ""))
        return live[0]

    # -- telling ---------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Say which processes run, and how those ended that do not, with the last lines of their logs."""
        return self.processes.describe()

    def _describe_jobs(self) -> str:
        return "\n".join([*(f"job {job.job_id}: {job.describe()}" for job in self._jobs[-3:]), *([] if self._jobs else [self.describe()])])


def _path_of(part: Path | str | ModuleType) -> Path:
    if not isinstance(part, ModuleType):
        return Path(part)
    if part.__file__ is None:
        raise ValueError(f"the module {part.__name__} has no file that could travel with a job")
    file = Path(part.__file__)
    return file.parent if file.name == "__init__.py" else file
