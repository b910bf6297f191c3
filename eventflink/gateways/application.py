"""The cluster as an application's entry point sees it: submissions whose ids are the same however often the entry point runs.

In application mode a master runs an author's entry point, and the next leader runs it again. The n-th submission of an application has
the same job id and the same request id in each run, so that a run after a failover finds the jobs of the one before (P8) instead of
running them a second time; Flink's application mode fixes job ids for the same reason. An entry point has to submit its jobs in the same
order each time.
"""

import math
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from eventflink.blob.tls import TlsFiles
from eventflink.documents.one_job import JobResult
from eventflink.gateways.code import ship_code
from eventflink.gateways.dispatcher_gateway import DispatcherGateway
from eventflink.gateways.state_reads import NO_SOURCES, Sources
from eventflink.jobs.job_files import DescribedJob, describe_document
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import bind_parameters

_NAMESPACE: Final = uuid.UUID("6f0d2c1c-3b0b-5f5e-9c53-0d6a3f1a7f10")


def application_job_id(cluster_id: str, application_id: str, number: int) -> str:
    """Return the id of the n-th job, from 1, of an application: 32 hexadecimal digits."""
    return uuid.uuid5(_NAMESPACE, f"{cluster_id}/{application_id}/{number}").hex


class ApplicationGateway:
    """What an entry point is called with. For one thread; errors are those of `DispatcherGateway`, which `dispatcher` is."""

    def __init__(self, access: ClusterAccess, application_id: str, tls: TlsFiles | None = None, sources: Sources = NO_SOURCES) -> None:
        self.cluster_id = access.cluster_id
        self.application_id = application_id
        self.dispatcher = DispatcherGateway(access, sources=sources)
        self.job_ids: list[str] = []
        """The jobs of this run, in the order of their submission."""
        self._tls = tls

    def submit_job(
        self,
        graph: JobGraph | Mapping[str, Any],
        *,
        code: Iterable[Path] = (),
        job_id: str = "",
        parameters: Mapping[str, object] | None = None,
    ) -> str:
        """Submit a job, a graph or its document, with the Python code that it needs; return its id once it is in the log.

        Raises:
            InvalidJobGraph: the document is not a job graph, or the parameters are not those that it declares.
            ArchiveError: the code cannot be packed.
            DuplicateJobSubmission: the `job_id` that was given belongs to another job.

        """
        number = len(self.job_ids) + 1
        source = f"job {number} of {self.application_id}"
        job = DescribedJob(graph) if isinstance(graph, JobGraph) else describe_document(dict(graph), source, None)
        made, paths = bind_parameters(job.graph, parameters or {}), list(code)
        if paths or job.has_code:
            made = ship_code(made, self.dispatcher.find_leader().blob_address, job, paths, self._tls)
        wanted = job_id or application_job_id(self.cluster_id, self.application_id, number)
        accepted = self.dispatcher.submit_job(made, wanted, actor=self.application_id, request_id=f"{wanted}-submission")
        self.job_ids.append(accepted.job_id)
        return accepted.job_id

    def request_job_result(self, job_id: str, *, timeout_s: float = math.inf) -> JobResult:
        """Wait for a job's end, over any failovers."""
        return self.dispatcher.request_job_result(job_id, timeout_s=timeout_s)

    def close(self) -> None:
        """Let the connection go."""
        self.dispatcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
