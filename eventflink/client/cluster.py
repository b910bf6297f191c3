"""A cluster and its jobs for programs and notebooks that wait. For one thread; nothing is connected before the first call."""

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Unpack

from eventflink.blob.tls import TlsFiles
from eventflink.client.methods import ClusterMethods, JobMethods
from eventflink.client.options import EventOptions, RerunOptions, SubmitOptions
from eventflink.client.pictures import unanswered
from eventflink.gateways.blocking import BlockingConnection, BlockingGateway
from eventflink.gateways.errors import GatewayError
from eventflink.gateways.state_reads import NO_SOURCES, Sources
from eventflink.jobs.job_files import Document
from eventflink.model.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from eventflink.client.events import EventPages


def _each(pages: "EventPages") -> Generator[dict[str, Any], None, None]:
    with closing(pages):
        while (page := pages.next_page()) is not None:
            yield from page


class Job(JobMethods, BlockingGateway):
    """One job. In a notebook it shows its graph and its progress, as of when the cell ran.

    Examples:
        >>> with eventflink.connect() as cluster:
        ...     job = cluster.job("orders-7")
        ...     print(job.wait(timeout_s=600).status, job.exceptions())
        ...     job.result("totals").to_pandas()

    """

    def __init__(self, connection: BlockingConnection, job_id: str, actor: str, tls: TlsFiles | None) -> None:
        super().__init__(connection.access, connection=connection)
        self.job_id, self.actor, self.tls = job_id, actor, tls

    def rerun(self, job_id: str | None = None, **options: Unpack[RerunOptions]) -> "Job":
        """Run the ended job again, and return the new job once it is in the log; `job_id`: its id, or None for a fresh one.

        Raises:
            InvalidJobGraph: the document is not a job graph.
            ArchiveError: the code cannot be packed.
            InvalidParameters: the job has no such parameter, or a value is none of its type.
            JobNotEnded: it runs.
            NothingFailed: it has finished, and neither vertices from which it is to run again are named, nor another document.
            RequestRefused: with the code `UnknownVertex`: it has no such vertex; `InvalidJobGraph`: the document has another name.
            UnknownJob: it is not in the memory of the masters any more.

        Examples:
            `again = cluster.job("orders-7").rerun(failed=True)`, or after a mistake in its code was mended
            `again = cluster.job("orders-7").rerun(failed=True, document="orders.yaml", code=["orders.py"])`

        """
        return Job(self._connection, self.run(self._rerun(job_id, options)), self.actor, self.tls)

    def _repr_html_(self) -> str:
        try:
            return self.view()._repr_html_()
        except GatewayError as error:
            return unanswered(repr(self), error)


class Cluster(ClusterMethods, BlockingGateway):
    """One cluster. In a notebook it shows what there is of everything, and its newest jobs. Close it, or use it in `with`.

    Examples:
        >>> with eventflink.connect() as cluster:
        ...     job = cluster.submit("nightly.yaml", code=["nightly.py"], parameters={"day": "2026-11-25"})
        ...     print(job.job_id, [row.job_id for row in cluster.jobs(limit=10)])

    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        request_timeout_s: float,
        actor: str,
        tls: TlsFiles | None,
        sources: Sources = NO_SOURCES,
    ) -> None:
        super().__init__(access, request_timeout_s=request_timeout_s, sources=sources)
        self.access, self.actor, self.tls = access, actor, tls

    def job(self, job_id: str) -> Job:
        """Return a job over this connection; nothing is asked yet."""
        return Job(self._connection, job_id, self.actor, self.tls)

    def submit(self, document: Document, **options: Unpack[SubmitOptions]) -> Job:
        """Submit a job, its document or the path of that; return it once it is in the log.

        Raises:
            InvalidJobGraph: the document is no job graph, or the parameters are not those that it declares.
            ArchiveError: the code cannot be packed.
            SavepointUnusable: there is no such savepoint, or it does not fit the job.

        """
        return self.job(self.run(self._submission(document, options)))

    def events(self, **options: Unpack[EventOptions]) -> Generator[dict[str, Any], None, None]:
        """Yield events of the log, as `eventflink events --json` shows them; nothing is read before the first is wanted.

        Raises:
            FilterInvalid: there is no such type of event, or a place is neither an offset nor a time.
            ClusterUnreachable, ClusterNotFound: Kafka does not give the log.
            LogUnreadable: a record cannot be read, or does not fit the ones before it.

        """
        return _each(self._event_pages(options))

    def _repr_html_(self) -> str:
        try:
            return self.view()._repr_html_()
        except GatewayError as error:
            return unanswered(repr(self), error)
