"""Where a command finds its configuration, in the one order that holds for every command.

`-c` (or EVENTFLINK_CONFIG) names a file or a directory, EVENTFLINK_CONF_DIR a directory, as FLINK_CONF_DIR does; without them it is
./conf. That counts only if it holds an eventflink.yaml: many projects have a directory of that name, and none of them means us. A file
that is called eventflink.yaml stands in a configuration directory, whose `masters`, `workers` and `logging.yaml` belong to it; a file of
another name stands alone. Nothing is read here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE_NAME: Final = "eventflink.yaml"
DIRECTORY_VARIABLE: Final = "EVENTFLINK_CONF_DIR"
DEFAULT_DIRECTORY: Final = Path("conf")


def find_configuration(named: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file, which need not exist where it was named; None: there is none, all defaults hold."""
    if named is not None:
        return named / FILE_NAME if named.is_dir() else named
    if directory := environment.get(DIRECTORY_VARIABLE):
        return Path(directory) / FILE_NAME
    usual = DEFAULT_DIRECTORY / FILE_NAME
    return usual if usual.is_file() else None


def directory_of(config: Path | None) -> Path | None:
    """Return the configuration directory to which this file belongs; None for a file that stands alone."""
    return config.parent if config is not None and config.name == FILE_NAME else None
