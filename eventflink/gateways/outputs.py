"""Which output of a job is meant, and where it lies: the rule is here once, for the command line, for programs and for tests.

Only a finished job has a result: before that, a restart may still take back what a subtask left.
"""

from eventflink.documents.one_job import JobInfo
from eventflink.gateways.errors import ResultNotNamed, ResultNotThere
from eventflink.jobs.result import JobOutput
from eventflink.model.statuses import JobStatus


def find_output(job: JobInfo, vertex_id: str | None = None, output: str = "default") -> JobOutput:
    """Return an output of a vertex; None: of the only one that ran whose outputs no edge reads and no condition names, closing ones aside.

    Raises:
        ResultNotThere: the job has not finished, or the vertex left no such output.
        ResultNotNamed: which vertex is meant is not clear.

    """
    if job.status is not JobStatus.FINISHED:
        raise ResultNotThere(f"job {job.job_id} is {job.status}; only a finished job has a result")
    vertices = {vertex.vertex_id: vertex for vertex in job.vertices}
    if vertex_id is None:
        read = {edge.source for edge in job.edges} | {each.condition.source for each in job.vertices if each.condition is not None}
        sinks = [each for each, vertex in vertices.items() if each not in read and vertex.runs is None and vertex.skipped is None]
        if len(sinks) > 1:
            raise ResultNotNamed(f"job {job.job_id} has several results; choose the vertex: {', '.join(sinks)}")
        if not sinks:
            raise ResultNotThere(f"job {job.job_id} has no result that is not read: all that would have one was skipped; choose a vertex")
        vertex_id = sinks[0]
    if vertex_id not in vertices:
        raise ResultNotNamed(f"vertex not found: '{vertex_id}' in job '{job.job_id}'; it has {', '.join(vertices)}")
    left = [pair for subtask in vertices[vertex_id].subtasks for pair in subtask.outputs.items()]
    found = tuple([each for name, each in left if name == output])
    if not found and (why := vertices[vertex_id].skipped):
        raise ResultNotThere(f"vertex '{vertex_id}' of job {job.job_id} has no result, for it was skipped: {why}")
    if not found and not left and (sinks := vertices[vertex_id].writes_to):
        raise ResultNotThere(f"vertex '{vertex_id}' of job {job.job_id} has no outputs: its rows went to {', '.join(sinks)}")
    if not found:
        others = ", ".join(sorted({name for name, _ in left})) or "none"
        raise ResultNotThere(f"output not found: '{output}' of vertex '{vertex_id}'; it has {others}")
    return JobOutput(job.job_id, vertex_id, output, found)
