"""A page of another site neither commands nor reads, whoever's browser it is open in; and what is answered does no harm in a browser."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from fastapi.testclient import TestClient

from eventflink.rest.access.browsers import content_security_policy
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.roles import COMMAND_ROLES, ROLES
from eventflink.rest.dashboard_files import import_map_hash
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.rest_client import commanding_client
from tests.support.rest_tokens import TokensOfThree, tokens_of_three

ORDERS_BY_GET: Final = sorted(route for route, role in ROLES.items() if route.startswith("GET ") and role is not AccessRole.VIEWER)
OTHER_SITES: Final[tuple[dict[str, str], ...]] = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "http://evil.example/http://localhost"},
    {"Origin": "null"},
    {"Origin": "http://[::1"},
    {"Referer": "http://evil.example/localhost"},
    {"Origin": "http://localhost", "Referer": "http://evil.example/"},
)
OURS: Final[tuple[dict[str, str], ...]] = (
    {"Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://localhost"},
    {"Origin": "http://LOCALHOST", "Sec-Fetch-Site": "same-origin", "Referer": "http://localhost/ui/"},
)


@pytest.fixture
def cluster() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=8)
    cluster.submit(graph(vertex("a")), job_id="job")
    return cluster


@pytest.fixture
def tokens(tmp_path: Path) -> TokensOfThree:
    return tokens_of_three(tmp_path)


@pytest.fixture(params=["nobody is asked", "cookie"])
def client(request: pytest.FixtureRequest, cluster: ScriptedCluster, tokens: TokensOfThree) -> Iterator[TestClient]:
    """Give a browser: it sends what lets its user in, whatever page asks it to."""
    with_tokens = request.param == "cookie"
    with commanding_client(cluster, **(tokens.configuration if with_tokens else {})) as client:
        if with_tokens:
            assert client.post("/eventflink/v1/login", json={"token": tokens.tokens[AccessRole.ADMIN]}).status_code == 200
        yield client


def test_another_page_leaves_nothing_in_the_log(client: TestClient, cluster: ScriptedCluster) -> None:
    count = len(cluster.log)
    orders = (
        ("PATCH", "/jobs/job"),
        ("GET", "/jobs/job/yarn-cancel"),
        ("GET", "/v1/taskmanagers/tm/log"),
        ("GET", "/taskmanagers/tm/thread-dump"),
        ("POST", "/jobs/job/checkpoints"),
        ("POST", "/eventflink/v1/commands"),
        ("POST", "/eventflink/v1/login"),
        ("DELETE", "/v1/cluster"),
    )
    for (method, path), headers in itertools.product(orders, OTHER_SITES):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 403, (method, path, headers)
        assert "a page of another site" in answer.json()["errors"][0]
    assert len(cluster.log) == count


def test_our_own_page_commands(client: TestClient) -> None:
    for headers in OURS:
        assert client.get("/jobs/job/yarn-cancel", headers=headers).status_code == 202
        assert client.patch("/jobs/job", headers=headers).status_code == 202


def test_no_link_of_another_page_orders_by_get(client: TestClient) -> None:
    assert len(ORDERS_BY_GET) >= 10
    follows_link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for route in ORDERS_BY_GET:
        path = route.partition(" ")[2].replace("{", "").replace("}", "")
        assert client.get(path, headers=follows_link).status_code == 403, path


def test_a_cookie_that_comes_without_a_word_of_its_page_changes_nothing(cluster: ScriptedCluster, tokens: TokensOfThree) -> None:
    count = len(cluster.log)
    with commanding_client(cluster, **tokens.configuration) as client:
        client.post("/eventflink/v1/login", json={"token": tokens.tokens[AccessRole.ADMIN]})
        for method, path in (("PATCH", "/jobs/job"), ("GET", "/jobs/job/yarn-cancel"), ("DELETE", "/cluster")):
            answer = client.request(method, path)
            assert answer.status_code == 403
            assert "neither Origin nor Sec-Fetch-Site" in answer.json()["errors"][0]
        assert len(cluster.log) == count
        assert client.get("/jobs").status_code == 200
        client.cookies.clear()
        assert client.patch("/jobs/job", headers=tokens.headers(AccessRole.OPERATOR)).status_code == 202


def test_another_page_reads_and_embeds_nothing_and_its_links_lead_here(client: TestClient) -> None:
    read = [{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode} for site in ("cross-site", "same-site") for mode in ("no-cors", "cors")]
    embedded = [{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": kind} for kind in ("iframe", "object")]
    for headers in (*read, *embedded):
        assert client.get("/jobs/overview", headers=headers).status_code == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/ui/", headers=link).status_code == client.get("/jobs/overview", headers=link).status_code == 200


@pytest.mark.parametrize(("query", "header"), [("", "x" * 70_000), ("x" * 40_000, "x" * 40_000)])
def test_a_head_that_comes_at_once_is_bounded_as_one_that_comes_in_parts(client: TestClient, query: str, header: str) -> None:
    refused = client.get(f"/config?{query}", headers={"X-Long": header})
    assert (refused.status_code, refused.json()) == (431, {"errors": ["the head of the request is longer than 65536 bytes"]})


def test_a_name_that_is_not_ours_is_refused(client: TestClient) -> None:
    names = [
        "evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "",
        "[::1",
        "127.0.0.1.nip.io:80",
    ]
    for host in (*names, "10.0.0.1", "localhost/evil", "localhost."):
        answer = client.get("/jobs", headers={"Host": host})
        assert answer.status_code == 403, host
        assert "localhost alone" in answer.json()["errors"][0]


def test_several_names_at_once_are_refused(client: TestClient) -> None:
    assert client.get("/jobs", headers=[("Host", "localhost"), ("Host", "localhost")]).status_code == 403


def test_the_names_of_the_configuration_are_ours_too(cluster: ScriptedCluster) -> None:
    with commanding_client(cluster, **{"rest.address": "Flink.Example.org, other"}) as client:
        for host in ("flink.example.org", "FLINK.example.org:8443", "other", "localhost:8081", "127.0.0.1", "[::1]:8081"):
            assert client.get("/jobs", headers={"Host": host}).status_code == 200
        assert client.get("/jobs", headers={"Host": "example.org"}).status_code == 403


def test_every_answer_forbids_what_browsers_need_not_do(client: TestClient) -> None:
    answers = [
        client.get("/jobs"),
        client.get("/nothing"),
        client.get("/jobs", headers={"Host": "evil.example"}),
        client.post("/jobs/job/savepoints", content=b"{"),
        client.post("/jobs", headers={"Content-Length": "9999999999"}),
        client.delete("/jobs"),
        client.get("/jobs/job?x=" + "y" * 1000),
    ]
    assert {answer.status_code for answer in answers} > {200, 403, 413}
    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = answer.headers["Content-Security-Policy"]
        assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert "unsafe" not in policy
        assert not any(name.startswith("access-control-") for name in answer.headers)


def test_a_failure_of_the_process_is_answered_like_everything(client: TestClient) -> None:
    del client.app.state.reads  # type: ignore[attr-defined]
    answer = client.get("/jobs")
    assert answer.status_code == 500
    assert list(answer.json()) == ["errors"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_dashboards_document_may_run_its_import_map_and_no_other_inline_script(client: TestClient) -> None:
    for path in ("/ui/", "/ui/jobs/job"):
        answer = client.get(path, headers={"Accept": "text/html"})
        assert answer.headers["Content-Security-Policy"] == content_security_policy(import_map_hash())
        assert f"script-src 'self' '{import_map_hash()}';" in answer.headers["Content-Security-Policy"]
    assert content_security_policy("sha256-a", "sha256-b").count("'sha256-") == 2


def test_commands_as_documents_are_held_to_the_role_of_what_they_command(cluster: ScriptedCluster, tokens: TokensOfThree) -> None:
    documents = {"BlockTaskManager": {"task_manager_id": "tm", "reason": "why"}, "UnblockTaskManager": {"task_manager_id": "tm"}}
    admins = {kind.__name__ for kind, role in COMMAND_ROLES.items() if role is AccessRole.ADMIN}
    assert admins == {*documents, "ShutDownCluster"}
    count = len(cluster.log)
    with commanding_client(cluster, **tokens.configuration) as client:
        for kind in sorted(admins):
            document = {"type": kind, **documents.get(kind, {})}
            answer = client.post("/eventflink/v1/commands", json=document, headers=tokens.headers(AccessRole.OPERATOR))
            assert (answer.status_code, answer.json()["errors"]) == (403, ["this needs the role admin, and oscar is operator"])
        assert len(cluster.log) == count
        cancel = {"type": "CancelJob", "job_id": "job", "actor": "somebody else"}
        assert client.post("/eventflink/v1/commands", json=cancel, headers=tokens.headers(AccessRole.OPERATOR)).status_code == 200
    assert [decision.actor for decision in cluster.decisions()][-1] == "oscar (declared)"
