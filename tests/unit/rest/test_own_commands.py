"""A command by HTTP is the document of Kafka's topic: the same checks, the same refusals, decided once, by nobody else's name."""

import json
import re
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient

from eventflink.events.log_events import JobSubmitted, JobSuspensionRequested, RequestAccepted, RequestRejected
from eventflink.rest.uploads import MAX_UPLOADS
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.rest_client import commanding_client

COMMANDS = "/eventflink/v1/commands"
JOBS = "/eventflink/v1/jobs"
DOCUMENT = """
name: from a page
vertices:
  - {id: only, sql: SELECT 1}
"""


def cluster_with_a_job() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    cluster.submit(graph(vertex("a", 2)), job_id="job")
    return cluster


def post(client: TestClient, path: str, body: Any) -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    return answer.status_code, answer.json()


def test_a_command_is_decided_and_who_reads_next_sees_it() -> None:
    cluster = cluster_with_a_job()
    with commanding_client(cluster) as client:
        status, answer = post(client, COMMANDS, {"type": "SuspendJob", "job_id": "job", "reason": "for the night", "actor": "somebody"})
        assert (status, answer["subject"]) == (200, "job")
        assert client.get("/jobs").json()["jobs"][0]["status"] == "SUSPENDED"
    [event] = cluster.events(JobSuspensionRequested)
    assert (event.reason, event.actor) == ("for the night", "rest (declared)")


def test_the_same_request_is_done_once() -> None:
    cluster = cluster_with_a_job()
    command = {"type": "SuspendJob", "job_id": "job", "request_id": "mine"}
    with commanding_client(cluster) as client:
        first = post(client, COMMANDS, command)
        assert post(client, COMMANDS, command)[1]["request_id"] == first[1]["request_id"] == "mine"
    assert len(cluster.events(JobSuspensionRequested)) == 1


def test_who_names_no_id_for_a_job_that_runs_again_gets_a_new_one_each_time() -> None:
    cluster = ScriptedCluster()
    cluster.submit(graph(vertex("a")))
    cluster.cancel()
    with commanding_client(cluster) as client:
        answers = [post(client, COMMANDS, {"type": "RerunJob", "rerun_of": "job"}) for _ in range(2)]
    assert [status for status, _ in answers] == [200, 200]
    again = [answer["subject"] for _, answer in answers]
    assert len(set(again)) == 2
    assert all(cluster.job(job_id).rerun_of == "job" for job_id in again)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"nonsense", 400, "JSON"),
        (b"", 400, "JSON"),
        (b"[]", 400, "a request is a JSON object"),
        (b'{"type": "\\ud800"}', 400, "surrogate"),
        (b'{"type":' * 5_000, 400, "JSON"),
        ({"type": "CancelJobs", "job_id": "job"}, 400, "did you mean 'CancelJob'"),
        ({"type": "CancelJob"}, 400, "job_id"),
        ({"type": "CancelJob", "job_id": "job", "when": "now"}, 400, "when"),
        ({"type": "CancelJob", "job_id": "job", "request_id": 7}, 400, "request_id"),
        ({"type": "DrillStep", "drill_id": "d", "step": "KILL", "master_id": "master-1"}, 403, "no command for clients"),
        ({"type": "CancelJob", "job_id": "nobody"}, 404, "nobody"),
        ({"type": "CancelJob", "job_id": "job", "leader_id": "another"}, 409, "another"),
        ({"type": "RerunJob", "rerun_of": "job"}, 409, "only a job that has ended is run again"),
        ({"type": "RerunJob", "rerun_of": "nobody"}, 404, "nobody"),
        ({"type": "PauseSchedule", "schedule_id": "nothing"}, 404, "nothing"),
        ({"type": "DismissJobFailure", "job_id": "job"}, 409, "only a job that has FAILED has a failure to dismiss"),
    ],
)
def test_what_cannot_be_commanded_is_refused_with_the_reason_and_changes_nothing(body: Any, status: int, says: str) -> None:
    cluster = cluster_with_a_job()
    with commanding_client(cluster) as client:
        got, answer = post(client, COMMANDS, body)
    assert got == status
    assert says in answer["errors"][0]
    if status in (400, 403):
        assert not cluster.events(RequestRejected), "it did not even reach the leader"
    assert cluster.job("job").status == "RUNNING"


@pytest.mark.parametrize("document", [DOCUMENT, {"name": "from a page", "vertices": [{"id": "only", "sql": "SELECT 1"}]}])
def test_a_document_is_submitted_as_text_or_as_an_object(document: Any) -> None:
    cluster = cluster_with_a_job()
    with commanding_client(cluster) as client:
        status, answer = post(client, JOBS, {"document": document, "job_id": "mine"})
        assert (status, answer["job_id"]) == (200, "mine")
        assert {"id": "mine", "status": "RUNNING"} in client.get("/jobs").json()["jobs"]
    assert [(event.job_graph.name, event.actor) for event in cluster.events(JobSubmitted)][-1] == ("from a page", "rest (declared)")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"document": "name: ["}, "document: not valid"),
        ({"document": {"name": "n", "vertices": []}}, "vertices"),
        ({"document": {"name": "n", "vertices": [{"id": "a", "sqll": "SELECT 1"}]}}, "sqll"),
        ({"document": DOCUMENT, "job_id": "no/id"}, "no/id"),
        ({"document": DOCUMENT, "job_id": 5}, "body.job_id: must be a text"),
        ({"document": DOCUMENT, "parameters": [1]}, "body.parameters: must be a mapping"),
        ({"document": DOCUMENT, "parameters": '{"day": "x"}'}, "unknown parameter: 'day'"),
        ({"document": DOCUMENT, "kode": []}, "kode"),
        ({"document": DOCUMENT, "savepoint_path": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"document": DOCUMENT, "code": []}, "body.code"),
        ({}, "body.document"),
        (b"nonsense", "body: not valid JSON"),
    ],
)
def test_a_submission_that_cannot_be_names_the_place_and_reaches_nobody(body: Any, says: str) -> None:
    cluster = cluster_with_a_job()
    with commanding_client(cluster) as client:
        status, answer = post(client, JOBS, body)
        told = post(client, "/eventflink/v1/dry-run", {"type": "SubmitJob", **body}) if isinstance(body, dict) else (status, answer)
    assert status == 400
    assert says in answer["errors"][0]
    assert told == (status, answer), "a dry run refuses it as well"
    assert len(cluster.events(JobSubmitted)) == 1


DAILY = """
name: daily
parameters: {day: {type: date}, least: {type: integer, default: 2}}
vertices: [{id: only, sql: "SELECT :day"}]
"""


def test_values_of_parameters_come_with_a_submission_and_with_another_run_and_are_told_of_the_job() -> None:
    cluster = ScriptedCluster()
    with commanding_client(cluster) as client:
        assert post(client, JOBS, {"document": DAILY, "job_id": "one", "parameters": {"day": "2026-11-25"}})[0] == 200
        form = {"document": DAILY, "job_id": "two", "parameters": '{"day": "2026-11-24", "least": 5}'}
        assert client.post(JOBS, files={name: (None, text) for name, text in form.items()}).status_code == 200
        cluster.cancel("one")
        status, answer = post(client, COMMANDS, {"type": "RerunJob", "rerun_of": "one", "parameters": {"least": 7}})
        assert status == 200
        for job_id, day, least in (("one", "2026-11-25", 2), ("two", "2026-11-24", 5), (answer["subject"], "2026-11-25", 7)):
            assert client.get(f"{JOBS}/{job_id}").json()["body"]["parameters"] == {"day": day, "least": least}
            config = client.get(f"/jobs/{job_id}/config").json()["execution-config"]
            assert config["user-config"] == {"day": day, "least": str(least)}, "as Flink tells its global job parameters"
        for body, says in (
            ({"document": DAILY}, "parameter 'day': it has neither a default nor a value"),
            ({"document": DAILY, "parameters": {"dya": "2026-11-25"}}, "unknown parameter: 'dya' (did you mean 'day'?)"),
            ({"document": DAILY, "parameters": {"day": 20261125}}, "parameter 'day': must be a date, not 20261125; the job declares"),
            ({"document": DAILY, "parameters": ["day"]}, "body.parameters: must be a mapping"),
            ({"document": DAILY, "parameters": '{"day": '}, "body.parameters: not valid JSON"),
        ):
            status, refusal = post(client, JOBS, body)
            assert (status, says in refusal["errors"][0]) == (400, True), refusal
        status, refusal = post(client, COMMANDS, {"type": "RerunJob", "rerun_of": "one", "parameters": {"day": "soon"}})
        assert (status, "must be a date, not 'soon'" in refusal["errors"][0]) == (400, True), refusal
        status, refusal = post(client, "/eventflink/v1/dry-run", {"type": "SubmitJob", "document": DAILY})
        assert (status, "parameter 'day': it has neither" in refusal["errors"][0]) == (400, True), refusal
        wanted = {"type": "SubmitJob", "document": DAILY, "parameters": {"day": "2026-11-25"}}
        assert post(client, "/eventflink/v1/dry-run", wanted)[1]["body"]["accepted"]
    assert len(cluster.events(JobSubmitted)) == 3


def test_a_form_submits_as_well_and_with_code_that_cannot_be_it_names_the_file() -> None:
    cluster = cluster_with_a_job()

    def file(name: str, field: str = "code") -> tuple[str, tuple[str | None, bytes]]:
        return field, (name, b"x = 1")

    with commanding_client(cluster) as client:
        answer = client.post(JOBS, data={"job_id": "mine"}, files=[("document", (None, DOCUMENT.encode())), file("__pycache__/a.pyc")])
        assert (answer.status_code, answer.json()["job_id"]) == (200, "mine")
        for files, says in (
            ([file("../a.py")], "code.0: '../a.py'"),
            ([file("/etc/a.py")], "code.0: '/etc/a.py'"),
            ([file("__init__.py")], "code.0: '__init__.py'"),
            ([file("a.py"), file("a.py")], "code.1: 'a.py': another file"),
            ([file("a.py"), file("a.py/b.py")], "code.1: 'a.py/b.py': another file"),
            ([file("a/b.py"), file("a")], "code.1: 'a': another file"),
            ([file("a.py", "kode")], "body.kode"),
            ([file(f"{number}.py") for number in range(101)], "Too many files"),
            ([(f"field{number}", (None, b"")) for number in range(21)], "Too many fields"),
            ([("job_id", (None, b"#" * 1_100_000))], "maximum size"),
            ([("job_id", (None, "café".encode("latin-1")))], "the form cannot be read: job_id: not UTF-8: unexpected end"),
            ([("document", (None, b"{}"))], "body.document: the field stands twice in the form"),
        ):
            answer = client.post(JOBS, data={"document": DOCUMENT}, files=files)
            assert (answer.status_code, says in answer.json()["errors"][0]) == (400, True), answer.text
    assert [event.job_id for event in cluster.events(JobSubmitted)] == ["job", "mine"]


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain", None])
def test_every_body_is_json_whatever_it_is_called_and_says_nothing_twice(content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    with commanding_client(cluster_with_a_job()) as client:
        paths = client.get("/eventflink/v1/openapi.json").json()["paths"]
        operations = [(path, method) for path, methods in paths.items() for method, each in methods.items() if "requestBody" in each]
        assert len(operations) > 12
        for path, method in operations:
            answer = client.request(method, re.sub("{.*?}", "job", path), content=b'{"type": "x", "type": "y"}', headers=headers)
            says = "send a form" if path.endswith("/jars/upload") else "type: the key stands twice in its mapping (line 1, column 15)"
            assert (answer.status_code, says in answer.json()["errors"][0]) == (400, True), (method, path, answer.text)


@pytest.mark.parametrize("path", [JOBS, "/jars/upload"])
@pytest.mark.parametrize("charset", ["undefined", "punycode", "utf-16", "latin-1", "no-such"])
def test_a_form_is_utf_8(path: str, charset: str) -> None:
    def form(name: bytes) -> bytes:
        return b'--X\r\nContent-Disposition: form-data; name="' + name + b'"; filename="a.py"\r\n\r\nx\r\n--X--\r\n'

    with commanding_client(cluster_with_a_job()) as client:
        for name, said, says in ((b"code", charset, "its charset is not UTF-8"), (b"caf\xe9", "utf-8", "a name: not UTF-8: invalid")):
            answer = client.post(path, content=form(name), headers={"Content-Type": f"multipart/form-data; boundary=X; charset={said}"})
            assert answer.status_code == 400
            assert answer.json()["errors"][0].startswith(f"the form cannot be read: {says}")


def test_so_many_uploads_are_under_way_and_no_more() -> None:
    with commanding_client(cluster_with_a_job()) as client, ExitStack() as under_way:
        turns = client.app.state.services.turns  # type: ignore[attr-defined]
        for _ in range(MAX_UPLOADS):
            under_way.enter_context(turns.take())
        form = {"files": [("document", (None, DOCUMENT.encode()))]}
        refused = client.post(JOBS, **form)  # type: ignore[arg-type]
        assert (refused.status_code, refused.json()["errors"]) == (503, ["4 uploads are under way: try again later"])
        under_way.close()
        assert client.post(JOBS, **form).status_code == 200  # type: ignore[arg-type]


def test_a_job_that_is_there_already_is_a_conflict() -> None:
    with commanding_client(cluster_with_a_job()) as client:
        status, answer = post(client, JOBS, {"document": DOCUMENT, "job_id": "job"})
    assert status == 409
    assert "job" in answer["errors"][0]


def test_a_document_is_looked_at_without_being_submitted() -> None:
    cluster = cluster_with_a_job()
    accepted = len(cluster.events(RequestAccepted))
    with commanding_client(cluster) as client:
        assert post(client, f"{JOBS}/validate", {"document": DOCUMENT}) == (
            200,
            {
                "valid": True,
                "problems": [],
                "graph": {
                    "name": "from a page",
                    "vertices": [{"vertex_id": "only", "type": "SQL", "parallelism": 1, "stream": False}],
                    "edges": [],
                    "parameters": [],
                },
            },
        )
        status, answer = post(client, f"{JOBS}/validate", {"document": {"name": "n", "vertices": [{"id": "a", "sqll": ""}]}})
    assert (status, answer["valid"], answer["graph"]) == (200, False, None)
    assert "sqll" in answer["problems"][0]
    assert len(cluster.events(RequestAccepted)) == accepted
