"""The digest of what of a job's code a vertex is made of, bound to the code archives of its job.

A document can be copied, and other archives be named in it: then its digests say nothing. The rule it keeps: a digest counts only beside
the archives of which it was made.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from eventflink.model.job_graph import JobGraph, JobVertex

_BOUND_LENGTH: Final = 16
"""So many of its 64 digits are those of the archives."""


def bind_digest(digest: str, code_archives: Sequence[str]) -> str:
    """Return a SHA-256 of what a vertex is made of, in hexadecimal, as one that counts beside these archives alone."""
    return _of(code_archives) + digest[_BOUND_LENGTH:]


def made_of(vertex: JobVertex, graph: JobGraph) -> str:
    """Return what says what a vertex is made of: with the same it is made of the same; empty: nobody knows, and it may be all code."""
    bound, digest = vertex.code_digest[:_BOUND_LENGTH], vertex.code_digest[_BOUND_LENGTH:]
    return digest if bound == _of(graph.code_archives) else ""


def _of(code_archives: Sequence[str]) -> str:
    return hashlib.sha256("".join(code_archives).encode()).hexdigest()[:_BOUND_LENGTH]
