"""Which modules of a directory a job's code needs: those that it names, and those that they import, wherever in them that stands.

Nothing is imported for it: the sources are read. What is installed, or lies elsewhere, is not part of it.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from eventflink.jobs.archive import ArchiveError, is_left_behind

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
NEVER_LOCAL: Final = frozenset({"eventflink", "__main__"})
"""Every TaskExecutor has the first, also where a job lies beside a checkout of it; the second is this process's own program."""


def local_modules(names: Iterable[str], directory: Path) -> list[Path]:
    """Return the modules and packages in the directory that have these names, or that one of them imports, by way of others or not.

    A package counts as a whole. In a directory of installed packages there are none.

    Raises:
        ArchiveError: a module cannot be read, or is not Python.

    """
    if not _INSTALLED.isdisjoint(directory.absolute().parts):
        return []
    found: dict[str, Path] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop().partition(".")[0]
        place = _place_of(name, directory) if name not in found and name not in NEVER_LOCAL else None
        if place is not None:
            found[name] = place
            wanted += [each for source in _sources_of(place) for each in _imported_by(source)]
    return sorted(found.values())


def _place_of(name: str, directory: Path) -> Path | None:
    """Return where the module or package of a name is; of both Python takes the package."""
    package, module = directory / name, directory / f"{name}.py"
    if (package / "__init__.py").is_file():
        return package
    return module if name and module.is_file() else None


def _sources_of(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
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
