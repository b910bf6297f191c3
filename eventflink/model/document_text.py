r"""The text of documents that people and programs hand in: JSON by RFC 8259, YAML by the core schema of YAML 1.2.

Whoever reads a document that eventflink has not written itself reads it here, whether it comes as a record, as a file or by HTTP: so a text
has one meaning. What comes out are the values of JSON (texts, whole and finite numbers, true, false, null, lists, and mappings whose keys
are texts), as Python has them. The rules: a key stands once in a mapping; nothing is taken that JSON could not say again; and what is
refused is one line that names the place. Bounded in nesting, in digits, and in what the aliases of YAML repeat.

A text that begins with `{` and then a quotation mark, `}` or nothing is JSON, and any other text is YAML: `{a: 1}` is a mapping of YAML,
while `{"a": NaN}` is JSON, and invalid.

The core schema is chapter 10.3 of the YAML 1.2.2 specification: `NO`, `on`, `12:30:00` and `2024-01-31` are texts,
`010` is ten, `1e-5` a number. Merge keys (`<<`), which YAML 1.2 has no more, are read: people use them.
"""

import collections
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from eventflink.model.sql_script import line_comments_of

MAX_NESTING: Final = 100
MAX_ALIASED: Final = 1024 * 1024
MAX_DIGITS: Final = 4_300
"""Python reads and writes no whole number of more."""

_BYTE_ORDER_MARK: Final = "\ufeff"
_JSON_OBJECT: Final = re.compile(r'\s*\{\s*(?:["}]|$)')

Path = tuple[str | int, ...]
"""Where something stands in a document: the keys and the numbers of list items that lead to it."""


class InvalidText(ValueError):
    """A text that is not read; the message is one line, with the line and column."""

    def __init__(self, message: str, document: Any = None) -> None:
        """Keep what could be read all the same: the sender of a request is answered by it."""
        super().__init__(message)
        self.document = document


class TextPlace(NamedTuple):
    """A place in a text; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def read_document(text: str) -> Any:
    """Return what a text says, JSON or YAML; None for a text that is empty.

    Raises:
        InvalidText: it says nothing, something twice, or too much.

    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    return read_json(text) if is_json_object(text) else _read_yaml(text)


def is_json_object(text: str) -> bool:
    """Tell whether a text is taken for a JSON object, by its beginning."""
    return _JSON_OBJECT.match(text) is not None


def read_json(text: str) -> Any:
    """Return what a text says as JSON.

    Raises:
        InvalidText: it is no JSON, or says what no other program would read in the same way.

    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    # Most documents are read once; the others are read again, for what is wrong with them and where.
    may_be_unusual = text.count("[") + text.count("{") > MAX_NESTING or "\\ud" in text.lower()
    try:
        try:
            value = _DECODER.decode(text)
        except _Unusual:
            value, may_be_unusual = _LENIENT_DECODER.decode(text), True
    except json.JSONDecodeError as error:
        raise InvalidText(f"not valid JSON: {_in_plain_words(error)} ({TextPlace(error.lineno, error.colno)})") from error
    except RecursionError:
        may_be_unusual, value = True, None
    if may_be_unusual and (found := _find_fault(text)):
        raise InvalidText(f"{found.problem} ({_place_at(text, found.offset)})", value if found.is_readable else None)
    return value


def find_place(text: str, path: Path) -> TextPlace | None:
    """Return where a part of a readable document stands in its text, or what is around it; None: nothing but the document is."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if is_json_object(text):
        nearest, offset = -1, 0
        for token in _walk_json(text):
            depth = len(token.path)
            if depth > nearest and token.path == path[:depth] and (token.is_key or not (depth and isinstance(token.path[-1], str))):
                nearest, offset = depth, token.offset
        return _place_at(text, offset) if nearest > 0 else None
    try:
        root = yaml.compose(text, Loader=_CoreLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return _find_mark(root, path) if root is not None else None


# -- JSON -----------------------------------------------------------------------------------------------------------


class _Unusual(ValueError):
    """JSON as Python reads it, and others do not."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise _Unusual("a key stands twice")
    return found


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise _Unusual("a number is too large")
    return value


def _short(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise _Unusual("a number has too many digits")
    return int(text)


def _no_constant(text: str) -> float:
    raise _Unusual(f"{text} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping without the keys that stand twice in it."""
    counts = collections.Counter(key for key, _ in pairs)
    return {key: value for key, value in pairs if counts[key] == 1}


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_int=_short, parse_constant=_no_constant)
_LENIENT_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=lambda text: int(text[:MAX_DIGITS]))


def _in_plain_words(error: json.JSONDecodeError) -> str:
    """Return what Python says of a text, and what stands at that place."""
    near = error.doc[error.pos : error.pos + 1]
    message = error.msg[:1].lower() + error.msg[1:]
    return f"{message}, not {near!r}" if near and message.startswith("expecting") else message


@dataclass(slots=True)
class _Token:
    """A key, a value or the beginning of a mapping or list."""

    path: Path
    offset: int
    text: str
    is_key: bool = False


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def _walk_json(text: str) -> Iterator[_Token]:
    """Yield the parts of a text that Python reads as JSON, each with its place; ends where it nests too deeply."""
    path: list[str | int] = []
    in_mapping: list[bool] = []
    key_is_next = False
    for match in _TOKEN.finditer(text):
        part, offset = match[0], match.start()
        if part in "]}":
            in_mapping.pop()
            path.pop()
            key_is_next = False
        elif part == ",":
            key_is_next = in_mapping[-1]
            if not key_is_next:
                path[-1] = int(path[-1]) + 1
        elif part == ":":
            key_is_next = False
        elif key_is_next:
            path[-1] = json.loads(part)
            yield _Token(tuple(path), offset, part, is_key=True)
        else:
            yield _Token(tuple(path), offset, part)
            if part in "[{":
                if len(path) >= MAX_NESTING:
                    return
                key_is_next = part == "{"
                in_mapping.append(key_is_next)
                path.append("" if key_is_next else 0)


@dataclass(slots=True)
class _Fault:
    """What is wrong with a text that Python reads as JSON, and where."""

    problem: str
    offset: int
    is_readable: bool = True


def _find_fault(text: str) -> _Fault | None:
    """Return the first thing in a text that JSON does not have, or that programs read differently."""
    seen: set[Path] = set()
    for token in _walk_json(text):
        if token.text in "[{" and len(token.path) >= MAX_NESTING:
            return _Fault(f"nested more than {MAX_NESTING} levels deep", token.offset, is_readable=False)
        if token.is_key and token.path in seen:
            return _Fault(f"{_shown(token.path)}: the key stands twice in its mapping", token.offset)
        if token.is_key:
            seen.add(token.path)
        if token.text.startswith('"'):
            if "\\" in token.text and (half := _half_of_a_pair(json.loads(token.text))):
                return _Fault(f"{_shown(token.path)}: {half} is half of a surrogate pair, and no character", token.offset)
        elif problem := _find_number_fault(token.text):
            return _Fault(f"{_shown(token.path)}: {problem}", token.offset)
    return None


def _find_number_fault(text: str) -> str:
    if text in ("NaN", "Infinity", "-Infinity"):
        return f"{text} is not a number of JSON"
    if text[:1] not in "-0123456789":
        return ""
    if text.lstrip("-").isdecimal():
        return f"a number of more than {MAX_DIGITS} digits" if len(text.lstrip("-")) > MAX_DIGITS else ""
    return "" if math.isfinite(float(text)) else f"{text[:40]} is too large for a number"


def _half_of_a_pair(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return json.dumps(text[error.start]).strip('"')
    return ""


def _shown(path: Path) -> str:
    """Return a place as messages name it: `vertices[0].parameters.table`; half of a pair is written as JSON escapes it."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    return written[:512].encode("utf-8", "backslashreplace").decode() or "the document"


def _place_at(text: str, offset: int) -> TextPlace:
    return TextPlace(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


# -- YAML -----------------------------------------------------------------------------------------------------------

_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_CORE_SCHEMA: Final = (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", re.compile(f"{_TRUE.pattern}|{_FALSE.pattern}"), list("tTfF")),
    ("int", _INTEGER, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", re.compile("<<"), ["<"]),
)


class _CoreLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # libyaml is not everywhere
    """YAML 1.2's core schema and merge keys, and no other tag; keys are texts, and stand once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own protocol
    yaml_constructors: dict[str | None, Any] = {}  # noqa: RUF012 - likewise

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (_TAG + "str", _TAG + "merge"):
                kind = _KINDS.get(key.tag.removeprefix(_TAG), "value of another type")
                raise yaml.constructor.ConstructorError(None, None, f"a key is a text, and this is a {kind}: quote it", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"'{key.value[:128]}' stands twice in its mapping", key.start_mark)
            seen.add(key.value)
        for key, value in node.value:
            if key.value == "sql" and isinstance(value, yaml.ScalarNode) and self.joins_comments(value):
                problem = "YAML makes one line of this statement, and what follows a comment with -- is part of that: write it behind '|'"
                raise yaml.constructor.ConstructorError(None, None, problem, value.start_mark)
        return dict(super().construct_mapping(node, deep))

    def joins_comments(self, node: yaml.ScalarNode) -> bool:
        """Tell whether lines of a statement that YAML joins are comments now, and were none."""
        start, end = node.start_mark, node.end_mark
        if node.style == "|" or "--" not in node.value or start is None or end is None or start.line == end.line:
            return False
        written = self.text[start.index : end.index]
        if node.style == ">":  # Behind it YAML itself may have a comment.
            written = written.partition("\n")[2]
        if node.style in ("'", '"'):
            written = written[1:-1].replace("''", "'") if node.style == "'" else written[1:-1]
        return "\\" not in written and line_comments_of(written) != line_comments_of(node.value)

    def construct_value(self, node: yaml.ScalarNode) -> Any:
        """Return what a scalar stands for by its tag."""
        text = node.value
        if node.tag == _TAG + "null" and _NULL.fullmatch(text):
            return None
        if node.tag == _TAG + "bool" and (_TRUE.fullmatch(text) or _FALSE.fullmatch(text)):
            return _TRUE.fullmatch(text) is not None
        if node.tag == _TAG + "int" and _INTEGER.fullmatch(text):
            if len(text.lstrip("+-")) > MAX_DIGITS:
                raise yaml.constructor.ConstructorError(None, None, f"a number of more than {MAX_DIGITS} digits", node.start_mark)
            return int(text, 16 if text.startswith("0x") else 8) if text.startswith(("0x", "0o")) else int(text)
        if node.tag == _TAG + "float" and _FLOAT.fullmatch(text):
            if text[-1].isalpha() or not math.isfinite(float(text)):  # `.inf` and `.nan` end with a letter.
                raise yaml.constructor.ConstructorError(None, None, f"{text[:40]} is not a finite number", node.start_mark)
            return float(text)
        raise yaml.constructor.ConstructorError(
            None, None, f"'{text[:40]}' is not a {_KINDS[node.tag.removeprefix(_TAG)]}", node.start_mark
        )

    def refuse_tag(self, node: yaml.Node) -> Any:
        """Refuse a tag that is none of the core schema's."""
        tag = node.tag.replace(_TAG, "!!")[:128]
        raise yaml.constructor.ConstructorError(None, None, f"the tag {tag} is not read here", node.start_mark)


for _name, _pattern, _first in _CORE_SCHEMA:
    _CoreLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern.pattern})\Z"), _first)
for _name in ("null", "bool", "int", "float"):
    _CoreLoader.add_constructor(_TAG + _name, _CoreLoader.construct_value)
_CoreLoader.add_constructor(_TAG + "str", _CoreLoader.construct_scalar)
_CoreLoader.add_constructor(_TAG + "seq", _CoreLoader.construct_yaml_seq)
_CoreLoader.add_constructor(_TAG + "map", _CoreLoader.construct_yaml_map)
_CoreLoader.add_constructor(None, _CoreLoader.refuse_tag)


_KINDS: Final = {"null": "null", "bool": "boolean", "int": "whole number", "float": "number", "seq": "list", "map": "mapping"}


def _read_yaml(text: str) -> Any:
    try:
        _check_bounds(text)
        return yaml.load(text, Loader=_CoreLoader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" ({TextPlace(mark.line + 1, mark.column + 1)})" if mark is not None else ""
        if isinstance(error, yaml.constructor.ConstructorError):
            raise InvalidText(f"{error.problem}{place}") from error
        problem = f"{error.problem or error.context}{_advice(text, error)}"
        raise InvalidText(f"not valid YAML: {problem}{place}") from error
    except InvalidText:
        raise
    except yaml.reader.ReaderError as error:
        found = _place_at(text, max(0, text.find(chr(error.character))))
        raise InvalidText(f"not valid YAML: {str(error).partition(chr(10))[0]} ({found})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidText(str(error).partition("\n")[0] or type(error).__name__) from error


def _advice(text: str, error: yaml.MarkedYAMLError) -> str:
    """Return what to do about a text without quotes that YAML takes for something else; empty where nothing is known."""
    if error.problem == "mapping values are not allowed in this context":
        return ": quote a text that has ': ' in it"
    lines = text.splitlines()
    mark = error.context_mark or error.problem_mark
    if mark is None or mark.line >= len(lines):
        return ""
    begins = lines[mark.line][mark.column : mark.column + 1]
    if begins == "\t":
        return ": indent with spaces, not with tabs"
    return f": quote a text that begins with {begins}" if begins and begins in "*&!%@`" else ""


def _check_bounds(text: str) -> None:
    open_nodes: list[tuple[str | None, int]] = []
    """The collections that have begun: the anchor of each, and how long the document was before it, were its aliases written out."""
    lengths: dict[str, int] = {}
    length = 0
    for event in yaml.parse(text, Loader=_CoreLoader):
        before = length
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, before))
            if len(open_nodes) > MAX_NESTING:
                raise _refused(f"nested more than {MAX_NESTING} levels deep", event)
            length += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            lengths |= {anchor: length - before} if anchor is not None else {}
        elif isinstance(event, yaml.ScalarEvent):
            length += 1 + len(event.value)
            lengths |= {event.anchor: length - before} if event.anchor is not None else {}
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in lengths:
                raise _refused(f"the alias '{event.anchor}' stands for nothing, or for what it is in", event)
            length += lengths[event.anchor]
            if length > len(text) + MAX_ALIASED:
                raise _refused(f"its aliases stand for more than {MAX_ALIASED} characters", event)


def _refused(problem: str, event: yaml.Event) -> InvalidText:
    mark = event.start_mark
    return InvalidText(f"{problem} ({TextPlace(mark.line + 1, mark.column + 1)})" if mark is not None else problem)


def _find_mark(node: yaml.Node, path: Path) -> TextPlace | None:
    """Return where a part of a composed document begins, at its key where it has one; where there is none, what is around it."""
    mark = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == part), None)
            if found is None:
                break
            mark, node = found[0].start_mark, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
        else:
            break
    return TextPlace(mark.line + 1, mark.column + 1) if mark is not None else None
