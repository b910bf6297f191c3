"""A job bundle: one zip with the documents of jobs and the Python modules that their tasks import, as somebody sent it.

    job.yaml          what runs where nobody names another: job.yaml, job.yml or job.json, or else the only document at the top
    nightly.yaml      another job of the same code
    revenue.py        modules, packages and small data, as `import` finds them from the top

The rule it keeps: nothing of it is unpacked to files, and what it says of itself is checked before the first member is read, so that
neither sizes, names nor links do harm. How a bundle comes here, and what becomes of the job, is the business of whoever opens it.
"""

import functools
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from eventflink.jobs.archive import MAX_ARCHIVE_BYTES, MAX_FILES, ArchiveError, Opened, is_left_behind, is_safe_name, write_archive
from eventflink.jobs.sql_files import read_sql_files
from eventflink.model.document_faults import describe_value
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, load_document, parse_job_graph

SUFFIXES: Final = (".jar", ".zip", ".whl")
"""What a bundle may be called: who automates Flink has tools that insist on the first one."""

MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
"""More than a submission may have, also of many vertices."""
MAX_JOBS: Final = 20
_MAX_DIRECTORY_BYTES: Final = 4 * 1024 * 1024
"""Of the zip's own list of its members, which is read as a whole."""
_MAX_NAME: Final = 512
_MAX_DEPTH: Final = 32
_MAX_SHOWN: Final = 10
_DEFAULTS: Final = ("job.yaml", "job.yml", "job.json")
_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_END_LENGTH: Final = 22
_END: Final = b"PK\x05\x06"
_END_64_LENGTH: Final = 20
_END_64: Final = b"PK\x06\x07"
_ENCRYPTED: Final = 0x1


class BundleError(Exception):
    """It is no bundle, holds no such job, or is not to be opened; the message says why."""


@dataclass(frozen=True, slots=True)
class BundledJob:
    """A job of a bundle."""

    entry: str
    """The path of its document in the bundle."""
    name: str


class Bundle:
    """An open bundle; a context manager. Every method raises `BundleError` where a member is damaged."""

    def __init__(self, path: Path) -> None:
        """Open a file and check what it says of itself.

        Raises:
            BundleError: it is no zip, or holds what does harm.
            OSError: it cannot be read.

        """
        self._file = path.open("rb")
        try:
            _check_end(self._file)
            self._archive = zipfile.ZipFile(self._file)
            self._members = _checked(self._archive.infolist())
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            self._file.close()
            raise BundleError(f"invalid zip: {error}") from error
        except BaseException:
            self._file.close()
            raise

    def check(self) -> None:
        """Read every member once."""
        with _undamaged():
            if (damaged := self._archive.testzip()) is not None:
                raise BundleError(f"the member '{damaged}' is damaged")

    def jobs(self) -> tuple[BundledJob, ...]:
        """Return the jobs whose documents are at the top, that which runs by itself first.

        Raises:
            BundleError: there is none, or that which would run by itself describes no job; the message names the place.

        """
        found = []
        for name in self._documents:
            try:
                found.append(BundledJob(name, self._graph_of(name, self._read(name)).name))
            except BundleError:
                if name in _DEFAULTS:
                    raise
        if not found:
            raise BundleError(self._without_job())
        return tuple(found)

    def document(self, entry: str = "") -> tuple[str, dict[str, Any]]:
        """Return the path of a document and what it says.

        Args:
            entry: its path in the bundle, with or without its suffix; empty: that which runs by itself.

        Raises:
            BundleError: it is not there, says nothing of a job, or nothing tells which one is meant.

        """
        name = self._named(entry) if entry else self._default()
        document = self._read(name)
        if not isinstance(document, dict):
            raise BundleError(f"{name}: a job graph is a mapping with 'name' and 'vertices'")
        return name, document

    def graph(self, entry: str, document: Mapping[str, Any]) -> JobGraph:
        """Return the graph that a document of this bundle describes; files that it names are beside it.

        Raises:
            BundleError: it describes none; the message names the place.

        """
        return self._graph_of(entry, document)

    def has_code(self) -> bool:
        """Tell whether there is anything that a task can import."""
        return bool(self._code())

    def write_code(self, target: IO[bytes]) -> None:
        """Write the code archive of its jobs: what is neither their documents nor left behind by tools."""
        with _undamaged():
            try:
                write_archive(target, self._code())
            except ArchiveError as error:
                raise BundleError(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()
        self._file.close()

    def _code(self) -> dict[str, Opened]:
        code = [name for name in self._members if not name.startswith("META-INF/") and not is_left_behind(name)]
        return {name: functools.partial(self._archive.open, name) for name in code if name not in self._documents}

    @functools.cached_property
    def _documents(self) -> list[str]:
        """The members at the top that speak of vertices, that which runs by itself first."""
        found = [name for name in self._members if "/" not in name and name.endswith(_DOCUMENTS) and self._may_be_job(name)]
        if len(found) > MAX_JOBS:
            raise BundleError(f"more than {MAX_JOBS} documents at the top")
        return sorted(found, key=lambda name: (_DEFAULTS.index(name) if name in _DEFAULTS else len(_DEFAULTS), name))

    def _may_be_job(self, name: str) -> bool:
        return name in _DEFAULTS or (self._members[name].file_size <= MAX_DOCUMENT_BYTES and b"vertices" in self._bytes(name))

    def _default(self) -> str:
        jobs = self.jobs()
        if len(jobs) > 1 and jobs[0].entry not in _DEFAULTS:
            raise BundleError(f"it holds several jobs, and none of them is {_DEFAULTS[0]}: name one of {_listed(jobs)}")
        return jobs[0].entry

    def _named(self, entry: str) -> str:
        for name in (entry, *(entry + suffix for suffix in _DOCUMENTS)):
            if name in self._members and name.endswith(_DOCUMENTS):
                return name
        raise BundleError(f"document not found in the bundle: '{entry[:_MAX_NAME]}'; its jobs are {_listed(self.jobs())}")

    def _read(self, name: str) -> object:
        try:
            return load_document(self._bytes(name).decode("utf-8"), name)
        except UnicodeDecodeError as error:
            raise BundleError(f"{name}: not UTF-8 text: {error.reason} at byte {error.start}") from error
        except InvalidJobGraph as error:
            raise BundleError(str(error)) from error

    def _bytes(self, name: str) -> bytes:
        if self._members[name].file_size > MAX_DOCUMENT_BYTES:
            raise BundleError(f"{name}: longer than {MAX_DOCUMENT_BYTES} bytes; a job graph is not")
        with _undamaged():
            return self._archive.read(name)

    def _graph_of(self, name: str, document: object) -> JobGraph:
        if not isinstance(document, Mapping):
            raise BundleError(f"{name}: a job graph is a mapping with 'name' and 'vertices', not {describe_value(document)}")
        folder = name[: name.rfind("/") + 1]
        with _undamaged():
            try:
                graph = parse_job_graph(document, name, zipfile.Path(self._archive, folder))
                read_sql_files(graph, zipfile.Path(self._archive))  # From the top: so tasks find them, as they find modules.
            except InvalidJobGraph as error:
                raise BundleError(str(error)) from error
            except ValueError as error:
                raise BundleError(f"{name}: {error}") from error
        return graph

    def _without_job(self) -> str:
        has_classes = any(name.endswith(".class") for name in self._members)
        java = "it holds classes of Java, and tasks are Python and Spark: " if has_classes else ""
        return f"{java}job document not found in the bundle; put one at its top ({_DEFAULTS[0]})"


def _listed(jobs: tuple[BundledJob, ...]) -> str:
    shown = ", ".join(job.entry for job in jobs[:_MAX_SHOWN])
    return f"{shown}, …" if len(jobs) > _MAX_SHOWN else shown


@contextmanager
def _undamaged() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise BundleError(f"a member is damaged: {error}") from error


def _check_end(file: IO[bytes]) -> None:
    """Check how long the list of members is, before anybody reads it; it is the end of the file that says so."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _END_LENGTH - _END_64_LENGTH)
    file.seek(start)
    tail = file.read()
    end, before = tail[-_END_LENGTH:], tail[:-_END_LENGTH]
    if len(end) < _END_LENGTH or not end.startswith(_END) or end[-2:] != b"\0\0":
        raise BundleError("invalid zip: its end is missing (a comment behind it is not taken)")
    if before.startswith(_END_64):
        raise BundleError("it is in the format for very large zips")
    if int.from_bytes(end[12:16], "little") > _MAX_DIRECTORY_BYTES:
        raise BundleError(f"the list of its members is longer than {_MAX_DIRECTORY_BYTES} bytes")


def _checked(members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Return the files by their names.

    Raises:
        BundleError: one is no file below the top, or they are too many or too large.

    """
    if len(members) > MAX_FILES:
        raise BundleError(f"it has {len(members)} members, and at most {MAX_FILES} are taken")
    files: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.filename
        if fault := _fault_of(member):
            raise BundleError(f"the member '{member.orig_filename[:_MAX_NAME]}' {fault}")
        if member.is_dir():
            continue
        if name in files:
            raise BundleError(f"it has the member '{name}' twice")
        files[name] = member
    total_bytes = sum(member.file_size for member in files.values())
    if total_bytes > MAX_ARCHIVE_BYTES:
        raise BundleError(f"its members have {total_bytes} bytes together, and at most {MAX_ARCHIVE_BYTES} are taken")
    return files


def _fault_of(member: zipfile.ZipInfo) -> str:
    """Return what is wrong with a member, behind its name; empty: nothing."""
    name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
    faults = {
        "is not a path below the bundle's top": name != member.orig_filename or not is_safe_name(name),
        f"has a path of more than {_MAX_NAME} characters or {_MAX_DEPTH} directories": len(name) > _MAX_NAME
        or name.count("/") > _MAX_DEPTH,
        "is not a regular file: links and the like are not taken": kind not in (0, stat.S_IFREG, stat.S_IFDIR),
        "begins before the file does": member.header_offset < 0,
        "is encrypted": bool(member.flag_bits & _ENCRYPTED),
        "is compressed in another way than deflate": member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
    }
    return next((fault for fault, is_so in faults.items() if is_so), "")
