"""What is wrong with a document, in words: of each fault that a model of pydantic finds, the place, the rule and the value.

The rules: the words are ours and plain, whatever pydantic calls a fault; and a value that is wrong is shown in a job's document and in a
request alone, and never at length.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from eventflink.model.document_text import Path, find_place
from eventflink.model.texts import beginning_of, did_you_mean

_MAX_SHOWN: Final = 3

_MUST_BE: Final = {
    "string_type": "a text",
    "string_sub_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 4300 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "none_required": "null",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "bytes_type": "bytes",
    "datetime_type": "a time",
    "datetime_parsing": "a time",
    "path_type": "a path",
}
"""What a value has to be, by the type of pydantic's error: https://docs.pydantic.dev/latest/errors/validation_errors/."""

_SAYS: Final = {
    "missing": "it is missing",
    "json_invalid": "not valid JSON: {error}",
    "value_error": "{error}",
    "assertion_error": "{error}",
}


def describe_fault(problem: Mapping[str, Any], known: Iterable[str] = (), *, shows_value: bool = False) -> str:
    """Return what is wrong with one value.

    Args:
        problem: one of the errors of a ValidationError.
        known: the keys that a wrong one may have meant.
        shows_value: whether the value is repeated; no, where it may be a password.

    """
    kind, context, value = problem["type"], problem.get("ctx", {}), problem.get("input")
    if kind == "extra_forbidden":
        key, known = problem["loc"][-1], list(known)
        return "unknown key here: another part of a document has it" if key in known else f"unknown key{did_you_mean(key, known)}"
    if kind in _SAYS:
        return _SAYS[kind].format_map(context)
    instead = f", not {describe_value(value)}" if shows_value else ""
    if kind in _MUST_BE:
        guess = did_you_mean(value, re.findall(r"'([^']+)'", context["expected"])) if "expected" in context and shows_value else ""
        must_be = _MUST_BE[kind].format_map(context).replace("True", "true")  # As documents have it.
        return f"must be {must_be}{instead}{guess}"
    if kind.endswith(("too_short", "too_long")):
        return f"must have {_length_rule(context, value)}, not {_length(value, context)}"
    return f"must match {context['pattern']}{instead}" if "pattern" in context else f"is not valid here{instead}"


def _length_rule(context: Mapping[str, Any], value: object) -> str:
    bound, number = ("at least", context["min_length"]) if "min_length" in context else ("at most", context["max_length"])
    return f"{bound} {number} {'character' if isinstance(value, str) else 'item'}{'' if number == 1 else 's'}"


def describe_value(value: object) -> str:
    """Return a value that is wrong, for a message: as JSON writes it, a list or a mapping by its kind."""
    if isinstance(value, str):
        return f"'{beginning_of(value)}{'…' if len(value) > len(beginning_of(value)) else ''}'"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return beginning_of(value)
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else f"a value of the type {type(value).__name__}"


def _length(value: object, context: Mapping[str, Any]) -> object:
    """Return how long a value is; pydantic does not count all items of a list that is too long."""
    length = context.get("actual_length")
    return length if length is not None else len(value) if isinstance(value, str | list | tuple | Mapping) else describe_value(value)


def written_place(path: Iterable[str | int]) -> str:
    """Return a place as messages name it: `vertices[0].parameters.table`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != "[key]"]
    return "".join(parts).removeprefix(".")


def describe_faults(error: ValidationError, known: Iterable[str] = (), around: Callable[[Path], str] = lambda _: "") -> str:
    """Return the first few faults of a document, each with its place; `around` returns what else is said of a place, behind it."""
    problems = error.errors()
    lines = []
    for problem in problems[:_MAX_SHOWN]:
        place, fault = written_place(problem["loc"]), describe_fault(problem, known, shows_value=True)
        lines.append((f"{place}: " if place else "") + fault + around(_full_path(problem["loc"], fault)))
    more = len(problems) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


_PLACE: Final = re.compile(r"(?P<place>[A-Za-z_]\w*(?:\[\d+\])?(?:\.[A-Za-z_]\w*|\[\d+\])*)(?=:)")
_PART: Final = re.compile(r"\[(\d+)\]|(\w+)")


def _full_path(location: Path, fault: str) -> Path:
    """Return the place of a fault: where pydantic was, and what our own check says before its colon."""
    found = _PLACE.match(fault)
    own = [int(number) if number else name for number, name in _PART.findall(found["place"])] if found else []
    return (*(part for part in location if part != "[key]"), *own)


def place_in(document: Mapping[str, Any], text: str | None, path: Path) -> str:
    """Return which vertex a place is in, and where that is in the text of the document, in brackets; empty where neither is known."""
    parts = []
    if path[:1] == ("vertices",) and len(path) > 1:
        vertices = document.get("vertices")
        vertex = vertices[path[1]] if isinstance(vertices, list) and isinstance(path[1], int) and path[1] < len(vertices) else None
        if isinstance(vertex, Mapping) and isinstance(vertex.get("id"), str) and path[2:] != ("id",):
            parts.append(f"vertex {describe_value(vertex['id'])}")
    if text is not None and path and (place := find_place(text, path)) is not None:
        parts.append(str(place))
    return f" ({', '.join(parts)})" if parts else ""
