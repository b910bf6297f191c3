"""The names by which a host calls itself, and which lead no other host to it."""

from typing import Final

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
