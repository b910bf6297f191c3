"""The clients of a run: they submit, ask, cancel and talk nonsense, and repeat what was not answered, as a client must.

A client speaks of a job on another topic only after its submission was answered (P9). It remembers what it was told; that is what the
cluster is held to in the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.log_events import RequestAccepted
from eventflink.events.topics import SPECIFICATIONS, Topic
from eventflink.model.statuses import JobStatus
from eventflink.testing.simulation.broker import Broker, BrokerRecord, Link
from eventflink.testing.simulation.consumer import SimulatedConsumer
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.producer import SimulatedProducer
from eventflink.testing.simulation.scheduler import LocalClock
from eventflink.testing.simulation.settings import SimulationSettings
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation import job_documents
from tests.simulation.closing_vertices import ClosingVertices
from tests.simulation.conditions import Conditions
from tests.simulation.ledger import AcceptedAnswer
from tests.simulation.mapped_vertices import MappedVertices
from tests.simulation.observer import Observer
from tests.simulation.queues import Queues
from tests.simulation.reruns import Reruns
from tests.simulation.retries import Retries
from tests.simulation.schedules import ScheduleOwners
from tests.simulation.time_limits import TimeLimits
from tests.simulation.variations import Lifecycles, Resources, Savepoints, Schedulers, SlotSharing, Streams, record_of

_DELIVERY_TIMEOUT_MS: Final = 4_000
_PATIENCE_MS: Final = 1_500
_REPEATS_ANSWERED: Final = 0.15
"""How often a client sends a request once more although it was answered: its answer was lost on the way, or it restarted."""

_FLOOD: Final = 50
_FLOOD_SHARE: Final = 0.1
"""In how many runs nonsense comes so many times at once."""


@dataclass(slots=True)
class _Request:
    request_id: str
    topic: Topic
    value: bytes
    job_id: str
    is_submission: bool
    answer: AcceptedAnswer | None = None


class Clients:
    """All clients, on one machine; each request has its reply partition."""

    def __init__(
        self,
        broker: Broker,
        clock: LocalClock,
        rng: Random,
        settings: SimulationSettings,
        resources: Resources,
        schedulers: Schedulers,
        streams: Streams,
        observer: Observer,
        transcript: Transcript,
    ) -> None:
        self._rng = rng
        self._settings = settings
        self._resources = resources
        self._schedulers = schedulers
        self._streams = streams
        self._observer = observer
        self._transcript = transcript
        self._requests: dict[str, _Request] = {}
        self._jobs: list[str] = []
        self._graphs: dict[str, dict[str, object]] = {}
        self._begun_savepoints: set[str] = set()
        self._number = 0
        floods = Random(f"floods of {settings.seed}")
        self._nonsense = _FLOOD if floods.random() < _FLOOD_SHARE else 1
        self._strategies = Random(f"restart strategies of {settings.seed}")
        self._sharing = SlotSharing(settings.seed)
        self._time_limits = TimeLimits(settings.seed)
        self._retries = Retries(settings.seed)
        self._mapped = MappedVertices(settings.seed)
        self._queues = Queues(settings.seed)
        self._closing = ClosingVertices(settings.seed)
        self._conditions = Conditions(settings.seed)
        self.reruns = Reruns(settings.seed)
        self.link = Link()
        self.process = Process("clients", broker.scheduler, clock)
        wires = (broker, self.process, self.link, rng)
        self._replies = PayloadCodec("ReplyEnvelope", seal=broker.seals.of(Topic.REPLIES))
        self._careful = SimulatedProducer(*wires, _DELIVERY_TIMEOUT_MS)
        self._careless = SimulatedProducer(*wires, _DELIVERY_TIMEOUT_MS, is_idempotent=False)
        for partition in range(SPECIFICATIONS[Topic.REPLIES].partitions):
            SimulatedConsumer(*wires, Topic.REPLIES, 0, self._on_reply, partition)

    def act(self) -> None:
        """Do something."""
        choice = self._rng.random()
        if choice < 0.5 and len(self._jobs) < self._settings.jobs:
            self._submit()
        elif choice < 0.62:
            self._submit_again()
        elif choice < 0.76:
            self._cancel()
        elif choice < 0.86:
            self._ask_for_file()
        else:
            self._number += 1
            topic, value = job_documents.garbage(self._rng, self._number)
            self._transcript.note("clients", f"send nonsense to {topic}")
            for _ in range(self._nonsense):
                self._careless.produce(topic, None, value)

    def unanswered(self) -> list[str]:
        """Return the requests that still wait."""
        return [r.request_id for r in self._requests.values() if r.answer is None]

    def accepted_jobs(self) -> list[str]:
        """Return the jobs that clients were told to be accepted."""
        return [r.job_id for r in self._requests.values() if r.is_submission and r.answer is not None and r.answer.is_accepted]

    def check_accepted(self) -> None:
        """Check that everything that was accepted is in the log.

        Raises:
            ViolationFound: something is not.

        """
        for job_id in self.accepted_jobs():
            if job_id not in self._observer.ledger.submitted:
                raise ViolationFound(Invariant.ACCEPTED_PRESENT, f"the job {job_id} was accepted, and the log does not have it")

    # -- requests --------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        drawn = job_documents.make_graph(self._rng, self._strategies, len(self._jobs) + 1)
        graph = self._schedulers.draw(self._sharing.group(self._resources.ask(drawn)))
        graph = self._mapped.draw(self._retries.draw(self._time_limits.draw(self._streams.draw(graph))))
        self._submit_new(self.reruns.draw(self._conditions.draw(self._closing.draw(self._queues.draw(graph)))))

    def _submit_new(self, graph: dict[str, object]) -> None:
        job_id = f"job-{len(self._jobs) + 1}"
        self._graphs[job_id] = graph
        self._jobs.append(job_id)
        self._send_submission(job_id, graph)

    def _send_submission(self, job_id: str, graph: dict[str, object]) -> None:
        request_id, partition = self._new_request()
        value = job_documents.submission(self._rng, graph, job_id, request_id, partition)
        self._send(_Request(request_id, Topic.SUBMISSIONS, value, job_id, is_submission=True))

    def _submit_again(self) -> None:
        """Submit a job under a request id of its own a second time: the same graph, or another one."""
        if not self._jobs:
            return
        job_id = self._rng.choice(self._jobs)
        graph = self._graphs[job_id]
        if self._rng.random() < 0.3:
            graph = graph | {"name": "another graph"}
        self._send_submission(job_id, graph)

    def _told_jobs(self) -> list[str]:
        return [r.job_id for r in self._requests.values() if r.is_submission and r.answer is not None]

    def _cancel(self) -> None:
        jobs = self._told_jobs()
        if jobs:
            job_id = self._rng.choice(jobs)
            request_id, partition = self._new_request()
            value = job_documents.cancellation(self._rng, job_id, request_id, partition)
            self._send(_Request(request_id, Topic.COMMANDS, value, job_id, is_submission=False))

    def _ask_for_file(self) -> None:
        jobs = self._told_jobs()
        if jobs:
            job_id = self._rng.choice(jobs)
            request_id, partition = self._new_request()
            value = job_documents.file_request(job_id, request_id, partition)
            self._send(_Request(request_id, Topic.COMMANDS, value, job_id, is_submission=False))

    def operate(self, task_managers: list[str]) -> None:
        """Block a TaskManager, or unblock it, and look at its log, as an operator does."""
        name, duration_ms = self._resources.next_order(task_managers)
        request_id, partition = self._new_request()
        value = job_documents.task_manager_order(name, duration_ms, request_id, partition)
        self._send(_Request(request_id, Topic.COMMANDS, value, name, is_submission=False))
        request_id, partition = self._new_request()
        value = job_documents.own_file_request(name, request_id, partition)
        self._send(_Request(request_id, Topic.COMMANDS, value, name, is_submission=False))

    def direct(self, lifecycles: Lifecycles) -> None:
        """Suspend or resume a job, or shut the cluster down, as an operator does."""
        self._order(*lifecycles.next_order(list(dict.fromkeys(self._told_jobs()))))

    def want_checkpoint(self) -> None:
        """Ask for a checkpoint of a job."""
        self._order(*self._streams.next_order(list(dict.fromkeys(self._told_jobs()))))

    def want_savepoint(self, job_ids: list[str], savepoints: Savepoints) -> None:
        """Ask for a savepoint of one of these jobs, and submit jobs that begin in those with which others have stopped."""
        if job_ids:
            self._order(*savepoints.next_order(job_ids))
        for job_id, savepoint in self._observer.ledger.stopped.items():
            if savepoint.path not in self._begun_savepoints:
                self._begun_savepoints.add(savepoint.path)
                if savepoints.is_restored():
                    self._submit_new(self._graphs[job_id] | {"restore": {"savepoint": savepoint.path}})

    def rerun(self, ended: Mapping[str, JobStatus]) -> None:
        """Run one of these jobs again, which is a job of its own."""
        if (order := self.reruns.next_order(ended, self._graphs)) is not None:
            job_id, graph, command = order
            self._graphs[job_id] = graph
            self._order(job_id, command)

    def keep_schedules(self, owners: ScheduleOwners) -> None:
        """Have somebody do something with a schedule."""
        self._order(*owners.next_order())

    def run_scheduled_again(self, ended: list[str], owners: ScheduleOwners) -> None:
        """Run one of these jobs of schedules again."""
        if ended:
            self._order(*owners.next_rerun(ended))

    def remove_schedules(self, schedule_ids: list[str]) -> None:
        """Delete these schedules, except those about which a request is pending."""
        asked = {r.job_id for r in self._requests.values() if r.answer is None} if schedule_ids else ()
        for schedule_id in schedule_ids:
            if schedule_id not in asked:
                self._order(schedule_id, {"type": "DeleteSchedule", "schedule_id": schedule_id})

    def resume(self, job_ids: list[str]) -> None:
        """Resume these jobs, except those about which a request is pending."""
        self._order_each("ResumeJob", job_ids)

    def release(self, parked_ids: list[str]) -> None:
        """Try again what is parked, except that about which a request is pending."""
        asked = {r.job_id for r in self._requests.values() if r.answer is None} if parked_ids else ()
        for parked_id in parked_ids:
            if parked_id not in asked:
                self._order(parked_id, {"type": "ReleaseParkedInput", "parked_id": parked_id})

    def end(self, job_ids: list[str]) -> None:
        """Cancel these jobs, except those about which a request is pending."""
        self._order_each("CancelJob", job_ids)

    def _order_each(self, order: str, job_ids: list[str]) -> None:
        asked = {r.job_id for r in self._requests.values() if r.answer is None} if job_ids else ()
        for job_id in job_ids:
            if job_id not in asked:
                self._order(job_id, {"type": order, "job_id": job_id})

    def _order(self, subject: str, order: dict[str, object]) -> None:
        request_id, partition = self._new_request()
        self._send(_Request(request_id, Topic.COMMANDS, record_of(order, request_id, partition), subject, is_submission=False))

    def rescale(self) -> None:
        """Ask for another parallelism of a vertex."""
        job_id, vertex_id, parallelism = self._schedulers.next_rescale(self._told_jobs())
        request_id, partition = self._new_request()
        value = job_documents.rescale(self._rng, job_id, vertex_id, parallelism, request_id, partition)
        self._send(_Request(request_id, Topic.COMMANDS, value, job_id, is_submission=False))

    def _new_request(self) -> tuple[str, int]:
        self._number += 1
        return f"request-{self._number}", int(self._rng.random() * SPECIFICATIONS[Topic.REPLIES].partitions)

    def _send(self, request: _Request) -> None:
        self._requests[request.request_id] = request
        what = "submit" if request.is_submission else "send a command about"
        self._transcript.note("clients", f"{what} {request.job_id} as {request.request_id}")
        self._produce(request)

    def _produce(self, request: _Request) -> None:
        producer = self._careful if self._rng.random() < 0.5 else self._careless
        producer.produce(request.topic, None, request.value)
        self.process.after(_PATIENCE_MS * (1 + self._rng.random()), lambda: self._look_after(request))

    def _look_after(self, request: _Request) -> None:
        """Repeat a request that was not answered; now and then one that was."""
        if request.answer is None or self._rng.random() < _REPEATS_ANSWERED:
            self._transcript.note("clients", f"repeat {request.request_id}")
            self._produce(request)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _on_reply(self, record: BrokerRecord) -> None:
        try:
            payload, fields = self._replies.decode(record.value or b"")
        except UndecodableRecord:
            return  # It is no master's.
        request = self._requests.get(payload.request_id)
        if request is None:
            return
        answer = AcceptedAnswer(isinstance(payload, RequestAccepted), payload.subject, getattr(payload, "code", ""))
        if request.answer is None:
            self._transcript.note("clients", f"hear that {request.request_id} is {'accepted' if answer.is_accepted else answer.code}")
            request.answer = answer
        elif request.answer != answer:
            raise ViolationFound(Invariant.ONE_ANSWER, f"{request.request_id} was answered {request.answer}, and then {answer}")
        if request.is_submission and answer.is_accepted:
            submitted_at = self._observer.ledger.submitted.get(request.job_id)
            if submitted_at is None or submitted_at > fields["log_offset"]:
                message = f"{request.job_id} was accepted as of log@{fields['log_offset']}, where the log does not have it"
                raise ViolationFound(Invariant.ACCEPTED_PRESENT, message)
