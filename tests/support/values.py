"""Values of every record class, made from its type hints: for round trips, and for events that fit no state."""

import dataclasses
import functools
import random
import types
import typing
from enum import StrEnum
from typing import Any

_STRINGS = ("", "a", "job-1", "größer", "日本語", "x" * 300, "tab\tline\n", "🦆")
_INTEGERS = (0, 1, -1, 63, 64, -65, 2**31 - 1, -(2**31))


_hints_of = functools.cache(typing.get_type_hints)


class ValueMaker:
    """Makes values; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def record(self, cls: type[Any]) -> Any:
        """Return an instance of a record class with every field filled in."""
        hints = _hints_of(cls)  # type: ignore[arg-type] # a class is hashable
        return cls(**{f.name: self.value(hints[f.name], f.name) for f in dataclasses.fields(cls)})

    def value(self, annotation: Any, name: str) -> Any:
        """Return a value of a field."""
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is tuple:
            return tuple(self.value(arguments[0], name) for _ in range(self._random.randrange(4)))
        if origin in (typing.Union, types.UnionType):
            return self.value(self._random.choice(arguments), name)
        if annotation is type(None):
            return None
        if dataclasses.is_dataclass(annotation):
            return self.record(typing.cast("type[Any]", annotation))
        return self._scalar(annotation, name)

    def _scalar(self, annotation: Any, name: str) -> Any:
        if annotation is str:
            return self._random.choice(_STRINGS)
        if annotation is bytes:
            return self._random.randbytes(self._random.randrange(20))
        if annotation is bool:
            return self._random.random() < 0.5
        if annotation in (int, float):
            return self._number(annotation, name)
        assert issubclass(annotation, StrEnum), annotation
        return self._random.choice(list(annotation))

    def _number(self, annotation: Any, name: str) -> Any:
        if annotation is float:
            return self._random.choice((0.0, 0.5, 2.0, -1.0))
        if name == "parallelism":  # A job in memory is as large as its graph.
            return self._random.randrange(1, 4)
        wide = (*_INTEGERS, 2**62, -(2**62)) if name.endswith("_ms") or "offset" in name else _INTEGERS
        return self._random.choice(wide)
