"""The Master: the four components of Flink's master, the services around them, and how one input travels through them.

    decide(input, now)      reads the state, returns events, changes nothing
    apply(event, at)        changes the state by one event, decides nothing
    apply_causes(causes)    moves the cursors behind the inputs that an accepted decision answers

State is the fold of `apply` over the accepted decisions of the log, and nothing else. No I/O, no clock, no randomness: times
and ids come with the input and are written into the events.
"""

from collections.abc import Callable, Iterable
from typing import Any

from eventflink.events import log_events as e
from eventflink.events.decision import Cause, InputCause
from eventflink.events.inputs import (
    BlockTaskManager,
    CancelJob,
    Command,
    ConfirmSnapshot,
    Disconnection,
    DrillStep,
    FileUploadCompleted,
    JobSubmission,
    ReportSnapshot,
    RequestFileUpload,
    RequestTaskManagerFileUpload,
    RescaleJob,
    ResumeJob,
    ShutDownCluster,
    SlotOffer,
    SlotOfferRefusal,
    SlotReport,
    SuspendJob,
    TaskManagerDeath,
    TaskManagerRegistration,
    TaskStateReport,
    UnblockTaskManager,
)
from eventflink.events.log_events import LogEvent
from eventflink.master import inputs as i
from eventflink.master.adaptive_scheduler import (
    Claims,
    Resources,
    decide_adaptation,
    decide_schedule,
    missing_slots,
    resources_at,
)
from eventflink.master.answers import MAX_MESSAGE_LENGTH, MAX_SUBJECT_LENGTH, rejected
from eventflink.master.blocklist import Blocklist
from eventflink.master.canonical import digest_of
from eventflink.master.cluster_shutdown import REASON, ClusterShutdown, decide_next_step
from eventflink.master.dispatcher import Dispatcher, JobDefaults
from eventflink.master.effects import ArchiveJob, CleanUp, clean_up
from eventflink.master.execution_graph import Subtask
from eventflink.master.failover import decide_failure, decide_restarts
from eventflink.master.fencing import FencedCommand, mismatch_of
from eventflink.master.follow_ups import FollowUps
from eventflink.master.inputs import MasterInput
from eventflink.master.invariants import validate
from eventflink.master.job_master import JobMaster
from eventflink.master.job_store import JobStore
from eventflink.master.requests import ALL_REPLY_PARTITIONS, NO_REPLY, Requests
from eventflink.master.rescaling import apply_job_rescale_requested, apply_job_rescaled, apply_rescale_scheduled, decide_rescale
from eventflink.master.resource_manager import ResourceManager
from eventflink.master.settings import MasterSettings
from eventflink.master.slot_failures import decide_slot_request_timeout, decide_unfulfillable_requests
from eventflink.master.slot_manager import SlotManager
from eventflink.master.slot_matching import decide_matches
from eventflink.master.task_executor_reports import (
    decide_file_upload_completed,
    decide_slot_offer,
    decide_slot_offer_refusal,
    decide_slot_report,
    decide_task_state_report,
)
from eventflink.master.task_manager_files import TaskManagerFiles
from eventflink.master.timers import due
from eventflink.master.upkeep import Upkeep
from eventflink.master.workers import Workers, WorkerSettings
from eventflink.model.attempts import AttemptId, FailureCause
from eventflink.model.resources import ResourceProfile, fits
from eventflink.model.statuses import (
    TERMINAL_EXECUTION_STATES,
    FollowUpType,
    IllegalTransition,
)


class Master:
    """The whole state of a cluster, and every rule of how it changes."""

    __slots__ = (
        "_apply",
        "_decide",
        "blob_address",
        "blocklist",
        "dispatcher",
        "follow_ups",
        "job_store",
        "leader_id",
        "requests",
        "resource_manager",
        "settings",
        "shutdown",
        "slot_manager",
        "task_manager_files",
        "upkeep",
        "workers",
    )

    def __init__(self, settings: MasterSettings) -> None:
        """Start from nothing: the state before the first record of the log."""
        self.settings = settings
        self.leader_id = ""
        """Who decides here, while this master leads: what `decide` compares fencing tokens with. No state: `apply` reads it nowhere."""
        self.follow_ups = FollowUps()
        self.requests = Requests()
        self.upkeep = Upkeep()
        self.dispatcher = Dispatcher(self.follow_ups)
        self.job_store = JobStore()
        self.resource_manager = ResourceManager()
        self.task_manager_files = TaskManagerFiles()
        self.blocklist = Blocklist()
        self.workers = Workers()
        self.slot_manager = SlotManager(self.follow_ups, workers=self.workers)
        self.shutdown = ClusterShutdown()
        self.blob_address = ""
        self._decide = self._decide_table()
        self._apply = self._apply_table()

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide(self, value: MasterInput, now_ms: int) -> list[LogEvent]:
        """Return what the input leads to. The state stays as it is.

        Every input from a topic leads to at least one event (P7); an internal input may lead to none.
        """
        return self._decide[type(value)](value, now_ms)

    def _decide_table(self) -> dict[type[Any], Callable[[Any, int], list[LogEvent]]]:
        dispatcher, resource_manager, requests = self.dispatcher, self.resource_manager, self.requests
        workers = self.workers
        return {
            JobSubmission: self._decide_submission,
            CancelJob: self._decide_cancel_job,
            SuspendJob: self._decide_suspend_job,
            ResumeJob: self._decide_resume_job,
            ShutDownCluster: self._decide_shut_down_cluster,
            RequestFileUpload: self._decide_request_file_upload,
            ReportSnapshot: lambda v, _: self._repeated(v) or self.upkeep.decide_snapshot(v),
            ConfirmSnapshot: lambda v, _: self._repeated(v) or self.upkeep.decide_confirmation(v),
            DrillStep: lambda v, _: self._repeated(v) or self.upkeep.decide_drill_step(v, allowed=self.settings.drills_allowed),
            BlockTaskManager: self._decide_block_task_manager,
            UnblockTaskManager: self._decide_unblock_task_manager,
            TaskManagerRegistration: self._decide_registration,
            RequestTaskManagerFileUpload: self._decide_task_manager_file,
            RescaleJob: self._decide_rescale_job,
            SlotReport: lambda v, _: decide_slot_report(self, v),
            SlotOffer: lambda v, _: decide_slot_offer(self, v),
            SlotOfferRefusal: lambda v, now_ms: decide_slot_offer_refusal(self, v, now_ms),
            TaskStateReport: lambda v, now_ms: decide_task_state_report(self, v, now_ms),
            FileUploadCompleted: lambda v, _: decide_file_upload_completed(self, v),
            Disconnection: lambda v, _: resource_manager.decide_departure(v),
            TaskManagerDeath: lambda v, _: resource_manager.decide_departure(v),
            i.HeartbeatTimeout: lambda v, _: resource_manager.decide_departure(v),
            i.UnreadableInput: self._decide_unreadable_input,
            i.InputTooOld: self._decide_input_too_old,
            i.PoisonedInput: self._decide_poisoned_input,
            i.AttemptInputs: lambda v, _: requests.decide_attempt(v),
            i.RaiseFeatureLevel: lambda v, _: self.upkeep.decide_feature_level(v),
            i.BindInputs: lambda v, _: requests.decide_binding(v),
            i.LoseInputs: lambda v, _: requests.decide_lost(v),
            i.FollowUp: self._decide_follow_up,
            i.SlotRequestTimeout: lambda _v, now_ms: decide_slot_request_timeout(self, now_ms),
            i.FailUnfulfillableRequests: lambda _v, now_ms: decide_unfulfillable_requests(self, now_ms),
            i.UnblockTaskManagers: lambda _v, now_ms: self.blocklist.decide_expiry(now_ms),
            i.UploadsOverdue: lambda _v, now_ms: self.task_manager_files.decide_overdue(now_ms),
            i.RestartsDue: self._decide_restarts_due,
            i.AdaptJob: self._decide_adapt_job,
            i.CleanupsCompleted: lambda v, _: dispatcher.decide_cleaned_up(v),
            i.CleanupFailed: dispatcher.decide_cleanup_failed,
            i.ArchivesWritten: lambda v, _: self.job_store.decide_archived(v),
            i.ArchiveFailed: self.job_store.decide_archive_failed,
            i.EvictJobs: self._decide_evict_jobs,
            i.ExpireAnswers: self._decide_expire_answers,
            i.RequestWorkers: lambda _v, now_ms: workers.decide_requests(
                self.slot_manager, self.worker_settings, resource_manager.task_managers, now_ms, self.missing_slots_of_adaptive_jobs(now_ms)
            ),
            i.FailWorkerRequests: lambda _v, now_ms: workers.decide_overdue(self.worker_settings, now_ms),
            i.ReleaseTaskManagers: lambda _v, now_ms: workers.decide_releases(
                self.slot_manager, resource_manager, self.worker_settings, now_ms
            ),
            i.WorkerTerminated: lambda v, now_ms: workers.decide_terminated(v, self.worker_settings, now_ms),
            i.ContinueShutdown: lambda _v, now_ms: decide_next_step(self, now_ms),
            i.StartCluster: lambda _v, _: self.shutdown.decide_start(),
        }

    def _repeated(self, request: JobSubmission | Command) -> list[LogEvent] | None:
        return self.requests.decide_repeated(request.request_id, request.reply_partition)

    def _decide_submission(self, submission: JobSubmission, _now: int) -> list[LogEvent]:
        settings = self.settings
        defaults = JobDefaults(
            settings.restart_strategy,
            settings.failover_strategy,
            settings.exception_history_size,
            settings.adaptive.scheduler,
            settings.adaptive.reactive,
        )
        refused = self._repeated(submission) or self.shutdown.refuse(submission)
        return refused or self.dispatcher.decide_submission(submission, defaults)

    @property
    def worker_settings(self) -> WorkerSettings | None:
        """How workers are asked for; None: not at all, because there is no driver."""
        return self.settings.workers

    def may_come(self, profile: ResourceProfile | None) -> bool:
        """Tell whether the resource driver can start what has room for a request."""
        settings = self.worker_settings
        return settings is not None and fits(settings.slot_profile, profile)

    def _decide_registration(self, registration: TaskManagerRegistration, _now: int) -> list[LogEvent]:
        ids = (registration.task_manager_id, registration.instance_id)
        if self.shutdown.is_under_way:
            return [e.TaskManagerRegistrationRefused(*ids, REASON)]
        if (given_up := self.workers.given_up.get(registration.task_manager_id)) is not None:
            return [e.TaskManagerRegistrationRefused(*ids, f"this worker was given up: {given_up}")]
        return self.resource_manager.decide_registration(registration)

    def _decide_block_task_manager(self, command: BlockTaskManager, now_ms: int) -> list[LogEvent]:
        registered = command.task_manager_id in self.resource_manager.task_managers
        return self._repeated(command) or self._fenced(command) or self.blocklist.decide_block(command, now_ms, registered=registered)

    def _decide_unblock_task_manager(self, command: UnblockTaskManager, _now: int) -> list[LogEvent]:
        registered = command.task_manager_id in self.resource_manager.task_managers
        return self._repeated(command) or self._fenced(command) or self.blocklist.decide_unblock(command, registered=registered)

    def _decide_task_manager_file(self, command: RequestTaskManagerFileUpload, _now: int) -> list[LogEvent]:
        known = self.resource_manager.task_managers.get(command.task_manager_id)
        return (
            self._repeated(command)
            or self._fenced(command)
            or self.task_manager_files.decide_upload(
                command, known.instance_id if known is not None else None, len(self.dispatcher.uploads)
            )
        )

    def _decide_cancel_job(self, command: CancelJob, _now: int) -> list[LogEvent]:
        return self._repeated(command) or self._fenced(command) or self.dispatcher.decide_cancellation(command)

    def _decide_suspend_job(self, command: SuspendJob, _now: int) -> list[LogEvent]:
        with_cluster = command.job_id in self.shutdown.suspended
        refused = self._repeated(command) or self._fenced(command)
        return refused or self.dispatcher.decide_suspension(command, resumes_with_cluster=with_cluster)

    def _decide_resume_job(self, command: ResumeJob, _now: int) -> list[LogEvent]:
        refused = self._repeated(command) or self._fenced(command) or self.shutdown.refuse(command)
        return refused or self.dispatcher.decide_resumption(command)

    def _decide_shut_down_cluster(self, command: ShutDownCluster, _now: int) -> list[LogEvent]:
        return self._repeated(command) or self._fenced(command) or self.shutdown.decide_shutdown(command)

    def _decide_rescale_job(self, command: RescaleJob, _now: int) -> list[LogEvent]:
        job = self.dispatcher.jobs.get(command.job_id)
        return self._repeated(command) or self._fenced(command) or decide_rescale(job, command, self.slot_manager)

    def _decide_request_file_upload(self, command: RequestFileUpload, _now: int) -> list[LogEvent]:
        refused = self._repeated(command) or self._fenced(command)
        others = len(self.task_manager_files.uploads)
        return refused or self.dispatcher.decide_file_upload(command, self._holder_of(command), others)

    def _fenced(self, command: FencedCommand) -> list[LogEvent]:
        """Refuse a command that is for somebody else.

        One that repeats an answered request is answered as that was, and so comes before this.
        """
        job = self.dispatcher.jobs.get(command.job_id) if isinstance(command, CancelJob | SuspendJob | RescaleJob) else None
        if not (mismatch := mismatch_of(command, self.leader_id, job)):
            return []
        return [rejected(command, "FencingTokenMismatch", mismatch)]

    def _holder_of(self, command: RequestFileUpload) -> tuple[str, str] | None:
        """Return (TaskManager, instance) that runs the attempt, or ran it last."""
        job = self.dispatcher.jobs.get(command.job_id)
        places = job.execution_graph.places_of(command.vertex_id, command.subtask_index) if job is not None else {}
        place = places.get(command.attempt)
        return place if place is not None and self.resource_manager.is_current(*place) else None

    def job_and_subtask(self, attempt: AttemptId) -> tuple[JobMaster, Subtask]:
        """Return the job and the subtask of an attempt that waits for a slot, or has one."""
        job = self.dispatcher.jobs[attempt.job_id]
        return job, job.execution_graph.vertices[attempt.vertex_id].subtasks[attempt.subtask_index]

    def live_subtask(self, attempt: AttemptId) -> Subtask | None:
        """Return the subtask of an attempt that is its current one and has not ended."""
        job = self.dispatcher.jobs.get(attempt.job_id)
        subtask = job.execution_graph.current(attempt) if job is not None else None
        return subtask if subtask is not None and subtask.state not in TERMINAL_EXECUTION_STATES else None

    def _decide_unreadable_input(self, value: i.UnreadableInput, _now: int) -> list[LogEvent]:
        partition = value.reply_partition
        if partition == NO_REPLY and value.request_id:
            partition = ALL_REPLY_PARTITIONS
        return [self._refuse(value.request_id, partition, value.subject, value.code, value.message, dead_letter=True)]

    def _decide_input_too_old(self, value: i.InputTooOld, _now: int) -> list[LogEvent]:
        message = f"the request is {value.age_ms} ms old: older than what the cluster remembers of earlier requests"
        return self.requests.decide_repeated(value.request_id, value.reply_partition) or [
            self._refuse(value.request_id, value.reply_partition, value.subject, "RequestTooOld", message)
        ]

    def _decide_poisoned_input(self, value: i.PoisonedInput, _now: int) -> list[LogEvent]:
        """Refuse it; one that repeats a request is answered as that was, which the state knows without deciding it."""
        message = f"the input {value.topic}@{value.offset} could not be decided: {value.error}"
        return self.requests.decide_repeated(value.request_id, value.reply_partition) or [
            self._refuse(value.request_id, value.reply_partition, value.subject, "InternalError", message, dead_letter=True)
        ]

    def _refuse(
        self, request_id: str, partition: int, subject: str, code: str, message: str, *, dead_letter: bool = False
    ) -> e.RequestRejected:
        return e.RequestRejected(
            request_id=request_id,
            reply_partition=partition,
            subject=subject[:MAX_SUBJECT_LENGTH],
            code=code,
            message=message[:MAX_MESSAGE_LENGTH],
            dead_letter=dead_letter,
        )

    def _decide_follow_up(self, follow_up: i.FollowUp, now_ms: int) -> list[LogEvent]:
        decided = e.FollowUpDecided(follow_up.follow_up_type, follow_up.subject)
        subject = follow_up.subject
        match follow_up.follow_up_type:
            case FollowUpType.SCHEDULE_TASKS:
                return [decided, *decide_schedule(self.dispatcher.jobs[subject], self.resources(now_ms))]
            case FollowUpType.MATCH_SLOTS:
                return [decided, *decide_matches(self.slot_manager, spread=self.settings.evenly_spread_out_slots)]
            case FollowUpType.CANCEL_TASKS:
                return [decided, *self.dispatcher.jobs[subject].decide_task_cancellations()]
            case FollowUpType.COMPLETE_JOB:
                completion = self.dispatcher.jobs[subject].decide_completion(now_ms)
                archives = self.job_store.decide_archives(completion, self.settings.job_store)
                return [decided, *completion, *archives]
            case FollowUpType.FAIL_ALLOCATION:
                return [decided, *self._decide_fail_allocation(subject, now_ms)]
            case FollowUpType.RESTART_TASKS:
                return [decided, *decide_restarts(self.dispatcher.jobs[subject], now_ms)]

    def _decide_fail_allocation(self, allocation_id: str, now_ms: int) -> list[LogEvent]:
        allocation = self.slot_manager.allocations[allocation_id]
        job, subtask = self.job_and_subtask(allocation.attempt)
        kind = allocation.orphaned.partition(":")[0]
        cause = FailureCause(kind, f"{allocation.task_manager_id} no longer has {allocation.attempt} ({allocation.orphaned})")
        # Of several that shared the slot the next one's failure is decided by the state that this one's leads to.
        return [*decide_failure(job, subtask, cause, now_ms), self.slot_manager.decide_return(allocation.attempt, allocation_id)]

    def _decide_restarts_due(self, due: i.RestartsDue, now_ms: int) -> list[LogEvent]:
        job = self.dispatcher.jobs.get(due.job_id)
        return decide_restarts(job, now_ms) if job is not None else []

    def _decide_evict_jobs(self, _value: i.EvictJobs, now_ms: int) -> list[LogEvent]:
        return self.job_store.decide_eviction(self.dispatcher, self.settings.job_store, now_ms)

    def _decide_adapt_job(self, value: i.AdaptJob, now_ms: int) -> list[LogEvent]:
        if value.job_id not in self.dispatcher.adaptive_jobs:
            return []
        return decide_adaptation(self.dispatcher.jobs[value.job_id], self.resources(now_ms))

    def missing_slots_of_adaptive_jobs(self, now_ms: int) -> Claims:
        """Return what slots the resource driver could start for jobs that run with fewer than they want."""
        if self.worker_settings is None or not self.dispatcher.adaptive_jobs:
            return {}
        return missing_slots(self.dispatcher, self.resources(now_ms))

    def resources(self, now_ms: int) -> Resources:
        """Return what the adaptive scheduler chooses from."""
        return resources_at(self.dispatcher, self.slot_manager, self.settings.adaptive, now_ms)

    def _decide_expire_answers(self, _value: i.ExpireAnswers, now_ms: int) -> list[LogEvent]:
        horizon = self.horizon(now_ms)
        return [*self.requests.decide_expiry(*horizon), *self.dispatcher.decide_expiry(*horizon)]

    def horizon(self, now_ms: int) -> tuple[int, int]:
        """Return how many answers are kept, and since when at the longest: a request that is older is refused unread."""
        return self.settings.request_horizon, now_ms - self.settings.request_horizon_ms

    def due(self, now_ms: int, leading_since_ms: int) -> Iterable[MasterInput]:
        """Yield the internal inputs that are due: by the state, the settings, the time, and since when this master leads."""
        return due(self, now_ms, leading_since_ms)

    def due_clean_ups(self, now_ms: int) -> list[CleanUp]:
        """Return the failed clean-ups whose back-off is over."""
        dirty = self.dispatcher.dirty
        return [clean_up(self, job_id) for job_id, job in dirty.items() if 0 < job.retry_at_ms <= now_ms]

    def due_archives(self, now_ms: int) -> list[ArchiveJob]:
        """Return the archives that could not be written at first, and whose back-off is over."""
        return [ArchiveJob(job_id) for job_id in self.job_store.due(now_ms)]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply(self, event: LogEvent, at_ms: int) -> None:
        """Change the state by one event of an accepted decision, made at `at_ms` of the log's clock.

        Raises:
            IllegalTransition: the event does not fit the state, which stays as it was.

        """
        self._apply[type(event)](event, at_ms)

    def apply_causes(self, causes: Iterable[Cause]) -> None:
        """Move the cursors behind the inputs that a decision answers (P6)."""
        for cause in causes:
            if type(cause) is InputCause:
                self.requests.advance(cause.topic, cause.first_offset, cause.last_offset)

    def _apply_table(self) -> dict[type[Any], Callable[[Any, int], None]]:
        requests, dispatcher = self.requests, self.dispatcher
        resource_manager, slot_manager = self.resource_manager, self.slot_manager
        return {
            e.LeadershipGranted: self._apply_leadership_granted,
            e.InputsBound: requests.apply_inputs_bound,
            e.InputsSkipped: lambda _event, _at: None,
            e.InputsLost: requests.apply_inputs_lost,
            e.RequestAccepted: requests.apply_request_accepted,
            e.RequestRejected: requests.apply_request_rejected,
            e.RequestRepeated: lambda _event, _at: None,
            e.AnswersExpired: requests.apply_answers_expired,
            e.FollowUpDecided: self._apply_follow_up_decided,
            e.JobSubmitted: dispatcher.apply_job_submitted,
            e.JobMasterStarted: lambda event, at: dispatcher.job(event.job_id).apply_job_master_started(event, at),
            e.JobCancellationRequested: self._apply_job_cancellation_requested,
            e.JobStatusChanged: dispatcher.apply_job_status_changed,
            e.JobSuspensionRequested: self._apply_job_suspension_requested,
            e.JobResumptionRequested: self._apply_job_resumption_requested,
            e.ClusterShutdownRequested: self.shutdown.apply_cluster_shutdown_requested,
            e.ApplicationStatusRecorded: self.shutdown.apply_application_status_recorded,
            e.ClusterStopped: self.shutdown.apply_cluster_stopped,
            e.ClusterStarted: self.shutdown.apply_cluster_started,
            e.JobMasterStopped: lambda event, at: dispatcher.job(event.job_id).apply_job_master_stopped(event, at),
            e.JobResultStored: dispatcher.apply_job_result_stored,
            e.JobCleanedUp: dispatcher.apply_job_cleaned_up,
            e.JobCleanupFailed: dispatcher.apply_job_cleanup_failed,
            e.JobEvicted: self._apply_job_evicted,
            e.JobArchiveRequested: lambda event, _at: self.job_store.apply_archive_requested(event, dispatcher.ended),
            e.JobArchived: self.job_store.apply_archived,
            e.JobArchiveFailed: self.job_store.apply_archive_failed,
            e.JobIdsExpired: dispatcher.apply_job_ids_expired,
            e.TaskManagerRegistered: self._apply_task_manager_registered,
            e.TaskManagerReportReconciled: slot_manager.apply_report_reconciled,
            e.TaskManagerRegistrationRefused: resource_manager.apply_nothing,
            e.TaskManagerDisconnected: self._apply_task_manager_gone,
            e.TaskManagerLost: self._apply_task_manager_gone,
            e.TaskManagerBlocked: self._apply_task_manager_blocked,
            e.TaskManagerUnblocked: self._apply_task_manager_unblocked,
            e.SlotRequested: self._apply_slot_requested,
            e.SlotAllocated: slot_manager.apply_slot_allocated,
            e.SlotOffered: slot_manager.apply_slot_offered,
            e.SlotOfferRejected: slot_manager.apply_slot_released,
            e.SlotRequestCancelled: slot_manager.apply_slot_request_ended,
            e.SlotRequestTimedOut: slot_manager.apply_slot_request_ended,
            e.SlotRequestUnfulfillable: slot_manager.apply_slot_request_ended,
            e.SlotRequestDeferred: slot_manager.apply_slot_request_deferred,
            e.SlotFreed: slot_manager.apply_slot_released,
            e.SlotShared: self._apply_slot_shared,
            e.SlotShareReturned: slot_manager.apply_slot_share_returned,
            e.TaskScheduled: lambda event, at: dispatcher.job(event.job_id).apply_task_scheduled(event, at),
            e.TaskDeployed: self._apply_task_deployed,
            e.TaskStateChanged: lambda event, at: dispatcher.job(event.job_id).apply_task_state_changed(event, at),
            e.TaskCancellationRequested: lambda event, at: dispatcher.job(event.job_id).apply_task_cancellation_requested(event, at),
            e.TaskFinished: lambda event, at: dispatcher.job(event.job_id).apply_task_finished(event, at),
            e.TaskFailed: lambda event, at: dispatcher.job(event.job_id).apply_task_failed(event, at),
            e.RestartScheduled: lambda event, at: dispatcher.job(event.job_id).apply_restart_scheduled(event, at),
            e.RegionRestarted: lambda event, at: dispatcher.job(event.job_id).apply_region_restarted(event, at),
            e.ResourcesAwaited: lambda event, at: dispatcher.job(event.job_id).apply_resources_awaited(event, at),
            e.JobRescaleRequested: lambda event, at: apply_job_rescale_requested(dispatcher.job(event.job_id), event, at),
            e.RescaleScheduled: lambda event, at: apply_rescale_scheduled(dispatcher.job(event.job_id), event, at),
            e.JobRescaled: lambda event, at: apply_job_rescaled(dispatcher.job(event.job_id), event, at),
            e.FileUploadRequested: dispatcher.apply_file_upload_requested,
            e.FileUploaded: self._apply_file_uploaded,
            e.TaskManagerFileUploadRequested: self._apply_task_manager_file_upload_requested,
            e.InputsAttempted: requests.apply_inputs_attempted,
            e.FeatureLevelRaised: self.upkeep.apply_feature_level_raised,
            e.SnapshotTaken: self.upkeep.apply_snapshot_taken,
            e.SnapshotConfirmed: self.upkeep.apply_snapshot_confirmed,
            e.DrillStepOrdered: self.upkeep.apply_drill_step_ordered,
            e.WorkerRequested: self._apply_worker_requested,
            e.WorkerRequestFailed: self._apply_worker_request_failed,
            e.TaskManagerReleased: self._apply_task_manager_released,
        }

    def _apply_leadership_granted(self, event: e.LeadershipGranted, _at: int) -> None:
        self.blob_address = event.blob_address
        self.upkeep.leading_master_id = event.master_id

    def _apply_job_suspension_requested(self, event: e.JobSuspensionRequested, at_ms: int) -> None:
        self.shutdown.check_suspension(event)
        self.dispatcher.job(event.job_id).apply_job_suspension_requested(event, at_ms)
        self.shutdown.note_suspension(event)

    def _apply_job_resumption_requested(self, event: e.JobResumptionRequested, at_ms: int) -> None:
        self.dispatcher.job(event.job_id).apply_job_resumption_requested(event, at_ms)
        self.shutdown.suspended.pop(event.job_id, None)

    def _apply_job_cancellation_requested(self, event: e.JobCancellationRequested, at_ms: int) -> None:
        self.dispatcher.apply_job_cancellation_requested(event, at_ms)
        self.shutdown.suspended.pop(event.job_id, None)

    def _apply_task_manager_blocked(self, event: e.TaskManagerBlocked, at_ms: int) -> None:
        self.blocklist.apply_task_manager_blocked(event, at_ms)
        self.slot_manager.apply_blocked(event, at_ms)

    def _apply_task_manager_unblocked(self, event: e.TaskManagerUnblocked, at_ms: int) -> None:
        self.blocklist.apply_task_manager_unblocked(event, at_ms)
        self.slot_manager.apply_blocked(event, at_ms)

    def _apply_file_uploaded(self, event: e.FileUploaded, at_ms: int) -> None:
        if event.request_id in self.task_manager_files.uploads:
            self.task_manager_files.apply_file_uploaded(event)
        else:
            self.dispatcher.apply_file_uploaded(event, at_ms)

    def _apply_task_manager_file_upload_requested(self, event: e.TaskManagerFileUploadRequested, at_ms: int) -> None:
        if event.request_id in self.dispatcher.uploads:
            raise IllegalTransition(f"the upload {event.request_id} was requested already")
        is_current = self.resource_manager.is_current(event.task_manager_id, event.instance_id)
        self.task_manager_files.apply_upload_requested(event, at_ms, is_current=is_current)

    def _apply_job_evicted(self, event: e.JobEvicted, at_ms: int) -> None:
        digest = self.job_store.archive_of_leaving(event.job_id)
        self.dispatcher.apply_job_evicted(event, at_ms, digest)
        self.job_store.archived.pop(event.job_id, None)

    def _apply_follow_up_decided(self, event: e.FollowUpDecided, _at: int) -> None:
        self.follow_ups.apply_follow_up_decided(event.follow_up_type, event.subject)

    def _apply_task_manager_registered(self, event: e.TaskManagerRegistered, at_ms: int) -> None:
        self.resource_manager.apply_task_manager_registered(event, at_ms)
        self.workers.apply_registered(event.task_manager_id)
        blocked = event.task_manager_id in self.blocklist.task_managers
        self.slot_manager.apply_task_manager_registered(event, at_ms, blocked=blocked)

    def _apply_worker_requested(self, event: e.WorkerRequested, at_ms: int) -> None:
        if event.worker_id in self.resource_manager.task_managers:
            raise IllegalTransition(f"{event.worker_id} is a registered TaskManager")
        self.workers.apply_worker_requested(event, at_ms)
        self.slot_manager.reconsider()

    def _apply_worker_request_failed(self, event: e.WorkerRequestFailed, at_ms: int) -> None:
        self.workers.apply_worker_request_failed(event, at_ms)
        self.slot_manager.reconsider()

    def _apply_task_manager_released(self, event: e.TaskManagerReleased, at_ms: int) -> None:
        self.workers.check_released(event)
        self.slot_manager.check_released(event)
        self._apply_task_manager_gone(event, at_ms)

    def _apply_task_manager_gone(self, event: e.TaskManagerLost | e.TaskManagerDisconnected | e.TaskManagerReleased, at_ms: int) -> None:
        self.slot_manager.apply_task_manager_gone(event, at_ms)
        self.resource_manager.apply_task_manager_gone(event, at_ms)
        self.workers.apply_gone(event.task_manager_id, f"{type(event).__name__}: {event.reason}")
        self.dispatcher.drop_uploads_of(event.instance_id)
        self.task_manager_files.drop_uploads_of(event.instance_id)

    def _apply_slot_requested(self, event: e.SlotRequested, at_ms: int) -> None:
        job = self.dispatcher.job(event.job_id)
        subtask = job.without_request(event)
        profile, group = job.execution_graph.slot_profile_of(event.vertex_id), job.execution_graph.group_of(subtask)
        self.slot_manager.apply_slot_requested(event, at_ms, profile, group=group)
        subtask.allocation_id = event.allocation_id

    def _apply_slot_shared(self, event: e.SlotShared, at_ms: int) -> None:
        job = self.dispatcher.job(event.job_id)
        subtask = job.with_request(event)
        if subtask.allocation_id in self.slot_manager.pending or subtask.allocation_id in self.slot_manager.allocations:
            raise IllegalTransition(f"{event} does not fit: the attempt has {subtask.allocation_id}")
        self.slot_manager.apply_slot_shared(event, at_ms, job.execution_graph.group_of(subtask))
        subtask.allocation_id = event.allocation_id

    def _apply_task_deployed(self, event: e.TaskDeployed, at_ms: int) -> None:
        allocation = self.slot_manager.allocations.get(event.allocation_id)
        attempt = (event.job_id, event.vertex_id, event.subtask_index, event.attempt)
        if allocation is None or attempt not in allocation.attempts:
            raise IllegalTransition(f"{event.allocation_id} holds no slot for {event.vertex_id}[{event.subtask_index}]#{event.attempt}")
        place = (allocation.task_manager_id, allocation.instance_id)
        self.dispatcher.job(event.job_id).apply_task_deployed(event, at_ms, place)

    # -- whole-state ----------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """Return the canonical digest of the state, in hexadecimal."""
        return digest_of(
            (
                self.blob_address,
                self.upkeep,
                self.follow_ups,
                self.requests,
                self.dispatcher,
                self.job_store,
                self.resource_manager,
                self.slot_manager,
                self.blocklist,
                self.workers,
                self.task_manager_files,
                self.shutdown,
            )
        )

    def validate(self) -> None:
        """Check every invariant of every component, and those between them.

        Raises:
            InvariantBroken: one does not hold; the message says which and where.

        """
        validate(self)
