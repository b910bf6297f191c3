"""Streams as a user writes them; tests pack this file into an archive and never import it."""

from typing import Any


def copy(context: Any) -> Any:
    """Return the only source as it is."""
    return context.inputs["source"]


def count_by_key(context: Any) -> Any:
    """Return how many records each key has had, whenever that changes."""
    return context.inputs["source"].groupBy("key").count()
