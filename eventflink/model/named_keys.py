"""Keys of the configuration behind names that its writer chooses: `spark.engines.NAME.…`, `iceberg.catalogs.NAME.…`, `queues.NAME.…`.

What may stand behind a name is said where its kind is described.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,62}$"
"""Of a name: without dots, since it is a part of keys."""

MAX_VALUE_LENGTH: Final = 4_096
_NAME: Final = re.compile(NAME_PATTERN)


def read_named(prefix: str, what: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of keys as texts, with numbers and `true` as YAML has them.

    Args:
        prefix: what stands before each key, such as `queues`.
        what: what a name names, with its article, such as `a queue`.
        values: by key, without the prefix.

    Raises:
        ValueError: a key begins with no name, or a value is too long.

    """
    texts = {key: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
    for key, text in texts.items():
        name = key.partition(".")[0]
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{prefix}.{key}: invalid name of {what}: '{name[:64]}'; "
                "give small letters, digits, '_' and '-', at most 63, that begin with a letter or digit"
            )
        if len(text) > MAX_VALUE_LENGTH:
            raise ValueError(f"{prefix}.{key}: longer than {MAX_VALUE_LENGTH} characters")
    return texts


def by_name(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what stands behind each name, in the order of the names.

    Examples:
        >>> by_name({"etl.weight": "3", "adhoc.weight": "1"})
        {'adhoc': {'weight': '1'}, 'etl': {'weight': '3'}}

    """
    found: dict[str, dict[str, str]] = {}
    for key, text in texts.items():
        name, _, part = key.partition(".")
        found.setdefault(name, {})[part] = text
    return dict(sorted(found.items()))
