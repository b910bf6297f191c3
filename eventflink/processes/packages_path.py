"""Processes that find packages of a job before all that is installed: how their environment says so, and how to leave them behind.

What the packages are, and how they come here, is not of interest here. Nothing is loaded for it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PACKAGES_VARIABLE: Final = "EVENTFLINK_PACKAGES"
"""In the environment of a task, or of a Python that Spark starts for its functions: the directory of its job's packages."""

SPARK_PYTHON: Final = "eventflink-python"
"""In that directory: what Spark runs the Python functions of a session with that has them."""

SPARK_PYTHON_SCRIPT: Final = f"""#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here${{PYTHONPATH:+:$PYTHONPATH}}" {PACKAGES_VARIABLE}="$here"
exec "${{PYSPARK_PYTHON:-python3}}" "$@"
"""
"""What stands there: the Python of that Spark, with the packages before all that it has."""

_PATH: Final = "PYTHONPATH"


def environment_with(packages: Path) -> dict[str, str]:
    """Return the environment of this process for an interpreter that finds these packages first."""
    path = os.pathsep.join(filter(None, [str(packages), os.environ.get(_PATH, "")]))
    return os.environ | {_PATH: path}


def is_begun_with(packages: Path) -> bool:
    """Tell whether this process has begun with these packages."""
    return os.environ.get(_PATH, "").partition(os.pathsep)[0] == str(packages)


def without_packages(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a task as it was before its packages came into it: what it starts for others has none of them."""
    own = environment.get(PACKAGES_VARIABLE)
    if own is None:
        return dict(environment)
    path = [each for each in environment.get(_PATH, "").split(os.pathsep) if each and each != own]
    rest = {name: value for name, value in environment.items() if name not in (PACKAGES_VARIABLE, _PATH)}
    return rest | ({_PATH: os.pathsep.join(path)} if path else {})
