"""The tasks of a job that stand in a notebook, or were typed into an interpreter: no module has them, so one is made of them.

The functions travel as cloudpickle writes them, with what they use of the notebook: its functions, classes and values. What they import
stays an import. Beside them travels their source, which nobody runs: it is what a person finds in the archive, and what the lines of a
stack trace are shown from. The rule it keeps: a function that cannot travel is told with its name before anything is submitted.
"""

import copyreg
import dis
import functools
import hashlib
import inspect
import io
import json
import linecache
import pickle
import pickletools
import pkgutil
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final, TypeGuard

import cloudpickle

from eventflink.jobs.code_digest import NOTEBOOK_DIGESTS, may_reach_anything

MAX_TASKS_BYTES: Final = 16 * 1024 * 1024
"""More than functions take: a notebook's data is read by a task, and does not travel with it."""

Function = Callable[..., Any]

_Cached: Final = type(functools.cache(len))
_NOTEBOOK: Final = "__main__"
_PICKLE: Final = "tasks.pickle"
_SOURCES: Final = "sources.json"
_OF_EACH_CLASS: Final = frozenset({"__module__", "__weakref__", "__dict__", "_abc_impl", "__firstlineno__", "__static_attributes__"})
"""What a class has besides its body, or twice."""
_CELLS: Final = "cells.py.txt"
_TEXT: Final = '''\
"""Tasks of a notebook; their source is in {cells}, beside this."""

import eventflink
from eventflink.jobs.notebook_tasks import load_tasks

globals().update({{name: eventflink.task(function) for name, function in load_tasks(__name__).items()}})
'''


class NotebookTasksUnusable(ValueError):
    """Functions of a notebook cannot travel, or cannot be loaded here; the message says which and why."""


def write_module(tasks: Mapping[str, Function], package: Path) -> set[str]:
    """Write a package with these tasks, and return the top names of the modules that they import, or use by what they are given of them.

    Raises:
        NotebookTasksUnusable: a function uses what cannot travel, or too much of it.
        OSError: it cannot be written.

    """
    data = _pickled(tasks)
    package.mkdir(parents=True, exist_ok=True)
    used = _used_functions(tasks, _names_in(data))
    cells = {name: _cell_of(function) for name, function in used.items()}
    told = {
        "python": list(sys.version_info[:2]),
        "functions": {name: cell for name, (cell, _) in cells.items()},
        "sources": dict(cells.values()),
    }
    (package / "__init__.py").write_text(_TEXT.format(cells=_CELLS), encoding="utf-8")
    (package / _PICKLE).write_bytes(data)
    (package / _SOURCES).write_text(json.dumps(told), encoding="utf-8")
    readings = {name: _reading_of(function) for name, function in tasks.items()}
    digests = {name: each.digest for name, each in readings.items() if each is not None and each.digest}
    (package / NOTEBOOK_DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
    (package / _CELLS).write_text("\n\n".join(dict(cells.values()).values()), encoding="utf-8")
    found = [each for each in readings.values() if each is not None]
    return {name.partition(".")[0] for each in found for name in each.modules} if len(found) == len(readings) else _names_in(data)


def load_tasks(module: str) -> dict[str, Function]:
    """Return the functions of the package of that name, which is being imported.

    Raises:
        NotebookTasksUnusable: they were written by another version of Python, or what they use is not here.

    """
    told = json.loads(_read(module, _SOURCES))
    written, own = ".".join(map(str, told["python"])), ".".join(map(str, sys.version_info[:2]))
    if written != own:
        raise NotebookTasksUnusable(
            f"the notebook runs Python {written}, and tasks run {own}: functions of a notebook travel between equal versions only; "
            "put them into a module, or let the notebook run such a Python"
        )
    copyreg.pickle(_Cached, _reduce)  # Functions that a task gives to Spark travel again, and take what they use of the notebook along.
    loaded: dict[str, FunctionType] = pickle.loads(_read(module, _PICKLE))  # noqa: S301 - the code of the job itself
    _show_sources(loaded, told["functions"], told["sources"])
    return dict(loaded)


def _names_in(pickled: bytes) -> set[str]:
    arguments = [argument for _, argument, _ in pickletools.genops(io.BytesIO(pickled)) if isinstance(argument, str)]
    return {each.partition(".")[0] for each in arguments if each.replace(".", "_").isidentifier()}


def _used_functions(tasks: Mapping[str, Function], names: Collection[str]) -> dict[str, Function]:
    """Return the tasks, and the functions of the notebook that have names which are used."""
    others = {name: value for name, value in vars(sys.modules[_NOTEBOOK]).items() if name in names and _is_of_notebook(value)}
    return {**others, **tasks}


def _is_of_notebook(value: object) -> TypeGuard[FunctionType]:
    """Tell whether it is a function of the notebook; one that is imported belongs to its own module, here and in a task."""
    return isinstance(value, FunctionType) and value.__module__ == _NOTEBOOK


def _cell_of(function: Function) -> tuple[str, str]:
    """Return what stack traces call the cell of a function, the same in each kernel that ran it, and its source."""
    source = "".join(linecache.getlines(function.__code__.co_filename))
    return f"<cell {hashlib.sha256(source.encode()).hexdigest()[:8]}>", source


def _show_sources(tasks: Mapping[str, FunctionType], files: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Let stack traces show the lines of cells: cloudpickle leaves out where a function was defined."""
    for file, source in sources.items():
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    shared = [value for function in tasks.values() for value in function.__globals__.values() if _is_of_notebook(value)]
    for function in (*tasks.values(), *shared):
        if (found := files.get(function.__qualname__)) is not None:
            function.__code__ = _code_of(function.__code__, found)


def _code_of(code: CodeType, file: str) -> CodeType:
    inner = tuple([_code_of(each, file) if isinstance(each, CodeType) else each for each in code.co_consts])
    return code.replace(co_filename=file, co_consts=inner)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    def reducer_override(self, obj: Any) -> Any:
        """Return how an object of the notebook is made anew, where cloudpickle would leave it at its name."""
        if isinstance(obj, _Cached) and obj.__module__ == _NOTEBOOK:
            return _made_of(obj)
        return super().reducer_override(obj)


class _Reading(_Pickler):
    """Writes what a function is made of, as it travels, but for where lines stand and for ids of classes; and notes what it uses."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.names, self.attributes, self.modules, self.texts = set[str](), set[str](), set[str](), set[str]()
        self.digest = ""
        """The digest of the function; empty: the function may reach other code unseen."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):
            self._note(obj)
            shape = (obj.co_argcount, obj.co_posonlyargcount, obj.co_kwonlyargcount, obj.co_flags, obj.co_exceptiontable)
            told = (obj.co_names, obj.co_varnames, obj.co_freevars, obj.co_cellvars, obj.co_name, obj.co_qualname)
            return tuple, ((obj.co_code, obj.co_consts, *shape, *told),)
        if isinstance(obj, type) and obj.__module__ == _NOTEBOOK:
            slots = (GetSetDescriptorType, MemberDescriptorType)
            body = {name: value for name, value in vars(obj).items() if name not in _OF_EACH_CLASS and not isinstance(value, slots)}
            return SimpleNamespace, (), {"class": (obj.__qualname__, obj.__bases__, type(obj)), "body": body}
        self._note_origin(obj)
        return super().reducer_override(obj)

    def _note(self, code: CodeType) -> None:
        for each in dis.get_instructions(code):
            if each.opname == "IMPORT_NAME":
                self.modules.add(each.argval)
            elif each.opcode in dis.hasname:
                (self.attributes if "ATTR" in each.opname or "METHOD" in each.opname else self.names).add(each.argval)
        texts = [each for each in code.co_consts if isinstance(each, str | bytes)]
        self.texts |= {each if isinstance(each, str) else each.decode("latin-1") for each in texts}

    def _note_origin(self, obj: Any) -> None:
        """Note where a value comes from that is written by its name, but for what makes functions and modules anew."""
        module, name = getattr(obj, "__module__", None), str(getattr(obj, "__name__", ""))
        if isinstance(obj, ModuleType):
            self.modules.add(name)
        elif module == "builtins":
            self.names.add(name)
        elif (
            isinstance(module, str)
            and module != _NOTEBOOK
            and not (module == cloudpickle.cloudpickle.__name__ and name.startswith(("_", "subimport")))
        ):
            self.modules.add(module)


def _reading_of(function: Function) -> _Reading | None:
    """Return what a function is made of and uses of the notebook; None: it cannot be told, and all of the code counts.

    The rule of `code_digest.py` holds for its digest: where that is the same, so is the code. Another kernel may write the same otherwise.
    """
    written = io.BytesIO()
    reading = _Reading(written)
    try:
        reading.dump((sys.version_info[:2], function))
    except Exception:  # noqa: BLE001 - what is pickled may raise anything
        return None
    if not may_reach_anything(reading.names, reading.attributes, reading.modules, reading.texts):
        reading.digest = hashlib.sha256(written.getvalue()).hexdigest()
    return reading


class _Looked(pickle.Unpickler):
    """Reads what was written as a task will, which has no notebook."""

    def find_class(self, module: str, name: str) -> Any:
        if module == _NOTEBOOK:
            raise pickle.PicklingError(f"of '{name}' only the name would travel, which no task knows: let it be a plain function or class")
        return super().find_class(module, name)


def _reduce(cached: Any) -> Any:
    """Return how a cached function is made anew where its name is not known, else that name, by which others travel."""
    return _made_of(cached) if cached.__module__ == _NOTEBOOK else cached.__qualname__


def _made_of(cached: Any) -> tuple[Any, ...]:
    """Return what makes a cached function, of the standard library alone: executors of Spark need not have this package."""
    size, typed = cached.cache_parameters().values()
    return _Cached, (cached.__wrapped__, size, typed, functools._CacheInfo), vars(cached)  # noqa: SLF001 - lru_cache gives it the same


def _bytes_of(value: object) -> bytes:
    written = io.BytesIO()
    _Pickler(written).dump(value)
    return written.getvalue()


def _travelling(value: object) -> bytes:
    data = _bytes_of(value)
    _Looked(io.BytesIO(data)).load()
    return data


def _untravelling(function: Any, seen: set[FunctionType]) -> list[str]:
    """Return the names of what a function of the notebook uses that cannot travel, by way of other functions of it as well."""
    inner = inspect.unwrap(function)
    if not isinstance(inner, FunctionType) or inner.__module__ != _NOTEBOOK or inner in seen:
        return []
    seen.add(inner)
    found = list[str]()
    for name in _globals_of(inner.__code__):
        value = inner.__globals__.get(name)
        try:
            _travelling(value)
        except Exception:  # noqa: BLE001 - what is pickled may raise anything
            found += _untravelling(value, seen) or [name]
    return found


def _globals_of(code: CodeType) -> list[str]:
    own = [each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"]
    return [*own, *(name for each in code.co_consts if isinstance(each, CodeType) for name in _globals_of(each))]


def _pickled(tasks: Mapping[str, Function]) -> bytes:
    for name, function in tasks.items():
        try:
            data = _travelling(function)
        except Exception as error:  # What is pickled may raise anything.
            found = _untravelling(function, set())
            what = f"'{found[0]}' of the notebook, which" if found else "something of the notebook that"
            raise NotebookTasksUnusable(
                f"task '{name}' uses {what} cannot travel to another process: {type(error).__name__}: {error}; make it in the function"
            ) from error
        if len(data) > MAX_TASKS_BYTES:
            raise NotebookTasksUnusable(
                f"task '{name}' takes {len(data)} bytes of the notebook with it, and at most {MAX_TASKS_BYTES} travel: let it read its data"
            )
    together = _bytes_of(dict(tasks))
    if len(together) > MAX_TASKS_BYTES:
        raise NotebookTasksUnusable(f"the tasks take {len(together)} bytes of the notebook with them, and at most {MAX_TASKS_BYTES} travel")
    return together


def _read(module: str, name: str) -> bytes:
    data = pkgutil.get_data(module, name)
    if data is None:
        raise NotebookTasksUnusable(f"'{name}' not found in the package '{module}'")
    return data
