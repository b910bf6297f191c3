"""Jobs written in Python: functions that are tasks, and a function that says how they go together. It is compiled to a job's document.

    @eventflink.task(parallelism=2)
    def orders(context, day): ...

    @eventflink.task
    def totals(orders): ...

    @eventflink.job
    def revenue(day: date):
        totals(orders(day).hash("customer"))

What is compiled says what a document in YAML would say, and is checked as that is. The rule it keeps: while a job is compiled, no task is
run; a task finds its function by the name of its module, as `python: module:function` of a document does. Of those that stand in no
module, in a notebook, `notebook_tasks.py` makes one.
"""

import atexit
import functools
import inspect
import json
import re
import shutil
import sys
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, overload

from eventflink.jobs.context import TaskContext
from eventflink.jobs.local_modules import NEVER_LOCAL, is_installed, local_modules

NOTEBOOK_MODULE: Final = "notebook_tasks"
"""The module that is made of the tasks of a notebook."""
_CONTEXT: Final = "context"
"""The first parameter of a function that wants to know more than its inputs and values."""
_TYPES: Final[Mapping[object, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    datetime: "timestamp",
    date: "date",
}
"""The types of a job's parameters, as Python and a document call them."""


class InvalidPythonJob(TypeError):
    """Tasks cannot be put together so; the message names job, task and argument, and says what to do.

    Examples:
        >>> eventflink.sql("SELECT 1", id="one")
        Traceback (most recent call last):
        eventflink.jobs.python_jobs.InvalidPythonJob: the statement 'one' stands outside of a function with @eventflink.job

    """


@dataclass(frozen=True, slots=True, eq=False)
class TaskOutput:
    """What a task returns, in a job that is being put together: an argument of the tasks that read it.

    Without a method it is shared out evenly (`rebalance`) over the subtasks that read it.

    Examples:
        >>> @eventflink.job
        ... def remainders():
        ...     numbers = eventflink.sql("SELECT id % 3 AS k FROM range(10)", id="numbers")
        ...     eventflink.sql("SELECT k, count(*) AS c FROM n GROUP BY k", id="counts", n=numbers.hash("k"))
        >>> remainders.document()["edges"]
        [{'from': 'numbers', 'to': 'counts', 'ship': 'hash', 'keys': ['k'], 'name': 'n'}]

    """

    vertex_id: str
    drawing: "_Drawing"
    """The job that is put together."""
    edge: Mapping[str, Any]
    """What a document says of an edge from it."""

    def output(self, name: str) -> "TaskOutput":
        """Return another output of the same task, by the name that its mapping has for it."""
        return self._with(output=name)

    def hash(self, *keys: str, **edge: Any) -> "TaskOutput":
        """Have rows with equal values in these columns read by the same subtask."""
        return self._with(ship="hash", keys=list(keys), **edge)

    def broadcast(self, **edge: Any) -> "TaskOutput":
        """Have each subtask read all rows."""
        return self._with(ship="broadcast", **edge)

    def each(self, **edge: Any) -> "TaskOutput":
        """Have a subtask for each row: the argument is that row, its values by column. `max_parallelism` of the task bounds the rows."""
        return self._with(ship="each", **edge)

    def forward(self, **edge: Any) -> "TaskOutput":
        """Have each subtask read the rows of the one with its number."""
        return self._with(ship="forward", **edge)

    def rebalance(self, **edge: Any) -> "TaskOutput":
        """Share the rows out evenly; further keys of the edge are named here, such as the `schema` of an edge between streams."""
        return self._with(ship="rebalance", **edge)

    def _with(self, **said: Any) -> "TaskOutput":
        return replace(self, edge={**self.edge, **said})

    def _has_no_rows(self, *_: object) -> NoReturn:
        raise InvalidPythonJob(
            f"{self.drawing.where}: the output of '{self.vertex_id}' has no rows while the job is put together: "
            "give it to a task as an argument, or to eventflink.sql as an input"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python itself asks for what there may be, as does who copies.
            raise AttributeError(name)
        self._has_no_rows()

    __iter__ = __len__ = __getitem__ = __contains__ = _has_no_rows


class _ParameterOfJob:
    """A parameter in a job that is being put together: its value is known when the job runs, and only by its tasks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _has_no_value(self, *_: object) -> NoReturn:
        raise InvalidPythonJob(
            f"the parameter '{self.name}' has no value while the job is put together: give it to a task as an argument, "
            f"or name it in SQL as :{self.name}"
        )

    def __getattr__(self, _: str) -> NoReturn:
        self._has_no_value()

    __str__ = __repr__ = __format__ = _has_no_value
    __bool__ = __int__ = __float__ = __index__ = __iter__ = __len__ = __getitem__ = __contains__ = _has_no_value
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _has_no_value
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _has_no_value
    __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __round__ = _has_no_value


class PythonTask:
    """A function that is a task. In a function with `@eventflink.job` a call of it is a vertex; its process runs it on its inputs.

    Examples:
        >>> @eventflink.task
        ... def large(orders, least):
        ...     return [order for order in orders if order >= least]
        >>> large.function([3, 10, 42], least=10)
        [10, 42]

    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        """The function itself, for tests that call it."""
        self._options = options
        self._signature = _signature_of(function)

    def options(self, **options: Any) -> "PythonTask":
        """Return the same task for another vertex: with another `id`, or other keys of a vertex, such as `parallelism`."""
        return PythonTask(self.function, {**self._options, **options})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Add a vertex to the job that is put together; in the process of the task, run the function.

        Raises:
            InvalidPythonJob: the arguments do not fit the function, or it is called outside of a job.

        """
        if len(arguments) == 1 and isinstance(arguments[0], TaskContext):
            return self._run(arguments[0])
        drawing = _drawing.get()
        name = self.function.__name__
        if drawing is None:
            raise InvalidPythonJob(
                f"task '{name}' is called outside of a function with @eventflink.job; {name}.function is the function itself"
            )
        stream = self._options.get("stream") or {}
        sources = {*stream.get("sources", {}), *(self._options.get("sources") or {})}
        elsewhere = {*(self._options.get("parameters") or {}), *sources} - named.keys()
        signature = self._signature.replace(parameters=[each for each in self._signature.parameters.values() if each.name not in elsewhere])
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise InvalidPythonJob(f"{drawing.where}: task '{name}': {error}") from None
        path = self._path(drawing)
        drawing.tasks[self.function.__qualname__] = self.function
        left_out = [each for each in signature.parameters if each not in bound.arguments]
        return drawing.add(self._options.get("id", name), {"python": path}, self._options, bound.arguments, left_out)

    def _run(self, context: TaskContext) -> Any:
        given: dict[str, Any] = {}
        for name in self._signature.parameters:
            if name == context.row_input:
                given[name] = context.row
            elif name in context.inputs:
                given[name] = context.inputs[name]
            elif name in context.parameters:
                given[name] = context.parameters[name]
        return self.function(**({_CONTEXT: context} if _takes_context(self.function) else {}), **given)

    def _path(self, drawing: "_Drawing") -> str:
        """Return `module:function`, by which the process of the task finds it."""
        module, name = _module_of(self.function), self.function.__qualname__
        found: Any = sys.modules.get(self.function.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, PythonTask) or found.function is not self.function:
            raise InvalidPythonJob(
                f"{drawing.where}: task '{name}' is not '{name}' of its module, by which its process would find it: "
                "define it at the top of a module, under the name that it keeps"
            )
        return f"{module}:{name}"


class _Drawing:
    """The vertices and edges of a job that is put together."""

    def __init__(self, job: str, parameters: Mapping[str, Any]) -> None:
        self.where = f"job '{job}'"
        self._parameters = parameters
        self.vertices: dict[str, dict[str, Any]] = {}
        self.edges: list[dict[str, Any]] = []
        self.tasks: dict[str, Callable[..., Any]] = {}
        """The functions of its tasks by their names."""

    def add(
        self,
        vertex_id: str,
        runs: Mapping[str, Any],
        options: Mapping[str, Any],
        arguments: Mapping[str, Any],
        left_out: Iterable[str] = (),
    ) -> TaskOutput:
        """Add a vertex with what it reads, or leaves to a default; return its output."""
        where = f"{self.where}: vertex '{vertex_id}'"
        if vertex_id in self.vertices:
            raise InvalidPythonJob(f"{where} is there already: give this one another id, by .options(id=…)")
        for name in left_out:
            if name in self._parameters:
                raise InvalidPythonJob(
                    f"{where}: its argument '{name}' has a default, and is a parameter of the job, which it would get in place of that:"
                    " give it that parameter, or call it something else"
                )
        values = dict(options.get("parameters") or {})
        for name, given in arguments.items():
            if isinstance(given, TaskOutput):
                self._add_edge(where, vertex_id, name, given)
            elif isinstance(given, _ParameterOfJob):
                if given.name != name:
                    raise InvalidPythonJob(
                        f"{where}: its argument '{name}' is given the parameter '{given.name}' of the job, which has one name in all tasks"
                    )
            elif name in self._parameters:
                raise InvalidPythonJob(f"{where}: its argument '{name}' is given a value, and is a parameter of the job: give it that")
            else:
                _check_value(where, name, given)
                values[name] = given
        keys = {key: value for key, value in options.items() if key not in ("id", "parameters")}
        if isinstance(when := keys.get("when"), Mapping):
            keys["when"] = {key: self._name_output(where, key, of) if isinstance(of, TaskOutput) else of for key, of in when.items()}
        self.vertices[vertex_id] = {"id": vertex_id, **runs, **keys, **({"parameters": values} if values else {})}
        return TaskOutput(vertex_id, self, {})

    def _name_output(self, where: str, key: str, given: TaskOutput) -> str:
        """Return an output as a condition names it."""
        if given.drawing is not self:
            raise InvalidPythonJob(f"{where}: when.{key} is an output of another job")
        if shipped := given.edge.keys() - {"output"}:
            raise InvalidPythonJob(f"{where}: when.{key} is not read, only its rows are counted: leave out its '{min(shipped)}'")
        return f"{given.vertex_id}.{given.edge['output']}" if "output" in given.edge else given.vertex_id

    def _add_edge(self, where: str, target: str, name: str, given: TaskOutput) -> None:
        if given.drawing is not self:
            raise InvalidPythonJob(f"{where}: its argument '{name}' is an output of another job")
        edge = {"from": given.vertex_id, "to": target, **given.edge}
        self.edges.append(edge if name == given.vertex_id else {**edge, "name": name})


_drawing: Final[ContextVar[_Drawing | None]] = ContextVar("_drawing", default=None)


class PythonJob:
    """A function that puts tasks together. `eventflink.dev`, `Cluster.submit` and the command line take it for a document.

    Examples:
        >>> @eventflink.job
        ... def numbered():
        ...     numbers = eventflink.sql("SELECT id FROM range(:rows)", id="numbers", rows=10)
        ...     eventflink.sql("SELECT max(id) AS last FROM n", id="last", n=numbers)
        >>> [vertex["id"] for vertex in numbered.document()["vertices"]]
        ['numbers', 'last']

    """

    def __init__(self, function: Callable[..., object], keys: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = keys.get("name", function.__name__)
        self._keys = keys

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Say how a job is run.

        Raises:
            InvalidPythonJob: always; the message names the functions that run a job.

        """
        name = self.function.__name__
        raise InvalidPythonJob(f"job '{self.name}' is not called: give it to eventflink.dev({name}) or eventflink.connect().submit({name})")

    def document(self) -> dict[str, Any]:
        """Put the tasks together; return the document, as it would stand in a file.

        Raises:
            InvalidPythonJob: the tasks cannot be put together so.

        """
        parameters = self._parameters()
        drawing = self._draw(parameters)
        keys = {key: value for key, value in self._keys.items() if key not in ("name", "parameters")}
        document = {"name": self.name, **keys, "vertices": list(drawing.vertices.values()), "edges": drawing.edges}
        return document | ({"parameters": parameters} if parameters else {})

    def _draw(self, parameters: Mapping[str, Any]) -> _Drawing:
        drawing = _Drawing(self.name, parameters)
        with _drawn(drawing):
            returned = self.function(**{name: _ParameterOfJob(name) for name in inspect.signature(self.function).parameters})
        if inspect.iscoroutine(returned):
            returned.close()
        if not drawing.vertices:
            raise InvalidPythonJob(
                f"job '{self.name}' has no vertex: its function calls no task (one that is async, or yields, is not run)"
            )
        return drawing

    def code(self) -> list[Path]:
        """Return the modules that its tasks need: that of the job, and what it imports that lies beside it.

        Raises:
            ArchiveError: one cannot be read.
            InvalidPythonJob: its module is not where its name says; or it stands in a notebook, and a function of its tasks cannot travel.

        """
        if _is_in_notebook(self.function):
            return self._code_of_notebook()
        top = _module_of(self.function).partition(".")[0]
        file = _file_of(self.function)
        depth = len(_module_of(self.function).split(".")) - (file.name != "__init__.py")
        directory = file.absolute().parents[depth]
        found = local_modules([top], directory)
        if not found and top not in NEVER_LOCAL and not is_installed(directory):
            raise InvalidPythonJob(f"job '{self.name}': module not found: '{top}' is not in {directory}, so that its code cannot travel")
        return found

    def _code_of_notebook(self) -> list[Path]:
        from eventflink.jobs import notebook_tasks  # noqa: PLC0415 - most jobs are in modules

        directory = Path(tempfile.mkdtemp(prefix="eventflink-notebook-"))
        package = directory / NOTEBOOK_MODULE
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        try:
            modules = notebook_tasks.write_module(self._draw(self._parameters()).tasks, package)
        except notebook_tasks.NotebookTasksUnusable as error:
            raise InvalidPythonJob(f"job '{self.name}': {error}") from error
        return [package, *local_modules(modules, Path.cwd())]

    def _parameters(self) -> dict[str, Any]:
        """Return what a document declares of the parameters: those of the function, and what is said of them besides."""
        said: dict[str, Any] = {
            name: dict(each) if isinstance(each, Mapping) else each for name, each in self._keys.get("parameters", {}).items()
        }
        hints = typing.get_type_hints(self.function)
        for name, parameter in inspect.signature(self.function).parameters.items():
            where = f"job '{self.name}': parameter '{name}'"
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise InvalidPythonJob(f"{where} stands for any number of them: a job declares each by its name")
            default = parameter.default
            kind = hints.get(name, type(default) if default is not parameter.empty else None)
            declared = said.setdefault(name, {})
            if not isinstance(declared, dict):  # The check of the document says so.
                continue
            if "type" not in declared:
                if kind not in _TYPES:
                    known = ", ".join(each.__name__ for each in _TYPES if isinstance(each, type))
                    raise InvalidPythonJob(f"{where} has no type that a parameter may have: annotate it with one of {known}")
                declared["type"] = _TYPES[kind]
            if default is not parameter.empty:
                declared["default"] = default.isoformat() if isinstance(default, date) else default
        return said


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a task without the context."""
    whole = inspect.signature(function)
    for parameter in whole.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidPythonJob(f"task '{function.__name__}': its parameter '{parameter}' has no name for an input: give it one")
    return whole.replace(parameters=[each for each in whole.parameters.values() if each.name != _CONTEXT])


def _takes_context(function: Callable[..., Any]) -> bool:
    return _CONTEXT in inspect.signature(function).parameters


def _file_of(function: Callable[..., Any]) -> Path:
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    if file is None:
        raise InvalidPythonJob(f"'{function.__name__}' is defined in no file, so that no other process can load it: put it into a module")
    return Path(file)


def _is_in_notebook(function: Callable[..., Any]) -> bool:
    """Tell whether a function is of a program that has no file: it stands in a notebook, or was typed."""
    program = sys.modules["__main__"]
    is_without_file = getattr(program, "__file__", None) is None and getattr(program, "__spec__", None) is None
    return function.__module__ == "__main__" and is_without_file


def _module_of(function: Callable[..., Any]) -> str:
    """Return the module that another process finds the function in: a program's own has the name of its file there."""
    if function.__module__ != "__main__":
        return function.__module__
    if _is_in_notebook(function):
        return NOTEBOOK_MODULE
    spec = sys.modules["__main__"].__spec__  # That of `python -m`; a file that is run has none.
    if spec is not None:
        return spec.name
    file = _file_of(function)
    if (fault := name_fault(file)) is not None:
        raise InvalidPythonJob(fault)
    return file.stem


def name_fault(file: Path) -> str | None:
    """Return why a file with a job cannot be loaded under its name; None: it can."""
    name = file.stem
    if name.isidentifier():
        return None
    fitting = re.sub(r"\W", "_", name)
    fitting = fitting if fitting.isidentifier() else f"job_{fitting}"
    return f"invalid file name: no module can be called '{name}', as which the tasks of {file} are loaded: rename the file to {fitting}.py"


def _check_value(where: str, name: str, given: object) -> None:
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidPythonJob(
            f"{where}: its argument '{name}' is {type(given).__name__}: an output of a task, a parameter of the job, or JSON may be given"
        ) from None


@contextmanager
def _drawn(drawing: _Drawing) -> Iterator[None]:
    token = _drawing.set(drawing)
    try:
        yield
    finally:
        _drawing.reset(token)


@overload
def task(function: Callable[..., Any], /) -> PythonTask: ...


@overload
def task(**options: Any) -> Callable[[Callable[..., Any]], PythonTask]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> PythonTask | Callable[[Callable[..., Any]], PythonTask]:
    """Make a function a task.

    Its parameters are what it reads: an output of another task comes as a DataFrame, everything else as its value. One called `context` is
    given the `TaskContext`. It returns what a task returns: a DataFrame, a mapping of output name to DataFrame, or None.

    Args:
        function: stands at the top of a module, and keeps its name there.
        options: keys of a vertex in a document, such as `parallelism`, `time_limit`, `resources` or `stream`; and `id`.

    Raises:
        InvalidPythonJob: the function has parameters without names.

    Examples:
        >>> @eventflink.task(parallelism=4)
        ... def totals(orders):
        ...     return orders.groupBy("customer").count()

    """
    if function is not None:
        return PythonTask(function, {})
    return lambda made: PythonTask(made, options)


@overload
def job(function: Callable[..., object], /) -> PythonJob: ...


@overload
def job(**keys: Any) -> Callable[[Callable[..., object]], PythonJob]: ...


def job(function: Callable[..., object] | None = None, /, **keys: Any) -> PythonJob | Callable[[Callable[..., object]], PythonJob]:
    """Make a job of a function that calls tasks. Its parameters are those of the job: typed by annotations, with their defaults.

    Args:
        function: is called to put the tasks together, each time that the job is submitted; it may use loops and conditions.
        keys: keys of a document, such as `restart_strategy`, `checkpointing` or `keep`; and `name`, by default that of the function.

    Examples:
        >>> @eventflink.task
        ... def orders(context, country):
        ...     return context.spark.read.parquet("/data/orders").where(f"country = '{country}'")
        >>> @eventflink.job(restart_strategy={"type": "fixed-delay", "attempts": 3})
        ... def nightly(country: str = "UK"):
        ...     orders(country)
        >>> nightly.document()["parameters"]
        {'country': {'type': 'string', 'default': 'UK'}}

    """
    if function is not None:
        return PythonJob(function, {})
    return lambda made: PythonJob(made, keys)


def sql(statement: str, /, *, id: str, options: Mapping[str, Any] | None = None, **arguments: Any) -> TaskOutput:  # noqa: A002 - as the document calls it
    """Add a vertex of SQL to the job that is put together; return its output.

    Args:
        statement: sees the outputs that are given as views, and the values, like the parameters of the job, as `:name`.
        id: the vertex's.
        options: other keys of a vertex, such as `parallelism`.
        arguments: outputs of tasks, and values, by the name that the statement has for them.

    Raises:
        InvalidPythonJob: the call is outside of a function with `@eventflink.job`.

    Examples:
        >>> @eventflink.job
        ... def numbered():
        ...     numbers = eventflink.sql("SELECT id FROM range(:rows)", id="numbers", rows=10)
        ...     eventflink.sql("SELECT max(id) AS last FROM n", id="last", n=numbers)
        >>> numbered.document()["edges"]
        [{'from': 'numbers', 'to': 'last', 'name': 'n'}]

    """
    drawing = _drawing.get()
    if drawing is None:
        raise InvalidPythonJob(f"the statement '{id}' stands outside of a function with @eventflink.job")
    return drawing.add(id, {"sql": statement}, options or {}, arguments)
