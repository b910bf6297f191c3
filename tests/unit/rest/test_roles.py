"""Each route needs a role, and gives way to it and those above it alone; a route that nobody has given one cannot be served."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from eventflink.events.log_events import JobSubmitted
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.upkeep_events import ClusterShutdownRequested
from eventflink.events.wording import details_of, subject_of
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.roles import PUBLIC, ROLES, RouteWithoutRole
from eventflink.rest.application import OWN_PREFIX, assemble
from eventflink.rest.archived import application as archived
from eventflink.rest.archived import pages as archived_pages
from eventflink.rest.own import present_masters, topics
from tests.support.cluster import ScriptedCluster
from tests.support.rest_client import commanding_client
from tests.support.rest_tokens import NAMES, TokensOfThree, tokens_of_three

SEALS = Seals((b"the secret of this cluster, 32 chars",))
DOCUMENT = "name: one\nvertices: [{id: only, sql: SELECT 1}]"
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokensOfThree:
    return tokens_of_three(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def client(tokens: TokensOfThree) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch, commanding_client(ScriptedCluster(), **tokens.configuration) as client:
        for module in (topics, present_masters):
            patch.setattr(module, "KAFKA_TIMEOUT_S", 0.05)  # There is no Kafka to wait for.
        client.app.state.services.state.close()  # type: ignore[attr-defined] # A stream of changes ends at once.
        yield client


def routes(client: TestClient) -> list[tuple[str, str]]:
    """Return method and path of every route that the application really has."""
    contexts = list(iter_route_contexts(client.app.routes))  # type: ignore[attr-defined]
    assert all(context.path and context.methods for context in contexts), "a route of another kind, which nothing guards"
    return sorted((method, context.path) for context in contexts for method in context.methods if context.path)  # type: ignore[union-attr]


def path_of(template: str) -> str:
    return re.sub(r"\{[^}]+\}", "0", template)


def needed_role(method: str, template: str) -> AccessRole | None:
    """Return the role in the table; that of HEAD is that of GET."""
    name = f"{'GET' if method == 'HEAD' else method} {template.removeprefix('/v1')}"
    return None if name in PUBLIC else ROLES[name]


def test_every_route_gives_way_to_the_roles_of_the_table_alone(client: TestClient, tokens: TokensOfThree) -> None:
    for method, template in routes(client):
        needed, path = needed_role(method, template), path_of(template)
        nobody = client.request(method, path)
        assert (nobody.status_code == 401) == (needed is not None), (method, path, nobody.text)
        for role in AccessRole:
            answer = client.request(method, path, headers=tokens.headers(role))
            if needed is None or role.covers(needed):
                assert answer.status_code not in (401, 403, 500), (method, path, role, answer.text)
            else:
                says = {"errors": [f"this needs the role {needed}, and {NAMES[role]} is {role}"]}
                assert (answer.status_code, answer.json()) == (403, says), (method, path, role)


def test_what_is_no_route_is_shown_to_nobody_without_a_token(client: TestClient, tokens: TokensOfThree) -> None:
    taken = {path for _, path in routes(client)}
    for method in METHODS:
        for path in ("/nothing", "/v1", "/v1/v1/jobs", "/jobs/", "/%2Fjobs", "/uix/app.js", "/eventflink/v1/login/", "/JOBS"):
            assert path not in taken
            assert client.request(method, path).status_code == 401, (method, path)
    assert client.get("/nothing", headers=tokens.headers(AccessRole.VIEWER)).status_code == 404


def test_pages_and_scripts_are_shown_to_everybody_and_nothing_else_that_is_below_their_path(client: TestClient) -> None:
    for path in ("/", "/ui", "/ui/", "/ui/index.html"):
        assert client.get(path).status_code == 200
    assert client.get("/ui/../jobs").status_code == client.post("/ui/").status_code == 401
    assert client.get("/ui/%2e%2e/jobs", follow_redirects=False).status_code == 404


def test_a_command_that_comes_as_a_document_needs_its_own_role(client: TestClient, tokens: TokensOfThree) -> None:
    body = {"type": "ShutDownCluster"}
    for role, status in ((AccessRole.VIEWER, 403), (AccessRole.OPERATOR, 403), (AccessRole.ADMIN, 200)):
        assert client.post("/eventflink/v1/commands", json=body, headers=tokens.headers(role)).status_code == status


def test_what_is_at_a_path_under_another_method_is_shown_to_nobody_without_a_token(client: TestClient) -> None:
    there = set(routes(client))
    for path in {path for _, path in there}:
        for method in METHODS:
            if (method, path) not in there:
                assert client.request(method, path_of(path)).status_code == 401, (method, path)


def test_the_table_has_no_route_that_is_not_there(client: TestClient) -> None:
    there = {f"{method} {path.removeprefix('/v1')}" for method, path in routes(client)}
    of_archives = [*archived.own.routes, *archived_pages.router.routes]
    of_history_server = {f"GET {OWN_PREFIX}{getattr(route, 'path', '')}" for route in of_archives}
    assert sorted((set(ROLES) | PUBLIC) - there - of_history_server) == []


def test_what_only_reads_is_a_viewers_and_what_changes_something_is_not() -> None:
    for route, role in ROLES.items():
        if not route.startswith("GET "):
            assert role is not AccessRole.VIEWER, route


@pytest.mark.parametrize("own", [False, True])
def test_a_route_without_a_role_cannot_be_served(*, own: bool) -> None:
    router = APIRouter()

    @router.get("/secrets")
    async def secrets() -> None:
        """Give them away."""

    with pytest.raises(RouteWithoutRole, match=r"GET (/eventflink/v1)?/secrets has no role"):
        assemble(() if own else (router,), (router,) if own else (), lambda *_: pytest.fail("nobody reads"))


def test_what_is_no_route_of_an_api_cannot_be_served_either() -> None:
    router = APIRouter()
    router.mount("/jobs", FastAPI())
    with pytest.raises(RouteWithoutRole, match="nothing can tell who may use it"):
        assemble((router,), (), lambda *_: pytest.fail("nobody reads"))


@pytest.mark.rule("L6")
@pytest.mark.parametrize(("seals", "actor"), [(SEALS, "ada"), (NO_SEALS, "ada (declared)")])
def test_the_actor_of_a_command_is_whose_token_it_is_and_the_secret_proves_it(tmp_path: Path, seals: Seals, actor: str) -> None:
    tokens, cluster = tokens_of_three(tmp_path), ScriptedCluster(seals=seals)
    with commanding_client(cluster, **tokens.configuration) as client:
        stop = {"type": "ShutDownCluster", "actor": "somebody else"}
        foreseen = client.post("/eventflink/v1/dry-run", json=stop, headers=tokens.headers(AccessRole.ADMIN)).json()["body"]["events"]
        assert client.post("/eventflink/v1/jobs", json={"document": DOCUMENT}, headers=tokens.headers(AccessRole.ADMIN)).status_code == 200
        assert client.delete("/cluster", headers=tokens.headers(AccessRole.ADMIN)).status_code == 200
    assert [event.actor for event in cluster.events(JobSubmitted)] == [actor]
    [ended] = cluster.events(ClusterShutdownRequested)
    assert ended.actor == actor
    assert {"type": "ClusterShutdownRequested", "subject": subject_of(ended), "details": details_of(ended)} in foreseen
    assert [decision.actor for decision in cluster.decisions() if decision.actor] == [actor, actor]


@pytest.mark.rule("L6")
def test_where_nobody_shows_a_token_the_secret_of_the_cluster_proves_no_name() -> None:
    cluster = ScriptedCluster(seals=SEALS)
    with commanding_client(cluster) as client:
        foreseen = client.post("/eventflink/v1/dry-run", json={"type": "ShutDownCluster"}).json()["body"]["events"]
        assert any("by rest (declared)" in event["details"] for event in foreseen)
        assert client.delete("/cluster").status_code == 200
    assert [event.actor for event in cluster.events(ClusterShutdownRequested)] == ["rest (declared)"]
