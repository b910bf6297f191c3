"""The file that describes a job: its document in JSON or YAML, or a Python module with a job in it (`python_jobs.py`).

The rule it keeps: what is wrong with a file is an `InvalidJobGraph` that names the place in it, whatever its code raises.
"""

import hashlib
import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from eventflink.jobs.archive import ArchiveError, ArchiveKind, build_archive, kind_of
from eventflink.jobs.code_digest import function_digests
from eventflink.jobs.jars import pack_jars, parse_jars
from eventflink.jobs.local_modules import NEVER_LOCAL
from eventflink.jobs.module_imports import import_for_jobs, module_being_imported
from eventflink.jobs.pipelines.definitions import SPEC_FILES
from eventflink.jobs.python_jobs import InvalidPythonJob, PythonJob, PythonTask, name_fault
from eventflink.jobs.sql_files import find_sql, pack_sql_files, read_sql_files, with_sql_in_files
from eventflink.model.document_faults import describe_value
from eventflink.model.job_graph import JobGraph, JobVertex
from eventflink.model.job_graph_document import JARS, PACKED_KEYS, PIPELINE, REQUIREMENTS, InvalidJobGraph, load_document, parse_job_graph
from eventflink.model.reuse import bind_digest
from eventflink.model.statuses import TaskType

if TYPE_CHECKING:
    from eventflink.jobs.pipelines.description import Pipeline
    from eventflink.jobs.required_packages import Requirements

_NONE: Final[Mapping[str, ArchiveKind]] = MappingProxyType({})
MAX_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
_PYTHON: Final = re.compile(r"(?P<file>.*\.py)(?::(?P<name>\w+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DescribedJob:
    """A job as somebody has described it, with the code that is known to belong to it."""

    graph: JobGraph
    code: tuple[Path, ...] = ()
    """Modules and packages; of a document none."""
    requirements: "Requirements | None" = None
    """The packages that its code needs, which are to travel with it."""
    jars: tuple[Path, ...] = ()
    """Those of its Spark sessions, which are as well."""
    pipeline: "Pipeline | None" = None
    """The definitions of its data sets, where it is one of Spark's declarative pipelines; they are as well."""
    sql_files: Mapping[str, str] = field(default_factory=dict)
    """The texts of the files that its vertices name, by their paths; they are as well."""

    @property
    def has_code(self) -> bool:
        """Whether anything travels with the job."""
        return bool(self.code or self.requirements or self.jars or self.pipeline or self.sql_files)

    def archives(self, code: Sequence[Path] = ()) -> list[bytes]:
        """Return the archives that travel with the job: its code, or `code` in place of it, SQL, jars, and the packages that it requires.

        Raises:
            ArchiveError: the code or a jar cannot be packed, or the packages cannot be installed.

        """
        chosen = code or self.code
        archives = [build_archive(chosen)] if chosen else []
        if self.pipeline is not None:
            archives.append(self.pipeline.pack())
        if self.sql_files:
            archives.append(pack_sql_files(self.sql_files))
        if self.jars:
            archives.append(pack_jars(self.jars))
        if self.requirements is not None:
            from eventflink.jobs.required_packages import find_packages  # noqa: PLC0415 - most jobs require none

            archives.append(find_packages(self.requirements).read_bytes())
        return archives


def with_archives(
    graph: JobGraph, archives: Sequence[bytes], store: Callable[[bytes], str], kept: Mapping[str, ArchiveKind] = _NONE
) -> JobGraph:
    """Return a graph with archives of code that a store takes, and with what of them each vertex is made of.

    Args:
        graph: the job's; archives that it names already come before these, and what is made of those nobody knows.
        archives: what `DescribedJob.archives` returns; none: the graph stays as it is.
        store: takes an archive, and returns its key in the blob store.
        kept: the keys of archives of packages and jars that the job has as well.

    Raises:
        ArchiveError: a vertex names a file with SQL that no archive has.
        Exception: what the store raises.

    """
    if not archives:
        return graph
    keys = {store(each): each for each in archives}
    kinds = {key: kind_of(io.BytesIO(each)) for key, each in keys.items()} | dict(kept)
    code_archives = (*graph.code_archives, *kinds)
    if graph.code_archives:
        return replace(graph, code_archives=code_archives)
    of_kind = {kind: [each for key, each in keys.items() if kinds[key] is kind] for kind in (ArchiveKind.SQL, ArchiveKind.CODE)}
    digests = _digests_of(graph.vertices, of_kind, kinds)
    bound = {task: bind_digest(digest, code_archives) for task, digest in digests.items()}
    vertices = [replace(each, code_digest=bound[each.task] if each.stream is None else "") for each in graph.vertices]
    return replace(graph, vertices=tuple(vertices), code_archives=code_archives)


def _digests_of(
    vertices: Sequence[JobVertex], archives: Mapping[ArchiveKind, Sequence[bytes]], kinds: Mapping[str, ArchiveKind]
) -> dict[str, str]:
    """Return of each task what it is made of: a function of code, packages and jars, SQL of jars, and of its text where a file has that."""
    beside = sorted(key for key, kind in kinds.items() if kind not in archives)
    jars = "".join(sorted(key for key, kind in kinds.items() if kind is ArchiveKind.JARS))
    of_statements = hashlib.sha256(jars.encode()).hexdigest()
    digests = dict.fromkeys((vertex.task for vertex in vertices), of_statements)
    for vertex in vertices:
        if vertex.task_type is TaskType.SQL_FILE:
            text = _sql_of(vertex, [each for of_kind in archives.values() for each in of_kind])
            digests[vertex.task] = hashlib.sha256(f"{jars}\n{text}".encode()).hexdigest()
    functions = {vertex.task for vertex in vertices if vertex.task_type is TaskType.PYTHON and vertex.stream is None}
    return digests | function_digests(archives[ArchiveKind.CODE], functions, beside)


def _sql_of(vertex: JobVertex, archives: Sequence[bytes]) -> str:
    try:
        text = find_sql(vertex.task, map(io.BytesIO, archives))
    except ValueError as error:
        raise ArchiveError(f"vertex '{vertex.vertex_id}': sql_file: {vertex.task}: {error}") from error
    if text is None:
        raise ArchiveError(f"vertex '{vertex.vertex_id}': sql_file not found in the job's code: {vertex.task}")
    return text


def with_newer_code(
    graph: JobGraph, archives: Sequence[bytes], store: Callable[[bytes], str], fetch: Callable[[str], bytes], before: Sequence[str] = ()
) -> JobGraph:
    """Return a graph with these archives, and where no code is among them with that of an ended job; what else it names stays.

    Args:
        graph: a job's, as it was submitted, or as it runs in place of that of an ended job.
        archives: of the newer code, SQL, packages and jars.
        store: takes an archive, and returns its key in the blob store.
        fetch: returns the archive of a key.
        before: the keys of the archives of the ended job.

    Raises:
        Exception: what `store` and `fetch` raise.

    """
    given = {kind_of(io.BytesIO(each)) for each in archives}
    if ArchiveKind.CODE in given and graph.code_archives:
        kinds = {key: kind_of(io.BytesIO(fetch(key))) for key in graph.code_archives}
        kept = {key: kind for key, kind in kinds.items() if kind not in (ArchiveKind.CODE, ArchiveKind.SQL)}
        of_sql = [fetch(key) for key, kind in kinds.items() if kind is ArchiveKind.SQL]
        return with_archives(replace(graph, code_archives=()), [*archives, *of_sql], store, kept)
    if graph.code_archives:
        return with_archives(graph, archives, store)
    task_types = {vertex.task_type for vertex in graph.vertices}
    missing = {ArchiveKind.CODE} if TaskType.PYTHON in task_types else set[ArchiveKind]()
    if TaskType.SQL_FILE in task_types and ArchiveKind.SQL not in given:
        missing = {ArchiveKind.CODE, ArchiveKind.SQL}
    missing -= given
    of_before = [each for each in map(fetch, before if missing else ()) if kind_of(io.BytesIO(each)) in missing]
    return with_archives(graph, [*of_before, *archives], store)


Document = JobGraph | PythonJob | Mapping[str, Any] | Path | str
"""What may be given for a job: one that is read already, one in Python, a document as a mapping, or the path of a file."""


def described(document: Document) -> DescribedJob:
    """Return a graph as it is, or what a mapping, a job in Python, or the file at a path describes.

    Raises:
        InvalidJobGraph: it describes none; the message says where it is wrong.
        ArchiveError: a module that a job in Python imports cannot be read.

    """
    if module := module_being_imported():
        raise InvalidJobGraph(
            f"invalid job: it is run while the module '{module}' is imported for its tasks or jobs; "
            "put what runs it under `if __name__ == '__main__':`"
        )
    if isinstance(document, JobGraph):
        return DescribedJob(document)
    if isinstance(document, PythonJob):
        return describe_python_job(document)
    if isinstance(document, Mapping):
        return describe_document(document, "the document", None)
    if isinstance(document, str | os.PathLike):
        return read_job(Path(document))
    what = f"task '{document.function.__name__}'" if isinstance(document, PythonTask) else describe_value(document)
    raise InvalidJobGraph(f"invalid job: {what} is not a job; give a function with @eventflink.job, a document, or the path of one")


def read_job(path: Path) -> DescribedJob:
    """Read a file; `FILE.py:NAME` is one of several jobs of a module, `spark-pipeline.yml` a pipeline.

    Raises:
        InvalidJobGraph: it cannot be read, or describes no job.
        ArchiveError: a module that the job imports cannot be read.

    """
    if is_python(path):
        return _read_python(path)
    if is_specification(path):
        return describe_document({PIPELINE: path.name}, str(path), path.parent)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise InvalidJobGraph(f"{path}: longer than {MAX_DOCUMENT_BYTES} bytes; a job graph is not")
        return describe_document(data.decode(), str(path), path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidJobGraph(f"{path} cannot be read: {error}") from error


def describe_document(document: str | Mapping[str, Any], source: str, directory: Path | None) -> DescribedJob:
    """Return the job of a document, given as text or as a mapping, with the packages that it requires and its jars.

    Args:
        document: what describes the job.
        source: where it comes from, for messages.
        directory: where the files are that it names by a relative path; None: it may name none.

    Raises:
        InvalidJobGraph: it describes none; the message names the place.

    """
    parsed = load_document(document, source) if isinstance(document, str) else document
    if not isinstance(parsed, Mapping) or parsed.keys().isdisjoint(PACKED_KEYS):
        return with_sql_files(DescribedJob(parse_job_graph(document, source, directory)), source, directory)
    requirements, jars, pipeline, key = None, tuple[Path, ...](), None, JARS
    rest = {key: value for key, value in parsed.items() if key not in (REQUIREMENTS, JARS)}
    try:
        if JARS in parsed:
            jars = parse_jars(parsed[JARS], directory)
        if (key := REQUIREMENTS) in parsed:
            from eventflink.jobs.required_packages import parse_requirements  # noqa: PLC0415 - most jobs require none

            requirements = parse_requirements(parsed[REQUIREMENTS], directory)
        if (key := PIPELINE) in parsed:
            from eventflink.jobs.pipelines.description import describe_pipeline  # noqa: PLC0415 - most jobs are none

            rest, pipeline = describe_pipeline(rest, directory)
    except ValueError as error:
        raise InvalidJobGraph(f"{source}: {key}: {error}") from error
    # The places of a document that is put together here are in no text.
    text = document if isinstance(document, str) and pipeline is None else None
    graph = parse_job_graph(rest, source, directory, text)
    return with_sql_files(DescribedJob(graph, requirements=requirements, jars=jars, pipeline=pipeline), source, directory)


def with_sql_files(job: DescribedJob, source: str, directory: Path | None) -> DescribedJob:
    """Return a job with the files that its vertices name, and with SQL in files that would be too long for a record.

    A document that is in no directory, or names archives, has its files in those.
    """
    graph, texts = with_sql_in_files(job.graph)
    if directory is not None and not job.graph.code_archives:
        try:
            texts = read_sql_files(job.graph, directory) | texts
        except ValueError as error:
            raise InvalidJobGraph(f"{source}: {error}") from error
    return replace(job, graph=graph, sql_files=texts)


def is_specification(path: Path) -> bool:
    """Tell whether a path is named as the specification of one of Spark's declarative pipelines is."""
    return path.name in SPEC_FILES


def is_python(path: Path) -> bool:
    """Tell whether a path names a Python module, or a job of one."""
    return _PYTHON.fullmatch(str(path)) is not None


def describe_python_job(job: PythonJob, directory: Path | None = None) -> DescribedJob:
    """Return a job that is written in Python; paths of schemas that it names are from the directory.

    Raises:
        InvalidJobGraph: its tasks cannot be put together so, or what it says is not valid in a document.
        ArchiveError: a module that it imports cannot be read.

    """
    try:
        return replace(describe_document(job.document(), f"job '{job.name}'", directory), code=tuple(job.code()))
    except InvalidPythonJob as error:
        file = job.function.__code__.co_filename
        line = _line_in(Path(file), error)
        raise InvalidJobGraph(f"{error} ({Path(file).name}, line {line})" if line is not None else str(error)) from error


def _read_python(path: Path) -> DescribedJob:
    found = _PYTHON.fullmatch(str(path))
    file, name = (Path(found["file"]), found["name"]) if found else (path, None)
    if not file.is_file():
        raise InvalidJobGraph(f"job file not found: {file}")
    with _loaded(file) as module:
        return describe_python_job(_job_of(module, file, name), file.parent)


@contextmanager
def _loaded(file: Path) -> Iterator[ModuleType]:
    """Load the module of a file, and what it imports that lies beside it, as they are now; this process keeps those that it has.

    An error of the module, or of the block, becomes an `InvalidJobGraph` that names the line of the file.
    """
    if (fault := name_fault(file)) is not None:
        raise InvalidJobGraph(fault)
    directory = str(file.absolute().parent)
    kept = _modules_below(directory)
    if file.stem in sys.modules and file.stem not in kept:
        raise InvalidJobGraph(f"{file}: a module '{file.stem}' is there already, from another place: call the file something else")
    for name in kept:
        del sys.modules[name]
    sys.path.insert(0, directory)
    importlib.invalidate_caches()
    try:
        yield import_for_jobs(file.stem)
    except (InvalidJobGraph, ArchiveError):
        raise
    except (Exception, SystemExit) as error:  # A user's module may raise anything, and end the program.
        raise InvalidJobGraph(_told(file, error)) from error
    finally:
        sys.path.remove(directory)
        for name in _modules_below(directory):
            del sys.modules[name]
        sys.modules.update(kept)


def _told(file: Path, error: BaseException) -> str:
    """Return an error of a job's module with its place: that of a file that is not Python is in there, wherever it is imported."""
    line = _line_in(file, error)
    if not isinstance(error, SyntaxError) or error.filename is None or not Path(error.filename).is_file():
        return f"{_place(file, line)}: {type(error).__name__}: {error}"
    faulty = file if line is None else Path(error.filename)
    by = f" (imported at {file.name}, line {line})" if line is not None else ""
    return f"{_place(faulty, error.lineno)}: {type(error).__name__}: {error.msg}{by}"


def _place(file: Path, line: int | None) -> str:
    return f"{file}, line {line}" if line is not None else str(file)


def _line_in(file: Path, error: BaseException) -> int | None:
    """Return the line of a file that was the last to be run before an error; None: none of it was."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).resolve() == file.resolve()]
    return lines[-1] if lines else None


def _modules_below(directory: str) -> dict[str, ModuleType]:
    """Return the modules of this process that Python finds in the directory itself, and those within their packages."""
    root = Path(directory).resolve()
    return {
        name: module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) is not None
        and (path := Path(file).resolve()).is_relative_to(root)
        and (top := name.partition(".")[0]) not in NEVER_LOCAL
        and path.relative_to(root).parts[0] in (top, f"{top}.py")
    }


def _job_of(module: ModuleType, file: Path, name: str | None) -> PythonJob:
    jobs = {key: each for key, each in vars(module).items() if isinstance(each, PythonJob) and each.function.__module__ == module.__name__}
    if name is not None:
        if name not in jobs:
            raise InvalidJobGraph(f"job not found: {file} has no '{name}' with @eventflink.job; it has {', '.join(jobs) or 'none'}")
        return jobs[name]
    if len(jobs) != 1:
        what = f"has several jobs: name one of them, such as {file}:{next(iter(jobs))}" if jobs else "has no function with @eventflink.job"
        raise InvalidJobGraph(f"job not found: {file} {what}")
    return next(iter(jobs.values()))
