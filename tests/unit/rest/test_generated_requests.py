"""Every operation that the application describes answers generated requests, whatever they hold, as its description says.

Also of routes that are added later: what they are is read from the description.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction, content_type_conformance, negative_data_rejection, response_schema_conformance
from schemathesis.checks import status_code_conformance as status_is_described
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.schemas import APIOperation

from eventflink.model.statuses import ExecutionState
from eventflink.rest.application import build_application
from tests.support.cluster import ScriptedCluster, deployments, graph, orders, stream, vertex
from tests.support.rest_client import dispatcher_of, services_with

pytestmark = pytest.mark.slow

KNOWN: Final = {
    "jobid": "job",
    "job_id": "job",
    "applicationid": "job",
    "vertexid": "s",
    "vertex_id": "s",
    "taskmanagerid": "tm",
    "task_manager_id": "tm",
    "subtaskindex": 0,
    "subtask_index": 0,
    "attempt": 1,
    "checkpointid": 1,
}
"""What there is, by the names that paths have for it; other names get something that is not there."""

NEVER_ENDS: Final = "text/event-stream"
WITH_WHAT_IS_THERE, WITH_ANYTHING, WITH_FAULTS = 1, 1, 1
"""How many requests an operation gets: about what is there, about anything, and those that its description forbids."""

ANSWER_TIMEOUT_S: Final = 300
"""Schemathesis gives an answer ten seconds otherwise, which a test that runs at the lowest priority beside others can take."""

CHECKS: Final = (status_is_described, content_type_conformance, response_schema_conformance)


def new_application() -> Any:
    """Return an application over a cluster with streams that have a checkpoint, a batch job and one that is over; its leader decides."""
    cluster = ScriptedCluster(check_digests=False, check_states=False)
    cluster.register("tm", slots=6)
    cluster.run(cluster.submit(graph(vertex("a")), job_id="over"))
    first, second, other = deployments(cluster.submit(graph(stream("s", 2), vertex("b"), checkpointing={"interval_ms": 100})))
    cluster.start_stream(first)
    cluster.start_stream(second)
    cluster.report(other, ExecutionState.RUNNING)
    cluster.acknowledge(*orders(cluster.pass_time(100)), batch_id=3, state_bytes=10)
    dispatcher = dispatcher_of(cluster)
    return build_application(services_with(dispatcher.state, dispatcher, {}))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for offsets that are not there yet, nor for Kafka, which is not there at all."""
    for name, module in list(sys.modules.items()):
        for timeout in ("READ_TIMEOUT_S", "KAFKA_TIMEOUT_S"):
            if name.startswith("eventflink.rest.") and hasattr(module, timeout):
                monkeypatch.setattr(module, timeout, 0.01)


def requests_of(operation: APIOperation[Any, Any, Any, Any]) -> Iterator[tuple[int, GenerationMode, dict[str, Any]]]:
    """Yield how many requests of which kind an operation gets, and what its path holds."""
    names = [parameter.name for parameter in operation.path_parameters]
    there = {name: KNOWN.get(name, "nobody") for name in names}
    yield WITH_WHAT_IS_THERE, GenerationMode.POSITIVE, there
    if names:
        yield WITH_ANYTHING, GenerationMode.POSITIVE, {}
    if operation.query or operation.headers or operation.body:
        yield WITH_FAULTS, GenerationMode.NEGATIVE, there


def faults_of(case: Case[Any], response: Response, checks: tuple[CheckFunction, ...]) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if response.status_code >= 400:
        try:
            errors = json.loads(response.content)["errors"]
            assert errors
            assert all(isinstance(error, str) and error for error in errors)
        except (ValueError, KeyError, TypeError, AssertionError):
            yield f"{response.status_code} is not in Flink's shape of an error: {response.text[:200]}"
    if response.status_code == 500:
        yield f"500: {response.text[:300]}"
    for check in checks:
        try:
            case.validate_response(response, checks=[check])
        except* AssertionError as found:
            yield f"{check.__name__}: {found.exceptions[0]}"


class Findings:
    """What came of the requests."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.answered: set[str] = set()

    def ask(self, requests: strategies.SearchStrategy[Case[Any]], count: int, checks: tuple[CheckFunction, ...]) -> None:
        """Send so many requests, always the same."""

        @seed(0)
        @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=requests)
        def send(case: Case[Any]) -> None:
            response, label = case.call(base_url="http://localhost", timeout=ANSWER_TIMEOUT_S), case.operation.label
            if response.status_code < 400:
                self.answered.add(label)
            self.faults.update({f"{label}: {fault}": case.as_curl_command() for fault in faults_of(case, response, checks)})

        with suppress(Unsatisfiable):  # There is nothing that the description forbids.
            send()


@pytest.mark.usefixtures("impatient")
def test_every_operation_answers_generated_requests_as_it_is_described() -> None:
    application, findings = new_application(), Findings()
    schema = schemathesis.openapi.from_dict(application.openapi())
    schema.app = application
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if NEVER_ENDS in json.dumps(operation.definition.raw["responses"]):
            continue
        operation.app = application if operation.method == "get" else new_application()
        for count, mode, there in requests_of(operation):
            checks = (*CHECKS, negative_data_rejection) if mode is GenerationMode.NEGATIVE else CHECKS
            findings.ask(operation.as_strategy(generation_mode=mode, path_parameters=there or None), count, checks)
    assert not findings.faults, "\n".join(f"{fault}\n    {request}" for fault, request in findings.faults.items())
    assert len(findings.answered) > 60, "most operations have an answer to some of them"
