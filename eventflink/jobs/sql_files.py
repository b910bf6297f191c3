"""The SQL that a job has in files: found and checked beside its document, packed as one more archive of its code, and read from there.

A file is called the same in all three places: by its path from the document, which `sql_file` of a vertex says. The rule it keeps: what
`sql` of a vertex is refused for, its file is refused for before anything is submitted.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Final

from eventflink.jobs.archive import SQL_MARKER, write_archive
from eventflink.model.avro_schema import Directory
from eventflink.model.job_graph import JobGraph
from eventflink.model.sql_script import has_statement
from eventflink.model.statuses import TaskType
from eventflink.model.stream_document import check_one_statement

MAX_SQL_FILE_BYTES: Final = 1024 * 1024
MAX_SQL_BYTES: Final = 128 * 1024
"""How much SQL a document may have that is submitted with the SQL in its record: beyond this, the graph would hardly fit beside it."""


def read_sql_files(graph: JobGraph, directory: Directory) -> dict[str, str]:
    """Return the texts of the files that a graph names, by their paths from a directory.

    Raises:
        ValueError: a file cannot be read, or is not what a vertex can run; the message names vertex and file.

    """
    texts: dict[str, str] = {}
    for vertex_id, path, is_stream in _named_by(graph):
        try:
            if path not in texts:
                texts[path] = _read(directory / path)
            if is_stream:
                check_one_statement(texts[path])
        except (OSError, ValueError) as error:
            reason = error.strerror or type(error).__name__ if isinstance(error, OSError) else error
            raise ValueError(f"vertex '{vertex_id}': sql_file: {path}: {reason}") from error
    return texts


def pack_sql_files(texts: Mapping[str, str]) -> bytes:
    """Return the archive with these texts, by their paths; raises `ArchiveError` where they are too large together."""
    target = io.BytesIO()
    members = {path: text.encode() for path, text in texts.items()} | {SQL_MARKER: json.dumps({"files": len(texts)}).encode()}
    write_archive(target, {name: partial(io.BytesIO, data) for name, data in members.items()})
    return target.getvalue()


def find_sql(path: str, archives: Iterable[Path | IO[bytes]]) -> str | None:
    """Return the text of a file, of the first archive that has it; None: no archive has.

    Raises:
        OSError: an archive cannot be read.
        ValueError: it is damaged, or the file is too long or no text.

    """
    for archive in archives:
        try:
            with zipfile.ZipFile(archive) as opened:
                if path in opened.NameToInfo:
                    with opened.open(path) as file:
                        return _text_of(file)
        # The last two: a compression that zipfile does not know, and a member that is encrypted.
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise ValueError(f"the archive is damaged: {error}") from error
    return None


def with_sql_in_files(graph: JobGraph) -> tuple[JobGraph, dict[str, str]]:
    """Return a graph whose SQL is in files where it is too much for a record, and their texts; files are called by their vertices."""
    statements = [vertex for vertex in graph.vertices if vertex.task_type is TaskType.SQL]
    if graph.code_archives or sum(len(vertex.task.encode()) for vertex in statements) <= MAX_SQL_BYTES:
        return graph, {}
    paths = {vertex.vertex_id: f"{vertex.vertex_id}.sql" for vertex in statements}
    vertices = [
        replace(each, task_type=TaskType.SQL_FILE, task=paths[each.vertex_id]) if each.vertex_id in paths else each
        for each in graph.vertices
    ]
    return replace(graph, vertices=tuple(vertices)), {paths[vertex.vertex_id]: vertex.task for vertex in statements}


def _named_by(graph: JobGraph) -> Iterator[tuple[str, str, bool]]:
    """Yield what names a file, the file, and whether it is a stream."""
    for vertex in graph.vertices:
        if vertex.task_type is TaskType.SQL_FILE:
            yield vertex.vertex_id, vertex.task, vertex.stream is not None
        for operator in vertex.stream.chained if vertex.stream is not None else ():
            if operator.task_type is TaskType.SQL_FILE:
                yield operator.operator_id, operator.task, True


def _read(path: Directory) -> str:
    with path.open("rb") as file:
        text = _text_of(file)
    if not has_statement(text):
        raise ValueError("the query is empty")
    return text


def _text_of(file: IO[bytes]) -> str:
    """Return what a file says; raises ValueError where it is too long, or no text."""
    data = file.read(MAX_SQL_FILE_BYTES + 1)
    if len(data) > MAX_SQL_FILE_BYTES:
        raise ValueError(f"longer than {MAX_SQL_FILE_BYTES} bytes")
    return data.decode()
