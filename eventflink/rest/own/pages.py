"""The routers of all pages."""

from typing import Final

from eventflink.rest.own import cluster, jobs, one_job

ROUTERS: Final = (cluster.router, jobs.router, one_job.router)
