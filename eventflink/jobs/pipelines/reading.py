"""Reads the definitions of a pipeline without a Spark: which data sets there are, what each reads, and a digest of what it is made of.

A process of its own, `python -m eventflink.jobs.pipelines.reading`, since the code of the pipeline runs in it. It takes a
`PipelineQuestion` as JSON on its standard input, and prints a `PipelineAnswer` or a `PipelineFault` as JSON. Queries are only built here,
and say themselves which tables they name. What only a running Spark could tell, such as the columns of a table, cannot be had.
"""

import ast
import hashlib
import logging
import os
import random
import sys
import traceback
import uuid
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from eventflink.jobs.archive import PACKAGE_FILE, ArchiveError
from eventflink.jobs.connect_messages import messages_in
from eventflink.jobs.local_modules import local_modules
from eventflink.jobs.pipelines.definitions import (
    DataSet,
    Definitions,
    Flow,
    defaults_of,
    find_data_set,
    parts_of,
)
from eventflink.jobs.pipelines.loading import files_of, read_definitions
from eventflink.jobs.pipelines.offline_session import make_offline_session
from eventflink.jobs.pipelines.statements import DataSetKind, InvalidPipeline, substituted
from eventflink.jobs.pipelines.tables_named import tables_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineQuestion(BaseModel):
    """What the process is asked."""

    spec_file: Path
    configuration: dict[str, str]
    """In place of what the specification has: values of parameters."""


class KnownDataSet(BaseModel):
    """A data set that a pipeline stores."""

    name: str
    kind: DataSetKind
    reads: list[str]
    """The data sets that its queries name, also by way of views."""
    views: list[str]
    """The temporary views that they name; each comes after those that it names itself."""
    definition: str
    """A digest of what it is made of: its table, its queries, those of its views, and the modules that the files import."""


class PipelineAnswer(BaseModel):
    """What a pipeline is."""

    name: str
    configuration: dict[str, str]
    files: list[Path]
    """All that its definitions need, relative to the directory of the specification."""
    data_sets: list[KnownDataSet]


class PipelineFault(BaseModel):
    """Why it cannot be read."""

    message: str


def read_pipeline(question: PipelineQuestion) -> PipelineAnswer:
    """Return what a pipeline defines.

    Raises:
        InvalidPipeline: it cannot be a job, or its code raises something; the message names the place.
        ArchiveError: a module that it imports cannot be read.

    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - Spark is loaded by those who use it
    from pyspark.pipelines.cli import load_pipeline_spec  # noqa: PLC0415 - likewise

    spec_file = question.spec_file.resolve()
    try:
        spec = load_pipeline_spec(spec_file)
    except (PySparkException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidPipeline(f"{spec_file.name}: {_first_line(error)}") from error
    configuration = {**spec.configuration, **question.configuration}
    asked: set[str] = set()
    session = make_offline_session(configuration, asked)
    root = spec_file.parent
    sys.path.insert(0, str(root))
    os.chdir(root)
    try:
        definitions = read_definitions(spec_file, spec, session, _begin_query)
        files = files_of(spec_file, spec)
        helpers = _modules_imported_by(files, root)
        # What a query makes of columns is not in its plan here, which has none; its function may be anywhere.
        counting = sorted({*helpers, *(each for each in files if asked and each.suffix == ".py")})
        others = [_file_digest(each) for each in counting]
        others += [f"{key}={value}" for key, value in sorted(spec.configuration.items()) if key not in question.configuration]
        known = _Reading(definitions, defaults_of(spec), " ".join(others), session).data_sets()
    except (InvalidPipeline, ArchiveError):
        raise
    except (Exception, SystemExit) as error:  # The code of a pipeline may raise anything, and end the program.
        raise InvalidPipeline(f"{_place_of(error, root)}{type(error).__name__}: {_first_line(error)}") from error
    if not known:
        raise InvalidPipeline(f"{spec_file.name}: no file that 'libraries' names defines a data set that is stored")
    relative = [each.relative_to(root) for each in (spec_file, *files, *helpers)]
    return PipelineAnswer(name=spec.name, configuration=dict(spec.configuration), files=list(dict.fromkeys(relative)), data_sets=known)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _place_of(error: BaseException, root: Path) -> str:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).resolve().is_relative_to(root)]
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}: "
    return f"{Path(frames[-1].filename).resolve().relative_to(root)}, line {frames[-1].lineno}: " if frames else ""


def _modules_imported_by(files: Sequence[Path], root: Path) -> list[Path]:
    """Return the modules of the pipeline's directory that files of definitions import, also by way of others, file by file."""
    imported = {name for each in files if each.suffix == ".py" for name in _imports_of(each)}
    places = [each.parent if each.name == PACKAGE_FILE else each for each in local_modules(imported, root)]
    found = {file.resolve() for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]) if file.is_file()}
    return sorted(found)


def _begin_query(_: str) -> bool:
    """Let each query be built from what stands in its function alone: Spark's client draws seeds, numbers plans and makes up names."""
    from pyspark.sql.connect.plan import LogicalPlan  # noqa: PLC0415 - Spark is loaded by those who use it

    random.seed(0)
    drawn = random.Random(0)  # noqa: S311 - nothing is kept secret by it
    uuid.uuid4 = lambda: uuid.UUID(int=drawn.getrandbits(128), version=4)
    LogicalPlan._nextPlanId = 0  # noqa: SLF001 - there is no other place for it
    return True


def _imports_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def _file_digest(file: Path) -> str:
    return hashlib.sha256(file.name.encode() + b"\0" + file.read_bytes()).hexdigest()


class _Reading:
    """What the data sets of one pipeline name, and are made of."""

    def __init__(self, definitions: Definitions, defaults: tuple[str, str], helpers: str, session: "SparkSession") -> None:
        self._definitions = definitions
        self._defaults = defaults
        self._helpers = helpers
        self._session: Any = session
        self._named: dict[str, tuple[set[str], list[str]]] = {}
        """What each data set names, found once for all that read it."""
        self._relations = {id(flow): self._relation_of(flow) for flow in definitions.flows}

    def data_sets(self) -> list[KnownDataSet]:
        """Return those that are stored, in the order of their definitions."""
        stored = [each for each in self._definitions.data_sets.values() if each.kind is not DataSetKind.TEMPORARY_VIEW]
        return [self._known(each) for each in stored]

    def _known(self, data_set: DataSet) -> KnownDataSet:
        named, views = self._named_by(data_set.name, ())
        parts = [self._helpers]
        for each in (*views, data_set.name):
            parts.append(repr(self._definitions.data_sets[each]))
            for flow in self._definitions.flows_into(each):
                plan = self._relations[id(flow)].SerializeToString(deterministic=True)
                parts += [flow.name, repr(sorted(flow.settings.items())), hashlib.sha256(plan).hexdigest()]
        definition = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return KnownDataSet(name=data_set.name, kind=data_set.kind, reads=sorted(named), views=views, definition=definition)

    def _named_by(self, name: str, above: tuple[str, ...]) -> tuple[set[str], list[str]]:
        """Return the stored data sets that one names, and the views, each behind those that it names."""
        if name in self._named:
            return self._named[name]
        stored: set[str] = set()
        views: list[str] = []
        for flow in self._definitions.flows_into(name):
            for table in self._tables_of(flow):
                known = find_data_set(self._definitions, table, self._defaults)
                if known is None:
                    continue
                if known.kind is not DataSetKind.TEMPORARY_VIEW:
                    stored.add(known.name)
                elif known.name in (*above, name):
                    raise InvalidPipeline(f"temporary view '{known.name}' reads itself")
                else:
                    further, before = self._named_by(known.name, (*above, name))
                    stored |= further
                    views += [each for each in (*before, known.name) if each not in views]
        self._named[name] = stored, views
        return stored, views

    def _all_names(self) -> set[str]:
        return {parts_of(name)[-1] for name in self._definitions.data_sets}

    def _tables_of(self, flow: Flow) -> list[str]:
        try:
            return tables_in(self._relations[id(flow)], self._all_names())
        except InvalidPipeline as error:
            raise InvalidPipeline(f"flow '{flow.name}': {error}") from None

    def _relation_of(self, flow: Flow) -> Any:
        rows: Any = flow.rows
        if not hasattr(rows, "_plan"):
            raise InvalidPipeline(f"flow '{flow.name}' returns no DataFrame but {type(rows).__name__}")
        relation = rows._plan.plan(self._session.client)  # noqa: SLF001 - no method gives the plan
        for message in messages_in(relation):
            if message.DESCRIPTOR.name == "SQL":  # As Spark reads it.
                message.query = substituted(message.query, lambda key: self._session.conf.get(key, None))
        numbers: dict[int, int] = {}
        for message in messages_in(relation):
            if "plan_id" in message.DESCRIPTOR.fields_by_name and message.HasField("plan_id"):
                # Spark's client numbers all plans of a process: what is defined before would count.
                message.plan_id = numbers.setdefault(message.plan_id, len(numbers))
        return relation


def main() -> None:
    """Answer the question on standard input."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    question = PipelineQuestion.model_validate_json(sys.stdin.read())
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with redirect_stdout(sys.stderr):  # What the code of the pipeline prints is nothing of the answer.
        try:
            answer: PipelineAnswer | PipelineFault = read_pipeline(question)
        except (InvalidPipeline, ArchiveError) as error:
            answer = PipelineFault(message=str(error))
    with told:
        told.write(answer.model_dump_json())
    os._exit(0)  # The threads of Spark's client would wait for a server.


if __name__ == "__main__":
    main()
