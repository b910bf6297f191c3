"""The digest of the code that a function is made of: a rerun with newer code runs those functions again whose digest is another one.

A function is made of its module, but for those functions in there that it does not name, also not by way of others; and of the modules that
are imported there, in the same way. A function that is defined only binds a name, unless its decorators, defaults or annotations may do
more; all else that a module does when it is imported counts for each function in it. Where code could be reached in another way, by a file
or by a name that is put together, all of the archive counts.

Nothing is imported for it: the sources are read. The rule it keeps: where the digest is the same, so is the code. Where it differs the code
may still be the same. What is installed beside the code is not looked at.
"""

import ast
import hashlib
import io
import json
import re
import sys
import tokenize
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

_REACHING_NAMES: Final = frozenset(
    {
        *("globals", "locals", "vars", "dir", "eval", "exec", "compile"),
        *("__import__", "__file__", "__path__", "__loader__", "__spec__", "__builtins__", "__annotations__"),
    }
)
"""By these names code reaches other code, or the files beside it, unseen."""

_REACHING_ATTRIBUTES: Final = frozenset(
    {
        *("modules", "meta_path", "path_hooks", "import_module", "PackageLoader", "_getframe", "tb_frame", "gi_frame", "co_filename"),
        *("f_globals", "f_locals", "f_back", "f_builtins", "f_code", "__code__", "__globals__", "__builtins__", "__subclasses__"),
        *("__file__", "__path__", "__loader__", "__spec__", "__dict__", "__module__", "__annotations__"),
    }
)
_REACHING_MODULES: Final = frozenset(
    {
        *("builtins", "ctypes", "gc", "imp", "importlib", "importlib_metadata", "importlib_resources", "inspect", "linecache"),
        *("pkg_resources", "pkgutil", "pydoc", "runpy", "unittest", "zipimport"),
        *("cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"),
    }
)
_REACHING_TEXTS: Final = frozenset(each for each in _REACHING_NAMES | _REACHING_ATTRIBUTES if "_" in each)
"""Those of them that a text does not have by chance, as it may have the word `modules`."""

_DECORATORS: Final = frozenset(
    {
        *("eventflink.task", "eventflink.job", "pyspark.sql.functions.udf", "pyspark.sql.functions.pandas_udf"),
        *("contextlib.contextmanager", "functools.cache", "functools.lru_cache"),
    }
)
"""Decorators that only return another function, and keep no record of the functions that they are given."""

_DATES_AND_TIMES: Final = frozenset(
    {
        *("datetime.date", "datetime.date.fromisoformat", "datetime.date.today"),
        *("datetime.datetime", "datetime.datetime.fromisoformat", "datetime.datetime.now"),
        *("datetime.time", "datetime.timedelta", "datetime.timezone", "datetime.timezone.utc", "datetime.UTC", "zoneinfo.ZoneInfo"),
    }
)
"""What makes a value, and does nothing else: the types that a parameter of a job can have are among them."""

NOTEBOOK_DIGESTS: Final = "digests.json"
"""In the package that is made of a notebook (`notebook_tasks.py`), the digests of those of its functions that reach nothing unseen."""

_SCOPES: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""Nodes with a scope of their own: a name that one of them assigns does not belong to the function around it."""

_SAID_OF_TYPES: Final = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.Load),
    *(ast.arguments, ast.arg, ast.UnaryOp, ast.USub),
)
"""The nodes of parameters and annotations that call nothing."""

_WHOLE: Final = "*"
"""All names of a module."""

_IMPORT: Final = ""
"""None of its names: only what it does when it is imported."""

_Place = tuple[str, str]
"""A module, and a name in it."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def may_reach_anything(names: Collection[str], attributes: Collection[str], modules: Collection[str], texts: Iterable[str]) -> bool:
    """Tell whether code that uses these may reach other code, or the files beside it, unseen; `texts` are its constants."""
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    packages = {each.partition(".")[0] for each in modules}
    return not (
        _REACHING_NAMES.isdisjoint(names)
        and _REACHING_ATTRIBUTES.isdisjoint(attributes)
        and _REACHING_MODULES.isdisjoint(each.lstrip("_") for each in packages)
        and _REACHING_TEXTS.isdisjoint(words)
        and not ("path" in attributes and "sys" in {*names, *attributes, *packages})
    )


def function_digests(archives: Iterable[bytes], functions: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Return for each function the SHA-256, in hexadecimal, of what it is made of.

    Args:
        archives: the zip archives of code; of two files of one name that of the first counts, as for Python.
        functions: each as `module:function`.
        others: what counts for each of them beside that, such as the keys of other archives.

    Example:
        `function_digests([archive], ["totals:by_country"])` is `{"totals:by_country": "6f1c…"}`

    """
    files: dict[str, bytes] = {}
    for archive in archives:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            files = {name: opened.read(name) for name in opened.namelist()} | files
    code, beside = _Code(files), list(others)
    return {function: _digest_of([*beside, *code.parts_of(function)]) for function in functions}


def _digest_of(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


class _ReachesAnything(Exception):
    """The code may reach any part of the archive, so that reading it does not tell what it is made of."""


class _Code:
    """The files of all archives, and the modules among them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._modules: dict[str, _Module | None] = {}
        names = [name.removesuffix(".py").strip("/").replace("/", ".") for name in files]
        self._names = sorted({each for name in names for each in (name, *_packages_of(name))})
        """The names of modules and packages; any other file counts as a module of its name."""
        self._is_local = frozenset(self._names).__contains__
        self._in_place_of_pythons = [(name, _WHOLE) for name in self._names if name in sys.stdlib_module_names]
        """Modules of the archive with the name of one of Python's own: installed code imports them in its place."""

    def parts_of(self, function: str) -> list[str]:
        """Return what a function is made of, always in the same order."""
        module, _, name = function.partition(":")
        if (own := self._parts_of_notebook(module, name)) is not None:
            return own
        try:
            return list(self._reached_from((module, name.partition(".")[0])))
        except (_ReachesAnything, RecursionError):
            return [part for name in sorted(self._files) for part in (name, hashlib.sha256(self._files[name]).hexdigest())]

    def _parts_of_notebook(self, module: str, name: str) -> list[str] | None:
        """Return what a function of a notebook is made of: its own digest, and the modules beside it; None: it has no digest."""
        told = self._files.get(f"{module}/{NOTEBOOK_DIGESTS}")
        digest = json.loads(told).get(name) if told is not None else None
        if digest is None:
            return None
        beside = [each for each in sorted(self._files) if not each.startswith(f"{module}/") or each.endswith("/__init__.py")]
        return [digest, *(part for each in beside for part in (each, hashlib.sha256(self._files[each]).hexdigest()))]

    def _reached_from(self, place: _Place) -> Iterator[str]:
        taken: dict[str, set[int]] = {}
        waiting = [place, *self._in_place_of_pythons]
        seen = set(waiting)
        while waiting:
            module, name = waiting.pop()
            named: list[_Place] = []
            if name == _WHOLE:  # It has those modules of a package as attributes that anybody has imported.
                named += [(each, _WHOLE) for each in self._names if each.startswith(f"{module}.")]
            if (known := self._module(module)) is not None:
                if module not in taken:
                    taken[module] = set()
                    named += [(each, _IMPORT) for each in (*_packages_of(module), *known.imported)]
                for number in known.numbers_of(name) - taken[module]:
                    taken[module].add(number)
                    named += known.named_by(number)
            waiting += [each for each in dict.fromkeys(named) if each not in seen]
            seen.update(named)
        for module in sorted(taken):
            if (known := self._module(module)) is not None:
                yield module
                yield from known.texts_of(taken[module])

    def _module(self, name: str) -> "_Module | None":
        """Return a module of the archives; None: it is not among them. Of both Python takes the package."""
        if name not in self._modules:
            place = name.replace(".", "/")
            paths = ((f"{place}/__init__.py", True), (f"{place}.py", False))
            path, is_package = next((each for each in paths if each[0] in self._files), ("", False))
            self._modules[name] = _Module(name, self._files[path], self._is_local, is_package=is_package) if path else None
        return self._modules[name]


class _Module:
    """One module, whose statements that only bind a name are kept apart from all others."""

    def __init__(self, name: str, source: bytes, is_local: Callable[[str], bool], *, is_package: bool) -> None:
        self._name, self._is_package, self._is_local = name, is_package, is_local
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
            self._lines = io.TextIOWrapper(io.BytesIO(source), encoding).read().split("\n")
            self._statements = [each for statement in ast.parse(source).body for each in _one_by_one(statement)]
        except (SyntaxError, ValueError, LookupError, RecursionError) as error:
            raise _ReachesAnything from error
        imports = [number for number, each in enumerate(self._statements) if isinstance(each, ast.Import | ast.ImportFrom)]
        self.imported = [each for number in imports for each in self._imported_by(self._statements[number])]
        """The modules that it imports."""
        self._in_any_case = {number for number in imports if self._gives_more_than_its_name(self._statements[number])}
        """Imports that run code of the job, or that add a module to a package: where they stand counts, whatever is used of them."""
        self._installed = self._names_of_what_is_installed()
        self._binding: dict[str, set[int]] = {}
        """The statements that only bind a name, by that."""
        self._always: set[int] = set()
        for number, statement in enumerate(self._statements):
            if (bound := self._only_binds(statement)) is None:
                self._always.add(number)
            elif bound:
                self._binding.setdefault(bound, set()).add(number)

    def numbers_of(self, name: str) -> set[int]:
        """Return which statements bind a name, and which run in any case."""
        return set(range(len(self._statements))) if name == _WHOLE else self._always | self._binding.get(name, set())

    def texts_of(self, numbers: set[int]) -> Iterator[str]:
        """Yield statements as they are written, with their decorators, in the order of the module."""
        for number in sorted(numbers | self._in_any_case):
            statement = self._statements[number]
            if isinstance(statement, ast.Import | ast.ImportFrom):
                yield ast.unparse(statement)
            else:
                first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
                yield "\n".join(self._lines[first - 1 : statement.end_lineno])

    def named_by(self, number: int) -> Iterator[_Place]:
        """Yield what a statement names, here and in other modules.

        Raises:
            _ReachesAnything: it may reach what it does not name.

        """
        for node, hidden in _nodes_in(self._statements[number]):
            if isinstance(node, ast.Name):
                _check(node.id not in _REACHING_NAMES)
                if node.id not in hidden and not isinstance(node.ctx, ast.Store):
                    yield self._name, node.id
            elif isinstance(node, ast.Attribute):
                _check(node.attr not in _REACHING_ATTRIBUTES and not (node.attr == "path" and _last_name(node.value) == "sys"))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                yield from self._named_in(node.value)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._named_by_import(node)

    def _named_in(self, text: str | bytes) -> Iterator[_Place]:
        """Yield what a text may name, as an annotation, a query of pandas or a reference does: names, and modules by their paths."""
        is_text = isinstance(text, str)
        for path, colon in set(re.findall(r"([\w.]+)(:?)", text if isinstance(text, str) else text.decode("latin-1"))):
            for word in path.split("."):
                _check(word not in _REACHING_TEXTS)
                yield self._name, word
            if "." in path or colon or not is_text:
                yield from ((each, _WHOLE) for each in (path, *_packages_of(path)) if self._is_local(each))

    def _named_by_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[_Place]:
        for module in self._imported_by(node):
            _check(module.partition(".")[0] not in _REACHING_MODULES)
        for alias in node.names:
            if isinstance(node, ast.Import):
                _check(alias.name != "sys" or alias.asname is None)
                yield from ((each, _WHOLE) for each in (alias.name, *_packages_of(alias.name)))
            else:
                source = self._source_of(node)
                _check(alias.name not in _REACHING_ATTRIBUTES and (source, alias.name) != ("sys", "path"))
                yield source, alias.name
                yield f"{source}.{alias.name}", _WHOLE

    def _imported_by(self, statement: ast.stmt) -> Iterator[str]:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            source = self._source_of(statement)
            yield source
            yield from (name for alias in statement.names if self._is_local(name := f"{source}.{alias.name}"))

    def _gives_more_than_its_name(self, statement: ast.stmt) -> bool:
        imported = list(self._imported_by(statement))
        return any(map(self._is_local, imported)) or (isinstance(statement, ast.Import) and "." in imported[0])

    def _source_of(self, node: ast.ImportFrom) -> str:
        """Return the whole name of the module that something is imported from."""
        if not node.level:
            return node.module or ""
        parts = self._name.split(".")
        return ".".join([*parts[: len(parts) - node.level + self._is_package], *([node.module] if node.module else [])])

    def _only_binds(self, statement: ast.stmt) -> str | None:
        """Return the name that a statement binds, and does nothing else; empty: it does nothing at all; None: it may do more."""
        name: str | None = None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and self._is_only_defined(statement):
            name = statement.name
        elif isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__":
            [alias] = statement.names
            name = alias.asname or alias.name.partition(".")[0]
        elif isinstance(statement, ast.If) and not statement.orelse:
            name = "" if ast.unparse(statement.test) in ("__name__ == '__main__'", "'__main__' == __name__") else None
        return name if name not in (_WHOLE, "__getattr__") else None

    def _is_only_defined(self, function: _Function) -> bool:
        """Tell whether nothing is called when a function is defined, but for decorators that only return another one."""
        said = [part for part in (function.args, function.returns) if part is not None]
        decorators = [
            (each.func, [*each.args, *each.keywords]) if isinstance(each, ast.Call) else (each, []) for each in function.decorator_list
        ]
        return (
            all(self._calls_nothing(part, _SAID_OF_TYPES) for part in said)
            and all(self._whole_name(decorator) in _DECORATORS for decorator, _ in decorators)
            and all(self._calls_nothing(each, (*_SAID_OF_TYPES, ast.keyword, ast.Dict)) for _, given in decorators for each in given)
        )

    def _calls_nothing(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
        """Tell whether all of an expression is of kinds that call nothing, but for what makes a date or a time."""
        if isinstance(node, ast.expr) and self._is_date_or_time(node):
            return True
        return isinstance(node, kinds) and all(self._calls_nothing(each, kinds) for each in ast.iter_child_nodes(node))

    def _is_date_or_time(self, expression: ast.expr) -> bool:
        """Tell whether an expression is a constant, or made of some by dates and times, as `date(2026, 1, 1) - timedelta(days=1)`."""
        if isinstance(expression, ast.UnaryOp):
            return self._is_date_or_time(expression.operand)
        if isinstance(expression, ast.BinOp):
            parts = [expression.left, expression.right]
            return isinstance(expression.op, ast.Add | ast.Sub) and all(map(self._is_date_or_time, parts))
        if isinstance(expression, ast.Call):
            parts = [expression.func, *expression.args, *(each.value for each in expression.keywords)]
            return self._whole_name(expression.func) in _DATES_AND_TIMES and all(map(self._is_date_or_time, parts))
        return isinstance(expression, ast.Constant) or self._whole_name(expression) in _DATES_AND_TIMES

    def _names_of_what_is_installed(self) -> dict[str, str]:
        """Return what the names stand for that one import of something installed binds, and nothing else; none beside `import *`."""
        found: dict[str, str] = {}
        for statement in self._statements:
            for bound in _bound_by(statement):
                found[bound] = "" if bound in found else self._installed_name(statement)
        return found if _WHOLE not in found else {}

    def _installed_name(self, statement: ast.stmt) -> str:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or any(map(self._is_local, self._imported_by(statement))):
            return ""
        [alias] = statement.names
        if isinstance(statement, ast.Import):
            return alias.name if alias.asname is not None else alias.name.partition(".")[0]
        return f"{statement.module}.{alias.name}"

    def _whole_name(self, expression: ast.expr) -> str:
        """Return the name of something installed, as `functools.cache`; empty: it is something else, or nobody knows."""
        attributes: list[str] = []
        while isinstance(expression, ast.Attribute):
            attributes.append(expression.attr)
            expression = expression.value
        origin = self._installed.get(expression.id, "") if isinstance(expression, ast.Name) else ""
        return ".".join([origin, *reversed(attributes)]) if origin else ""


def _one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """Return an import of several names as one of each, and any other statement as it is."""
    if isinstance(statement, ast.Import):
        return [ast.copy_location(ast.Import([alias]), statement) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement) for alias in statement.names]
    return [statement]


def _nodes_in(statement: ast.stmt) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Yield all of a statement but its docstrings, each part with the names that a function around it has of its own."""
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
    while waiting:
        node, hidden = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node, hidden
        body: list[ast.AST] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = [*node.body] if isinstance(node.body, list) else [node.body]
            own, declared = _names_assigned_in(body)
            waiting += [(each, (hidden | own | _parameters_of(node.args)) - declared) for each in body]
        elif isinstance(node, ast.ClassDef):
            body = [*node.body]  # What a class assigns it reads from its module before that, and not from a function around it.
            own, declared = _names_assigned_in(body)
            waiting += [(each, hidden - own - declared) for each in body]
        waiting += [(each, hidden) for each in ast.iter_child_nodes(node) if each not in body]


def _parameters_of(arguments: ast.arguments) -> set[str]:
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    return {each.arg for each in named if each is not None}


def _names_assigned_in(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names that the body of a function or a class assigns, and those that it says are global."""
    found: set[str] = set()
    declared: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            declared.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)
    return found - declared, declared


def _check(is_plain: bool) -> None:  # noqa: FBT001 - what holds
    if not is_plain:
        raise _ReachesAnything


def _last_name(expression: ast.expr) -> str:
    return expression.id if isinstance(expression, ast.Name) else expression.attr if isinstance(expression, ast.Attribute) else ""


def _packages_of(module: str) -> list[str]:
    """Return the packages that a module is in: all of them are imported before it."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds in its module, and some more where it is one with others in it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar | ast.ExceptHandler):
            yield node.name or ""
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
