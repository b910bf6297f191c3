"""The routers of all pages."""

from typing import Final

from eventflink.rest.own import cluster, job_parts, jobs, one_job, task_managers, waits

ROUTERS: Final = (cluster.router, waits.router, task_managers.router, jobs.router, one_job.router, job_parts.router)
