"""`{secret: NAME}`: how the author of a job names a secret instead of writing it, and where that may stand.

What a job says is in the log for ever, so a name is all that it has: the value is found on a TaskExecutor, in the process of the task that
names it (`taskexecutor/task_secrets.py`). The rule it keeps: no message repeats what stands in the place of a name, for it may be a secret.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from eventflink.model.document_faults import describe_value
from eventflink.model.secret_values import MAX_KEY_LENGTH, holds_secret, key_below

MAX_SECRETS: Final = 64
"""Different ones, in the parameters of a vertex or the settings of a stream."""

MAX_NESTING: Final = 100
"""As in a document of YAML: code that shows or resolves deeper nesting ends at Python's limit."""

_SHOWN: Final = 512
"""How much of a place is written out."""

_KEY: Final = "secret"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def reference_name(value: object) -> str | None:
    """Return which secret a value names: it is a mapping with the only key `secret`, under which a text is; None: it names none."""
    name = value[_KEY] if isinstance(value, Mapping) and value.keys() == {_KEY} else None
    return name if isinstance(name, str) else None


def is_secret_name(name: str) -> bool:
    """Tell whether a secret may be called so: it is the name of a file as well, and never leads anywhere else."""
    return _NAME.fullmatch(name) is not None


def check_references(values: Mapping[str, Any], where: str) -> bool:
    """Tell whether a secret is named anywhere below the keys of a document.

    Raises:
        ValueError: a secret is written and not named, what is named is no name, or there are too many; or a key is no text or too
            long, or something nests too deeply, or is no value of JSON; with its place.

    """
    names: set[str] = set()
    for place, key, value in _leaves(values, where):
        name = reference_name(value)
        if name is None and not _is_json(value):
            raise ValueError(f"{_written(place)}: {describe_value(value)} is not a value of JSON: write it as a text or a number")
        if name is not None and not is_secret_name(name):
            raise ValueError(
                f"{_written(place)}: the name of a secret is letters, digits, '.', '_' and '-', at most 128, "
                "and begins with a letter, a digit or '_'"
            )
        if name is not None:
            names.add(name)
        elif value and isinstance(value, str) and holds_secret(key):
            raise ValueError(
                f"{_written(place)}: a secret is named here, not written, for the log keeps for ever what it has: {{secret: NAME}}"
            )
    if len(names) > MAX_SECRETS:
        raise ValueError(f"{where}: {len(names)} secrets are named; at most {MAX_SECRETS} may be")
    return bool(names)


_Place = tuple[Any, ...]
"""Within which place something is, and what it is called there. A message alone writes it out: a long one may be that of many values."""


def _written(place: _Place) -> str:
    parts = []
    while place:
        place, part = place
        parts.append(part)
    return "".join(reversed(parts))[:_SHOWN]


def _is_json(value: object) -> bool:
    """Tell whether a leaf of a document is a text, a finite number, true, false or null."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _leaves(values: Mapping[str, Any], where: str) -> Iterator[tuple[_Place, str, Any]]:
    """Yield references and what is neither a mapping nor a list: its place, the key that it stands under, itself.

    Raises:
        ValueError: a key is no text or too long, or something nests too deeply.

    """
    waiting: list[tuple[_Place, int, str, Any]] = [(((), where), 1, "", values)]
    while waiting:
        place, depth, key, value = waiting.pop()
        if not isinstance(value, Mapping | list | tuple) or (value is not values and reference_name(value) is not None):
            yield place, key, value
        elif depth > MAX_NESTING:
            raise ValueError(f"{where}: nested more than {MAX_NESTING} levels deep")
        elif isinstance(value, list | tuple):
            waiting += [((place, f"[{number}]"), depth + 1, key, each) for number, each in enumerate(value)]
        else:
            for inner, each in value.items():
                if not isinstance(inner, str):
                    raise ValueError(  # noqa: TRY004 - pydantic makes a fault of a ValueError
                        f"{_written(place)}: a key is a text, not {describe_value(inner)}"
                    )
                if len(inner) > MAX_KEY_LENGTH:
                    raise ValueError(f"{_written(place)}: a key has {len(inner)} characters; at most {MAX_KEY_LENGTH} may be")
                waiting.append(((place, f".{inner}"), depth + 1, key_below(key, inner), each))


def with_secrets(values: Mapping[str, Any], resolve: Callable[[str], str]) -> dict[str, Any]:
    """Return a document with the value of each secret that it names in the place of the reference."""

    def put(value: Any) -> Any:
        if (name := reference_name(value)) is not None:
            return resolve(name)
        if isinstance(value, Mapping):
            return {key: put(each) for key, each in value.items()}
        return [put(each) for each in value] if isinstance(value, list) else value

    return {key: put(each) for key, each in values.items()}
