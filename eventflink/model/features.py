"""Which events a cluster may write: the feature level (P19).

The state holds the level; a decision raises it once every master that was heard of can read the newer events. An older
standby therefore meets nothing that it cannot read.
"""

from typing import Final

FIRST_LEVEL: Final = 1
"""What the first release wrote."""

UPKEEP_LEVEL: Final = 2
"""InputsAttempted, SnapshotTaken, SnapshotConfirmed, DrillStepOrdered; FeatureLevelRaised itself announces it."""

SCHEDULING_LEVEL: Final = 3
"""When an instance of a TaskManager began; resource profiles of slots and vertices; SlotRequestDeferred, SlotRequestUnfulfillable,
TaskManagerBlocked, TaskManagerUnblocked; slot requests in turns between jobs; newer restart strategies, full failover, lost outputs, and
why a job fails."""

ELASTIC_LEVEL: Final = 4
"""What makes a cluster elastic, and what ends it in order: WorkerRequested, WorkerRequestFailed, TaskManagerReleased."""

FEATURE_LEVEL: Final = ELASTIC_LEVEL
"""The newest level that this version can read and write."""

DECISION_RELEASES: Final = {FIRST_LEVEL: 1, UPKEEP_LEVEL: 2, SCHEDULING_LEVEL: 3}
"""With which released schema of the Decision the log is written at an older level; at the newest, with today's."""
