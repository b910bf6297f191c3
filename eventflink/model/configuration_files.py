"""Configuration files: where the usual one stands, and what a relative path in one means.

A relative path in `conf/eventflink.yaml` begins at the directory that holds `conf`, from wherever in that project a command is called. In
any other file it begins at the working directory, as does one on the command line.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

USUAL_DIRECTORY: Final = "conf"
_LISTS: Final = frozenset({"historyserver.archive.fs.dir"})
"""Keys of several paths, with commas."""


def with_paths_of_the_project(values: Mapping[str, Any], file: Path, path_keys: Collection[str]) -> dict[str, Any]:
    """Return the values of a file with the relative paths of these keys made absolute; URLs, `~` and other files stay as they are.

    Example:
        `{"data.directory": "data"}` of `/home/ada/shop/conf/eventflink.yaml` is `{"data.directory": "/home/ada/shop/data"}`.

    """
    directory = file.absolute().parent
    if directory.name != USUAL_DIRECTORY:
        return dict(values)
    project = directory.parent
    return {key: _absolute(key, value, project) if key in path_keys else value for key, value in values.items()}


def _absolute(key: str, value: object, project: Path) -> object:
    if not isinstance(value, str):
        return value
    return ",".join(_absolute_path(each, project) for each in (value.split(",") if key in _LISTS else [value]))


def _absolute_path(text: str, project: Path) -> str:
    if not text.strip() or "://" in text or text.lstrip().startswith("~"):
        return text
    return str(project / text.strip())
