"""The job of a try: how another scheduler, which tries its tasks again, finds the job that a try before has submitted.

What these schedulers call their runs and tasks stands in `airflow.py` and `dagster.py`. The rule it keeps: the id of a job follows from
names that outlive each process of the scheduler. So whichever dies, the next one finds the job that was submitted, and submits no second
one.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from eventflink.client.cluster import Cluster, Job
from eventflink.client.connecting import connect_async
from eventflink.client.options import Paths
from eventflink.documents.one_job import JobResult
from eventflink.gateways.errors import (
    ClusterUnreachable,
    DuplicateJobSubmission,
    JobNotTerminated,
    NoLeader,
    RequestRefused,
    RequestTimedOut,
    UnknownJob,
)
from eventflink.jobs.job_files import Document
from eventflink.model.backoff import Backoff
from eventflink.model.statuses import TERMINAL_JOB_STATUSES, JobStatus

DEFAULT_UNREACHABLE_TIMEOUT_S: Final = 900.0
_AWAY: Final = (ClusterUnreachable, NoLeader, RequestTimedOut)
_NO_RERUN: Final = ("InvalidJobGraph", "UnknownJob")
"""Codes of refusals after which a new job is submitted: the document was renamed, or the masters have forgotten the earlier job."""

_ANSWER_S: Final = 60.0
"""So long does one request wait for the end of a job; then the next one does."""
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Tries:
    """The tries of one task of another scheduler: a try has one job, or none yet."""

    scheduler: str
    names: tuple[str, ...]
    """What names the task and its run; the first two are shown in the ids of jobs."""

    def job_id(self, number: int) -> str:
        """Return the id of the job of a try.

        Example:
            `Tries("airflow", ("dag", "task", "manual__2026-11-29", "-1")).job_id(2)` is `airflow-dag-task-6ac4be02c6dee6b1-2`.

        """
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(self.names[:2]))[:80]
        digest = hashlib.sha256("\0".join(self.names).encode()).hexdigest()
        return f"{self.scheduler}-{readable}-{digest[:16]}-{number}"

    def job_of(
        self,
        cluster: Cluster,
        number: int,
        first: int,
        document: Document,
        *,
        parameters: Mapping[str, object],
        code: Paths,
    ) -> Job:
        """Return the job of a try: its own, that of one before it, where that has not ended for nothing, or a new one.

        Args:
            cluster: where the jobs are.
            number: which try this is.
            first: the first try that a job may be of that has finished: what those before it have, somebody has taken already.
            document: what a new job is, also one that runs again from what failed: somebody may have mended it since.
            parameters: what a new job is given.
            code: files and directories with its code.

        """
        own = self.job_id(number)
        earlier, of_try = self._newest(cluster, number)
        if earlier is not None:
            status = earlier.status()
            if of_try == number or status not in TERMINAL_JOB_STATUSES or (status is JobStatus.FINISHED and of_try >= first):
                return earlier
            if status is not JobStatus.FAILED:
                earlier = None
        with contextlib.suppress(DuplicateJobSubmission):  # It came through, and its answer was lost.
            if earlier is not None:
                try:
                    return earlier.rerun(own, parameters=parameters, failed=True, document=document, code=code)
                except RequestRefused as error:
                    if error.code not in _NO_RERUN:
                        raise
            return cluster.submit(document, job_id=own, parameters=parameters, code=code)
        return cluster.job(own)

    def _newest(self, cluster: Cluster, number: int) -> tuple[Job | None, int]:
        """Return the job of the newest try that has one, and which try that is; None: none has, or the masters have forgotten it."""
        for earlier in range(number, 0, -1):
            job = cluster.job(self.job_id(earlier))
            with contextlib.suppress(UnknownJob):
                job.status()
                return job, earlier
        return None, 0


async def wait_for_end(job_id: str, found_by: Mapping[str, Any], unreachable_timeout_s: float, warn: Callable[[str], None]) -> JobResult:
    """Wait for the end of a job, and return how it has ended.

    Args:
        job_id: which job.
        found_by: how `eventflink.connect_async` finds its cluster.
        unreachable_timeout_s: how long the cluster may be away.
        warn: is called with a message each time the cluster does not answer.

    Raises:
        ClusterUnreachable: it was away for longer.
        UnknownJob: the masters have forgotten the job.

    """
    pauses, away_since_s = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), None
    loop = asyncio.get_running_loop()
    async with connect_async(**found_by) as cluster:
        while True:
            try:
                return await cluster.job(job_id).wait(_ANSWER_S)
            except JobNotTerminated:
                pauses, away_since_s = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), None
            except _AWAY as error:
                away_since_s = away_since_s or loop.time()
                if loop.time() - away_since_s > unreachable_timeout_s:
                    raise ClusterUnreachable(f"how job '{job_id}' stands is not known: {error}") from error
                warn(f"the cluster of job '{job_id}' does not answer, and is asked again: {error}")
                await asyncio.sleep(pauses.next())


def why_it_ended(result: JobResult) -> str:
    """Return why a job that did not finish has ended, in a sentence."""
    cause = f"{result.cause.failure_type}: {result.cause.message}" if result.cause is not None else ""
    return f"job '{result.job_id}' is {result.status}: {cause}; 'eventflink why {result.job_id}' tells what led to it"
