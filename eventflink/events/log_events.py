"""Every event that a decision can hold: what happened, in the past tense. The classes stand with the component that they belong to.

Events are values: nobody changes one after it was made (they are not frozen only because freezing triples the cost of a
replay). These classes mirror the schemas of the same names; a test holds the two together.
"""

from eventflink.events.dispatcher_events import (
    FileUploaded,
    FileUploadRequested,
    JobArchived,
    JobArchiveFailed,
    JobArchiveRequested,
    JobCancellationRequested,
    JobCleanedUp,
    JobCleanupFailed,
    JobEvicted,
    JobIdsExpired,
    JobMasterStarted,
    JobResultStored,
    JobResumptionRequested,
    JobSubmitted,
    JobSuspensionRequested,
)
from eventflink.events.job_master_events import (
    JobMasterStopped,
    JobRescaled,
    JobRescaleRequested,
    JobStatusChanged,
    RegionRestarted,
    RescaleScheduled,
    ResourcesAwaited,
    RestartScheduled,
    SlotShared,
    TaskCancellationRequested,
    TaskDeployed,
    TaskFailed,
    TaskFinished,
    TaskScheduled,
    TaskStateChanged,
)
from eventflink.events.master_events import (
    AnswersExpired,
    FollowUpDecided,
    InputsAttempted,
    InputsBound,
    InputsLost,
    InputsSkipped,
    LeadershipGranted,
    RequestAccepted,
    RequestRejected,
    RequestRepeated,
)
from eventflink.events.resource_manager_events import (
    TaskManagerBlocked,
    TaskManagerDisconnected,
    TaskManagerFileUploadRequested,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerRegistrationRefused,
    TaskManagerReleased,
    TaskManagerReportReconciled,
    TaskManagerUnblocked,
    WorkerRequested,
    WorkerRequestFailed,
)
from eventflink.events.slot_manager_events import (
    SlotAllocated,
    SlotFreed,
    SlotOffered,
    SlotOfferRejected,
    SlotRequestCancelled,
    SlotRequestDeferred,
    SlotRequested,
    SlotRequestTimedOut,
    SlotRequestUnfulfillable,
    SlotShareReturned,
)
from eventflink.events.upkeep_events import (
    ApplicationStatusRecorded,
    ClusterShutdownRequested,
    ClusterStarted,
    ClusterStopped,
    DrillStepOrdered,
    FeatureLevelRaised,
    SnapshotConfirmed,
    SnapshotTaken,
)

LogEvent = (
    LeadershipGranted
    | InputsBound
    | InputsSkipped
    | InputsLost
    | RequestAccepted
    | RequestRejected
    | RequestRepeated
    | AnswersExpired
    | FollowUpDecided
    | JobSubmitted
    | JobMasterStarted
    | JobCancellationRequested
    | JobStatusChanged
    | JobResultStored
    | JobCleanedUp
    | JobCleanupFailed
    | JobEvicted
    | JobIdsExpired
    | TaskManagerRegistered
    | TaskManagerReportReconciled
    | TaskManagerRegistrationRefused
    | TaskManagerDisconnected
    | TaskManagerLost
    | SlotRequested
    | SlotAllocated
    | SlotOffered
    | SlotOfferRejected
    | SlotRequestCancelled
    | SlotRequestTimedOut
    | SlotFreed
    | TaskScheduled
    | TaskDeployed
    | TaskStateChanged
    | TaskCancellationRequested
    | TaskFinished
    | TaskFailed
    | RestartScheduled
    | RegionRestarted
    | FileUploadRequested
    | FileUploaded
    | InputsAttempted
    | FeatureLevelRaised
    | SnapshotTaken
    | SnapshotConfirmed
    | DrillStepOrdered
    | SlotRequestDeferred
    | SlotRequestUnfulfillable
    | TaskManagerBlocked
    | TaskManagerUnblocked
    | JobArchiveRequested
    | JobArchived
    | JobArchiveFailed
    | WorkerRequested
    | WorkerRequestFailed
    | TaskManagerReleased
    | JobSuspensionRequested
    | JobMasterStopped
    | JobResumptionRequested
    | SlotShared
    | SlotShareReturned
    | TaskManagerFileUploadRequested
    | ClusterShutdownRequested
    | ApplicationStatusRecorded
    | ClusterStopped
    | ClusterStarted
    | ResourcesAwaited
    | JobRescaleRequested
    | RescaleScheduled
    | JobRescaled
)

__all__ = [
    "AnswersExpired",
    "ApplicationStatusRecorded",
    "ClusterShutdownRequested",
    "ClusterStarted",
    "ClusterStopped",
    "DrillStepOrdered",
    "FeatureLevelRaised",
    "FileUploadRequested",
    "FileUploaded",
    "FollowUpDecided",
    "InputsAttempted",
    "InputsBound",
    "InputsLost",
    "InputsSkipped",
    "JobArchiveFailed",
    "JobArchiveRequested",
    "JobArchived",
    "JobCancellationRequested",
    "JobCleanedUp",
    "JobCleanupFailed",
    "JobEvicted",
    "JobIdsExpired",
    "JobMasterStarted",
    "JobMasterStopped",
    "JobRescaleRequested",
    "JobRescaled",
    "JobResultStored",
    "JobResumptionRequested",
    "JobStatusChanged",
    "JobSubmitted",
    "JobSuspensionRequested",
    "LeadershipGranted",
    "LogEvent",
    "RegionRestarted",
    "RequestAccepted",
    "RequestRejected",
    "RequestRepeated",
    "RescaleScheduled",
    "ResourcesAwaited",
    "RestartScheduled",
    "SlotAllocated",
    "SlotFreed",
    "SlotOfferRejected",
    "SlotOffered",
    "SlotRequestCancelled",
    "SlotRequestDeferred",
    "SlotRequestTimedOut",
    "SlotRequestUnfulfillable",
    "SlotRequested",
    "SlotShareReturned",
    "SlotShared",
    "SnapshotConfirmed",
    "SnapshotTaken",
    "TaskCancellationRequested",
    "TaskDeployed",
    "TaskFailed",
    "TaskFinished",
    "TaskManagerBlocked",
    "TaskManagerDisconnected",
    "TaskManagerFileUploadRequested",
    "TaskManagerLost",
    "TaskManagerRegistered",
    "TaskManagerRegistrationRefused",
    "TaskManagerReleased",
    "TaskManagerReportReconciled",
    "TaskManagerUnblocked",
    "TaskScheduled",
    "TaskStateChanged",
    "WorkerRequestFailed",
    "WorkerRequested",
]
