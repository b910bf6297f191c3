"""What the documents that people write have in common: names, callables, numbers, durations, one spelling of JSON."""

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticKnownError

from eventflink.model.document_faults import describe_value
from eventflink.model.durations import DURATION_RULE, duration_ms_of, duration_text

CALLABLE_PATTERN: Final = r"^[A-Za-z_][\w]*(\.[A-Za-z_][\w]*)*:[A-Za-z_][\w]*(\.[A-Za-z_][\w]*)*$"
MAX_CALLABLE_LENGTH: Final = 512
MAX_NAME_LENGTH: Final = 64
MAX_JOB_NAME_LENGTH: Final = 256
NAME_PART: Final = rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME_LENGTH - 1}}}"
"""A name, as a part of a pattern."""


def _numbers_alone(fault: Literal["int_type", "float_type"]) -> BeforeValidator:
    """Refuse booleans, which Python takes for 1 and 0, and texts, which Python reads as numbers: "2_0" would be 20."""

    def check(value: object) -> object:
        if isinstance(value, bool | str):
            raise PydanticKnownError(fault)
        return value

    return BeforeValidator(check)


Name = Annotated[str, Field(pattern=f"^{NAME_PART}$")]
Whole = Annotated[int, _numbers_alone("int_type")]
Number = Annotated[float, _numbers_alone("float_type")]
Flag = Annotated[bool, Field(strict=True)]
"""True or false; pydantic would take `"no"`, `"on"` and 0 as well, which are texts and numbers in all other places of a document."""
Column = Annotated[str, Field(min_length=1, max_length=256)]


def _each_once(columns: list[str]) -> list[str]:
    there = set[str]()
    for column in columns:
        if column.lower() in there:
            raise ValueError(f"column '{column}' is there twice, and upper and lower case are the same to Spark")
        there.add(column.lower())
    return columns


DistinctColumns = Annotated[list[Column], Field(max_length=32), AfterValidator(_each_once)]
"""Columns by which rows are divided or found, none of them twice."""


def duration_within(least_ms: int, most_ms: int) -> BeforeValidator:
    """Read a duration such as `15m` as milliseconds, and refuse one that is shorter or longer than that."""

    def check(value: object) -> object:
        duration_ms = duration_ms_of(value)
        if duration_ms is None or not least_ms <= duration_ms <= most_ms:
            bounds = f"from {duration_text(least_ms)} to {duration_text(most_ms)}"
            raise ValueError(f"must be {DURATION_RULE}, such as 15m; {bounds}, not {describe_value(value)}")
        return duration_ms

    return BeforeValidator(check)


def canonical_json(value: object) -> str:
    """Return the one spelling of a JSON value that digests are taken over."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode()  # Half of a surrogate pair is a ValueError here; later nobody could write it.
    return text
