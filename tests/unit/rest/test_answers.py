"""An answer about the present is computed once for each state, and nobody gets one that is not his to read, or of another state."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from eventflink.reader import state_cache
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.application import build_application
from eventflink.rest.errors import error_response
from eventflink.rest.flink import job_lists
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.rest_client import ScriptedDispatcher, commanding_client, dispatcher_of, services_with
from tests.support.rest_tokens import tokens_of_three


@pytest.fixture
def cluster() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register(slots=4)
    cluster.submit(graph(vertex("a")), job_id="one")
    return cluster


@pytest.fixture
def dispatcher(cluster: ScriptedCluster) -> ScriptedDispatcher:
    return dispatcher_of(cluster)


def client_of(application: FastAPI) -> TestClient:
    return TestClient(application, base_url="http://localhost")


def count_calls(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[str]:
    """Note each call of a function."""
    calls: list[str] = []
    function = getattr(module, name)

    def noted(*arguments: Any) -> Any:
        calls.append(name)
        return function(*arguments)

    monkeypatch.setattr(module, name, noted)
    return calls


def test_an_answer_is_computed_once_for_each_state(
    cluster: ScriptedCluster, dispatcher: ScriptedDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, job_lists, "jobs_view")
    client = client_of(build_application(services_with(dispatcher.state, dispatcher, {})))
    first, second = client.get("/jobs/overview"), client.get("/jobs/overview")
    assert len(calls) == 1
    assert (second.json(), second.headers) == (first.json(), first.headers)
    cluster.submit(graph(vertex("a")), job_id="two")
    dispatcher.follow()
    third = client.get("/jobs/overview")
    assert [row["jid"] for row in third.json()["jobs"]] == ["one", "two"]
    assert int(third.headers["X-Eventflink-Offset"]) > int(first.headers["X-Eventflink-Offset"])


def test_other_parameters_and_a_newer_offset_get_no_answer_that_is_known(
    dispatcher: ScriptedDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventflink.rest.reading.READ_TIMEOUT_S", 0.01)
    client = client_of(build_application(services_with(dispatcher.state, dispatcher, {})))
    assert client.get("/jobs/metrics?get=numRestarts&agg=max").json() == [{"id": "numRestarts", "max": 0.0}]
    assert client.get("/jobs/metrics?get=numRestarts&agg=min").json() == [{"id": "numRestarts", "min": 0.0}]
    beyond = {"X-Eventflink-Min-Offset": str(dispatcher.state.log_offset + 1)}
    assert client.get("/jobs/metrics?get=numRestarts&agg=max", headers=beyond).status_code == 503


def test_errors_commands_and_what_the_state_does_not_tell_are_never_kept(cluster: ScriptedCluster, dispatcher: ScriptedDispatcher) -> None:
    services = services_with(dispatcher.state, dispatcher, {})
    client = client_of(build_application(services))
    for path in ("/jobs/nobody", "/jobs?x", "/config", "/savepoint-disposal/none", "/jobmanager/thread-dump"):
        client.get(path)
    assert len(services.cache) == 1, "the list of jobs alone"
    with commanding_client(cluster) as commanding:
        assert commanding.get("/jobs/one/yarn-cancel").status_code == 202
        assert commanding.get("/jobs/one/yarn-cancel").status_code == 202


def test_a_change_at_the_path_of_a_known_answer_is_made(cluster: ScriptedCluster) -> None:
    with commanding_client(cluster) as client:
        path = "/jobs/one/resource-requirements"
        bounds = client.get(path).json()["a"]["parallelism"]
        assert client.put(path, json={"a": {"parallelism": {**bounds, "upperBound": 2}}}).json() == {}
        assert client.get(path).json()["a"]["parallelism"]["upperBound"] == 2


def test_only_so_many_answers_and_bytes_are_kept(dispatcher: ScriptedDispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    services = services_with(dispatcher.state, dispatcher, {})
    client = client_of(build_application(services))
    monkeypatch.setattr(state_cache, "MAX_ENTRIES", 3)
    for number in range(5):
        client.get(f"/jobs?{number}")
    assert len(services.cache) == 3
    monkeypatch.setattr(state_cache, "MAX_BYTES", 1)
    client.get("/jobs/overview")
    assert len(services.cache) == 0


def test_who_may_not_ask_gets_no_answer_that_is_known(dispatcher: ScriptedDispatcher, tmp_path: Path) -> None:
    tokens = tokens_of_three(tmp_path)
    services = services_with(dispatcher.state, dispatcher, tokens.configuration)
    client = client_of(build_application(services))
    known = client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER))
    assert (known.status_code, len(services.cache)) == (200, 1)
    assert client.get("/jobs").status_code == 401
    assert client.get("/jobmanager/config", headers=tokens.headers(AccessRole.ADMIN)).status_code == 200
    assert client.get("/jobs/one/jobmanager/config", headers=tokens.headers(AccessRole.ADMIN)).status_code == 200
    assert client.get("/jobs/one/jobmanager/config", headers=tokens.headers(AccessRole.VIEWER)).status_code == 403


def test_an_error_says_also_what_is_no_character() -> None:
    assert json.loads(bytes(error_response(400, "key not found: '\ud800'").body)) == {"errors": ["key not found: '\\ud800'"]}
