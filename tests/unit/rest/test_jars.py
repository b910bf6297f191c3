"""Flink's clients upload and run bundles as jars: options have Flink's meaning or are refused, and whatever is refused reaches nobody."""

import io
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from eventflink.events.log_events import JobSubmitted
from eventflink.jobs.bundle import BundleError
from eventflink.rest import jar_store
from tests.support.bundles import DOCUMENT, SQL_ONLY, bundle
from tests.support.cluster import ScriptedCluster
from tests.support.rest_client import commanding_client

PARAMETERS = """
name: rows
vertices:
  - {id: a, sql: SELECT 1, parallelism: 3, parameters: {limit: 10, ratio: 0.5, exact: false, directory: /data, tags: [x], other: null}}
  - {id: b, sql: SELECT 2, parameters: {limit: 20}}
"""


def upload(client: TestClient, data: bytes, name: str = "job.jar") -> str:
    """Return the id of a bundle."""
    answer = client.post("/jars/upload", files={"jarfile": (name, data, "application/x-java-archive")})
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "success"
    return str(answer.json()["filename"].rpartition("/")[2])


def refusal(client: TestClient, method: str, path: str, **sent: Any) -> tuple[int, str]:
    answer = client.request(method, path, **sent)
    return answer.status_code, answer.json()["errors"][0]


def test_a_bundle_is_listed_with_its_jobs_planned_run_and_deleted_and_its_job_goes_on() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    with commanding_client(cluster) as client:
        assert client.get("/jars").json() == {"address": "http://localhost", "files": []}
        jar = upload(client, bundle({"job.yaml": SQL_ONLY, "another.yaml": DOCUMENT}))
        [listed] = client.get("/v1/jars").json()["files"]
        assert (listed["id"], listed["name"], listed["uploaded"] > 0) == (jar, "job.jar", True)
        jobs = [{"name": "job.yaml", "description": "numbers"}, {"name": "another.yaml", "description": "greetings"}]
        assert listed["entry"] == jobs
        plan = client.get(f"/jars/{jar}/plan", params={"entry-class": "another", "parallelism": 3}).json()["plan"]
        assert (plan["name"], plan["type"]) == ("greetings", "BATCH")
        assert [(node["id"], node["parallelism"]) for node in plan["nodes"]] == [("read", 2), ("hello", 3)]
        answer = client.post(f"/jars/{jar}/run", json={"jobId": "a" * 32, "parallelism": 2})
        assert (answer.status_code, answer.json()) == (200, {"jobid": "a" * 32, "applicationId": "a" * 32})
        assert {"id": "a" * 32, "status": "RUNNING"} in client.get("/jobs").json()["jobs"]
        assert client.delete(f"/jars/{jar}").json() == {}
        assert client.get("/jars").json()["files"] == []
        assert client.get("/jobs/" + "a" * 32).json()["vertices"][0]["parallelism"] == 2
    [event] = cluster.events(JobSubmitted)
    assert (event.job_graph.name, event.actor) == ("numbers", "rest (declared)")


def test_a_bundle_runs_as_an_application_which_is_its_job() -> None:
    cluster = ScriptedCluster()
    with commanding_client(cluster) as client:
        jar = upload(client, bundle(), "numbers-1.0.whl")
        answer = client.post(f"/jars/{jar}/run-application", json={"applicationId": "b" * 32, "claimMode": "NO_CLAIM"})
        assert (answer.status_code, answer.json()) == (202, {"applicationid": "b" * 32})
    assert [event.job_id for event in cluster.events(JobSubmitted)] == ["b" * 32]


def test_the_same_run_under_the_same_id_is_done_once() -> None:
    cluster = ScriptedCluster()
    with commanding_client(cluster) as client:
        jar = upload(client, bundle())
        answers = [client.post(f"/jars/{jar}/run", json={"jobId": "mine"}).json()["jobid"] for _ in range(2)]
        assert answers == ["mine", "mine"]
        assert client.post(f"/jars/{jar}/run", json={"jobId": "mine", "parallelism": 7}).status_code == 409
    assert len(cluster.events(JobSubmitted)) == 1


ARGUMENTS: tuple[tuple[dict[str, str], Any], ...] = (
    ({}, {"programArgsList": ["--limit", "5", "--directory=/other", "--ratio", "2", "--exact", "true", "--tags", '["y"]']}),
    ({}, {"programArgs": "--limit 5 --directory '/other' --ratio 2 --exact true --tags '[\"y\"]'", "programArgsList": []}),
    ({"program-args": "--limit 9"}, {"programArgs": '--limit 5 --directory /other --ratio 2 --exact true --tags [\\"y\\"]'}),
    ({"programArg": '--limit,5,--directory,/other,--ratio,2,--exact,true,--tags,["y"]'}, {"entryClass": "", "parallelism": None}),
    ({"program-args": '--limit 5 --directory /other --ratio 2 --exact true --tags [\\"y\\"]'}, None),
)


def test_arguments_take_the_place_of_the_parameters_of_their_names_and_stay_of_their_kind() -> None:
    cluster = ScriptedCluster()
    with commanding_client(cluster) as client:
        jar = upload(client, bundle({"job.yaml": PARAMETERS}))
        for query, body in ARGUMENTS:
            answer = client.post(f"/jars/{jar}/run", params=query, json=body)
            assert answer.status_code == 200, answer.text
    submitted = [event.job_graph.vertices for event in cluster.events(JobSubmitted)]
    assert len(submitted) == len(ARGUMENTS)
    for first, second in submitted:
        assert first.parameters_json == '{"directory":"/other","exact":true,"limit":5,"other":null,"ratio":2,"tags":["y"]}'
        assert second.parameters_json == '{"limit":5}'


def test_arguments_are_values_of_the_parameters_that_the_job_declares() -> None:
    document = """
name: daily
parameters: {day: {type: date}, least: {type: integer, default: 2}}
vertices: [{id: only, sql: "SELECT :day", parameters: {limit: 10}}]
"""
    cluster = ScriptedCluster()
    with commanding_client(cluster) as client:
        jar = upload(client, bundle({"job.yaml": document}))
        assert client.get(f"/jars/{jar}/plan").status_code == 200
        arguments = ["--day", "2026-11-25", "--least", "5", "--limit", "3"]
        assert client.post(f"/jars/{jar}/run", json={"programArgsList": arguments}).status_code == 200
        for words, says in (
            ([], "parameter 'day': it has neither a default nor a value"),
            (["--day", "soon"], "programArgs: day: must be a date, not 'soon'"),
            (["--dya", "soon"], "neither the job nor a vertex has the parameter 'dya' (did you mean 'day'"),
        ):
            status, said = refusal(client, "POST", f"/jars/{jar}/run", json={"programArgsList": words})
            assert (status, says in said) == (400, True), said
    [event] = cluster.events(JobSubmitted)
    assert {each.name: each.value for each in event.job_graph.parameters} == {"day": "2026-11-25", "least": "5"}
    assert event.job_graph.vertices[0].parameters_json == '{"limit":3}'


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"entryClass": "org.example.Main"}, "document not found in the bundle: 'org.example.Main'; its jobs are job.yaml"),
    ({"parallelism": 0}, "parallelism"),
    ({"parallelism": "many"}, "parallelism"),
    ({"parallelism": True}, "body.parallelism: must be a whole number"),
    ({"programArgsList": ["--limits", "5"]}, "neither the job nor a vertex has the parameter 'limits' (did you mean 'limit'"),
    ({"programArgsList": ["--limit", "five"]}, "limit: 'five' is not of the kind of 10"),
    ({"programArgsList": ["--limit", "true"]}, "limit: 'true' is not of the kind of 10"),
    ({"programArgsList": ["--tags", '[{"a": 1, "a": 2}]']}, "[0].a: the key stands twice in its mapping (line 1, column 11)"),
    ({"programArgsList": ["--exact", "1"]}, "exact: '1' is not of the kind of false"),
    ({"programArgsList": ["input.csv"]}, "'input.csv': an argument is --NAME VALUE"),
    ({"programArgsList": ["--limit"]}, "'--limit' has no value"),
    ({"programArgsList": ["--limit", "1", "--limit=2"]}, "'limit' has two values"),
    ({"programArgs": "--limit 'five"}, "programArgs: No closing quotation"),
    ({"programArgs": "--limit 1", "programArgsList": ["--limit", "1"]}, "programArgs and programArgsList"),
    ({"flinkConfiguration": {"parallelism.default": "3"}}, "flinkConfiguration: parallelism.default"),
    ({"claimMode": "CLAIM"}, "claimMode: 'CLAIM'"),
    ({"restoreMode": "LEGACY"}, "restoreMode: 'LEGACY'"),
    ({"savepointPath": "/nowhere/at/all"}, "/nowhere/at/all"),
    ({"jobId": "no/id"}, "no/id"),
    ({"detached": True}, "detached"),
)


def test_an_option_that_cannot_be_is_refused_by_name_and_reaches_nobody() -> None:
    cluster = ScriptedCluster()
    with commanding_client(cluster) as client:
        jar = upload(client, bundle({"job.yaml": PARAMETERS}))
        for body, says in REFUSED:
            status, said = refusal(client, "POST", f"/jars/{jar}/run", json=body)
            assert (status, says in said) == (400, True), said
    assert not cluster.events(JobSubmitted)


def test_a_parallelism_that_no_vertex_takes_is_refused() -> None:
    with commanding_client(ScriptedCluster()) as client:
        jar = upload(client, bundle({"job.yaml": "name: n\nvertices: [{id: v, sql: SELECT 1, parallelism: 1}]"}))
        assert refusal(client, "POST", f"/jars/{jar}/plan", json={"parallelism": 2}) == (
            400,
            "parallelism: each vertex of the document states its own, and that counts",
        )
        assert refusal(client, "POST", f"/jars/{jar}/run", params={"detached": "true"})[0] == 400


def test_what_is_no_bundle_is_not_taken() -> None:
    with commanding_client(ScriptedCluster()) as client:
        for name, data, says in (
            ("a.jar", bundle({"org/Main.class": ""}), "classes of Java"),
            ("a.jar", b"nonsense", "invalid zip"),
            ("a.tar", bundle(), "invalid name of a job bundle: 'a.tar'"),
            ("../a.jar", bundle(), "invalid name of a job bundle: '../a.jar'"),
            ("a" * 200 + ".jar", bundle(), "invalid name of a job bundle"),
        ):
            status, said = refusal(client, "POST", "/jars/upload", files={"jarfile": (name, data)})
            assert (status, says in said) == (400, True), said
        assert "exactly 1 file must be sent, received 0" in refusal(client, "POST", "/jars/upload", files={"a": (None, "text")})[1]
        two = [("jarfile", ("a.jar", bundle())), ("jarfile", ("b.jar", bundle()))]
        assert refusal(client, "POST", "/jars/upload", files=two)[0] == 400
        assert "multipart/form-data" in refusal(client, "POST", "/jars/upload", content=bundle())[1]
        broken = {"Content-Type": "multipart/form-data; boundary=x"}
        assert refusal(client, "POST", "/jars/upload", content=b"--y\r\n", headers=broken)[0] == 400
        assert client.get("/jars").json()["files"] == []


def test_a_jar_that_is_not_there_is_404_and_no_id_leads_out_of_the_directory(tmp_path: Path) -> None:
    with commanding_client(ScriptedCluster(), **{"web.upload.dir": str(tmp_path)}) as client:
        (tmp_path / "outside.jar").write_bytes(bundle())
        for jar in ("none.jar", "0" * 8 + "-0000-0000-0000-" + "0" * 12 + "_none.jar", "..%2Foutside.jar", "%2e%2e"):
            for method, path in (("POST", "run"), ("POST", "run-application"), ("POST", "plan"), ("GET", "plan"), ("DELETE", "")):
                assert client.request(method, f"/jars/{jar}/{path}".rstrip("/")).status_code == 404, (method, jar)
        assert (tmp_path / "outside.jar").exists()


def test_bundles_of_a_directory_are_shared_and_stay_and_strangers_in_it_are_passed_over(tmp_path: Path) -> None:
    store = jar_store.JarStore(tmp_path / "jars")
    path = store.add("a.zip", io.BytesIO(bundle()))
    (tmp_path / "jars" / path.name.replace("a.zip", "b.zip")).write_bytes(b"nonsense")
    (tmp_path / "jars" / "notes.txt").write_text("")
    other = jar_store.JarStore(tmp_path / "jars")
    assert [jar.jar_id for jar in other.all()] == [path.name]
    other.remove(path.name)
    assert store.all() == []
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_there_are_so_many_bundles_and_no_more_and_what_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar_store, "MAX_JARS", 1)
    store = jar_store.JarStore(tmp_path)
    with pytest.raises(BundleError):
        store.add("a.jar", io.BytesIO(b"nonsense"))
    assert list(tmp_path.iterdir()) == []
    store.add("a.jar", io.BytesIO(bundle()))
    with pytest.raises(jar_store.JarsFull, match="there are 1 bundles"):
        store.add("a.jar", io.BytesIO(bundle()))


def test_a_temporary_directory_ends_with_the_process_s_store() -> None:
    store = jar_store.JarStore(None)
    assert store.all() == []
    path = store.add("a.jar", io.BytesIO(bundle()))
    assert path.exists()
    store.close()
    assert not path.parent.exists()


def test_where_submission_is_disabled_no_jar_is_taken_and_dashboards_offer_none() -> None:
    with commanding_client(ScriptedCluster(), **{"web.submit.enable": "false"}) as client:
        assert client.get("/config").json()["features"]["web-submit"] is False
        for method, path in (("GET", "/jars"), ("POST", "/jars/upload"), ("DELETE", "/jars/a.jar"), ("POST", "/jars/a.jar/run")):
            assert refusal(client, method, path) == (404, "jars are not taken here: web.submit.enable is false")
        assert client.post("/eventflink/v1/jobs", json={"document": SQL_ONLY}).status_code == 200
    with commanding_client(ScriptedCluster()) as client:
        assert client.get("/config").json()["features"]["web-submit"] is True


def test_a_body_is_as_long_as_is_configured_where_files_are_uploaded_and_one_mebibyte_elsewhere() -> None:
    most = 2 * 1024 * 1024
    data = bundle({"job.yaml": SQL_ONLY, "data.bin": bytes(most)}, compression=0)
    with commanding_client(ScriptedCluster(), **{"rest.server.max-content-length": str(most)}) as client:
        status, says = refusal(client, "POST", "/jars/upload", files={"jarfile": ("a.jar", data)})
        assert (status, str(most) in says) == (413, True)
        upload(client, bundle({"job.yaml": SQL_ONLY, "data.bin": bytes(most // 2)}, compression=0))
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        for path, headers in (("/jars/upload", {}), ("/eventflink/v1/commands", form), ("/eventflink/v1/jobs", {})):
            assert refusal(client, "POST", path, content=bytes(most // 2 + 1), headers=headers)[0] == 413, path
