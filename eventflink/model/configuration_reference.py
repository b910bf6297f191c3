"""Writes docs/generated/configuration.md from the model of the configuration, so that the two cannot differ.

`python -m eventflink.model.configuration_reference` prints the page, with `--write FILE` it writes it there. Nothing is described here that
`configuration.py` does not say itself: keys, types, defaults and meanings come from the fields, in their order.
"""

import sys
import types
import typing
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from eventflink.model.configuration import Configuration
from eventflink.model.generated_page import write_page
from eventflink.model.resources import parse_cpu_cores, parse_memory_size

_COMMAND: Final = "python -m eventflink.model.configuration_reference --write docs/generated/configuration.md"

_INTRODUCTION: Final = f"""\
# Configuration

<!-- Generated from eventflink/model/configuration.py: do not edit this page, run `{_COMMAND}`. -->

A process reads one YAML file: the one that `-c` or the environment variable `EVENTFLINK_CONFIG` names, or `eventflink.yaml` in a
directory named so or by `EVENTFLINK_CONF_DIR`, or else `conf/eventflink.yaml` of the working directory, or of the nearest one above that
has it and where it is this user's or root's; without any, all defaults hold. A relative path in a file of a directory called `conf`
begins at the directory that holds `conf`; elsewhere it begins at the working directory.
`eventflink config` shows what holds, and where it comes from. Keys are written flat (`heartbeat.interval: 1000`) or nested; `-D
key=value` on the command line comes before the file. `--bootstrap` and `--cluster-id` are short for the two keys of that name. An unknown
key, or a value of the wrong type or out of its bounds, is an error that names the key, and for an unknown key the nearest known one;
nothing is started then.

Durations are whole milliseconds. Sizes are bytes, or a whole number with `k`, `m`, `g` or `t` behind it (`512m`).
[conf/eventflink.yaml](../../conf/eventflink.yaml) holds every key with its default, commented out.

"""

_RULES: Final = """
## What must fit together

`taskmanager.self-fence-timeout` + `taskmanager.kill-timeout` must be less than `heartbeat.interval` * `heartbeat.missed-beats`: a
TaskExecutor that is cut off has ended its tasks before a master can declare it lost and start them elsewhere. All processes of one
cluster must agree on `cluster.id`, and masters and TaskExecutors on the heartbeat keys.

What a master decides with (restart and failover strategy, slot timeout, horizons, store capacity) is written into its decisions; replay
never asks the configuration, so a master that is configured differently reads the same state from the same log. A job keeps the strategies,
and the size of its exception history, with which it began.

While a cluster is upgraded, and a master is still there that knows neither exponential-delay nor failure-rate, jobs that would take these
as the cluster's default get a fixed delay instead: of `max-backoff` without limit, or of the failure rate's delay and number of failures;
and their failover strategy is region.
"""


def _type_of(annotation: Any) -> str:
    """Return what a person calls the type."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return _type_of(next(a for a in typing.get_args(annotation) if a is not type(None)))
    if typing.get_origin(annotation) is dict:
        return "texts"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "word"
    return {str: "text", int: "integer", Path: "path"}.get(annotation, getattr(annotation, "__name__", str(annotation)))


_PARSED: Final = {parse_memory_size: "size", parse_cpu_cores: "number"}


def _parsed_type(field: FieldInfo) -> str:
    """Return what a person calls a value that is read from a text; "" for the others."""
    return next((_PARSED[m.func] for m in field.metadata if isinstance(m, BeforeValidator) and m.func in _PARSED), "")


def _shown(value: Any) -> str:
    if value is PydanticUndefined:
        return "none: it must be given"
    if value is None or value in ("", {}):
        return "empty"
    if isinstance(value, StrEnum):
        return f"`{value.lower().replace('_', '-')}`"
    return f"`{value}`"


def _bounds_of(field: FieldInfo) -> str:
    """Return the bounds of a number, and the pattern of a text, as one phrase."""
    low = next(
        (str(m.ge) for m in field.metadata if isinstance(m, Ge)), next((f"> {m.gt}" for m in field.metadata if isinstance(m, Gt)), "")
    )
    high = next(
        (str(m.le) for m in field.metadata if isinstance(m, Le)), next((f"< {m.lt}" for m in field.metadata if isinstance(m, Lt)), "")
    )
    pattern = next((m.pattern for m in field.metadata if getattr(m, "pattern", None)), None)
    if low and high:
        return f"{low} to {high}"
    if low:
        return f"from {low}"
    if high:
        return f"up to {high}"
    return f"`{pattern}`" if pattern else ""


def plain_value(value: Any) -> Any:
    """Return a value as a configuration file would have it."""
    if isinstance(value, StrEnum):
        return value.lower().replace("_", "-")
    return str(value) if isinstance(value, Path) else value


class DescribedKey(NamedTuple):
    """What there is to say about a key."""

    key: str
    type_name: str
    default: Any
    bounds: str
    meaning: str


def describe_keys() -> Iterator[DescribedKey]:
    """Yield every key, in the order of the model."""
    for name, field in Configuration.model_fields.items():
        yield DescribedKey(
            field.alias or name,
            _parsed_type(field) or _type_of(field.annotation),
            field.default,
            _bounds_of(field),
            field.description or "",
        )


def render() -> str:
    """Return the page."""
    lines = ["| key | type | default | bounds | meaning |", "|---|---|---|---|---|"]
    for described in describe_keys():
        meaning = described.meaning.replace("|", "\\|")
        lines.append(f"| `{described.key}` | {described.type_name} | {_shown(described.default)} | {described.bounds} | {meaning} |")
    return _INTRODUCTION + "\n".join(lines) + "\n" + _RULES


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write the page; return the exit code."""
    return write_page(render, "eventflink.model.configuration_reference", arguments)


if __name__ == "__main__":
    sys.exit(main())
