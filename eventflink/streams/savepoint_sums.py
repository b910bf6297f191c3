"""What says which bytes a part of a savepoint has: SHA256SUMS beside its files, as `sha256sum --check` reads it, and its own digest.

People copy and move savepoints, and keep them for years. The rule: no query begins in a part with a missing, foreign, cut or altered file.
Names and sizes are compared before a job is submitted, the bytes when they have been copied to where a query
will begin.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventflink.streams.savepoint import CHECKPOINT, SavepointUnusable, SubtaskManifest, read_file

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SUMS: Final = "SHA256SUMS"
_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")
_MAX_SUMS_BYTES: Final = 64 * 1024 * 1024
_NAMED: Final = 3
"""So many files are named of those that are at fault."""


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(files: "AbstractFileSystem", part: str, sums: Mapping[str, str]) -> str:
    """Write the sums of a part's files, by their names in the part; return the sum of what was written."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()
    files.pipe_file(f"{part}/{SUMS}", text)
    return hashlib.sha256(text).hexdigest()


def read_sums(files: "AbstractFileSystem", part: str, manifest: SubtaskManifest) -> dict[str, str]:
    """Return the sums of a part's files, by their names in the part.

    Raises:
        SavepointUnusable: they are not what was written.

    """
    text = read_file(files, f"{part}/{SUMS}", _MAX_SUMS_BYTES, str(_damaged(part, f"it has no {SUMS}")))
    found = [_LINE.fullmatch(line) for line in text.decode("utf-8", "replace").splitlines()]
    sums = {match[2]: match[1] for match in found if match}
    if hashlib.sha256(text).hexdigest() != manifest.sums_sha256 or len(sums) != manifest.files:
        raise _damaged(part, f"{SUMS} is not what was written")
    return sums


def check_names_and_sizes(files: "AbstractFileSystem", part: str, manifest: SubtaskManifest) -> None:
    """Check that a part has the files that were written, and as many bytes, without reading them.

    Raises:
        SavepointUnusable: it does not; the message names them.

    """
    sums = read_sums(files, part, manifest)
    files.invalidate_cache()
    try:
        listed = files.find(f"{part}/{CHECKPOINT}", detail=True)
    except Exception as error:  # each file system has errors of its own
        raise _damaged(part, f"its files cannot be listed ({type(error).__name__}: {error})") from error
    found = {str(path)[len(part) + 1 :]: int(entry["size"] or 0) for path, entry in listed.items()}
    _compare_names(part, sums, found)
    if sum(found.values()) != manifest.bytes:
        raise _damaged(part, f"its {manifest.files:,} files have {sum(found.values()):,} bytes, and {manifest.bytes:,} were written")


def check_copy(part: str, sums: Mapping[str, str], copy: Path) -> None:
    """Check the files that were copied from a part, to a directory that stands for the part's `checkpoint`.

    Raises:
        SavepointUnusable: they are not those that were written; the message names them.

    """
    copied = {f"{CHECKPOINT}/{path.relative_to(copy).as_posix()}": path for path in copy.rglob("*") if path.is_file()}
    _compare_names(part, sums, copied)
    if altered := [name for name, path in copied.items() if sum_of(path) != sums[name]]:
        raise _damaged(part, f"of its {len(sums):,} files {_named(altered)} not as written")


def _compare_names(part: str, sums: Mapping[str, str], found: Mapping[str, object]) -> None:
    if missing := sums.keys() - found.keys():
        raise _damaged(part, f"of its {len(sums):,} files {_named(missing)} missing")
    if foreign := found.keys() - sums.keys():
        raise _damaged(part, f"beside its {len(sums):,} files {_named(foreign)} there that nobody wrote with it")


def _named(names: "set[str] | list[str]") -> str:
    shown, more = ", ".join(sorted(names)[:_NAMED]), len(names) - _NAMED
    return f"{shown}{f' and {more:,} more' if more > 0 else ''} {'is' if len(names) == 1 else 'are'}"


def _damaged(part: str, what: str) -> SavepointUnusable:
    return SavepointUnusable(
        f"invalid savepoint: its part '{part}' is damaged: {what}. Copy it again from where it is whole, or begin in another savepoint"
    )
