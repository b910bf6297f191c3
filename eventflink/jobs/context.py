"""What a PySpark task is given: its inputs, its parameters, who it is, and Spark if it asks.

The task's function takes one `TaskContext` and returns the DataFrame to publish, a mapping of output name to DataFrame, or None.
Everything that costs time is lazy: a task that never asks for Spark never waits for it. How a session is opened and rows are read is
handed in.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from eventflink.jobs.accumulators import Accumulator, TaskAccumulators
from eventflink.jobs.shipping import InputUnusable, share_rows
from eventflink.model.attempts import AttemptId
from eventflink.model.closing import GraphOutcome

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession


class TaskInputs(Mapping[str, "DataFrame"]):
    """The inputs of a subtask by name, each read when it is first asked for: the rows that belong to this subtask, and no others.

    Examples:
        >>> sorted(context.inputs)
        ['orders', 'rates']
        >>> context.inputs["orders"].columns
        ['customer', 'amount']

    """

    def __init__(self, readers: Mapping[str, Callable[[], "DataFrame"]]) -> None:
        self._readers = dict(readers)
        self._rows: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> "DataFrame":
        """Return this subtask's rows of the input.

        Raises:
            InputUnusable: the vertex has no input of that name, or it cannot be shared out as its edge says.

        """
        if name not in self._readers:
            raise InputUnusable(f"input not found: '{name}'; this vertex has {', '.join(self._readers) or 'no inputs'}")
        if name not in self._rows:
            self._rows[name] = self._readers[name]()
        return self._rows[name]

    def forget(self, names: Iterable[str]) -> None:
        """Have these inputs read again when they are asked for next."""
        for name in names:
            self._rows.pop(name, None)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is an input of that name, without reading it."""
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


class TaskContext:
    """What the function of a task is called with.

    Examples:
        >>> rows = context.spark.range(10).where(f"id >= {context.parameters['least']}")
        >>> context.accumulator("rows").add(rows.count())
        >>> context.share(rows).columns
        ['id']

    """

    def __init__(
        self,
        attempt_id: AttemptId,
        *,
        parallelism: int,
        max_parallelism: int,
        parameters: dict[str, Any],
        readers: Mapping[str, Callable[[], "DataFrame"]],
        open_spark: Callable[[], "SparkSession"],
        accumulators: TaskAccumulators,
        open_catalog: "Callable[[str], Catalog] | None" = None,
        row_input: str | None = None,
        outcome: GraphOutcome | None = None,
    ) -> None:
        self.job_id = attempt_id.job_id
        self.vertex_id = attempt_id.vertex_id
        self.subtask_index = attempt_id.subtask_index
        self.attempt = attempt_id.attempt
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.parameters = parameters
        self.inputs = TaskInputs(readers)
        self.logger = logging.getLogger(f"task.{attempt_id.vertex_id}")
        self._accumulators = accumulators
        self._open_spark = open_spark
        self._open_catalog = open_catalog
        self._spark: SparkSession | None = None
        self.row_input = row_input
        """The name of the input that gives each subtask one row; None: the vertex is not mapped."""
        self._row: Mapping[str, Any] | None = None
        self.outcome = outcome
        """How the other vertices of the job came out, for a closing vertex; None: this vertex runs in its turn."""

    def __reduce__(self) -> NoReturn:
        """Raise, for functions that Spark runs elsewhere would take it with them.

        Raises:
            TypeError: always.

        """
        raise TypeError("the context of a task stays in its process: put what a function of Spark needs of it into a variable before")

    @property
    def spark(self) -> "SparkSession":
        """The task's own Spark session, opened now if it was not before (the first task of a host waits for Spark to start)."""
        if self._spark is None:
            self._spark = self._open_spark()
        return self._spark

    def iceberg_catalog(self, name: str) -> "Catalog":
        """Return a catalogue of Iceberg, as pyiceberg has it: one that the configuration of the TaskExecutor names.

        Raises:
            TableUnusable: catalogue not found, or the extra `iceberg` is not installed.
            SinkUnavailable: the catalogue does not answer.

        Examples:
            >>> context.iceberg_catalog("lake").load_table("shop.sales").current_snapshot()  # doctest: +SKIP

        """
        if self._open_catalog is None:
            raise InputUnusable(f"vertex '{self.vertex_id}' has no catalogues: it is chained to another one")
        return self._open_catalog(name)

    @property
    def row(self) -> Mapping[str, Any]:
        """The row that a subtask of a mapped vertex is there for: its values by column; the same one in every attempt.

        Raises:
            InputUnusable: the vertex has no input that is shipped by `each`.

        """
        if self.row_input is None:
            raise InputUnusable(f"vertex '{self.vertex_id}' has no row: none of its inputs is shipped by each")
        if self._row is None:
            [row] = self.inputs[self.row_input].collect()
            self._row = row.asDict(recursive=True)
        return self._row

    def accumulator(self, name: str, kind: type[int] | type[float] = int) -> Accumulator:
        """Return the sum that the task keeps under a name, of whole numbers or, with `float`, of any; it begins at 0.

        What it is when the task finishes is told, and added up over the subtasks of the job.

        Raises:
            AccumulatorUnusable: there are too many, or the name cannot be one, or it is of another kind.

        """
        return self._accumulators.of(name, kind)

    def share(self, rows: "DataFrame") -> "DataFrame":
        """Return this subtask's rows of a DataFrame that every subtask sees whole, such as a file: what a source calls.

        Rows are told apart by what is in them: the DataFrame must have the same rows in every subtask, in any order.
        """
        return share_rows(rows, self.subtask_index, self.parallelism)
