"""What becomes of an application: whatever its main does and however its jobs end, there is one status, and a word about why."""

from collections.abc import Mapping
from typing import Any

import pytest

from eventflink.documents.one_job import JobResult
from eventflink.entrypoint.application_main import Application, ApplicationOutcome, outcome_of, run_application
from eventflink.gateways.application import ApplicationGateway, application_job_id
from eventflink.model.attempts import FailureCause
from eventflink.model.statuses import ApplicationStatus, JobStatus


def _result(job_id: str, status: JobStatus, message: str = "") -> JobResult:
    return JobResult(
        job_id=job_id,
        status=status,
        is_terminal=True,
        submitted_at=None,
        ended_at=None,
        net_run_time_ms=1,
        cause=FailureCause("LookupError", message) if message else None,
        accumulators=None,
        log_offset=1,
    )


def _application(**more: Any) -> Application:
    return Application(application_id="application", overrides={}, **more)


class _NoCluster(ApplicationGateway):
    """The gateway without a connection: enough for an entry point that submits nothing."""

    def __init__(self) -> None:
        self.job_ids = []


def end_with(_gateway: ApplicationGateway, code: str) -> None:
    raise SystemExit(int(code))


def test_a_failed_job_counts_before_a_cancelled_one_and_that_before_finished_ones() -> None:
    finished, cancelled = _result("a", JobStatus.FINISHED), _result("b", JobStatus.CANCELED)
    failed = _result("c", JobStatus.FAILED, "nothing there")
    assert outcome_of([]) == outcome_of([finished]) == ApplicationOutcome(ApplicationStatus.SUCCEEDED)
    assert outcome_of([finished, cancelled]) == ApplicationOutcome(ApplicationStatus.CANCELED, "job b is CANCELED")
    assert outcome_of([cancelled, failed]) == ApplicationOutcome(ApplicationStatus.FAILED, "job c is FAILED: LookupError: nothing there")


@pytest.mark.parametrize(
    ("fields", "status", "diagnostics"),
    [
        ({"main": f"{__name__}:end_with", "arguments": ("0",)}, ApplicationStatus.SUCCEEDED, ""),
        ({"main": f"{__name__}:end_with", "arguments": ("3",)}, ApplicationStatus.FAILED, "main ended with exit code 3"),
        ({"main": f"{__name__}:end_with"}, ApplicationStatus.FAILED, "missing 1 required positional argument: 'code'"),
        ({"main": f"{__name__}:nothing"}, ApplicationStatus.FAILED, "has no attribute 'nothing'"),
        ({"main": "no_such_module:main"}, ApplicationStatus.FAILED, "No module named 'no_such_module'"),
        ({"main": "no main"}, ApplicationStatus.FAILED, "invalid main: 'no main'; give module:function"),
        ({"graph": "{}"}, ApplicationStatus.FAILED, "graph"),
    ],
)
def test_a_main_that_does_not_return_has_failed_and_it_is_said_why(
    fields: Mapping[str, Any], status: ApplicationStatus, diagnostics: str
) -> None:
    outcome = run_application(_application(**fields), _NoCluster())
    assert outcome.status is status
    assert diagnostics in outcome.diagnostics


def test_job_ids_are_the_same_in_each_run_and_differ_between_clusters_applications_and_jobs() -> None:
    assert application_job_id("c", "a", 1) == application_job_id("c", "a", 1)
    assert len({application_job_id(c, a, n) for c in "cd" for a in "ab" for n in (1, 2)}) == 8
