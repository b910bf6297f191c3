"""The extras of this package (`eventflink[cluster]`, …), and the error of an import that needs one which is not installed.

An installation without extras submits jobs, follows them and asks about them; `pyproject.toml` says what each extra adds. The rule: an
optional package is imported only inside `needs`, or by a command of the command line, which is run inside it.
"""

import importlib.metadata
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_DISTRIBUTION: Final = "eventflink"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class PackageMissing(Exception):
    """A package is not installed that a call, a command or the configuration needs; the message says how to install it."""


@contextmanager
def needs(extra: str, purpose: str = "") -> Iterator[None]:
    """Import optional packages, or run code that does.

    Args:
        extra: the extra of this package that brings them.
        purpose: the key, call or command that needs them, for the message.

    Raises:
        PackageMissing: a package that an extra of ours brings is not installed. Modules of users that are missing pass through.

    Example:
        >>> with needs("audit"):
        ...     import duckdb

    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if not _is_optional(module):
            raise
        needed = f"{purpose} needs {module}, which is" if purpose else f"the package {module} is"
        raise PackageMissing(f"{needed} not installed: pip install '{_DISTRIBUTION}[{extra}]'") from error


def _is_optional(module: str) -> bool:
    """Return True if one of our extras brings a top-level module; distributions are called like it, or longer (`faust-streaming`)."""
    requirements = importlib.metadata.requires(_DISTRIBUTION) or []
    optional = {_name_of(each) for each in requirements if "extra ==" in each} - {_DISTRIBUTION}
    return bool(module) and any(name.startswith(module) for name in optional)


def _name_of(requirement: str) -> str:
    found = _NAME.match(requirement)
    return found[0].lower().replace("-", "_") if found else ""
