"""Judges what leaves a master: every reply and every deployment has to follow from a decision that was accepted before.

It looks at the bytes that a master hands to its producer, so nothing that Kafka may do later excuses them.
"""

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import (
    CheckpointOrder,
    DeploymentPayload,
    FileUploadOrder,
    FinishStream,
    InputLocations,
    InstanceForgotten,
    LeaderChanged,
    RegistrationAccepted,
    ResumeStream,
    StopTaskManager,
    TaskCancellation,
    TaskDeployment,
    TaskManagerFileUploadOrder,
)
from eventflink.events.log_events import RequestAccepted, RequestRejected
from eventflink.events.topics import Topic
from eventflink.master.effects import ArchiveJob, CleanUp, RequestWorker, StopWorker, WorkerOrder, WorkersWanted
from eventflink.model.attempts import AttemptId
from eventflink.testing.simulation.observers import EffectObserver
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation.ledger import AcceptedAnswer
from tests.simulation.observer import Observer


class EffectsCheck(EffectObserver):
    """Compares effects with the ledger."""

    def __init__(self, observer: Observer, transcript: Transcript) -> None:
        self._observer = observer
        self._transcript = transcript
        self._deployments = PayloadCodec("DeploymentEnvelope")
        self._replies = PayloadCodec("ReplyEnvelope")

    def on_produce(self, who: str, topic: Topic, value: bytes) -> None:
        """Judge a record that a master produces.

        Raises:
            ViolationFound: no accepted decision allows it.

        """
        if topic is Topic.DEPLOYMENTS:
            payload, fields = self._deployments.decode(value)
            self._check_deployment(who, payload, fields["epoch"], (fields["task_manager_id"], fields["instance_id"]))
        elif topic is Topic.REPLIES:
            payload, fields = self._replies.decode(value)
            self._check_reply(who, payload, fields["epoch"], fields["sequence"], fields["leader_id"], fields["log_offset"])

    def on_clean_up(self, who: str, order: CleanUp) -> None:
        """Judge the order to remove the data of a job."""
        if order.job_id not in self._observer.ledger.ended_jobs:
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, f"{who} removes the data of {order.job_id}, which has not ended")

    def on_archive(self, who: str, order: ArchiveJob) -> None:
        """Judge the order to write the archive of a job."""
        if order.job_id not in self._observer.ledger.ended_jobs:
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, f"{who} writes the archive of {order.job_id}, which has not ended")

    def on_worker_order(self, who: str, order: WorkerOrder) -> None:
        """Check an order to a resource driver."""
        ledger = self._observer.ledger
        match order:
            case RequestWorker():
                allowed = order.worker_id in ledger.workers
            case StopWorker():
                allowed = order.worker_id in ledger.workers & ledger.workers_gone
            case WorkersWanted():
                allowed = {*order.registered, *(request.worker_id for request in order.pending)} <= ledger.workers
        self._transcript.note(who, f"has the driver do {order}")
        if not allowed:
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, f"{who} orders {order}; no accepted decision says so")

    def _check_deployment(self, who: str, payload: DeploymentPayload, epoch: int, receiver: tuple[str, str]) -> None:
        self._transcript.note(who, f"releases {_name(payload)} to {'/'.join(receiver)} epoch={epoch}")
        if not 0 < epoch <= self._observer.fold.acceptance.epoch:
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, f"{who} releases {_name(payload)} under the epoch {epoch}, which nobody has")
        if not self._is_allowed(payload, receiver):
            raise ViolationFound(
                Invariant.EFFECT_OF_ACCEPTED, f"{who} releases {_name(payload)} to {'/'.join(receiver)}; no accepted decision says so"
            )

    def _is_allowed(self, payload: DeploymentPayload, receiver: tuple[str, str]) -> bool:  # noqa: PLR0911 - one answer for each kind
        ledger = self._observer.ledger
        match payload:
            case TaskDeployment():
                place = ledger.allocated.get(payload.allocation_id)
                inputs = [read.location for each in payload.inputs for read in each.locations]
                must_finish = payload.stream is not None and _attempt_of(payload) in ledger.deployed_stopped
                return (
                    payload.is_stopped == must_finish
                    and ledger.slots_of_attempts.get(_attempt_of(payload)) == payload.allocation_id
                    and place == (*receiver, payload.slot_index)
                    and all(location in ledger.outputs for location in inputs)
                )
            case InputLocations():
                return all(each.location in ledger.outputs for each in payload.locations)
            case TaskCancellation():
                return _attempt_of(payload) in ledger.cancelled
            case CheckpointOrder() | ResumeStream() | FinishStream():
                place = ledger.allocated.get(ledger.slots_of_attempts.get(_attempt_of(payload), ""), ("", "", -1))
                known = ledger.checkpoints.get(payload.job_id)
                is_asked = known is not None and 0 < payload.checkpoint_id <= known.newest and place[:2] == receiver
                return is_asked and (not isinstance(payload, FinishStream) or payload.job_id in ledger.stopped)
            case FileUploadOrder() | TaskManagerFileUploadOrder():
                return payload.request_id in ledger.uploads
            case LeaderChanged():  # It is for all, and every epoch that somebody has may say it.
                return not any(receiver)
            case InstanceForgotten() | RegistrationAccepted():
                return receiver in (ledger.forgotten if isinstance(payload, InstanceForgotten) else ledger.registered)
            case StopTaskManager():
                return ledger.stops > 0 or (ledger.shutdowns > 0 and receiver in ledger.forgotten)

    def _check_reply(
        self, who: str, payload: RequestAccepted | RequestRejected, epoch: int, sequence: int, leader_id: str, offset: int
    ) -> None:
        ledger = self._observer.ledger
        request_id = payload.request_id
        self._transcript.note(who, f"replies {type(payload).__name__} to {request_id} of log@{offset}")
        standing = ledger.accepted_decisions.get(offset)
        if standing is None or (standing.epoch, standing.sequence, standing.leader_id) != (epoch, sequence, leader_id):
            message = f"{who} replies to {request_id} for epoch={epoch} sequence={sequence} at log@{offset}, which was not accepted"
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, message)
        answer = AcceptedAnswer(isinstance(payload, RequestAccepted), payload.subject, getattr(payload, "code", ""))
        if request_id not in standing.request_ids or ledger.answers.get(request_id, answer) != answer:
            message = f"{who} replies {answer} to {request_id}; log@{offset} does not say so"
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, message)


def _attempt_of(payload: TaskDeployment | TaskCancellation | CheckpointOrder | ResumeStream | FinishStream) -> AttemptId:
    return AttemptId(payload.job_id, payload.vertex_id, payload.subtask_index, payload.attempt)


def _name(payload: DeploymentPayload) -> str:
    if isinstance(payload, TaskDeployment | TaskCancellation | CheckpointOrder | ResumeStream | FinishStream):
        return f"{type(payload).__name__} {_attempt_of(payload)}"
    return type(payload).__name__
