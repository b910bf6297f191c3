"""References to secrets: `${file:/path}` and `${env:NAME}`, in place of what nothing that is printed, logged or passed on may hold.

What refers to a secret is a configuration's key; who needs the value resolves it where it is used, and keeps it nowhere else.
"""

import os
import re
from pathlib import Path
from typing import Final

from eventflink.model.secret_files import SecretUnreadable, read_secret

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^${}]+)\}")


class SecretMissing(Exception):
    """What a setting refers to cannot be read; the message names the key and the place, and never the value."""


def reference_of(value: str) -> tuple[str, str]:
    """Return what a value refers to: `env` and a name, or `file` and a path; two empty texts: it is the value itself."""
    found = _REFERENCE.fullmatch(value)
    return (found[1], found[2]) if found is not None else ("", "")


def check_reference(key: str, value: str, *, is_needed: bool) -> None:
    """Check what a key has for a value: a whole reference, or none at all unless one `is_needed`.

    Raises:
        ValueError: it is not.

    """
    kind, place = reference_of(value)
    if not kind and is_needed:
        raise ValueError(f"{key}: a secret is named here, not written: ${{file:/path/of/it}} or ${{env:NAME}}")
    if not kind and "${" in value:
        raise ValueError(f"{key}: a reference is the whole value: ${{file:/path/of/it}} or ${{env:NAME}}")
    if kind == "file" and not place.startswith("/"):
        raise ValueError(f"{key}: the path of a file is absolute")


def resolve(key: str, value: str, *, may_have_lines: bool = False) -> str:
    """Return a value, read from where it refers to.

    Raises:
        SecretMissing: there is no such variable or file, or the file has more than the one line without its end.

    """
    kind, place = reference_of(value)
    if not kind:
        return value
    if kind == "env":
        try:
            return os.environ[place]
        except KeyError:
            raise SecretMissing(f"{key}: the environment has no variable '{place}'") from None
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
