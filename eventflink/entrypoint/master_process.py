"""A running master: blob server, then one term after the other until it is told to stop.

A term that ends because its leadership ended is followed by another one, after a rebuild from the log and with back-off; a
log that cannot be folded is fatal.
"""

import asyncio
import gc
import logging
import signal

from confluent_kafka import KafkaException

from eventflink.blob.server import BlobServer
from eventflink.blob.store import BlobStore
from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.entrypoint.term import Term, TopicReplaced, replay_to_end
from eventflink.leadership.acceptance import LogDiverged, LogNotDense
from eventflink.leadership.fold import LogUnusable
from eventflink.leadership.leader import LeadershipEnded
from eventflink.log.administration import AdministrationError, check_durability, ensure_topics
from eventflink.log.producers import AppendFailed
from eventflink.log.replay import ReplayStalled, new_fold
from eventflink.master.master import MasterSettings
from eventflink.model.configuration import Configuration
from eventflink.model.job_graph import RestartStrategy

_logger = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.2
MAX_BACKOFF_S = 10.0

_PASSING = (LeadershipEnded, AppendFailed, LogNotDense, ReplayStalled, KafkaException, AdministrationError, OSError, TimeoutError)


class MasterFailed(Exception):
    """The master cannot run; the message says why."""


def master_settings(configuration: Configuration) -> MasterSettings:
    """Return what the core takes from the configuration."""
    return MasterSettings(
        slot_request_timeout_ms=configuration.slot_request_timeout_ms,
        job_store_capacity=configuration.job_store_capacity,
        request_horizon=configuration.request_horizon,
        restart_strategy=RestartStrategy(
            strategy_type=configuration.restart_strategy,
            attempts=configuration.restart_attempts,
            delay_ms=configuration.restart_delay_ms,
        ),
    )


async def _lead(configuration: Configuration, bootstrap: str, blob_address: str, stop: asyncio.Event) -> None:
    poisoned: dict[tuple[str, int], str] = {}
    registry = SchemaRegistryClient(configuration.schema_registry_url)
    backoff_s = FIRST_BACKOFF_S
    while not stop.is_set():
        started = asyncio.get_running_loop().time()
        try:
            gc.unfreeze()  # The state of the last term is garbage now.
            gc.collect()
            fold = await replay_to_end(configuration, bootstrap, new_fold(master_settings(configuration)))
            gc.freeze()  # A large state would be walked through by every full collection, and decisions would wait for that.
            await Term(configuration, bootstrap, fold, blob_address, poisoned, registry).run(stop)
        except (LogUnusable, LogDiverged, TopicReplaced) as error:
            raise MasterFailed(str(error)) from error
        except _PASSING as error:
            _logger.warning("TermEnded reason=%s error=%s", type(error).__name__, error)
            if asyncio.get_running_loop().time() - started > MAX_BACKOFF_S:
                backoff_s = FIRST_BACKOFF_S
            try:
                await asyncio.wait_for(stop.wait(), backoff_s)
            except TimeoutError:
                backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)


async def _run(configuration: Configuration, bootstrap: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    server = BlobServer(
        BlobStore(configuration.blob_path), configuration.blob_bind_host, configuration.blob_port, configuration.blob_max_bytes
    )
    port = await server.start()
    try:
        await _lead(configuration, bootstrap, f"{configuration.rpc_address}:{port}", stop)
    finally:
        await server.stop()


def run_master(configuration: Configuration, bootstrap: str) -> int:
    """Run a master until SIGTERM or SIGINT; return the exit code.

    Raises:
        MasterFailed: it cannot run; the message says why.
        AdministrationError: the topics are not as they must be.

    """
    configuration = configuration.with_ids()
    ensure_topics(bootstrap, configuration.cluster_id, configuration.replication_factor)
    for warning in check_durability(bootstrap, configuration.cluster_id, configuration.replication_factor):
        _logger.warning("NotDurable %s", warning)
    asyncio.run(_run(configuration, bootstrap))
    return 0
