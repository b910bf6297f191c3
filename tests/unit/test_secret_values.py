"""Nobody is shown a secret of the configuration, on the command line either; what only says where one is, is shown."""

import json

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.model.secret_values import without_secrets

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
