"""An event-sourced cluster master. Nothing is loaded with the package: what a program asks for is loaded then."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eventflink.client.connecting import connect, connect_async
    from eventflink.client.dev import dev
    from eventflink.jobs.python_jobs import job, sql, task

__all__ = ["connect", "connect_async", "dev", "job", "sql", "task"]

_MODULES: Final = {
    "connect": "client.connecting",
    "connect_async": "client.connecting",
    "dev": "client.dev",
    "job": "jobs.python_jobs",
    "sql": "jobs.python_jobs",
    "task": "jobs.python_jobs",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"eventflink.{_MODULES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
