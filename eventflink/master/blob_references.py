"""Which blobs the jobs of a cluster refer to, and how many jobs each: computed from the state, never counted on the side.

A job refers to its code archives from its submission until it has ended and is cleaned up, as in Flink. Uploaded
files of a task are not referred to: those blobs expire by themselves.
"""

from collections import Counter

from eventflink.master.dispatcher import Dispatcher


def blob_references(dispatcher: Dispatcher) -> Counter[str]:
    """Return the number of jobs that refer to each permanent blob; one that no job refers to is not in it."""
    references: Counter[str] = Counter()
    for job_id, job in dispatcher.jobs.items():
        if job_id not in dispatcher.ended or job_id in dispatcher.dirty:
            references.update(dict.fromkeys(job.execution_graph.graph.code_archives, 1))
    return references
