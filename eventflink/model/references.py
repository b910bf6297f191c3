"""References to secrets: `${file:/path}`, `${env:NAME}`, `${provider:module:Provider:NAME}`, in place of what nobody may print.

What refers to a secret is a configuration's key; who needs the value resolves it where it is used, and keeps it nowhere else. Only what a
provider has said is kept, for a minute: it may be far away, and a process makes many clients when it starts.
"""

import os
import re
import time
from pathlib import Path
from typing import Final

from eventflink.model.secret_files import SecretUnreadable, read_secret
from eventflink.model.secret_providers import ask_provider

_REFERENCE: Final = re.compile(r"\$\{(env|file|provider):([^${}]+)\}")
_PROVIDED: Final = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*):(.+)")
_WAYS: Final = "${file:/path/of/it}, ${env:NAME} or ${provider:module:Provider:NAME}"
_KEPT_S: Final = 60.0

_said: dict[str, tuple[str, float]] = {}
"""What providers have said, by the place in the reference, and until when it counts."""


class SecretMissing(Exception):
    """What a setting refers to cannot be read; the message names the key and the place, and never the value."""


def reference_of(value: str) -> tuple[str, str]:
    """Return what a value refers to: `env` and a name, `file` and a path, `provider` and whom to ask for which; "", "": it is the value."""
    found = _REFERENCE.fullmatch(value)
    return (found[1], found[2]) if found is not None else ("", "")


def check_reference(key: str, value: str, *, is_needed: bool) -> None:
    """Check what a key has for a value: a whole reference, or none at all unless one `is_needed`.

    Raises:
        ValueError: it is not.

    """
    kind, place = reference_of(value)
    if not kind and is_needed:
        raise ValueError(f"{key}: a secret is named here, not written: {_WAYS}")
    if not kind and "${" in value:
        raise ValueError(f"{key}: a reference is the whole value: {_WAYS}")
    if kind == "file" and not place.startswith("/"):
        raise ValueError(f"{key}: the path of a file is absolute")
    if kind == "provider" and not _PROVIDED.fullmatch(place):
        raise ValueError(f"{key}: whom to ask for which secret is said so: ${{provider:module:Provider:NAME}}")


def resolve(key: str, value: str, *, may_have_lines: bool = False) -> str:
    """Return a value, read from where it refers to.

    Raises:
        SecretMissing: there is no such variable or file, the file has more than the one line without its end, or the provider has none.

    """
    kind, place = reference_of(value)
    if not kind:
        return value
    if kind == "env":
        try:
            return os.environ[place]
        except KeyError:
            raise SecretMissing(f"{key}: the environment has no variable '{place}'") from None
    if kind == "provider":
        return _ask(key, place)
    try:
        text = read_secret(Path(place))
    except FileNotFoundError as error:
        raise SecretMissing(f"{key}: {place} cannot be read: {error.strerror}") from error
    except SecretUnreadable as error:
        raise SecretMissing(f"{key}: {error}") from error
    if "\n" in text and not may_have_lines:
        # Kafka's Java clients take a file as it is, and would send the line's end as a part of the password.
        raise SecretMissing(f"{key}: {place} ends with a line break; it has to hold the value alone, as printf %s writes it")
    return text


def _ask(key: str, place: str) -> str:
    found = _PROVIDED.fullmatch(place)
    provider, name = (found[1], found[2]) if found is not None else (place, "")
    said, until_s = _said.get(place, ("", 0.0))
    if time.monotonic() < until_s:
        return said
    try:
        answer = ask_provider(provider, name)
    except SecretUnreadable as error:
        raise SecretMissing(f"{key}: {error}") from None
    if not answer:
        raise SecretMissing(f"{key}: {provider} has no secret '{name}'")
    _said[place] = (answer, time.monotonic() + _KEPT_S)
    return answer
