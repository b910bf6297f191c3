"""What the documents that people write have in common: names, callables, one spelling of JSON, the nearest of known names."""

import difflib
import json
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticKnownError

CALLABLE_PATTERN: Final = r"^[A-Za-z_][\w]*(\.[A-Za-z_][\w]*)*:[A-Za-z_][\w]*(\.[A-Za-z_][\w]*)*$"
MAX_CALLABLE_LENGTH: Final = 512
MAX_NAME_LENGTH: Final = 64
MAX_JOB_NAME_LENGTH: Final = 256
_NAME: Final = rf"^[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME_LENGTH - 1}}}$"
_COMPARED: Final = 128
"""How much of a wrong name is compared with the right ones."""


def _numbers_alone(fault: Literal["int_type", "float_type"]) -> BeforeValidator:
    """Refuse true and false, which are 1 and 0 to Python, and texts such as "2_0", of which it makes a number."""

    def check(value: object) -> object:
        if isinstance(value, bool | str):
            raise PydanticKnownError(fault)
        return value

    return BeforeValidator(check)


Name = Annotated[str, Field(pattern=_NAME)]
Whole = Annotated[int, _numbers_alone("int_type")]
Number = Annotated[float, _numbers_alone("float_type")]
Column = Annotated[str, Field(min_length=1, max_length=256)]


def canonical_json(value: object) -> str:
    """Return the one spelling of a JSON value that digests are taken over."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode()  # Half of a surrogate pair is a ValueError here; later nobody could write it.
    return text


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the nearest of the known names, as a question behind what is said of a wrong one; empty if none is near."""
    near = difflib.get_close_matches(name[:_COMPARED], known, 1) if isinstance(name, str) else []
    return f" (did you mean '{near[0]}'?)" if near else ""
