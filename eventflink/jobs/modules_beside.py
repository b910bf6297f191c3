"""Modules that the vertices of a document name and that lie beside it: `dev` takes them by itself, what submits a job only with `--code`.

The rule it keeps: that one is left out is a warning, and no reason to refuse a job, since the hosts of a cluster may have it installed.
"""

import io
import shlex
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from eventflink.jobs.archive import PACKAGE_FILE
from eventflink.model.job_graph import JobGraph
from eventflink.model.statuses import TaskType


def code_beside(graph: JobGraph, directory: Path) -> list[Path]:
    """Return the modules and packages in the directory that the graph's vertices name."""
    return list(dict.fromkeys(path for name in _named_by(graph) for path in _places_of(name, directory)))


def modules_left_out(graph: JobGraph, archives: Iterable[bytes], directories: Sequence[Path]) -> list[str]:
    """Return in words which modules lie in one of the directories, and neither travel with the job nor are installed here.

    Args:
        graph: whose vertices name them; of one that names archives by their keys nobody knows, and nothing is said.
        archives: what travels with it.
        directories: where they are looked for, the first one first.

    Example:
        `["vertex 'load': the module 'night' is in no code archive of the job, and not installed here: give it by --code night.py"]`

    """
    named = _named_by(graph) if not graph.code_archives else {}
    beside = {name: place for name in named for each in reversed(directories) for place in _places_of(name, each)[:1]}
    travelling = {top for each in archives for top in _modules_of(each)} if beside else set()
    return [
        f"vertex '{named[name][0]}'{f' (and {more} more)' if (more := len(named[name]) - 1) else ''}: the module '{name}' is in no code"
        f" archive of the job, and not installed here: give it by --code {shlex.quote(str(place))}"
        for name, place in beside.items()
        if name not in travelling and not _is_installed(name)
    ]


def _named_by(graph: JobGraph) -> dict[str, list[str]]:
    """Return the modules at the top that vertices name, each with the ids of these."""
    found: dict[str, list[str]] = {}
    for vertex in graph.vertices:
        top = vertex.task.partition(":")[0].partition(".")[0]
        if vertex.task_type is TaskType.PYTHON and top.isidentifier():
            found.setdefault(top, []).append(vertex.vertex_id)
    return found


def _places_of(name: str, directory: Path) -> list[Path]:
    module, package = directory / f"{name}.py", directory / name
    return [path for path in (module, package) if path.is_file() or (path / PACKAGE_FILE).is_file()]


def _modules_of(archive: bytes) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name.partition("/")[0].removesuffix(".py") for name in opened.namelist()}


def _is_installed(name: str) -> bool:
    """Tell whether this process finds a module elsewhere than where its program lies, or than in the directory where it was started."""
    if name in sys.stdlib_module_names:
        return True
    found = (finder.find_spec(name, sys.path[1:]) for finder in sys.meta_path)
    return any(spec is not None and spec.has_location for spec in found)
