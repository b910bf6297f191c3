"""Which modules of a directory a job's code needs: those that it names, and those that they import, wherever in them that stands.

Nothing is imported for it: the sources are read. What is installed, or lies elsewhere, is not part of it.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from eventflink.jobs.archive import PACKAGE_FILE, ArchiveError, is_left_behind

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
NEVER_LOCAL: Final = frozenset({"eventflink", "__main__"})
"""Every TaskExecutor has the first, also where a job lies beside a checkout of it; the second is this process's own program."""


def local_modules(names: Iterable[str], directory: Path) -> list[Path]:
    """Return the modules and packages in the directory that have these names, or that one of them imports, by way of others or not.

    A package counts as a whole; one without an `__init__.py` is named by where that would be. In a directory of installed packages
    there are none.

    Raises:
        ArchiveError: a module cannot be read, or is not Python.

    """
    if is_installed(directory):
        return []
    found: dict[str, Path] = {}
    wanted = list(names)
    imported = set(sys.modules)  # A directory may also have a name that a notebook has for something else.
    while wanted:
        name = wanted.pop().partition(".")[0]
        place = _place_of(name, directory, imported) if name not in found and name not in NEVER_LOCAL else None
        if place is not None:
            found[name] = place
            named = [each.partition(".")[0] for source in _sources_of(place) for each in _imported_by(source)]
            imported.update(named)
            wanted += named
    return sorted(found.values())


def is_installed(directory: Path) -> bool:
    """Tell whether a directory is one of installed packages, or within one."""
    return not _INSTALLED.isdisjoint(directory.absolute().parts)


def _place_of(name: str, directory: Path, imported: Iterable[str]) -> Path | None:
    """Return where the module or package of a name is, in the order of Python: a package without `__init__.py` comes after all others."""
    package, module = directory / name, directory / f"{name}.py"
    if (package / PACKAGE_FILE).is_file():
        return package
    if name and module.is_file():
        return module
    if name not in imported or not package.is_dir() or not _sources_of(package) or _is_elsewhere(name):
        return None
    return package / PACKAGE_FILE


def _is_elsewhere(name: str) -> bool:
    """Tell whether Python finds a module of a name, or a package with an `__init__.py`, that is in no directory of the job."""
    spec = PathFinder.find_spec(name)
    return name in sys.stdlib_module_names or (spec is not None and spec.has_location)


def _sources_of(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    place = place.parent if place.name == PACKAGE_FILE else place
    return [each for each in sorted(place.rglob("*.py")) if not is_left_behind(str(each.relative_to(place)))]


def _imported_by(source: Path) -> Iterator[str]:
    """Yield the names of the modules that a module imports, without those of its own package."""
    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except (OSError, SyntaxError, ValueError) as error:
        raise ArchiveError(f"{source} cannot be read as Python: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
