"""What the files of a pipeline define: its data sets, and the flows that write to them, with their queries; and how names are compared.

The files are read by `loading`. The rule this module keeps: two names that Spark takes for one table are one here, with the catalogue and
the database, in lower case.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eventflink.jobs.pipelines.statements import DataSetKind
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
    """The format in which a sink writes; empty: it is another kind of data set."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options with which a sink writes."""


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
    """Return the data set of a name in a query; None: the name is that of another table. A view hides a table of its name."""
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
