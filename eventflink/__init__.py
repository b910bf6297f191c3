"""An event-sourced cluster master. Nothing is loaded with the package: what programs connect with is loaded when it is asked for."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eventflink.client.connecting import connect, connect_async
    from eventflink.client.dev import dev

__all__ = ["connect", "connect_async", "dev"]

_MODULES: Final = {"connect": "connecting", "connect_async": "connecting", "dev": "dev"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"eventflink.client.{_MODULES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
