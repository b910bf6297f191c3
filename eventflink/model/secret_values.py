"""Which keys have secrets under them, and what nobody is shown: the values of such keys, and credentials inside URLs.

One rule for the configuration, for documents of jobs and for events of the log. Which keys, `redaction.keys` says; child processes find it
in the environment. The rule it keeps: what is hidden is more than what is refused as written down, so a name that only sounds like a secret
costs nobody a job.
"""

import functools
import os
import re
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "EVENTFLINK_REDACTION_KEYS"
DEFAULT_KEYS: Final = (
    "password,secret,token,apikey,auth-params,service-key,basic-auth,jaas.config,http-headers,fs.azure.account.key,passphrase,private-key"
)
"""What the key of a secret has in it: Flink's, and two more. Case, `-` and `_` make no difference, so `apikey` is `API_KEY` as well."""

HIDDEN: Final = "******"
_KEYS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_KEYS: Final = 100

MAX_KEY_LENGTH: Final = 256
"""Of keys that are looked through. Documents have no longer one; what stands under one elsewhere is hidden."""

_PLACES: Final = ("-file", "-provider", "secrets.directory", "secrets.environment-prefix", "secrets.provider")
"""How a key ends that says where secrets are, and has none itself."""

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s]+(?=@)|(?i:(?<=token=)|(?<=password=)|(?<=secret=)|(?<=key=))[^&;,\s]+")
"""In a URL: user and password, and parameters such as the token in an address of Spark Connect."""


def check_keys(text: str) -> str:
    """Return the text of `redaction.keys`; raises `ValueError` for one that says something else."""
    names = text.split(",") if text else []
    for name in names:
        if not _KEYS.fullmatch(name):
            raise ValueError(f"invalid part of a key: '{name[:64]}'; use 1-64 letters, digits, '.', '_' and '-'")
    if len(names) > _MAX_KEYS:
        raise ValueError(f"more than {_MAX_KEYS} parts of keys")
    return text


def use_keys(text: str) -> None:
    """Have this process and its children go by this `redaction.keys`."""
    os.environ[VARIABLE] = check_keys(text)


def _plain(key: str) -> str:
    return key.lower().replace("-", "").replace("_", "")


@functools.cache
def _patterns(text: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what finds the keys that are hidden, and those that hold a secret."""
    parts = "|".join(re.escape(_plain(name)) for name in text.split(",")) if text else "(?!)"
    return re.compile(parts), re.compile(rf"(?:{parts})(?:\.|$)")


def _is_found(key: str, *, at_its_end: bool) -> bool:
    if len(key) > MAX_KEY_LENGTH:
        return not at_its_end
    return _is_found_by(os.environ.get(VARIABLE, DEFAULT_KEYS), key, at_its_end=at_its_end)


@functools.lru_cache(1_024)
def _is_found_by(text: str, key: str, *, at_its_end: bool) -> bool:
    """Look through a key once: it is asked for again with each of the many values that may stand under it."""
    return _patterns(text)[at_its_end].search(_plain(key)) is not None and not key.endswith(_PLACES)


def is_hidden(key: str) -> bool:
    """Tell whether the value of a key is not shown: a part of it is named like a secret, as in Flink."""
    return _is_found(key, at_its_end=False)


def holds_secret(key: str) -> bool:
    """Tell whether a key is that of a secret: it, or what stands before a dot in it, ends so. `db_password` is, `tokenizer` is not."""
    return _is_found(key, at_its_end=True)


def has_credentials(text: str) -> bool:
    """Tell whether a text has a URL with a user, a password or a token in it."""
    return _CREDENTIALS.search(text) is not None


def key_below(key: str, name: str) -> str:
    """Return by which key to judge what stands under `name` in a mapping that itself stands under `key`: a secret may have parts."""
    return key if holds_secret(key) or (is_hidden(key) and not holds_secret(name)) else name


def without_secrets(key: str, value: object) -> object:
    """Return the value of a key as it may be shown; what is empty has nothing to hide."""
    if value is None or value == "":
        return value
    if isinstance(value, Mapping):
        return {name: without_secrets(key_below(key, name), inner) for name, inner in value.items()}
    if is_hidden(key):
        return HIDDEN
    return _CREDENTIALS.sub(HIDDEN, value) if isinstance(value, str) else value
