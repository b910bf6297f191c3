"""A running master: its servers, and the driver that carries out on Kafka what its life asks for.

What comes after what, from the first rebuild to the exit, is decided in `leadership/master_life.py`.
"""

import asyncio
import contextlib
import gc
import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from eventflink.blob import BlobError, BlobStorageFailed
from eventflink.blob.flink_archives import Render
from eventflink.blob.open_storage import open_storage
from eventflink.blob.server import BlobServer, BlobServerSettings
from eventflink.blob.store import BlobStore
from eventflink.blob.tls import tls_files
from eventflink.entrypoint.archive_places import ArchivePlaces, open_archives
from eventflink.entrypoint.blob_cleaning import BlobCleaner
from eventflink.entrypoint.clocks import monotonic_ms, wall_ms
from eventflink.entrypoint.factories import create_driver, create_election, listens
from eventflink.entrypoint.guardian_link import MasterGuardianLink
from eventflink.entrypoint.leadership_metrics import LeadershipMetrics
from eventflink.entrypoint.operators_words import NO_WORDS, OperatorsWords
from eventflink.entrypoint.query_server import QueryServer
from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.entrypoint.tail import Tail
from eventflink.entrypoint.term import Term
from eventflink.events.seal import seals_of
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.configured_settings import master_settings
from eventflink.leadership.election import Peers
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable, check_secret
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import TailFailed, TopicReplaced
from eventflink.leadership.master_life import Exit, Follow, MasterLife, Rebuild, Step
from eventflink.leadership.participant import Participant
from eventflink.leadership.ports import Observer, ParticipantSettings
from eventflink.log.administration import (
    AdministrationError,
    check_durability,
    check_transaction_bound,
    ensure_topics,
)
from eventflink.log.producers import EffectProducer
from eventflink.log.replay import ReplayStalled
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import Configuration
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.rehearsal import SCRATCH_MARK
from eventflink.model.statuses import ApplicationStatus
from eventflink.processes.ending import ending_on_signals
from eventflink.processes.trace import IS_TRACING
from eventflink.snapshots.keeper import MomentOfCluster, SnapshotKeeper, starter
from eventflink.snapshots.loading import read_state
from eventflink.snapshots.truncation import accept_log_end

if TYPE_CHECKING:
    from eventflink.entrypoint.application_main import Application
    from eventflink.entrypoint.master_metrics import MasterView

_logger = logging.getLogger(__name__)

EFFECTS_CLOSE_TIMEOUT_S = 5.0
BROKER_CHECK_TIMEOUT_S = 5.0

_EXPECTED = (
    LogUnusable,
    LogDiverged,
    LogNotDense,
    TopicReplaced,
    TailFailed,
    ReplayStalled,
    KafkaException,
    AdministrationError,
    OSError,
    TimeoutError,
)
"""How a rebuild, a tail or a connection may fail; any other exception ends the process."""


class MasterFailed(Exception):
    """The master cannot run; the message says why."""


class MasterProcess:
    """The parts of one master that live as long as its process."""

    def __init__(
        self,
        configuration: Configuration,
        access: ClusterAccess,
        life: MasterLife,
        registry: SchemaRegistryClient,
        words: OperatorsWords,
        archives: ArchivePlaces,
        driver: ResourceDriver | None = None,
    ) -> None:
        self.driver = driver
        self._configuration = configuration
        self._access = access
        self._life = life
        self._registry = registry
        self._words = words
        self._has_compared = False
        """Whether the log was held against what others know of it: from then on this process knows more than they."""
        self._archives = archives
        self._effects = EffectProducer(access)
        self._guardian = MasterGuardianLink(configuration, access, is_needed=listens(life.election))
        self._tail: Tail | None = None

    @property
    def participant(self) -> Participant | None:
        """The participant of the present term; None between two terms."""
        return self._life.participant

    async def run(self, stop: asyncio.Event) -> ApplicationStatus | None:
        """Live until `stop` is set or the cluster ends; return as what it has ended.

        Raises:
            MasterFailed: the log or a topic is not usable.

        """
        guarding = asyncio.create_task(self._guardian.run())
        step = self._life.start(monotonic_ms())
        try:
            while not isinstance(step, Exit):
                try:
                    step = await self._carry_out(step, stop)
                except _EXPECTED as error:
                    step = self._life.failed(error, monotonic_ms())
        finally:
            await self._drop_tail()
            is_delivered = await asyncio.to_thread(self._effects.close, EFFECTS_CLOSE_TIMEOUT_S)
            await _end(guarding)
            if self._life.has_resigned and is_delivered:
                self._guardian.leave_will(None)
            await asyncio.to_thread(self._guardian.close)
        if step.is_failure:
            raise MasterFailed(str(step.cause)) from step.cause
        return step.status

    async def _carry_out(self, step: Step, stop: asyncio.Event) -> Step:
        if isinstance(step, Rebuild):
            if step.closes_tail:
                await self._drop_tail()
            await _wait(stop, step.after_ms / 1000)
        if stop.is_set() and (exit_ := self._life.stop(monotonic_ms())) is not None:
            return exit_
        if isinstance(step, Follow):
            return await self._follow(step.fold, stop)
        if isinstance(step, Rebuild) and step.cause is not None:  # The state of the term that ended is garbage now.
            gc.unfreeze()
            gc.collect()
        fold = await asyncio.to_thread(self._rebuild)
        gc.freeze()  # A large state would be walked through by every full collection, and decisions would wait for that.
        return self._life.rebuilt(fold)

    async def _follow(self, fold: Fold, stop: asyncio.Event) -> Step:
        tail = self._tail
        if tail is None:
            tail = self._tail = Tail(self._configuration, self._access, self._registry, self._words.rebound)
            await tail.start(fold)
        tail.check()
        term = Term(self._configuration, self._access, self._life, tail, self._effects, self._guardian, self._archives, self.driver)
        return await term.run(fold, stop)

    def _rebuild(self) -> Fold:
        """Take the newest snapshot, and fold the log behind it up to its present end, which holds all that is known of it (P5a).

        Raises:
            LogTruncated: it does not.
            SecretUnfit: it is sealed, and this master has no secret.

        """
        fold = read_state(
            self._access,
            master_settings(self._configuration),
            known=self._life.known,
            believes_masters=not self._has_compared and self._words.accepted_log_end is None,
        )
        self._has_compared = True
        check_secret(fold)
        return fold

    def look(self) -> MomentOfCluster | None:
        """Return what the keeper of snapshots goes by; None between two terms."""
        participant = self.participant
        if participant is None:
            return None
        fold = participant.fold
        leads = participant.leader is not None
        return MomentOfCluster(fold.last_offset, fold.master.upkeep, leads, participant.rank(monotonic_ms()))

    def measure(self) -> "MasterView":
        """Return what metrics are read from; to be called in the event loop."""
        from eventflink.entrypoint.master_metrics import MasterView  # noqa: PLC0415 - no master without metrics loads them

        tail = self._tail
        end_offset, held_back = (tail.log_end_offset(), tail.held_back()) if tail is not None else (None, {})
        return MasterView(self.participant, end_offset, held_back, self._effects.failed_count, monotonic_ms(), wall_ms())

    async def _drop_tail(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            await tail.stop()


def _participant_settings(configuration: Configuration, access: ClusterAccess, incarnation: str, blob_address: str) -> ParticipantSettings:
    return ParticipantSettings(
        master_id=configuration.master_id,
        incarnation=incarnation,
        blob_address=blob_address,
        lease_timeout_ms=configuration.lease_timeout_ms,
        leader_heartbeat_interval_ms=configuration.leader_heartbeat_interval_ms,
        window_size=configuration.window_size,
        resend_interval_ms=configuration.redeploy_interval_ms,
        heartbeat_interval_ms=configuration.heartbeat_interval_ms,
        loss_timeout_ms=configuration.loss_timeout_ms,
        feature_level_wait_ms=configuration.feature_level_wait_ms,
        seals=seals_of(access),
    )


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until the master is asked to stop."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task; an error that it ended with before is logged, and ends nothing else."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    except Exception as error:
        _logger.exception("TaskFailed reason=%s", type(error).__name__)


async def _open_blobs(configuration: Configuration) -> tuple[BlobStore, BlobServer]:
    """Return the store and its server, which does not listen yet.

    Raises:
        MasterFailed: the storage does not work.
        BlobStorageUnusable, PackageMissing: what is configured is none.

    """
    settings = BlobServerSettings(
        host=configuration.blob_bind_host,
        ports=configuration.blob_port,
        max_bytes=configuration.blob_max_bytes,
        max_total_bytes=configuration.blob_max_total_bytes,
        max_bytes_per_job=configuration.blob_max_bytes_per_job,
        max_transfers=configuration.blob_max_transfers,
        backlog=configuration.blob_backlog,
        tls=tls_files(configuration),
    )
    try:
        store = await asyncio.to_thread(lambda: BlobStore(open_storage(configuration.blob_location)))
    except BlobStorageFailed as error:
        raise MasterFailed(str(error)) from error
    return store, BlobServer(store, settings)


async def _run(
    configuration: Configuration,
    access: ClusterAccess,
    words: OperatorsWords,
    driver: ResourceDriver | None,
    application: "Application | None",
    render_flink: Render | None,
) -> ApplicationStatus | None:
    stop, loop = ending_on_signals(), asyncio.get_running_loop()
    incarnation = uuid.uuid4().hex
    peers = Peers(configuration.lease_timeout_ms, configuration.feature_level_wait_ms)
    election = create_election(configuration, incarnation, peers)
    archives = open_archives(configuration, render_flink)
    store, server = await _open_blobs(configuration)
    try:
        port = await server.start()
    except BlobError as error:
        raise MasterFailed(str(error)) from error
    try:
        try:
            await asyncio.to_thread(election.start)
        except OSError as error:  # TimeoutError is one.
            raise MasterFailed(f"high-availability.type {configuration.high_availability}: {error}") from error
        # A trace wants to know when a decision begins, and it is these that note it.
        work = LeadershipMetrics() if configuration.metrics_ports or IS_TRACING else None
        registry = SchemaRegistryClient(configuration.schema_registry_url)
        life = MasterLife(
            _participant_settings(configuration, access, incarnation, f"{configuration.rpc_address}:{port}"),
            election.election,
            peers,
            InboundDecoder(registry.schema, seals_of(access)),
            lambda: f"{configuration.master_id}-{uuid.uuid4().hex}",
            work or Observer(),
        )
        process = MasterProcess(configuration, access, life, registry, words, archives, driver)
        query_server = QueryServer(
            access,
            configuration.master_id,
            configuration.query_bind_host,
            configuration.query_port,
            lambda: process.participant,
        )
        query_address = f"{configuration.rpc_address}:{await query_server.start()}"
        life.settings = replace(life.settings, query_address=query_address)
        metrics = None
        if work is not None and configuration.metrics_ports:
            from eventflink.entrypoint.master_metrics import master_registry  # noqa: PLC0415 - no master without metrics loads them
            from eventflink.metrics.service import serve_metrics  # noqa: PLC0415 - see above

            metrics = await asyncio.to_thread(serve_metrics, master_registry(configuration, work, loop, process.measure), configuration)
            if metrics is not None:
                query_server.metrics_address = metrics.address_by(configuration.rpc_address)
        keeper = asyncio.create_task(SnapshotKeeper(configuration, starter(configuration, access)).run(process.look))
        cleaner = BlobCleaner(configuration, store, lambda: process.participant)
        tasks = [keeper] if configuration.drills_rehearsal else [keeper, asyncio.create_task(cleaner.run())]
        if application is not None:
            from eventflink.entrypoint.application_runner import ApplicationRunner  # noqa: PLC0415 - no other master loads the gateways

            runner = ApplicationRunner(application, access, lambda: process.participant)
            tasks.append(asyncio.create_task(runner.run()))
        try:
            return await process.run(stop)
        finally:
            for task in tasks:
                await _end(task)
            await query_server.stop()
            if metrics is not None:
                await asyncio.to_thread(metrics.stop)
    finally:
        await asyncio.to_thread(election.close)
        await server.stop()


def _warn_of_transactions(kafka: KafkaAccess) -> None:
    """Say that clients' transactions may hold the inbound topics up for long (P11); a Kafka that does not tell is not asked again."""
    try:
        warnings = check_transaction_bound(kafka, BROKER_CHECK_TIMEOUT_S)
    except AdministrationError as error:
        warnings = [f"whether transactions are bounded is not known: {error}"]
    for warning in warnings:
        _logger.warning("TransactionsUnbounded %s", warning)


def run_master(
    configuration: Configuration,
    access: ClusterAccess,
    words: OperatorsWords = NO_WORDS,
    program: Sequence[str] = (),
    *,
    application: "Application | None" = None,
    render_flink: Render | None,
) -> int:
    """Run a master until SIGTERM or SIGINT, or until the cluster ends; return the exit code: 0, or that of how the cluster ended.

    An `application` is run while this master leads, and ends the cluster.
    `program` is the command line of an `eventflink` with the same configuration, for the resource driver.
    `render_flink` makes archives in Flink's format; None: none are written.

    Raises:
        MasterFailed: it cannot run; the message says why.
        AdministrationError: the topics are not as they must be.
        LogTruncated: the log is missing, or does not end where it was accepted to end.
        ConfigurationError: there is no such resource driver.
        BlobStorageUnusable: no master can share what blobs or archives are to be kept in.
        PackageMissing: something that is configured needs a package that is not installed.

    """
    configuration = configuration.with_ids()
    if configuration.drills_rehearsal and SCRATCH_MARK not in configuration.cluster_id:
        raise MasterFailed(
            f"drills.rehearsal is for masters on a copy of a log, whose cluster id contains '{SCRATCH_MARK}': "
            f"a master of '{configuration.cluster_id}' would never clean up"
        )
    ensure_topics(
        access,
        configuration.replication_factor,
        deployment_partitions=configuration.deployment_partitions,
    )
    for warning in check_durability(access, configuration.replication_factor):
        _logger.warning("NotDurable %s", warning)
    if words.accepted_log_end is not None and not accept_log_end(access, words.accepted_log_end):
        words = replace(words, accepted_log_end=None)
    _warn_of_transactions(access.kafka)
    driver = create_driver(configuration, program)
    try:
        outcome = asyncio.run(_run(configuration, access, words, driver, application, render_flink))
    finally:
        if driver is not None:
            driver.close()
    return 0 if outcome is None else outcome.exit_code
