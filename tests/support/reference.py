"""The API reference: the names that docs/reference.md shows, and the examples in their docstrings, to be run or read."""

import ast
import doctest
import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import eventflink

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = tuple(re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8"), re.MULTILINE))
"""What the page shows, each by its path."""

NEED_SPARK: Final = {
    "eventflink.client.dev.dev",
    "eventflink.jobs.context.TaskContext",
    "eventflink.jobs.context.TaskInputs",
    "eventflink.jobs.result.JobOutput",
    "eventflink.workbench.graph_run.GraphRun",
    "eventflink.workbench.graph_run.VertexFailed",
    "eventflink.workbench.graph_run.VertexRun",
}
"""Whose examples run where there is a Spark."""
NEED_CLUSTER: Final = {
    "eventflink.client.cluster.Cluster",
    "eventflink.client.cluster.Job",
    "eventflink.client.connecting.connect",
    "eventflink.client.connecting.connect_async",
    "eventflink.testing.job_handle.JobHandle",
    "eventflink.testing.mini_cluster.MiniCluster",
    "eventflink.testing.records.Topics",
}
"""Whose examples are read, and not run."""


def named(path: str) -> Any:
    """Return what a path of the page names."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def run_example(path: str, names: Mapping[str, Any]) -> doctest.TestResults:
    """Run the example in a docstring, as a module that knows `eventflink` and these names; what goes wrong is printed."""
    module = ModuleType("example")
    vars(module).update(eventflink=eventflink, **names)
    sys.modules["example"] = module  # A task is looked for in its module.
    try:
        example = doctest.DocTestParser().get_doctest(inspect.getdoc(named(path)) or "", {}, path, None, None)
        example.globs = vars(module)
        return doctest.DocTestRunner().run(example)
    finally:
        del sys.modules["example"]


def missing_names(path: str, types: Mapping[str, Any]) -> list[str]:
    """Return what the example in a docstring asks for that is not there: of names, what they are is said; an argument by its keyword."""
    source = "".join(each.source for each in doctest.DocTestParser().get_examples(inspect.getdoc(named(path)) or ""))
    missing = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in types:
            if not hasattr(types[node.value.id], node.attr) and node.attr not in _set_in(types[node.value.id]):
                missing.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            owner = types.get(node.func.value.id)
            method = getattr(owner, node.func.attr, None)
            missing += [f"{node.func.attr}({word.arg}=)" for word in node.keywords if method and word.arg not in _arguments_of(method)]
    return missing


def _set_in(owner: Any) -> set[str]:
    """Return the attributes that a class sets on itself."""
    return set(re.findall(r"\bself\.(\w+)(?: = |, |: )", inspect.getsource(owner))) if inspect.isclass(owner) else set()


def _arguments_of(function: Any) -> set[str]:
    """Return the names of arguments, those of an unpacked mapping among them."""
    hints = inspect.get_annotations(function)
    names = set(inspect.signature(function).parameters)
    for annotation in hints.values():
        for part in getattr(annotation, "__args__", ()):
            names |= set(getattr(part, "__annotations__", {}))
    return names
