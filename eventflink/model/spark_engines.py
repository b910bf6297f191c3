"""The Sparks elsewhere that a TaskExecutor has by name: the keys below `spark.engines.`, and what a job may ask for.

An engine is a Spark Connect server that somebody else has started, with the settings of the sessions on it. Connecting to one is
`taskexecutor/spark_engines.py`'s. The rule it keeps: a secret of an engine is never a value here but a reference, so nothing that is
printed, logged or told to the master holds one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from eventflink.model.named_keys import by_name, read_named
from eventflink.model.references import check_reference
from eventflink.model.secret_values import has_credentials, holds_secret

LOCAL: Final = "local"
"""The engine that every TaskExecutor has: the Spark of its host."""
DEFAULT_PORT: Final = 15_002
MAX_ENGINES: Final = 32
MAX_ADDRESS_LENGTH: Final = 512
_MAX_SETTINGS: Final = 100

_REMOTE: Final = "remote"
_TOKEN: Final = "token"  # noqa: S105 - the name of the key
_SETTINGS: Final = "settings."
_SETTING: Final = re.compile(r"spark\.[A-Za-z0-9._-]{1,250}")


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """A Spark that runs tasks, as a TaskExecutor is told of it."""

    name: str
    """What jobs call it; empty: the one of those that name none."""
    remote: str = ""
    """The address of its Spark Connect server, without a token if it is a named one; empty: the Spark of the host."""
    token: str = ""
    """A reference to the token that the server asks for; empty: it asks for none, or the address has it."""
    settings: dict[str, str] = field(default_factory=dict, hash=False)
    """What each session on it is given, by the keys of Spark; secrets are references."""


@dataclass(frozen=True, slots=True)
class SparkAddress:
    """Where an engine of a TaskExecutor is, without what else its address says: one of its parameters can be a token."""

    engine: str
    """What jobs call it; empty: the one of those that name none."""
    address: str
    """sc://host:port."""


def shown(remote: str) -> str:
    """Return a Spark Connect address for logs, without its parameters: one of them can be a token."""
    return remote.partition("/;")[0].rstrip("/")


def address_of(remote: str) -> str:
    """Return where a Spark Connect server is, equal for all ways to write it; of what is no address, that without parameters."""
    try:
        parts = urlsplit(shown(remote))
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:  # The port is no number.
        host, port = None, 0
    if host is None:
        return shown(remote)
    return f"sc://[{host}]:{port}" if ":" in host else f"sc://{host}:{port}"


def parse_engines(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys below `spark.engines.` as texts; `engines_of` makes engines of them.

    Raises:
        ValueError: a name is none, an engine has no address, a token stands there in the clear, or there is too much.

    """
    texts = read_named("spark.engines", "an engine", values)
    for key in texts:
        _check_key(key)
    engines = engines_of(texts)
    if len(engines) > MAX_ENGINES:
        raise ValueError(f"spark.engines: {len(engines)} engines; at most {MAX_ENGINES} may be named")
    for engine in engines:
        _check_engine(engine)
    return texts


def engines_of(texts: Mapping[str, str]) -> tuple[SparkEngine, ...]:
    """Return the engines that the keys below `spark.engines.` name, in the order of their names."""
    return tuple(
        [
            SparkEngine(
                name,
                said.get(_REMOTE, ""),
                said.get(_TOKEN, ""),
                {part.removeprefix(_SETTINGS): value for part, value in said.items() if part.startswith(_SETTINGS)},
            )
            for name, said in by_name(texts).items()
        ]
    )


def addresses_of(engines: Iterable[SparkEngine]) -> tuple[SparkAddress, ...]:
    """Return where those of the engines are that are elsewhere."""
    return tuple([SparkAddress(engine.name, address_of(engine.remote)) for engine in engines if engine.remote])


def _check_key(key: str) -> None:
    name, _, part = key.partition(".")
    if name == LOCAL:
        raise ValueError(f"spark.engines.{key}: '{LOCAL}' is the Spark of the host, whose keys are spark.local.…; give another name")
    if part not in (_REMOTE, _TOKEN) and not (part.startswith(_SETTINGS) and _SETTING.fullmatch(part.removeprefix(_SETTINGS))):
        raise ValueError(f"spark.engines.{key}: unknown key of an engine; known: remote, token, settings.spark.…")


def _check_engine(engine: SparkEngine) -> None:
    key = f"spark.engines.{engine.name}"
    try:
        parts = urlsplit(engine.remote)
        is_address = parts.scheme == "sc" and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # The port is no number.
        is_address = False
    if not is_address or len(engine.remote) > MAX_ADDRESS_LENGTH:
        raise ValueError(
            f"{key}.{_REMOTE}: invalid address of a Spark Connect server: '{shown(engine.remote)[:200]}'; "
            f"give sc://host:port, at most {MAX_ADDRESS_LENGTH} characters"
        )
    if has_credentials(engine.remote):
        raise ValueError(f"{key}.{_REMOTE}: a secret stands in the address; name it by {key}.{_TOKEN}: ${{file:/path}}")
    if engine.token:
        check_reference(f"{key}.{_TOKEN}", engine.token, is_needed=True)
    if len(engine.settings) > _MAX_SETTINGS:
        raise ValueError(f"{key}.settings: more than {_MAX_SETTINGS} keys")
    for setting, value in engine.settings.items():
        check_reference(f"{key}.{_SETTINGS}{setting}", value, is_needed=holds_secret(setting))
