"""Who asks is told by a token in the header, or by the session of a browser; whoever is nobody learns nothing, and guesses slowly."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from starlette.types import Receive, Scope, Send

from eventflink.model.configuration import load_configuration
from eventflink.rest.access import guard
from eventflink.rest.access.authentication import FAILURES_AT_ONCE, Authentication
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.rates import Rates, peer_of
from eventflink.rest.access.sessions import LIFETIME_S, MAX_SESSIONS, MAX_SESSIONS_OF_ONE, Sessions
from eventflink.rest.access.tokens import configured_tokens
from tests.support.cluster import ScriptedCluster, replay
from tests.support.rest_client import rest_client
from tests.support.rest_tokens import TokensOfThree, tokens_of_three

IDENTITY: Final = "/eventflink/v1/identity"
LOGIN: Final = "/eventflink/v1/login"
LOGOUT: Final = "/eventflink/v1/logout"
OURS: Final = {"Origin": "http://localhost"}
SAME_ORIGIN: Final = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def tokens(tmp_path: Path) -> TokensOfThree:
    return tokens_of_three(tmp_path)


@pytest.fixture
def client(tokens: TokensOfThree) -> Iterator[TestClient]:
    with rest_client(replay(ScriptedCluster().log), **tokens.configuration) as client:
        yield client


def log_in(client: TestClient, token: str, **headers: str) -> Response:
    return client.post(LOGIN, json={"token": token}, headers=headers)


def test_without_tokens_everybody_is_who_may_do_everything_and_nobody_logs_in() -> None:
    with rest_client(replay(ScriptedCluster().log)) as client:
        answer = client.get(IDENTITY, headers={"Authorization": "Bearer whatever"}).json()
        assert (answer["name"], answer["role"], answer["needs_tokens"]) == ("rest", "admin", False)
        refused = log_in(client, "eft_whatever")
        assert (refused.status_code, refused.json()) == (409, {"errors": ["this process has no tokens: nobody needs to log in"]})


def test_one_learns_who_one_is_and_what_that_role_may(client: TestClient, tokens: TokensOfThree) -> None:
    answer = client.get(IDENTITY, headers=tokens.headers(AccessRole.OPERATOR)).json()
    assert (answer["name"], answer["role"], answer["roles"], answer["session"]) == ("oscar", "operator", ["viewer", "operator"], False)
    assert (answer["needed"]["PATCH /jobs/{jobid}"], answer["needed"]["DELETE /cluster"]) == ("operator", "admin")
    assert "GET /jobs" not in answer["needed"]


def test_a_token_that_is_not_valid_and_none_say_nothing_of_whom_there_is(client: TestClient, tokens: TokensOfThree) -> None:
    good = tokens.tokens[AccessRole.ADMIN]
    digest = tokens.file.read_text().split()[-1]
    answers = [
        client.get("/jobs", headers={"Authorization": value})
        for value in (
            "Bearer x",
            f"Bearer {good}x",
            f"Bearer {digest}",
            "Bearer ada",
            f"Basic {good}",
            good,
            "Bearer",
            f"Bearer {good} {good}",
        )
    ]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, '{"errors":["the token is not valid"]}')}
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {'Bearer realm="eventflink"'}
    none = client.get("/jobs")
    assert none.status_code == 401
    assert "this needs a token" in none.json()["errors"][0]
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="eventflink"'


def test_two_tokens_are_none(client: TestClient, tokens: TokensOfThree) -> None:
    value = tokens.headers(AccessRole.ADMIN)["Authorization"]
    assert client.get("/jobs", headers=[("Authorization", value), ("Authorization", value)]).status_code == 401
    assert client.get("/jobs", headers={"Authorization": value.replace("Bearer", "bearer")}).status_code == 200


def test_a_session_is_a_cookie_that_no_script_and_no_other_site_has(client: TestClient, tokens: TokensOfThree) -> None:
    answer = log_in(client, tokens.tokens[AccessRole.OPERATOR])
    assert (answer.status_code, answer.json()["name"], answer.json()["session"]) == (200, "oscar", True)
    name, _, rest = answer.headers["Set-Cookie"].partition("=")
    value, *attributes = rest.split("; ")
    assert name == "eventflink-session"
    assert {each.lower() for each in attributes} == {"httponly", "path=/", "samesite=strict"}
    assert len(value) >= 43
    assert tokens.tokens[AccessRole.OPERATOR] not in answer.headers["Set-Cookie"]
    assert client.get(IDENTITY).json()["name"] == "oscar"
    assert client.get("/jobs").status_code == 200
    assert client.get("/jobs", headers={"Authorization": "Bearer x"}).status_code == 401


def test_under_tls_the_cookie_is_sent_under_tls_alone_and_each_port_has_its_own(tokens: TokensOfThree) -> None:
    with rest_client(replay(ScriptedCluster().log), **tokens.configuration) as client:
        client.base_url = "https://localhost:8443"
        cookie = log_in(client, tokens.tokens[AccessRole.VIEWER]).headers["Set-Cookie"]
        assert cookie.startswith("__Host-eventflink-8443=")
        assert {"secure", "path=/"} <= {each.strip().lower() for each in cookie.split(";")}
        assert "domain" not in cookie.lower()
        assert client.get("/jobs").status_code == 200


def test_after_a_logout_the_cookie_is_worth_nothing(client: TestClient, tokens: TokensOfThree) -> None:
    log_in(client, tokens.tokens[AccessRole.VIEWER])
    [(name, value)] = client.cookies.items()
    answer = client.post(LOGOUT, headers=OURS)
    assert (answer.json(), answer.headers["Clear-Site-Data"]) == ({}, '"cache"')
    assert not client.cookies
    assert client.get("/jobs", headers={"Cookie": f"{name}={value}"}).status_code == 401
    assert client.post(LOGOUT).status_code == 200


def test_who_logs_in_again_has_another_session_and_the_one_before_is_over(client: TestClient, tokens: TokensOfThree) -> None:
    log_in(client, tokens.tokens[AccessRole.VIEWER])
    [(name, value)] = client.cookies.items()
    assert log_in(client, tokens.tokens[AccessRole.ADMIN], **OURS).json()["name"] == "ada"
    assert client.cookies[name] != value
    assert client.get("/jobs", headers={"Cookie": f"{name}={value}"}).status_code == 401


def test_a_session_ends_with_its_token_and_has_the_role_that_it_has_now(client: TestClient, tokens: TokensOfThree) -> None:
    log_in(client, tokens.tokens[AccessRole.ADMIN])
    assert client.get("/jobmanager/config", headers=SAME_ORIGIN).status_code == 200
    text = tokens.file.read_text()
    tokens.file.write_text(text.replace("ada admin", "ada viewer"))
    assert client.get("/jobmanager/config", headers=SAME_ORIGIN).json()["errors"] == ["this needs the role admin, and ada is viewer"]
    tokens.file.write_text(text.replace("ada admin", "another admin"))  # Digests may have these letters too.
    assert client.get(IDENTITY).json()["name"] == "another"
    tokens.file.write_text("")
    assert client.get("/jobs").status_code == 401
    tokens.file.write_text(text)
    assert client.get("/jobs").status_code == 401


def test_a_login_that_is_none_begins_no_session(client: TestClient) -> None:
    bodies: tuple[Any, ...] = ({}, {"token": ""}, {"token": "x" * 4097}, {"token": 7}, {"token": "x", "name": "ada"}, ["x"], "x")
    for body in bodies:
        answer = client.post(LOGIN, json=body)
        assert answer.status_code == 400, body
        assert "Set-Cookie" not in answer.headers


def test_a_login_that_is_no_text_is_refused_and_not_repeated(client: TestClient) -> None:
    for body in (b'{"token": "\\ud83d"}', b'{"token": "secret', b"\xff", b""):
        answer = client.post(LOGIN, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert "secret" not in answer.text


def test_a_login_with_a_wrong_token_begins_no_session(client: TestClient) -> None:
    for token in ("x", "ä", chr(0x1F600), "a\nb", "eft_ "):
        answer = log_in(client, token)
        assert (answer.status_code, answer.json()) == (401, {"errors": ["the token is not valid"]})
        assert "Set-Cookie" not in answer.headers


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_sessions_end_by_themselves_and_are_bounded() -> None:
    clock = Clock()
    kept = Sessions(clock)
    first = kept.begin("ada", "t")
    clock.now += LIFETIME_S - 1
    assert kept.token_of(first) == "t"
    clock.now += 1
    assert kept.token_of(first) is None
    mine = [kept.begin("ada", "t") for _ in range(MAX_SESSIONS_OF_ONE + 1)]
    assert [kept.token_of(each) for each in mine] == [None] + ["t"] * MAX_SESSIONS_OF_ONE
    for number in range(2 * MAX_SESSIONS):
        kept.begin(f"user{number}", "t")
    assert len(kept) == MAX_SESSIONS


def test_whoever_guesses_is_sent_away_and_who_was_let_in_before_is_not(client: TestClient, tokens: TokensOfThree) -> None:
    known, unknown = tokens.headers(AccessRole.VIEWER), tokens.headers(AccessRole.ADMIN)
    assert client.get("/jobs", headers=known).status_code == 200
    statuses = [client.get("/jobs", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(FAILURES_AT_ONCE + 5)]
    assert statuses[:FAILURES_AT_ONCE] == [401] * FAILURES_AT_ONCE
    assert statuses[-1] == 429
    for refused in (client.get("/jobs", headers=unknown), log_in(client, tokens.tokens[AccessRole.ADMIN])):
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["Retry-After"]) <= 5
        assert "too many tokens that are not valid" in refused.json()["errors"][0]
    assert client.get("/jobs", headers=known).status_code == 200
    assert client.get("/jobs").status_code == 401


def test_good_tokens_and_stale_sessions_are_no_guesses(client: TestClient, tokens: TokensOfThree) -> None:
    for _ in range(3 * FAILURES_AT_ONCE):
        assert client.get("/jobs", headers={"Cookie": "eventflink-session=stale"}).status_code == 401
        for role in AccessRole:
            assert client.get("/jobs", headers=tokens.headers(role)).status_code == 200


def test_permits_come_again_and_the_keys_are_bounded() -> None:
    clock = Clock()
    rates = Rates(2.0, 3, 10, clock)
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.take("b") == 0
    clock.now += 0.5
    assert (rates.take("a"), rates.take("a")) == (0, 0.5)
    rates.give_back("a")
    assert rates.take("a") == 0
    clock.now += 1_000
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    for number in range(1_000):
        rates.take(str(number))
    assert len(rates) == 10


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("127.0.0.1", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_peer_is_its_address_or_the_network_that_it_has_to_itself(host: str, peer: str) -> None:
    assert peer_of((host, 1)) == peer


def test_who_asks_too_often_is_told_when_to_come_again_and_others_are_not_held_up(tokens: TokensOfThree) -> None:
    with rest_client(replay(ScriptedCluster().log), **tokens.configuration | {"rest.requests-per-second": "1"}) as client:
        statuses = [client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER)).status_code for _ in range(20)]
        assert statuses[:2] == [200, 200]
        assert 429 in statuses
        refused = client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER))
        while refused.status_code != 429:
            refused = client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER))
        assert refused.headers["Retry-After"] == "1"
        assert "vera asks too often" in refused.json()["errors"][0]
        assert client.get("/jobs", headers=tokens.headers(AccessRole.ADMIN)).status_code == 200


def test_no_token_and_no_session_is_ever_logged(client: TestClient, tokens: TokensOfThree, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        log_in(client, tokens.tokens[AccessRole.ADMIN])
        client.get("/jobs")
        client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER))
        client.get("/jobs", headers={"Authorization": "Bearer wrong-token"})
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("eventflink"))
    for secret in (*tokens.tokens.values(), *client.cookies.values(), "wrong-token"):
        assert secret not in ours


def test_an_answer_that_goes_on_ends_when_its_token_does(tokens: TokensOfThree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "RECHECK_S", 0.0)
    sent: list[Any] = []

    async def changes(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await asyncio.sleep(0.001)

    async def take(message: Any) -> None:
        sent.append(message)
        if len(sent) == 10:
            tokens.file.write_text("")

    async def follow() -> None:
        tokens_of = configured_tokens(load_configuration(None, tokens.configuration))
        headers = [(b"host", b"localhost"), (b"authorization", tokens.headers(AccessRole.VIEWER)["Authorization"].encode())]
        scope = {"type": "http", "method": "GET", "path": "/changes", "headers": headers, "client": ("127.0.0.1", 1)}
        async with asyncio.timeout(120):
            await guard.Guard(changes, guard.Admission(Authentication(tokens_of)))(scope, asyncio.Event().wait, take)  # type: ignore[arg-type]

    asyncio.run(follow())
    assert len(sent) == 11
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
