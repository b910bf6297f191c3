"""`eventflink standalone-job`: a master that runs one graph, and ends the cluster when its job has ended."""

import json
from pathlib import Path

import click

from eventflink.cli.commands.application import run_application_master
from eventflink.cli.id_type import JOB_ID
from eventflink.cli.session import Session, pass_session
from eventflink.cli.submission import param_option, read_job_of
from eventflink.model.job_graph_document import bind_parameters, to_document


@click.command("standalone-job")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--code", type=click.Path(path_type=Path), multiple=True, help="A file or directory with the job's Python code; repeatable.")
@param_option
@click.option("--job-id", type=JOB_ID, default="", help="The job's id. Default: one that follows from the cluster's id.")
@pass_session
def standalone_job(session: Session, file: Path, code: tuple[Path, ...], parameters: dict[str, str], job_id: str) -> int:
    """Start a master that runs the job that FILE (JSON, YAML or Python) describes.

    When the job has ended the cluster is shut down, and the exit code is that of how it ended. Several masters may be started, each with
    the same FILE.
    """
    # A mistake is told before anything starts; what other files say is in the graph from here on.
    job = read_job_of(file)
    graph = bind_parameters(job.graph, parameters)
    document = json.dumps(to_document(graph))
    paths = tuple(str(path.absolute()) for path in code or job.code)
    return run_application_master(session, "standalone-job", graph=document, code=paths, job_id=job_id)
