"""What is said of each vertex of a job that runs another one again: whether it begins finished, with the outputs of that job, and why.

The digest that tells whether the code of a vertex has changed is bound to the code archives of its job. A document can be copied, and other
archives be named in it: then its digests count no more.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eventflink.model.statuses import ReuseReason

_WORDS: Final[Mapping[ReuseReason, str]] = {
    ReuseReason.UNCHANGED: "it finished in '{job}', and nothing that it depends on has changed",
    ReuseReason.REQUESTED: "the request names it",
    ReuseReason.STREAM: "it is a stream",
    ReuseReason.ADDED: "'{job}' has no such vertex",
    ReuseReason.CHANGED: "its {detail} changed since '{job}'",
    ReuseReason.CODE_CHANGED: "its code changed since '{job}'",
    ReuseReason.READERS_CHANGED: "its outputs are read otherwise than in '{job}'",
    ReuseReason.PARAMETER_CHANGED: "the parameter '{detail}' has another value",
    ReuseReason.INPUT_RUNS: "its input '{detail}' runs",
    ReuseReason.NOT_FINISHED: "it was {detail} when '{job}' ended",
    ReuseReason.OUTPUTS_REMOVED: "its outputs in '{job}' are not kept",
    ReuseReason.SKIPPED: "it was skipped in '{job}', and whether it runs is decided again",
    ReuseReason.CLOSING: "it runs at the end of its job, and each job has its own",
}

LOST: Final = "it was reused until an output of it was lost, or all of its job restarted"
"""Why a vertex runs that began as a reused one."""


@dataclass(slots=True)
class VertexReuse:
    """Whether a vertex is reused, and why."""

    vertex_id: str
    """The vertex."""
    reason: ReuseReason
    """UNCHANGED: it is reused; any other: it runs."""
    detail: str = ""
    """The part of the vertex or the parameter that changed, the input that runs, or where the vertex stood; empty for other reasons."""
    subtasks: tuple[int, ...] = ()
    """The subtasks that are reused of a vertex that runs, since it had not finished."""

    @property
    def is_reused(self) -> bool:
        """Whether nothing of it runs: its outputs are those of the job that runs again."""
        return self.reason is ReuseReason.UNCHANGED

    def in_words(self, job_id: str) -> str:
        """Return why, as a clause; `job_id` is the job that runs again."""
        reused = len(self.subtasks)
        more = f"; {reused} of its subtasks had finished, and {'are' if reused > 1 else 'is'} reused" if reused else ""
        return _WORDS[self.reason].format(job=job_id, detail=self.detail) + more


_BOUND_LENGTH: Final = 16
"""How many of the 64 digits of a digest are those of the archives."""


def bind_digest(digest: str, code_archives: Sequence[str]) -> str:
    """Return a SHA-256 of the code of a vertex, in hexadecimal, as a digest that counts beside these archives alone.

    Example:
        `bind_digest("6f1c…", graph.code_archives)` is what a vertex has as its `code_digest`

    """
    return _archives_digest(code_archives) + digest[_BOUND_LENGTH:]


@dataclass(frozen=True, slots=True)
class VertexCode:
    """What is known of the code of a vertex."""

    digest: str
    """Its `code_digest`; empty: nobody has looked."""
    archives: tuple[str, ...]
    """The code archives of its job."""

    def may_differ(self, other: "VertexCode") -> bool:
        """Tell whether the code may be another: where it is not known of both what a vertex is made of, all code of the job counts."""
        own, others = self.own_digest, other.own_digest
        return own != others if own and others else self.archives != other.archives

    @property
    def own_digest(self) -> str:
        """Return the digest of the vertex's own code, without that of the archives; empty: it is not known for these archives."""
        bound, digest = self.digest[:_BOUND_LENGTH], self.digest[_BOUND_LENGTH:]
        return digest if bound == _archives_digest(self.archives) else ""


def _archives_digest(code_archives: Sequence[str]) -> str:
    return hashlib.sha256("".join(code_archives).encode()).hexdigest()[:_BOUND_LENGTH]
