"""The parameters of a job: their types, how a value of each is written as text, and the part of a document that declares them.

A value has one text, whatever it came from: `--param`, a document, Python, or a record. That text is what the log has and what two runs are
compared by; the code of a task is given the value that it says (`read_value`). Which values a run has is decided when it is submitted
(`bind_parameters` in `job_graph_document.py`), and never again. The rule it keeps: a text means the same value on every host and in every
year, so nothing here knows a time zone, a locale or a clock.

    parameters: {day: {type: date, default: 2026-11-25, description: "whose orders are counted"}, region: {type: string}}
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from eventflink.model.document_faults import describe_value
from eventflink.model.document_fields import MAX_NAME_LENGTH, Flag, Name
from eventflink.model.job_graph import JobParameter, ParameterValue
from eventflink.model.secret_values import holds_secret, without_secrets
from eventflink.model.statuses import ParameterType

MAX_PARAMETERS: Final = 64
MAX_VALUE_LENGTH: Final = 4_096
MAX_VALUES_BYTES: Final = 65_536
"""Of the values of one run together: with them a graph of the greatest size is still one decision."""

RESERVED_NAMES: Final = ("subtask_index", "parallelism")
"""What a statement is given besides."""

Value = str | int | float | bool | dt.date | dt.datetime
"""A timestamp is a `datetime` in UTC."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_MAX_INTEGER: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP: Final = re.compile(
    rf"{_DATE.pattern}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,6}})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)


def _read_string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is no character") from error
    return text


def _read_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -_MAX_INTEGER - 1 <= (number := int(text)) <= _MAX_INTEGER:
        raise ValueError("it is no whole number of 64 bits")
    return number


def _read_number(text: str) -> float:
    if not _NUMBER.fullmatch(text) or not math.isfinite(number := float(text)):
        raise ValueError("it is no finite number")
    return number


def _read_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return text == "true"


def _read_date(text: str) -> dt.date:
    if not _DATE.fullmatch(text):
        raise ValueError("it is not of the form 2026-11-25")
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:  # In words that are the same in every version of Python: they may be in the log.
        raise ValueError("there is no such day") from error


def _read_timestamp(text: str) -> dt.datetime:
    if not _TIMESTAMP.fullmatch(text):
        raise ValueError("it is not of the form 2026-11-25T02:30:00")
    try:
        time = dt.datetime.fromisoformat(text)
        return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:  # The first hours of the year 1 may be before Python's first year in UTC.
        raise ValueError("there is no such time") from error


_READERS: Final[Mapping[ParameterType, Callable[[str], Value]]] = {
    ParameterType.STRING: _read_string,
    ParameterType.INTEGER: _read_integer,
    ParameterType.NUMBER: _read_number,
    ParameterType.BOOLEAN: _read_boolean,
    ParameterType.DATE: _read_date,
    ParameterType.TIMESTAMP: _read_timestamp,
}

_KINDS: Final[Mapping[ParameterType, tuple[type, ...]]] = {
    ParameterType.STRING: (str,),
    ParameterType.INTEGER: (int,),
    ParameterType.NUMBER: (int, float),
    ParameterType.BOOLEAN: (bool,),
    ParameterType.DATE: (str, dt.date),
    ParameterType.TIMESTAMP: (str, dt.datetime),
}
"""As which classes of Python a value may come; a class that is derived from one of these is another."""


def type_name(parameter_type: ParameterType) -> str:
    """Return what a document calls a type."""
    return parameter_type.lower()


def read_value(parameter_type: ParameterType, text: str) -> Value:
    """Return the value that a text says.

    Raises:
        ValueError: it says none of this type; the message shows the beginning of it, and says what one looks like.

    Example:
        `read_value(ParameterType.DATE, "2026-11-25")` is `datetime.date(2026, 11, 25)`.

    """
    if len(text) > MAX_VALUE_LENGTH:
        raise ValueError(f"a value has at most {MAX_VALUE_LENGTH} characters, not {len(text)}")
    try:
        return _READERS[parameter_type](text)
    except ValueError as error:
        raise _no_value(parameter_type, text, str(error)) from error


def text_of(value: object) -> str:
    """Return the text that says a value: as a document of JSON has it, dates and times in ISO 8601.

    Raises:
        ValueError: nothing that a parameter may be.

    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, int | float):
        return repr(value)
    raise ValueError(f"a parameter is a text, a number, true or false, a date or a time, not {describe_value(value)}")


def bound_text(parameter_type: ParameterType, value: object) -> str:
    """Return the one text of a value that is given as a value, or as a text that says it (`5` of `--param limit=5`).

    Raises:
        ValueError: it is none of this type.

    """
    return text_of(read_value(parameter_type, value)) if isinstance(value, str) else _declared_text(parameter_type, value)


def _declared_text(parameter_type: ParameterType, value: object) -> str:
    """Return the one text of a value in a document, in which a number is no text."""
    if type(value) not in _KINDS[parameter_type]:
        raise _no_value(parameter_type, value)
    return text_of(read_value(parameter_type, text_of(value)))


def single_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return those parameters of a task that are a single value, as a statement can name them."""
    return {name: value for name, value in parameters.items() if value is None or isinstance(value, Value)}


def json_value(parameter_type: ParameterType, text: str) -> str | int | float | bool:
    """Return a value as a document of JSON has it; raises as `read_value` does."""
    value = read_value(parameter_type, text)
    return value if isinstance(value, int | float) else text_of(value)


def _no_value(parameter_type: ParameterType, value: object, why: str = "") -> ValueError:
    article = "an" if parameter_type is ParameterType.INTEGER else "a"
    return ValueError(f"must be {article} {type_name(parameter_type)}, not {describe_value(value)}{f': {why}' if why else ''}")


def describe_declared(parameters: Iterable[JobParameter]) -> str:
    """Return which parameters there are, for a message: `day (date), limit (integer)`."""
    return ", ".join(f"{each.name} ({type_name(each.parameter_type)})" for each in parameters) or "none"


class ParameterDocument(BaseModel):
    """A parameter that a document declares."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["string", "integer", "number", "boolean", "date", "timestamp"]
    default: Any = None
    """What it is where nobody says otherwise."""
    value: Any = None
    """What it is in this run, as in a document that comes as a record."""
    description: str = Field("", max_length=1_024)
    affects_results: Flag = True
    """Whether tasks may compute something else with another value."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("default", "value"):
            try:
                self._text(name)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return self

    def _text(self, name: str) -> str | None:
        value = getattr(self, name)
        return _declared_text(ParameterType(self.type.upper()), value) if value is not None else None

    def to_record(self, name: str) -> JobParameter:
        """Return the core's record."""
        default, value = self._text("default"), self._text("value")
        return JobParameter(
            name=name,
            parameter_type=ParameterType(self.type.upper()),
            value=default if value is None else value,
            default=default,
            description=self.description,
            affects_results=self.affects_results,
        )


def check_names(parameters: object) -> object:
    """Return the part of a document that declares parameters, before it is read: no message repeats what stands under the name of a secret.

    Raises:
        ValueError: a name has a meaning already, or is that of a secret.

    """
    for name in parameters if isinstance(parameters, Mapping) else ():
        if name in RESERVED_NAMES:
            raise ValueError(f"{name}: a statement has ':{name}' already, of the subtask: give it another name")
        if isinstance(name, str) and holds_secret(name):
            raise ValueError(
                f"{name}: the values of a job's parameters are in the log for ever: "
                "name a secret in the 'parameters' of a vertex instead, as {secret: NAME}"
            )
    return parameters


Declared = Annotated[dict[Name, ParameterDocument], Field(max_length=MAX_PARAMETERS), BeforeValidator(check_names)]
"""What a document declares, by name."""


def parameter_documents(parameters: Iterable[JobParameter]) -> dict[str, dict[str, Any]]:
    """Return what a document says of these parameters.

    Raises:
        ValueError: two have one name, or a value is none of its type; with its place.

    """
    written: dict[str, dict[str, Any]] = {}
    for each in parameters:
        if each.name in written:
            raise ValueError(f"two have the name '{each.name[:64]}'")
        written[each.name] = {
            "type": type_name(each.parameter_type),
            "description": each.description,
            "affects_results": each.affects_results,
        }
        for key, text in (("default", each.default), ("value", each.value)):
            try:
                written[each.name][key] = json_value(each.parameter_type, text) if text is not None else None
            except ValueError as error:
                raise ValueError(f"{each.name[:64]}.{key}: {error}") from error
    return written


def shown_values(parameters: Iterable[JobParameter]) -> dict[str, object]:
    """Return the values by name as a document has them, without what nobody is shown."""
    return {
        each.name: without_secrets(each.name, json_value(each.parameter_type, each.value)) for each in parameters if each.value is not None
    }


def values_of(parameters: Iterable[JobParameter]) -> dict[str, Value]:
    """Return the values that a task is given, by name; raises as `read_value` does."""
    return {each.name: read_value(each.parameter_type, each.value) for each in parameters if each.value is not None}


def given_values(values: Mapping[str, object]) -> tuple[ParameterValue, ...]:
    """Return what a request says the parameters of a job are to be, which the leader knows and the client does not.

    Raises:
        ValueError: there are too many, one is nothing that a parameter may be, or is too long; with its name.

    """
    if len(values) > MAX_PARAMETERS:
        raise ValueError(f"{len(values)} values are given; a job has at most {MAX_PARAMETERS} parameters")
    given = []
    for name, value in values.items():
        if len(name) > MAX_NAME_LENGTH:
            raise ValueError(f"the name of a parameter has at most {MAX_NAME_LENGTH} characters, not {len(name)}")
        try:
            text = text_of(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        if len(text) > MAX_VALUE_LENGTH:
            raise ValueError(f"{name}: a value has at most {MAX_VALUE_LENGTH} characters, not {len(text)}")
        given.append(ParameterValue(name, text))
    return tuple(given)


def read_given(value: object) -> tuple[ParameterValue, ...]:
    """Return what a request says of parameters: in JSON a mapping, in Avro records.

    Raises:
        ValueError: it is neither, a name is there twice, or as `given_values` raises.

    """
    if isinstance(value, Mapping):
        return given_values(value)
    if not isinstance(value, tuple) or not all(isinstance(each, ParameterValue) for each in value):
        raise ValueError(f"must be a mapping of values by name, not {describe_value(value)}")
    by_name = {each.name: each.value for each in value}
    if len(by_name) < len(value):
        raise ValueError("a name is there twice")
    return given_values(by_name)
