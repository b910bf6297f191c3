"""An event that does not fit raises IllegalTransition or InvariantBroken and leaves the state as it was, whatever the event."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from eventflink.events import log_events as e
from eventflink.events.inputs import MAX_DIAGNOSTICS_LENGTH
from eventflink.events.log_events import LogEvent
from eventflink.leadership.fold import Fold
from eventflink.master.canonical import InvariantBroken
from eventflink.master.master import Master
from eventflink.model.attempts import AttemptStatus, FailureCause, SubtaskReference
from eventflink.model.closing import GraphOutcome
from eventflink.model.conditions import VertexSkip
from eventflink.model.features import FEATURE_LEVEL
from eventflink.model.job_graph import JobGraph, RestartStrategy
from eventflink.model.job_queues import JobQueue
from eventflink.model.resources import ResourceProfile
from eventflink.model.schedules import InstantBefore, OffsetRange, ScheduleDefinition, ScheduleTiming, TableVersion, VersionRange
from eventflink.model.statuses import (
    ApplicationStatus,
    CheckpointFailureReason,
    CursorMove,
    ExecutionState,
    FailoverStrategy,
    FollowUpType,
    IllegalTransition,
    InstantOrigin,
    JobStatus,
    RescaleReason,
    RestartStrategyType,
    SavepointMode,
    SkipReason,
    SlotRequestDeferralReason,
    TaskFile,
    TaskManagerFile,
    VertexSkipReason,
)
from eventflink.model.stream_progress import StreamProgress
from tests.support.cluster import ScriptedCluster, copies_of, new_fold, replay
from tests.support.scenarios import busy_cluster, eventful_cluster, restarting_cluster
from tests.support.values import ValueMaker

EVENT_CLASSES: tuple[type[Any], ...] = tuple(e.EVENTS.values())

NEVER_MISFIT = {
    e.LeadershipGranted,  # its acceptance is the fold's
    e.InputsSkipped,
    e.RequestAccepted,
    e.RequestRejected,
    e.RequestRepeated,
    e.TaskManagerRegistrationRefused,
    e.DrillStepOrdered,
    e.InputParked,  # the way out where nothing else fits
    e.TaskManagerBlocked,  # by its id, registered or not; the newest word counts
}
"""Events that fit every state: they change nothing, or only what is remembered of requests."""

_GRAPH = JobGraph("x", (), (), RestartStrategy(RestartStrategyType.NONE))
_CAUSE = FailureCause("E", "message")
_AT_7 = TableVersion(7)
_SCHEDULE = ScheduleDefinition(timing=ScheduleTiming(interval_ms=60_000), job_graph=_GRAPH)
_STATE, _STATUS, _REASON = ExecutionState, JobStatus, SlotRequestDeferralReason

MISFITS: list[LogEvent] = [
    e.InputsBound("submissions", 0, "id-of-submissions", 1_000_000),
    e.InputsLost("submissions", 0, 0, 1),
    e.InputsLost("submissions", 0, 10_000, 10_001),
    e.InputsLost("no such topic", 0, 0, 1),
    e.AnswersExpired(10_000),
    e.AnswersExpired(0),
    e.AnswersExpired(-1),
    e.FollowUpDecided(FollowUpType.MATCH_SLOTS, ""),
    e.FollowUpDecided(FollowUpType.SCHEDULE_TASKS, "running"),
    e.JobSubmitted("running", "digest", "", _GRAPH),
    e.JobSubmitted("done0", "digest", "", _GRAPH),
    e.JobFailureDismissed("none", ""),
    e.JobFailureDismissed("running", ""),
    e.JobFailureDismissed("done3", ""),
    e.JobMasterStarted("none", "none-1", RestartStrategy(RestartStrategyType.NONE)),
    e.JobMasterStarted("running", "running-2", RestartStrategy(RestartStrategyType.NONE)),
    e.JobMasterStarted("restarting", "restarting-2", RestartStrategy(RestartStrategyType.NONE)),
    e.JobMasterStarted("suspended", "suspended-2", RestartStrategy(RestartStrategyType.NONE)),
    e.JobSuspensionRequested("none", "", "", resumes_with_cluster=False),
    e.JobSuspensionRequested("cancelling", "", "", resumes_with_cluster=False),
    e.JobSuspensionRequested("done3", "", "", resumes_with_cluster=False),
    e.JobStatusChanged("suspended", _STATUS.SUSPENDED, _STATUS.RECONCILING),
    e.JobMasterStopped("none", "none-1", ""),
    e.JobMasterStopped("running", "running-1", ""),
    e.JobMasterStopped("suspended", "suspended-1", ""),
    e.JobMasterStopped("suspended", "", ""),
    e.JobResumptionRequested("none", ""),
    e.JobResumptionRequested("running", ""),
    e.JobSuspensionRequested("running", "", "", resumes_with_cluster=True),
    e.ApplicationStatusRecorded(ApplicationStatus.SUCCEEDED, ""),
    e.ClusterShutdownRequested(ApplicationStatus.SUCCEEDED, "x" * (MAX_DIAGNOSTICS_LENGTH + 1), cancel_jobs=False, actor=""),
    e.ClusterStopped(ApplicationStatus.SUCCEEDED),
    e.ClusterStarted(ApplicationStatus.SUCCEEDED, 0),
    e.JobCancellationRequested("none", ""),
    e.JobStatusChanged("none", _STATUS.RUNNING, _STATUS.FAILING),
    e.JobStatusChanged("running", _STATUS.CREATED, _STATUS.RUNNING),
    e.JobStatusChanged("running", _STATUS.RUNNING, _STATUS.FAILED),
    e.JobStatusChanged("done3", _STATUS.FINISHED, _STATUS.RUNNING),
    e.JobResultStored(job_id="none", status=_STATUS.FINISHED, net_run_time_ms=0),
    e.JobResultStored(job_id="running", status=_STATUS.RUNNING, net_run_time_ms=0),
    e.JobResultStored(job_id="running", status=_STATUS.FINISHED, net_run_time_ms=0),
    e.JobResultStored(job_id="done3", status=_STATUS.FINISHED, net_run_time_ms=0),
    e.JobReuseDecided("none", ()),
    e.JobReuseDecided("running", ()),
    e.JobOutputsReleased("none"),
    e.JobOutputsReleased("dirty"),
    e.ScheduleStored("paused", 1, "a", _SCHEDULE, 1_000),
    e.ScheduleStored("new", 2, "a", _SCHEDULE, 1_000),
    e.ScheduleDeleted("none", "a"),
    e.SchedulePaused("none", "a", "r"),
    e.SchedulePaused("paused", "a", "r"),
    e.ScheduleResumed("none", "a", 1_000),
    *[e.ScheduleFired("paused", 1, None, origin, "new", None) for origin in InstantOrigin if origin is not InstantOrigin.MANUAL],
    e.ScheduleFired("none", 1, None, InstantOrigin.MANUAL, "new", None),
    e.InstantQueued("paused", 1, None, InstantOrigin.DUE, InstantBefore(0, 0)),
    e.RunFollowed("none", 1, "a"),
    e.RunFollowed("paused", 1, "a"),
    e.TopicCursorSet("none", "id", ()),
    e.TopicCursorSet("paused", "id", ()),
    e.TopicCursorSet("records", "id-of-orders", ()),
    e.RecordsClaimed("none", 1, (OffsetRange(0, 9, 10),)),
    e.RecordsClaimed("paused", 1, (OffsetRange(0, 9, 10),)),
    e.RecordsClaimed("records", 10**15, ()),
    e.RecordsClaimed("records", 10**15, (OffsetRange(0, 9, 10),)),
    e.RecordsClaimed("records", 10**15, (OffsetRange(0, 13, 13),)),
    e.RecordsLost("records", (OffsetRange(0, 13, 12),)),
    e.RecordsLost("none", ()),
    e.RecordsLost("paused", ()),
    e.RecordsLost("records", (OffsetRange(0, 9, 10),)),
    e.FileAwaited("none", 1, None, InstantOrigin.DUE, "/raw", 10, InstantBefore(0, 0)),
    e.FileAwaited("paused", 1, None, InstantOrigin.DUE, "/raw", 10, InstantBefore(0, 0)),
    e.FileAwaited("paused", 1, None, InstantOrigin.MANUAL, "/raw", 10, InstantBefore(0, 0)),
    e.FileAwaited("paused", 1, None, InstantOrigin.BACKFILL, "/raw", 10, InstantBefore(0, 0)),
    e.InstantQueued("paused", 1, None, InstantOrigin.FILE, InstantBefore(0, 0)),
    e.TableCursorSet("none", "id", _AT_7, CursorMove.BEGUN),
    e.TableCursorSet("paused", "id", _AT_7, CursorMove.BEGUN),
    e.TableCursorSet("versions", "id-of-sales", _AT_7, CursorMove.BEGUN),
    e.TableCursorSet("versions", "id-of-sales", _AT_7, CursorMove.REWOUND),
    e.TableCursorSet("versions", "another", _AT_7, CursorMove.CLEANED),
    e.VersionsClaimed("none", 10**15, VersionRange(_AT_7, TableVersion(8)), "id"),
    e.VersionsClaimed("paused", 10**15, VersionRange(_AT_7, TableVersion(8)), "id"),
    e.VersionsClaimed("versions", 1, VersionRange(_AT_7, TableVersion(8)), "id"),
    e.VersionsClaimed("versions", 10**15, VersionRange(TableVersion(6), TableVersion(8)), "id"),
    e.VersionsClaimed("versions", 10**15, VersionRange(_AT_7, _AT_7), "id"),
    e.TableSightChanged("none", "a fault"),
    e.TableSightChanged("paused", "a fault"),
    e.TableSightChanged("versions", ""),
    *[
        e.InstantsSkipped("paused", 1, None, origin, 1, SkipReason.OVERLAP)
        for origin in InstantOrigin
        if origin is not InstantOrigin.MANUAL
    ],
    e.BackfillStarted(
        schedule_id="none",
        actor="a",
        first_ms=0,
        end_ms=1,
        next_ms=0,
        concurrency=1,
        newest_first=False,
        repeats_finished=False,
    ),
    e.BackfillCancelled("paused", "a"),
    e.JobCleanedUp("none"),
    e.JobCleanedUp("running"),
    e.JobCleanedUp("done3"),
    e.JobCleanupFailed("none", 1, 1_000, "message"),
    e.TaskManagerFileUploadRequested("own log", "tm1", "tm1-1", TaskManagerFile.LOG),
    e.TaskManagerFileUploadRequested("upload", "tm1", "tm1-1", TaskManagerFile.LOG),
    e.TaskManagerFileUploadRequested("another", "tm1", "none", TaskManagerFile.LOG),
    e.TaskManagerFileUploadRequested("another", "none", "none", TaskManagerFile.LOG),
    e.JobArchiveRequested("none"),
    e.JobArchiveRequested("running"),
    e.JobArchiveRequested("dirty"),
    e.JobArchived("none", "/archives/none.json", "digest", 1),
    e.JobArchived("done3", "/archives/done3.json", "digest", 1),
    e.JobArchiveFailed("none", 1, 1_000, "message"),
    e.JobArchiveFailed("done3", 12, 0, "message"),
    e.JobCleanupFailed("none", 8, 0, "message"),
    e.JobCleanupFailed("done3", 1, 1_000, "message"),
    e.JobEvicted("none"),
    e.JobEvicted("running"),
    e.JobEvicted("dirty"),
    e.JobEvicted("done0"),
    e.JobIdsExpired(10_000),
    e.JobIdsExpired(0),
    e.TaskManagerRegistered("tm1", "another", "h", 1, 2),
    e.TaskManagerRegistered("new", "new-1", "h", 1, 0),
    e.TaskManagerRegistered("new", "new-1", "h", 1, -3),
    e.TaskManagerReportReconciled("tm1", "tm1-1", ("none",), ()),
    e.TaskManagerReportReconciled("tm2", "tm2-1", ("allocation-6", "none"), (AttemptStatus("j", "v", 0, 1, _STATE.RUNNING),)),
    e.TaskManagerDisconnected("none", "none-1", "reason"),
    e.TaskManagerDisconnected("tm1", "another", "reason"),
    e.SparkEnded("none", "none-1", 1, "reason"),
    e.SparkEnded("tm1", "another", 1, "reason"),
    e.TaskManagerLost("none", "none-1", "reason"),
    e.TaskManagerLost("tm1", "another", "reason"),
    e.SlotRequested("allocation-900", "none", "a", 0, 1),
    e.SlotRequested("allocation-900", "running", "none", 0, 1),
    e.SlotRequested("allocation-900", "running", "a", 9, 1),
    e.SlotRequested("allocation-900", "running", "a", -1, 1),
    e.SlotRequested("allocation-900", "running", "a", 0, 1),
    e.SlotRequested("allocation-900", "waiting", "a", 8, 1),
    e.SlotRequested("allocation-6", "running", "b", 0, 1),
    e.SlotAllocated("none", "tm1", "tm1-1", 0),
    e.SlotOffered("none"),
    e.SlotOfferRejected("none", "reason"),
    e.SlotRequestCancelled("none"),
    e.SlotRequestTimedOut("none", 1),
    e.SlotRequestUnfulfillable("none", "reason"),
    e.SlotRequestUnfulfillable("allocation-6", "reason"),
    e.QueuesConfigured(()),
    e.SlotReclaimed("allocation-7", "none", "a", 0, 1, "etl"),
    e.SlotReclaimed("allocation-7", "running", "a", 0, 1, "etl"),
    e.QueuesConfigured((JobQueue("a", 1), JobQueue("a", 2))),
    e.SlotRequestDeferred(job_id="none", reason=_REASON.NO_FREE_SLOT, requests=1),
    e.SlotRequestDeferred(job_id="running", reason=_REASON.NO_FREE_SLOT, requests=1),
    e.SlotRequestDeferred(job_id="waiting", reason=_REASON.NO_FREE_SLOT, requests=1),
    e.SlotRequestDeferred(job_id="waiting", reason=_REASON.NO_TASK_MANAGER, requests=1),
    e.SlotRequestDeferred(job_id="waiting", resource_profile=ResourceProfile(1), reason=_REASON.NO_FREE_SLOT, requests=1),
    e.TaskManagerUnblocked("tm1", "a command", ""),
    e.TaskManagerUnblocked("none", "a command", ""),
    e.SlotFreed("none"),
    e.SlotFreed("allocation-12"),
    e.SlotOfferRejected("allocation-12", "reason"),
    e.SlotShared("none", "sharing", "a", 1, 1),
    e.SlotShared("allocation-12", "none", "a", 1, 1),
    e.SlotShared("allocation-12", "sharing", "none", 1, 1),
    e.SlotShared("allocation-12", "sharing", "c", 1, 1),
    e.SlotShared("allocation-12", "sharing", "c", 1, 2),
    e.SlotShared("allocation-12", "sharing", "b", 0, 1),
    e.SlotShared("allocation-12", "waiting", "a", 8, 1),
    e.SlotShared("allocation-6", "running", "a", 1, 1),
    e.SlotShareReturned("none", "sharing", "a", 0, 1),
    e.SlotShareReturned("allocation-12", "sharing", "a", 1, 1),
    e.SlotShareReturned("allocation-12", "sharing", "a", 0, 2),
    e.SlotShareReturned("allocation-6", "running", "a", 0, 1),
    e.TaskScheduled("none", "a", 0, 1),
    e.TaskScheduled("running", "none", 0, 1),
    e.TaskScheduled("running", "a", 0, 1),
    e.TaskScheduled("running", "b", 0, 2),
    e.TaskDeployed("none", "a", 0, 1, "allocation-6"),
    e.TaskDeployed("running", "a", 0, 1, "none"),
    e.TaskDeployed("running", "b", 0, 1, "allocation-6"),
    e.TaskStateChanged("none", "a", 0, 1, _STATE.RUNNING, _STATE.CANCELED),
    e.TaskStateChanged("running", "a", 0, 1, _STATE.CREATED, _STATE.CANCELED),
    e.TaskStateChanged("running", "a", 0, 1, _STATE.RUNNING, _STATE.FINISHED),
    e.TaskStateChanged("running", "a", 0, 1, _STATE.RUNNING, _STATE.INITIALIZING),
    e.TaskStateChanged("running", "a", 0, 7, _STATE.RUNNING, _STATE.CANCELED),
    e.TaskStateChanged("waiting", "a", 8, 1, _STATE.SCHEDULED, _STATE.DEPLOYING),
    e.TaskCancellationRequested("none", "a", 0, 1, "reason"),
    e.TaskCancellationRequested("running", "b", 0, 1, "reason"),
    e.TaskCancellationRequested("cancelling", "a", 0, 1, "reason"),
    e.TaskFinished("none", "a", 0, 1),
    e.TaskFinished("running", "b", 0, 1),
    e.TaskFinished("running", "a", 0, 2),
    e.TaskFinished("cancelling", "a", 0, 1),
    e.TaskFailed("none", "a", 0, 1, _CAUSE),
    e.TaskFailed("restarting", "a", 0, 1, _CAUSE),
    e.TaskFailed("running", "a", 5, 1, _CAUSE),
    e.GlobalFailureOccurred("none", _CAUSE),
    e.GlobalFailureOccurred("done3", _CAUSE),
    e.JobTimeLimitNear("none", 1),
    e.JobTimeLimitNear("running", 1),
    e.JobClosingStarted("none", GraphOutcome(JobStatus.FINISHED)),
    e.JobClosingStarted("running", GraphOutcome(JobStatus.FINISHED)),
    e.JobClosingStarted("failing", GraphOutcome(JobStatus.FAILED)),
    e.VertexSkipped("none", "a", VertexSkip(VertexSkipReason.NO_ROWS, "a")),
    e.VertexSkipped("running", "none", VertexSkip(VertexSkipReason.NO_ROWS, "a")),
    e.VertexSkipped("running", "b", VertexSkip(VertexSkipReason.INPUT_SKIPPED, "a")),
    e.JobClosingAborted("none", "reason"),
    e.JobClosingAborted("running", "reason"),
    e.JobRestartScheduled("none", 1, 1, 0, 0, FailoverStrategy.REGION, 1),
    e.JobRestartScheduled("running", 1, 1, 0, 0, FailoverStrategy.REGION, 1),
    e.JobRestartScheduled("restarting", 1, 1, 0, 0, FailoverStrategy.FULL, 1),
    e.StreamStarted("none", "a", 0, 1, "query", "run", "session", "/checkpoints", -1),
    e.StreamStarted("running", "a", 0, 1, "query", "run", "session", "/checkpoints", -1),
    e.CheckpointTriggered("none", 1, 1),
    e.CheckpointTriggered("running", 1, 1),
    e.CheckpointTriggered("running", 1, 1, savepoint=e.SavepointRequest("/s", SavepointMode.STOP, stops_streams=True)),
    e.CheckpointAcknowledged("running", "a", 0, 1, 1, StreamProgress(batch_id=1)),
    e.CheckpointCompleted("running", 1, 0, 0, 0),
    e.CheckpointAborted("running", 1, CheckpointFailureReason.EXPIRED, "reason"),
    e.CheckpointSubsumed("running", 1),
    e.RestartScheduled("none", "a", 0, 1, 1),
    e.RestartScheduled("running", "none", 0, 1, 1),
    e.RestartScheduled("running", "a", 0, 1, 1),
    e.RestartScheduled("failing", "a", 0, 1, 1),
    e.RegionRestarted("none", "a", 0, 2),
    e.RegionRestarted("running", "none", 0, 2),
    e.RegionRestarted("running", "a", 0, 2),
    e.RegionRestarted("restarting", "a", 0, 7),
    e.RegionRestarted("failing", "a", 0, 2),
    e.ResourcesAwaited("none", "a", 2, 1),
    e.ResourcesAwaited("running", "a", 2, 1),
    e.ResourcesAwaited("adaptive", "a", 2, 1),
    e.JobRescaleRequested("none", "a", 2, ""),
    e.JobRescaleRequested("running", "none", 2, ""),
    e.JobRescaleRequested("running", "a", 0, ""),
    e.JobRescaleRequested("running", "a", 4_097, ""),
    e.JobRescaleRequested("cancelling", "a", 2, ""),
    e.RescaleScheduled("none", "a", 2, 3, RescaleReason.REQUESTED),
    e.RescaleScheduled("running", "a", 3, 4, RescaleReason.REQUESTED),
    e.RescaleScheduled("running", "b", 1, 2, RescaleReason.REQUESTED),
    e.RescaleScheduled("cancelling", "a", 1, 2, RescaleReason.REQUESTED),
    e.JobRescaled("none", "a", 2, 3, RescaleReason.REQUESTED, 1),
    e.JobRescaled("running", "a", 2, 3, RescaleReason.REQUESTED, 2),
    e.JobRescaled("running", "b", 1, 2, RescaleReason.REQUESTED, 2),
    e.JobRescaled("running", "b", 2, 1, RescaleReason.REQUESTED, 1),
    e.JobRescaled("running", "b", 1, 0, RescaleReason.REQUESTED, 1),
    e.FileUploadRequested("upload", "tm1", "tm1-1", "running", "a", 0, 1, TaskFile.LOG),
    e.FileUploadRequested("new", "tm1", "tm1-1", "none", "a", 0, 1, TaskFile.LOG),
    e.FileUploaded("none"),
    e.ParkedInputReleased("parked-1", retried=True, actor=""),
    e.InputsAttempted("no such topic", 0, 0),
    e.InputsAttempted("submissions", 0, 0),
    e.InputsAttempted("submissions", -1, 0),
    e.InputsAttempted("submissions", 10**6, 10**6 + 1, 1),
    e.InputsAttempted("submissions", 10**6, 10**6, -1),
    e.InternalInputsAttempted((), 1),
    e.InternalInputsAttempted(("EvictJobs", "UploadsOverdue"), 1),
    e.InternalInputsAttempted(("EvictJobs",), -1),
    e.FeatureLevelRaised(FEATURE_LEVEL - 1, FEATURE_LEVEL),
    e.FeatureLevelRaised(FEATURE_LEVEL, FEATURE_LEVEL),
    e.FeatureLevelRaised(FEATURE_LEVEL, FEATURE_LEVEL - 1),
    e.FeatureLevelRaised(FEATURE_LEVEL + 1, FEATURE_LEVEL + 2),
    e.SnapshotTaken("snapshot-2", 30, "digest", 1, 1, "master-1"),
    e.SnapshotTaken("snapshot-3", 20, "digest", 1, 1, "master-1"),
    e.SnapshotTaken("snapshot-3", -1, "digest", 1, 1, "master-1"),
    e.SnapshotConfirmed("none", 20, "digest-20", "master-2"),
    e.SnapshotConfirmed("snapshot-1", 10, "digest-10", "master-3"),
    e.SnapshotConfirmed("snapshot-2", 20, "another digest", "master-2"),
    *[e.WorkerRequested(name, 2) for name in ("worker-0", "worker-01", "worker-", "worker--1", "worker-²", "tm1", "")],
    e.WorkerRequested("worker-1", 0),
    e.WorkerRequested("worker-1", 1_025),
    e.WorkerRequestFailed("worker-1", "reason", 0),
    e.WorkerRequestFailed("tm1", "reason", 0),
    e.TaskManagerReleased("tm1", "tm1-1", "reason"),
    e.TaskManagerReleased("none", "none-1", "reason"),
]


MISFITS_OF_RESTARTS: list[LogEvent] = [
    e.RestartScheduled("rewriting", "b", 1, 1, 2),
    e.RestartScheduled("rewriting", "b", 0, 1, 2),
    e.RestartScheduled("reading", "b", 0, 1, 1, lost_outputs=(SubtaskReference("a", 0),)),
    e.RestartScheduled("rated", "a", 0, 1, 2),
    e.RegionRestarted("rewriting", "b", 0, 2),
    e.RegionRestarted("rewriting", "a", 0, 3),
    e.RegionRestarted("rewriting", "a", 1, 2),
    e.RegionRestarted("reading", "a", 0, 2),
    e.RegionRestarted("whole", "a", 1, 2),
    e.TaskFinished("rewriting", "a", 0, 1),
    e.TaskFinished("rewriting", "b", 0, 1),
    e.TaskFinished("whole", "a", 1, 1),
    e.TaskCancellationRequested("whole", "a", 1, 1, "reason"),
    e.JobStatusChanged("whole", _STATUS.RESTARTING, _STATUS.RESTARTING),
    e.JobStatusChanged("whole", _STATUS.RESTARTING, _STATUS.FINISHED),
    e.FollowUpDecided(FollowUpType.RESTART_TASKS, "whole"),
    e.TaskScheduled("rescaling", "a", 1, 1),
    e.TaskFinished("rescaling", "a", 0, 1),
    e.RegionRestarted("rescaling", "a", 0, 2),
    e.RescaleScheduled("rescaling", "a", 2, 4, RescaleReason.REQUESTED),
    e.JobRescaled("rescaling", "a", 2, 3, RescaleReason.REQUESTED, 2),
    e.JobRescaled("rescaling", "a", 2, 4, RescaleReason.REQUESTED, 2),
    e.ResourcesAwaited("rescaling", "a", 2, 1),
]


STATES: dict[str, Callable[[], ScriptedCluster]] = {
    "busy": busy_cluster,
    "eventful": eventful_cluster,
    "restarting": restarting_cluster,
}
TRIES = 20
SOAK_TRIES = 400
SOAK_SEED = int(os.environ.get("SOAK_SEED", "0"))


@cache
def _copies(state: str) -> Callable[[], Fold]:
    return copies_of(replay(STATES[state]().log))


def _fold(state: str) -> Fold:
    return new_fold() if state == "empty" else _copies(state)()


@pytest.fixture(scope="module")
def busy() -> Fold:
    return _fold("busy")


def _assert_refused(master: Master, event: LogEvent) -> None:
    before = master.digest()
    with pytest.raises((IllegalTransition, InvariantBroken)):
        master.apply(event, 1)
    assert master.digest() == before
    master.validate()


@pytest.mark.parametrize("event", MISFITS, ids=lambda v: f"{type(v).__name__}-{MISFITS.index(v)}")
def test_a_misfit_is_refused_and_changes_nothing(busy: Fold, event: LogEvent) -> None:
    _assert_refused(busy.master, event)


@pytest.mark.parametrize("event", MISFITS_OF_RESTARTS, ids=lambda v: f"{type(v).__name__}-{MISFITS_OF_RESTARTS.index(v)}")
def test_a_misfit_in_the_middle_of_a_restart_is_refused_and_changes_nothing(event: LogEvent) -> None:
    _assert_refused(_fold("restarting").master, event)


def test_an_output_that_is_not_there_cannot_be_said_to_be_lost() -> None:
    """The failed subtask is there; what it is said to have lost is not finished, is being made again already, or does not exist."""
    master = _fold("restarting").master
    master.apply(e.TaskFailed("reading", "b", 0, 1, _CAUSE), 1)
    for lost in (("b", 1), ("a", 2), ("a", -1), ("none", 0)):
        scheduled = e.RestartScheduled("reading", "b", 0, 1, 1, lost_outputs=(SubtaskReference("a", 1), SubtaskReference(*lost)))
        before = master.digest()
        with pytest.raises(IllegalTransition, match="has no output that could be lost"):
            master.apply(scheduled, 1)
        assert master.digest() == before


def test_every_event_that_can_misfit_is_tried() -> None:
    assert {type(m) for m in MISFITS} == set(EVENT_CLASSES) - NEVER_MISFIT


def test_misfits_of_places_are_refused(busy: Fold) -> None:
    """A slot that is taken, one that is not there, one of another instance; an instance that is gone."""
    slots = busy.master.slot_manager
    pending = next(iter(slots.pending))
    taken = next(i for i, s in enumerate(slots.task_managers["tm1"].slots) if s.allocation_id)
    allocation_id = slots.task_managers["tm1"].slots[taken].allocation_id
    confirmed = next(a for a, v in slots.allocations.items() if slots.state_of(v) == "ALLOCATED")
    for event in (
        e.SlotAllocated(pending, "tm1", "tm1-1", taken),
        e.SlotAllocated(pending, "tm1", "tm1-1", 99),
        e.SlotAllocated(pending, "tm1", "tm1-1", -1),
        e.SlotAllocated(pending, "tm1", "another", 0),
        e.SlotAllocated(pending, "none", "none-1", 0),
        e.SlotAllocated(allocation_id, "tm1", "tm1-1", taken),
        e.SlotOffered(confirmed),
        e.SlotOffered(pending),
        e.SlotFreed(pending),
        e.SlotRequestCancelled(allocation_id),
        e.TaskManagerReportReconciled("tm1", "tm1-1", (confirmed, "none"), ()),
        e.TaskManagerReportReconciled("tm1", "another", (confirmed,), ()),
    ):
        _assert_refused(busy.master, event)


def test_an_instance_that_is_gone_cannot_be_registered_again() -> None:
    master = _fold("eventful").master
    assert "tm2-1" in master.resource_manager.gone_instances
    _assert_refused(master, e.TaskManagerRegistered("tm2b", "tm2-1", "h", 1, 2))


@pytest.mark.parametrize("state", ["empty", *STATES])
@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda c: c.__name__)
def test_no_event_whatever_it_says_raises_anything_else_or_leaves_half_of_itself(cls: type[Any], state: str) -> None:
    assert_whole_or_refused(cls, state, EVENT_CLASSES.index(cls), TRIES)


@pytest.mark.soak("eventflink.master", "eventflink.events")
@pytest.mark.parametrize("state", ["empty", *STATES])
@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda c: c.__name__)
def test_no_event_of_other_seeds_whatever_it_says_raises_anything_else_or_leaves_half_of_itself(cls: type[Any], state: str) -> None:
    assert_whole_or_refused(cls, state, SOAK_SEED + EVENT_CLASSES.index(cls), SOAK_TRIES)


def assert_whole_or_refused(cls: type[Any], state: str, seed: int, tries: int) -> None:
    maker = ValueMaker(seed=seed)
    master = _fold(state).master
    before = master.digest()
    refused = 0
    for _ in range(tries):
        event = maker.record(cls)
        try:
            master.apply(event, 1)
        except (IllegalTransition, InvariantBroken):
            refused += 1
            assert master.digest() == before, event
        else:
            if cls not in NEVER_MISFIT:
                master = _fold(state).master
            before = master.digest()
    if cls in NEVER_MISFIT:
        assert refused == 0
