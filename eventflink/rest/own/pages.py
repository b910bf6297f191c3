"""The routers of all pages."""

from typing import Final

from eventflink.rest.own import catalogue, cluster, job_parts, jobs, one_job, parked, runs, schedules, task_managers, waits

OF_A_JOB: Final = (one_job.router, job_parts.router)
"""What is made of the archive of a job as well as of its state."""

ROUTERS: Final = (
    cluster.router,
    parked.router,
    runs.router,
    schedules.router,
    waits.router,
    catalogue.router,
    task_managers.router,
    jobs.router,
    *OF_A_JOB,
    job_parts.rows_router,
)
