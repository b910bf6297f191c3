"""What of a job's code a function is made of, as a digest: a rerun with newer code has those functions run again that are others.

A function is made of the text of its definition and, from there on, of all that this names: definitions of its module, and of other modules
of the archive. What a module does when it is imported counts for each of its functions, unless it only binds a name: each statement, call,
base class and decorator that is not known to do nothing else. Where code could be reached in another way, by a file or by a name that is
put together, all of the archive counts.

Nothing is imported for it: the sources are read. The rule it keeps: where the digest is the same, so is the code. Where it differs the code
may still be the same. What is installed beside the code is not looked at.
"""

import ast
import builtins
import hashlib
import io
import re
import tokenize
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

_REACHING_NAMES: Final = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "compile", "__import__", "__file__", "__path__", "__loader__", "__spec__", "__builtins__"}
)
"""By these names code reaches other code, or the files beside it, unseen."""

_REACHING_ATTRIBUTES: Final = frozenset(
    {
        *("modules", "meta_path", "path_hooks", "import_module", "_getframe", "f_globals", "f_locals", "f_back", "f_builtins"),
        *("__globals__", "__subclasses__", "__file__", "__path__", "__builtins__", "__code__", "__dict__", "__module__"),
    }
)
_REACHING_MODULES: Final = frozenset(
    {"builtins", "ctypes", "gc", "imp", "importlib", "inspect", "pkgutil", "runpy", "zipimport", "pydoc", "linecache", "unittest"}
)
_HARMLESS_CALLS: Final = frozenset(
    {
        *(
            "bool",
            "bytes",
            "complex",
            "dict",
            "float",
            "frozenset",
            "int",
            "len",
            "list",
            "object",
            "range",
            "set",
            "str",
            "tuple",
            "slice",
        ),
        *("classmethod", "property", "staticmethod", "abc.abstractmethod", "contextlib.contextmanager", "contextlib.asynccontextmanager"),
        *("collections.defaultdict", "collections.deque", "collections.namedtuple", "collections.OrderedDict", "collections.Counter"),
        *("dataclasses.dataclass", "dataclasses.field", "decimal.Decimal", "enum.auto", "enum.unique", "fractions.Fraction"),
        *("datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "datetime.timezone", "logging.getLogger"),
        *("functools.cache", "functools.cached_property", "functools.lru_cache", "functools.partial", "functools.total_ordering"),
        *("functools.wraps", "pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath", "re.compile", "types.MappingProxyType"),
        *("typing.TypeVar", "typing.NewType", "typing.NamedTuple", "typing.TypedDict", "typing.cast", "typing.final", "typing.overload"),
        *("eventflink.task", "eventflink.job", "zoneinfo.ZoneInfo", "pyspark.sql.Window", "pyspark.sql.Row"),
    }
)
"""What changes nothing but what it returns, and keeps no record of what it is given. Built in, or by the whole name."""

_HARMLESS_MODULES: Final = ("pyspark.sql.functions.", "pyspark.sql.types.", "pyspark.sql.window.")
"""In these all that is public is so, and methods of what they return as well."""

_HARMLESS_BASES: Final = frozenset(
    {
        *(
            "object",
            "dict",
            "list",
            "str",
            "int",
            "tuple",
            "Exception",
            "ValueError",
            "RuntimeError",
            "KeyError",
            "TypeError",
            "LookupError",
        ),
        *("abc.ABC", "typing.NamedTuple", "typing.TypedDict", "typing.Protocol", "typing.Generic"),
        *("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "pydantic.BaseModel", "pyspark.sql.streaming.StatefulProcessor"),
    }
)
"""What keeps no record of its subclasses that anybody asks."""

_NAMES_IN_TEXT: Final = re.compile(r"[\w.\[\], |]{1,256}")
"""A text that may be an annotation, or the name of an attribute."""

_SCOPES: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""What is assigned in these is no name of the function around them."""

_WHOLE: Final = "*"
"""All names of a module."""

_IMPORT: Final = ""
"""None of its names: only what it does when it is imported."""

_Place = tuple[str, str]
"""A module, and a name in it."""


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
    """Code of which nobody can say by reading what it is made of."""


class _Code:
    """The files of all archives, and the modules among them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._modules: dict[str, _Module | None] = {}
        names = [name.removesuffix(".py").replace("/", ".") for name in files]
        self._names = {each for name in names for each in (name, *_packages_of(name))}
        """Of all modules and packages, and of other files as if they were modules."""

    def parts_of(self, function: str) -> list[str]:
        """Return what a function is made of, always in the same order."""
        module, _, name = function.partition(":")
        try:
            return list(self._reached_from((module, name.partition(".")[0])))
        except (_ReachesAnything, RecursionError):
            return [part for name in sorted(self._files) for part in (name, hashlib.sha256(self._files[name]).hexdigest())]

    def _reached_from(self, place: _Place) -> Iterator[str]:
        taken: dict[str, set[int]] = {}
        seen, waiting = {place}, [place]
        while waiting:
            module, name = waiting.pop()
            if (known := self._module(module)) is None:
                continue
            named: list[_Place] = []
            if module not in taken:
                taken[module] = set()
                named += [(package, _IMPORT) for package in _packages_of(module)]
                named += [(imported, _IMPORT) for imported in known.imported]
            for number in known.numbers_of(name) - taken[module]:
                taken[module].add(number)
                named += known.named_by(number)
            if name == _WHOLE:  # It has those modules of a package as attributes that anybody has imported.
                named += [(each, _WHOLE) for each in self._names if each.startswith(f"{module}.")]
            waiting += [each for each in dict.fromkeys(named) if each not in seen]
            seen.update(named)
        for module in sorted(taken):
            if (known := self._module(module)) is not None:
                yield module
                yield from (known.text_of(number) for number in sorted(taken[module]))

    def _module(self, name: str) -> "_Module | None":
        """Return a module of the archives; None: it is not among them. Of both Python takes the package."""
        if name not in self._modules:
            place = name.replace(".", "/")
            paths = ((f"{place}/__init__.py", True), (f"{place}.py", False))
            path, is_package = next((each for each in paths if each[0] in self._files), ("", False))
            is_local = self._names.__contains__
            self._modules[name] = _Module(name, self._files[path], is_local, is_package=is_package) if path else None
        return self._modules[name]


class _Module:
    """One module: its statements, which of them bind a name, and which run for everybody who imports it."""

    def __init__(self, name: str, source: bytes, is_local: Callable[[str], bool], *, is_package: bool) -> None:
        self._name, self._is_package, self._is_local = name, is_package, is_local
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
            self._lines = io.TextIOWrapper(io.BytesIO(source), encoding).read().split("\n")
            self._statements = [each for statement in ast.parse(source).body for each in _one_by_one(statement)]
        except (SyntaxError, ValueError, LookupError, RecursionError) as error:
            raise _ReachesAnything from error
        self._by_name: dict[str, set[int]] = {}
        self._origins: dict[str, str] = {}
        """What the names stand for that are bound by one import of something installed, and by nothing else."""
        self.imported: list[str] = []
        """The modules that it imports, whatever is used of it."""
        for number, statement in enumerate(self._statements):
            self.imported += self._imported_by(statement)
            for each in _bound_by(statement):
                self._by_name.setdefault(each, set()).add(number)
                self._origins[each] = self._origin_of(statement) if each not in self._origins else ""
        self._always = {number for number, statement in enumerate(self._statements) if not self._only_binds(statement)}

    def numbers_of(self, name: str) -> set[int]:
        """Return which statements bind a name, and which run in any case."""
        return set(range(len(self._statements))) if name == _WHOLE else self._always | self._by_name.get(name, set())

    def _origin_of(self, statement: ast.stmt) -> str:
        """Return the whole name of what an import of one name binds; empty: it is none, or of something in the archives."""
        if not isinstance(statement, ast.Import | ast.ImportFrom) or any(map(self._is_local, self._imported_by(statement))):
            return ""
        [alias] = statement.names
        if isinstance(statement, ast.Import):
            return alias.name if alias.asname is not None else alias.name.partition(".")[0]
        return f"{statement.module}.{alias.name}"

    def text_of(self, number: int) -> str:
        """Return a statement as it is written, with its decorators."""
        statement = self._statements[number]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            return ast.unparse(statement)
        first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        return "\n".join(self._lines[first - 1 : statement.end_lineno])

    def named_by(self, number: int) -> Iterator[_Place]:
        """Yield what a statement names, here and in other modules.

        Raises:
            _ReachesAnything: it may reach what it does not name.

        """
        for node, hidden in _nodes_in(self._statements[number], frozenset()):
            if isinstance(node, ast.Name):
                _check(node.id not in _REACHING_NAMES)
                if node.id not in hidden:
                    yield self._name, node.id
            elif isinstance(node, ast.Attribute):
                _check(node.attr not in _REACHING_ATTRIBUTES and not (node.attr == "path" and ast.unparse(node.value) == "sys"))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMES_IN_TEXT.fullmatch(node.value):
                yield from ((self._name, word) for word in re.findall(r"\w+", node.value))
                yield from ((module, _WHOLE) for word in re.findall(r"[\w.]+", node.value) for module in (word, *_packages_of(word)))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._named_by_import(node)

    def _named_by_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[_Place]:
        for module in self._imported_by(node):
            _check(module.partition(".")[0] not in _REACHING_MODULES)
        for alias in node.names:
            if isinstance(node, ast.Import):
                _check(alias.name != "sys" or alias.asname is None)
                yield from ((each, _WHOLE) for each in (alias.name, *_packages_of(alias.name)))
            else:
                source = self._source_of(node)
                _check(source != "sys" or alias.name not in _REACHING_ATTRIBUTES | {"path"})
                yield source, alias.name
                yield f"{source}.{alias.name}", _WHOLE

    def _imported_by(self, statement: ast.stmt) -> Iterator[str]:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            source = self._source_of(statement)
            yield source
            yield from (name for alias in statement.names if self._is_local(name := f"{source}.{alias.name}"))

    def _source_of(self, node: ast.ImportFrom) -> str:
        """Return the whole name of the module that something is imported from."""
        if not node.level:
            return node.module or ""
        parts = self._name.split(".")
        return ".".join([*parts[: len(parts) - node.level + self._is_package], *([node.module] if node.module else [])])

    def _only_binds(self, statement: ast.stmt) -> bool:
        """Tell whether a statement does nothing but to bind names: who does not use them has nothing of it."""
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                said = [each for each in ast.iter_child_nodes(statement) if each not in statement.body]
                only = self._decorates_harmlessly(statement) and all(map(self._is_harmless, said)) and statement.name != "__getattr__"
            case ast.ClassDef():
                is_plain = not statement.keywords and all(self._whole_name(each) in _HARMLESS_BASES for each in statement.bases)
                only = is_plain and self._decorates_harmlessly(statement) and all(map(self._only_binds, statement.body))
            case ast.ImportFrom():
                only = all(alias.name != _WHOLE for alias in statement.names) and statement.module != "__future__"
            case ast.Assign():
                only = all(isinstance(each, ast.Name) for each in statement.targets) and self._is_harmless(statement.value)
            case ast.AnnAssign():
                only = isinstance(statement.target, ast.Name) and all(map(self._is_harmless, ast.iter_child_nodes(statement)))
            case ast.Expr():
                only = isinstance(statement.value, ast.Constant)
            case ast.If():
                only = ast.unparse(statement.test) in ("__name__ == '__main__'", "'__main__' == __name__") and not statement.orelse
            case _:
                only = isinstance(statement, ast.Import | ast.Pass)
        return only

    def _decorates_harmlessly(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        return all(
            self._is_harmless_to_call(each.func if isinstance(each, ast.Call) else each) and self._is_harmless(each)
            for each in statement.decorator_list
        )

    def _is_harmless(self, expression: ast.AST) -> bool:
        """Tell whether to evaluate an expression changes nothing; what a lambda calls is called later."""
        waiting: list[ast.AST] = [expression]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
                return False
            if isinstance(node, ast.Call) and not self._is_harmless_to_call(node.func):
                return False
            waiting += ast.iter_child_nodes(node)
        return True

    def _is_harmless_to_call(self, called: ast.expr) -> bool:
        name = self._whole_name(called)
        if name in _HARMLESS_CALLS or name.startswith(_HARMLESS_MODULES):
            return True
        if isinstance(called, ast.Attribute) and called.attr in ("setter", "getter", "deleter"):
            return isinstance(called.value, ast.Name)
        begins = called
        while isinstance(begins, ast.Attribute | ast.Call):
            begins = begins.func if isinstance(begins, ast.Call) else begins.value
            if self._whole_name(begins).startswith(_HARMLESS_MODULES):
                return True
        return False

    def _whole_name(self, expression: ast.expr) -> str:
        """Return the name of what is installed or built in, as `datetime.date`; empty: it is something else, or nobody knows."""
        attributes: list[str] = []
        while isinstance(expression, ast.Subscript | ast.Attribute):
            if isinstance(expression, ast.Attribute):
                attributes.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return ""
        is_builtin = expression.id not in self._origins and hasattr(builtins, expression.id)
        origin = expression.id if is_builtin else self._origins.get(expression.id, "")
        return ".".join([origin, *reversed(attributes)]) if origin else ""


def _one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """Return an import of several names as one of each, and any other statement as it is."""
    if isinstance(statement, ast.Import):
        return [ast.copy_location(ast.Import([alias]), statement) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement) for alias in statement.names]
    return [statement]


def _nodes_in(node: ast.AST, hidden: frozenset[str]) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Yield a node and all within it, each with the names that are none of its module there, since a function around it has its own."""
    waiting = [(node, hidden)]
    while waiting:
        node, hidden = waiting.pop()
        yield node, hidden
        body: list[ast.AST] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = [*node.body] if isinstance(node.body, list) else [node.body]
            own, declared = _names_assigned_in(body)
            own |= {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            waiting += [(each, (hidden | own) - declared) for each in body]
        elif isinstance(node, ast.ClassDef):
            body = [*node.body]  # What a class assigns it reads from its module before that, and not from a function around it.
            own, declared = _names_assigned_in(body)
            waiting += [(each, hidden - own - declared) for each in body]
        waiting += [(each, hidden) for each in ast.iter_child_nodes(node) if each not in body]


def _names_assigned_in(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names that the body of a function or a class assigns, and those of them that it says are global."""
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
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
