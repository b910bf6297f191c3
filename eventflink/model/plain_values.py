"""Values of Python as JSON has them, and as the cells of a table.

Every type that a result of Spark may have has one form in each (docs/job-graph.md has the table). The rule: what is printed as JSON is
valid JSON, whatever the value.
"""

import base64
import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

_CONTROLS: Final = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What JSON may have as it is and a terminal or an editor obeys; the others JSON escapes itself."""


def json_text(value: Any) -> str:
    """Return a value as one line of JSON; no terminal obeys anything in it."""
    text = json.dumps(json_value(value), ensure_ascii=False, separators=(", ", ": "), allow_nan=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_value(value: Any) -> Any:
    """Return a value as JSON has it.

    Texts are: numbers that are not finite (`"NaN"`, `"Infinity"`, `"-Infinity"`), decimals, dates and times (ISO 8601), durations (in
    seconds), bytes (base64), and whatever else JSON has nothing for. The keys of an object are texts.
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Mapping):
        return {cell_text(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return _text(value)


def _text(value: Any) -> str:
    """Return a value for which JSON has nothing as a text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return f"{value.total_seconds()} s"
    return format(value, "f") if isinstance(value, decimal.Decimal) and value.is_finite() else str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def cell_text(value: Any) -> str:
    """Return a value as a cell of a table: a text as it is, numbers in full, nothing for null, what has parts as JSON."""
    plain = json_value(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
