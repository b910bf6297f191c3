"""What the submission of a document would change of a job: the difference from its newest run, and which version it would be."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eventflink.model.statuses import JobStatus


class PlannedChange(StrEnum):
    """What would become of a part of the graph."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedKey:
    """A key of the document with another value; secrets are ******."""

    key: str
    """Where it stands: `stream.trigger.every_ms`."""
    before: Any
    """null: it was not there."""
    after: Any
    """null: it would not be there."""
    text_difference: list[str]
    """The lines of a unified diff, where the key is an SQL statement; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """A vertex or an edge that would be new, gone or changed."""

    part: str
    """`vertex` or `edge`."""
    name: str
    """The id of a vertex; of an edge, from where to where: `read -> count`."""
    change: PlannedChange
    keys: list[ChangedKey]
    """The keys that differ, where the part is changed; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What would change."""

    name: str
    definition_digest: str
    version: int
    """The version that the submission would be."""
    is_new_version: bool
    """Whether no run of this version is known."""
    newest_job_id: str | None
    """The newest run of the name, with which it is compared; null: none is known, and all is new."""
    newest_status: JobStatus | None
    newest_submitted_at: str | None
    newest_version: int | None
    parts: list[ChangedPart]
    settings: list[ChangedKey]
    """The keys of the job itself that differ: declared parameters, scheduler, checkpointing and all else."""
    code_added: list[str]
    """Digests of archives of code."""
    code_removed: list[str]
    hidden: bool
    """Whether what differs is not shown: a secret has another value."""
    values: list[ChangedKey]
    """What this run would be given, and the newest run was not: values of parameters, a savepoint. They make no version."""

    @property
    def has_changes(self) -> bool:
        """Whether the submission would be of another version than the newest run."""
        return self.version != self.newest_version
