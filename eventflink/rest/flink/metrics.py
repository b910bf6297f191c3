"""Metrics as Flink's REST API answers them, whatever they are of.

Without `get` their names are listed; with it the values of those that there are, and a name that there is not is left out. Flink writes
values as text, and what it makes of several as numbers. Routes need `response_model_exclude_none=True`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from statistics import mean
from typing import Annotated, Final

from fastapi import Query
from pydantic import Field

from eventflink.rest.errors import RestError
from eventflink.rest.flink.shapes import Shape

Names = Annotated[str | None, Query(alias="get", description="Comma-separated list of the metrics that are wanted.")]
Modes = Annotated[str | None, Query(alias="agg", description="Comma-separated list of min, max, avg, sum, skew; default: all.")]


class AggregationMode(StrEnum):
    """What is made of the values of several."""

    MIN = "min"
    MAX = "max"
    SUM = "sum"
    AVG = "avg"
    SKEW = "skew"


class MetricInfo(Shape):
    """A metric, and its value if that was asked for."""

    id: str
    value: str | None = Field(default=None)


class AggregatedMetric(Shape):
    """A metric of several, and what was made of its values if that was asked for."""

    id: str
    min: float | None = Field(default=None)
    max: float | None = Field(default=None)
    avg: float | None = Field(default=None)
    sum: float | None = Field(default=None)
    skew: float | None = Field(default=None)
    """How far they are from each other, in percent of their average, as Flink computes it."""


def metrics_of(values: Mapping[str, float], names: str | None) -> list[MetricInfo]:
    """Return the metrics that `get` names, or all without values."""
    if not names:
        return [MetricInfo(id=name) for name in values]
    return [MetricInfo(id=name, value=str(values[name])) for name in dict.fromkeys(names.split(",")) if name in values]


def aggregation_modes(modes: str | None) -> Collection[AggregationMode]:
    """Return what `agg` names; all if it names none.

    Raises:
        RestError: 400, there is no such mode.

    """
    if not modes:
        return tuple(AggregationMode)
    try:
        return [AggregationMode(mode.lower()) for mode in modes.split(",")]
    except ValueError as error:
        message = f"agg: {error}; there are {', '.join(AggregationMode)}"
        raise RestError(HTTPStatus.BAD_REQUEST, message) from error


def aggregate(sources: Collection[Mapping[str, float]], names: str | None, modes: Collection[AggregationMode]) -> list[AggregatedMetric]:
    """Return what the values of several sources add up to, of the metrics that `get` names, or the names of all."""
    known = dict.fromkeys(name for values in sources for name in values)
    if not names:
        return [AggregatedMetric(id=name) for name in known]
    wanted = [name for name in dict.fromkeys(names.split(",")) if name in known]
    return [_aggregated(name, [values[name] for values in sources if name in values], modes) for name in wanted]


def _aggregated(name: str, values: Sequence[float], modes: Collection[AggregationMode]) -> AggregatedMetric:
    return AggregatedMetric(id=name, **{mode.value: float(_AGGREGATIONS[mode](values)) for mode in modes})


def _skew(values: Sequence[float]) -> float:
    """Return the average distance from the average, in percent of it, at most 100."""
    average = mean(values)
    return min(100.0, 100.0 * (mean(abs(average - value) for value in values) / average)) if average else 0.0


_AGGREGATIONS: Final[dict[AggregationMode, Callable[[Sequence[float]], float]]] = {
    AggregationMode.MIN: min,
    AggregationMode.MAX: max,
    AggregationMode.AVG: mean,
    AggregationMode.SUM: sum,
    AggregationMode.SKEW: _skew,
}
