"""Where data is that several processes read: a directory, or a prefix of an object store by its URL.

Only names are made here; `jobs/stored_files.py` reads and writes what they name. The rule it keeps: a URL is never taken for a path of this
host, on which it would be a folder called `s3a:`.
"""

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

S3: Final = "s3a"
"""What Hadoop calls the scheme of S3."""

SCHEMES: Final = {scheme: scheme for scheme in (S3, "gs", "abfs", "abfss", "hdfs")} | {"s3": S3}
"""Of stores that Spark's Hadoop and fsspec both know, each with Hadoop's name for it."""

_PATTERN: Final = re.compile(r"([*?{}\[\]\\])")
"""What stands for other characters where Hadoop looks for files."""

NO_HOME: Final = "user not found; '~' stands for the directory of a user, so give an absolute path"

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):[/:]")
"""With one slash: a `Path` has no more of them. With another colon it is a chain of file systems."""
_PARTS: Final = re.compile(r"//([^/?#@:]+(?::\d+)?|[^/?#@:]+@[^/?#@:]+)((?:/[^?#]*)?)")
"""Of a URL behind its scheme: whose store (Azure's has the container before an `@`), and which prefix in it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory or a prefix, or a file or an object below one."""

    text: str
    """An absolute path, or a URL without a slash at its end."""

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> "Place":
        return Place(f"{self.text}/{name}")

    @property
    def scheme(self) -> str:
        """The kind of store, as Hadoop calls it; empty: it is a path."""
        return self.text.partition("://")[0] if is_url(self.text) else ""

    @property
    def path(self) -> Path:
        """The path; of a URL there is none.

        Raises:
            ValueError: it is a URL.

        """
        if self.scheme:
            raise ValueError(f"{self.text} is a URL, and no path of this host")
        return Path(self.text)

    def name_below(self, root: "Place") -> str | None:
        """Return what this place is called below another one; None: it is not below it."""
        prefix = f"{root.text}/"
        return self.text.removeprefix(prefix) if self.text.startswith(prefix) else None


def is_url(text: str) -> bool:
    """Tell whether a text begins as a URL does."""
    return _URL.match(text) is not None


def literal(location: str) -> str:
    """Return a location as Spark's readers take it, for which some characters stand for others."""
    return _PATTERN.sub(r"\\\1", location)


def in_one_spelling(location: str) -> str:
    """Return one spelling for all paths and URLs that Hadoop takes for the same: `/a/b` for `file:/a//b/`, `file:///a/./b` and `/a/b`."""
    scheme, colon, rest = location.partition(":/") if location[:1] != "/" else ("", "", location)
    path = posixpath.normpath(f"/{rest.lstrip('/')}")
    return f"{SCHEMES.get(scheme, scheme)}:/{path}" if colon and scheme != "file" else path


def parse_place(text: str) -> Place:
    """Return the place that a person has named.

    Raises:
        ValueError: it is a URL of another kind, or is none.

    """
    if "\0" in text:
        raise ValueError(f"invalid place: {text!r} has a character that no file system allows")
    found = _URL.match(text)
    if found is None:
        try:
            return Place(str(Path(text).expanduser().absolute()))
        except RuntimeError as error:  # The user after `~` does not exist.
            raise ValueError(f"invalid place: '{text}': {NO_HOME}") from error
    scheme, rest = found[1].lower(), text[found.end() - 1 :]
    if scheme == "file":
        return Place(str(Path(unquote("/" + rest.lstrip("/")))))
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in sorted(SCHEMES))
        raise ValueError(f"invalid place: '{text}'; give a path, or a URL that begins with one of {known}")
    parts = _PARTS.fullmatch(rest)
    if parts is None or any(name in (".", "..") for name in parts[2].split("/")):
        raise ValueError(f"invalid place: a URL is {scheme}://bucket/prefix, without credentials, '?', '#', '.' and '..'")
    names = [name for name in parts[2].split("/") if name]
    return Place("/".join([f"{SCHEMES[scheme]}://{parts[1]}", *names]))
