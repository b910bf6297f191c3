"""A cluster and its jobs for an event loop: the methods are those of `cluster.py`, to be awaited by any number of tasks."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Unpack

from eventflink.blob.tls import TlsFiles
from eventflink.client.methods import ClusterMethods, JobMethods
from eventflink.client.options import EventOptions, RerunOptions, SubmitOptions
from eventflink.gateways.async_gateways import AsyncConnection, AsyncGateway
from eventflink.gateways.state_reads import NO_SOURCES, Sources
from eventflink.gateways.steps import work
from eventflink.jobs.job_files import Document
from eventflink.model.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from eventflink.client.events import EventPages


class AsyncJob(JobMethods, AsyncGateway):
    """One job; a notebook shows what `await job.view()` gives."""

    def __init__(self, connection: AsyncConnection, job_id: str, actor: str, tls: TlsFiles | None) -> None:
        super().__init__(connection.access, connection=connection)
        self.job_id, self.actor, self.tls = job_id, actor, tls

    async def rerun(self, job_id: str | None = None, **options: Unpack[RerunOptions]) -> "AsyncJob":
        """Run the job again as `Job.rerun` does."""
        return AsyncJob(self._connection, await self.run(self._rerun(job_id, options)), self.actor, self.tls)


class AsyncCluster(ClusterMethods, AsyncGateway):
    """One cluster. Await `close`, or use it in `async with`."""

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

    def job(self, job_id: str) -> AsyncJob:
        """Return a job over this connection; nothing is asked yet. Not to be awaited."""
        return AsyncJob(self._connection, job_id, self.actor, self.tls)

    async def submit(self, document: Document, **options: Unpack[SubmitOptions]) -> AsyncJob:
        """Submit a job as `Cluster.submit` does."""
        return self.job(await self.run(self._submission(document, options)))

    def events(self, **options: Unpack[EventOptions]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield events as `Cluster.events` does, in `async for`."""
        return self._each(self._event_pages(options))

    async def _each(self, pages: "EventPages") -> AsyncGenerator[dict[str, Any], None]:
        try:
            while (page := await self.run(work(pages.next_page))) is not None:
                for event in page:
                    yield event
        finally:
            await asyncio.to_thread(pages.close)
