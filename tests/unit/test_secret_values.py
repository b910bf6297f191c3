"""Nobody is shown a secret of the configuration, on the command line either; what only says where one is, is shown."""

import json

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.model.secret_values import without_secrets
from eventflink.rest.access.identity import Role
from eventflink.rest.own.topics import DeadLetterShape, shown_to
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


def test_where_a_secret_is_may_be_shown() -> None:
    assert without_secrets("rest.tokens-file", "/etc/tokens") == "/etc/tokens"
    assert without_secrets("rest.token-provider", "my.module:Provider") == "my.module:Provider"


def test_no_page_of_the_log_shows_the_secrets_of_a_job() -> None:
    cluster = ScriptedCluster()
    secrets = {"password": "hush", "url": "jdbc:x://me:hush@h/db", "nested": {"token": ["hush"]}, "my_json": "no JSON", "table": "orders"}
    cluster.submit(graph({**vertex("a"), "parameters": secrets}), job_id="job")
    count = len(cluster.log)
    with commanding_client(cluster) as client:
        pages = [client.get(f"/eventflink/v1/log/{offset}") for offset in range(count)]
        pages.append(client.get("/eventflink/v1/jobs/job/document"))
        assert {page.status_code for page in pages} == {200}
        assert not any("hush" in page.text for page in pages)
        assert sum("orders" in page.text for page in pages) == 2


def test_what_stands_in_a_dead_letter_is_no_viewers() -> None:
    letter = DeadLetterShape(
        offset=1, at=None, topic="t", partition=0, input_offset=2, reason="why", refused_by="me", key="k", text="hush", hex="00", length=4
    )
    assert shown_to(Role.OPERATOR, letter) == letter
    shown = shown_to(Role.VIEWER, letter)
    assert (shown.reason, shown.length, shown.key, shown.text, shown.hex) == ("why", 4, None, None, None)
