"""What runs of a job have in common: the digest of a graph and its code, whatever a single run was given.

To hash a graph takes a tenth of a millisecond, and ten thousand runs that differ in a date have ten thousand graphs: so what is known of
a graph is remembered by its digest, and a graph is compared with that of the run before it before it is hashed.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from eventflink.master.job_master import JobMaster
from eventflink.model.job_graph_document import definition_of, graph_digest

if TYPE_CHECKING:
    from eventflink.model.job_graph import JobGraph

MAX_REMEMBERED: Final = 20_000
"""Twice as many graphs as the masters keep ended jobs by default; a text of 64 characters for each."""

_digests: Final[dict[str, str]] = {}
"""By the digest of a graph; what is there follows from the key alone, so any number of callers may share it."""


def definition_digest_of(job: JobMaster) -> str:
    """Return the digest that runs with the same graph and code have."""
    return next(definition_digests([job]))


def definition_digests(jobs: Iterable[JobMaster]) -> Iterator[str]:
    """Yield that of each job."""
    examples: dict[str, tuple[JobGraph, str]] = {}
    """By name the definition that was met last."""
    for job in jobs:
        known = _digests.get(job.graph_digest)
        if known is None:
            definition = definition_of(job.execution_graph.graph)
            example = examples.get(definition.name)
            known = example[1] if example is not None and example[0] == definition else graph_digest(definition)
            examples[definition.name] = definition, known
            if len(_digests) >= MAX_REMEMBERED:
                _digests.clear()
            _digests[job.graph_digest] = known
        yield known
