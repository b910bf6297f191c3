"""What of the configuration nobody is shown: values of keys that are named like secrets, and credentials inside URLs."""

import re
from collections.abc import Mapping
from typing import Final

HIDDEN: Final = "******"
_SECRET: Final = ("password", "secret", "token", "apikey", "api-key", "auth-params", "service-key", "jaas.config", "basic-auth")
"""What the key of a secret has in it, as in Flink."""

_PLACES: Final = ("-file", "-provider", "secrets.directory", "secrets.environment-prefix", "secrets.provider")
"""How a key ends that says where secrets are, and has none itself."""

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s]+(?=@)|(?i:(?<=token=)|(?<=password=)|(?<=secret=)|(?<=key=))[^&;,\s]+")
"""In a URL: user and password, and parameters such as the token in an address of Spark Connect."""


def without_secrets(key: str, value: object) -> object:
    """Return the value of a key as it may be shown; what is empty has nothing to hide."""
    if value is None or value == "":
        return value
    if isinstance(value, Mapping):
        return {name: without_secrets(name, inner) for name, inner in value.items()}
    if any(part in key.lower() for part in _SECRET) and not key.endswith(_PLACES):
        return HIDDEN
    return _CREDENTIALS.sub(HIDDEN, value) if isinstance(value, str) else value
