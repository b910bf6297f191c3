"""The process that runs an application: the author's entry point, or the one graph of a job cluster, then the end of the cluster.

`python -m eventflink.entrypoint.application_main DOCUMENT`; the leading master starts it and ends it with its own leadership. What the jobs
came to becomes the cluster's ApplicationStatus. Nothing is kept here: the process of the next leader does all of it again, and finds the
jobs that are there.
"""

import contextlib
import importlib
import json
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from eventflink.blob.tls import tls_files
from eventflink.documents.one_job import JobResult
from eventflink.gateways.application import ApplicationGateway
from eventflink.gateways.errors import ClusterShuttingDown
from eventflink.gateways.state_reads import sources_of
from eventflink.model.cluster_access import ClusterAccess
from eventflink.model.configuration import load_configuration
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.statuses import ApplicationStatus, JobStatus

MAX_DIAGNOSTICS_LENGTH: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What a master runs while it leads."""

    application_id: str
    main: str = ""
    """`module:function` of the author's entry point; empty: one graph is run instead."""
    arguments: tuple[str, ...] = ()
    graph: str = ""
    """The job graph as a document, JSON or YAML."""
    code: tuple[str, ...] = ()
    job_id: str = ""
    """Of the graph's job; empty: one that follows from the cluster's and the application's id."""
    config: str = ""
    """The configuration file; empty: none."""
    overrides: Mapping[str, str]

    def command(self, access: ClusterAccess) -> list[str]:
        """Return how its process is started, which reaches its cluster so."""
        return [sys.executable, "-m", "eventflink.entrypoint.application_main", access.as_text(), json.dumps(asdict(self))]


@dataclass(frozen=True, slots=True)
class ApplicationOutcome:
    """How an application came out."""

    status: ApplicationStatus
    diagnostics: str = ""


def run_application(application: Application, gateway: ApplicationGateway) -> ApplicationOutcome:
    """Run the main, wait for its jobs, and say how it came out; whatever the main raises is a failure."""
    try:
        if application.main:
            _load_main(application.main)(gateway, *application.arguments)
        else:
            gateway.submit_job(parse_job_graph(application.graph, "graph"), code=map(Path, application.code), job_id=application.job_id)
    except SystemExit as end:
        if end.code not in (None, 0):
            return ApplicationOutcome(ApplicationStatus.FAILED, f"main ended with exit code {end.code}")
    except Exception:  # noqa: BLE001 - the author's code; all of it goes into the diagnostics
        return ApplicationOutcome(ApplicationStatus.FAILED, traceback.format_exc()[-MAX_DIAGNOSTICS_LENGTH:])
    return outcome_of([gateway.request_job_result(job_id) for job_id in gateway.job_ids])


def outcome_of(results: list[JobResult]) -> ApplicationOutcome:
    """Return what the ends of the jobs make of the application: FAILED before CANCELED before SUCCEEDED."""
    for status, outcome in ((JobStatus.FAILED, ApplicationStatus.FAILED), (JobStatus.CANCELED, ApplicationStatus.CANCELED)):
        for result in results:
            if result.status is status:
                cause = f": {result.cause.failure_type}: {result.cause.message}" if result.cause else ""
                return ApplicationOutcome(outcome, f"job {result.job_id} is {status}{cause}"[:MAX_DIAGNOSTICS_LENGTH])
    return ApplicationOutcome(ApplicationStatus.SUCCEEDED)


def _load_main(place: str) -> Any:
    """Return the function; modules of the working directory are found.

    Raises:
        ImportError, AttributeError, ValueError: there is none; the message says what is missing.

    """
    module, separator, name = place.partition(":")
    if not separator or not module or not name:
        raise ValueError(f"invalid main: '{place}'; give module:function")
    sys.path.insert(0, str(Path.cwd()))
    return getattr(importlib.import_module(module), name)


def shut_down(gateway: ApplicationGateway, outcome: ApplicationOutcome) -> None:
    """End the cluster; one that ends in another way already ends so.

    Raises:
        RequestRefused: it cannot be ended.

    """
    with contextlib.suppress(ClusterShuttingDown):
        gateway.dispatcher.shut_down_cluster(
            outcome.status, outcome.diagnostics, cancel_jobs=True, actor=f"application {gateway.application_id}"
        )


def main(arguments: list[str]) -> int:
    """Run an application; return the exit code of its process."""
    access, document = ClusterAccess.of_text(arguments[0]), json.loads(arguments[1])
    application = Application(**{**document, "arguments": tuple(document["arguments"]), "code": tuple(document["code"])})
    configuration = load_configuration(Path(application.config) if application.config else None, dict(application.overrides))
    sources = sources_of(configuration, lambda: access.bootstrap, access.cluster_id)
    with ApplicationGateway(access, application.application_id, tls_files(configuration), sources) as gateway:
        shut_down(gateway, run_application(application, gateway))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
