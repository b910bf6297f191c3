"""Whose a token is, a file or a provider says; a file that others may use, or that is wrong, lets nobody in."""

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Final

import pytest
from fastapi.testclient import TestClient

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.model.cluster_access import access_to
from eventflink.model.configuration import Configuration, ConfigurationError, load_configuration
from eventflink.rest.access.identity import AccessRole, Identity
from eventflink.rest.access.tokens import TokenFile, TokensUnusable, configured_tokens, digest_of, mint_token, read_tokens
from eventflink.rest.server import run_rest
from eventflink.rest.serving import RestFailed
from tests.support.cluster import ScriptedCluster, replay
from tests.support.hand import NOWHERE
from tests.support.rest_client import rest_client
from tests.support.rest_tokens import tokens_of_three

DIGEST: Final = digest_of("eft_a")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def written(directory: Path, text: str, mode: int = 0o600) -> Path:
    file = directory / "tokens"
    file.write_text(text)
    file.chmod(mode)
    return file


def owner_of(file: TokenFile, token: str) -> Identity | None:
    return asyncio.run(file.identity_of(token))


def test_a_minted_token_is_its_owners_and_the_file_does_not_have_it(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    token = mint_token(path, "alice", AccessRole.OPERATOR)
    other = mint_token(path, "bob@example.org", AccessRole.VIEWER)
    assert token != other
    assert len(token) >= 40
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    file = TokenFile(path)
    assert owner_of(file, token) == Identity("alice", AccessRole.OPERATOR)
    assert owner_of(file, other) == Identity("bob@example.org", AccessRole.VIEWER)
    assert owner_of(file, token[:-1]) is owner_of(file, digest_of(token)) is None


def test_a_name_has_one_token_and_its_replacement_makes_it_void(tmp_path: Path) -> None:
    path = written(tmp_path, f"# who may\n\nalice viewer {DIGEST}  # since May\nbob admin {digest_of('b')}\n", 0o640)
    with pytest.raises(ValueError, match="'alice' has a token already"):
        mint_token(path, "alice", AccessRole.ADMIN)
    token = mint_token(path, "alice", AccessRole.ADMIN, replace=True)
    assert sorted(read_tokens(path).values(), key=lambda each: each.name) == [
        Identity("alice", AccessRole.ADMIN),
        Identity("bob", AccessRole.ADMIN),
    ]
    assert DIGEST not in read_tokens(path)
    assert digest_of(token) in read_tokens(path)
    assert path.read_text().startswith("# who may\n")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\nb", "x" * 129, "#x", "ä"])
def test_a_name_that_no_log_can_hold_gets_no_token(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="invalid name"):
        mint_token(tmp_path / "tokens", name, AccessRole.VIEWER)
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602, 0o620, 0o777])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, "", mode)
    with pytest.raises(TokensUnusable, match=rf"may be used by others \(mode {mode:04o}\): chmod 600"):
        TokenFile(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    os.chown(path, 65534, -1)
    with pytest.raises(TokensUnusable, match="belongs to another user"):
        read_tokens(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alice admin\n", "line 1: it is not: name, role, SHA-256"),
        (f"\nalice root {DIGEST}\n", "line 2: unknown role: 'root'; known: viewer, operator, admin"),
        (f"alice admin {DIGEST} more\n", "line 1: it is not"),
        ("alice admin eft_the-token-itself\n", "line 1: it is not"),
        (f"al/ice admin {DIGEST}\n", "line 1: invalid name 'al/ice': use 1-128 letters"),
        (f"alice admin {DIGEST}\nalice viewer {digest_of('b')}\n", "line 2: the name or the token stands there twice"),
        (f"alice admin {DIGEST}\nbob viewer {DIGEST.upper()}\n", "line 2: the name or the token stands there twice"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_never_shown(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(TokensUnusable) as refused:
        TokenFile(path)
    assert says in str(refused.value)
    assert "eft_the-token-itself" not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(TokensUnusable, match=r"rest\.tokens-file '"):
            TokenFile(path)


def test_a_changed_file_counts_at_once_and_one_that_is_broken_lets_nobody_in(tmp_path: Path) -> None:
    tokens = tokens_of_three(tmp_path)
    with rest_client(replay(ScriptedCluster().log), **tokens.configuration) as client:
        assert client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER)).status_code == 200
        text = tokens.file.read_text()
        tokens.file.write_text(text.replace("vera viewer", "vera admin"))
        assert client.get("/jobmanager/config", headers=tokens.headers(AccessRole.VIEWER)).status_code == 200
        tokens.file.write_text("".join(line for line in text.splitlines(keepends=True) if "vera" not in line))
        assert client.get("/jobs", headers=tokens.headers(AccessRole.VIEWER)).status_code == 401
        assert client.get("/jobs", headers=tokens.headers(AccessRole.ADMIN)).status_code == 200
        tokens.file.chmod(0o644)
        assert client.get("/jobs", headers=tokens.headers(AccessRole.ADMIN)).status_code == 503
        tokens.file.chmod(0o600)
        assert client.get("/jobs", headers=tokens.headers(AccessRole.ADMIN)).status_code == 200
        tokens.file.unlink()
        assert client.get("/jobs", headers=tokens.headers(AccessRole.ADMIN)).status_code == 503


def test_why_tokens_cannot_be_looked_up_is_for_the_log_once_and_not_for_who_asks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = tokens_of_three(tmp_path)
    with rest_client(replay(ScriptedCluster().log), **tokens.configuration) as client, caplog.at_level(logging.ERROR):
        tokens.file.write_text("garbage\n")
        answers = [client.get("/jobs", headers=tokens.headers(AccessRole.ADMIN)) for _ in range(3)]
        answers.append(client.post("/eventflink/v1/login", json={"token": tokens.tokens[AccessRole.ADMIN]}))
        for answer in answers:
            says = {"errors": ["tokens cannot be looked up right now: the log of this process says why"]}
            assert (answer.status_code, answer.json()) == (503, says)
        [line] = [record.getMessage() for record in caplog.records if record.getMessage().startswith("RestTokensUnusable")]
        assert f"'{tokens.file}', line 1" in line
        assert client.get("/jobs").status_code == 401


class Provider:
    """A provider as a user writes one: the token is the name, and says the role."""

    def __init__(self, configuration: Configuration) -> None:
        self.cluster_id = configuration.cluster_id
        self.asked = 0

    def identity_of(self, token: str) -> Identity | None:
        self.asked += 1
        if token == "raise":
            raise RuntimeError(f"cannot check {token}-the-secret")
        if token == "nonsense":
            return AccessRole.ADMIN  # type: ignore[return-value]
        name, _, role = token.partition(":")
        return Identity(f"{name}@{self.cluster_id}", AccessRole(role)) if role in set(AccessRole) else None


def of_provider(cluster_id: str = "cell") -> dict[str, str]:
    return {"rest.token-provider": f"{__name__}:Provider", "cluster.id": cluster_id}


def identity_shown(client: TestClient, token: str) -> tuple[int, str]:
    answer = client.get("/eventflink/v1/identity", headers=bearer(token))
    return answer.status_code, answer.json().get("name", "")


def test_a_provider_says_whose_a_token_is() -> None:
    with rest_client(replay(ScriptedCluster().log), **of_provider()) as client:
        assert identity_shown(client, "alice:operator") == (200, "alice@cell")
        assert identity_shown(client, "alice:nothing") == (401, "")
        assert client.delete("/cluster", headers=bearer("alice:operator")).status_code == 403
        assert client.post("/eventflink/v1/login", json={"token": "alice:viewer"}).status_code == 200
        assert client.get("/eventflink/v1/identity").json()["name"] == "alice@cell"


@pytest.mark.parametrize("token", ["raise", "nonsense", "a b:admin", "-:admin"])
def test_a_provider_that_fails_lets_nobody_in_and_gives_no_token_away(token: str, caplog: pytest.LogCaptureFixture) -> None:
    with rest_client(replay(ScriptedCluster().log), **of_provider()) as client, caplog.at_level(logging.DEBUG):
        status, _ = identity_shown(client, token)
    assert status == (401 if " " in token else 503)
    assert "the-secret" not in caplog.text


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere.at.all:Provider", "made no provider"), (f"{__name__}:DIGEST", "made no provider"), ("builtins:id", "has no identity_of")],
)
def test_what_is_no_provider_is_named(name: str, says: str) -> None:
    with pytest.raises(TokensUnusable, match=says):
        configured_tokens(load_configuration(None, {"rest.token-provider": name}))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"rest.bind-address": "0.0.0.0"}, "needs security.ssl.rest.enabled"),
        ({"rest.bind-address": "10.0.0.1", "security.ssl.rest.enabled": "true"}, "rest.tokens-file or rest.token-provider"),
        ({"rest.bind-address": "10.0.0.1", "rest.tokens-file": "/tokens"}, "needs security.ssl.rest.enabled"),
        (
            {"rest.bind-address": "::", "rest.tokens-file": "/tokens", "security.ssl.rest.enabled": "true"},
            "set rest.address to the names that clients use",
        ),
        ({"rest.tokens-file": "/tokens", "rest.token-provider": "a:B"}, "exclude each other: set one of them"),
        ({"rest.token-provider": "provider"}, "package.module:Provider"),
        ({"security.ssl.rest.key": "/key.pem"}, "belong together"),
        ({"security.ssl.rest.authentication-enabled": "true"}, "needs security.ssl.rest.ca"),
    ],
)
def test_a_configuration_that_would_let_anybody_in_is_an_error(keys: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(None, keys)
    assert says in str(refused.value)


def test_off_loopback_with_tls_tokens_and_a_name_is_allowed() -> None:
    keys = {"rest.bind-address": "0.0.0.0", "rest.tokens-file": "/tokens", "security.ssl.rest.enabled": "true", "rest.address": "a.b, c"}
    configuration = load_configuration(None, keys)
    assert configuration.rest_names == ("a.b", "c")
    assert configuration.rest_needs_tokens


def test_the_command_mints_a_token_once_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mint = ["-Drest.tokens-file=tokens", "rest-token", "alice", "--role"]
    assert run([*mint, "operator"]) == ExitCode.OK
    token = capsys.readouterr().out.strip()
    assert owner_of(TokenFile(Path("tokens")), token) == Identity("alice", AccessRole.OPERATOR)
    assert run([*mint, "viewer", "--replace", "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert (
        owner_of(TokenFile(Path("tokens")), told["token"])
        == Identity(told["name"], AccessRole(told["role"]))
        == Identity("alice", AccessRole.VIEWER)
    )
    for arguments, says in ((mint, "requires an argument"), ([*mint, "root"], "'root' is not one of"), ([*mint, "admin"], "--replace")):
        assert run(arguments) == ExitCode.USAGE
        assert says in capsys.readouterr().err
    assert run(["rest-token", "alice", "--role", "admin"]) == ExitCode.USAGE
    assert "rest.tokens-file is not set" in capsys.readouterr().err
    Path("tokens").chmod(0o644)
    assert run([*mint, "admin", "--replace"]) == ExitCode.ENVIRONMENT
    assert "chmod 600" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"rest.tokens-file": "missing"}, "rest.tokens-file 'missing' cannot be read"),
        ({"rest.tokens-file": "tokens"}, "chmod 600 'tokens'"),
        ({"rest.token-provider": "nowhere:Provider"}, "'nowhere:Provider' made no provider"),
        ({"security.ssl.rest.enabled": "true"}, "a server needs security.ssl.rest.certificate and security.ssl.rest.key"),
        (
            {"security.ssl.rest.enabled": "true", "security.ssl.rest.certificate": "tokens", "security.ssl.rest.key": "tokens"},
            "security.ssl.rest.certificate 'tokens' with security.ssl.rest.key 'tokens' cannot be used",
        ),
    ],
)
def test_a_process_that_could_tell_nobody_from_others_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "", 0o644)
    with pytest.raises(RestFailed) as refused:
        run_rest(load_configuration(None, keys), access_to(NOWHERE, "test"), lambda _: pytest.fail("it is served"))
    assert says in str(refused.value)
