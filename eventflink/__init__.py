"""An event-sourced cluster master. Nothing is loaded with the package: what programs connect with is loaded when it is asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventflink.client.connecting import connect, connect_async

__all__ = ["connect", "connect_async"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from eventflink.client import connecting  # noqa: PLC0415 - see above

        return getattr(connecting, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
