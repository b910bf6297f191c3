"""The definitions in the files of a pipeline: its data sets, and the flows that write to them, with their queries.

Spark's own decorators (`pyspark.pipelines`) hand them over, here as in Spark's runner, when the file is read: so the function of a flow is
called at once, also in a loop. What asks for rows, or changes the session, is refused there. Files are read in the order of their names.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from eventflink.jobs.pipelines.statements import DataSetKind, InvalidPipeline
from eventflink.model.sql_script import quoted

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec
    from pyspark.sql import DataFrame, SparkSession

SPEC_FILES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_PART: Final = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_PARTS: Final = 3
"""Catalogue, database and name."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set, as it is defined."""

    name: str
    """With catalogue and database, in lower case; of a view and a sink the name alone."""
    kind: DataSetKind
    columns: str = ""
    """As in SQL; empty: those of its query."""
    clauses: str = ""
    """As in `CREATE TABLE`: format, partitions, comment, properties."""
    format: str = ""
    """Of a sink."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of a sink."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A query and the data set that it writes to."""

    name: str
    target: str
    settings: Mapping[str, str]
    rows: "DataFrame | None"
    """None: its data set was not asked for."""


@dataclass(slots=True)
class Definitions:
    """All that the files of a pipeline define."""

    data_sets: dict[str, DataSet] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)

    def flows_into(self, name: str) -> list[Flow]:
        """Return the flows that write to a data set."""
        return [each for each in self.flows if each.target == name]


def parts_of(name: str) -> list[str]:
    """Return the parts of a name in lower case, without quotes.

    Example:
        >>> parts_of("Sales.`Orders of a day`")
        ['sales', 'orders of a day']

    """
    return [(found[1] if found[1] is not None else found[2].strip()).replace("``", "`").lower() for found in _PART.finditer(name)]


def files_of(spec_file: Path, spec: "PipelineSpec") -> list[Path]:
    """Return the files with definitions that a specification names, each once, in the order of their names."""
    root = spec_file.parent.resolve()
    found = {each for library in spec.libraries for each in root.glob(library.include) if each.is_file()}
    return sorted(each for each in found if "__pycache__" not in each.parts)


def read_definitions(
    spec_file: Path, spec: "PipelineSpec", session: "SparkSession", wanted: Callable[[str], bool] = lambda _: True
) -> Definitions:
    """Read the files of a pipeline.

    Args:
        spec_file: the specification, in the directory of the pipeline.
        spec: what it says.
        session: with which queries are made.
        wanted: whether the queries are made that write to the data set of a name.

    Raises:
        InvalidPipeline: a definition cannot be had in a job.
        Exception: what the code of a file raises.

    """
    from pyspark.pipelines.block_session_mutations import block_session_mutations  # noqa: PLC0415 - Spark is loaded by those who use it
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context  # noqa: PLC0415 - likewise

    from eventflink.jobs.pipelines.registry import Registry  # noqa: PLC0415 - likewise

    registry = Registry(spec, session, wanted)
    root = spec_file.parent.resolve()
    with graph_element_registration_context(registry):
        for file in files_of(spec_file, spec):
            name = file.relative_to(root).as_posix()
            if file.suffix == ".sql":
                registry.register_sql(file.read_text(encoding="utf-8"), Path(name))
            elif file.suffix == ".py":
                # By names from the pipeline's directory, so that functions are the same wherever that is.
                module = ModuleType(file.stem)
                module.__dict__.update({"spark": session, "__file__": name})
                with block_session_mutations():
                    exec(compile(file.read_bytes(), name, "exec"), module.__dict__)  # noqa: S102 - it is what the user submits
            else:
                raise InvalidPipeline(f"{name} is no file of definitions: they are in .py and .sql; name others in no glob of 'libraries'")
    return registry.finish()


@contextmanager
def with_settings(session: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Have settings in a session for the statements within, and then those of before."""
    before = {key: session.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            session.conf.unset(key) if value is None else session.conf.set(key, value)


def find_data_set(definitions: Definitions, table: str, defaults: tuple[str, str]) -> DataSet | None:
    """Return the data set that the name of a table in a query stands for; a view hides a table of its name. None: it is none of them."""
    view = definitions.data_sets.get(own_name(table))
    return view if view is not None and view.kind is DataSetKind.TEMPORARY_VIEW else definitions.data_sets.get(full_name(table, defaults))


def defaults_of(spec: "PipelineSpec") -> tuple[str, str]:
    """Return the catalogue and the database of names without them."""
    return (spec.catalog or "spark_catalog").lower(), (spec.database or "default").lower()


def full_name(name: str, defaults: tuple[str, str]) -> str:
    """Return the name of a table with its catalogue and database, in lower case.

    Args:
        name: of one, two or three parts.
        defaults: the catalogue and the database of a name without them.

    """
    parts = parts_of(name)
    return ".".join([*defaults[: max(0, _PARTS - len(parts))], *parts])


def own_name(name: str) -> str:
    """Return the name of a view or a sink, in lower case and without quotes."""
    return ".".join(parts_of(name))


def sql_name(name: str) -> str:
    """Return the full name of a table as SQL has it."""
    catalog, database, table = name.split(".", _PARTS - 1)
    return ".".join(quoted(each) for each in (catalog, database, table))
