"""Nobody is shown a secret of the configuration, on the command line either; what only says where one is, is shown."""

import json
import re
import subprocess
import sys

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.events.log_events import RequestRejected
from eventflink.model import secret_values
from eventflink.model.job_graph_document import InvalidJobGraph, check_job_graph
from eventflink.model.secret_values import DEFAULT_KEYS, VARIABLE, use_keys, without_secrets
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.roles import ROLES
from eventflink.rest.own import topics
from eventflink.rest.own.topics import DeadLetterShape, shown_to
from eventflink.views.job_document import shown
from tests.support.cluster import ScriptedCluster, graph, vertex
from tests.support.rest_client import commanding_client

SECRETS = {
    "blob.storage.directory": ("s3://me:hush@h/blobs", "s3://******@h/blobs"),
    "spark.remote": ("sc://h:1/;token=hush;user=me", "sc://h:1/;token=******;user=me"),
    "schema.registry.url": ("https://me:hush@h:1", "https://******@h:1"),
}


def test_the_command_shows_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    overrides = [f"-D{key}={value}" for key, (value, _) in SECRETS.items()]
    assert run([*overrides, "config", "--json"]) == ExitCode.OK
    everything = capsys.readouterr().out
    assert {row["key"]: row["value"] for row in json.loads(everything)}.items() >= {
        key: shown for key, (_, shown) in SECRETS.items()
    }.items()
    assert run([*overrides, "config"]) == ExitCode.OK
    everything += capsys.readouterr().out
    for key in SECRETS:
        assert run([*overrides, "config", key]) == ExitCode.OK
        everything += capsys.readouterr().out
    assert "hush" not in everything


@pytest.mark.parametrize("key", ["some.password", "s3.SECRET-key", "x.token", "api-key.of", "sasl.jaas.config"])
def test_the_value_of_a_key_that_is_named_like_a_secret_is_not_shown(key: str) -> None:
    assert without_secrets(key, "hush") == without_secrets(key, 7) == "******"
    assert without_secrets(key, "") == ""
    assert without_secrets(key, None) is None
    assert without_secrets(key, {"a": "hush", "b": {"c": 7}, "d": ""}) == {"a": "******", "b": {"c": "******"}, "d": ""}


@pytest.mark.rule("L8")
@pytest.mark.parametrize(
    "key", ["password", "db_password", "dbPassword", "API-KEY", "apiKey", "x.secret.key", "my_secret", "sasl.jaas.config"]
)
def test_a_secret_that_is_written_down_is_refused_before_it_is_in_the_log_and_not_repeated(key: str) -> None:
    places = (
        {key: "hush"},
        {"deep": [{key: ["hush"]}]},
        {key: {key: "hush", "more": 1}},
        {key: {"value": "hush"}},
        {key: [{"deep": {"value": "hush"}}]},
    )
    for parameters in places:
        document = graph({**vertex("a"), "parameters": parameters})
        with pytest.raises(InvalidJobGraph, match=rf"parameters\..*{re.escape(key)}\S*: a secret is named here, not written") as caught:
            check_job_graph(document)
        assert "hush" not in str(caught.value)
        cluster = ScriptedCluster()
        cluster.submit(document)
        assert [type(event) for event in cluster.last_events()] == [RequestRejected]
        assert not [record for record in cluster.log if b"hush" in record]
    chained = {"id": "b", "python": "m:f", "input": "a", "schema": "x INT", "parameters": {key: "hush"}}
    source = {"s": {"rate": {"rows_per_second": 1}}}
    for stream in ({"settings": {f"spark.{key}": "hush"}}, {"chained": [chained]}):
        with pytest.raises(InvalidJobGraph, match="a secret is named here"):
            check_job_graph(
                {"name": "t", "vertices": [{"id": "a", "python": "m:f", "stream": {"sources": source, "sink": SINK, **stream}}]}
            )


SINK = {"kafka": {"topic": "t"}, "format": "json"}


def test_what_only_sounds_like_a_secret_is_hidden_and_runs() -> None:
    parameters = {
        "max_tokens": 512,
        "tokenizer": "bert",
        "password_column": "pw",
        "secretary": "ada",
        "password": "",
        "token": None,
        "pin": 1,
    }
    document = graph({**vertex("a"), "parameters": parameters})
    check_job_graph(document)
    found = shown(document)["vertices"][0]["parameters"]
    assert found == {
        **dict.fromkeys(("max_tokens", "tokenizer", "password_column", "secretary"), "******"),
        "password": "",
        "token": None,
        "pin": 1,
    }


def test_the_configuration_says_which_keys_are_hidden_and_child_processes_go_by_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, DEFAULT_KEYS)
    document = graph({**vertex("a"), "parameters": {"pin": "hush", "password": "shown"}})
    assert run(["-Dredaction.keys=pin,x.Y-z", "-Dspark.local.memory=1g", "config", "redaction.keys"]) == ExitCode.OK
    with pytest.raises(InvalidJobGraph, match=r"parameters\.pin: a secret is named here"):
        check_job_graph(document)
    code = "import sys; from eventflink.model.secret_values import *; print([is_hidden(key) for key in sys.argv[1:]])"
    asked = [sys.executable, "-c", code, "my_PIN", "x.yz", "password"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120).stdout == "[True, True, False]\n"
    use_keys("")
    check_job_graph(document)
    assert shown(document) == document
    for wrong in ("a,,b", "a b", "x" * 65, ",".join("ab" for _ in range(101))):
        assert run([f"-Dredaction.keys={wrong}", "config"]) == ExitCode.USAGE
    assert "redaction.keys" in capsys.readouterr().err


def test_where_a_secret_is_may_be_shown() -> None:
    assert without_secrets("rest.tokens-file", "/etc/tokens") == "/etc/tokens"
    assert without_secrets("rest.token-provider", "my.module:Provider") == "my.module:Provider"


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("SELECT * FROM jdbc('jdbc:x://me:hush@h/db', 'token=1')", "SELECT * FROM jdbc('jdbc:x://******@h/db', 'token=1')"),
        ("sc://h/;token=hush;a=b x://me:hush@h", "sc://h/;token=******;a=b x://******@h"),
        ("a://b://me:hush@h", "a://b://******@h"),
        ("a://é:hush@h ä://me:hush@h", "a://******@h ä://******@h"),
        ("://me:seen@h -://me:seen@h", "://me:seen@h -://me:seen@h"),
        ("a:// me:seen@h", "a:// me:seen@h"),
    ],
)
def test_of_a_program_the_credentials_in_its_addresses_are_hidden_and_nothing_else(code: str, seen: str) -> None:
    assert shown({"sql": code, "python": code}) == {"sql": seen, "python": seen}


@pytest.mark.parametrize("part", ["m", ":", "/", "://", "a://", "a://b@/", "a:// ", "token=", "a://b;key=;", "x:", "@", " "])
def test_a_long_text_is_searched_for_credentials_once_and_not_from_each_of_its_letters(part: str) -> None:
    """Searched from each letter, a word of so many is searched for hours."""
    text = part * (500_000 // len(part))
    for searched in (f"{text} x://me:hush@h", f"a://{text} x://me:hush@h"):
        for key in ("sql", "python", "other"):
            assert shown({key: searched})[key].endswith(" x://******@h")


def test_a_key_is_looked_through_once_for_all_values_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    plain = secret_values._plain

    def noted(key: str) -> str:
        looked_at.append(key)
        return plain(key)

    monkeypatch.setattr(secret_values, "_plain", noted)
    value = {"a_key_with_many_values": [0] * 10_000, "another_of_them": {f"name{n}": n for n in range(100)}}
    assert shown(value) == value
    assert looked_at.count("a_key_with_many_values") in (1, 2)
    assert looked_at.count("another_of_them") in (1, 2)


def test_a_key_that_is_too_long_to_look_through_hides_what_is_below_it() -> None:
    """Looked through for each value, this one is looked through for hours."""
    key = "k" * 1_000_000
    assert shown({key: [1] * 100_000}) == {key: ["******"] * 100_000}
    assert shown({"a_json": json.dumps({key: {"a": 1, "b": [{"c": "hush"}]}})}) == {
        "a_json": json.dumps({key: {"a": "******", "b": [{"c": "******"}]}})
    }


def test_what_nests_too_deeply_to_be_searched_is_not_shown() -> None:
    text = "[" * 100_000 + json.dumps({"password": "hush"}) + "]" * 100_000
    assert shown({"a_json": text, "b_json": "no JSON"}) == {"a_json": "******", "b_json": "no JSON"}


@pytest.mark.rule("L8")
def test_nothing_that_is_read_shows_the_secrets_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "READ_TIMEOUT_S", 0.05)  # There is no Kafka to wait for.
    cluster = ScriptedCluster()
    secrets = {
        "passwords": "hush",
        "url": "jdbc:x://me:hush@h/db",
        "nested": {"tokens": ["hush"]},
        "tokens": {"a": [{"b": "hush"}]},
        "my_json": "no JSON",
        "password_json": '{"value": "hush"}',
        "table": "orders",
    }
    cluster.submit(graph({**vertex("a"), "parameters": secrets}), job_id="job")
    names = {"jobid": "job", "job_id": "job", "applicationid": "job", "vertexid": "a", "vertex_id": "a", "thing:path": "job"}
    offsets = range(len(cluster.log))
    with commanding_client(cluster) as client:
        state = client.app.state.services.state  # type: ignore[attr-defined]
        state.close()  # A stream of changes ends at once.
        shown = 0
        for method, _, template in (route.partition(" ") for route in ROLES):
            for offset in offsets if "{offset}" in template else (0,):
                path = re.sub(r"\{([^}]+)\}", lambda found, at=offset: names.get(found[1], str(at)), template)  # type: ignore[misc]
                answer = client.get(path) if method == "GET" else None
                assert answer is None or "hush" not in answer.text, path
                shown += answer is not None and "orders" in answer.text
        assert shown >= 2, "the event and the document, without their secrets"


def test_what_stands_in_a_dead_letter_is_no_viewers() -> None:
    letter = DeadLetterShape(
        offset=1, at=None, topic="t", partition=0, input_offset=2, reason="why", refused_by="me", key="k", text="hush", hex="00", length=4
    )
    assert shown_to(AccessRole.OPERATOR, letter) == letter
    shown = shown_to(AccessRole.VIEWER, letter)
    assert (shown.reason, shown.length, shown.key, shown.text, shown.hex) == ("why", 4, None, None, None)
