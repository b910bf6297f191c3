"""The routers of what Flink tells of one job and commands nothing: a history server has them as well."""

from typing import Final

from eventflink.rest.flink import accumulators, back_pressure, checkpoints, exceptions, job_metrics, jobs, refused_reads, subtasks, vertices

ROUTERS: Final = (
    jobs.router,
    job_metrics.router,
    exceptions.router,
    checkpoints.router,
    accumulators.router,
    vertices.router,
    back_pressure.router,
    subtasks.router,
    refused_reads.router,
)
