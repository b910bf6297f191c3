"""Reads the definitions of a pipeline without a Spark: which data sets there are, what each reads, and a digest of what it is made of.

A process of its own, `python -m eventflink.jobs.pipelines.reading`, since the code of the pipeline runs in it. It takes a
`PipelineQuestion` as JSON on its standard input, and prints a `PipelineAnswer` or a `PipelineFault` as JSON. Queries are only built here,
and say themselves which tables they name. What only a running Spark could tell, such as the columns of a table, cannot be had.
"""

import ast
import hashlib
import logging
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from eventflink.jobs.archive import PACKAGE_FILE, ArchiveError
from eventflink.jobs.connect_messages import messages_in
from eventflink.jobs.local_modules import local_modules
from eventflink.jobs.pipelines.definitions import DataSet, Definitions, Flow, defaults_of, files_of, full_name, parts_of, read_definitions
from eventflink.jobs.pipelines.offline_session import make_offline_session
from eventflink.jobs.pipelines.statements import DataSetKind, InvalidPipeline
from eventflink.model.sql_script import masked

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
    session = make_offline_session(configuration)
    root = spec_file.parent
    sys.path.insert(0, str(root))
    os.chdir(root)
    try:
        definitions = read_definitions(spec_file, spec, session)
        files = files_of(spec_file, spec)
        helpers = _modules_imported_by(files, root)
        others = " ".join(_file_digest(each) for each in helpers)
        known = _Reading(definitions, defaults_of(spec), others, session).data_sets()
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
    return f"{Path(frames[-1].filename).relative_to(root)}, line {frames[-1].lineno}: " if frames else ""


def _modules_imported_by(files: Sequence[Path], root: Path) -> list[Path]:
    """Return the modules of the pipeline's directory that files of definitions import, also by way of others, file by file."""
    imported = {name for each in files if each.suffix == ".py" for name in _imports_of(each)}
    places = [each.parent if each.name == PACKAGE_FILE else each for each in local_modules(imported, root)]
    found = {file.resolve() for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]) if file.is_file()}
    return sorted(found - set(files))


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
        self._plans = {id(flow): self._plan_of(flow) for flow in definitions.flows}

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
                parts += [flow.name, repr(sorted(flow.settings.items())), hashlib.sha256(self._plans[id(flow)]).hexdigest()]
        definition = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return KnownDataSet(name=data_set.name, kind=data_set.kind, reads=sorted(named), views=views, definition=definition)

    def _named_by(self, name: str, above: tuple[str, ...]) -> tuple[set[str], list[str]]:
        """Return the stored data sets that one names, and the views, each behind those that it names."""
        stored: set[str] = set()
        views: list[str] = []
        for flow in self._definitions.flows_into(name):
            for table in tables_in(self._plans[id(flow)], self._all_names()):
                known = self._find(table)
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
        return stored, views

    def _find(self, table: str) -> DataSet | None:
        """Return the data set that a table name in a query stands for: a view hides a table of its name."""
        data_sets = self._definitions.data_sets
        view = data_sets.get(".".join(parts_of(table)))
        return view if view is not None and view.kind is DataSetKind.TEMPORARY_VIEW else data_sets.get(full_name(table, self._defaults))

    def _all_names(self) -> set[str]:
        return {parts_of(name)[-1] for name in self._definitions.data_sets}

    def _plan_of(self, flow: Flow) -> bytes:
        rows: Any = flow.rows
        if not hasattr(rows, "_plan"):
            raise InvalidPipeline(f"flow '{flow.name}' returns no DataFrame but {type(rows).__name__}")
        relation = rows._plan.plan(self._session.client)  # noqa: SLF001 - no method gives the plan
        numbers: dict[int, int] = {}
        for message in messages_in(relation):
            if "plan_id" in message.DESCRIPTOR.fields_by_name and message.HasField("plan_id"):
                # Spark's client numbers all plans of a process: what is defined before would count.
                message.plan_id = numbers.setdefault(message.plan_id, len(numbers))
        serialized: bytes = relation.SerializeToString(deterministic=True)
        return serialized


def tables_in(plan: bytes, names: Collection[str]) -> list[str]:
    """Return the names of tables in a plan of Spark Connect, as they are written there."""
    from pyspark.sql.connect.proto import Relation  # noqa: PLC0415 - Spark is loaded by those who use it

    found: list[str] = []
    for message in messages_in(Relation.FromString(plan)):
        if message.DESCRIPTOR.name == "NamedTable":
            found.append(message.unparsed_identifier)
        elif message.DESCRIPTOR.name == "SQL":
            found += tables_of_query(message.query, names)
    return found


def tables_of_query(query: str, names: Collection[str]) -> list[str]:
    """Return the names of tables in a query; of one that sqlglot cannot read each of `names` that stands in it outside of texts.

    Example:
        `SELECT * FROM STREAM(events) JOIN sales.rates` has `events` and `sales.rates`.

    """
    hidden = masked(query)
    plain = _STREAM.sub(lambda found: f"      {found['bare'] or found['inner']}", hidden)
    if find_spec("sqlglot") is not None:
        import sqlglot  # noqa: PLC0415 - for pipelines with SQL alone
        from sqlglot import expressions  # noqa: PLC0415

        try:
            parsed = sqlglot.parse_one(plain, read="databricks")
        except (sqlglot.errors.SqlglotError, RecursionError):
            parsed = None
        if parsed is not None and (tables := list(parsed.find_all(expressions.Table))):
            own = {each.alias_or_name.lower() for each in parsed.find_all(expressions.CTE)}
            return [
                ".".join(f"`{part.name.replace('`', '``')}`" for part in table.parts)
                for table in tables
                if table.name and (table.db or table.name.lower() not in own)
            ]
    words = {parts_of(word)[-1] for word in _WORD.findall(hidden)}
    return [f"`{name}`" for name in sorted(words & set(names))]


_IDENTIFIER: Final = r"(?:`[^`]*`|\w+)(?:\.(?:`[^`]*`|\w+))*"
_WORD: Final = re.compile(r"`[^`]+`|\w+")
_STREAM: Final = re.compile(rf"\bSTREAM(?:\s*\(\s*(?P<inner>{_IDENTIFIER})\s*\)|\s+(?!AS\b)(?P<bare>{_IDENTIFIER}))", re.IGNORECASE)


def main() -> None:
    """PipelineAnswer the question on standard input."""
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
