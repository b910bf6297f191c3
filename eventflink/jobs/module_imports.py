"""Modules that are imported for the jobs and tasks in them, and programs that run a job meanwhile.

A program with a job and its tasks is imported as a module where a task runs, and where a command reads its job. What it does when it is
imported is done there as well: one that runs its job at its top would run it in each task again.
"""

import importlib
import threading
from types import ModuleType


class _Importing(threading.local):
    module = ""


_importing = _Importing()


def import_for_jobs(module: str) -> ModuleType:
    """Return the module, imported; jobs cannot be run until it is. Raises what its code raises."""
    before, _importing.module = _importing.module, module
    try:
        return importlib.import_module(module)
    finally:
        _importing.module = before


def module_being_imported() -> str:
    """Return the module that this thread imports for its tasks or jobs; empty: none."""
    return _importing.module
