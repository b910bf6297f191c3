"""Rules of docs/protocol.md, each broken on purpose: what is patched is the real code, by one method or one condition.

`FOUND_BY` has a seed for each that the simulation finds, so that its test is a single run; `FOUND_BY_TEST` names a test that fails for
each that the simulation does not reach, or seldom; `NOT_FOUND` says why of the others.

    python -m tests.unit.simulation_mutations FIRST COUNT [NAME…]     counts how many of the seeds find each
"""

import functools
import logging
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eventflink.entrypoint.transaction_aborter import TransactionAborter
from eventflink.events import log_events as e
from eventflink.events import record_columns
from eventflink.events.checkpoint_events import SavepointRequest
from eventflink.events.codec import DecisionCodec
from eventflink.events.decision import Decision, InputCause
from eventflink.events.effects import (
    DeploymentEnvelope,
    FinishStream,
    LeaderDeath,
    LeaderHeartbeat,
    RegistrationAccepted,
    Resignation,
    ResumeStream,
    TaskCancellation,
    TaskDeployment,
)
from eventflink.events.inputs import CheckpointAcknowledgement, SlotReport
from eventflink.events.schemas import MARKER
from eventflink.events.seal import Seal, has_seal
from eventflink.events.snapshot_records import SnapshotManifest
from eventflink.events.topics import INBOUND, Topic
from eventflink.leadership import fold as fold_module
from eventflink.leadership import inbound, known_log
from eventflink.leadership import leader as leader_module
from eventflink.leadership.acceptance import Acceptance
from eventflink.leadership.election import Advice, LogElection, Peers
from eventflink.leadership.fold import Fold
from eventflink.leadership.input_locations import ToldLocations
from eventflink.leadership.input_progress import InputProgress
from eventflink.leadership.intake import InboundTopic, Stalls
from eventflink.leadership.known_log import KnownLog, LogTruncated
from eventflink.leadership.leader import ApplyFailed, Leader, Released
from eventflink.leadership.liveness import HeartbeatMonitor, Liveness
from eventflink.leadership.log_clock import LogClock, LogSightings
from eventflink.leadership.offset_gaps import OffsetGaps
from eventflink.leadership.participant import Change, Participant
from eventflink.leadership.reads import Reads
from eventflink.leadership.recovery import RecoveryMode
from eventflink.leadership.worker_reconciliation import WorkerReconciler
from eventflink.log import access_rights
from eventflink.log.clients import consumer_settings
from eventflink.master import (
    active_resource_manager,
    checkpoint_coordinator,
    effects,
    execution_graph,
    failover,
    free_slots,
    restarts,
    reuse,
    schedule_firing,
    schedules,
    slot_manager,
    task_executor_reports,
    time_limits,
    timers,
)
from eventflink.master.blocklist import Blocklist
from eventflink.master.checkpoints import Checkpoints
from eventflink.master.dispatcher import Dispatcher
from eventflink.master.execution_graph import ExecutionGraph, Subtask, SubtaskKey
from eventflink.master.follow_ups import FollowUps
from eventflink.master.free_slots import Levels, _Pool
from eventflink.master.inputs import BindInputs, HeartbeatTimeout, VersionsSeen
from eventflink.master.job_master import JobMaster
from eventflink.master.master import Master
from eventflink.master.requests import Cursor, Requests
from eventflink.master.resource_manager import ResourceManager
from eventflink.master.retries import next_retry
from eventflink.master.schedules import Schedule, Schedules
from eventflink.master.settings import Context
from eventflink.master.shared_slots import SharingGroup
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slots import TaskManagerSlots
from eventflink.master.state import ClusterState
from eventflink.model import conditions, kafka_settings, secret_references
from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph import JobGraph
from eventflink.model.places import Place
from eventflink.model.schedules import what_is_before
from eventflink.model.secret_masks import masked
from eventflink.model.statuses import TERMINAL_EXECUTION_STATES, ExecutionState, FollowUpType, InstantOrigin, JobStatus, Role
from eventflink.snapshots import snapshot as snapshot_module
from eventflink.snapshots.snapshot import LogRange, SnapshotUnusable
from eventflink.snapshots.state_codec import document_of
from eventflink.streams import savepoint_copy
from eventflink.streams.client_watch import ClientWatch
from eventflink.streams.sink_protocol import BEFORE_FENCING, KafkaSinkSettings, Mark, SendMark, SinkProtocol, SinkStep, next_step
from eventflink.taskexecutor import failure_causes, task_files
from eventflink.taskexecutor.failure_causes import bounded
from eventflink.taskexecutor.process_events import Finished, Outcome, ReleaseSpark
from eventflink.taskexecutor.protocol import TaskExecutorProtocol
from eventflink.taskexecutor.protocol.actions import Action, ProtocolSettings
from eventflink.taskexecutor.protocol.attempts import AttemptTable, KnownAttempt
from eventflink.taskexecutor.protocol.forgotten import ForgottenAttempts
from eventflink.taskexecutor.protocol.input_locations import KnownLocations
from tests.simulation.attempts_check import AttemptsCheck
from tests.simulation.run import simulate

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """One rule, broken in one way."""

    rule: str
    what: str
    patch: Patch

    @property
    def name(self) -> str:
        return self.patch.__name__

    @contextmanager
    def applied(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            self.patch(monkeypatch)
            yield


MUTATIONS: dict[str, Mutation] = {}


def breaks(rule: str, what: str) -> Callable[[Patch], Patch]:
    """Register a mutation: `what` says what the code does instead."""

    def register(patch: Patch) -> Patch:
        MUTATIONS[patch.__name__] = Mutation(rule, what, patch)
        return patch

    return register


# -- the log -------------------------------------------------------------------------------------------------------


@breaks("P1", "a decision counts whatever its sequence is")
def sequence_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    def accepts(self: Acceptance, epoch: int, sequence: int, leader_id: str, *, grant: bool) -> bool:
        if grant:
            return epoch == self.epoch + 1 and sequence == 0
        return epoch == self.epoch and leader_id == self.leader_id

    patch.setattr(Acceptance, "accepts", accepts)


@breaks("P1", "a decision of any master counts, if its sequence fits")
def leader_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    def accepts(self: Acceptance, epoch: int, sequence: int, leader_id: str, *, grant: bool) -> bool:  # noqa: ARG001 - not compared
        if grant:
            return epoch == self.epoch + 1 and sequence == 0
        return sequence == self.sequence + 1

    patch.setattr(Acceptance, "accepts", accepts)


@breaks("P1", "the second grant of an epoch counts as well")
def epoch_of_a_grant_is_not_new(patch: pytest.MonkeyPatch) -> None:
    def accepts(self: Acceptance, epoch: int, sequence: int, leader_id: str, *, grant: bool) -> bool:
        if grant:
            return epoch in (self.epoch, self.epoch + 1) and sequence == 0
        return epoch == self.epoch and sequence == self.sequence + 1 and leader_id == self.leader_id

    patch.setattr(Acceptance, "accepts", accepts)


@breaks("P1", "every candidacy of a master has the same leader id")
def leader_id_is_not_fresh(patch: pytest.MonkeyPatch) -> None:
    grant_of = leader_module.grant_of

    def stale(fold: Fold, master_id: str, _leader_id: str, blob_address: str, wall_ms: int) -> bytes:
        return grant_of(fold, master_id, master_id, blob_address, wall_ms)

    patch.setattr("eventflink.leadership.participant.grant_of", stale)


@breaks("P2", "after a failed delivery the leader continues under its epoch, and takes whatever has its sequence for its own decision")
def epoch_is_used_again(patch: pytest.MonkeyPatch) -> None:
    begin = Participant.__post_init__

    def go_on(self: Participant) -> None:
        begin(self)
        leader_id = self.fold.acceptance.leader_id
        if leader_id.startswith(f"{self.settings.incarnation}#"):
            self.role = Role.LEADER
            clock = LogClock(self.fold.last_decided_at_ms, 0)
            self.leader = Leader(self.fold, self.decoder, self.intake.inboxes, self.settings, clock)

    read_back = Leader.read_back

    def by_sequence(self: Leader, offset: int, timestamp_ms: int, value: bytes) -> Released | None:
        if self.unconfirmed:
            own, decision, acceptance = self.unconfirmed[0], self.fold.codec.decode(value), self.fold.acceptance
            if (decision.epoch, decision.sequence, decision.leader_id) == (acceptance.epoch, own.sequence, acceptance.leader_id):
                own.value = value
        return read_back(self, offset, timestamp_ms, value)

    patch.setattr(Participant, "__post_init__", go_on)
    patch.setattr(Leader, "read_back", by_sequence)


@breaks("P3", "a hole in the log is passed over")
def holes_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    def check_density(last_offset: int, offset: int) -> bool:
        return offset > last_offset

    patch.setattr(fold_module, "check_density", check_density)
    patch.setattr(leader_module, "check_density", check_density)


@breaks("P3b", "a record that no master wrote stops whoever reads it")
def foreign_records_stop_readers(patch: pytest.MonkeyPatch) -> None:
    is_foreign = DecisionCodec.is_foreign
    patch.setattr(DecisionCodec, "is_foreign", lambda self, offset, value: value.startswith(MARKER) and is_foreign(self, offset, value))


@breaks("P3b", "an offset that no reader is given is a hole, whatever Kafka says")
def ends_of_transactions_are_holes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetGaps, "before", lambda _self, _offset: range(0))


@breaks("P3", "an offset that a reader was not given has no record, and Kafka is not asked")
def gaps_are_believed_empty(patch: pytest.MonkeyPatch) -> None:
    def before(self: OffsetGaps, offset: int) -> range:
        gap = range(self.next_offset, offset)
        self.next_offset = max(self.next_offset, offset)
        return gap

    patch.setattr(OffsetGaps, "before", before)


@breaks("P4", "effects leave when their decision is appended, not when it is read back")
def effects_leave_early(patch: pytest.MonkeyPatch) -> None:
    decide_next, decide = Leader.decide_next, Participant._decide

    def remember(self: Leader, now_ms: int, monotonic_ms: int) -> bytes | None:
        count = len(self.unconfirmed)
        value = decide_next(self, now_ms, monotonic_ms)
        early.extend((self, own) for own in list(self.unconfirmed)[count:])
        return value

    def release(self: Participant, monotonic: Callable[[], int], wall_ms: int) -> bool:
        more = decide(self, monotonic, wall_ms)
        acceptance = self.fold.acceptance
        for leader, own in early:
            if leader is self.leader:
                effects, own.effects = own.effects, []
                offset = self.fold.last_offset + 1
                released = Released(offset, acceptance.epoch, own.sequence, acceptance.leader_id, effects)
                self._releaser.release(released, acceptance.epoch)
        early.clear()
        return more

    early: list[tuple[Leader, leader_module.Unconfirmed]] = []
    patch.setattr(Leader, "decide_next", remember)
    patch.setattr(Participant, "_decide", release)


@breaks("P4", "a TaskExecutor obeys effects of older epochs than the newest that it has seen")
def older_epochs_are_obeyed(patch: pytest.MonkeyPatch) -> None:
    on_deployment = TaskExecutorProtocol.on_deployment

    def obey(self: TaskExecutorProtocol, envelope: DeploymentEnvelope, now_ms: int) -> list[Action]:
        self.newest_epoch = min(self.newest_epoch, envelope.epoch)
        return on_deployment(self, envelope, now_ms)

    patch.setattr(TaskExecutorProtocol, "on_deployment", obey)


@breaks("P4", "a TaskExecutor obeys no older epoch than the newest that was ever named to it, whoever answers its registrations")
def epochs_are_believed_for_ever(patch: pytest.MonkeyPatch) -> None:
    believes = TaskExecutorProtocol._believes
    patch.setattr(TaskExecutorProtocol, "_believes", lambda self, epoch, _answered, now_ms: believes(self, epoch, 0, now_ms))


@breaks("P3a", "what anybody writes in the name of masters and TaskExecutors counts as if they had")
def seals_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seal, "is_genuine", lambda _self, _value: True)


@breaks("P3a", "the heartbeat of a leader counts as often as it is written, by whomever")
def copies_of_heartbeats_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Participant, "_is_copy", lambda _self, _heartbeat: False)


@breaks("P5", "a cluster that is configured as replicated runs on topics that can lose records")
def durability_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    for module in ("topic_checks", "administration"):
        patch.setattr(f"eventflink.log.{module}.find_durability_faults", lambda *_: [])


@breaks("P5a", "a master goes on from a log that has less than it has read before")
def what_was_read_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownLog, "check", lambda _self, _fold: None)


@breaks("P5a", "a master that starts goes on from a log that has less than the last leader said to have read")
def what_was_heard_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    for module in ("eventflink.snapshots.loading", "eventflink.testing.simulation.master_host"):
        patch.setattr(f"{module}.check_heard", lambda *_: None)


@breaks("P5a", "snapshots of what the log does not have are passed over, and nothing comes of it")
def snapshots_beyond_the_end_are_no_evidence(patch: pytest.MonkeyPatch) -> None:
    check_manifest = snapshot_module.check_manifest

    def pass_over(manifest: SnapshotManifest, log: LogRange) -> None:
        try:
            check_manifest(manifest, log)
        except LogTruncated as error:
            raise SnapshotUnusable(manifest, error.reason) from error

    patch.setattr("eventflink.snapshots.search.check_manifest", pass_over)


@breaks("P5a", "a master starts with a snapshot of records that the log has lost, and follows what was written in their place")
def snapshots_of_other_records_are_believed(patch: pytest.MonkeyPatch) -> None:
    for module in ("snapshots.snapshot", "snapshots.loading", "testing.simulation.snapshots"):
        patch.setattr(f"eventflink.{module}.check_history", lambda *_: None)


@breaks("P5a", "a master waits at its cursor for an inbound topic that ends before it")
def cursors_may_be_beyond_the_end(patch: pytest.MonkeyPatch) -> None:
    place = known_log.place_inbound

    def wait(topic: str, cursor: Cursor | None, found: InboundTopic, *, may_rebind: bool) -> tuple[InboundTopic, int]:
        high_offset = max(found.high_offset, cursor.next_offset if cursor is not None else 0)
        return place(topic, cursor, replace(found, high_offset=high_offset), may_rebind=may_rebind)

    for module in ("eventflink.entrypoint.tail", "eventflink.testing.simulation.consumer"):
        patch.setattr(f"{module}.place_inbound", wait)


# -- inputs --------------------------------------------------------------------------------------------------------


@breaks("P6", "an input counts as decided by any decision in the log, accepted or not")
def rejected_decisions_advance(patch: pytest.MonkeyPatch) -> None:
    on_record = Participant.on_record

    def trim(self: Participant, offset: int, timestamp_ms: int, value: bytes, now_ms: int) -> Change | None:
        for cause in self.fold.codec.decode(value).causes:
            if isinstance(cause, InputCause):
                self.intake.inboxes[cause.topic].accepted(cause.last_offset + 1)
        return on_record(self, offset, timestamp_ms, value, now_ms)

    patch.setattr(Participant, "on_record", trim)


@breaks("P6", "the fold does not move the cursors: only a leader does, in its memory")
def cursors_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    apply = Fold._apply

    def without_causes(self: Fold, offset: int, decision: Decision) -> None:
        apply(self, offset, replace(decision, causes=()))

    patch.setattr(Fold, "_apply", without_causes)


@breaks("P7", "a refusal is no decision, and its input counts as decided")
def refusals_are_not_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Requests, "decide_unreadable_input", lambda _self, _value: [])


@breaks("P7", "of several records that one decision names, it answers the first alone")
def batches_answer_one(patch: pytest.MonkeyPatch) -> None:
    decide: Any = Leader._decide

    def first_alone(self: Leader, causes: Any, actor: str, inputs: Any, now_ms: int, monotonic_ms: int, records: Any = ()) -> Any:
        count = sum(record is records[0] for record in records) if records else len(inputs)
        return decide(self, causes, actor, inputs[:count], now_ms, monotonic_ms, records[:count])

    patch.setattr(Leader, "_decide", first_alone)


@breaks("P8", "a request id that comes again is decided again")
def request_ids_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Requests, "decide_repeated", lambda _self, _request_id, _reply_partition: None)


@breaks("P8", "the ids of evicted jobs are forgotten")
def job_ids_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    evict = Dispatcher.evict

    def forget(self: Dispatcher, job_id: str, at_ms: int, archive_digest: str) -> None:
        evict(self, job_id, at_ms, archive_digest)
        del self.forgotten[job_id]

    patch.setattr(Dispatcher, "evict", forget)


@breaks("P8", "answers and job ids expire at once")
def horizon_is_too_short(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "request_horizon", property(lambda self: (0, self.now_ms)))


@breaks("P9", "a topic that was created again is decided from where the deleted one was left")
def replaced_topics_are_not_bound_again(patch: pytest.MonkeyPatch) -> None:
    decide_binding = Requests.decide_bind_inputs

    def once(self: Requests, binding: BindInputs) -> list[e.LogEvent]:
        return [] if binding.topic in self.cursors else decide_binding(self, binding)

    patch.setattr(Requests, "decide_bind_inputs", once)


@breaks("P10", "what waited when a leader crashed is decided without being announced")
def suspects_are_not_announced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecoveryMode, "is_to_be_announced", lambda _self, _record: False)


@breaks("P10", "an input that two leaders did not survive is decided by the third")
def poison_is_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecoveryMode, "poison_of", lambda _self, _record: None)


@breaks("P10", "that the leader before died at an input, by its guardian's word, does not count against it")
def guardians_are_not_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecoveryMode, "_deaths_at", lambda _self, _name, *, is_counted: 0)  # noqa: ARG005 - it is called by that name


@breaks("P10", "a record is decoded by whatever schema the registry has for it")
def any_schema_is_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventflink.entrypoint.schema_registry.bounded_schema", lambda document: document)


@breaks("P10", "timers and follow-ups at which leaders end are not announced")
def internal_suspects_are_not_announced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecoveryMode, "unannounced", lambda _self, _values: ())


@breaks("P10", "an internal input that cannot be decided ends the leadership, and waits for the next leader")
def nothing_is_parked(patch: pytest.MonkeyPatch) -> None:
    def fall(_self: Leader, _draft: Any, _value: Any, error: Exception) -> Any:
        raise ApplyFailed(str(error))

    patch.setattr(Leader, "_parked", fall)


@breaks("P10", "what is parked stands in the queue again as soon as somebody wants it, and is due again at the next look")
def what_is_parked_is_decided_again(patch: pytest.MonkeyPatch) -> None:
    def want(self: FollowUps, follow_up_type: FollowUpType, subject: str, *, wanted: bool) -> None:
        if wanted:
            self.entries.setdefault((follow_up_type, subject))
        else:
            self.entries.pop((follow_up_type, subject), None)

    patch.setattr(FollowUps, "want", want)
    patch.setattr(Leader, "_is_parked", lambda _self, _value: False)


@breaks("P10", "a leader that cannot apply what it decided ends without a last word")
def failures_to_apply_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    def fall(_self: Leader, error: Exception, *_: Any) -> bytes:
        raise ApplyFailed(str(error)) from error

    patch.setattr(Leader, "_give_up", fall)


@breaks("P10a", "the queue of consequences is lost when the leader changes (and at most one is decided with its cause, so that some wait)")
def consequences_are_lost(patch: pytest.MonkeyPatch) -> None:
    begin_to_lead = Participant._begin_to_lead

    def lose(self: Participant, released: Released, now_ms: int) -> None:
        self.fold.master.follow_ups.entries.clear()
        begin_to_lead(self, released, now_ms)

    patch.setattr(Participant, "_begin_to_lead", lose)
    patch.setattr(leader_module, "INLINE_STEPS", 1)


@breaks("P10a", "a batch ends by the number of its requests alone, however long their reasons are")
def batches_are_not_cut_by_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventflink.master.slot_failures.MAX_SAID_BYTES", 1 << 30)


@breaks("P10a", "consequences do not wait in the state: they are decided with their cause or never")
def consequences_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    decide_turn = Leader._decide_turn

    def skip(self: Leader, turn: int, now_ms: int, monotonic_ms: int) -> bytes | None:
        is_consequence = turn == len(INBOUND)
        return None if is_consequence else decide_turn(self, turn, now_ms, monotonic_ms)

    patch.setattr(Leader, "_decide_turn", skip)
    patch.setattr(leader_module, "INLINE_STEPS", 1)


@breaks("P11", "a master reads the records of transactions that are open or were aborted")
def uncommitted_records_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventflink.log.clients.consumer_settings", lambda kafka, own, **_: consumer_settings(kafka, own))


@breaks("P11", "a leader leaves transactions open, however long they hold others up")
def transactions_may_hang(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionAborter, "look", lambda _self, _topics: None)


@breaks("P8", "answers expire by their age alone, although a request waits that was there before")
def expiry_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InputProgress, "look", lambda _self, _cursors, now_ms: now_ms)


# -- TaskExecutors -------------------------------------------------------------------------------------------------


@breaks("P12", "a TaskExecutor obeys effects that are for an earlier instance of it")
def instances_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    on_deployment = TaskExecutorProtocol.on_deployment

    def obey(self: TaskExecutorProtocol, envelope: DeploymentEnvelope, now_ms: int) -> list[Action]:
        if envelope.task_manager_id == self._settings.task_manager_id:
            envelope = replace(envelope, instance_id=self.instance_id)
        return on_deployment(self, envelope, now_ms)

    patch.setattr(TaskExecutorProtocol, "on_deployment", obey)


@breaks("P12", "what is for a TaskManager goes to the first partition of `deployments`, whichever it reads")
def deployments_are_not_divided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ResourceManager, "partition_of", lambda _self, _name: 0)


@breaks("P12", "what is for other TaskManagers of the partition is decoded as well")
def foreign_deployments_are_decoded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventflink.taskexecutor.protocol.records.is_for", lambda _key, _name: True)
    patch.setattr("eventflink.taskexecutor.kafka_links.is_for", lambda _key, _name: True)


@breaks("P13", "silence counts although the leader may not be able to hear")
def canaries_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    overdue = HeartbeatMonitor.overdue

    def impatient(self: HeartbeatMonitor, task_manager_id: str, instance_id: str, now_ms: int) -> HeartbeatTimeout | None:
        self.canary_sent_at_ms = now_ms
        return overdue(self, task_manager_id, instance_id, now_ms)

    patch.setattr(HeartbeatMonitor, "overdue", impatient)


@breaks("P13", "deadlines do not start again at promotion, and canaries are not waited for")
def promotion_gives_no_grace(patch: pytest.MonkeyPatch) -> None:
    canaries_are_not_waited_for(patch)
    patch.setattr(Liveness, "promoted", lambda _self, _now_ms: None)


@breaks("P14", "a TaskExecutor that is cut off continues its tasks")
def nobody_fences_itself(patch: pytest.MonkeyPatch) -> None:
    begin = TaskExecutorProtocol.__init__

    def patient(self: TaskExecutorProtocol, settings: ProtocolSettings) -> None:
        begin(self, replace(settings, self_fence_timeout_ms=1_000_000_000))

    patch.setattr(TaskExecutorProtocol, "__init__", patient)


@breaks("P14", "the fence is counted from when a heartbeat was acknowledged, not from when it was sent")
def fence_counts_from_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    acknowledged = TaskExecutorProtocol.on_heartbeat_acknowledged

    def late(self: TaskExecutorProtocol, _sent_at_ms: int, now_ms: int) -> list[Action]:
        return acknowledged(self, now_ms, now_ms)

    patch.setattr(TaskExecutorProtocol, "on_heartbeat_acknowledged", late)


@breaks("P14", "the answer to a registration counts from when it is read, however long ago that was sent")
def any_answer_is_new(patch: pytest.MonkeyPatch) -> None:
    accept = TaskExecutorProtocol._on_registration_accepted

    def accept_at_once(self: TaskExecutorProtocol, answer: RegistrationAccepted, epoch: int, now_ms: int) -> None:
        self._registrations[answer.registration_number] = now_ms
        accept(self, answer, epoch, now_ms)

    patch.setattr(TaskExecutorProtocol, "_on_registration_accepted", accept_at_once)


@breaks("P15", "a new instance begins before the tasks of the old one have ended")
def instances_do_not_wait_for_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptTable, "is_empty", property(lambda _self: True))


@breaks("P15", "an attempt is reported terminal while its Spark session still works")
def spark_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    ended = AttemptTable._process_ended

    def hasty(self: AttemptTable, known: KnownAttempt, outcome: Outcome, now_ms: int, *, can_release: bool) -> None:
        remote, known.spark_remote = known.spark_remote, ""
        ended(self, known, outcome, now_ms, can_release=can_release)
        if remote and can_release and not isinstance(outcome, Finished):
            self._outbox.add_process_action(ReleaseSpark(known.attempt, known.spark_session_id, remote))

    patch.setattr(AttemptTable, "_process_ended", hasty)


@breaks("P15", "a subtask starts again before its attempt has ended")
def restarts_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    restart = ExecutionGraph.restart

    def restartable(job: JobMaster, now_ms: int) -> Iterator[SubtaskKey]:
        yield from [key for key, at_ms in job.restarts.due.items() if at_ms <= now_ms]

    def hasty(self: ExecutionGraph, subtask: Subtask, attempt: int) -> None:
        if subtask.state not in TERMINAL_EXECUTION_STATES:
            subtask.state = ExecutionState.CANCELED
            self.live_attempts -= 1
        restart(self, subtask, attempt)

    patch.setattr("eventflink.master.failover._restartable", restartable)
    patch.setattr(ExecutionGraph, "restart", hasty)


@breaks("P15", "an earlier attempt is looked for on the host, wherever its Spark is")
def earlier_attempts_are_of_hosts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskManagerSlots, "spark_address", lambda _slots, _engine: "")


@breaks("P15", "a stream goes on for ever when its task is not heard of any more")
def silent_clients_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientWatch, "note", lambda _self, _heard, _now_s: None)


@breaks("P16", "a deployment that its instance has not acknowledged counts as missing from its report")
def unacknowledged_attempts_are_missing(patch: pytest.MonkeyPatch) -> None:
    def decide(master: ClusterState, report: SlotReport) -> list[Any]:
        if not master.resource_manager.is_current(report.task_manager_id, report.instance_id):
            return master.resource_manager.decide_foreign_report(report)
        present = {AttemptId(a.job_id, a.vertex_id, a.subtask_index, a.attempt) for a in report.attempts}
        slots = master.slot_manager.task_managers[report.task_manager_id].slots
        missing = [
            s.allocation_id
            for s in slots
            if s.allocation_id and task_executor_reports._is_missing(master, s.allocation_id, report.instance_id, present)
        ]
        unknown = tuple(a for a in report.attempts if not task_executor_reports._expects(master, a, report.instance_id))
        place = (report.task_manager_id, report.instance_id)
        return [e.TaskManagerReportReconciled(*place, tuple(missing), unknown, report.number, report.ready)]

    patch.setattr(task_executor_reports, "decide_slot_report", decide)


@breaks("P16", "a cancellation that overtook its deployment leaves no tombstone")
def tombstones_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    cancel = AttemptTable.cancel

    def forget(self: AttemptTable, cancellation: TaskCancellation, now_ms: int) -> None:
        attempt = AttemptId(cancellation.job_id, cancellation.vertex_id, cancellation.subtask_index, cancellation.attempt)
        is_known = attempt in self._live or attempt in self._ended
        cancel(self, cancellation, now_ms)
        if not is_known and self._ended[attempt].path == [ExecutionState.CANCELED]:
            del self._ended[attempt]

    patch.setattr(AttemptTable, "cancel", forget)


@breaks("P16", "no tombstones, and older epochs are obeyed: only both together let a late deployment start what was cancelled")
def late_deployments_start_cancelled_attempts(patch: pytest.MonkeyPatch) -> None:
    tombstones_are_not_kept(patch)
    older_epochs_are_obeyed(patch)


@breaks("P16", "what is known of an attempt answers its deployment under whatever allocation")
def other_allocations_are_answered_for(patch: pytest.MonkeyPatch) -> None:
    deploy = AttemptTable.deploy

    def answer(self: AttemptTable, deployment: TaskDeployment, blob_address: str, refusal: str, now_ms: int) -> None:
        attempt = AttemptId(deployment.job_id, deployment.vertex_id, deployment.subtask_index, deployment.attempt)
        known = self._live.get(attempt) or self._ended.get(attempt)
        deployment.allocation_id = known.allocation_id if known is not None else deployment.allocation_id
        deploy(self, deployment, blob_address, refusal, now_ms)

    patch.setattr(AttemptTable, "deploy", answer)


@breaks("P16a", "an order whose lists of locations are not known begins without them")
def orders_begin_without_locations(patch: pytest.MonkeyPatch) -> None:
    complete = KnownLocations.complete
    patch.setattr(KnownLocations, "complete", lambda self, deployment: complete(self, deployment) or deployment)


@breaks("P16a", "a list that was told once counts as known for the whole term")
def lists_are_told_once_a_term(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ToldLocations, "forget", lambda _: None)


@breaks("P16", "what an instance does not know it has never heard of, however much it has forgotten")
def forgotten_attempts_are_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ForgottenAttempts, "may_have", lambda _self, _attempt, _allocation_id: False)


@breaks("P17", "all attempts of a subtask write to the same place")
def attempts_share_a_place(patch: pytest.MonkeyPatch) -> None:
    def shared(working_place: Place, attempt: AttemptId, output: str) -> Place:
        return output_place(working_place, attempt._replace(attempt=1), output)

    output_place = task_files.output_place
    patch.setattr(task_files, "output_place", shared)


# -- snapshots, versions, time -----------------------------------------------------------------------------------------------------


@breaks("P18", "a snapshot leaves out a part of the state")
def snapshots_are_not_whole(patch: pytest.MonkeyPatch) -> None:
    def leave_out(fold: Fold) -> dict[str, Any]:
        document = document_of(fold)
        document["master"].pop("upkeep", None)  # What is as it begins is in no snapshot anyway.
        return document

    patch.setattr("eventflink.snapshots.snapshot.document_of", leave_out)


@breaks("P19", "a snapshot has a column for each field of the version that took it, used or not")
def unused_fields_are_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_columns._Field, "begins", lambda _self, _values: False)


@breaks("P19", "a leader raises the feature level to what it can read itself, whatever the other masters can")
def level_is_raised_alone(patch: pytest.MonkeyPatch) -> None:
    def alone(self: Participant, _now_ms: int) -> int:
        return self.fold.codec.feature_level

    patch.setattr(Participant, "_common_feature_level", alone)


@breaks("P19", "a master that is not heard of for three leases counts no more, however long its return is to be waited for")
def absences_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peers, "_remembered", lambda self, now_ms: {m: p for m, p in self._heard.items() if p.heard_ms >= now_ms - 3_000})


@breaks("P20", "the log's time is the leader's wall clock")
def wall_clock_is_believed(patch: pytest.MonkeyPatch) -> None:
    def read(self: LogClock, _monotonic_ms: int, wall_ms: int) -> int:
        self.now_ms = wall_ms
        return wall_ms

    patch.setattr(LogClock, "read", read)


@breaks("P20", "for how long nobody has decided is what Kafka's timestamps say")
def broker_clocks_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogSightings, "silence_ms", lambda _self, stamped_ms, _wall_ms, _now_ms: max(0, stamped_ms))


# -- streams -------------------------------------------------------------------------------------------------------


@breaks("S1", "a batch that was written before is written again")
def written_batches_are_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SinkProtocol, "_is_written", lambda _self, _batch_id: False)


@breaks("S1", "the mark of a batch is not part of its transaction, nor committed at all")
def marks_are_not_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SinkProtocol, "steps", _without_marks(SinkProtocol.steps))


@breaks("S1", "a checkpoint directory that is behind what was written is not noticed")
def lost_directories_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SinkProtocol, "_check_directory", lambda *_: None)


@breaks("S2", "each attempt has a transactional id of its own, so that none fences another")
def older_attempts_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KafkaSinkSettings, "transactional_id", property(lambda self: f"{self.writer_id}-{self.attempt}"))


@breaks("S2", "an attempt that begins late ends what a newer one has begun")
def late_attempts_fence_newer_ones(patch: pytest.MonkeyPatch) -> None:
    def take_mark(self: SinkProtocol, mark: Mark | None) -> None:
        if mark is not None:
            self._next_batch_id, self._written_offsets = mark.next_batch_id, mark.offsets

    patch.setattr(SinkProtocol, "_take_mark", take_mark)


@breaks("S2", "neither is an attempt terminal only when its Spark session is released, nor does a newer one fence it")
def zombies_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    spark_is_not_waited_for(patch)
    older_attempts_are_not_fenced(patch)
    patch.setattr(AttemptsCheck, "began", lambda *_: None)  # Which would see it first.


def _without_marks(
    steps_of: Callable[..., Generator[SinkStep, Mark | None, None]],
) -> Callable[..., Generator[SinkStep, Mark | None, None]]:
    def steps(self: SinkProtocol, *of_batch: Any) -> Generator[SinkStep, Mark | None, None]:
        steps = steps_of(self, *of_batch)
        step = next_step(steps, None)
        while step is not None:
            found = None if isinstance(step, SendMark) else (yield step)
            step = next_step(steps, found)

    return steps


@breaks("S3", "what is copied of a stopped query forgets which offsets the batch had that was cut")
def cut_batches_lose_their_range(patch: pytest.MonkeyPatch) -> None:
    select = savepoint_copy.select_files
    patch.setattr(savepoint_copy, "select_files", lambda names, batch_id, **_: select(names, batch_id, with_next_batch=False))


@breaks("S3", "who settles a sink for a savepoint leaves its mark as it was")
def settled_sinks_keep_their_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SinkProtocol, "settling", _without_marks(SinkProtocol.settling))


@breaks("S3", "an attempt that is deployed when its job has stopped with a savepoint reads on")
def stopped_streams_begin_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SavepointRequest, "finishes_job", property(lambda _: False))


@breaks("S3", "what was stopped for a savepoint that has failed is not told to resume")
def stopped_streams_are_not_resumed(patch: pytest.MonkeyPatch) -> None:
    abort = Checkpoints.abort

    def forget(self: Checkpoints, event: e.CheckpointAborted, graph: ExecutionGraph, at_ms: int) -> None:
        abort(self, event, graph, at_ms)
        self.stopped.clear()

    patch.setattr(Checkpoints, "abort", forget)


@breaks("S3", "what was stopped for a savepoint resumes before it is cancelled with it")
def cancelled_streams_resume(patch: pytest.MonkeyPatch) -> None:
    complete = Checkpoints.complete

    def keep(self: Checkpoints, event: e.CheckpointCompleted, at_ms: int) -> None:
        stopped = dict(self.stopped)
        complete(self, event, at_ms)
        self.stopped |= stopped

    patch.setattr(Checkpoints, "complete", keep)


@breaks("S3", "what was stopped for a savepoint is told once what follows: by a leader that may die before it does")
def stopped_streams_are_told_once(patch: pytest.MonkeyPatch) -> None:
    unacknowledged = effects.unacknowledged

    def others(state: Master) -> Iterator[effects.Effect]:
        for effect in unacknowledged(state):
            if not (isinstance(effect, effects.Deployment) and isinstance(effect.payload, ResumeStream | FinishStream)):
                yield effect

    for module in ("leadership.participant", "master.effects"):
        patch.setattr(f"eventflink.{module}.unacknowledged", others)


@breaks("S3", "the savepoint does not know which batch the sink has")
def written_batches_are_not_in_savepoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SinkProtocol, "next_batch_id", property(lambda self: self._settings.first_batch_id))


@breaks("S3", "what the sink has begun to write is not ended before the savepoint says what it has")
def sinks_are_not_settled(patch: pytest.MonkeyPatch) -> None:
    def look(self: SinkProtocol, *of_batch: Any) -> Generator[SinkStep, Mark | None, None]:
        self._take_mark((yield BEFORE_FENCING))
        self._check_directory(*of_batch)

    patch.setattr(SinkProtocol, "settling", look)


@breaks("S3", "a savepoint is taken although its checkpoint directory is behind what the sink has")
def lost_directories_are_saved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SinkProtocol, "settling", lambda self, *_of_batch: self.opening())


# -- liveness ------------------------------------------------------------------------------------------------------


@breaks("L1", "a leader that cannot read back what it appends keeps leading and sending heartbeats")
def deaf_leaders_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "check_lease", lambda _self, _monotonic_ms: "")
    patch.setattr(Leader, "may_send_heartbeat", lambda _self, _monotonic_ms: True)


@breaks("L1", "nobody deposes a leader whose inputs stand still")
def stuck_inputs_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stalls, "stuck_since", lambda _self, _now_ms: None)


@breaks("L2", "a heartbeat counts whichever leadership it is of, though the log has accepted none such")
def heartbeats_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    _count_whichever_leadership(patch, LeaderHeartbeat)


@breaks("L2", "a standby campaigns after a lease of silence, whether it hears itself or not")
def own_presence_is_not_awaited(patch: pytest.MonkeyPatch) -> None:
    advise = LogElection.advise

    def hasty(self: LogElection, stuck_since_ms: int | None, now_ms: int) -> Advice:
        self._proven_ms = now_ms
        return advise(self, stuck_since_ms, now_ms)

    patch.setattr(LogElection, "advise", hasty)


@breaks("L2a", "a standby campaigns whichever leadership is said to have ended")
def deaths_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    _count_whichever_leadership(patch, Resignation | LeaderDeath)


def _count_whichever_leadership(patch: pytest.MonkeyPatch, kinds: Any) -> None:
    is_accepted = Participant._is_of_the_accepted
    patch.setattr(Participant, "_is_of_the_accepted", lambda self, said: isinstance(said, kinds) or is_accepted(self, said))


@breaks("L3", "a leader appends however many of its decisions are unconfirmed")
def window_is_not_bounded(patch: pytest.MonkeyPatch) -> None:
    decide_next = Leader.decide_next

    def unbounded(self: Leader, now_ms: int, monotonic_ms: int) -> bytes | None:
        self.settings = replace(self.settings, window_size=len(self.unconfirmed) + 1)
        return decide_next(self, now_ms, monotonic_ms)

    patch.setattr(Leader, "decide_next", unbounded)


@breaks("L4", "a leader answers reads from decisions that are not accepted yet")
def reads_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    serve = Reads.serve

    def hasty(self: Reads) -> None:
        serve(self)
        while self.held:
            held = self.held.popleft()
            self._deliver(held.read, held.value)

    patch.setattr(Reads, "serve", hasty)


# -- slots ---------------------------------------------------------------------------------------------------------


@breaks("slots", "a request gets a slot whatever it asks for")
def profiles_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    for module in (free_slots, slot_manager):
        patch.setattr(module, "fits", lambda _offered, _asked: True)


@breaks("slots", "slots are given away whether their TaskManager is ready or not")
def readiness_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def init(self: _Pool, levels: Levels, *, is_ready: bool) -> None:  # noqa: ARG001 - ignored
        make(self, levels, is_ready=True)

    make = _Pool.__init__
    patch.setattr(_Pool, "__init__", init)


@breaks("slots", "an attempt joins a slot in which another one of its vertex is")
def vertices_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    def share(self: SlotManager, allocation_id: str, attempt: AttemptId, _group: str) -> None:
        allocation = self.allocations[allocation_id]
        allocation.others[attempt] = None
        self.sharing.join(allocation_id, allocation, attempt)

    patch.setattr(SharingGroup, "holds", lambda *_: False)
    patch.setattr(SharingGroup, "first_open", lambda *_: 0)
    patch.setattr(SlotManager, "share", share)


@breaks("L5", "a worker that nobody wants any more is left alone")
def orphans_are_left(patch: pytest.MonkeyPatch) -> None:
    compare = WorkerReconciler.compare
    patch.setattr(WorkerReconciler, "compare", lambda self, listed: replace(compare(self, listed), stops=()))


@breaks("L5", "a clean-up goes where a link leads")
def links_are_followed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "O_NOFOLLOW", 0)
    patch.setattr("eventflink.processes.beneath._is_directory", lambda folder, name: stat.S_ISDIR(os.stat(name, dir_fd=folder).st_mode))


@breaks("L7", "a TaskExecutor that cannot write says nothing and takes what comes")
def full_disks_take_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskExecutorProtocol, "on_disk", lambda self, _fault, now_ms: self._settle(now_ms))


@breaks("L7", "a master gives tasks to TaskExecutors that cannot write")
def full_disks_are_given_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Blocklist, "judge", lambda _self, _report: [])


@breaks("resource drivers", "a worker is released whether it works or not")
def busy_workers_are_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(active_resource_manager, "_idle", lambda state, _settings, _now: iter(list(state.workers.registered)))
    patch.setattr(SlotManager, "check_task_manager_released", lambda _self, _event: None)


# -- checkpoints ---------------------------------------------------------------------------------------------------


@breaks("C1", "an answer that comes late counts for the checkpoint that is pending then")
def late_answers_count(patch: pytest.MonkeyPatch) -> None:
    pending_of = checkpoint_coordinator._pending_of

    def for_the_pending_one(state: ClusterState, report: CheckpointAcknowledgement) -> Any:
        job = state.dispatcher.jobs.get(report.job_id)
        if job is not None and job.checkpoints is not None and job.checkpoints.pending is not None:
            report.checkpoint_id = job.checkpoints.pending.checkpoint.checkpoint_id
        return pending_of(state, report)

    patch.setattr(checkpoint_coordinator, "_pending_of", for_the_pending_one)


@breaks("C2", "a checkpoint completes although a stream is behind an earlier one")
def checkpoints_go_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint_coordinator, "_find_step_back", lambda *_: "")


@breaks("C3", "a checkpoint stays pending whatever becomes of what it waits for")
def broken_checkpoints_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobMaster, "aborts_checkpoint", property(lambda _job: False))


# -- schedules -------------------------------------------------------------------------------------------------------


@breaks("P21", "an instant that has fired is due again")
def instants_stay_due(patch: pytest.MonkeyPatch) -> None:
    advance = Schedules._advance

    def staying(known: Schedule, event: e.InstantEvent, origin: InstantOrigin) -> InstantOrigin:
        next_ms = known.next_ms
        asked_by = advance(known, event, origin)
        known.next_ms = next_ms
        return asked_by

    patch.setattr(Schedules, "_advance", staticmethod(staying))


@breaks("P21", "an instant waits for its file also when its job has started")
def files_are_awaited_for_ever(patch: pytest.MonkeyPatch) -> None:
    advance = Schedules._advance

    def staying(known: Schedule, event: e.InstantEvent, origin: InstantOrigin) -> InstantOrigin:
        waiting = known.awaiting.get(event.instant_ms)
        asked_by = advance(known, event, origin)
        if waiting is not None:
            known.awaiting[event.instant_ms] = waiting
        return asked_by

    patch.setattr(Schedules, "_advance", staticmethod(staying))


@breaks("P21", "a schedule starts a job while another one of it runs")
def overlaps_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    decide = schedule_firing._decide_due

    def deciding(state: ClusterState, schedule_id: str, schedule: Schedule, *rest: Any) -> list[e.LogEvent]:
        return decide(state, schedule_id, replace(schedule, running={}, queue={}), *rest)

    patch.setattr(schedule_firing, "_decide_due", deciding)


@breaks("P21", "an instant begins where its timing says, whatever was decided before it")
def instants_begin_by_the_timing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Schedule, "what_is_before", lambda known, instant_ms: what_is_before(known.definition.timing, instant_ms))


@breaks("P21", "an instant that has waited begins where another one ended that came later")
def what_waits_begins_later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedule_firing, "_what_is_before", lambda known, instant_ms, _origin: known.what_is_before(instant_ms))


@breaks("P21", "a job that runs for an instant again is none of its schedule")
def reruns_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Schedules, "apply_job_submitted", lambda *_: None)


@breaks("P21", "the end of a run is an instant of no schedule")
def ends_are_not_followed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Schedules, "decide_follow", lambda *_: [])


@breaks("P21", "the end of a run is no instant while others wait")
def ends_that_wait_are_overtaken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Schedule, "instant_after", lambda _known, _after_ms: None)


@breaks("P21", "the cursor of a topic stays where it was")
def cursors_stay(patch: pytest.MonkeyPatch) -> None:
    claimed = Schedules.apply_records_claimed

    def staying(known: Schedules, event: e.RecordsClaimed, at_ms: int) -> None:
        cursor = known.schedule(event.schedule_id).cursor
        offsets = dict(cursor.offsets) if cursor is not None else {}
        claimed(known, event, at_ms)
        if cursor is not None:
            cursor.offsets = offsets

    patch.setattr(Schedules, "apply_records_claimed", staying)


@breaks("P21", "the cursor of a table stays where it was")
def table_cursors_stay(patch: pytest.MonkeyPatch) -> None:
    claimed = Schedules.apply_versions_claimed

    def staying(known: Schedules, event: e.VersionsClaimed, at_ms: int) -> None:
        claimed(known, event, at_ms)
        if (cursor := known.schedule(event.schedule_id).table_cursor) is not None:
            cursor.version = event.versions.after

    patch.setattr(Schedules, "apply_versions_claimed", staying)


@breaks("P21", "what was seen of a table before its cursor moved is taken as new")
def late_looks_at_tables_count(patch: pytest.MonkeyPatch) -> None:
    decided = schedule_firing.decide_versions_seen

    def deciding(state: ClusterState, value: VersionsSeen, context: Context) -> list[e.LogEvent]:
        known = state.schedules.schedules.get(value.schedule_id)
        cursor = known.table_cursor if known is not None else None
        return decided(state, replace(value, cursor=cursor.version if cursor is not None else None), context)

    patch.setattr(schedule_firing, "decide_versions_seen", deciding)


@breaks("P21", "a cursor begins anew with each version of its schedule")
def cursors_begin_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedules, "_taken_by", lambda _definition: object())


@breaks("P22", "nobody looks whether the time of an attempt or of a job is up")
def time_limits_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timers, "due_time_limits", lambda *_args, **_more: iter(()))


@breaks("P23", "the retries of a vertex are counted by nobody")
def retries_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restarts, "next_retry", lambda vertex, number, _retries, cause: next_retry(vertex, number, 0, cause))


@breaks("P24", "the rows of a mapped vertex are not counted again when its input is made again")
def rows_are_counted_once(patch: pytest.MonkeyPatch) -> None:
    is_unmapped = ExecutionGraph.is_unmapped
    patch.setattr(
        ExecutionGraph, "is_unmapped", lambda self, vertex_id: self.vertices[vertex_id].parallelism == 1 and is_unmapped(self, vertex_id)
    )


@breaks("P24", "a mapped vertex with too many rows has as many subtasks as it may have, and leaves the other rows out")
def rows_beyond_the_bound_are_left_out(patch: pytest.MonkeyPatch) -> None:
    def rows_of(self: ExecutionGraph, vertex_id: str) -> int | None:
        rows = mapped_rows(self, vertex_id)
        return None if rows is None else min(rows, self.vertices[vertex_id].vertex.max_parallelism)

    mapped_rows = ExecutionGraph.mapped_rows
    patch.setattr(ExecutionGraph, "mapped_rows", rows_of)


@breaks("P26", "a vertex runs whatever the rows are that its condition names")
def conditions_always_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conditions, "_skip_by", lambda _condition, _rows: None)


@breaks("P26", "what was skipped stays so when what has decided that is made again")
def skips_are_for_ever(patch: pytest.MonkeyPatch) -> None:
    def noting(self: ExecutionGraph, vertex_id: str) -> None:
        skipped = {name: vertex.skip for name, vertex in self.vertices.items() if vertex.skip is not None}
        note(self, vertex_id)
        for name, skip in skipped.items():
            if (vertex := self.vertices[name]).skip is None:
                vertex.skip = skip
                self.live_attempts -= vertex.parallelism
                self.unfinished_vertices -= 1

    note = ExecutionGraph._note_incomplete
    patch.setattr(ExecutionGraph, "_note_incomplete", noting)


@breaks("P26", "what runs by a condition alone does not start again when the rows are made again that it was decided by")
def conditions_are_decided_once(patch: pytest.MonkeyPatch) -> None:
    def read_by(self: ExecutionGraph, vertex_ids: Iterable[str]) -> set[str]:
        conditional, self.conditional_vertices = self.conditional_vertices, {}
        try:
            return downstream_of(self, vertex_ids)
        finally:
            self.conditional_vertices = conditional

    downstream_of = ExecutionGraph.downstream_of
    patch.setattr(ExecutionGraph, "downstream_of", read_by)


@breaks("P27", "the outputs that a rerun takes are removed with the job that made them")
def reused_outputs_are_held_by_nobody(patch: pytest.MonkeyPatch) -> None:
    def reusing(self: JobMaster, *arguments: Any) -> set[str]:
        reuse_outputs(self, *arguments)
        return set()

    reuse_outputs = JobMaster.reuse_outputs
    patch.setattr(JobMaster, "reuse_outputs", reusing)


@breaks("P27", "a vertex is reused though it is another one now")
def mended_vertices_are_reused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reuse._Comparison, "find_change", lambda _self, _vertex: None)


@breaks("P27", "a vertex is reused though what it reads is made again")
def readers_of_what_runs_are_reused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reuse, "_inputs_of", lambda graph: {vertex.vertex_id: [] for vertex in graph.vertices})


@breaks("P25", "a job ends without its closing vertices")
def closing_vertices_are_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobGraph, "has_closing_vertices", property(lambda _self: False))


@breaks("P25", "closing vertices run after any end")
def closing_vertices_run_after_any_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execution_graph, "runs_after", lambda _runs, _status: True)


@breaks("P25", "a closing vertex that fails is tried again as any other, and fails its job")
def closing_vertices_fail_their_jobs(patch: pytest.MonkeyPatch) -> None:
    def failing(job: JobMaster, subtask: Subtask, failed: e.TaskFailed, now_ms: int) -> list[e.LogEvent]:
        events = decide(job, subtask, failed, now_ms)
        return events if len(events) > 1 else [*events, e.JobStatusChanged(job.job_id, job.status, JobStatus.FAILING)]

    decide = failover._decide_failure_of_closing
    patch.setattr(failover, "_decide_failure_of_closing", failing)


@breaks("P25", "nobody looks whether the time of closing vertices is up")
def closing_vertices_run_for_ever(patch: pytest.MonkeyPatch) -> None:
    looked_at_ms = time_limits._looked_at_ms
    patch.setattr(time_limits, "_looked_at_ms", lambda job: looked_at_ms(job) if job.closing is None else float("inf"))
    patch.setattr(JobMaster, "decide_closing_abort", lambda _self, _reason: [])


@breaks("P22", "an attempt that has ended since its time was up is cancelled, and does not fail")
def exceeded_attempts_are_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subtask, "exceeds_time_limit", property(lambda _self: False))


@breaks("P22", "a limit is decided before the reports that wait")
def reports_are_not_awaited(patch: pytest.MonkeyPatch) -> None:
    due = timers.due

    def overtaking(state: ClusterState, context: Context, since_ms: int, decided: timers.DecidedUntil, *rest: Any) -> Iterator[Any]:
        return due(state, context, since_ms, decided._replace(reports_ms=context.now_ms), *rest)

    patch.setattr(timers, "due", overtaking)


# -- who may enter -------------------------------------------------------------------------------------------------


@breaks("L6", "clients are granted Write on the log")
def clients_write_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(access_rights._CLIENT, Topic.LOG, ("Read", "Write"))


@breaks("L6", "a name that a sender declares is taken for proven")
def declared_names_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inbound, "named", lambda name, *, is_proven: name)  # noqa: ARG005 - that is what is broken


@breaks("L6", "any seal proves who asks, whoever has made it")
def any_seal_proves_a_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inbound.InboundDecoder, "_is_proven", lambda _decoder, _topic, value: has_seal(value))


@breaks("L6", "the settings of a Kafka go to whichever is asked")
def settings_go_to_every_kafka(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kafka_settings.KafkaAccess, "at", lambda own, bootstrap: replace(own, bootstrap=bootstrap or own.bootstrap))


@breaks("L6", "a password is taken as the value of its key")
def secrets_are_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kafka_settings, "is_secret", lambda _: False)


@breaks("L8", "what a failure says is cut first, and masked then")
def failures_are_not_masked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failure_causes, "masked", lambda text: text)
    patch.setattr(failure_causes, "bounded", lambda text, limit: masked(bounded(text, limit)))


@breaks("L8", "a password is taken as the value of a job's parameter")
def jobs_write_secrets_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(secret_references, "holds_secret", lambda _: False)


@breaks("L8", "a link leads out of the directory of secrets")
def secrets_are_read_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Path, "is_relative_to", lambda *_: True)


# -- counting ------------------------------------------------------------------------------------------------------

FOUND_BY = {
    "sequence_is_not_compared": 0,
    "epoch_is_used_again": 1328,
    "seals_are_not_checked": 4,
    "holes_are_not_noticed": 2,
    "foreign_records_stop_readers": 0,
    "ends_of_transactions_are_holes": 2,
    "gaps_are_believed_empty": 2,
    "what_was_read_is_forgotten": 13,
    "what_was_heard_is_forgotten": 17,
    "cursors_may_be_beyond_the_end": 5,
    "effects_leave_early": 49,
    "epochs_are_believed_for_ever": 9,
    "cursors_are_not_replayed": 0,
    "refusals_are_not_decided": 3,
    "batches_answer_one": 2,
    "internal_suspects_are_not_announced": 7,
    "guardians_are_not_believed": 23,
    "request_ids_are_forgotten": 46,
    "job_ids_are_forgotten": 7,
    "horizon_is_too_short": 0,
    "nothing_is_parked": 5,
    "what_is_parked_is_decided_again": 7,
    "failures_to_apply_are_forgotten": 22,
    "consequences_do_not_wait": 5,
    "deployments_are_not_divided": 0,
    "canaries_are_not_waited_for": 14,
    "promotion_gives_no_grace": 14,
    "instances_do_not_wait_for_tasks": 17,
    "spark_is_not_waited_for": 10,
    "restarts_do_not_wait": 0,
    "unacknowledged_attempts_are_missing": 20,
    "snapshots_are_not_whole": 11,
    "broker_clocks_are_believed": 0,
    "stuck_inputs_do_not_matter": 7,
    "profiles_are_not_compared": 0,
    "readiness_is_ignored": 5,
    "vertices_are_not_compared": 14,
    "full_disks_take_tasks": 17,
    "orphans_are_left": 5,
    "busy_workers_are_released": 10,
    "checkpoints_go_back": 38,
    "broken_checkpoints_stay": 2,
    "written_batches_are_written_again": 8,
    "marks_are_not_sent": 7,
    "lost_directories_are_not_noticed": 10,
    "older_attempts_are_not_fenced": 54,
    "zombies_are_not_fenced": 10,
    "cancelled_streams_resume": 26,
    "stopped_streams_are_not_resumed": 57,
    "stopped_streams_begin_again": 10,
    "written_batches_are_not_in_savepoints": 47,
    "instants_stay_due": 6,
    "instants_begin_by_the_timing": 6,
    "what_waits_begins_later": 16,
    "overlaps_are_not_seen": 6,
    "ends_are_not_followed": 87,
    "ends_that_wait_are_overtaken": 6,
    "cursors_stay": 30,
    "table_cursors_stay": 87,
    "cursors_begin_anew": 79,
    "time_limits_are_not_looked_at": 10,
    "exceeded_attempts_are_cancelled": 25,
    "retries_are_not_counted": 14,
    "rows_beyond_the_bound_are_left_out": 6,
    "closing_vertices_are_left_out": 4,
    "closing_vertices_run_after_any_end": 4,
    "readers_of_what_runs_are_reused": 36,
    "conditions_always_hold": 1,
    "skips_are_for_ever": 58,
}
"""A seed that finds each; whatever changes what runs makes other runs of the same seeds, and wants other seeds here."""

SELDOM = ("rejected_decisions_advance", "consequences_are_lost", "sinks_are_not_settled")
"""Those that one seed of a hundred finds, or fewer: too few for a test that has to be short whatever is changed."""

FOUND_BY_TEST = {
    "mended_vertices_are_reused": "test_a_function_that_was_mended_runs_with_all_that_reads_it",
    "reruns_are_not_counted": "test_a_rerun_counts_as_a_job_of_its_schedule_until_it_ends",
    "orders_begin_without_locations": "test_an_order_of_whose_lists_a_part_is_missing_is_left_alone_until_all_are_told_again",
    "lists_are_told_once_a_term": "test_an_order_of_whose_lists_a_part_is_missing_is_left_alone_until_all_are_told_again",
    "reused_outputs_are_held_by_nobody": "test_outputs_stay_as_long_as_a_job_takes_them_over_a_failover",
    "files_are_awaited_for_ever": "test_an_instant_has_its_job_when_its_file_is_there_once_over_changes_of_leaders",
    "late_looks_at_tables_count": "test_a_look_from_before_the_cursor_moved_starts_nothing",
    "earlier_attempts_are_of_hosts": "test_a_deployment_says_on_which_spark_each_earlier_attempt_was_by_what_its_instance_had_registered",
    "closing_vertices_fail_their_jobs": "test_a_failure_of_one_changes_nothing_of_the_end",
    "closing_vertices_run_for_ever": "test_after_their_time_they_are_cancelled_and_the_job_ends_as_it_was_to",
    "conditions_are_decided_once": "test_what_has_run_is_skipped_where_the_rows_are_gone_but_not_before_it_has_ended",
    "rows_are_counted_once": "test_when_its_writer_runs_again_the_rows_are_counted_again",
    "instances_are_not_compared": "test_acceptance_for_another_instance_or_task_manager_means_nothing",
    "leader_is_not_compared": "test_another_decision_is_rejected_and_without_effect",
    "epoch_of_a_grant_is_not_new": "test_a_grant_of_another_epoch_is_rejected",
    "older_epochs_are_obeyed": "test_effects_of_an_older_epoch_than_the_newest_seen_are_ignored",
    "expiry_does_not_wait": "test_a_request_that_waited_for_longer_than_answers_are_kept_finds_the_answer",
    "copies_of_heartbeats_count": "test_neither_a_forged_heartbeat_nor_a_copy_keeps_a_dead_leader_alive",
    "durability_is_not_checked": "test_every_durability_fault_is_found",
    "snapshots_beyond_the_end_are_no_evidence": "test_a_search_goes_no_further_back_than_a_snapshot_of_what_is_gone",
    "snapshots_of_other_records_are_believed": "test_a_snapshot_of_records_that_are_gone_shows_it_however_long_the_log_is_by_now",
    "replaced_topics_are_not_bound_again": "test_a_rebound_topic_is_decided_from_its_first_record",
    "suspects_are_not_announced": ("test_after_a_crash_what_waited_is_announced_and_that_read_back_before_it_is_decided"),
    "batches_are_not_cut_by_bytes": "test_long_reasons_for_many_jobs_fit_into_decisions_whatever_they_are_written_in",
    "any_schema_is_used": "test_ten_bytes_of_a_registry_s_schema_stop_no_master",
    "poison_is_decided": "test_it_is_refused_with_a_reply_and_a_dead_letter_and_the_rest_is_decided",
    "transactions_may_hang": "test_a_transaction_is_ended_when_it_was_seen_open_for_so_long_and_not_before",
    "uncommitted_records_are_read": "test_what_a_transaction_aborted_never_reaches_an_agent",
    "foreign_deployments_are_decoded": "test_what_is_for_a_task_manager_goes_to_the_partition_that_it_reads_and_is_for_no_other",
    "nobody_fences_itself": "test_without_acknowledged_heartbeats_tasks_are_ended_in_time_and_a_new_instance_begins_only_after",
    "fence_counts_from_acknowledgements": "test_the_fence_counts_from_the_time_an_acknowledged_heartbeat_was_sent",
    "any_answer_is_new": "test_an_answer_is_as_old_as_the_registration_that_it_names_however_often_that_was_repeated",
    "tombstones_are_not_kept": "test_a_cancellation_before_its_deployment_leaves_a_tombstone",
    "other_allocations_are_answered_for": "test_an_attempt_that_is_known_under_another_allocation_is_refused_by_the_one_that_is_named",
    "forgotten_attempts_are_new": "test_what_is_forgotten_is_never_started_again",
    "attempts_share_a_place": "test_each_attempt_has_places_of_its_own",
    "absences_are_not_waited_for": "test_it_is_not_raised_while_an_older_master_may_come_back",
    "unused_fields_are_written": "test_what_a_later_version_added_is_in_no_digest_and_no_snapshot_before_it_is_used",
    "level_is_raised_alone": "test_it_is_raised_when_every_master_that_was_heard_of_can_read_it_and_not_before_three_leases",
    "silent_clients_are_not_noticed": "test_a_task_that_is_silent_for_too_long_is_given_up_and_one_that_speaks_is_not",
    "late_attempts_fence_newer_ones": "test_an_attempt_that_finds_the_mark_of_a_newer_one_ends_before_it_fences_anything",
    "cut_batches_lose_their_range": "test_a_batch_that_was_cut_keeps_its_range_of_offsets",
    "settled_sinks_keep_their_mark": "test_a_query_that_begins_to_write_after_a_newer_one_has_settled_the_sink_ends",
    "lost_directories_are_saved": "test_a_savepoint_is_not_taken_of_a_directory_that_is_behind_what_was_written",
    "stopped_streams_are_told_once": "test_a_job_that_stops_with_it_finishes_when_all_of_it_is_written",
    "wall_clock_is_believed": "test_a_wall_clock_far_ahead_draws_by_a_tenth_at_most",
    "deaf_leaders_go_on": "test_a_decision_not_read_back_within_a_lease_ends_the_leadership",
    "heartbeats_are_not_fenced": "test_a_heartbeat_of_another_leadership_deposes_nobody_and_keeps_nobody_from_leading",
    "own_presence_is_not_awaited": "test_who_has_not_read_its_own_word_never_campaigns",
    "deaths_are_not_fenced": "test_the_death_of_another_leadership_is_ignored",
    "reports_are_not_awaited": "test_a_report_that_waited_for_the_next_leader_comes_before_its_limits",
    "window_is_not_bounded": "test_no_more_decisions_than_the_window_are_unconfirmed",
    "late_answers_count": "test_a_stale_late_double_or_foreign_answer_is_skipped_by_name",
    "clients_write_the_log": "test_only_masters_write_what_masters_say",
    "declared_names_are_believed": "test_a_name_that_a_sender_declares_is_marked_and_no_sender_takes_the_mark_away",
    "any_seal_proves_a_name": "test_a_name_that_a_seal_proves_has_no_mark_and_no_other_seal_takes_it_away",
    "settings_go_to_every_kafka": "test_the_settings_of_one_kafka_go_to_no_other",
    "secrets_are_written_down": "test_what_is_wrong_is_told_before_anything_starts_and_without_the_secret",
    "jobs_write_secrets_down": "test_a_secret_that_is_written_down_is_refused_before_it_is_in_the_log_and_not_repeated",
    "failures_are_not_masked": "test_no_text_of_a_failure_has_a_value_however_it_is_quoted_or_cut",
    "secrets_are_read_anywhere": "test_what_cannot_be_read_is_looked_for_nowhere_else_and_said_without_a_value",
    "full_disks_are_given_tasks": "test_a_task_manager_that_cannot_write_is_given_no_tasks_until_it_can",
    "links_are_followed": "test_clean_up_removes_nothing_behind_a_link_wherever_a_task_has_put_it",
    "reads_do_not_wait": "test_what_a_leader_decided_is_not_read_before_it_is_accepted",
}
"""A test that fails while the rule is broken; `tests.support.mutated_tests` runs it so."""

NOT_FOUND = {
    "leader_id_is_not_fresh": "two processes of one master would have to campaign for the same epoch, and read one grant",
    "late_deployments_start_cancelled_attempts": "both at once need a deployment that is late by a whole change of leader",
}
"""Those that neither a seed nor a test finds, with why; docs/simulation.md says more."""


def finds(name: str, seed: int) -> str:
    """Return the invariant that a seed breaks with a mutation, and without it does not; nothing if there is none."""
    with MUTATIONS[name].applied():
        found = simulate(seed).invariant
    return found if found and not _broken(seed) else ""


@functools.cache
def _broken(seed: int) -> str:
    """Return the invariant that a seed breaks without any mutation."""
    return simulate(seed).invariant


def count(name: str, first_seed: int, seeds: int) -> str:
    """Run the seeds with one mutation; return how many of them find it, as which invariants, and some of them."""
    logging.disable(logging.CRITICAL)
    found = {seed: invariant for seed in range(first_seed, first_seed + seeds) if (invariant := finds(name, seed))}
    named = ", ".join(str(invariant) for invariant, _ in Counter(found.values()).most_common(3))
    return f"{name}: {len(found)} of {seeds}, as {named or 'none'}; seeds: {', '.join(map(str, list(found)[:8]))}"


def main(arguments: list[str]) -> None:
    """Count what the arguments say: the first seed, how many, and the names of mutations (default: all)."""
    first_seed, seeds = int(arguments[0]), int(arguments[1])
    for name in arguments[2:] or MUTATIONS:
        print(count(name, first_seed, seeds), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
