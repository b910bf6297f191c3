"""A cluster and its jobs for programs and notebooks that wait. For one thread; nothing is connected before the first call."""

from collections.abc import Iterable
from pathlib import Path

from eventflink.blob.tls import TlsFiles
from eventflink.client.methods import ClusterMethods, Document, JobMethods
from eventflink.client.pictures import unanswered
from eventflink.gateways.blocking import BlockingConnection, BlockingGateway
from eventflink.gateways.errors import GatewayError


class Job(JobMethods, BlockingGateway):
    """One job. In a notebook it shows its graph and its progress, as of when the cell ran."""

    def __init__(self, connection: BlockingConnection, job_id: str, actor: str) -> None:
        super().__init__(connection.bootstrap, connection.cluster_id, connection=connection)
        self.job_id = job_id
        self.actor = actor

    def _repr_html_(self) -> str:
        try:
            return self.view()._repr_html_()
        except GatewayError as error:
            return unanswered(repr(self), error)


class Cluster(ClusterMethods, BlockingGateway):
    """One cluster. In a notebook it shows what there is of everything, and its newest jobs. Close it, or use it in `with`."""

    def __init__(self, bootstrap: str, cluster_id: str, *, request_timeout_s: float, actor: str, tls: TlsFiles | None) -> None:
        super().__init__(bootstrap, cluster_id, request_timeout_s=request_timeout_s)
        self.bootstrap, self.cluster_id, self.actor, self.tls = bootstrap, cluster_id, actor, tls

    def job(self, job_id: str) -> Job:
        """Return a job over this connection; nothing is asked yet."""
        return Job(self._connection, job_id, self.actor)

    def submit(self, document: Document, *, code: Iterable[Path | str] = (), job_id: str = "") -> Job:
        """Submit a job, its document or the path of that, with the files and directories of its code; return it once it is in the log.

        Raises:
            InvalidJobGraph: the document is no job graph.
            ArchiveError: the code cannot be packed.

        """
        return self.job(self.run(self._submission(document, code, job_id)))

    def _repr_html_(self) -> str:
        try:
            return self.view()._repr_html_()
        except GatewayError as error:
            return unanswered(repr(self), error)
