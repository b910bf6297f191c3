"""A client of the real REST application over a log that is a list: only Kafka is left out, and commands reach nobody, or a real leader."""

import asyncio
import dataclasses
import pickle
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi.testclient import TestClient

from eventflink.blob.job_archives import JobArchives
from eventflink.events.log_events import RequestAccepted
from eventflink.events.seal import NO_SEALS
from eventflink.gateways.async_gateways import AsyncDispatcherGateway, AsyncGateway, AsyncResourceManagerGateway
from eventflink.gateways.errors import refusal_of
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.steps import Ask, AwaitUpload, Step, Steps, Work, drive_async
from eventflink.leadership.fold import Fold
from eventflink.master.settings import MasterSettings
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import load_configuration
from eventflink.reader.heartbeats import Heartbeats
from eventflink.reader.observed_state import ObservedState
from eventflink.reader.past.historian import Historian
from eventflink.reader.past.log_book import LogBook
from eventflink.reader.past.port import History, NoHistory
from eventflink.rest.access.guard import configured_admission
from eventflink.rest.access.tokens import configured_tokens
from eventflink.rest.application import build_application
from eventflink.rest.services import Services
from tests.support.cluster import START_MS, ScriptedCluster, new_fold, replay, replies
from tests.support.hand import NOWHERE

T = TypeVar("T")


@contextmanager
def rest_client(fold: Fold, **configuration: str) -> Iterator[TestClient]:
    """Give a client; the state stays where the fold stands."""
    with client_with_archives(fold, None, **configuration) as client:
        yield client


@contextmanager
def client_with_archives(fold: Fold, archives: JobArchives | None, **configuration: str) -> Iterator[TestClient]:
    """Give a client that reads of ended jobs there; the state stays where the fold stands."""
    state = ObservedState()
    state.replace(fold)
    with _client(state, AsyncDispatcherGateway(NOWHERE, "nobody", request_timeout_s=1), configuration, archives) as client:
        yield client


@contextmanager
def client_of_log(log: Sequence[bytes], timestamps: Sequence[int] = (), known: int | None = None) -> Iterator[TestClient]:
    """Give a client that knows the present and the past of a log; of the past, the first `known` records."""
    state = ObservedState()
    state.replace(replay(log, timestamps=timestamps))
    history = ListHistory(log[:known], timestamps)
    nobody = AsyncDispatcherGateway(NOWHERE, "nobody", request_timeout_s=1)
    application = build_application(services_with(state, nobody, {}, history=history))
    with TestClient(application, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


@contextmanager
def commanding_client(cluster: ScriptedCluster, **configuration: str) -> Iterator[TestClient]:
    """Give a client whose commands the leader of a cluster decides; the state follows its log, each time after the answer is there."""
    dispatcher = dispatcher_of(cluster)
    with _client(dispatcher.state, dispatcher, configuration) as client:
        yield client


@contextmanager
def _client(
    state: ObservedState, dispatcher: AsyncDispatcherGateway, configuration: dict[str, str], archives: JobArchives | None = None
) -> Iterator[TestClient]:
    application = build_application(services_with(state, dispatcher, configuration, archives))
    with TestClient(application, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def services_with(
    state: ObservedState,
    dispatcher: AsyncDispatcherGateway,
    overrides: dict[str, str],
    archives: JobArchives | None = None,
    history: History | None = None,
) -> Services:
    """Return what the routes work with, over a state that a test moves; the past is that of the dispatcher's cluster, if it has one."""
    configuration, proof = load_configuration(None, overrides), NO_SEALS
    admission = configured_admission(configuration, configuration.rest_bind_address, configured_tokens(configuration))
    if isinstance(dispatcher, ScriptedDispatcher):
        dispatcher.proof = proof = admission.proof(dispatcher.cluster.seals)
        resource_manager: AsyncResourceManagerGateway = ScriptedResourceManager(dispatcher.cluster, state)
        history = history or ListHistory(dispatcher.cluster.log, dispatcher.cluster.timestamps)
    else:
        resource_manager = AsyncResourceManagerGateway(NOWHERE, "nobody", request_timeout_s=1)
    return Services(
        configuration=configuration,
        access=access_to(NOWHERE, configuration.cluster_id),
        state=state,
        dispatcher=dispatcher,
        resource_manager=resource_manager,
        archives=archives,
        heartbeats=Heartbeats(NO_SEALS),
        admission=admission,
        proof=proof,
        history=history or NoHistory(),
    )


def dispatcher_of(cluster: ScriptedCluster) -> "ScriptedDispatcher":
    """Return the way to the leader of a cluster, with a state that stands where its log ends."""
    state = ObservedState()
    state.replace(replay(cluster.log, timestamps=cluster.timestamps))
    return ScriptedDispatcher(cluster, state)


class ListHistory(History):
    """Answers about a log that is a list and may grow; questions and answers are packed as for another process."""

    def __init__(self, log: Sequence[bytes], timestamps: Sequence[int] = (), topic_id: str = "log-of-a-test") -> None:
        self._log, self._timestamps = log, timestamps
        self.book = LogBook(0, new_fold())
        self._historian = Historian(self.book, topic_id, MasterSettings())

    async def ask(self, question: str, *arguments: Any) -> Any:
        end = len(self._log)
        self.book.follow(
            (offset, self._timestamps[offset] if self._timestamps else START_MS, self._log[offset])
            for offset in range(self.book.last_offset + 1, end)
        )
        asked = pickle.loads(pickle.dumps((question, arguments)))
        return pickle.loads(pickle.dumps(self._historian.answer(*asked)))

    def health(self) -> tuple[str, int]:
        return "", 0


class _Scripted(AsyncGateway):
    """Hands commands to the leader of a scripted cluster, as Kafka would."""

    def __init__(self, cluster: ScriptedCluster, state: ObservedState) -> None:
        super().__init__(NOWHERE, "nobody", request_timeout_s=1)
        self.cluster = cluster
        self.state = state
        self.proof = NO_SEALS

    async def run(self, steps: Steps[T]) -> T:
        return await drive_async(steps, self._perform)

    async def _perform(self, step: Step) -> Accepted | str | None:
        if isinstance(step, AwaitUpload):
            return None  # No TaskManager uploads anything.
        if isinstance(step, Work):
            return str(await asyncio.to_thread(step.call))
        assert isinstance(step, Ask), step
        request = dataclasses.replace(step.request, request_id=step.request.request_id or uuid.uuid4().hex, reply_partition=0)
        [reply] = [each for each in replies(self.cluster.send(request, self.proof)) if each.request_id == request.request_id]
        asyncio.get_running_loop().call_soon(self.follow)
        payload, offset = reply.payload, len(self.cluster.log) - 1
        if isinstance(payload, RequestAccepted):
            return Accepted(reply.request_id, payload.subject, 1, 1, "leader", offset)
        raise refusal_of(payload.code, payload.message, offset)

    def follow(self) -> None:
        """Fold what the leader has decided since."""
        for offset in range(self.state.log_offset + 1, len(self.cluster.log)):
            self.state.advance([(offset, self.cluster.timestamps[offset], self.cluster.log[offset])])


class ScriptedDispatcher(_Scripted, AsyncDispatcherGateway):
    """The Dispatcher of a scripted cluster."""


class ScriptedResourceManager(_Scripted, AsyncResourceManagerGateway):
    """The ResourceManager of a scripted cluster."""
