"""A term of a master with everything real but Kafka: what it appends and says on `leadership` is handed back to it at once."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eventflink.entrypoint.archive_places import ArchivePlaces
from eventflink.entrypoint.clocks import wall_ms
from eventflink.entrypoint.guardian_link import MasterGuardianLink
from eventflink.entrypoint.resource_driver import ResourceEventHandler
from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.entrypoint.tail import Tail
from eventflink.entrypoint.term import Term
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership.election import Peers, SingleMaster
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.intake import InboundTopic, TailFailed
from eventflink.leadership.master_life import Exit, MasterLife, Step
from eventflink.leadership.ports import ParticipantSettings
from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.log.producers import EffectProducer, LogAppender
from eventflink.master.effects import RequestWorker
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import build_configuration
from eventflink.model.statuses import ApplicationStatus
from tests.support.cluster import replay
from tests.support.hand import NOWHERE

SHUT_DOWN = b'{"type": "ShutDownCluster", "application_status": "FAILED", "request_id": "r", "reply_partition": 0}'
ACCESS = access_to(NOWHERE, "test")


class SlowDriver:
    """Deregisters for as long as the test wants."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.status = ""

    def lead(self, epoch: int, handler: ResourceEventHandler) -> None:
        """Serve anybody."""

    def list_workers(self) -> Sequence[ListedWorker]:
        return ()

    def request_worker(self, worker: RequestWorker) -> None:
        raise OSError(f"{worker.worker_id} is not wanted here")

    def stop_worker(self, worker_id: str) -> None:
        """There are none."""

    def deregister_application(self, status: str, diagnostics: str) -> None:  # noqa: ARG002 - the port's signature
        self.has_begun.set()
        assert self.may_end.wait(20)
        self.status = status

    def close(self) -> None:
        """Hold nothing."""


class LoopTerm(Term):
    """Reads at once what it writes."""

    failure: Exception | None = None
    end_offset = 0
    is_over = False
    late_turns = 0

    def _turn(self) -> None:
        self.late_turns += self.is_over
        super()._turn()

    def append_decision(self, value: bytes) -> None:
        self._tail.intake.on_record(Topic.LOG, self.end_offset, wall_ms(), None, value, 0)
        self.end_offset += 1

    def produce(self, topic: Topic, key: str, value: bytes, partition: int = 0) -> None:
        """What leaves is not looked at."""

    def poll(self) -> None:
        if self.failure is not None:
            raise self.failure


async def _ended_while_deregistering(directory: Path, disturb: Callable[[LoopTerm, asyncio.Event], None]) -> tuple[Step, str]:
    """Return what a term asks for that is disturbed while the driver deregisters, and what the driver had done by then."""
    configuration = build_configuration({"jobmanager.id": "m", "data.directory": str(directory)}, "test")
    life = MasterLife(
        ParticipantSettings(master_id="m", incarnation="m-1", blob_address="m:1"),
        SingleMaster(),
        Peers(1_000),
        InboundDecoder(),
        lambda: "leader-1",
    )
    tail = Tail(configuration, ACCESS, SchemaRegistryClient(""), ())
    tail._topics.update({str(topic): InboundTopic(f"id-of-{topic}", 0) for topic in INBOUND})
    driver, stop = SlowDriver(), asyncio.Event()
    fold = replay([])
    life.rebuilt(fold)
    guardian = MasterGuardianLink(configuration, ACCESS, is_needed=False)
    term = LoopTerm(configuration, ACCESS, life, tail, EffectProducer(ACCESS), guardian, ArchivePlaces(None, None), driver)
    running = asyncio.create_task(term.run(fold, stop))
    tail.intake.on_record(Topic.COMMANDS, 0, wall_ms(), None, SHUT_DOWN, 0)
    assert await asyncio.to_thread(driver.has_begun.wait, 20)
    disturb(term, stop)
    await asyncio.wait([running], timeout=0.3)
    driver.may_end.set()
    step = await running
    term.is_over = True
    tail.on_progress()  # The tail outlives the term, and reads on.
    await asyncio.sleep(0)
    assert not term.late_turns, "the next term's life would take a step that nobody carries out"
    return step, driver.status


@pytest.fixture(autouse=True)
def _no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogAppender, "connect", lambda _self: None)


def test_sigterm_does_not_cut_short_what_the_driver_is_told_of_the_clusters_end(tmp_path: Path) -> None:
    """It stops the workers; who exits before has them live on for a cluster that has ended."""
    step, told = asyncio.run(_ended_while_deregistering(tmp_path, lambda _term, stop: stop.set()))
    assert (step, told) == (Exit(ApplicationStatus.FAILED), "FAILED")


def test_neither_does_an_error_of_the_term(tmp_path: Path) -> None:
    def break_down(term: LoopTerm, _stop: asyncio.Event) -> None:
        term.failure = TailFailed("Faust has stopped")

    step, told = asyncio.run(_ended_while_deregistering(tmp_path, break_down))
    assert isinstance(step, Exit)
    assert (step.status, type(step.cause), told) == (ApplicationStatus.FAILED, TailFailed, "FAILED")
