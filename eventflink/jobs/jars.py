"""The jars that a job has for its Spark sessions: named in its document by their paths, and packed as one more archive of its code.

The rule it keeps: what cannot be had is told before anything is submitted, with the jar.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from eventflink.jobs.archive import JARS_MARKER, ArchiveError, open_file, write_archive

MAX_JARS: Final = 64


def parse_jars(value: object, directory: Path | None) -> tuple[Path, ...]:
    """Return what stands under `jars` in a document: paths of files from its directory.

    Raises:
        ValueError: it is something else; the message says what is expected.

    Example:
        >>> parse_jars(["/opt/rates.jar"], None)
        (PosixPath('/opt/rates.jar'),)

    """
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError("give a list of paths of jars, such as [lib/rates.jar]")
    if len(value) > MAX_JARS:
        raise ValueError(f"more than {MAX_JARS} jars")
    for each in value:
        if not each.endswith(".jar"):
            hint = ""
            if each.count(":") == 2:  # noqa: PLR2004 - group, artifact and version
                hint = "; what Maven has is named in spark.jars.packages of the TaskExecutors, or downloaded"
            raise ValueError(f"'{each[:128]}' is no path of a jar{hint}")
        if directory is None and not Path(each).is_absolute():
            raise ValueError(f"'{each[:128]}' is a path, and nothing says from where: give an absolute one")
    return tuple([(directory or Path()) / each for each in value])


def pack_jars(jars: Sequence[Path]) -> bytes:
    """Return the archive with these jars, by their file names.

    Raises:
        ArchiveError: one cannot be read or is no jar, two have the same file name, or they are too large together.

    """
    members: dict[str, Path] = {}
    for jar in jars:
        if not jar.is_file():
            raise ArchiveError(f"jar not found: {jar}")
        if not zipfile.is_zipfile(jar):
            raise ArchiveError(f"invalid jar: {jar} is no zip archive, as a jar is")
        if jar.name in members:
            raise ArchiveError(f"invalid jars: {members[jar.name]} and {jar} have the same file name")
        members[jar.name] = jar
    target = io.BytesIO()
    marker = partial(io.BytesIO, json.dumps({"jars": sorted(members)}).encode())
    write_archive(target, {JARS_MARKER: marker, **{name: partial(open_file, jar) for name, jar in members.items()}})
    return target.getvalue()
